/* state.c - fuzz target: any text as state.conf; an accepted state is printed and read back
 * unchanged, and so is its schedule */
#include "lib/ckpt/state.h"
#include "lib/model/lr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An accepted schedule is printed and read back unchanged. */
static void
read_schedule(const char *line)
{
	struct lr_schedule s, again;
	struct str text = { 0 };

	if (lr_parse(line, &s, NULL) < 0)
		return;
	lr_print(&s, &text);
	if (lr_parse(text.buf, &again, NULL) < 0 || !lr_same(&s, &again))
		__builtin_trap();
	str_release(&text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run_state s, again;
	struct str text = { 0 }, a = { 0 }, b = { 0 };
	struct err e;

	str_add(&text, (const char *)data, size);
	if (state_parse(&s, text.buf, "fuzz", &e) == 0) {
		state_print(&s, &a);
		if (state_parse(&again, a.buf, "fuzz", &e) < 0)
			__builtin_trap();
		state_print(&again, &b);
		if (strcmp(a.buf, b.buf))
			__builtin_trap();
		if (s.schedule)
			read_schedule(s.schedule);
		state_release(&again);
	}
	state_release(&s);
	str_release(&text);
	str_release(&a);
	str_release(&b);
	return 0;
}

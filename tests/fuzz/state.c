/* state.c - fuzz target: any text as state.conf; an accepted state is printed and read back
 * unchanged */
#include "lib/ckpt/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
		state_release(&again);
	}
	state_release(&s);
	str_release(&text);
	str_release(&a);
	str_release(&b);
	return 0;
}

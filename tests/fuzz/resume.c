/* resume.c - fuzz target: any bytes as the state of a stopped run, after the description that it
 * requires */
#include "tests/fuzz/input.h"
#include "tok/resume.h"

/* An accepted state has no negative number. */
static void
check(const struct resume_state *s, const struct encode_counts *n)
{
	if (s->at.file < 0 || s->at.offset < 0 || s->at.lines < 0 || s->error_bytes < 0 ||
	    n->documents < 0)
		abort();
	for (int k = 0; k < n->num_keys; k++)
		if (s->key[k].bin_bytes < 0 || s->key[k].sequences < 0 || s->key[k].documents < 0)
			abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str what = { 0 }, file = { 0 };
	struct resume_key key[2] = { { 0 } };
	struct key_counts counts[2] = { { 0 } };
	struct resume_state s = { .key = key };
	struct encode_counts n = { .num_keys = 2, .num_tokenizers = 1, .key = counts };
	static struct input memory;
	struct err e;

	str_adds(&what, "mtok resume 1\noption --part \"\"\n");
	/* Half of the inputs are the whole file, half follow the description. */
	if (size & 1)
		str_add(&file, what.buf, what.len);
	str_add(&file, data, size);
	if (resume_read(input_file(&memory, file.buf, file.len), &what, &s, &n, &e) > 0)
		check(&s, &n);
	str_release(&what);
	str_release(&file);
	return 0;
}

/*
 * vocabulary.c PREFIX TOKENS STEP - a byte-level BPE of so many tokens, for benchmarks of
 * vocabularies
 *
 * PREFIX.json and PREFIX.txt. Token i >= 256 joins token (i - 256) / 256 and byte (i - 256) % 256,
 * so all are different, and fewer tokens are the first of more. The number of token i is i STEP
 * modulo TOKENS, which must have no common divisor.
 */
#include "lib/base/outfile.h"
#include "tests/tiny_bpe.h"

#include <stdlib.h>

/* The letters of a token's bytes. */
static void
spell(int64_t token, char *out)
{
	if (token >= 256) {
		spell((token - 256) / 256, out);
		out += strlen(out);
	}
	tiny_letter((int)(token % 256), out);
}

static int
write_text(const char *prefix, const char *suffix, struct str *text)
{
	struct str path = { 0 };
	struct err e;
	int rc;

	str_addf(&path, "%s%s", prefix, suffix);
	rc = outfile_write(path.buf, text->buf, text->len, &e);
	if (rc < 0)
		fprintf(stderr, "%s\n", e.msg);
	str_release(&path);
	str_release(text);
	return rc < 0;
}

int
main(int argc, char **argv)
{
	int64_t count = argc == 4 ? strtoll(argv[2], NULL, 10) : 0,
		step = argc == 4 ? strtoll(argv[3], NULL, 10) : 0;
	struct str vocab = { 0 }, merges = { 0 };
	char name[64], left[64];

	if (count <= 256 || step < 1) {
		fprintf(stderr, "usage: vocabulary PREFIX TOKENS STEP\n");
		return 2;
	}
	str_adds(&merges, "#version: 0.2\n");
	for (int64_t i = 0; i < count; i++) {
		spell(i, name);
		str_addc(&vocab, i ? ',' : '{');
		str_add_json(&vocab, name, strlen(name));
		str_addf(&vocab, ":%lld", (long long)(i * step % count));
		if (i < 256)
			continue;
		spell((i - 256) / 256, left);
		str_addf(&merges, "%s %s\n", left, name + strlen(left));
	}
	str_adds(&vocab, "}");
	return write_text(argv[1], ".json", &vocab) | write_text(argv[1], ".txt", &merges);
}

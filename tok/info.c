/*
 * info.c - what `mtok info` prints
 *
 * Rows of item and value, so that a script can look one up; training compares the hash with those
 * in the dataset's notes and in checkpoints.
 */
#include "tok/check.h"
#include "tok/info.h"

#include <string.h>

/* Special ids that the tokenizer lacks are -1. The caller finds errors of out when it closes it. */
static void
info_print(const struct tokenizer *t, int64_t checked, FILE *out)
{
	fprintf(out, "type\t%s\nvocab_size\t%lld\n", tokenizer_type(t),
	    (long long)tokenizer_vocab_size(t));
	for (int i = 0; i < TOKENIZER_SPECIALS; i++)
		fprintf(out, "%s_id\t%lld\n", tokenizer_special_name((enum tokenizer_special)i),
		    (long long)tokenizer_special(t, (enum tokenizer_special)i));
	fprintf(out, "hash\t%s\n", tokenizer_hash(t));
	if (tokenizer_like(t))
		fprintf(out, "like\t%s\n", tokenizer_like(t));
	for (int i = 0; i < tokenizer_num_files(t); i++)
		fprintf(out, "file\t%s\n", tokenizer_file(t, i));
	if (checked)
		fprintf(out, "checked\t%lld\n", (long long)checked);
}

/* The same as one line of JSON. */
static void
info_json(const struct tokenizer *t, int64_t checked, FILE *out)
{
	struct str s = { 0 };

	str_adds(&s, "{\"type\": ");
	str_add_json(&s, tokenizer_type(t), strlen(tokenizer_type(t)));
	str_addf(&s, ", \"vocab_size\": %lld", (long long)tokenizer_vocab_size(t));
	for (int i = 0; i < TOKENIZER_SPECIALS; i++)
		str_addf(&s, ", \"%s_id\": %lld", tokenizer_special_name((enum tokenizer_special)i),
		    (long long)tokenizer_special(t, (enum tokenizer_special)i));
	str_addf(&s, ", \"hash\": \"%s\"", tokenizer_hash(t));
	if (tokenizer_like(t))
		str_addf(&s, ", \"like\": \"%s\"", tokenizer_like(t));
	str_adds(&s, ", \"files\": [");
	for (int i = 0; i < tokenizer_num_files(t); i++) {
		str_adds(&s, i ? ", " : "");
		str_add_json(&s, tokenizer_file(t, i), strlen(tokenizer_file(t, i)));
	}
	str_adds(&s, "]");
	if (checked)
		str_addf(&s, ", \"checked\": %lld", (long long)checked);
	str_adds(&s, "}\n");
	str_put(&s, out);
	str_release(&s);
}

/* Texts are JSON strings, since pieces may hold tabs, line feeds and bytes that are not UTF-8; one
 * buffer serves all rows. */
static void
info_pieces(const struct tokenizer *t, FILE *out)
{
	static const char *const types[] = { "normal", "unknown", "control", "byte", "unused" };
	struct str s = { 0 };

	fputs("id\tpiece\tscore\ttype\n", out);
	for (int64_t i = 0; i < tokenizer_vocab_size(t); i++) {
		struct tokenizer_piece p = tokenizer_piece_at(t, i);

		str_clear(&s);
		str_add_json(&s, p.bytes, p.len);
		fprintf(out, "%lld\t%s\t%.9g\t%s\n", (long long)i, s.buf, (double)p.score,
		    types[p.type]);
	}
	str_release(&s);
}

/* Nothing is printed unless all texts agree. */
int
info_report(const struct tokenizer *t, const struct info_config *c, FILE *out, struct err *e)
{
	int64_t checked = c->check ? check_ids(t, c->check, e) : 0;

	if (checked < 0)
		return -1;
	if (c->pieces)
		info_pieces(t, out);
	else if (c->json)
		info_json(t, checked, out);
	else
		info_print(t, checked, out);
	return 0;
}

/*
 * head.c - documents as their ids or as their text
 *
 * A row is a sequence, since training makes samples from those; its number is the one in the
 * document index of a split.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "shard/shard.h"

#include <stdlib.h>

/* *t is NULL when the options name no tokenizer. */
int
shard_tokenizer(const struct tokenizer_spec *spec, struct tokenizer **t, struct err *e)
{
	*t = NULL;
	if (!spec->type && !spec->model && !spec->vocab && !spec->merges)
		return 0;
	*t = tokenizer_open(spec, e);
	return *t ? 0 : -1;
}

int
shard_add_text(const struct tokenizer *t, const struct shard_ids *ids, size_t most, struct str *out,
    struct err *e)
{
	struct str text = { 0 }, clean = { 0 };
	struct token_ids known = { 0 };
	struct tokenizer_worker *w = tokenizer_worker_new(t);
	int rc = tokenizer_check_ids(t, ids->id, (size_t)ids->count, &known, e);

	if (rc == 0)
		rc = tokenizer_decode(w, &known, false, &text, e);
	if (rc == 0) {
		utf8_repair(text.buf, text.len < most ? text.len : most, &clean);
		str_add_json(out, clean.buf, clean.len);
	}
	tokenizer_worker_free(w);
	token_ids_release(&known);
	str_release(&text);
	str_release(&clean);
	return rc;
}

/* The last column of a row, in either form. Text is a JSON string, since it may hold tabs and line
 * feeds; malformed UTF-8, from a truncated character, becomes U+FFFD. */
int
shard_add_ids(
    const struct tokenizer *t, const int64_t *ids, int64_t count, struct str *out, struct err *e)
{
	if (t && shard_add_text(t, &(struct shard_ids){ ids, count }, SIZE_MAX, out, e) < 0)
		return -1;
	for (int64_t i = 0; i < count && !t; i++)
		str_addf(out, i ? " %lld" : "%lld", (long long)ids[i]);
	str_addc(out, '\n');
	return 0;
}

/* The row being built. Each is printed when it is complete, the first one after the column
 * names. */
struct printing {
	const struct head_config *c;
	const struct dataset *d;
	struct str row;
	FILE *out;
};

/* Appends where a sequence counts: runs of ones as FIRST+COUNT. */
static int
add_mask(struct printing *p, int64_t sequence, int64_t len, struct err *e)
{
	uint8_t *mask = mem_alloc((size_t)len + 1, 1);
	int rc = dataset_weights(p->d, sequence, 0, len, mask, e);
	const char *blank = "";

	for (int64_t i = 0, n; rc == 0 && i < len; i += n) {
		for (n = 1; i + n < len && mask[i + n] == mask[i]; n++)
			;
		if (!mask[i])
			continue;
		str_addf(&p->row, "%s%lld+%lld", blank, (long long)i, (long long)n);
		blank = " ";
	}
	str_addc(&p->row, '\t');
	free(mask);
	return rc;
}

/* Prints one row, or none of it when its tokens cannot be read. */
static int
print_sequence(struct printing *p, int64_t document, int64_t sequence, struct err *e)
{
	int64_t len = dataset_length(p->d, sequence), *ids = mem_alloc((size_t)len, sizeof *ids);
	struct err why;
	int rc = dataset_tokens(p->d, sequence, 0, len, ids, e);

	if (rc == 0) {
		str_addf(&p->row, "%lld\t%lld\t%lld\t", (long long)document, (long long)sequence,
		    (long long)len);
		rc = dataset_mask(p->d) ? add_mask(p, sequence, len, e) : 0;
	}
	if (rc == 0) {
		rc = shard_add_ids(p->c->tokenizer, ids, len, &p->row, &why);
		if (rc == 0)
			str_put(&p->row, p->out);
		else
			err_set(e, "%s: sequence %lld: %s", dataset_prefix(p->d),
			    (long long)sequence, why.msg);
	}
	free(ids);
	return rc;
}

/* Stops early when the reader is gone. -1 when the first document is past the end; fewer than
 * requested are not an error. An empty document, which has no sequence, gives the row "document -
 * 0". */
int
shard_head(const struct head_config *c, const char *prefix, FILE *out, struct err *e)
{
	struct dataset *d = shard_open(prefix, e);
	struct printing p = { .c = c, .d = d, .out = out };
	int64_t total;
	int rc = 0;

	if (!d)
		return -1;
	total = dataset_num_documents(d);
	if (c->document > 0 && c->document >= total)
		rc = err_at(e, prefix, 0,
		    "document %lld: must be below %lld, the number of documents",
		    (long long)c->document, (long long)total);
	else
		str_addf(&p.row, "document\tsequence\ttokens\t%s%s\n",
		    dataset_mask(d) ? "mask\t" : "", c->tokenizer ? "text" : "ids");
	for (int64_t k = c->document;
	     rc == 0 && k < total && k - c->document < c->count && !ferror(out); k++) {
		int64_t begin = dataset_document_start(d, k),
			end = dataset_document_start(d, k + 1);

		if (begin == end) {
			str_addf(&p.row, "%lld\t-\t0\t%s%s\n", (long long)k,
			    dataset_mask(d) ? "\t" : "", c->tokenizer ? "\"\"" : "");
			str_put(&p.row, out);
		}
		for (int64_t s = begin; s < end && rc == 0; s++)
			rc = print_sequence(&p, k, s, e);
	}
	if (rc == 0)
		str_put(&p.row, out);
	str_release(&p.row);
	dataset_close(d);
	return rc;
}

/*
 * report.c - counts in words, tables and JSON
 *
 * TSV and JSON for machines, words for people; the caller chooses the stream. Nothing is computed
 * here that a reader could not compute from the columns.
 */
#include "tok/report.h"

#include <string.h>

/* A row of all tables: the counts of one tokenizer and key. */
struct row {
	const char *tokenizer, *key;
	int64_t documents;
	const struct key_counts *n;
};

/* Row i of the run. A tokenizer is called by its first file, or by its type where it has none. */
static struct row
row_at(const struct encode *x, const struct opt_list *keys, int i)
{
	const struct encode_counts *n = encode_counts(x);
	const struct tokenizer *t = encode_tokenizer(x, i / n->num_keys);

	return (struct row){ tokenizer_num_files(t) ? tokenizer_file(t, 0) : tokenizer_type(t),
		keys->item[i % n->num_keys], n->documents, &n->key[i] };
}

/* One per key and tokenizer. */
static int
num_rows(const struct encode *x)
{
	return encode_counts(x)->num_keys * encode_counts(x)->num_tokenizers;
}

/* 0 where nothing was encoded. */
static double
ratio(int64_t bytes, int64_t tokens)
{
	return tokens ? (double)bytes / (double)tokens : 0.0;
}

/* Documents are those of the run, the same in each row; bytes are those of the text before
 * encoding, without JSON's escapes. */
static void
print_counts(const struct encode *x, const struct opt_list *keys, FILE *out)
{
	fputs(
	    "tokenizer\tkey\tdocuments\tsequences\tbytes\ttokens\tbytes_per_token\tlongest\n", out);
	for (int i = 0; i < num_rows(x); i++) {
		struct row r = row_at(x, keys, i);

		fprintf(out, "%s\t%s\t%lld\t%lld\t%lld\t%lld\t%.4f\t%lld\n", r.tokenizer, r.key,
		    (long long)r.documents, (long long)r.n->sequences, (long long)r.n->bytes,
		    (long long)r.n->tokens, ratio(r.n->bytes, r.n->tokens),
		    (long long)r.n->longest);
	}
}

/* The first length of a bucket: 0, 1, 2, 4, 8, ... */
static long long
bucket_from(int b)
{
	return b ? 1LL << (b - 1) : 0;
}

/* The last length of a bucket. */
static long long
bucket_to(int b)
{
	return b ? (1LL << b) - 1 : 0;
}

/* Buckets without a document are left out. */
static void
print_histogram(const struct encode *x, const struct opt_list *keys, FILE *out)
{
	fputs("tokenizer\tkey\tfrom\tto\tdocuments\n", out);
	for (int i = 0; i < num_rows(x); i++) {
		struct row r = row_at(x, keys, i);

		for (int b = 0; b < LENGTH_BUCKETS; b++)
			if (r.n->bucket[b])
				fprintf(out, "%s\t%s\t%lld\t%lld\t%lld\n", r.tokenizer, r.key,
				    bucket_from(b), bucket_to(b), (long long)r.n->bucket[b]);
	}
}

/* ", "name": "text"" with the text escaped. */
static void
add_text(struct str *out, const char *name, const char *text)
{
	str_addf(out, "\"%s\": ", name);
	str_add_json(out, text, strlen(text));
	str_adds(out, ", ");
}

/* The members of one row, without braces. */
static void
add_row(struct str *out, const struct row *r)
{
	add_text(out, "key", r->key);
	str_addf(out,
	    "\"documents\": %lld, \"sequences\": %lld, \"bytes\": %lld, \"tokens\": %lld, "
	    "\"bytes_per_token\": %.4f, "
	    "\"longest\": %lld",
	    (long long)r->documents, (long long)r->n->sequences, (long long)r->n->bytes,
	    (long long)r->n->tokens, ratio(r->n->bytes, r->n->tokens), (long long)r->n->longest);
}

/* One object a line. */
static void
print_counts_json(const struct encode *x, const struct opt_list *keys, FILE *out)
{
	for (int i = 0; i < num_rows(x); i++) {
		struct row r = row_at(x, keys, i);
		struct str s = { 0 };
		int shown = 0;

		str_addc(&s, '{');
		add_text(&s, "tokenizer", r.tokenizer);
		add_row(&s, &r);
		str_adds(&s, ", \"histogram\": [");
		for (int b = 0; b < LENGTH_BUCKETS; b++)
			if (r.n->bucket[b])
				str_addf(&s,
				    "%s{\"from\": %lld, \"to\": %lld, \"documents\": %lld}",
				    shown++ ? ", " : "", bucket_from(b), bucket_to(b),
				    (long long)r.n->bucket[b]);
		str_adds(&s, "]}\n");
		str_put(&s, out);
		str_release(&s);
	}
}

/* The keys as a list of objects, since users choose their names. */
static void
print_run_json(const struct encode *x, const struct opt_list *keys, double seconds, FILE *out)
{
	const struct encode_counts *n = encode_counts(x);
	struct str s = { 0 };
	int shown = 0;

	str_addf(&s, "{\"documents\": %lld, \"input_bytes\": %lld, \"seconds\": %.3f, ",
	    (long long)n->documents, (long long)n->input_bytes, seconds);
	str_addf(&s, "\"blank_lines\": %lld, \"skipped_lines\": {", (long long)n->blank);
	for (int i = 0; i < JSONL_CLASSES; i++)
		if (n->bad[i])
			str_addf(&s, "%s\"%s\": %lld", shown++ ? ", " : "", jsonl_class_name[i],
			    (long long)n->bad[i]);
	str_adds(&s, "}, \"keys\": [");
	for (int k = 0; k < n->num_keys; k++) {
		struct row r = row_at(x, keys, k);

		str_adds(&s, k ? ", {" : "{");
		add_row(&s, &r);
		str_addc(&s, '}');
	}
	str_adds(&s, "]}\n");
	str_put(&s, out);
	str_release(&s);
}

/* The caller finds errors of out when it closes it. */
void
report_run(const struct encode_config *c, const struct encode *x, double seconds, FILE *out)
{
	const struct opt_list *keys = &c->json_keys;

	if (c->output_prefix && c->json)
		print_run_json(x, keys, seconds, out);
	else if (!c->output_prefix && c->json)
		print_counts_json(x, keys, out);
	else if (!c->output_prefix && c->histogram)
		print_histogram(x, keys, out);
	else if (!c->output_prefix)
		print_counts(x, keys, out);
}

/* Appends nothing when no line was bad, so an empty text means none. */
void
report_skipped(const struct encode_counts *n, struct str *out)
{
	for (int i = 0; i < JSONL_CLASSES; i++)
		if (n->bad[i])
			str_addf(out, "%s%lld %s", out->len ? ", " : "", (long long)n->bad[i],
			    jsonl_class_name[i]);
}

/* The sum over all keys, with the first tokenizer. */
static int64_t
all_tokens(const struct encode_counts *n)
{
	int64_t tokens = 0;

	for (int k = 0; k < n->num_keys; k++)
		tokens += n->key[k].tokens;
	return tokens;
}

/* Megabytes of lines that this run has read itself. */
static double
megabytes(const struct encode_counts *n)
{
	return (double)(n->input_bytes - n->input_before) / 1e6;
}

/* The time left follows from the bytes of the files, where they are known. */
void
report_progress(const struct encode_counts *n, double seconds, struct str *out)
{
	double done = (double)(n->stored - n->stored_before),
	       left = (double)(n->stored_total - n->stored);

	str_addf(out, "%lld documents, %lld tokens, %.1f MB, %.1f MB/s", (long long)n->documents,
	    (long long)all_tokens(n), megabytes(n), megabytes(n) / seconds);
	if (n->stored_total > 0 && done > 0) {
		long long wait = left > 0 ? (long long)(seconds * left / done) : 0;

		str_addf(out, ", %.0f %%, %lld:%02lld:%02lld left",
		    left > 0 ? 100 - 100 * left / (double)n->stored_total : 100, wait / 3600,
		    wait / 60 % 60, wait % 60);
	}
}

/* Bytes are those of the decompressed lines; documents and tokens those of the dataset, those of an
 * earlier run included. */
void
report_summary(const struct encode_counts *n, double seconds, struct str *out)
{
	str_addf(out, "%lld documents, %lld tokens, %.1f MB in %.1f s (%.1f MB/s)",
	    (long long)n->documents, (long long)all_tokens(n), megabytes(n), seconds,
	    megabytes(n) / seconds);
}

/*
 * spm.c - MB/s of encoding with a SentencePiece model, ours and libsentencepiece's, in one thread
 *
 *   spm MODEL CORPUS.jsonl [PEER_MEGABYTES]
 *
 * A new worker encodes all documents once; then the library encodes the first PEER_MEGABYTES (10^6
 * bytes, 10 by default) of them, and its ids are compared with ours. Prints both rates, by user CPU
 * time, and their ratio. Reading and JSON are not timed. Different ids are an error.
 */
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/token/spm/spm.h"
#include "tests/spm_oracle.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Texts one after another; start[i] to start[i + 1] is one. */
struct corpus {
	struct str text;
	size_t *start, count, cap;
};

static int
read_corpus(struct corpus *c, const char *path, struct err *e)
{
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t cap = 0;

	if (!f)
		return err_sys(e, "open", path);
	for (ssize_t n; (n = getline(&line, &cap, f)) > 0;) {
		struct json *j = json_parse(line, (size_t)n, path, e);
		const char *text = NULL;

		if (!j || json_string(json_root(j), "text", "", &text, e) < 0)
			return -1;
		if (c->count + 1 >= c->cap) {
			c->cap = 2 * c->cap + 1024;
			c->start = mem_realloc(c->start, c->cap, sizeof *c->start);
		}
		c->start[c->count++] = c->text.len;
		str_adds(&c->text, text);
		c->start[c->count] = c->text.len;
		json_free(j);
	}
	free(line);
	fclose(f);
	return 0;
}

static double
user_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)u.ru_utime.tv_sec + 1e-6 * (double)u.ru_utime.tv_usec;
}

/* MB/s of ours. */
static double
time_ours(const struct spm *m, const struct corpus *c)
{
	struct spm_worker *w = spm_worker_new(m);
	struct token_ids ids = { 0 };
	struct err e;
	double start = user_seconds();

	for (size_t i = 0; i < c->count; i++) {
		ids.count = 0;
		if (spm_encode(m, w, c->text.buf + c->start[i], c->start[i + 1] - c->start[i], &ids,
			&e) < 0)
			fprintf(stderr, "%s\n", e.msg);
	}
	start = user_seconds() - start;
	spm_worker_free(w);
	token_ids_release(&ids);
	return (double)c->text.len / 1e6 / start;
}

/* MB/s of the library over the first documents. */
static double
time_peer(struct oracle *o, const struct corpus *c, size_t documents)
{
	double start = user_seconds();
	size_t count;

	for (size_t i = 0; i < documents; i++)
		if (!oracle_encode(
			o, c->text.buf + c->start[i], c->start[i + 1] - c->start[i], &count))
			fprintf(stderr, "the library fails\n");
	return (double)c->start[documents] / 1e6 / (user_seconds() - start);
}

/* The number of the first documents for which the library gives different ids. */
static int
compare(const struct spm *m, struct oracle *o, const struct corpus *c, size_t documents)
{
	struct spm_worker *w = spm_worker_new(m);
	struct token_ids ids = { 0 };
	struct err e;
	int differ = 0;

	for (size_t i = 0; i < documents; i++) {
		const char *text = c->text.buf + c->start[i];
		size_t len = c->start[i + 1] - c->start[i], count;
		const int *want = oracle_encode(o, text, len, &count);

		ids.count = 0;
		if (spm_encode(m, w, text, len, &ids, &e) < 0 || !want || count != ids.count ||
		    memcmp(want, ids.id, count * sizeof *want) != 0)
			differ++;
	}
	spm_worker_free(w);
	token_ids_release(&ids);
	return differ;
}

int
main(int argc, char **argv)
{
	struct corpus c = { 0 };
	struct err e;
	struct oracle *o;
	struct spm *m;
	char *model;
	size_t len, documents = 0;
	double ours, peer, most = argc > 3 ? atof(argv[3]) * 1e6 : 1e7;
	int differ;

	if (argc < 3)
		return fputs("usage: spm MODEL CORPUS.jsonl [PEER_MEGABYTES]\n", stderr), 2;
	if (io_read_file(argv[1], 0, &model, &len, &e) < 0 || read_corpus(&c, argv[2], &e) < 0)
		return fprintf(stderr, "%s\n", e.msg), 1;
	while (documents < c.count && (double)c.start[documents] < most)
		documents++;
	o = oracle_new(model, len);
	m = spm_new(model, len, UNIGRAM_TIES_0_2_1, argv[1], &e);
	if (!o || !m)
		return fprintf(stderr, "%s\n", m ? "the library refuses the model" : e.msg), 1;
	ours = time_ours(m, &c);
	peer = time_peer(o, &c, documents);
	differ = compare(m, o, &c, documents);
	printf("%.1f\t%.1f\t%.1f\n", ours, peer, ours / peer);
	if (differ)
		fprintf(stderr, "%d documents differ\n", differ);
	oracle_free(o);
	spm_free(m);
	str_release(&c.text);
	free(c.start);
	return differ != 0;
}

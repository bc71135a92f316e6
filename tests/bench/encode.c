/*
 * encode.c - MB/s of encoding alone: one thread, documents in memory, a new worker
 *
 *   encode MODEL|VOCAB,MERGES TYPE CORPUS.jsonl
 *
 * Prints open_ms, bytes, tokens and MB/s of processor time, first for a worker with empty caches,
 * then for the same worker again. Reading and JSON are not timed.
 */
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/token/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct corpus {
	struct str text;
	size_t *start, count, cap;
};

/* CPU seconds of this thread, so that other load on the machine does not count. */
static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void
add(struct corpus *c, const char *text)
{
	if (c->count + 1 >= c->cap) {
		c->cap = 2 * c->cap + 1024;
		c->start = mem_realloc(c->start, c->cap, sizeof *c->start);
	}
	c->start[c->count++] = c->text.len;
	str_adds(&c->text, text);
	c->start[c->count] = c->text.len;
}

static int
read_corpus(struct corpus *c, const char *path, struct err *e)
{
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	int rc = f ? 0 : err_sys(e, "open", path);

	while (rc == 0 && (n = getline(&line, &cap, f)) > 0) {
		struct json *j = json_parse(line, (size_t)n, path, e);
		const char *text = NULL;

		if (!j || json_string(json_root(j), "text", NULL, &text, e) < 0)
			rc = -1;
		else if (text)
			add(c, text);
		json_free(j);
	}
	free(line);
	if (f)
		fclose(f);
	return rc;
}

static void
pass(struct tokenizer_worker *w, const struct corpus *c, const char *name)
{
	struct token_ids ids = { 0 };
	double start = now(), seconds;
	size_t tokens = 0;
	struct err e;

	for (size_t i = 0; i < c->count; i++) {
		ids.count = 0;
		if (tokenizer_encode(
			w, c->text.buf + c->start[i], c->start[i + 1] - c->start[i], &ids, &e) < 0)
			exit(1);
		tokens += ids.count;
	}
	seconds = now() - start;
	printf("%s\t%.1f MB/s\t%zu bytes\t%zu tokens\t%.2f ns/token\n", name,
	    (double)c->text.len / seconds / 1e6, c->text.len, tokens,
	    seconds / (double)tokens * 1e9);
	token_ids_release(&ids);
}

int
main(int argc, char **argv)
{
	struct tokenizer_spec spec = { 0 };
	struct tokenizer_worker *w;
	struct corpus c = { 0 };
	struct tokenizer *t;
	double start;
	char *comma;
	struct err e;

	if (argc != 4)
		return fputs("usage: encode MODEL|VOCAB,MERGES TYPE CORPUS.jsonl\n", stderr), 2;
	comma = strchr(argv[1], ',');
	if (comma) {
		*comma = '\0';
		spec.vocab = argv[1];
		spec.merges = comma + 1;
	} else {
		spec.model = argv[1];
	}
	spec.type = argv[2];
	start = now();
	t = tokenizer_open(&spec, &e);
	if (!t || read_corpus(&c, argv[3], &e) < 0)
		return fprintf(stderr, "encode: %s\n", e.msg), 1;
	w = tokenizer_worker_new(t);
	pass(w, &c, "cold");
	pass(w, &c, "again");
	tokenizer_worker_free(w);
	start = now();
	tokenizer_close(tokenizer_open(&spec, &e));
	printf("open\t%.1f ms\n", 1e3 * (now() - start));
	tokenizer_close(t);
	return 0;
}

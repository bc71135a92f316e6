/*
 * fim_stream.c - fim_stream OPTION...: samples rearranged one after the other with one generator,
 * as Megatron-LM does by itself
 *
 * Options are those of mshard sample for --fim-data and its tokenizer, and --seed. Samples come
 * from standard input, their ids between blanks, one a line, and go to standard output likewise.
 */
#include "lib/base/mem.h"
#include "lib/base/opt.h"
#include "lib/base/prog.h"
#include "lib/token/options.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

struct config {
	struct tokenizer_spec tokenizer; /* first, as its rows want it */
	struct fim_options fim;
	int64_t seed;
};

static const struct opt opts[] = { { .name = "seed",
				       .type = OPT_INT,
				       .off = offsetof(struct config, seed),
				       .max = UINT32_MAX },
	FIM_OPTS(offsetof(struct config, fim)), TOKENIZER_OPTS, OPT_END };

/* Rearranges and prints the sample of a line. */
static void
sample(struct fim *f, struct mt19937 *draws, const char *line, int64_t *ids)
{
	int64_t n = 0;
	char *end;
	struct err e;

	for (;; line = end) {
		long long id = strtoll(line, &end, 10);

		if (end == line)
			break;
		ids[n++] = id;
	}
	if (fim_rearrange(f, draws, ids, n, &e) < 0)
		die("%s", e.msg);
	for (int64_t i = 0; i < n; i++)
		printf("%s%" PRId64, i ? " " : "", ids[i]);
	putchar('\n');
}

int
main(int argc, char **argv)
{
	struct config c = { 0 };
	struct opt_parse p;
	struct tokenizer *t;
	struct mt19937 draws;
	struct fim *f;
	struct err e;
	char *line = NULL;
	size_t cap = 0;

	prog_begin(argv[0]);
	opt_begin(&p, opts, &c);
	if (opt_argv(&p, &argc, &argv, &e) < 0 || !(t = tokenizer_open(&c.tokenizer, &e)) ||
	    !(f = fim_new(t, &c.fim, &e)))
		die("%s", e.msg);
	mt19937_seed(&draws, (uint32_t)c.seed);
	while (getline(&line, &cap, stdin) > 0) {
		int64_t *ids = mem_alloc(cap, sizeof *ids);

		sample(f, &draws, line, ids);
		free(ids);
	}
	free(line);
	fim_free(f);
	tokenizer_close(t);
	opt_release(&p);
	return prog_end(EXIT_SUCCESS);
}

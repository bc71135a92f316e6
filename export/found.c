/*
 * found.c - the tokenizer of the run that made a checkpoint
 *
 * The paths are as the run had them, so they may lead elsewhere from here: only the hash tells.
 */
#include "export/found.h"
#include "lib/token/tokenizer.h"

#include <stddef.h>
#include <string.h>

#define FIELD(f) offsetof(struct found_tokenizer, f)

static const struct opt rows[] = {
	{ .name = "tokenizer-type", .type = OPT_STRING, .off = FIELD(type) },
	{ .name = "tokenizer-model", .type = OPT_STRING, .off = FIELD(model) },
	{ .name = "vocab-file", .type = OPT_STRING, .off = FIELD(vocab) },
	{ .name = "merge-file", .type = OPT_STRING, .off = FIELD(merges) },
	OPT_END,
};

/* All other options of the run. */
static int
skip(const char *name, const char *value, struct err *e)
{
	(void)name;
	(void)value;
	(void)e;
	return 0;
}

/* Whether the files are those of the run, and have no more tokens than the model. */
static int
compare(const struct found_tokenizer *f, const struct source *s, struct err *why)
{
	struct tokenizer_spec spec = {
		.type = f->type, .model = f->model, .vocab = f->vocab, .merges = f->merges
	};
	struct tokenizer *t = tokenizer_open(&spec, why);
	const char *hash = s->state.tokenizer, *name = f->model ? f->model : f->vocab;
	int rc = t ? 0 : -1;

	if (t && hash && strcmp(tokenizer_hash(t), hash) != 0)
		rc = err_set(why, "'%s' is another tokenizer (hash %s) than the run's (%s)", name,
		    tokenizer_hash(t), hash);
	else if (t && tokenizer_vocab_size(t) > s->config.vocab_size)
		rc = err_set(why,
		    "'%s' has %lld tokens, but the model's vocabulary has only %lld rows", name,
		    (long long)tokenizer_vocab_size(t), (long long)s->config.vocab_size);
	tokenizer_close(t);
	return rc;
}

/* The tokenizer that the options of the run name. */
static bool
open_named(struct found_tokenizer *f, const struct source *s, struct err *why)
{
	opt_begin(&f->parse, rows, f);
	f->parse.unknown = skip;
	f->parsed = true;
	if (opt_text(&f->parse, s->path, s->options.buf ? s->options.buf : "", false, why) < 0)
		return false;
	if (!f->model && (!f->vocab || !f->merges))
		return false;
	return compare(f, s, why) == 0;
}

bool
found_open(struct found_tokenizer *f, const struct source *s, const char *origin, struct err *why)
{
	struct err of_origin;

	why->msg[0] = '\0';
	if (open_named(f, s, why))
		return true;
	if (!origin)
		return false;
	f->type = f->vocab = f->merges = NULL;
	f->model = origin;
	if (compare(f, s, &of_origin) == 0)
		return true;
	if (!why->msg[0])
		*why = of_origin;
	return false;
}

void
found_release(struct found_tokenizer *f)
{
	if (f->parsed)
		opt_release(&f->parse);
	f->parsed = false;
}

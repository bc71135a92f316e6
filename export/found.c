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

/* Whether the files are those of the run. */
static int
compare(const struct found_tokenizer *f, const char *hash, struct err *why)
{
	struct tokenizer_spec spec = {
		.type = f->type, .model = f->model, .vocab = f->vocab, .merges = f->merges
	};
	struct tokenizer *t = tokenizer_open(&spec, why);
	int rc = t ? 0 : -1;

	if (t && hash && strcmp(tokenizer_hash(t), hash) != 0)
		rc = err_set(why, "'%s' is another tokenizer (hash %s) than the run's (%s)",
		    f->model ? f->model : f->vocab, tokenizer_hash(t), hash);
	tokenizer_close(t);
	return rc;
}

bool
found_open(struct found_tokenizer *f, const struct source *s, struct err *why)
{
	why->msg[0] = '\0';
	opt_begin(&f->parse, rows, f);
	f->parse.unknown = skip;
	f->parsed = true;
	if (opt_text(&f->parse, s->path, s->options.buf ? s->options.buf : "", false, why) < 0)
		return false;
	if (!f->model && (!f->vocab || !f->merges))
		return false;
	return compare(f, s->state.tokenizer, why) == 0;
}

void
found_release(struct found_tokenizer *f)
{
	if (f->parsed)
		opt_release(&f->parse);
	f->parsed = false;
}

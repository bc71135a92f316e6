/* found.h - the tokenizer of the run that made a checkpoint */
#ifndef EXPORT_FOUND_H
#define EXPORT_FOUND_H

#include "lib/base/opt.h"
#include "lib/ckpt/source.h"

/* Files by the options of the run; NULL: not given. Zero-initialise; found_release. */
struct found_tokenizer {
	const char *type, *model, *vocab, *merges;
	struct opt_parse parse;
	bool parsed;
};

/* True when the run's options name a tokenizer that is here and has the hash that the checkpoint
 * recorded, or else origin does, the tokenizer.json of the model that the run began with; NULL:
 * there is none. Else why says what is missing; empty: the run named none. */
bool found_open(
    struct found_tokenizer *f, const struct source *s, const char *origin, struct err *why);
void found_release(struct found_tokenizer *f);

#endif

/*
 * origin.h - the files that lay beside the weights that a run began with
 *
 * A checkpoint records the directory, and name and sum of each (lib/ckpt/hf_files.h). What is not
 * as it was is a note: they may be elsewhere now, or belong to another release of the model.
 */
#ifndef EXPORT_ORIGIN_H
#define EXPORT_ORIGIN_H

#include "export/extras.h"
#include "lib/ckpt/hf_files.h"
#include "lib/ckpt/state.h"

/* Zero-initialise; origin_release. */
struct origin {
	const char *dir;       /* the state's */
	struct hf_files files; /* recorded and there */
	char *tokenizer;       /* its tokenizer.json, if that is as it was; else NULL */
	uint64_t sum;          /* of that file */
};

/* Looks at what the state records. */
void origin_open(struct origin *o, const struct run_state *s, struct str *notes);
/* Adds to the files of an export those that it lacks: generation_config.json, and to this
 * tokenizer.json the others, if it is the origin's. What cannot be read is a note. */
void origin_extras(
    const struct origin *o, const struct str *json, struct extras *x, struct str *notes);
void origin_release(struct origin *o);

#endif

/*
 * encode.h - JSON Lines to datasets, or to counts
 *
 * Follows Megatron-LM's preprocess_data.py: one dataset per key, documents in the order of the
 * lines, a string is one sequence, a list is one document of several, an eod follows the last
 * sequence of a document that is not empty, an empty document has an entry but no sequence. The
 * bytes written do not depend on the number of workers, nor on whether the run was stopped and
 * resumed.
 */
#ifndef TOK_ENCODE_H
#define TOK_ENCODE_H

#include "tok/encoding.h"

struct encode;

/* Checks everything that can be checked before the first line: tokenizer, eod, inputs, targets.
 * NULL: nothing was written. The configuration must outlive it. */
struct encode *encode_open(const struct encode_config *c, struct err *e);
/* Does the work and commits the datasets; progress (may be NULL) is called now and then,
 * by one thread at a time. -1: no dataset appears under its name, except those of keys that were
 * committed before a commit failed. */
int encode_run(struct encode *x, void (*progress)(void *ctx, const struct encode_counts *),
    void *ctx, struct err *e);
const struct encode_counts *encode_counts(const struct encode *x);
/* The type and first file of a tokenizer, for the rows of counts. */
const struct tokenizer *encode_tokenizer(const struct encode *x, int i);
/* True when stop_fd ended the run; true when --resume can continue from there. */
bool encode_interrupted(const struct encode *x);
bool encode_can_resume(const struct encode *x);
void encode_close(struct encode *x);

#endif

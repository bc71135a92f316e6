/* saved.h - what must hold of a --save directory whatever happened to the run that wrote it */
#ifndef FAULTS_SAVED_H
#define FAULTS_SAVED_H

#include "lib/base/str.h"

#include <stdint.h>

/* The iterations, as bits, that a text of mtrain's says to be saved: below 64. */
uint64_t saved_promised(const char *text, size_t len);
/* The checkpoints of these iterations and the latest one are whole, and the latest is not older
 * than these; a directory without a tracker can be continued from. One line per problem. */
void saved_check(const char *save, uint64_t promised, struct str *problems);
/* Every file of the directory `want`, hidden ones apart, is in `got` with the same bytes; a
 * checkpoint that only `got` has is whole. One line per problem. */
void saved_same(const char *want, const char *got, struct str *problems);
/* The metrics have the steps of `want`, each once or more, always with the same figures. One line
 * per problem. */
void saved_same_steps(const char *want, const char *got, struct str *problems);
/* Each checkpoint of `want` is in `got` with the same values and state, however they are laid out.
 * One line per problem. */
void saved_same_bits(const char *want, const char *got, struct str *problems);
/* The metrics have the steps of `want`, with losses that differ by no more than this part of them.
 */
void saved_near_losses(const char *want, const char *got, double tolerance, struct str *problems);

#endif

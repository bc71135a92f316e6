/*
 * agree.h - checking that all ranks have the same options
 *
 * A launcher may start ranks with different options, programs or files. What must be the same is
 * written as text, one line "NAME<tab>VALUE" each, and compared by its hash; only when the hashes
 * differ are the texts sent, so that the first difference can be reported with its ranks and hosts.
 */
#ifndef TRAIN_CONFIG_AGREE_H
#define TRAIN_CONFIG_AGREE_H

#include "lib/base/str.h"
#include "train/comm.h"
#include "train/config/options.h"

/* What the ranks must have in common of an option, by its row's tag or, of models' options, by a
 * list. */
enum agree_on agree_on(const struct opt *o);

/* Collective. 0 when the text of every rank is the same; else -1 on all ranks, and rank 0's e names
 * the first line that differs. text NULL: none. */
int agree_text(struct comm *world, const char *text, struct err *e);
/* Collective: the program's version and the options as they were given, defaults included. e holds
 * the answer of train_parse, which is the reason where a rank could not read its options. */
int agree_options(struct comm *world, const struct train_config *c, struct err *e);
/* Collective: text of len bytes, which rank 0 has read, for all; others get memory of their own.
 * rc: whether a rank failed before, with the reason in e; then -1 on all ranks. */
int agree_bytes(struct comm *world, int rc, char **text, size_t *len, struct err *e);
/* Collective, before train_configure: rank 0 reads the file that lists the datasets, to its end,
 * and sends it to the others: a pipe can be read only once. -1 on all ranks, with the reason on
 * rank 0. */
int agree_lists(struct comm *world, struct train_config *c, struct err *e);
/* Collective, after train_configure: compares the backend with its libraries, where the run starts,
 * its tokenizer and model. Rank 0 notes a difference between MPI libraries, which does not change
 * the result. */
int agree_start(struct comm *world, struct train_config *c, struct err *e);

#endif

/*
 * config.h - the options of mtrain, and what follows from them
 *
 * One table (config.c) in Megatron-LM's names; train_configure turns it into a run_plan, schedules
 * and a data description, or fails with the option, the rule and a legal value before anything is
 * touched.
 */
#ifndef TRAIN_CONFIG_CONFIG_H
#define TRAIN_CONFIG_CONFIG_H

#include "train/config/train_config.h"

/* Parses the command line, before MPI has started. After --help and --version (c->parse says so)
 * nothing else in *c is valid. */
int train_parse(struct train_config *c, int argc, char **argv, struct err *e);
/* True when the run reads datasets. */
bool train_reads_data(const struct train_config *c);
/* Finds everything that can be wrong. world_size: the number of ranks, or --world-size. */
int train_configure(struct train_config *c, int64_t world_size, struct err *e);
/* The same, with the notes left in c->parse. */
int train_check(struct train_config *c, int64_t world_size, struct err *e);
void train_release(struct train_config *c);
/* Keeps what train_configure may change of the options, and puts it back: *c is then as it was,
 * except for the lock. */
void train_keep(const struct train_config *c, struct train_parsed *out);
void train_restore(struct train_config *c, const struct train_parsed *p);
void train_parsed_release(struct train_parsed *p);
/* options.conf of a checkpoint: the options that were given, and the resolved model. With defaults:
 * all options that have a value. */
void train_dump(const struct train_config *c, bool defaults, struct str *out);
/* Whether this iteration, counted from 1, is one of --iterations-to-skip. */
bool train_skips(const struct train_config *c, int64_t iteration);
/* Sets the loss scale for a mean over a step of this many samples. */
void train_scale_tokens(struct train_config *c, int64_t samples);

#endif

/*
 * megatron_run.h - how far a run of Megatron-LM got, by what it saves
 *
 * Its args have the counters and the options of training, opt_param_scheduler has the schedules of
 * learning rate and weight decay. They become the state and the options of a checkpoint of ours, so
 * that mtrain continues at the same sample with the same rate. Source: Megatron-LM
 * training/checkpointing.py, core/optimizer_param_scheduler.py.
 */
#ifndef CKPT_MEGATRON_RUN_H
#define CKPT_MEGATRON_RUN_H

#include "lib/ckpt/pickle.h"
#include "lib/ckpt/source.h"

struct megatron_run {
	const struct pickle_value *args;      /* NULL: not saved */
	const struct pickle_value *scheduler; /* opt_param_scheduler; NULL: not saved */
	int64_t iteration;
	int64_t optimizer_steps;        /* -1: not known, and taken to be one for each iteration */
	bool adam;                      /* the checkpoint has Adam's moments */
	int64_t samples, valid_samples; /* that were consumed, where there are no args */
};

/* Appends to the source's state_text, and to its notes what cannot continue as it was. An iteration
 * with fewer consumed samples than steps, as converters write it, is taken for the start of a run,
 * iteration 0. */
void megatron_run_state(const struct megatron_run *r, struct source *s);
/* Adds a note for everything else that Megatron-LM saves of a run and that is not read; `has` says
 * whether a checkpoint has a state of this name, which may have an ending there. */
void megatron_run_left_out(
    struct source *s, bool (*has)(const void *ctx, const char *name), const void *ctx);
/* Appends the options of training, as lines of options.conf. */
void megatron_run_options(const struct pickle_value *args, struct str *out);

#endif

/*
 * megatron_args.h - the model of a run in the arguments that Megatron-LM saves
 *
 * Every format of its checkpoints has the argparse.Namespace of the run. Its attributes are the
 * names of options, which are ours, too, so the table of a model's options reads them. What has no
 * option here is refused by its name and value when it changes the model, and ignored otherwise.
 * Source: Megatron-LM training/arguments.py, training/checkpointing.py.
 */
#ifndef CKPT_MEGATRON_ARGS_H
#define CKPT_MEGATRON_ARGS_H

#include "lib/base/dtype.h"
#include "lib/ckpt/pickle.h"
#include "lib/model/config.h"

struct megatron_args {
	struct model_config config;
	/* rows of the vocabulary tables; where the run has not recorded how many of them are
	 * tokens, config.vocab_size counts them all, and vocab_known is false */
	int64_t padded_vocab_size;
	bool vocab_known;
	int64_t tensor_ranks, stages, chunks; /* chunks of layers of each pipeline stage */
	int64_t expert_ranks, slices;         /* that shared the experts of a layer, and each */
	int64_t data_ranks;                   /* that shared the optimizer ... */
	int64_t context_ranks;                /* ... of which as many shared a sequence */
	enum dtype dtype;                     /* of the weights; DTYPE_NONE: not recorded */
};

/* -1 with "NAME VALUE: why" of the first attribute that cannot be expressed. */
int megatron_args_read(const struct pickle_value *args, struct megatron_args *out, struct err *e);

/* Appends the line of options.conf of an option that is not part of the model, where its attribute
 * is set to what an option can have. */
void megatron_args_line(const struct pickle_value *args, const char *option, struct str *out);

#endif

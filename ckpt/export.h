/* export.h - mckpt export: a model, with its optimizer, as a checkpoint of Megatron-LM */
#ifndef CKPT_EXPORT_H
#define CKPT_EXPORT_H

#include "lib/base/dtype.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/model/split.h"

#include <stdbool.h>

enum export_format { EXPORT_TORCH, EXPORT_TORCH_DIST };
extern const char *const export_formats[]; /* ended by NULL */

struct export_options {
	const char *src, *save;
	enum export_format format;
	/* of the run that will read it: the files of torch, the chunks of torch_dist; its data
	 * ranks follow */
	struct layout layout;
	struct split_options split;
	enum dtype dtype;  /* of the weights; DTYPE_NONE: as the run had them */
	double lr, min_lr; /* of the run that will read it; 0: of the one that wrote it */
	bool use_distributed_optimizer, no_optim, force;
	bool local;            /* Megatron-LM's own names of norms, not Transformer Engine's */
	bool moe_grouped_gemm; /* names of experts in torch, as with this option of the run */
};

#endif

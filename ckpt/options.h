/* options.h - the option tables of mckpt's verbs, and the structs that they fill */
#ifndef CKPT_OPTIONS_H
#define CKPT_OPTIONS_H

#include "lib/base/dtype.h"
#include "lib/base/opt.h"
#include "lib/model/split.h"

struct look_config {
	bool json, tensors;
};

struct diff_config {
	double tolerance;
	const char *only, *ignore;
};

struct import_config {
	int64_t vocab_size;
	int dtype;
	bool force, allow_nonfinite;
};

struct reshard_config {
	struct layout layout; /* context_parallel_size is not an option */
	struct split_options split;
	bool no_optim, force;
};

struct export_config {
	int to, dtype, transformer_impl;
	struct layout layout; /* data_parallel_size and context_parallel_size are not options */
	struct split_options split;
	bool use_distributed_optimizer, no_optim, force;
};

extern const struct opt ckpt_no_opts[], ckpt_ls_opts[], ckpt_info_opts[], ckpt_diff_opts[],
    ckpt_import_opts[], ckpt_reshard_opts[], ckpt_export_opts[];
/* The types that the words of --dtype stand for, in order. */
extern const enum dtype ckpt_import_types[];

#endif

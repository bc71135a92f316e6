/*
 * train_config.h - the options of mtrain as they were typed, and what follows from them
 */
#ifndef TRAIN_CONFIG_TRAIN_CONFIG_H
#define TRAIN_CONFIG_TRAIN_CONFIG_H

#include "lib/base/lock.h"
#include "lib/ckpt/source.h"
#include "lib/data/packing.h"
#include "lib/data/paths.h"
#include "lib/model/lr.h"
#include "lib/model/optim_options.h"
#include "lib/model/options.h"
#include "lib/model/scaler.h"
#include "lib/token/fim.h"
#include "lib/token/tokenizer.h"
#include "train/config/fault.h"
#include "train/config/operands.h"
#include "train/config/option_list.h"
#include "train/config/spike.h"

/* The member of a row of option_list.h. */
#define OPTION_MEMBER(kind, ...) OPTION_MEMBER_##kind(__VA_ARGS__)
#define OPTION_MEMBER_INT(on, n, f, ...) int64_t f;
#define OPTION_MEMBER_RANGE(on, n, f, ...) int64_t f;
#define OPTION_MEMBER_NUM(on, n, f, ...) double f;
#define OPTION_MEMBER_FLAG(on, n, f, ...) bool f;
#define OPTION_MEMBER_UNFLAG(on, n, f, ...) bool f;
#define OPTION_MEMBER_STRING(on, n, f, ...) const char *f;
#define OPTION_MEMBER_LETTER(on, n, f, ...) const char *f;
#define OPTION_MEMBER_LIST(on, n, f, ...) struct opt_list f;
#define OPTION_MEMBER_CHOICE(on, n, f, ...) int f;
#define OPTION_MEMBER_INT_OF(...)
#define OPTION_MEMBER_NUM_OF(...)
#define OPTION_MEMBER_FLAG_OF(...)
#define OPTION_MEMBER_STRING_OF(...)
#define OPTION_MEMBER_LIST_OF(...)
#define OPTION_MEMBER_CHOICE_OF(...)
#define OPTION_MEMBER_GROUP(h)

struct train_options {
	struct run_options run;
	struct muon_options muon;
	struct qk_clip qk_clip;
	struct path_options paths;
	struct fim_options fim;
	TRAIN_OPTIONS(OPTION_MEMBER)
};

/* True when a token sees its own document alone, by where documents begin in the dataset. */
static inline bool
train_documents_apart(const struct train_options *o)
{
	return o->sample_packing == PACKING_BEST_FIT || o->inter_document_masking;
}

/* What a list of corpora that changed between save and resume means: --data-change. */
enum data_change {
	DATA_CHANGE_REFUSE,
	DATA_CHANGE_RESTART,
	DATA_CHANGE_EXCLUDE_SEEN,
	DATA_CHANGE_MASK
};
enum loss_per { LOSS_PER_TOKEN, LOSS_PER_DOCUMENT };
enum loss_mask { LOSS_MASK_USE, LOSS_MASK_IGNORE };
enum eval_add_bos { EVAL_BOS_AUTO, EVAL_BOS_YES, EVAL_BOS_NO };

/* What is reported of the times of all ranks: --timing-log-option. */
enum timing_option { TIMING_MAX, TIMING_MINMAX, TIMING_ALL };

/* Where the weights come from. */
enum start { START_FRESH, START_RESUME, START_WEIGHTS };

struct train_config {
	struct train_options o;
	struct opt_parse parse;
	struct run_plan plan;
	const int *hosts; /* of all ranks (train/comm.h), borrowed; NULL: as planned */
	struct lr_schedule schedule;
	struct optim_options optim;
	struct scaler scaler;
	struct data_paths paths; /* of a run that reads datasets */
	char *lists; /* text of the file that names them, as rank 0 read it; else NULL */
	struct tokenizer_spec spec;  /* the tokenizer that the options ask for */
	struct tokenizer *tokenizer; /* NULL: none given */
	int64_t eod;                 /* -1: none */
	int64_t train_iters;
	int64_t *skips;    /* --iterations-to-skip, in the order of the list */
	int64_t *stop_ids; /* --stop-token-ids */
	struct spike_rule spikes;
	enum start start;
	/* configuring failed on a tracker or checkpoint that does not open, which is not wrong
	 * usage */
	bool unreadable;
	bool goes_back; /* --ckpt-step says where the run starts, and would again after a restart */
	/* START_RESUME, START_WEIGHTS: a checkpoint or a Hugging Face directory */
	const char *weights_from;
	struct str origin;        /* lines of state.conf on where these weights came from */
	struct operands operands; /* of --explain */
	bool want_mdoc;           /* the option list of the manual, and nothing else */
	struct fault *fault;      /* NULL: nothing is broken on purpose */
	struct str command;       /* that was typed, for a shell in any directory */
	struct lock *lock;        /* of --save, on rank 0 of a run that saves; else NULL */
};

/* The options as they were parsed, to configure again. */
struct train_parsed {
	struct train_options o;
	bool *given;
};

#endif

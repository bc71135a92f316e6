/*
 * state.h - state.conf of a checkpoint: what a run continues from besides its tensors
 *
 * Lines of a key, blanks and a value to the end of the line; an empty line, and one that begins
 * with '#', is ignored. One table of keys (state.c) drives writing, reading and checking; unknown
 * keys are refused.
 */
#ifndef CKPT_STATE_H
#define CKPT_STATE_H

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

/* A number that the text does not have; for strings NULL. */
#define STATE_NONE INT64_MIN

/* By key. Strings of a parsed state are the pool's. */
struct run_state {
	int64_t iteration, consumed_train_samples, optimizer_steps, skipped_iterations,
	    skipped_samples, passed_samples;
	int64_t consumed_valid_samples; /* by evaluations of Megatron-LM */
	double loss_scale;              /* NAN: none */
	const char *loss_scale_of;      /* "mean"; NULL: of a sum over tokens */
	int64_t loss_scale_growth, loss_scale_hysteresis, seed;
	const char *recent_losses, *rewound; /* of --rewind-on-spike */
	const char *dtype;                   /* of the run's weights */
	const char *schedule, *tokenizer;
	/* the update rule whose moments the checkpoint holds; NAN and NULL: not used by this
	 * rule */
	const char *optimizer, *weight_decay_form;
	double adam_beta1, adam_beta2, adam_eps, sgd_momentum, muon_momentum;
	/* the record of the data, see mckpt(5) */
	int64_t data_corpora, data_start, data_seed, data_seq_length, data_loader;
	int64_t data_ranks; /* data-parallel ranks of the run that saved */
	int64_t data_bos;   /* 1: documents begin with bos, 0: none does */
	const char *data_split;
	const char *data_stages;  /* of --data-schedule, as stages.c prints them; NULL: none */
	const char *data_trained; /* tokens that each corpus was trained on; NULL: not known */
	const char *data_packing; /* --long-documents of best-fit packing; NULL: cut */
	const char **data_corpus; /* [data_corpora] */
	/* the directory whose weights a run began with, and sum and name of each of the files that
	 * lay beside them, see hf_files.h */
	const char *origin;
	int64_t origin_files;
	const char **origin_file; /* [origin_files] */
	struct mem_pool pool;
};

/* Sets everything to unknown. */
void state_init(struct run_state *s);
/*
 * Parses and checks a whole text: keys, bounds, and consistency of the numbers. name is for
 * messages. Released by state_release in every case.
 */
int state_parse(struct run_state *s, const char *text, const char *name, struct err *e);
/* Appends lines for all known values. Doubles are printed exactly. */
void state_print(const struct run_state *s, struct str *out);
/* The same of where the weights came from alone. */
void state_print_origin(const struct run_state *s, struct str *out);
void state_release(struct run_state *s);
/* In a text of lines, replaces the line of a key, or adds one: the line is the last then. */
void state_edit(struct str *text, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif

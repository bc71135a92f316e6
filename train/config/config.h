/*
 * config.h - the options of mtrain, and what follows from them
 *
 * One table (config.c) in Megatron-LM's names; train_configure turns it into a run_plan, schedules
 * and a data description, or fails with the option, the rule and a legal value before anything is
 * touched.
 */
#ifndef TRAIN_CONFIG_CONFIG_H
#define TRAIN_CONFIG_CONFIG_H

#include "lib/base/lock.h"
#include "lib/ckpt/source.h"
#include "lib/data/paths.h"
#include "lib/model/lr.h"
#include "lib/model/optim_options.h"
#include "lib/model/options.h"
#include "lib/model/scaler.h"
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
	TRAIN_OPTIONS(OPTION_MEMBER)
};

/* What a list of corpora that changed between save and resume means: --data-change. */
enum data_change { DATA_CHANGE_REFUSE, DATA_CHANGE_RESTART, DATA_CHANGE_EXCLUDE_SEEN };

/* What is reported of the times of all ranks: --timing-log-option. */
enum timing_option { TIMING_MAX, TIMING_MINMAX, TIMING_ALL };

/* Where the weights come from. */
enum start { START_FRESH, START_RESUME, START_WEIGHTS };

struct train_config {
	struct train_options o;
	struct opt_parse parse;
	struct run_plan plan;
	struct lr_schedule schedule;
	struct optim_options optim;
	struct scaler scaler;
	struct data_paths paths; /* of a run that reads datasets */
	char *lists; /* text of the file that names them, as rank 0 read it; else NULL */
	struct tokenizer_spec spec;  /* the tokenizer that the options ask for */
	struct tokenizer *tokenizer; /* NULL: none given */
	int64_t eod;                 /* -1: none */
	int64_t train_iters;
	int64_t *skips; /* --iterations-to-skip, in the order of the list */
	struct spike_rule spikes;
	enum start start;
	/* configuring failed on a tracker or checkpoint that does not open, which is not wrong
	 * usage */
	bool unreadable;
	bool goes_back; /* --ckpt-step says where the run starts, and would again after a restart */
	/* START_RESUME, START_WEIGHTS: a checkpoint or a Hugging Face directory */
	const char *weights_from;
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

extern const struct opt mtrain_opts[];
extern const char *const mtrain_backends[], *const mtrain_attention_backends[];

/* Parses the command line, before MPI has started. After --help and --version (c->parse says so)
 * nothing else in *c is valid. */
int train_parse(struct train_config *c, int argc, char **argv, struct err *e);
/* True when the run reads datasets. */
bool train_reads_data(const struct train_config *c);
/* --help on standard output: one screen, or what was asked; ends the program where a word after it
 * means nothing. */
void train_help(const struct train_config *c);
/* --completion on standard output; returns the exit status. */
int train_completion(const struct train_config *c);
/* Finds everything that can be wrong. world_size: the number of ranks, or --world-size. */
int train_configure(struct train_config *c, int64_t world_size, struct err *e);
/* The same, with the notes left in c->parse. */
int train_check(struct train_config *c, int64_t world_size, struct err *e);
void train_release(struct train_config *c);
/* True when the line names a tokenizer that is not open, for an error: what depends on it is not
 * known. */
bool train_lacks_tokenizer(const struct train_config *c);
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

/* --- files.c ---------------------------------------------------------------------------------- */

/* That the files of a run exist, and that one option names its data. A dry run notes what is not
 * here, since it plans for machines that have the files. */
int train_check_files(struct train_config *c, struct err *e);

/* --- planned.c -------------------------------------------------------------------------------- */

/* The vocabulary of a plan whose tokenizer is not here. */
enum { PLANNED_VOCABULARY = 1 << 15 };
/* Whether a file of the tokenizer is not here, which is noted. */
bool planned_without_tokenizer(struct train_config *c);
/* Opens the datasets that are here, and notes what is not. */
int planned_data(struct train_config *c, struct err *e);

/* --- deepspeed.c ------------------------------------------------------------------------------ */

/* After the words are parsed: lengths in tokens become options in samples. What is wrong joins the
 * other errors. */
void deepspeed_tokens(struct train_config *c);
/* The option in samples that one in tokens stands for; NULL: it is none. */
const char *deepspeed_samples(const char *tokens);
/* Reads the file of --deepspeed-config, if it was given: a difference to an option is an error, and
 * an option that was not given takes the file's value. */
void deepspeed_read(struct train_config *c);
/* Whether DeepSpeed would drop tokens of experts though no option says so. */
void deepspeed_experts(const struct train_config *c);

/* --- start.c ---------------------------------------------------------------------------------- */

/* The rules of --load, --save, --finetune and --pretrained-checkpoint; sets start and
 * weights_from. */
int train_start(struct train_config *c, struct err *e);
/* Appends what --load and --save hold, as far as a start depends on it: the same text means the
 * same start. */
void train_seen(const struct train_config *c, struct str *out);
/* What a rank starts from, to be compared with others: lines "NAME<tab>VALUE" on the checkpoint,
 * the tokenizer and the model. */
void train_start_text(struct train_config *c, struct str *out);
/* True when the same command line resumes what this run saves. */
bool train_continues(const struct train_config *c);
/* And the command as it was typed is that command line. */
bool train_repeats(const struct train_config *c);
/* How to continue from what this run saves, in words. */
const char *train_way_on(const struct train_config *c);
/* The position of the checkpoint that a run resumes from; 0 and 0 for any other run. -1 with a
 * reason. */
int train_progress(struct train_config *c, int64_t *iteration, int64_t *consumed, struct err *e);
/* The model of the checkpoint, when --use-checkpoint-args asks for it or no shape was typed; 0 when
 * that does not apply, 1 when *m is filled. --use-checkpoint-args takes the sequence length too
 * where none was typed. */
int train_checkpoint_model(struct train_config *c, struct model_config *m, struct err *e);
/* Opens what --load or --pretrained-checkpoint names; where it is damaged, the reason names an
 * older checkpoint that opens. */
struct source *train_open_source(const char *dir, struct err *e);
/* Adds to the reason of a damaged checkpoint which older one opens, and how to check the whole of
 * that. */
void train_name_older(const char *dir, struct err *e);
/* Compares the architecture of a checkpoint with this run's. The reason names the first option that
 * differs. */
int train_same_model(const struct train_config *c, const char *name,
    const struct model_config *theirs, struct err *e);

#endif

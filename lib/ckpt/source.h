/*
 * source.h - one reader for models on disk, whatever their format
 *
 * A source gives the parameters of our table (lib/model/params.h), global and unpadded, and where
 * it has them the states of an update rule; programs know no format beyond it. To add a format:
 * lib/ckpt/source_NAME.c with a const struct source_kind at its end, and its line in source.c.
 *
 * Opening verifies all that the headers tell: which tensors are missing, are foreign, or have
 * another shape or type than the model. These are `problems`, not errors, so that mckpt info and
 * verify can describe a source that nothing else accepts; everyone else calls source_require first.
 * A source is for one thread at a time.
 */
#ifndef CKPT_SOURCE_H
#define CKPT_SOURCE_H

#include "lib/base/dtype.h"
#include "lib/base/err.h"
#include "lib/base/io.h"
#include "lib/base/str.h"
#include "lib/ckpt/state.h"
#include "lib/model/fp8_states.h"
#include "lib/model/optim_rule.h"
#include "lib/model/params.h"

struct source {
	const struct source_kind *kind;
	/* the directory that holds the tensors, which the one that was opened may only name;
	 * messages begin with it */
	char path[IO_PATH];
	struct model_config config;
	struct layout layout; /* of the run that wrote it; all 1 where that is not known */
	/* rows of the vocabulary tables, padding included, where it is not recorded how many of
	 * them are tokens: config.vocab_size is then all of them, or what source_set_vocab says.
	 * Otherwise 0 */
	int64_t padded_vocab;
	int count;
	struct param *param; /* [count], model order */
	/* tensors of the run that wrote it, of no parameter: those that it has of the slots of
	 * 8-bit operands (lib/model/fp8_states.h); read as parameters are */
	int num_of_run;
	struct param of_run[FP8_STATES];
	const struct optim_rule *rule; /* whose states it holds, all of them; NULL: none */
	bool averaged;                 /* it holds an average of every parameter */
	/* options.conf and state.conf as a checkpoint of ours has them, to be copied; the state is
	 * that of iteration 0 where no run has written the source */
	struct str options, state_text;
	/* lines of options.conf that follow the model's, of sources whose options are made here */
	struct str run_options;
	struct run_state state;     /* state_text, parsed */
	int num_tensors, num_files; /* as they are stored, for reports */
	int num_problems;
	struct str problems, notes; /* lines; notes say what is ignored */
	struct dtype_lost lost;     /* by the conversions of all reads */
	bool damaged;               /* a read found bytes that are not those that were written */
};

/*
 * A box of a parameter (state NULL) or of one of its states, in global coordinates. copy 0 is the
 * one in the best precision: an fp32 master where there is one. Others are the same numbers stored
 * once more, by another rank or rounded to another type.
 */
struct source_part {
	const struct param *param; /* of any table of the source's model */
	const char *state;         /* "exp_avg", or STATE_AVERAGE */
	int copy;
	struct slice slice;
};

/* How a parameter or a state is stored. */
struct source_stored {
	enum dtype dtype;   /* of the part's copy; F64, F32, BF16 or F16 */
	int copies, pieces; /* of copy 0; each at least 1 */
	bool rounded;       /* its numbers have more bits, which the kind's read_exact gives */
};

struct source_kind {
	const char *name; /* "Hugging Face directory": completes "a ..." */
	/* Whether the path names a source of this kind. Looks at names of files, and is quick. */
	bool (*is)(const char *path);
	/* Begins with source_new; then fills all up to num_problems that applies, the config by
	 * hand and the table by source_set_model, and adds problems and notes. NULL with a reason
	 * when not even the model is known. */
	struct source *(*open)(const char *path, struct err *e);
	/* The same of what does not say its model itself, which a config.json says, a file or its
	 * directory; NULL: the kind's sources all say it. */
	struct source *(*open_as)(const char *path, const char *model, struct err *e);
	/* False when it holds nothing that can be read as that. Does not look at the box. May be
	 * called while another thread reads. */
	bool (*find)(
	    const struct source *s, const struct source_part *p, struct source_stored *out);
	/* The box in the stored type, row-major and dense, into dst. The part is one that find
	 * finds, and the box is inside. What was read does not stay in this process's memory. */
	int (*read)(struct source *s, const struct source_part *p, void *dst, struct err *e);
	/* The same without a copy: *at is where the box lies row-major and dense in a mapped file,
	 * at any alignment, until it is returned; NULL where it does not lie so. Another thread may
	 * read it. NULL: nothing lies so. */
	int (*lend)(struct source *s, const struct source_part *p, const void **at, struct err *e);
	/* What was lent does not stay in this process's memory. */
	void (*give_back)(struct source *s, const struct source_part *p);
	/* The same as read in FP32, of what read rounds to the stored type; NULL: there is nothing
	 * of the kind. */
	int (*read_exact)(struct source *s, const struct source_part *p, void *dst, struct err *e);
	/* What will be read soon, which find finds: a disk may begin to read it. NULL: nothing is
	 * done. */
	void (*expect)(struct source *s, const struct source_part *p);
	/* Adds a line for everything wrong that only reading every byte shows, except that copies
	 * differ and that numbers are not finite, which is asked of every kind; NULL: nothing. May
	 * skip what was read before. Returns the number of lines. */
	int (*verify)(struct source *s, struct str *problems);
	/* A sum that tells this source from others: of the manifest, or of the headers. */
	uint64_t (*hash)(const struct source *s);
	/* For formats whose checksums cover more than a rank reads, else NULL: this rank's share of
	 * comparing them. */
	int (*share)(struct source *s, int rank, int num_ranks, struct err *e);
	/* Releases what the kind itself has; also after an open that failed half-way. */
	void (*close)(struct source *s);
};

extern const struct source_kind source_ckpt, source_hf, source_meta, source_torch,
    source_torch_dist;

/* The first kind that the path is of; when there is none, the reason says what the path is. */
struct source *source_open(const char *path, struct err *e);
/* The same of a source that does not say its model; model NULL: source_open. */
struct source *source_open_as(const char *path, const char *model, struct err *e);
void source_close(struct source *s); /* NULL is ignored */
/* -1 when there is any problem: the first, and the number of the others. */
int source_require(const struct source *s, struct err *e);
/* Says how many tokens a source has that has not recorded it: fewer rows are then read of its
 * vocabulary tables. -1 when it has another number, or fewer rows. */
int source_set_vocab(struct source *s, int64_t tokens, struct err *e);
/* Has queries and keys of a Hugging Face directory read as those of a model that rotates pairs as c
 * does. Of another source nothing changes. */
void source_rotate_as(struct source *s, const struct model_config *c);
/* Has so many of the layers of a Hugging Face directory read that predict later tokens, which else
 * are left out with a note. Of another source nothing changes; -1 where there are fewer. */
int source_predict(struct source *s, int64_t layers, struct err *e);
/* Whether a part is of the model's parameters: of no state, and not of the run. */
bool source_is_weight(const struct source *s, const struct source_part *p);
/* The tensor of the run with this name; NULL: it has none. */
const struct param *source_of_run(const struct source *s, const char *name);
/* The stored type; DTYPE_NONE when the source has no such parameter or state. */
enum dtype source_dtype(const struct source *s, const struct param *p, const char *state);
/* Reads a box, converted to dtype, row-major and dense into dst. Rounds once; counts what it loses
 * in s->lost. */
int source_read(
    struct source *s, const struct source_part *p, enum dtype dtype, void *dst, struct err *e);
/* A box as it is stored, which find finds: where it lies in a mapped file, which is to be given
 * back when it was read, or NULL. -1 with the reason. */
int source_lend(struct source *s, const struct source_part *p, const void **at, struct err *e);
void source_give_back(struct source *s, const struct source_part *p);
/* Says that a box, which find finds, will be read soon, so that a disk may begin. */
void source_expect(struct source *s, const struct source_part *p);
/* The name of a parameter (state NULL), or of a state of it, as in a checkpoint of ours. */
void source_name(const struct param *p, const char *state, char out[128]);
/* The number of states that the source holds of a parameter; and these by number from 1, with NULL
 * for 0, the parameter itself: those of the rule, then the average. */
int source_num_states(const struct source *s);
const char *source_state(const struct source *s, int k);
/* Whether the rule keeps state k of p, by the same numbers; true for 0. */
bool source_keeps(const struct source *s, const struct param *p, int k);

/* A parameter or a state that can be read. */
struct source_tensor {
	char name[128];
	struct source_part part; /* all of it */
	struct source_stored stored;
};
/* All of them, sorted by name; the caller frees *out. Returns how many. */
int source_tensors(const struct source *s, struct source_tensor **out);

/* Whether the files of a source are those of a checkpoint of ours, of the current version, so that
 * they can be copied as they are; and that copy, see ckpt_clone. */
bool source_has_files(const struct source *s);
int source_clone(const struct source *s, const char *tmp_dir, struct str *manifest, struct err *e);

/* The first parameter of this name in its layer, such as the embedding's; NULL: none. */
const struct param *source_param(const struct source *s, const char *in_layer);

/* --- for the files of the formats ----------------------------------------------------------- */

/* A source of `size` bytes, zeroed: the kind's own struct, which begins with its struct source. */
struct source *source_new(const struct source_kind *kind, size_t size, const char *path);
/* Whether a part is a state of what balances the experts, which Megatron-LM's optimizers do not
 * know: its numbers are zeros, of which no file has any. */
bool source_is_idle(const struct source *s, const struct source_part *p);
/* The number of a parameter, which may be of another table of the same model; -1: none such. */
int source_index(const struct source *s, const struct param *p);
/* Fills param and count from config; also options, unless the kind has filled them. */
void source_set_model(struct source *s);
/* Appends "PATH: " and the text as a line of problems, and counts it. */
void source_problem(struct source *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends "[4, 64]". */
void source_print_shape(struct str *out, int ndim, const int64_t *shape);

#endif

/*
 * derived.h - a source made of sources: what the verbs that change models have in common
 *
 * A kind says which model comes of those that are read, and where each of its tensors has its
 * numbers: those of one source, whose bytes are copied in their own type, or what the kind computes
 * in fp64, which is rounded once. copy_source (copy.h) reads it as any other source, a few MiB at a
 * time, so memory grows neither with the tensors nor with the number of sources, and results depend
 * neither on the boxes nor on the layout that is written, nor on the threads, which share the
 * sources of a box to read and then its stretches to compute. Sources may be of any format: tensors
 * meet by the parameter table. To add a verb: a file with its kind and its const struct verb, and
 * a line in bin/mckpt.c.
 */
#ifndef CKPT_DERIVED_H
#define CKPT_DERIVED_H

#include "lib/base/opt.h"
#include "lib/ckpt/source.h"

/* Where a parameter, or a state of one, has its numbers. */
struct derived_origin {
	/* of which the same box of this parameter or state is copied; NULL: the kind computes it */
	struct source *from;
	const struct param *param;
	const char *state;
	enum dtype dtype; /* of what is computed */
};

struct derived;

/* What a kind keeps of the last source besides the weights. What it does not keep is left out,
 * with a note. */
enum derived_keeps {
	KEEPS_OPTIM = 1,      /* the states of the update rule */
	KEEPS_AVERAGE = 2,    /* the average of the weights */
	KEEPS_HISTORIES = 4,  /* tensors of the run, of no parameter */
	KEEPS_RUN_OPTIONS = 8 /* options.conf; without it, the lines of the model alone */
};

struct derived_kind {
	const char *name; /* completes "a ..." */
	size_t size;      /* of the kind's own struct, which begins with its struct derived */
	unsigned keeps;
	/* Changes s.config, which is that of the last source, and prepares what it needs; adds
	 * to s.notes. -1 when the sources do not fit each other or the rule. NULL: one source,
	 * the same model. */
	int (*model)(struct derived *d, struct err *e);
	/* False: the tensor is in no source. Is asked while another thread reads. Not for the
	 * tensors of the run, which are the last source's. */
	bool (*origin)(
	    const struct derived *d, const struct source_part *p, struct derived_origin *out);
	/* The numbers of a box, row-major and dense. NULL: nothing is computed. */
	int (*compute)(struct derived *d, const struct source_part *p, double *dst, struct err *e);
	/* The same in the type of the origin, in place of compute: for kinds most of whose numbers
	 * are copies, but not of the same box. */
	int (*gather)(struct derived *d, const struct source_part *p, void *dst, struct err *e);
	/* Whether every tensor is that of the one source, with all its states, so that files may be
	 * copied as they are. NULL: it is not. */
	bool (*is_whole)(const struct derived *d);
	/* Edits s.state_text, which is that of the last source; NULL: it is kept. */
	int (*state)(struct derived *d, struct err *e);
	/* Releases what the kind itself has, also after a failure; NULL: nothing. */
	void (*release)(struct derived *d);
};

struct derived {
	struct source s;
	const struct derived_kind *kind;
	struct source **from; /* [count], without problems */
	int count;
	const void *rule; /* the verb's own */
	/* for the record of where it comes from, by the kind: "masters", and a weight for each
	 * source; NULL: none */
	const char *how;
	const double *weight;
	bool masters;      /* all sources have them, of all parameters */
	struct pool *pool; /* NULL until something is computed */
	/* room for boxes, which grows to the largest */
	double *numbers;
	void *raw;
	size_t numbers_bytes, raw_bytes;
};

/* What a verb asks for. */
struct derived_job {
	const struct derived_kind *kind;
	const void *rule;
	const char *const *path; /* [count] of sources, in the order of the kind */
	int count;
	/* of the copy, as in struct copy_options */
	const char *save, *verb;
	const struct opt_parse *given;
	enum dtype dtype; /* DTYPE_NONE: as the kind has them */
	bool no_optim, force;
};

/* Opens all sources and what is made of them, before anything is written. Refuses a directory to
 * write that is a source or inside one. NULL with the reason; derived_close also closes the
 * sources. */
struct derived *derived_open(const struct derived_job *job, struct err *e);
void derived_close(struct derived *d); /* NULL is ignored */
/* Writes job->save, prints what there is to note, also after a failure, and closes it. */
int derived_write(struct derived *d, const struct derived_job *job, struct err *e);
/* Both, of one source: the operands SRC DST complete the job. Returns what a verb does. */
int derived_run(struct derived_job *job, int argc, char **argv, struct err *e);

/* The last source. */
struct source *derived_last(const struct derived *d);
/* 0 when all sources are of one model and, with vocabularies, as far as is known of one tokenizer;
 * without, the number of tokens may differ. -1 with all differences. Notes a tokenizer that is not
 * known. */
int derived_same_models(struct derived *d, bool vocabularies, struct err *e);
/* Whether fp32 masters are read, which needs all sources to have them, or the weights that are
 * stored beside them; sets how and masters. */
void derived_find_masters(struct derived *d);
/* Which copy of a parameter of a source is read, and its type; DTYPE_NONE: it has none. */
enum dtype derived_choose_copy(
    const struct derived *d, struct source *from, const struct param *p, int *copy);
/* A type that holds the numbers of all sources. */
enum dtype derived_widest(const struct derived *d, const struct param *p);

/* --- arithmetic ------------------------------------------------------------------------------- */

/* A box of a source, and its weight in a sum. */
struct derived_term {
	struct source *from;
	struct source_part part;
	double weight;
};
enum {
	DERIVED_ROOM = 32 << 20,  /* bytes that are read at once of all sources */
	DERIVED_STRETCH = 1 << 11 /* elements computed at once, of which many fit in a cache */
};
/* How many elements of every source are read at once. */
int64_t derived_part(const struct derived *d);
/* Reads boxes of as many elements each, of different sources, in their own types; box[i] is that of
 * term i until the next call. Weights are not used. */
int derived_read(struct derived *d, const struct derived_term *t, int count,
    struct dtype_array *box, struct err *e);
/* What will be read of all sources when this box of the result is asked for: a disk begins. */
void derived_expect(struct derived *d, const struct source_part *p);
/* Calls fn for every index, on all threads, in any order. */
void derived_share(struct derived *d, int count, void (*fn)(void *ctx, int index), void *ctx);
/* Calls fn for all stretches of n elements, on all threads: each begins at a multiple of
 * DERIVED_STRETCH. */
struct derived_stretches {
	int64_t n;
	void (*fn)(void *ctx, int64_t at, int64_t n);
	void *ctx;
};
void derived_each(struct derived *d, const struct derived_stretches *s);
/* x[i] = element at + i of a box. */
void derived_numbers(struct dtype_array box, int64_t at, int64_t n, double *x);
/* sum[i] = the weighted sum of the terms, in their order and in fp64; with add, sum[i] is the first
 * of them. */
struct derived_terms {
	const struct derived_term *term;
	int count;
	bool add;
};
int derived_sum(struct derived *d, const struct derived_terms *t, double *sum, struct err *e);
/* Rounds numbers that were computed to their type, and counts what is lost. */
void derived_round(struct derived *d, struct dtype_array dst, const double *numbers, int64_t n);

#endif

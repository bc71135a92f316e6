/*
 * derived.h - a source made of sources: what the verbs that change models have in common
 *
 * A kind says which model comes of those that are read, and where each of its tensors has its
 * numbers: those of one source, whose bytes are copied in their own type, or what the kind computes
 * in fp64, which is rounded once. copy_source (copy.h) reads it as any other source, a few MiB at a
 * time, so memory grows neither with the tensors nor with the number of sources, and results depend
 * neither on the boxes nor on the layout that is written, nor on the threads. These share the
 * sources of a box to read, whose bytes are taken from mapped files where they lie as they are
 * needed, and then its stretches, which are computed and rounded in a cache. Sources may be of any
 * format: tensors meet by the parameter table. To add a verb: a file with its kind and its const
 * struct verb, and a line in bin/mckpt.c.
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

/* Elements [at, at + n) of a box, of which n is at most DERIVED_STRETCH. */
struct derived_stretch {
	const struct source_part *part;
	int64_t at, n;
};

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
	/* Reads what the numbers of a box depend on; its parameter is one of s.param. NULL:
	 * nothing. */
	int (*begin)(struct derived *d, const struct source_part *p, struct err *e);
	/* The numbers of a stretch of the box that begin was called for, row-major; by several
	 * threads. NULL: nothing is computed. */
	void (*numbers)(const struct derived *d, const struct derived_stretch *s, double *x);
	/* A box in the type of the origin, in place of both: for kinds most of whose numbers are
	 * copies, but not of the same box. */
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
	/* what derived_read has read, and room for what does not lie in a file as it is needed,
	 * which grows to the largest */
	struct derived_box *box; /* [num_boxes] */
	int num_boxes;
	void *room;
	size_t room_bytes;
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
/* Such a box in its own type, at any alignment. */
struct derived_box {
	struct derived_term term;
	struct dtype_array array;
	bool lent; /* it is the source's, see source_lend */
};
enum {
	DERIVED_ROOM = 16 << 20,  /* bytes that are read at once of all sources */
	DERIVED_STRETCH = 1 << 11 /* elements computed at once, of which many fit in a cache */
};
/* How many elements of every source are read at once. */
int64_t derived_part(const struct derived *d);
/* Has d->box be these boxes, of as many elements each, until the next call. */
int derived_read(struct derived *d, const struct derived_term *t, int count, struct err *e);
/* What will be read of all sources when this box of the result is asked for: a disk begins. */
void derived_expect(struct derived *d, const struct source_part *p);
/* Calls fn for every index, on all threads, in any order. */
void derived_share(struct derived *d, int count, void (*fn)(void *ctx, int index), void *ctx);
/* x[i] = element at + i of a box. */
void derived_numbers(struct dtype_array box, int64_t at, int64_t n, double *x);
/* The weighted sum of the boxes that were read, in their order and in fp64: a kind's numbers. */
void derived_sum(const struct derived *d, const struct derived_stretch *s, double *sum);
/* Rounds numbers that were computed to their type, and counts what is lost. */
void derived_round(struct derived *d, struct dtype_array dst, const double *numbers, int64_t n);

#endif

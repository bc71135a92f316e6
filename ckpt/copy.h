/* copy.h - a source becomes a checkpoint: what the verbs that write one have in common */
#ifndef CKPT_COPY_H
#define CKPT_COPY_H

#include "ckpt/provenance.h"
#include "lib/base/lock.h"
#include "lib/base/opt.h"
#include "lib/model/split.h"

#include <stdbool.h>

/* The words of --dtype, and in the same order the types that they stand for. */
extern const char *const copy_dtypes[];
extern const enum dtype copy_types[];

struct copy_options {
	const char *save;
	/* what is recorded as the checkpoint's provenance; NULL: nothing is */
	const char *verb;
	const struct opt_parse *given;
	/* whose formats and sums it names, and that must be the same at the end; NULL: those of
	 * the source */
	const struct provenance_sources *origin;
	const struct layout *layout; /* whose ranks' files are written */
	/* whose files are taken as they are, in place of all that is read; NULL: none */
	const struct source *clone;
	enum dtype dtype; /* of the weights; DTYPE_NONE: as they are stored */
	bool no_optim, force;
	bool check_finite;    /* refuse NaN and infinity, also those that the conversion makes */
	bool allow_nonfinite; /* note them instead */
	/* texts of the checkpoint */
	const char *options, *state;
};

/*
 * Writes save/iter_* of the source's iteration, and the tracker. Rank r of the layout writes
 * pieces-r: of weights, then of each state, the parts of its parameters that lie in its data rank's
 * range of the flat buffer, in model order. States keep their type. A few windows of some MiB are
 * in memory at a time. notes gets one line for each tensor with values that are not finite.
 */
int copy_source(struct source *src, const struct copy_options *o, struct str *notes, struct err *e);

/* The checkpoint that a verb makes. */
struct copy_target {
	const char *save, *source; /* source: the directory that is read, never replaced */
	int64_t iteration;
	bool force; /* SAVE may hold checkpoints, one of the iteration is replaced */
};
/* Makes a SAVE directory that holds no checkpoint, or by force, and takes its lock, for which a run
 * that writes there, and another mckpt, are waited for a few seconds, with a note. NULL with the
 * reason; lock_release releases it. */
struct lock *copy_claim(const struct copy_target *t, struct err *e);
/* The same checks once more, before the commit: 0 when the lock is held and the target as it was.
 */
int copy_check(const struct copy_target *t, struct lock *lock, struct err *e);
/* Opens the sources once more, at the end: -1 when one has another sum than it had, or when a file
 * that is mapped was written to, replaced or removed since. */
int copy_unchanged(const struct provenance_sources *of, struct err *e);

#endif

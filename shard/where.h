/*
 * where.h - the verb where: from an iteration of a run to the documents that it read, and back
 *
 *   where.c         the rows
 *   where_run.c     what the checkpoints of a run say of its data and batches
 *   where_losses.c  the file of mtrain's --sample-losses
 */
#ifndef SHARD_WHERE_H
#define SHARD_WHERE_H

#include "lib/data/sampler.h"
#include "shard/maps.h"

struct where_config {
	struct maps_config maps; /* first, because its spec must be */
	const char *run, *step, *document, *losses;
	int64_t rank, sample, worst; /* rank and sample -1: all */
	int64_t data_parallel_size;
	struct reading_config reading;
	bool text;
};
/* Checks what the option table cannot; -1 is wrong usage. */
int shard_where_check(const struct where_config *c, struct err *e);
/* Rows "iteration rank micro_batch sample corpus document sequence first count at trained", and a
 * text; notes gets lines for people. */
int shard_where(const struct where_config *c, FILE *out, struct str *notes, struct err *e);

/* --- where_run.c ------------------------------------------------------------------------------ */

/* Iterations after the checkpoint before this one, up to its own: the batches that they had. */
struct where_point {
	int64_t iteration, consumed; /* at its end */
	struct batch_ramp ramp;
	int64_t micro_batch_size, data_ranks;
};
struct where_range {
	int64_t first, last; /* iterations */
};

/* A run, as far as its data go. */
struct where_run {
	struct maps_config maps;
	struct where_point *point; /* [points], rising; the last one's holds for what comes after */
	int points;
	int64_t start;   /* sample of the run with which its order began */
	int64_t reached; /* samples that its newest checkpoint had consumed; -1: none is known */
	int64_t last;    /* its last iteration; -1: not known, or it ends with its samples */
	struct blend_kept *kept;
	int64_t *stage_first;
	struct where_range *passed; /* iterations that were passed over */
	int num_passed;
	struct sampler_config sampler; /* its total is filled in later */
	bool eod_mask_loss, apart, rearranged, ignores_masks;
	int64_t pad, bos;
	char num_samples[64];    /* of the order, for maps */
	struct opt_parse *parse; /* owns the strings */
	char *lists;             /* the text of a file of lists */
};

/* Reads what the checkpoints of SAVE say of batches. -1 with the reason. where_run_release in every
 * case. */
int where_run_read(struct where_run *r, const char *save, struct err *e);
/* Then the order of the data: that of the first of them that is not before iteration `last`, or of
 * the newest. */
int where_run_order(struct where_run *r, const char *save, int64_t last, struct err *e);
/* Takes a run from options alone. */
int where_run_options(struct where_run *r, const struct where_config *c, struct err *e);
void where_run_release(struct where_run *r);
/* The iteration's batches, and the sample with which it begins. */
const struct where_point *where_run_at(
    const struct where_run *r, int64_t iteration, int64_t *first);
/* The iteration that reads a sample of the run. */
int64_t where_run_iteration(const struct where_run *r, int64_t sample);
bool where_run_passes(const struct where_run *r, int64_t iteration);

/* --- where_losses.c --------------------------------------------------------------------------- */

/* A row of a file of losses. above: its loss less the mean of its iteration, over tokens. */
struct where_loss {
	int64_t iteration, sample;
	double tokens, loss, above;
};
/* The rows of a text from a sample on, those with the greatest `above` first; free() *out. Returns
 * their number, or -1 with the line that is wrong; name is for messages. */
int64_t where_losses_parse(const char *text, size_t len, const char *name, int64_t from,
    struct where_loss **out, struct err *e);

#endif

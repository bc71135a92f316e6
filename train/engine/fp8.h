/*
 * fp8.h - 8-bit copies: of weights, renewed when these change, and the scales of all operands
 *
 * A copy is scaled by the largest magnitudes of earlier steps (delayed), or by its own: with the
 * tensorwise recipe, and with the delayed one until there is a step to go by; or block by block.
 * Maxima are recorded by copies of weights and those of the forward and backward passes; recording
 * one twice, as a recomputed forward pass does, changes nothing. Evaluations record none. Source:
 * docs/math.md 6.
 */
#ifndef TRAIN_ENGINE_FP8_H
#define TRAIN_ENGINE_FP8_H

#include "lib/model/block/linears.h"
#include "lib/model/fp8.h"
#include "lib/model/fp8_states.h"
#include "train/engine/engine.h"

/* A linear: the copies of its weight, of experts of all of the rank's, E of them, and where its
 * scales are. */
struct fp8_gemm {
	struct tensor weight;     /* E4M3 [out,in]; [E out,in] */
	struct tensor transposed; /* E4M3 [in,out]; [in,E out]; none in runs that train nothing */
	struct tensor squares, squares_transposed; /* of blocks, their scales */
	const struct linear_row *linear;
	int64_t slot; /* of wholes that of x; those of the weight and of dy follow */
};

/* Sets e->fp8, NULL where linears read 16 bits. The engine is otherwise open. */
void fp8_open(struct engine *e);
void fp8_close(struct engine *e);
/* NULL: this linear of the block reads 16 bits. */
const struct fp8_gemm *fp8_gemm_of(
    const struct engine *e, const struct block *b, enum fp8_linear linear);

/* Call when weights have changed. */
void fp8_stale(struct engine *e);
/* A segment is about to read weights, which are there: makes their copies unless they are fresh. */
void fp8_enter(struct step *s, const struct pass_items *of, const struct segment *segment);
/* Whether passes scale in another way than those after this step will. */
bool fp8_begins(const struct engine *e);
/* Whether a tensor must be copied at once: parts of one, copied one after the other, would have
 * other scales. */
bool fp8_at_once(const struct engine *e);

/* How copies of an operand are made, by quantise or by the operation that makes the operand: with
 * its slot's scale, into q and qt of q. record: its largest magnitude counts for the steps after
 * this one. */
struct quantise fp8_copies(const struct engine *e, const struct fp8_gemm *p,
    enum fp8_operand operand, const struct quantise *q, bool record);
/* What a copy has to be multiplied by; t: the copy, transposed or not. */
struct fp8_source {
	const struct fp8_gemm *gemm;
	enum fp8_operand operand;
	bool transposed;
};
struct tensor fp8_scale(
    const struct engine *e, const struct fp8_source *of, const struct tensor *t);

/* At the end of a step's passes: all ranks take the maxima of each other, and scales follow.
 * Collective over the tensor, data and pipeline ranks. */
void fp8_step(struct engine *e);
/* What a checkpoint keeps of the slots; without data where it keeps nothing, or this run has no
 * such buffer. */
struct tensor fp8_slots(const struct engine *e, enum fp8_state state);
/* They have been read from a checkpoint: they serve from now on. */
void fp8_resumed(struct engine *e);

#endif

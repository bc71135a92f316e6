/*
 * schedule.h - the actions of a pipeline stage, in order
 *
 * The engine runs the list, mplan draws and times it, a property test simulates all stages. With
 * one chunk per stage it is 1F1B, with several interleaved 1F1B: chunk j of stage r of p is virtual
 * stage j p + r, and the output of the last stage continues in the next chunk of the first.
 * Exchanges with the same group number are adjacent and are issued as one. All stages have them in
 * the same order of nominal time, and in each a stage waits only for earlier ones, so there is no
 * deadlock, even if no message is buffered.
 *
 * Source: Narayanan 2021, arXiv:2104.04473; docs/parallelism.md 4; the warm-up is Megatron-LM's.
 */
#ifndef MODEL_SCHEDULE_H
#define MODEL_SCHEDULE_H

#include <stdbool.h>

enum action_kind {
	ACTION_FORWARD,
	ACTION_BACKWARD,
	ACTION_RECV_FORWARD,
	ACTION_SEND_FORWARD,
	ACTION_RECV_BACKWARD,
	ACTION_SEND_BACKWARD,
};

/*
 * The memory of an action is numbered, and numbers are reused as soon as they are free:
 *
 *   slot    what a forward pass saves for its backward pass; from the arrival of the input on
 *   tail    with the slot, what the layers save for which a slot has no room
 *   batch   the tokens of a micro batch, from its first pass on this stage to its last
 *   stage output    an output until it is sent, or the gradient of one from arrival to departure
 *
 * -1 where there is none.
 */
struct action {
	enum action_kind kind;
	int microbatch, chunk;
	int slot, tail, batch, stage_output;
	int group; /* of exchanges */
};

/* With more groups of micro batches than this a list is periodic. */
enum { SCHEDULE_STEADY = 4 };

struct schedule_shape {
	int num_stages, num_chunks, num_microbatches;
	int group_size; /* micro batches that go through a chunk before the next chunk's turn */
	bool training;  /* else forward passes alone */
	/* receives are issued one pass before they are needed, and the pass after a send does not
	 * use its stage output, so that exchanges can overlap passes */
	bool overlap;
	/* the layers of each virtual stage, and those for which a slot has room: chunks of more
	 * have a tail. NULL: none has */
	const int *layers;
	int slot_layers;
	/* all forward passes before all backward ones, for comparison (Huang 2019,
	 * arXiv:1811.06965); needs one chunk */
	bool gpipe;
};

/* The count of each kind of number in a list. */
struct schedule_use {
	int slots, tails, batches, stage_outputs;
};

/* Makes the list of a stage, freed by the caller; returns its length. Training with several chunks
 * requires schedule_fits. */
int schedule_make(
    const struct schedule_shape *s, int stage, struct action **out, struct schedule_use *use);
/* The lists of all stages with their lengths and uses, of which each array has num_stages. */
void schedule_make_all(
    const struct schedule_shape *s, struct action **out, int *count, struct schedule_use *use);
/* A shape of few micro batches with as large uses. Between the first and the last groups a list is
 * periodic: that of s has a multiple of *period micro batches more. */
struct schedule_shape schedule_short(const struct schedule_shape *s, int *period);
/* The use of a stage's list without making it, in time that does not grow with the micro batches.
 */
void schedule_count(const struct schedule_shape *s, int stage, struct schedule_use *use);

/* Uses that were counted before: the stages of a shape are timed together, once for all of them.
 * Zero-initialise. */
struct schedule_counts {
	struct {
		struct schedule_shape shape;
		int *layers;              /* of the shape */
		struct schedule_use *use; /* of each stage */
	} * item;
	int count;
};
/* As schedule_count. */
void schedule_counts_get(
    struct schedule_counts *c, const struct schedule_shape *s, int stage, struct schedule_use *use);
void schedule_counts_release(struct schedule_counts *c);
/* True when this number of micro batches can be trained: every group, including the remainder, has
 * at least as many as there are stages. */
bool schedule_fits(const struct schedule_shape *s);

#endif

/*
 * schedule.h - what a pipeline stage does, in order: a list of actions
 *
 * The engine runs the list, mplan draws and prices it, a property test simulates all stages of it.
 * With one chunk a stage it is 1F1B, with several the interleaved form of it: chunk j of stage r of
 * p is virtual stage j p + r, and what leaves the last stage goes on in the next chunk of the
 * first. Exchanges with the same group number stand side by side and are issued as one. They come
 * in one order of (nominal) time on all stages, and a stage waits in each for earlier ones alone,
 * so nothing can deadlock, even where no message is buffered.
 *
 * Source: Narayanan 2021, arXiv:2104.04473; spec/training.md 7; the warm-up is Megatron-LM's.
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
 * What an action touches is numbered, and a number is given to the next as soon as it is free:
 *
 *   slot    what a forward pass leaves for its backward pass; from the arrival of the input on
 *   batch   the tokens of a micro batch, from its first pass on this stage to its last
 *   link    an output until it is sent, or the gradient of one from arrival to departure
 *
 * -1 where there is none.
 */
struct action {
	enum action_kind kind;
	int microbatch, chunk;
	int slot, batch, link;
	int group; /* of exchanges */
};

/* Beyond so many groups of micro batches a list repeats itself. */
enum { SCHEDULE_STEADY = 4 };

struct schedule_shape {
	int num_stages, num_chunks, num_microbatches;
	int group_size; /* micro batches that go through a chunk before the next chunk's turn */
	bool training;  /* else forward passes alone */
	/* receives are issued a pass before they are needed, and a link that is sent from is not
	 * used by the pass after: exchanges can go on beside passes */
	bool beside;
};

/* How many numbers of each kind the list has. */
struct schedule_use {
	int slots, batches, links;
};

/* The list of a stage, freed by the caller; returns its length. Training with several chunks must
 * obey schedule_fits. */
int schedule_make(
    const struct schedule_shape *s, int stage, struct action **out, struct schedule_use *use);
/* What the list of a stage takes, without it; the time does not grow with the micro batches. */
void schedule_count(const struct schedule_shape *s, int stage, struct schedule_use *use);
/* Whether so many micro batches can be trained: groups are as large as the stages at least, and so
 * is what is left of them for the last one. */
bool schedule_fits(const struct schedule_shape *s);

#endif

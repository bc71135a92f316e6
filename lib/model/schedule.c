/*
 * schedule.c - makes the list of actions of a stage
 *
 * A schedule is data: a list that the engine executes, that mplan draws, and that a test simulates
 * over all stages to prove that every send meets its receive. Exchanges between two computations
 * share a group number and are issued together, so that two neighbours that send to each other
 * cannot deadlock.
 */
#include "lib/base/mem.h"
#include "lib/model/schedule.h"

struct list {
	struct action *item;
	int count, stage, num_stages, group;
};

/*
 * Drops actions towards a neighbour that does not exist, so the loops below are the same for every
 * stage.
 */
static void
push(struct list *l, enum action_kind kind, int microbatch)
{
	/* The ends of the pipeline have no neighbour. */
	if ((l->stage == 0 && (kind == ACTION_RECV_FORWARD || kind == ACTION_SEND_BACKWARD)) ||
	    (l->stage == l->num_stages - 1 &&
		(kind == ACTION_SEND_FORWARD || kind == ACTION_RECV_BACKWARD)))
		return;
	l->item[l->count++] = (struct action){ kind, microbatch, 0, l->group };
}

/* A computation closes the group of exchanges before it. */
static void
compute(struct list *l, enum action_kind kind, int microbatch)
{
	l->group++;
	push(l, kind, microbatch);
	l->group++;
}

/* No stage has more than six actions per micro batch. */
static struct list
begin(int num_stages, int stage, int num_microbatches)
{
	struct list l = { mem_alloc((size_t)num_microbatches * 6, sizeof *l.item), 0, stage,
		num_stages, 0 };

	return l;
}

/* Fill with p - stage - 1 forward passes, then one forward and one backward in turn, then drain. */
int
schedule_1f1b(int num_stages, int stage, int num_microbatches, struct action **out)
{
	struct list l = begin(num_stages, stage, num_microbatches);
	int ahead = num_stages - stage - 1,
	    warm_up = ahead < num_microbatches ? ahead : num_microbatches;
	int steady = num_microbatches - warm_up;

	for (int i = 0; i < warm_up; i++) {
		push(&l, ACTION_RECV_FORWARD, i);
		compute(&l, ACTION_FORWARD, i);
		push(&l, ACTION_SEND_FORWARD, i);
		l.group++;
	}
	if (steady > 0)
		push(&l, ACTION_RECV_FORWARD, warm_up);
	for (int i = 0; i < steady; i++) {
		compute(&l, ACTION_FORWARD, warm_up + i);
		push(&l, ACTION_SEND_FORWARD, warm_up + i);
		push(&l, ACTION_RECV_BACKWARD, i);
		compute(&l, ACTION_BACKWARD, i);
		push(&l, ACTION_SEND_BACKWARD, i);
		if (i < steady - 1)
			push(&l, ACTION_RECV_FORWARD, warm_up + i + 1);
	}
	l.group++;
	for (int i = steady; i < num_microbatches; i++) {
		push(&l, ACTION_RECV_BACKWARD, i);
		compute(&l, ACTION_BACKWARD, i);
		push(&l, ACTION_SEND_BACKWARD, i);
		l.group++;
	}
	*out = l.item;
	return l.count;
}

/* For evaluation: no backward pass, so a stage never has to wait for one. */
int
schedule_forward(int num_stages, int stage, int num_microbatches, struct action **out)
{
	struct list l = begin(num_stages, stage, num_microbatches);

	for (int i = 0; i < num_microbatches; i++) {
		push(&l, ACTION_RECV_FORWARD, i);
		compute(&l, ACTION_FORWARD, i);
		push(&l, ACTION_SEND_FORWARD, i);
		l.group++;
	}
	*out = l.item;
	return l.count;
}

/*
 * A stage runs ahead by one forward pass per stage after it, and holds one more while it works.
 * Forward-only runs hold one, whatever this returns.
 */
int
schedule_in_flight(int num_stages, int stage, int num_microbatches)
{
	int n = num_stages - stage;

	return n < num_microbatches ? n : num_microbatches;
}

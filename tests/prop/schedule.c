/* schedule.c - properties of schedules, by simulating every stage: exchanges of a group wait for
 * all their partners */
#include "lib/base/mem.h"
#include "lib/model/schedule.h"
#include "tests/check.h"

#include <stdbool.h>

enum { STAGES_MAX = 9, F = 1, B = 2 };

struct stage {
	struct action *item;
	int count, pos;
	int64_t time;
	int forward, backward, alive, most; /* micro batches done, in flight now, and at most */
};

/* The stage at the other end of an exchange. */
static int
partner(enum action_kind k, int stage)
{
	return k == ACTION_SEND_FORWARD || k == ACTION_RECV_BACKWARD ? stage + 1 : stage - 1;
}

/* What the partner does meanwhile. */
static enum action_kind
counterpart(enum action_kind k)
{
	switch (k) {
	case ACTION_SEND_FORWARD: return ACTION_RECV_FORWARD;
	case ACTION_RECV_FORWARD: return ACTION_SEND_FORWARD;
	case ACTION_SEND_BACKWARD: return ACTION_RECV_BACKWARD;
	default: return ACTION_SEND_BACKWARD;
	}
}

/* Actions from pos on that belong to the same exchange. */
static int
group_length(const struct stage *s)
{
	int n = 0;

	while (s->pos + n < s->count && s->item[s->pos + n].group == s->item[s->pos].group)
		n++;
	return n;
}

/* Runs computations until the stage stands before an exchange or at its end. */
static void
compute(struct stage *s)
{
	for (; s->pos < s->count && s->item[s->pos].kind <= ACTION_BACKWARD; s->pos++) {
		const struct action *a = &s->item[s->pos];

		if (a->kind == ACTION_FORWARD) {
			CHECK(a->microbatch == s->forward++);
			s->time += F;
			s->alive++;
		} else {
			CHECK(a->microbatch == s->backward++ && s->backward <= s->forward);
			s->time += B;
			s->alive--;
		}
		if (s->alive > s->most)
			s->most = s->alive;
		CHECK(a->chunk == 0);
	}
}

/* True when the counterpart of action a (of stage i) is in the exchange before which its partner
 * waits. */
static bool
met(struct stage *all, int i, const struct action *a)
{
	struct stage *q = &all[partner(a->kind, i)];

	for (int k = 0; k < group_length(q); k++)
		if (q->item[q->pos + k].kind == counterpart(a->kind)) {
			CHECK(q->item[q->pos + k].microbatch == a->microbatch);
			return true;
		}
	return false;
}

/* Marks in `in` the closed set of stages whose exchanges complete together, starting at i; false
 * when one is not there yet. */
static bool
close_over(struct stage *all, int i, bool *in)
{
	int n = group_length(&all[i]);

	if (in[i])
		return true;
	in[i] = true;
	for (int k = 0; k < n; k++) {
		const struct action *a = &all[i].item[all[i].pos + k];

		if (!met(all, i, a) || !close_over(all, partner(a->kind, i), in))
			return false;
	}
	return true;
}

/* Completes one set of exchanges; false when nothing can move. */
static bool
exchange(struct stage *all, int p)
{
	for (int i = 0; i < p; i++) {
		bool in[STAGES_MAX] = { false };
		int64_t latest = 0;

		if (all[i].pos == all[i].count || !close_over(all, i, in))
			continue;
		for (int k = 0; k < p; k++)
			if (in[k] && all[k].time > latest)
				latest = all[k].time;
		for (int k = 0; k < p; k++)
			if (in[k]) {
				all[k].pos += group_length(&all[k]);
				all[k].time = latest;
			}
		return true;
	}
	return false;
}

/* Runs all stages to the end; returns the time of the last, or -1 after a deadlock. */
static int64_t
run(struct stage *all, int p)
{
	int64_t end = 0;

	for (;;) {
		bool done = true;

		for (int i = 0; i < p; i++) {
			compute(&all[i]);
			done = done && all[i].pos == all[i].count;
		}
		if (done)
			break;
		if (!exchange(all, p))
			return -1;
	}
	for (int i = 0; i < p; i++)
		if (all[i].time > end)
			end = all[i].time;
	return end;
}

/* Groups never return, and a group holds either one computation or exchanges. */
static void
check_groups(const struct stage *s)
{
	for (int i = 1; i < s->count; i++) {
		CHECK(s->item[i].group >= s->item[i - 1].group);
		if (s->item[i].kind <= ACTION_BACKWARD || s->item[i - 1].kind <= ACTION_BACKWARD)
			CHECK(s->item[i].group != s->item[i - 1].group);
	}
}

/* 1F1B of p stages and m micro batches takes the ideal time and holds as many as promised. */
static void
check_1f1b(int p, int m)
{
	struct stage all[STAGES_MAX] = { 0 };

	for (int i = 0; i < p; i++) {
		all[i].count = schedule_1f1b(p, i, m, &all[i].item);
		check_groups(&all[i]);
	}
	CHECK(run(all, p) == (F + B) * (m + p - 1));
	for (int i = 0; i < p; i++) {
		CHECK(all[i].forward == m && all[i].backward == m);
		CHECK(all[i].most == schedule_in_flight(p, i, m));
		free(all[i].item);
	}
}

/* Forward passes alone go through the pipeline without a bubble but the first. */
static void
check_forward(int p, int m)
{
	struct stage all[STAGES_MAX] = { 0 };

	for (int i = 0; i < p; i++) {
		all[i].count = schedule_forward(p, i, m, &all[i].item);
		check_groups(&all[i]);
	}
	CHECK(run(all, p) == F * (m + p - 1));
	for (int i = 0; i < p; i++) {
		CHECK(all[i].forward == m && all[i].backward == 0);
		free(all[i].item);
	}
}

int
main(void)
{
	for (int p = 1; p <= STAGES_MAX; p++)
		for (int m = 1; m <= 20; m++) {
			check_1f1b(p, m);
			check_forward(p, m);
		}
	return check_done();
}

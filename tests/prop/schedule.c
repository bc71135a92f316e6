/* schedule.c - properties of schedules, by simulating every stage: no message is buffered, and the
 * exchanges of a group wait for all their partners */
#include "lib/model/schedule.h"
#include "lib/base/mem.h"
#include "tests/check.h"

#include <stdint.h>

enum { STAGES_MAX = 16, CHUNKS_MAX = 8, MICROBATCHES_MAX = 64, GROUP_MAX = 4, F = 1, B = 2 };

struct stage {
	struct action *item;
	struct schedule_use use;
	int count, pos;
	int64_t time;
	int alive, most; /* forward passes whose backward pass is still to come; their maximum */
};

struct run {
	const struct schedule_shape *s;
	struct stage stage[STAGES_MAX];
	/* passes done, of a virtual stage and micro batch: 1 forward, 2 both */
	char done[STAGES_MAX * CHUNKS_MAX][MICROBATCHES_MAX];
};

static bool
is_pass(const struct action *a)
{
	return a->kind <= ACTION_BACKWARD;
}

/* The stage at the other end of an exchange: the first comes after the last. */
static int
partner(const struct run *r, const struct action *a, int stage)
{
	int p = r->s->num_stages;

	return a->kind == ACTION_SEND_FORWARD || a->kind == ACTION_RECV_BACKWARD
	    ? (stage + 1) % p
	    : (stage + p - 1) % p;
}

/* True when b, of stage j, is the other end of exchange a, of stage i. */
static bool
meet(const struct run *r, const struct action *a, int i, const struct action *b, int j)
{
	static const enum action_kind other[] = { [ACTION_RECV_FORWARD] = ACTION_SEND_FORWARD,
		[ACTION_SEND_FORWARD] = ACTION_RECV_FORWARD,
		[ACTION_RECV_BACKWARD] = ACTION_SEND_BACKWARD,
		[ACTION_SEND_BACKWARD] = ACTION_RECV_BACKWARD };
	int p = r->s->num_stages, from = a->chunk * p + i, to = b->chunk * p + j;
	bool up = a->kind == ACTION_SEND_FORWARD || a->kind == ACTION_RECV_BACKWARD;

	return b->kind == other[a->kind] && b->microbatch == a->microbatch &&
	    to == from + (up ? 1 : -1);
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

/* A pass comes once, the backward one after the forward one. */
static void
pass(struct run *r, int i, const struct action *a)
{
	struct stage *s = &r->stage[i];
	char *done = &r->done[a->chunk * r->s->num_stages + i][a->microbatch];
	bool back = a->kind == ACTION_BACKWARD;

	CHECK(*done == back);
	++*done;
	s->time += back ? B : F;
	s->alive += back || !r->s->training ? -1 : 1;
	s->most = s->alive > s->most ? s->alive : s->most;
}

/* Runs passes up to the stage's next exchange or its end. */
static void
compute(struct run *r, int i)
{
	struct stage *s = &r->stage[i];

	for (; s->pos < s->count && is_pass(&s->item[s->pos]); s->pos++)
		pass(r, i, &s->item[s->pos]);
}

/* True when the other end of action a of stage i is in the exchange that its partner is about to
 * begin. Within an exchange, messages between the same two stages have one order on both sides. */
static bool
met(const struct run *r, int i, const struct action *a)
{
	int j = partner(r, a, i);
	const struct stage *q = &r->stage[j];

	for (int k = 0; k < group_length(q); k++)
		if (meet(r, a, i, &q->item[q->pos + k], j))
			return true;
	return false;
}

/* Marks in `in` the closed set of stages whose exchanges complete together, starting at i; false
 * when one of them has not arrived there yet. */
static bool
close_over(const struct run *r, int i, bool *in)
{
	const struct stage *s = &r->stage[i];
	int n = group_length(s);

	if (in[i])
		return true;
	in[i] = true;
	for (int k = 0; k < n; k++) {
		const struct action *a = &s->item[s->pos + k];

		if (is_pass(a) || !met(r, i, a) || !close_over(r, partner(r, a, i), in))
			return false;
	}
	return true;
}

/* Completes one set of exchanges; false when no stage can continue. */
static bool
exchange(struct run *r)
{
	int p = r->s->num_stages;

	for (int i = 0; i < p; i++) {
		bool in[STAGES_MAX] = { false };
		int64_t latest = 0;

		if (r->stage[i].pos == r->stage[i].count || !close_over(r, i, in))
			continue;
		for (int k = 0; k < p; k++)
			if (in[k] && r->stage[k].time > latest)
				latest = r->stage[k].time;
		for (int k = 0; k < p; k++)
			if (in[k]) {
				r->stage[k].pos += group_length(&r->stage[k]);
				r->stage[k].time = latest;
			}
		return true;
	}
	return false;
}

/* Runs all stages to the end; returns the time of the last, or -1 after a deadlock. */
static int64_t
finish(struct run *r)
{
	int64_t end = 0;

	for (;;) {
		bool done = true;

		for (int i = 0; i < r->s->num_stages; i++) {
			compute(r, i);
			done = done && r->stage[i].pos == r->stage[i].count;
		}
		if (done)
			break;
		if (!exchange(r))
			return -1;
	}
	for (int i = 0; i < r->s->num_stages; i++)
		if (r->stage[i].time > end)
			end = r->stage[i].time;
	return end;
}

/* Groups never return, and a group holds either one pass or a few exchanges. */
static void
check_groups(const struct stage *s)
{
	int size = 0;

	for (int i = 0; i < s->count; i++) {
		bool same = i > 0 && s->item[i].group == s->item[i - 1].group;

		CHECK(i == 0 || s->item[i].group >= s->item[i - 1].group);
		CHECK(!same || (!is_pass(&s->item[i]) && !is_pass(&s->item[i - 1])));
		size = same ? size + 1 : 1;
		CHECK(size <= GROUP_MAX);
	}
}

/* The present holder of each number; 0: none. A holder stands for a chunk and micro batch, from 1.
 */
struct holders {
	int of[4][4 * CHUNKS_MAX * MICROBATCHES_MAX];
};

/* Gives the number to the holder; nobody else may have it. */
static void
hold(int *of, int most, int number, int holder)
{
	CHECK(number >= 0 && number < most);
	CHECK(of[number] == 0 || of[number] == holder);
	of[number] = holder;
}

/* Frees the stage outputs from which the exchange that ends with action k has sent; beside passes,
 * those of the exchange before pass k. */
static void
free_links(const struct run *r, const struct stage *s, int k, struct holders *h)
{
	bool overlap = r->s->overlap;
	int i = k;

	if (overlap ? !is_pass(&s->item[k])
		    : k + 1 < s->count && s->item[k + 1].group == s->item[k].group)
		return;
	for (i -= overlap; i >= 0 && !is_pass(&s->item[i]); i--)
		if ((s->item[i].kind == ACTION_SEND_FORWARD ||
			s->item[i].kind == ACTION_SEND_BACKWARD) &&
		    (overlap || s->item[i].group == s->item[k].group))
			h->of[2][s->item[i].stage_output] = 0;
}

/* No number is reused while its content is needed, and every number below the count is used. */
static void
check_numbers(const struct run *r, int i)
{
	const struct stage *s = &r->stage[i];
	struct holders *h = mem_zalloc(1, sizeof *h);
	int p = r->s->num_stages, v = r->s->num_chunks, m = r->s->num_microbatches, used[4] = { 0 };

	for (int k = 0; k < s->count; k++) {
		const struct action *a = &s->item[k];
		int at = 1 + a->chunk * m + a->microbatch;
		bool back = a->kind == ACTION_BACKWARD || a->kind == ACTION_RECV_BACKWARD ||
		    a->kind == ACTION_SEND_BACKWARD,
		     last = a->chunk * p + i == p * v - 1, first = a->chunk * p + i == 0,
		     tail = r->s->layers && r->s->layers[a->chunk * p + i] > r->s->slot_layers;

		if (is_pass(a) || a->kind == ACTION_RECV_FORWARD)
			hold(h->of[0], s->use.slots, a->slot, at);
		if (tail && (is_pass(a) || a->kind == ACTION_RECV_FORWARD))
			hold(h->of[3], s->use.tails, a->tail, at);
		CHECK(tail || a->tail < 0);
		if (is_pass(a))
			hold(h->of[1], s->use.batches, a->batch, 1 + a->microbatch);
		if (a->kind != ACTION_RECV_FORWARD && (back || !last))
			hold(h->of[2], s->use.stage_outputs, a->stage_output, back ? -at : at);
		used[0] = a->slot >= used[0] ? a->slot + 1 : used[0];
		used[1] = a->batch >= used[1] ? a->batch + 1 : used[1];
		used[2] = a->stage_output >= used[2] ? a->stage_output + 1 : used[2];
		used[3] = a->tail >= used[3] ? a->tail + 1 : used[3];
		if (is_pass(a) && (back || !r->s->training))
			h->of[0][a->slot] = 0;
		if (is_pass(a) && tail && (back || !r->s->training))
			h->of[3][a->tail] = 0;
		if (is_pass(a) && (r->s->training ? back && a->chunk == 0 : a->chunk == v - 1))
			h->of[1][a->batch] = 0;
		if (a->kind == ACTION_BACKWARD && first)
			h->of[2][a->stage_output] = 0;
		free_links(r, s, k, h);
	}
	CHECK(used[0] == s->use.slots && used[1] == s->use.batches &&
	    used[2] == s->use.stage_outputs && used[3] == s->use.tails);
	free(h);
}

/* The maximum number of forward passes by which a stage is ahead of its backward passes. */
static int
bound(const struct schedule_shape *s, int stage)
{
	int after = s->num_stages - stage - 1, all = s->num_microbatches * s->num_chunks;
	int n = 1 + (s->num_chunks > 1 ? 2 * after + (s->num_chunks - 1) * s->group_size : after);

	return n < all ? n : all;
}

/* There are as many slots as passes in flight, and one more where inputs arrive a pass early. There
 * are few stage outputs; in larger groups more, since outputs of the last stage wait for the first
 * one. schedule_count gives the same numbers without the list, and so do the counts of all
 * stages. */
static void
check_use(const struct run *r, int i, struct schedule_counts *counts)
{
	const struct stage *s = &r->stage[i];
	int most = r->s->training ? bound(r->s, i) : 1,
	    waiting = r->s->group_size - r->s->num_stages;
	struct schedule_use count;

	CHECK(!r->s->training || s->most == most);
	CHECK(s->use.slots >= most && s->use.slots <= most + r->s->overlap);
	CHECK(s->use.stage_outputs <= (r->s->num_chunks == 1 ? 2 : 6 + 2 * waiting));
	schedule_count(r->s, i, &count);
	CHECK(count.slots == s->use.slots && count.tails == s->use.tails &&
	    count.batches == s->use.batches && count.stage_outputs == s->use.stage_outputs);
	schedule_counts_get(counts, r->s, i, &count);
	CHECK(count.slots == s->use.slots && count.tails == s->use.tails &&
	    count.batches == s->use.batches && count.stage_outputs == s->use.stage_outputs);
}

/* Everything above, for one shape; returns the time of a run. */
static int64_t
check_shape(const struct schedule_shape *s)
{
	struct run *r = mem_zalloc(1, sizeof *r);
	struct schedule_counts counts = { 0 };
	int64_t time;

	r->s = s;
	for (int i = 0; i < s->num_stages; i++) {
		r->stage[i].count = schedule_make(s, i, &r->stage[i].item, &r->stage[i].use);
		check_groups(&r->stage[i]);
		check_numbers(r, i);
	}
	time = finish(r);
	CHECK(time > 0);
	for (int i = 0; i < s->num_stages; i++)
		check_use(r, i, &counts);
	schedule_counts_release(&counts);
	for (int i = 0; i < s->num_stages * s->num_chunks; i++)
		for (int m = 0; m < s->num_microbatches; m++)
			CHECK(r->done[i][m] == 1 + s->training);
	for (int i = 0; i < s->num_stages; i++)
		free(r->stage[i].item);
	free(r);
	return time;
}

/* 1F1B and forward passes alone take the ideal time, and one chunk needs no more stage outputs than
 * an output and a gradient. */
static void
check_one_chunk(int p, int m)
{
	struct schedule_shape s = { p, 1, m, p, true, false, NULL, 0, false };
	struct schedule_use use;

	CHECK(check_shape(&s) == (F + B) * (m + p - 1));
	schedule_count(&s, 0, &use);
	CHECK(use.slots == use.batches && use.stage_outputs == 1 + (p > 1 && m >= p));
	s.training = false;
	CHECK(check_shape(&s) == F * (m + p - 1));
	s.training = s.overlap = true;
	check_shape(&s);
}

/* Layers of virtual stages: of 1 to 3, without an order. */
static const int layers[STAGES_MAX * CHUNKS_MAX] = { 1, 2, 1, 3, 1, 1, 2, 2, 1, 2, 3, 3, 1, 2, 2, 1,
	1, 3, 1, 2, 2, 3, 1, 1, 3 };

/* The tails of a stage with this number of micro batches, or with one that differs from it in the
 * last group. */
static int
most_tails(const struct schedule_shape *s, int stage)
{
	struct schedule_shape other = *s;
	int most = 0, whole = s->num_microbatches - s->num_microbatches % s->group_size;

	for (int left = 0; left < s->group_size; left++) {
		struct schedule_use use;

		other.num_microbatches = whole + left;
		if (!schedule_fits(&other))
			continue;
		schedule_count(&other, stage, &use);
		most = use.tails > most ? use.tails : most;
	}
	return most;
}

/* The stages need no more with fewer micro batches, as the steps of a ramp have. */
static void
check_fewer(const struct schedule_shape *s)
{
	for (int i = 0; i < s->num_stages; i++) {
		struct schedule_shape fewer = *s;
		struct schedule_use use, most;
		int tails = most_tails(s, i);

		schedule_count(s, i, &most);
		while (--fewer.num_microbatches > 0) {
			if (!schedule_fits(&fewer))
				continue;
			schedule_count(&fewer, i, &use);
			CHECK(use.slots <= most.slots && use.tails <= tails &&
			    use.batches <= most.batches && use.stage_outputs <= most.stage_outputs);
		}
	}
}

/* Every legal number of micro batches up to some, with groups of the stages and larger ones. */
static void
check_chunks(int p, int v, int most)
{
	for (int n = p; n <= p + 2; n++)
		for (int m = n; m <= most; m++) {
			struct schedule_shape s = { p, v, m, n, true, m % 2,
				m % 4 < 2 ? layers : NULL, 1 + m / 4 % 2 };

			if (schedule_fits(&s))
				check_shape(&s);
			if (schedule_fits(&s) && m == most)
				check_fewer(&s);
			s.training = false;
			if (m % 3 == 0)
				check_shape(&s);
		}
}

int
main(void)
{
	static const int large[][4] = { { 16, 8, 64, 16 }, { 16, 8, 64, 32 }, { 16, 2, 64, 16 },
		{ 8, 8, 60, 13 }, { 15, 3, 61, 23 }, { 2, 8, 64, 2 } };

	for (int p = 1; p <= 9; p++)
		for (int m = 1; m <= 20; m++)
			check_one_chunk(p, m);
	for (int p = 2; p <= 5; p++)
		for (int v = 2; v <= 4; v++)
			check_chunks(p, v, 3 * p + 4);
	for (size_t i = 0; i < sizeof large / sizeof *large; i++)
		for (int overlap = 0; overlap < 2; overlap++) {
			struct schedule_shape s = { large[i][0], large[i][1], large[i][2],
				large[i][3], true, overlap, layers, 1 };

			CHECK(schedule_fits(&s));
			check_shape(&s);
		}
	return check_done();
}

/* replay.c - tests of recorded segments of passes on a device that only counts segments run,
 * recorded and launched */
#include "tests/check.h"
#include "train/comm.h"
#include "train/layers/layer.h"
#include "train/step/replay.h"

static int passed, recorded, launched, dropped;
static bool recording, broken;

struct recorded {
	int number;
};

/* A layer, whose passes are counted. */
static void
pass(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	(void)l;
	(void)s;
	(void)y;
	(void)x;
	if (recording)
		recorded++;
	else
		passed++;
}

static bool
begin(struct stream *st, struct err *why)
{
	(void)st;
	(void)why;
	recording = true;
	return true;
}

static struct recorded *
end(struct stream *st, struct err *why)
{
	static struct recorded r;

	(void)st;
	recording = false;
	if (!broken)
		return &r;
	err_set(why, "a device that keeps nothing");
	return NULL;
}

static void
launch(struct stream *st, struct recorded *r)
{
	(void)st;
	(void)r;
	launched++;
}

static void
drop(struct recorded *r)
{
	(void)r;
	dropped++;
}

/* Checks the counters. */
static void
counted(int passes, int recordings, int launches)
{
	CHECK(passed == passes && recorded == recordings && launched == launches);
}

int
main(void)
{
	const struct layer_kind kind = { .forward = pass, .backward = pass };
	struct layer layer = { .kind = &kind };
	struct block block = { .kind = &block_mlp };
	struct block_range chunk = { 0, 1 };
	struct segment segments[] = { { 0, 0, 1 }, { 1, 0, 1 } };
	struct pass_item forward = { .kind = ITEM_FORWARD }, backward = { .kind = ITEM_BACKWARD };
	struct pass_items items[][PASS_KINDS] = { { { false, &forward, 1, segments, 2 },
	    { true, &backward, 1, segments, 2 } } };
	const struct pass_items *to = &items[0][0], *back = &items[0][1];
	struct backend b = {
		.record_begin = begin, .record_end = end, .launch = launch, .drop = drop
	};
	struct stream stream = { 0 };
	struct comm world = { .size = 1 }, tensor = { .size = 1 }, context = { .size = 1 };
	struct engine e = { .backend = &b,
		.stream = &stream,
		.groups = { .world = &world, .tp = &tensor, .cp = &context },
		.mem = { .use = { 2, 0, 2, 1 }, .block = &block, .chunk = &chunk },
		.items = items,
		.layer = &layer,
		.token_scale = 8 };
	struct step s = { .e = &e, .training = true, .tail = -1, .stage_output = -1 };
	struct replay *r = replay_new(&e);

	/* Runs directly twice, is recorded and launched the third time, then launched. */
	for (int i = 0; i < 5; i++)
		replay_segment(r, &s, to, segments);
	counted(2, 1, 3);
	/* Another slot, pass, segment, use: each has recordings of its own. */
	s.slot = 1;
	replay_segment(r, &s, to, segments);
	s.slot = 0;
	replay_segment(r, &s, back, segments);
	replay_segment(r, &s, to, &segments[1]);
	s.accumulate = true;
	replay_segment(r, &s, to, segments);
	s.accumulate = false;
	s.training = false;
	replay_segment(r, &s, to, segments);
	counted(7, 1, 3);
	/* A recording is valid for its loss scale and place of the logits, and not with an observer
	 * or when losses are kept. */
	s.training = true;
	e.token_scale = 4;
	replay_segment(r, &s, to, segments);
	e.token_scale = 8;
	stream.observer = (struct observer *)&b;
	replay_segment(r, &s, to, segments);
	stream.observer = NULL;
	s.logits = &s;
	replay_segment(r, &s, to, segments);
	s.logits = NULL;
	s.first_logits = 1;
	replay_segment(r, &s, to, segments);
	s.first_logits = 0;
	s.losses = &s;
	replay_segment(r, &s, to, segments);
	s.losses = NULL;
	counted(12, 1, 3);
	replay_segment(r, &s, to, segments);
	counted(12, 1, 4);
	replay_free(r);
	CHECK(dropped == 1);
	/* Recordings are so many at most: of 20 slots' and 4 batches' with and without a stage
	 * output, both ways. */
	e.mem.use = (struct schedule_use){ 20, 0, 4, 1 };
	r = replay_new(&e);
	for (int i = 0; i < 3 * 320; i++) {
		struct step one = { .e = &e,
			.training = true,
			.slot = i / 3 % 20,
			.tail = -1,
			.batch = i / 60 % 4,
			.stage_output = i / 240 % 2 - 1 };

		replay_segment(r, &one, i < 480 ? to : back, segments);
	}
	counted(12 + 2 * 320 + 64, 1 + 256, 4 + 256);
	replay_free(r);
	CHECK(dropped == 257);
	passed = recorded = launched = dropped = 0;
	/* A device that fails to record a segment is not asked again, for no other segment
	 * either. */
	broken = true;
	r = replay_new(&e);
	for (int i = 0; i < 5; i++)
		replay_segment(r, &s, to, segments);
	for (int i = 0; i < 5; i++)
		replay_segment(r, &s, back, segments);
	counted(10, 1, 0);
	replay_free(r);
	CHECK(dropped == 0);
	/* Nothing is recorded with dropout, of tensor ranks, or on a device without recordings. */
	tensor.size = 2;
	CHECK(!replay_new(&e));
	tensor.size = 1;
	e.plan.model.attention_dropout = 0.1;
	CHECK(!replay_new(&e));
	e.plan.model.attention_dropout = 0;
	e.plan.model.embedding_dropout = 0.1;
	CHECK(!replay_new(&e));
	e.plan.model.embedding_dropout = 0;
	b.record_begin = NULL;
	CHECK(!replay_new(&e));
	replay_segment(NULL, &s, to, segments);
	counted(11, 1, 0);
	return check_done();
}

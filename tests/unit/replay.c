/* replay.c - tests of recorded legs of passes on a device that only counts legs run, recorded and
 * launched */
#include "tests/check.h"
#include "train/engine/replay.h"
#include "train/layers/layer.h"

static int passed, recorded, launched;
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
begin(struct stream *st)
{
	(void)st;
	recording = true;
	return true;
}

static struct recorded *
end(struct stream *st)
{
	static struct recorded r;

	(void)st;
	recording = false;
	return broken ? NULL : &r;
}

static void
launch(struct stream *st, struct recorded *r)
{
	(void)st;
	(void)r;
	launched++;
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
	struct leg legs[] = { { 0, 0, 1 }, { 1, 0, 1 } };
	struct move forward = { .kind = MOVE_FORWARD }, backward = { .kind = MOVE_BACKWARD };
	struct moves moves[][2] = { { { false, &forward, 1, legs, 2 },
	    { true, &backward, 1, legs, 2 } } };
	const struct moves *to = &moves[0][0], *back = &moves[0][1];
	struct backend b = { .record_begin = begin, .record_end = end, .launch = launch };
	struct stream stream = { 0 };
	struct comm tp = { .size = 1 }, cp = tp;
	struct engine e = { .backend = &b,
		.stream = &stream,
		.groups.tp = &tp,
		.groups.cp = &cp,
		.mem = { .use = { 2, 2, 1 }, .block = &block, .chunk = &chunk },
		.moves = moves,
		.layer = &layer,
		.token_scale = 8 };
	struct step s = { .e = &e, .training = true, .link = -1 };
	struct replay *r = replay_new(&e);

	/* Runs directly twice, is recorded and launched the third time, then launched. */
	for (int i = 0; i < 5; i++)
		replay_leg(r, &s, to, legs);
	counted(2, 1, 3);
	/* Another slot, pass, leg, use: each has recordings of its own. */
	s.slot = 1;
	replay_leg(r, &s, to, legs);
	s.slot = 0;
	replay_leg(r, &s, back, legs);
	replay_leg(r, &s, to, &legs[1]);
	s.accumulate = true;
	replay_leg(r, &s, to, legs);
	s.accumulate = false;
	s.training = false;
	replay_leg(r, &s, to, legs);
	counted(7, 1, 3);
	/* A recording is valid for its loss scale, and not with an observer or when the logits are
	 * kept. */
	s.training = true;
	e.token_scale = 4;
	replay_leg(r, &s, to, legs);
	e.token_scale = 8;
	stream.observer = (struct observer *)&b;
	replay_leg(r, &s, to, legs);
	stream.observer = NULL;
	s.logits = &s;
	replay_leg(r, &s, to, legs);
	s.logits = NULL;
	s.losses = &s;
	replay_leg(r, &s, to, legs);
	s.losses = NULL;
	counted(11, 1, 3);
	replay_leg(r, &s, to, legs);
	counted(11, 1, 4);
	replay_free(r);
	/* A device that fails to record a pass is not asked again. */
	broken = true;
	r = replay_new(&e);
	for (int i = 0; i < 5; i++)
		replay_leg(r, &s, to, legs);
	counted(16, 2, 4);
	replay_free(r);
	/* Nothing is recorded with communication, with dropout, or on a device without recordings.
	 */
	tp.size = 2;
	CHECK(!replay_new(&e));
	tp.size = 1;
	e.plan.model.attention_dropout = 0.1;
	CHECK(!replay_new(&e));
	e.plan.model.attention_dropout = 0;
	e.plan.model.embedding_dropout = 0.1;
	CHECK(!replay_new(&e));
	e.plan.model.embedding_dropout = 0;
	b.record_begin = NULL;
	CHECK(!replay_new(&e));
	replay_leg(NULL, &s, to, legs);
	counted(17, 2, 4);
	return check_done();
}

/* replay.c - tests of recorded passes on a device that only counts passes run, recorded and
 * launched */
#include "tests/check.h"
#include "train/engine/replay.h"

static int passed, recorded, launched;
static bool recording, broken;

struct recorded {
	int number;
};

static void
pass(struct step *s)
{
	(void)s;
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
	struct backend b = { .record_begin = begin, .record_end = end, .launch = launch };
	struct stream stream = { 0 };
	struct comm tp = { .size = 1 }, cp = tp;
	struct engine e = { .backend = &b,
		.stream = &stream,
		.groups.tp = &tp,
		.groups.cp = &cp,
		.mem.use = { 2, 2, 1 },
		.token_scale = 8 };
	struct step s = { .e = &e, .training = true };
	struct replay *r = replay_new(&e);

	/* Runs directly twice, is recorded and launched the third time, then launched. */
	for (int i = 0; i < 5; i++)
		replay_pass(r, 0, &s, pass);
	counted(2, 1, 3);
	/* Another slot, pass, use: each has recordings of its own. */
	s.slot = 1;
	replay_pass(r, 0, &s, pass);
	s.slot = 0;
	replay_pass(r, 1, &s, pass);
	s.accumulate = true;
	replay_pass(r, 0, &s, pass);
	s.accumulate = false;
	s.training = false;
	replay_pass(r, 0, &s, pass);
	counted(6, 1, 3);
	/* A recording is valid for its loss scale, and not with an observer or when the logits are
	 * kept. */
	s.training = true;
	e.token_scale = 4;
	replay_pass(r, 0, &s, pass);
	e.token_scale = 8;
	stream.observer = (struct observer *)&b;
	replay_pass(r, 0, &s, pass);
	stream.observer = NULL;
	s.logits = &s;
	replay_pass(r, 0, &s, pass);
	s.logits = NULL;
	s.losses = &s;
	replay_pass(r, 0, &s, pass);
	s.losses = NULL;
	counted(10, 1, 3);
	replay_pass(r, 0, &s, pass);
	counted(10, 1, 4);
	replay_free(r);
	/* A device that fails to record a pass is not asked again. */
	broken = true;
	r = replay_new(&e);
	for (int i = 0; i < 5; i++)
		replay_pass(r, 0, &s, pass);
	counted(15, 2, 4);
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
	replay_pass(NULL, 0, &s, pass);
	counted(16, 2, 4);
	return check_done();
}

/* simulate.c - tests of the simulation of pipelines: closed forms where there are some, and on
 * random cases the critical path, the bound, and what many micro batches are taken to add */
#include "plan/simulate.h"
#include "lib/base/mem.h"
#include "tests/check.h"

enum { STAGES = 8, CHUNKS = 4 };

struct costs {
	double forward[STAGES * CHUNKS], backward[STAGES * CHUNKS], message[STAGES];
};

static double
pass(const void *ctx, int virtual_stage, int microbatch, bool backward)
{
	const struct costs *c = ctx;

	(void)microbatch;
	return backward ? c->backward[virtual_stage] : c->forward[virtual_stage];
}

static double
message(const void *ctx, int stage)
{
	const struct costs *c = ctx;

	return c->message[stage];
}

static bool
all_land(const void *ctx, int stage)
{
	(void)ctx;
	(void)stage;
	return true;
}

static unsigned long state;

static double
uniform(double low, double high)
{
	state = state * 6364136223846793005ul + 1442695040888963407ul;
	return low + (high - low) * (double)(state >> 11) / 9007199254740992.0;
}

static int
choose(int low, int high)
{
	return low + (int)(uniform(0, 1) * (high - low + 1));
}

static struct schedule_shape
shape_of(int p, int v, int m, bool overlap)
{
	return (struct schedule_shape){ .num_stages = p,
		.num_chunks = v,
		.num_microbatches = m,
		.group_size = p,
		.training = true,
		.overlap = overlap };
}

static void
equal_costs(struct costs *c, double forward, double backward, double link)
{
	for (int i = 0; i < STAGES * CHUNKS; i++) {
		c->forward[i] = forward;
		c->backward[i] = backward;
	}
	for (int i = 0; i < STAGES; i++)
		c->message[i] = link;
}

static void
random_costs(struct costs *c, double link)
{
	for (int i = 0; i < STAGES * CHUNKS; i++) {
		c->forward[i] = uniform(0.5, 1.5);
		c->backward[i] = c->forward[i] * uniform(1.5, 3);
	}
	for (int i = 0; i < STAGES; i++)
		c->message[i] = uniform(0, link);
}

/* Idle time of equal stages without messages is (p - 1) / m of the passes, (p - 1) / (m v) with
 * chunks; all forward passes first idle as long as 1F1B. Exchanges between the passes of chunks
 * wait for each other, and only add to it. */
static void
test_closed_forms(void)
{
	struct costs c;

	equal_costs(&c, 1, 2, 0);
	for (int p = 1; p <= STAGES; p++)
		for (int v = 1; v <= (p > 1 ? CHUNKS : 1); v++)
			for (int m = p; m <= 5 * p; m += v > 1 ? p : 1) {
				struct schedule_shape w = shape_of(p, v, m, v > 1);
				struct simulation s = { &w, pass, message, NULL, &c };
				double passes = 3.0 * m * v, all = simulate_total(&s);

				CHECK_NEAR(all / passes - 1, (p - 1.0) / (m * v), 1e-12);
				CHECK_NEAR(simulate_bound(&s), all, 1e-12);
				w.overlap = false;
				CHECK(simulate_total(&s) >= all - 1e-9);
				w.gpipe = v == 1;
				CHECK(v > 1 || fabs(simulate_total(&s) - all) < 1e-9);
			}
}

/* Of 1F1B with messages that hold stages up: a stage in the middle waits for two exchanges with
 * each pair of passes, which adds their time. */
static void
test_messages(void)
{
	struct schedule_shape w = shape_of(4, 1, 64, false);
	struct costs c;
	struct simulation s = { &w, pass, message, NULL, &c };
	double without;

	equal_costs(&c, 1, 2, 0);
	without = simulate_total(&s);
	equal_costs(&c, 1, 2, 0.01);
	CHECK_NEAR((simulate_total(&s) - without) / (64 * 0.02), 1, 0.1);
}

/* The longest chain of passes and messages that wait for each other, whatever else a stage does. */
static double
critical_path(const struct schedule_shape *w, const struct costs *c)
{
	double sum = 0, most = 0;
	int n = w->num_stages * w->num_chunks;

	for (int i = 0; i < n; i++)
		sum += c->forward[i] + c->backward[i];
	for (int i = 0; i + 1 < n; i++)
		sum += 2 * c->message[i % w->num_stages];
	for (int r = 0; r < w->num_stages; r++) {
		double own = 0;

		for (int i = r; i < n; i += w->num_stages)
			own += w->num_microbatches * (c->forward[i] + c->backward[i]);
		most = fmax(most, own);
	}
	return fmax(sum, most);
}

/* A stage's events follow each other, and each reads what another has made. */
static void
check_events(const struct simulation *s, const struct simulated *x)
{
	const struct schedule_shape *w = s->shape;
	size_t n = (size_t)(w->num_stages * w->num_chunks) * (size_t)w->num_microbatches;
	double *forward = mem_zalloc(n, sizeof *forward);

	for (int r = 0; r < w->num_stages; r++) {
		double at = 0;

		for (int i = 0; i < x->stage[r].count; i++) {
			const struct sim_event *v = &x->stage[r].event[i];
			const struct action *a = &v->action;
			int stage = a->chunk * w->num_stages + r;

			CHECK(v->end >= v->start && v->start >= 0);
			if (a->kind > ACTION_BACKWARD)
				continue;
			CHECK(v->start >= at);
			at = v->end;
			if (a->kind == ACTION_FORWARD)
				forward[stage * w->num_microbatches + a->microbatch] = v->end;
		}
	}
	for (int r = 0; r < w->num_stages; r++)
		for (int i = 0; i < x->stage[r].count; i++) {
			const struct sim_event *v = &x->stage[r].event[i];
			const struct action *a = &v->action;
			int stage = a->chunk * w->num_stages + r;

			if (a->kind != ACTION_FORWARD || stage == 0)
				continue;
			CHECK(
			    v->start >= forward[(stage - 1) * w->num_microbatches + a->microbatch] +
				s->message(s->ctx, (stage - 1) % w->num_stages) - 1e-9);
		}
	free(forward);
}

/* Of a message that lands, received no sooner than it has come, the next of its kind from this
 * stage does not leave before it has been taken. */
static void
check_landing(const struct simulated *x, int stage, enum action_kind kind)
{
	int p = x->num_stages,
	    to = kind == ACTION_SEND_FORWARD ? (stage + 1) % p : (stage + p - 1) % p, j = 0;
	const struct sim_stage *from = &x->stage[stage], *at = &x->stage[to];
	double taken = 0;

	for (int i = 0; i < from->count; i++) {
		const struct sim_event *v = &from->event[i];

		if (v->action.kind != kind)
			continue;
		while (at->event[j].action.kind != kind - 1)
			j++;
		CHECK(v->start >= taken && at->event[j].end >= v->end);
		CHECK(at->event[j].action.microbatch == v->action.microbatch);
		taken = at->event[j++].end;
	}
}

/* The same where messages land, which takes no longer. */
static void
check_lands(struct simulation s, double without)
{
	struct simulated x;

	s.lands = all_land;
	simulate(&s, &x);
	CHECK(x.total <= without + 1e-9);
	CHECK(x.total >= simulate_bound(&s) - 1e-9);
	check_events(&s, &x);
	for (int r = 0; r < x.num_stages && s.shape->overlap; r++) {
		check_landing(&x, r, ACTION_SEND_FORWARD);
		check_landing(&x, r, ACTION_SEND_BACKWARD);
	}
	simulated_release(&x);
}

/* Two stages of four chunks, of which the last two of all take longer than the others: some outputs
 * wait for a stage that has not come to them, unless they land. */
static void
test_landing(void)
{
	struct schedule_shape w = shape_of(2, 4, 16, true);
	struct costs c;
	struct simulation s = { &w, pass, message, NULL, &c };
	double held, landed;

	equal_costs(&c, 1, 2, 0.03);
	c.forward[6] = 2;
	c.backward[6] = 4;
	c.forward[7] = 6.4;
	c.backward[7] = 0;
	held = simulate_total(&s);
	s.lands = all_land;
	landed = simulate_total(&s);
	CHECK(landed < 0.995 * held && landed >= simulate_bound(&s));
}

static void
test_random(void)
{
	enum { CASES = 300 };
	double worst = 0;
	int off = 0;

	for (int i = 0; i < CASES; i++) {
		int p = choose(2, STAGES), v = choose(1, CHUNKS), m = p * choose(1, i % 5 ? 8 : 40);
		struct schedule_shape w = shape_of(p, v, m, choose(0, 1) && v > 1);
		struct costs c;
		struct simulation s = { &w, pass, message, NULL, &c };
		struct simulated x;
		double few;

		random_costs(&c, i % 3 * 0.1);
		simulate(&s, &x);
		CHECK(x.total >= critical_path(&w, &c) - 1e-9);
		CHECK(x.total >= simulate_bound(&s) - 1e-9);
		few = fabs(simulate_total(&s) / x.total - 1);
		worst = fmax(worst, few);
		off += few > 0.001;
		check_events(&s, &x);
		check_lands(s, x.total);
		simulated_release(&x);
	}
	printf("few micro batches in the place of all: %.2g off at most\n", worst);
	CHECK(worst < 0.02);
	CHECK(off <= CASES / 100);
}

int
main(void)
{
	state = check_seed();
	test_closed_forms();
	test_messages();
	test_landing();
	test_random();
	return check_done();
}

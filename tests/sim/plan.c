/*
 * plan.c - what happens to a seed: its pace and its faults
 *
 * A fault draws the spot first, and then at which of the times that a rank is there it happens: so
 * what is done once is struck as often as what is done in each step. Some are drawn by their number
 * among all calls, and some count from the fault before them on, since undisturbed runs do not show
 * what is done because of a fault.
 */
#include "tests/sim/plan.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* The plan that is drawn. */
static struct {
	const struct layout *layout;
	const struct seen *seen;
	bool half;
	struct faults *faults;
} plan;

void
plan_pace(void)
{
	static const int64_t costs[] = { 200, 2000, 20000 },
			     wires[] = { 1000, 20000, 1000000, 50000000 },
			     pauses[] = { MILLISECOND, 100 * MILLISECOND, 3 * SECOND };
	static const int pause_one_in[] = { 0, 2000, 300 };

	sim.call_cost = costs[draw(3)];
	sim.wire_delay = wires[draw(4)];
	sim.pause_max = pauses[draw(3)];
	sim.pause_one_in = pause_one_in[draw(3)];
}

/* --- where ------------------------------------------------------------------------------------ */

#define BIT(c) (UINT64_C(1) << CALL_##c)
static const uint64_t failing = BIT(OPEN) | BIT(WRITE) | BIT(FSYNC) | BIT(CLOSE) | BIT(RENAME) |
    BIT(LINK) | BIT(UNLINK) | BIT(MKDIR) | BIT(READ) | BIT(MMAP) | BIT(LOOK) | BIT(LIST) |
    BIT(MEMORY) | BIT(THREAD) | BIT(TRUNCATE) | BIT(FLOCK);

/* By these a start learns what earlier ones have left. */
static const uint64_t looking = BIT(LOOK) | BIT(OPEN) | BIT(READ) | BIT(LIST);

/* The first calls of a start are rare among all, and as much depends on them: half of the time any
 * magnitude is as likely. */
static long
draw_number(long n)
{
	int bits = 64 - __builtin_clzll((unsigned long long)n | 1);

	return draw(2) ? 1 + (long)draw((uint64_t)n)
		       : 1 + (long)draw(UINT64_C(1) << draw((uint64_t)bits + 1));
}

/* One of the bits. */
static enum call
draw_call(uint64_t calls)
{
	int n = (int)draw((uint64_t)__builtin_popcountll(calls));

	while (n--)
		calls &= calls - 1;
	return (enum call)__builtin_ctzll(calls);
}

/* A rank that is at a spot: half of the time the first one, which does more than others. */
static int
draw_rank(const struct spot *at)
{
	int ranks = 0, n;

	for (int i = 0; i < RANKS; i++)
		ranks += at->times[i] > 0;
	n = draw(2) ? (int)draw((uint64_t)ranks) : 0;
	for (int i = 0; i < RANKS; i++)
		if (at->times[i] > 0 && n-- == 0)
			return i;
	return 0;
}

/* What comes after a fault is most often a start that continues what the one before has saved. */
static const struct spots *
draw_run(const struct strike *s)
{
	const struct seen *x = plan.seen;

	return x->rest.count && (plan.half || (s->then && draw(3))) ? &x->rest : &x->whole;
}

/* By the number among all calls of a kind. */
static void
count(struct strike *s, enum call c, bool one_rank)
{
	s->call = c;
	s->rank = one_rank ? (int)draw((uint64_t)plan.layout->ranks) : -1;
	s->at = draw_number(c == CALL_ANY ? plan.seen->yields * 3 / 2 : plan.seen->calls[c] + 2);
}

/* Where one rank's calls count, or those of all. */
static void
aim(struct strike *s, uint64_t calls, bool one_rank)
{
	const struct spot *at = spots_draw(draw_run(s), calls);
	long times = 0;

	if (!at) {
		count(s, draw_call(calls), one_rank);
		return;
	}
	s->call = at->call;
	s->about = at->about;
	memcpy(s->path, at->path, sizeof s->path);
	s->rank = one_rank ? draw_rank(at) : -1;
	for (int i = 0; i < RANKS; i++)
		times += s->rank < 0 || s->rank == i ? at->times[i] : 0;
	s->at = 1 + (long)draw((uint64_t)times);
}

/* --- what ------------------------------------------------------------------------------------- */

static int
draw_error(enum call c)
{
	static const int errors[] = { EIO, ENOSPC, EDQUOT, ENOMEM, EMFILE };

	return c == CALL_MEMORY ? ENOMEM
	    : c == CALL_THREAD  ? EAGAIN
	    : draw(3)           ? EIO
				: errors[draw(sizeof errors / sizeof *errors)];
}

static bool
is_first(const struct strike *s)
{
	return s == plan.faults->strike;
}

/* Whether calls count from the fault before on. */
static bool
draw_then(const struct strike *s)
{
	return !is_first(s) && draw(4);
}

static bool
fails(enum strike_kind kind)
{
	return kind == STRIKE_FAIL || kind == STRIKE_FAIL_ON;
}

static void
draw_strike(struct strike *s, enum strike_kind kind)
{
	bool one_rank = fails(kind) || kind == STRIKE_SHORT;
	uint64_t calls = fails(kind) ? failing
	    : kind == STRIKE_SHORT   ? BIT(READ) | BIT(WRITE)
	    : draw(2)                ? faults_calls(CALL_CHANGE)
				     : faults_calls(CALL_ANY);

	*s = (struct strike){
		.kind = kind, .rank = -1, .call = CALL_ANY, .at = 1, .then = draw_then(s)
	};
	if (kind == STRIKE_POWER && draw_one_in(3))
		count(s, CALL_FSYNC, false);
	else if (draw(8))
		aim(s, calls, one_rank);
	else
		count(s, one_rank || draw(2) ? draw_call(calls) : CALL_ANY, one_rank);
	if (fails(kind))
		s->err = draw_error(s->call);
	s->here = s->about && draw(2);
	if (kind <= STRIKE_POWER && s->about && draw(2))
		s->later = 1 + (long)draw(2);
}

/* Soon after the fault before it, whatever is done then that changes the disk; a loss of power
 * shows most before a sync. */
static void
draw_next(struct strike *s, enum strike_kind kind)
{
	bool sync = kind == STRIKE_POWER && draw(4);

	*s = (struct strike){ .kind = kind,
		.rank = fails(kind) ? s[-1].rank : -1,
		.call = sync ? CALL_FSYNC : CALL_CHANGE,
		.at = 1 + (long)draw(sync ? 4 : 8),
		.err = fails(kind) ? EIO : 0,
		.then = true };
}

/* A write that is cut short, by an end that comes before it is continued. */
static int
draw_cut(struct strike *s)
{
	s[0] = (struct strike){ .kind = STRIKE_SHORT, .at = 1, .then = draw_then(s) };
	aim(s, BIT(WRITE), true);
	s[1] = s[0];
	s[1].kind = STRIKE_KILL;
	s[1].at = 2;
	s[1].then = true;
	return 2;
}

/* An end while names change, which is most of what a tool has to do right. */
static int
draw_between(struct strike *s)
{
	s[0] = (struct strike){ .kind = draw(3) ? STRIKE_POWER : STRIKE_KILL,
		.rank = -1,
		.at = 1,
		.then = draw_then(s) };
	aim(s, BIT(RENAME) | BIT(LINK) | BIT(UNLINK) | BIT(FSYNC), false);
	s[0].later = s[0].about ? (long)draw(3) : 0;
	return 1;
}

/* A failure, and something that happens while what it needs is done. */
static int
draw_twice(struct strike *s)
{
	static const enum strike_kind kinds[] = { STRIKE_FAIL, STRIKE_KILL, STRIKE_POWER,
		STRIKE_POWER };

	s[0] = (struct strike){ .kind = STRIKE_FAIL, .at = 1, .err = EIO, .then = draw_then(s) };
	aim(s, faults_calls(CALL_CHANGE), true);
	draw_next(&s[1], kinds[draw(sizeof kinds / sizeof *kinds)]);
	return 2;
}

/* An end soon after the beginning, whose remains the next start has to deal with: either nothing
 * that it finds there is on the disk for good, or it cannot look at all of it. */
static int
draw_early(struct strike *s)
{
	s[0] = (struct strike){ .kind = STRIKE_KILL,
		.rank = -1,
		.call = draw(2) ? CALL_RENAME : CALL_CHANGE,
		.at = 1 + (long)draw(draw(2) ? 8 : 32) };
	plan.faults->dark = draw(2);
	if (plan.faults->dark)
		return 1;
	s[1] = (struct strike){ .kind = STRIKE_FAIL_ON, .at = 1, .err = EIO, .then = true };
	if (draw(4))
		aim(&s[1], looking, true);
	else
		count(&s[1], draw_call(looking), true);
	s[1].here = s[1].about && draw(2);
	return 2;
}

/* A first save that ends between the renames of its manifest, of itself and of the tracker, which
 * come after two of each rank; and a next start that finds what it has left on a disk that fails a
 * few times in a row and then no more. */
static int
draw_row(struct strike *s)
{
	int ranks = plan.layout->ranks;
	enum call call = draw_call(looking);

	s[0] = (struct strike){ .kind = STRIKE_KILL,
		.rank = -1,
		.call = CALL_RENAME,
		.at = 2 * ranks + 1 + (draw(2) ? 4 : (long)draw(5)) };
	s[1] = (struct strike){ .kind = STRIKE_FAIL,
		.rank = draw(2) ? 0 : (int)draw((uint64_t)ranks),
		.call = call,
		.at = 1 + (long)draw(call == CALL_LIST ? 8 : 24),
		.more = 1 + (long)draw(2),
		.err = EIO,
		.then = true };
	return 2;
}

/* One fault, or two that belong together; how many they are. */
static int
draw_some(struct strike *s, unsigned enabled)
{
	static const enum strike_kind kinds[] = { STRIKE_KILL, STRIKE_KILL, STRIKE_HOST,
		STRIKE_POWER, STRIKE_POWER, STRIKE_POWER, STRIKE_TERM, STRIKE_STOP, STRIKE_SLOW,
		STRIKE_FAIL, STRIKE_FAIL, STRIKE_FAIL, STRIKE_FAIL, STRIKE_FAIL, STRIKE_FAIL,
		STRIKE_FAIL, STRIKE_FAIL, STRIKE_FAIL, STRIKE_FAIL, STRIKE_FAIL_ON, STRIKE_FAIL_ON,
		STRIKE_FAIL_ON, STRIKE_FAIL_ON, STRIKE_LEAP, STRIKE_SHORT };
	enum strike_kind kind;

	if (is_first(s) && !plan.layout->tool && draw_one_in(8))
		return draw_row(s);
	if (is_first(s) && draw_one_in(6))
		return draw_early(s);
	if (draw_one_in(16))
		return draw_cut(s);
	if (draw_one_in(plan.layout->tool ? 2 : 10))
		return draw_twice(s);
	if (plan.layout->tool && draw(2))
		return draw_between(s);
	do
		kind = kinds[draw(sizeof kinds / sizeof *kinds)];
	while (!(enabled >> kind & 1));
	if (!is_first(s) && draw_one_in(6))
		draw_next(s, kind);
	else
		draw_strike(s, kind);
	return 1;
}

static void
draw_all(struct faults *f)
{
	unsigned enabled = 1u + (unsigned)draw((1u << STRIKE_KIND_COUNT) - 1);
	int n = plan.layout->tool ? 2 + (int)draw(9) : 1 + (int)draw(8);

	if (draw(2)) /* calls that fail are most of what may happen */
		enabled |= 1u << STRIKE_FAIL;
	for (f->count = 0; n-- && f->count + 2 <= STRIKES;)
		f->count += draw_some(&f->strike[f->count], enabled);
}

void
plan_faults(const struct layout *x, const struct seen *s, bool half, struct faults *f)
{
	static const int short_one_in[] = { 0, 0, 100, 5 };

	plan.layout = x;
	plan.seen = s;
	plan.half = half;
	plan.faults = f;
	draw_all(f);
	f->short_one_in = short_one_in[draw(4)];
	f->report_deaths = draw(2);
	f->srun = x->ranks > 1 && draw_one_in(3);
	/* a rank that is held up for seconds again and again never counts as waiting for a dead one
	 */
	if (f->srun && sim.pause_max > SECOND)
		sim.pause_max = SECOND;
	f->dark |= draw_one_in(4);
	sim.count[COUNT_REPORTED] += f->report_deaths;
	sim.count[COUNT_OUTLIVED] += f->srun;
}

/* --- words ------------------------------------------------------------------------------------ */

struct text {
	char *out;
	size_t n, cap;
};

static void
say(struct text *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->out + t->n, t->cap - t->n, fmt, ap);
	va_end(ap);
	t->n += strlen(t->out + t->n);
}

void
plan_words(const struct layout *x, const struct faults *f, char *out, size_t cap)
{
	struct text t = { out, 0, cap };

	say(&t, "%s%s", x->name, f->srun ? " by srun" : "");
	for (int i = 0; i < f->count; i++) {
		const struct strike *s = &f->strike[i];

		if (s->dropped)
			continue;
		say(&t, "%s%s at ", s->then ? ", then " : ", ", strike_names[s->kind]);
		if (s->later)
			say(&t, "change %ld after ", s->later);
		say(&t, "%s%s%s %ld",
		    s->call < CALL_COUNT         ? call_names[s->call]
			: s->call == CALL_CHANGE ? "change"
						 : "call",
		    s->about ? " of " : "", s->path, s->at);
		if (s->err)
			say(&t, " (%s)", strerror(s->err));
		if (s->rank >= 0)
			say(&t, " of rank %d", s->rank);
		if (s->more)
			say(&t, ", %ld times", s->more + 1);
	}
}

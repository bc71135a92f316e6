/*
 * case.c - one seed: a run that is disturbed, started again until its end, and checked
 *
 * What happens to it is drawn by plan.c. A disturbed run must end with a status and a
 * line that the manual states; what it said to be saved must be whole, and so must a directory that
 * the disk has had whole; started again, it must end with the bytes of a run that nothing happened
 * to, and never repeat a step that was saved.
 */
#include "tests/sim/case.h"
#include "lib/base/mem.h"
#include "tests/faults/saved.h"
#include "tests/sim/disk.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { STARTS_AFTER = 3, LIMIT_SECONDS = 1800, STATUS_SIGNAL = 8 };

int check_main(int argc, char **argv);

/* The case that runs: its thread takes no argument. */
static struct {
	const struct case_options *o;
	const struct reference *reference;
	struct result *out;
	const struct layout *layout;
	struct faults faults;
	uint64_t promised; /* iterations that were said to be saved, as bits */
	bool power;        /* was lost at some time */
	bool torn;         /* metrics are missing, and it was said */
	bool forced;       /* a tool has found what another one has left, and gets --force */
	uint64_t whole;    /* directories of a tool that the disk has, as bits */
	int struck, struck_before; /* faults so far, and before the start under way */
	struct str said;           /* by the start under way */
} run;

static void
problem(const char *fmt, ...)
{
	size_t n = strlen(run.out->why);
	va_list ap;

	run.out->failed = true;
	va_start(ap, fmt);
	vsnprintf(run.out->why + n, sizeof run.out->why - n, fmt, ap);
	va_end(ap);
}

/* --- drawing ---------------------------------------------------------------------------------- */

int
case_layout(const struct case_options *o)
{
	draw_begin(o->seed);
	return o->layout >= 0 ? o->layout : scene_draw();
}

static void
describe(void)
{
	plan_words(run.layout, &run.faults, run.out->what, sizeof run.out->what);
}

/* --- checks ----------------------------------------------------------------------------------- */

/* A program of the simulated machine, which nothing disturbs; what it prints is a problem. */
static void
check(const char *words)
{
	struct str out = { 0 };
	struct process *p = process_begin(&(struct program){
	    .name = "check", .main = check_main, .words = words, .job = JOB_NONE, .said = &out });

	if (process_wait(p) != 0)
		problem("%s", out.len ? out.buf : "a check did not end well\n");
	str_release(&out);
}

/* The first step that a start trained, 0 without one. */
static int
first_step(const char *said)
{
	const char *line = said ? strstr(said, "] iteration ") : NULL;

	return line ? atoi(line + 12) : 0;
}

static int
highest(uint64_t bits)
{
	return bits ? 63 - __builtin_clzll(bits) : 0;
}

/* The reason of a status that mtrain chose itself: one line at least that is not a note of how it
 * starts or what it saved. What needs memory to be said is said without the program's name. */
static bool
says_why(const char *said)
{
	const char *tool = run.layout->tool ? run.layout->tool : "mtrain";

	for (const char *line = said; line && *line;
	     line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		static const char *const notes[] = { ": saved iteration", "holds no checkpoint",
			"ranks (tensor", "unlike Megatron-LM", ": loaded", "the run continues" };
		char text[400];
		bool note = false;

		snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
		for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
			note |= strstr(text, notes[i]) != NULL;
		if ((!strncmp(text, tool, strlen(tool)) && !note) ||
		    strstr(text, ": out of memory:"))
			return true;
	}
	return false;
}

/* What the tracker names, 0 without one. */
static int
latest(void)
{
	const struct node *n =
	    disk_find(sim.disk, "run/" SAVE "/latest_checkpointed_iteration.txt");
	char text[32] = "";

	if (n && n->len < sizeof text)
		memcpy(text, n->bytes, n->len);
	return atoi(text);
}

/* Of the checkpoints that were said to be saved those that must be there still: the last one may be
 * removed as soon as the next is whole, before that is said. */
static uint64_t
kept(void)
{
	uint64_t bits = 0;

	if (run.layout->rewinds || !run.promised)
		return 0;
	if (!run.layout->retained)
		return run.promised;
	for (int i = 0; i < 64; i += run.layout->retained)
		bits |= UINT64_C(1) << i;
	if (latest() <= highest(run.promised))
		bits |= UINT64_C(1) << highest(run.promised);
	return run.promised & bits;
}

/* What a killed tool has left is not replaced without being told to. */
static bool
is_there(void)
{
	const char *said = run.said.buf ? run.said.buf : "";

	return run.layout->tool && (strstr(said, "exists") || strstr(said, "holds"));
}

/* Nothing ends a rank by another signal than those that faults and launchers send. */
static void
check_signals(const struct job *j)
{
	for (int i = 0; i < j->size; i++) {
		int sig = j->rank[i]->status - 128;

		if (sig > 0 && sig != SIGKILL && sig != SIGTERM)
			problem("rank %d is ended by signal %d (%s)\n", i, sig, strsignal(sig));
	}
}

/* A start that nothing disturbs ends as it should, or has found what others make or have left. */
static void
check_calm(const struct job *j)
{
	bool done = j->status == 0 || (run.layout->apart && j->succeeded);

	if (!done && run.struck == run.struck_before && !is_there())
		problem("start %d fails with status %d, and nothing disturbed it\n",
		    run.out->starts, j->status);
}

/* Whether the disk has all files that the undisturbed run made, whatever is in them: --force shows
 * in the texts of checkpoints. */
static bool
is_whole(const struct node *made, const struct node *n)
{
	if (!n || n->dir != made->dir)
		return false;
	if (!n->dir)
		return n->durable_len > 0 || made->len == 0;
	for (size_t i = 0; i < made->names.count; i++) {
		const struct entry *x = &made->names.entry[i];

		if (!is_whole(x->node, names_find(&n->durable_names, x->name)))
			return false;
	}
	return true;
}

/* Whether the disk has a directory that was renamed where it cannot be exchanged: for that long its
 * successor may have no name. */
static bool
is_moved(const struct node *dir)
{
	bool moved = false;

	for (size_t i = 0; dir->dir && i < dir->durable_names.count; i++) {
		const struct entry *x = &dir->durable_names.entry[i];
		size_t n = strlen(x->name);

		moved |= (n > 4 && !strcmp(x->name + n - 4, ".old")) || is_moved(x->node);
	}
	return moved;
}

/* A directory of a tool that the disk has had whole stays whole, the earlier one or the new one. */
static void
check_whole(void)
{
	const struct node *ref = disk_find(sim.disk, "ref"), *now = disk_find(sim.disk, "run");
	uint64_t whole = 0;

	for (size_t i = 0; i < ref->names.count && i < 64; i++) {
		const struct entry *x = &ref->names.entry[i];

		if (x->node->dir && is_whole(x->node, names_find(&now->durable_names, x->name)))
			whole |= UINT64_C(1) << i;
	}
	if (run.whole & ~whole && !is_moved(now))
		problem("a directory that the disk had whole has lost files\n");
	run.whole = whole;
}

static void
check_start(int status)
{
	uint64_t before = run.promised;
	int first = first_step(run.said.buf), n = status > 128 ? STATUS_SIGNAL : status;
	struct str words = { 0 };

	/* an option file that cannot be read is wrong usage to a program that knows nothing else */
	/* to a tool it is wrong usage that there is something, or that an input cannot be opened */
	if (run.layout->tool && n == 2 && says_why(run.said.buf))
		n = 1;
	if (n < 0 || n > STATUS_SIGNAL || (n == 2 && !strstr(run.said.buf, "'tiny.conf'")) ||
	    n == 5 || n == 6 || n == 7)
		problem("exit status %d\n", status);
	else
		run.out->status[n]++;
	if ((n == 1 || n == 4) && !says_why(run.said.buf))
		problem("exit status %d without a line that says why\n", status);
	if (first && first <= highest(before) && !run.layout->rewinds)
		problem("iteration %d was saved, and iteration %d is trained again\n",
		    highest(before), first);
	run.torn |= strstr(run.said.buf ? run.said.buf : "", "'m' lacks a line") != NULL;
	run.promised |= saved_promised(run.said.buf ? run.said.buf : "", run.said.len);
	if (run.layout->tool) {
		check_whole();
		return;
	}
	str_addf(&words, "saved " SAVE " %llu", (unsigned long long)kept());
	check(words.buf);
	str_release(&words);
}

/* A rank that fails by itself ends the others too, whatever the launcher does: they do not wait for
 * their watchdogs, though they may learn of it from MPI first. One without memory may be unable to.
 */
static void
check_others(const struct job *j)
{
	const char *said = run.said.buf ? run.said.buf : "";
	bool waited = strstr(said, " has waited ") || strstr(said, " still waits ");

	for (int i = 0; i < run.faults.count; i++) {
		const struct strike *s = &run.faults.strike[i];
		bool fails = s->kind == STRIKE_FAIL || s->kind == STRIKE_FAIL_ON;

		if (s->struck && (!fails || s->call == CALL_MEMORY) && s->kind != STRIKE_LEAP &&
		    s->kind != STRIKE_SHORT)
			return;
	}
	for (int i = 0; run.faults.srun && waited && i < j->size; i++)
		if (j->rank[i]->status == 4)
			problem("rank %d waits for its watchdog, as one has failed alone\n", i);
}

/* --- the loop --------------------------------------------------------------------------------- */

/* A disk that fails at more than one call is repaired before the next start. */
static void
repair(void)
{
	run.struck = 0;
	for (int i = 0; i < run.faults.count; i++) {
		struct strike *s = &run.faults.strike[i];

		run.struck += s->struck;
		if (s->struck && s->kind == STRIKE_POWER)
			run.power = true;
		if (s->struck && s->kind == STRIKE_FAIL_ON)
			s->call = CALL_ANY, s->at = -1, s->kind = STRIKE_FAIL;
		if (s->struck)
			s->more = 0;
	}
}

/* The options of a start: 0 those of the layout, else a number of others. */
static int
draw_other(void)
{
	int n = 0, other;

	while (n < OTHERS && run.layout->other[n].options)
		n++;
	other = n ? (int)draw((uint64_t)n + 1) : 0;
	sim.count[COUNT_OTHER_LAYOUT] += other > 0;
	return other;
}

/* Nothing more is to be done: of programs that make the same, the others may find that one has, but
 * one that replaces what another has made may fail after that, and the next start finishes it. */
static bool
is_done(const struct job *j)
{
	const struct node *dir = disk_find(sim.disk, "run");
	bool begun = false;

	for (size_t i = 0; i < dir->names.count; i++) {
		const char *name = dir->names.entry[i].name;
		size_t n = strlen(name);

		begun |= n > 4 && !strcmp(name + n - 4, ".new");
	}
	return j->status == 0 || (run.layout->apart && j->succeeded && !begun);
}

/* One start; true when the run is done or nothing more can come of it. */
static bool
start_once(void)
{
	struct job *j;
	bool ended;

	str_clear(&run.said);
	run.out->starts++;
	j = scene_start(
	    run.layout, draw_other(), run.forced ? "--force" : "", run.faults.srun, &run.said);
	run.struck_before = run.struck;
	ended = job_wait(j, sim.now + LIMIT_SECONDS * SECOND);
	if (run.o->loud)
		printf("%sstart %d: status %d\n", run.said.buf ? run.said.buf : "", run.out->starts,
		    ended ? j->status : -1);
	if (!ended) {
		problem("start %d does not end in %d simulated seconds%s\n", run.out->starts,
		    LIMIT_SECONDS, sim.stuck ? ": no thread gets on" : "");
		job_kill(j);
		return true;
	}
	check_others(j);
	check_signals(j);
	repair();
	check_calm(j);
	check_start(j->status);
	run.forced |= is_there();
	return is_done(j) || run.out->failed;
}

static uint64_t
hash_below(uint64_t hash, const struct node *n)
{
	hash = hash_bytes(hash, n->bytes, n->len);
	for (size_t i = 0; i < n->names.count; i++) {
		const struct entry *x = &n->names.entry[i];

		hash = hash_bytes(hash, x->name, strlen(x->name) + 1);
		hash = hash_below(hash, x->node);
	}
	return hash;
}

/* What the next start, and the checks, depend on: never 0. */
static uint64_t
hash_state(void)
{
	const uint64_t words[] = { (uint64_t)(run.layout - layouts), run.promised,
		(uint64_t)run.torn, (uint64_t)run.forced, (uint64_t)run.out->starts };

	return hash_below(hash_bytes(1, words, sizeof words), disk_find(sim.disk, "run")) | 1;
}

/* The place of a state: it is there, or there is a free one; NULL: the table is full. */
static uint64_t *
place_of(struct continued *c, uint64_t state)
{
	enum { PLACES = sizeof c->state / sizeof *c->state, TRIES = 64 };

	for (uint64_t i = 0; i < TRIES; i++) {
		uint64_t *at = &c->state[(state + i) % PLACES];
		uint64_t there = __atomic_load_n(at, __ATOMIC_RELAXED);

		if (there == state || !there)
			return at;
	}
	return NULL;
}

/* True when a run has continued from this state to its end as it should. */
static bool
was_continued(uint64_t state)
{
	uint64_t *at = place_of(run.o->continued, state);

	return at && __atomic_load_n(at, __ATOMIC_RELAXED) == state;
}

static void
note_continued(uint64_t state)
{
	uint64_t *at = place_of(run.o->continued, state), none = 0;

	if (at)
		__atomic_compare_exchange_n(
		    at, &none, state, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void
check_end(void)
{
	if (run.faults.dark)
		power_lost();
	if (run.layout->tool)
		check_whole();
	run.power |= run.faults.dark;
	if (run.layout->same == SAME_BITS)
		check("bits /ref/" SAVE " " SAVE);
	else if (run.layout->same == SAME_BYTES && (!run.forced || !run.layout->recorded))
		check(run.layout->tool ? "same /ref /run" : "same /ref/" SAVE " " SAVE);
	if (!run.layout->tool && !run.power && !run.torn && !run.layout->rewinds)
		check(run.layout->same == SAME_BYTES    ? "steps /ref/m m"
			: run.layout->same == SAME_BITS ? "losses /ref/m m 0"
							: "losses /ref/m m 1e-6");
}

/* Faults that can happen yet. */
static int
faults_left(void)
{
	int left = 0;

	for (int i = 0; i < run.faults.count; i++)
		left += !run.faults.strike[i].struck && !run.faults.strike[i].dropped;
	return left;
}

static void
scenario(void)
{
	uint64_t state = 0; /* in which the first start without faults began */

	while (!start_once()) {
		int left = faults_left();

		if (run.o->continued && !left && !state && was_continued(state = hash_state()))
			return;
		if (run.out->starts >= run.faults.count + STARTS_AFTER - left) {
			problem("%d starts did not bring it to its end\n", run.out->starts);
			return;
		}
	}
	if (!run.out->failed)
		check_end();
	if (state && !run.out->failed)
		note_continued(state);
}

/* From here on this process is a case of its own. */
static bool
branch(struct strike *s)
{
	struct result *out = run.o->branch(run.o, s->count);

	if (!out)
		return false;
	s->at = s->count;
	out->seed = run.out->seed;
	out->layout = run.out->layout;
	run.out = out;
	describe();
	return true;
}

static void
begin(const struct case_options *o, struct result *out)
{
	run.o = o;
	run.out = out;
	run.layout = &layouts[case_layout(o)];
	sim.trace = o->trace;
	sim.until = o->until;
	world_begin(o->seed);
	scene_disk();
}

/* No process is one of those that made the images. */
static void
skip_pids(void)
{
	for (int i = 0; i < HOSTS; i++)
		sim.next_pid[i] += 1000;
}

static void
end(void)
{
	struct err e;

	run.out->hash = sim.hash;
	run.out->yields = sim.yields;
	run.out->events = sim.events;
	run.out->seconds = (double)sim.now / 1e9;
	memcpy(run.out->happened, run.faults.happened, sizeof run.out->happened);
	memcpy(run.out->at, run.faults.at, sizeof run.out->at);
	memcpy(run.out->count, sim.count, sizeof run.out->count);
	for (const struct process *p = sim.processes; p; p = p->next)
		for (int i = 0; i < CALL_COUNT && p->job != JOB_NONE; i++)
			run.out->calls[i] += p->calls[i];
	run.out->ended = true;
	if (run.o->export && disk_export(sim.disk, run.o->export, &e) < 0)
		problem("%s\n", e.msg);
}

void
case_run(const struct case_options *o, const struct reference *r, struct result *out)
{
	begin(o, out);
	plan_pace();
	out->seed = o->seed;
	out->layout = (int)(run.layout - layouts);
	run.reference = r;
	skip_pids();
	image_load(&r->end, "ref");
	if (o->begins == BEGIN_DRAWN ? draw(2) != 0 : o->begins == BEGIN_START)
		image_load(&r->start, "run");
	else
		image_load(&r->half, "run");
	run.promised = disk_find(sim.disk, "run/" SAVE) ? 1 << 2 | 1 << 4 : 0;
	sim.count[COUNT_MIDWAY] += run.promised != 0;
	run.faults.power_lost = power_lost;
	run.faults.host_lost = host_lost;
	if (o->num_strikes) {
		run.faults.count = o->num_strikes;
		memcpy(run.faults.strike, o->strike, sizeof o->strike);
		run.faults.srun = o->srun;
		run.faults.dark = o->dark;
		run.faults.short_one_in = o->shorts;
		run.faults.branch = o->branch ? branch : NULL;
	} else if (!o->plain) {
		plan_faults(run.layout, &r->seen, run.promised != 0, &run.faults);
	}
	for (int i = 0; i < run.faults.count; i++)
		run.faults.strike[i].dropped = o->dropped >> i & 1;
	sim.faults = &run.faults;
	describe();
	world_run(scenario);
	end();
}

/* --- the reference ---------------------------------------------------------------------------- */

static enum part part;
static struct reference *wanted;

static bool
half_is_saved(void)
{
	return run.said.buf && strstr(run.said.buf, ": saved iteration 4 ");
}

/* Half a run is one that is killed as soon as it has said that half of it is saved. */
static bool
run_part(struct job *j)
{
	if (part != PART_HALF)
		return job_wait(j, LIMIT_SECONDS * SECOND) &&
		    (j->status == 0 || (run.layout->apart && j->succeeded));
	while (j->alive && !half_is_saved())
		job_wait(j, sim.now + MILLISECOND / 10);
	job_kill(j);
	return half_is_saved();
}

/* What a part begins with; the status of what makes it. */
static int
prepare_part(void)
{
	int status;

	if (part == PART_REST) {
		image_load(&wanted->half, "run");
		skip_pids();
		return 0;
	}
	status = scene_prepare(run.layout, &run.said);
	image_save(&wanted->start, disk_find(sim.disk, "run"));
	return status;
}

static void
undisturbed(void)
{
	struct spots *const spots[] = { &wanted->seen.whole, NULL, &wanted->seen.rest };
	int status = prepare_part();
	long before = sim.yields;
	struct job *j;

	if (run.layout->tool && part == PART_HALF)
		image_save(&wanted->half, disk_find(sim.disk, "run"));
	if (run.layout->tool && part != PART_WHOLE)
		return;
	sim.spots = spots[part];
	j = scene_start(run.layout, 0, "", false, &run.said);
	if (status != 0 || !run_part(j)) {
		problem("an undisturbed run of '%s' ends with status %d\n%s", run.layout->name,
		    j->status, run.said.buf ? run.said.buf : "");
	} else if (part == PART_WHOLE) {
		memcpy(wanted->seen.calls, j->rank[0]->calls, sizeof wanted->seen.calls);
		wanted->seen.yields = sim.yields - before;
	}
}

void
case_reference(int layout, enum part which, struct reference *r)
{
	static struct result result;
	const struct case_options o = { .seed = 1, .layout = layout };

	begin(&o, &result);
	run.reference = wanted = r;
	part = which;
	world_run(undisturbed);
	end();
	fputs(result.why, stderr);
	if (part == PART_WHOLE)
		image_save(&r->end, disk_find(sim.disk, "run"));
	else if (part == PART_HALF && !run.layout->tool)
		image_save(&r->half, disk_find(sim.disk, "run"));
	r->good = !result.failed;
}

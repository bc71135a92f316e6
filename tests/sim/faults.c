/* faults.c - what happens at a call */
#include "tests/sim/faults.h"
#include "tests/sim/world.h"

#include <errno.h>
#include <string.h>

#define STRIKE_NAME(k, name, words) words,
const char *const strike_names[STRIKE_KIND_COUNT] = { STRIKE_KINDS(STRIKE_NAME) };
#undef STRIKE_NAME

#define STRIKE_SHORT(k, name, words) name,
static const char *const short_names[STRIKE_KIND_COUNT] = { STRIKE_KINDS(STRIKE_SHORT) };
#undef STRIKE_SHORT

static int
parse_call(const char *name, enum call *out)
{
	for (int c = 0; c < CALL_COUNT; c++)
		if (!strcmp(name, call_names[c])) {
			*out = (enum call)c;
			return 0;
		}
	*out = strcmp(name, "any") ? CALL_CHANGE : CALL_ANY;
	return *out == CALL_ANY || !strcmp(name, "change") ? 0 : -1;
}

static int
parse_one(const char *text, struct strike *s, struct err *e)
{
	char kind[16], call[16 + SPOT_PATH], *path;
	int k = 0, n;
	long times = 1;

	*s = (struct strike){ .rank = -1, .err = EIO, .then = !strncmp(text, "then-", 5) };
	text += s->then ? 5 : 0;
	n = sscanf(
	    text, "%15[^:]:%175[^:]:%ld:%d:%d:%ld", kind, call, &s->at, &s->rank, &s->err, &times);
	s->more = times - 1;
	while (n >= 3 && k < STRIKE_KIND_COUNT && strcmp(kind, short_names[k]))
		k++;
	path = n >= 3 ? strchr(call, '@') : NULL;
	if (path) {
		*path++ = '\0';
		s->about = spot_about(path);
		s->here = true;
		snprintf(s->path, sizeof s->path, "%s", path);
	}
	if (n < 3 || k == STRIKE_KIND_COUNT || parse_call(call, &s->call) < 0 || times < 1)
		return err_set(
		    e, "--faults: '%s' is not KIND:CALL[@PATH]:N[:RANK[:ERRNO[:TIMES]]]", text);
	s->kind = (enum strike_kind)k;
	if (s->kind != STRIKE_FAIL && s->kind != STRIKE_FAIL_ON)
		s->err = 0;
	return 0;
}

int
faults_parse(const char *text, struct strike out[STRIKES], struct err *e)
{
	int n = 0;

	for (; *text; text += strcspn(text, ",") + (text[strcspn(text, ",")] == ',')) {
		char one[240];

		snprintf(one, sizeof one, "%.*s", (int)strcspn(text, ","), text);
		if (n == STRIKES)
			return err_set(e, "--faults: more than %d", STRIKES);
		if (parse_one(one, &out[n++], e) < 0)
			return -1;
	}
	return n;
}

static void *
let_continue(void *arg)
{
	struct process *p = arg;

	rest(SECOND / 10 + (int64_t)draw(40 * SECOND));
	process_signal(p, SIGCONT);
	return NULL;
}

/* Does what a strike does to the process that calls; an errno when the call fails. */
static int
strike(struct strike *s, enum call c, struct process *p)
{
	struct faults *f = sim.faults;

	if (!s->struck) {
		log_event("fault", strike_names[s->kind], s->at, s->err);
		f->happened[s->kind]++;
		f->at[c]++;
	}
	s->struck = true;
	sim.count[COUNT_ROW] += s->more && s->count == s->at + 1;
	switch (s->kind) {
	case STRIKE_KILL: process_end(p, 128 + SIGKILL); break;
	case STRIKE_HOST: f->host_lost(p->host); break;
	case STRIKE_POWER: f->power_lost(); break;
	case STRIKE_TERM: process_signal(p, SIGTERM); break;
	case STRIKE_STOP:
		thread_new(sim.init, let_continue, p);
		process_signal(p, SIGSTOP);
		break;
	case STRIKE_SLOW: p->slow = 1 + 999 * draw_unit() * draw_unit(); break;
	case STRIKE_LEAP:
		for (struct process *x = sim.processes; x; x = x->next)
			if (x->host == p->host)
				x->time_offset += (int64_t)draw(7200 * SECOND) - 3600 * SECOND;
		break;
	case STRIKE_SHORT: f->cut = true; break;
	case STRIKE_FAIL:
	case STRIKE_FAIL_ON: return s->err;
	case STRIKE_KIND_COUNT: break;
	}
	return 0;
}

uint64_t
faults_calls(enum call c)
{
	static const enum call changes[] = { CALL_WRITE, CALL_TRUNCATE, CALL_FSYNC, CALL_RENAME,
		CALL_LINK, CALL_UNLINK, CALL_MKDIR };
	uint64_t bits = 0;

	if (c == CALL_ANY)
		return (UINT64_C(1) << CALL_COUNT) - 1 - (UINT64_C(1) << CALL_MEMORY);
	if (c != CALL_CHANGE)
		return UINT64_C(1) << c;
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
		bits |= UINT64_C(1) << changes[i];
	return bits;
}

/* Whether a call of this process may be one that a strike counts. */
static bool
counts(const struct strike *s, enum call c, const struct process *p)
{
	bool here = !s->about || s->about == sim.current->about ||
	    (s->struck && s->kind == STRIKE_FAIL_ON && !s->here);
	bool then = !s->then || s == sim.faults->strike || s[-1].struck || s[-1].dropped;

	return !s->dropped && then && here && (s->rank < 0 || s->rank == p->rank) &&
	    faults_calls(s->call) >> c & 1;
}

/* From here on the changes of this rank count. */
static void
put_off(struct strike *s, const struct process *p)
{
	s->call = CALL_CHANGE;
	s->about = 0;
	s->rank = p->rank;
	s->count = 0;
	s->at = s->later;
	s->later = 0;
}

int
faults_at(enum call c, const char *path)
{
	struct faults *f = sim.faults;
	struct process *p = sim.current->process;
	uint64_t *about = &sim.current->about;
	int err = 0;

	if (c > CALL_FLOCK) /* these take no path: what they say is a note */
		path = NULL;
	if (path)
		*about = spot_about(path);
	if (sim.spots && p->job != JOB_NONE)
		spots_note(sim.spots, c, *about, path, p->rank);
	if (!f || f->calm || p->job == JOB_NONE)
		return 0;
	for (int i = 0; i < f->count && !err; i++) {
		struct strike *s = &f->strike[i];

		if (!counts(s, c, p))
			continue;
		s->count++;
		if (f->branch && !f->branch(s))
			continue;
		f->branch = NULL;
		if (s->later && s->count == s->at)
			put_off(s, p);
		else if (s->count >= s->at &&
		    (s->count <= s->at + s->more || s->kind == STRIKE_FAIL_ON))
			err = strike(s, c, p);
	}
	return err;
}

/* faults.c - what happens at a call */
#include "tests/sim/faults.h"
#include "tests/sim/world.h"

#define STRIKE_NAME(k, name) name,
const char *const strike_names[STRIKE_KIND_COUNT] = { STRIKE_KINDS(STRIKE_NAME) };
#undef STRIKE_NAME

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
strike(struct strike *s, struct process *p)
{
	struct faults *f = sim.faults;

	if (!s->struck)
		log_event("fault", strike_names[s->kind], s->at, s->err);
	if (!s->struck)
		f->happened[s->kind]++;
	s->struck = true;
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
	case STRIKE_FAIL:
	case STRIKE_FAIL_ON: return s->err;
	case STRIKE_KIND_COUNT: break;
	}
	return 0;
}

int
faults_at(enum call c, const char *path)
{
	struct faults *f = sim.faults;
	struct process *p = sim.current->process;
	int err = 0;

	(void)path;
	if (!f || f->calm || p->job == JOB_NONE)
		return 0;
	for (int i = 0; i < f->count && !err; i++) {
		struct strike *s = &f->strike[i];

		if ((s->rank >= 0 && s->rank != p->rank) ||
		    (s->call != CALL_COUNT ? s->call != c : c == CALL_MEMORY))
			continue;
		s->count++;
		if (s->count == s->at || (s->kind == STRIKE_FAIL_ON && s->count > s->at))
			err = strike(s, p);
	}
	return err;
}

/*
 * schedule.c - threads as coroutines, in simulated time
 *
 * A thread runs until it calls schedule(); the one that is ready first runs next, and the time
 * becomes its time. A process's writable data is put in place when one of its threads runs.
 */
#include "lib/base/mem.h"
#include "tests/sim/spots.h"
#include "tests/sim/state.h"
#include "tests/sim/world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK = 1 << 20, GUARD = 1 << 12, YIELDS_MAX = 1 << 22 };

static jmp_buf home;
static void *spare_stack;
static struct thread *leaving; /* its stack is free as soon as another one runs */

static void *
stack_new(void)
{
	void *s = spare_stack;

	if (s) {
		memcpy(&spare_stack, (char *)s + STACK - sizeof(void *), sizeof(void *));
		return s;
	}
	s = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (s == MAP_FAILED || mprotect(s, GUARD, PROT_NONE) < 0)
		abort();
	stack_known(s, STACK);
	return s;
}

/* The link of the list lies at the stack's beginning, its top. */
static void
stack_free(void *s)
{
	stack_unpoison((char *)s + GUARD, STACK - GUARD);
	memcpy((char *)s + STACK - sizeof(void *), &spare_stack, sizeof(void *));
	spare_stack = s;
}

static void
bury(void)
{
	if (leaving && leaving != sim.current && leaving->stack) {
		stack_free(leaving->stack);
		leaving->stack = NULL;
	}
	leaving = NULL;
}

/* The first function of every coroutine. The thread is sim.current. */
static void
enter(void)
{
	struct thread *t = sim.current;

	fiber_entered(t);
	bury();
	t->result = t->start(t->arg);
	t->ended = true;
	t->ready = NEVER;
	for (struct thread *x = sim.threads; x; x = x->next)
		if (x->waits_for == t)
			thread_wake(x, 0);
	log_event("thread ends", NULL, 0, 0);
	schedule();
	abort();
}

struct thread *
thread_new(struct process *p, void *(*start)(void *), void *arg)
{
	struct thread *t = mem_zalloc(1, sizeof *t);

	t->process = p;
	t->number = p->num_threads++;
	if (!p->thread)
		p->thread = t;
	t->start = start;
	t->arg = arg;
	t->stack = stack_new();
	t->ready = sim.now;
	if (sim.current) {
		t->mask = sim.current->mask;
		t->about = sim.current->about;
	}
	getcontext(&t->context);
	t->context.uc_stack.ss_sp = (char *)t->stack + GUARD;
	t->context.uc_stack.ss_size = STACK - GUARD - 16;
	t->context.uc_link = NULL;
	makecontext(&t->context, enter, 0);
	t->next = sim.threads;
	sim.threads = t;
	return t;
}

/* Ready after a drawn delay of about as many nanoseconds. */
void
thread_wake(struct thread *t, int64_t delay)
{
	int64_t at = sim.now + draw_delay(delay ? delay : sim.call_cost);

	t->waits_for = NULL;
	if (at < t->ready)
		t->ready = at;
}

/* Exponentially distributed, so that any order of two threads may come. */
int64_t
draw_delay(int64_t mean)
{
	uint64_t r = draw(UINT32_MAX) | 1;
	int zeros = __builtin_clz((uint32_t)r);

	return 1 + (mean * zeros + (int64_t)(r % (uint64_t)(mean + 1))) * 2 / 3;
}

/* The one that runs next; NULL: none ever will. */
static struct thread *
earliest(void)
{
	struct thread *best = NULL, **link = &sim.threads;

	while (*link) {
		struct thread *t = *link;

		if (t->ended) {
			*link = t->next;
			continue;
		}
		if (!t->process->stopped && t->ready != NEVER &&
		    (!best || t->ready < best->ready ||
			(t->ready == best->ready && t->number < best->number)))
			best = t;
		link = &t->next;
	}
	return best;
}

static void
switch_to(struct thread *t)
{
	struct thread *from = sim.current;

	from->err = errno;
	if (from->process != t->process) {
		memcpy_plain(from->process->state, state_begin(), state_bytes());
		memcpy_plain(state_begin(), t->process->state, state_bytes());
		streams_use(t->process);
	}
	if (from->ended)
		leaving = from;
	if (!_setjmp(from->jump)) {
		sim.current = t;
		fiber_leave(from, t, STACK);
		if (t->begun)
			_longjmp(t->jump, 1);
		t->begun = true;
		setcontext(&t->context);
	}
	fiber_entered(from);
	bury();
	errno = from->err;
}

/* When no thread is ready, or one tries something again and again, the launcher's is woken, which
 * finds that the world is stuck. */
bool
schedule(void)
{
	struct thread *self = sim.current, *t = earliest();

	if (!t || sim.yields > YIELDS_MAX) {
		sim.stuck = true;
		t = sim.init->thread;
		t->ready = sim.now;
	}
	if (t->ready > sim.now)
		sim.now = t->ready;
	self->interrupted = false;
	if (t != self)
		switch_to(t);
	process_deliver(self);
	return self->interrupted;
}

void
rest(int64_t ns)
{
	sim.current->ready = sim.now + ns;
	schedule();
}

static void (*scenario)(void);

static void *
run_scenario(void *arg)
{
	(void)arg;
	scenario();
	fiber_leave(sim.current, sim.root, 0);
	_longjmp(home, 1);
}

/* The product's data as it is in the program file, before anything has run, is what each process
 * begins with. */
void
world_begin(uint64_t seed)
{
	static struct process init = { .pid = 1, .job = JOB_NONE, .rank = -1, .slow = 1 };
	static struct thread root = { .process = &init, .about = SPOT_NOWHERE };

	draw_begin(seed);
	init.state = mem_alloc(state_bytes() + 1, 1);
	memcpy_plain(init.state, state_begin(), state_bytes());
	init.thread = NULL;
	sim.init = &init;
	sim.processes = &init;
	sim.root = sim.current = &root;
	sim.realtime = INT64_C(1790000000) * SECOND;
	for (int i = 0; i < HOSTS; i++) {
		sim.next_pid[i] = 100;
		snprintf(sim.boot[i], sizeof sim.boot[i], "%08llx-b007-4000-8000-%012x",
		    (unsigned long long)draw(UINT32_MAX), i);
	}
	sim.call_cost = 2000;
	sim.wire_delay = 20000;
}

void
world_run(void (*fn)(void))
{
	scenario = fn;
	streams_begin(sim.init);
	thread_new(sim.init, run_scenario, NULL);
	if (!_setjmp(home))
		switch_to(sim.init->thread);
	fiber_entered(sim.root);
	sim.current = sim.root;
}

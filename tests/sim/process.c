/* process.c - simulated processes: their beginning, their signals, their end */
#include "lib/base/mem.h"
#include "tests/sim/files.h"
#include "tests/sim/state.h"
#include "tests/sim/world.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

/* --- beginning -------------------------------------------------------------------------------- */

static void
split_words(struct process *p, const char *name, const char *words)
{
	char *rest = NULL, *text = mem_strdup(words);
	size_t cap = strlen(words) / 2 + 3;

	p->argv = mem_zalloc(cap, sizeof *p->argv);
	p->argv[p->argc++] = mem_strdup(name);
	for (char *w = strtok_r(text, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
		p->argv[p->argc++] = mem_strdup(w);
	free(text);
}

static void
copy_env(struct process *p, const char *const *env)
{
	size_t n = 0;

	while (env && env[n])
		n++;
	p->env = mem_zalloc(n + 32, sizeof *p->env);
	for (size_t i = 0; i < n; i++)
		p->env[i] = mem_strdup(env[i]);
}

static void *
run_main(void *arg)
{
	struct process *p = arg;

	sim_exit(p->main(p->argc, p->argv));
	return NULL;
}

struct process *
process_begin(const struct program *x)
{
	struct process *p = mem_zalloc(1, sizeof *p);

	p->number = ++sim.num_processes;
	p->host = x->host;
	p->job = x->job;
	p->rank = x->rank;
	p->slow = 1;
	p->pid = sim.next_pid[x->host]++;
	p->start = (uint64_t)(sim.now / (SECOND / 100)) + 1;
	p->state = mem_alloc(state_bytes() + 1, 1);
	memcpy(p->state, sim.init->state, state_bytes());
	p->said = x->said;
	p->main = x->main;
	snprintf(p->cwd, sizeof p->cwd, "/run");
	split_words(p, x->name, x->words);
	copy_env(p, x->env);
	files_begin(p);
	streams_begin(p);
	p->next = sim.processes;
	sim.processes = p;
	thread_new(p, run_main, p);
	sigemptyset(&p->thread->mask);
	log_event("starts", x->name, p->number, p->pid);
	return p;
}

struct process *
process_find(int host, int pid)
{
	for (struct process *p = sim.processes; p; p = p->next)
		if (!p->ended && p->host == host && p->pid == pid)
			return p;
	return NULL;
}

/* --- end -------------------------------------------------------------------------------------- */

void
process_end(struct process *p, int status)
{
	bool finalized = !mpi_started_not_finalized(p);

	if (p->ended)
		return;
	log_event("ends", p->argv[0], p->number, status);
	p->ended = true;
	p->status = status;
	for (struct thread *t = sim.threads; t; t = t->next) {
		if (t->process == p) {
			t->ended = true;
			t->ready = NEVER;
		}
		if (t->waits_for == p)
			thread_wake(t, 0);
	}
	files_end(p);
	memory_end(p);
	mpi_process_ended(p);
	launcher_ended(p, finalized);
	if (sim.current->process == p) {
		schedule();
		abort();
	}
}

/* The time limit of the launcher's waits is the scenario's. */
int
process_wait(struct process *p)
{
	struct thread *self = sim.current;

	while (!p->ended && !sim.stuck) {
		self->waits_for = p;
		self->ready = NEVER;
		schedule();
	}
	return p->status;
}

void
sim_exit(int status)
{
	streams_flush(sim.current->process);
	call_begin(CALL_OTHER, "exit", status);
	process_end(sim.current->process, status & 255);
	abort();
}

void
sim__exit(int status)
{
	call_begin(CALL_OTHER, "_exit", status);
	process_end(sim.current->process, status & 255);
	abort();
}

void
sim__Exit(int status)
{
	sim__exit(status);
}

void
sim_abort(void)
{
	process_end(sim.current->process, 128 + SIGABRT);
	abort();
}

/* --- signals ---------------------------------------------------------------------------------- */

static bool
ends_by_default(int sig)
{
	return sig != SIGCHLD && sig != SIGCONT && sig != SIGURG && sig != SIGWINCH;
}

/* The thread that a signal's handler runs in: the first one that does not block it. */
static struct thread *
taker(struct process *p, int sig)
{
	struct thread *best = NULL;

	for (struct thread *t = sim.threads; t; t = t->next)
		if (t->process == p && !t->ended && !sigismember(&t->mask, sig) &&
		    (!best || t->number < best->number))
			best = t;
	return best;
}

void
process_signal(struct process *p, int sig)
{
	process_signal_from(p, sig, 0);
}

void
process_signal_from(struct process *p, int sig, pid_t sender)
{
	void (*handler)(int);
	struct thread *t;

	if (p->ended || sig <= 0 || sig >= SIGNALS)
		return;
	log_event("signal", strsignal(sig), p->number, sig);
	handler = p->action[sig].sa_handler;
	if (sig == SIGKILL)
		process_end(p, 128 + sig);
	if (sig == SIGSTOP || sig == SIGCONT)
		p->stopped = sig == SIGSTOP;
	if (sig == SIGKILL || sig == SIGSTOP || handler == SIG_IGN ||
	    (sig == SIGCONT && handler == SIG_DFL))
		return;
	p->sender[sig] = sender;
	t = taker(p, sig);
	if (handler == SIG_DFL && t) {
		if (ends_by_default(sig))
			process_end(p, 128 + sig);
		return;
	}
	p->pending |= UINT64_C(1) << sig;
	poll_wake(p);
	if (t && t != sim.current && t->ready > sim.now)
		t->ready = sim.now + draw_delay(sim.call_cost);
}

static void
handle(struct process *p, int sig)
{
	struct sigaction *a = &p->action[sig];
	siginfo_t from = { .si_signo = sig, .si_code = SI_USER };

	from.si_pid = p->sender[sig];
	if (a->sa_handler == SIG_DFL)
		process_end(p, 128 + sig);
	if (a->sa_flags & SA_SIGINFO)
		a->sa_sigaction(sig, &from, NULL);
	else if (a->sa_handler != SIG_IGN)
		a->sa_handler(sig);
}

/* Runs the handlers of pending signals. Called when a thread runs after a call. */
void
process_deliver(struct thread *t)
{
	struct process *p = t->process;

	for (int sig = 1; p->pending && sig < SIGNALS; sig++) {
		if (!(p->pending >> sig & 1) || sigismember(&t->mask, sig) || t != taker(p, sig))
			continue;
		p->pending &= ~(UINT64_C(1) << sig);
		t->interrupted = true;
		log_event("handler", NULL, sig, 0);
		handle(p, sig);
	}
}

int
sim_sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
	struct process *p = sim.current->process;

	if (old)
		*old = p->action[sig];
	if (new)
		p->action[sig] = *new;
	return 0;
}

void (*sim_signal(int sig, void (*handler)(int)))(int)
{
	struct process *p = sim.current->process;
	void (*old)(int) = p->action[sig].sa_handler;

	p->action[sig] = (struct sigaction){ .sa_handler = handler };
	return old;
}

static void *
ring(void *arg)
{
	struct process *p = arg;

	if (p->alarm == sim.current) {
		p->alarm = NULL;
		process_signal(p, SIGALRM);
	}
	return NULL;
}

unsigned
sim_alarm(unsigned seconds)
{
	struct process *p = sim.current->process;

	call_begin(CALL_SIGNAL, "alarm", seconds);
	if (p->alarm)
		p->alarm->ready = sim.now;
	p->alarm = seconds ? thread_new(sim.init, ring, p) : NULL;
	if (seconds)
		p->alarm->ready = sim.now + seconds * SECOND;
	return 0;
}

int
sim_raise(int sig)
{
	process_signal(sim.current->process, sig);
	process_deliver(sim.current);
	return 0;
}

int
sim_kill(pid_t pid, int sig)
{
	struct process *p;

	call_begin(CALL_SIGNAL, "kill", pid);
	p = process_find(sim.current->process->host, pid);
	if (!p)
		return fail(ESRCH);
	if (sig)
		process_signal(p, sig);
	return 0;
}

int
sim_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t *mask = &sim.current->mask;

	if (old)
		*old = *mask;
	if (set && how == SIG_SETMASK)
		*mask = *set;
	for (int sig = 1; set && how != SIG_SETMASK && sig < SIGNALS; sig++)
		if (sigismember(set, sig) == 1)
			how == SIG_BLOCK ? sigaddset(mask, sig) : sigdelset(mask, sig);
	process_deliver(sim.current);
	return 0;
}

int
sim_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return sim_pthread_sigmask(how, set, old);
}

int
sim_sigpending(sigset_t *set)
{
	sigemptyset(set);
	for (int sig = 1; sig < SIGNALS; sig++)
		if (sim.current->process->pending >> sig & 1)
			sigaddset(set, sig);
	return 0;
}

/* --- who it is -------------------------------------------------------------------------------- */

pid_t
sim_getppid(void)
{
	return LAUNCHER_PID;
}

pid_t
sim_getpid(void)
{
	return sim.current->process->pid;
}

ssize_t
sim_getrandom(void *to, size_t n, unsigned flags)
{
	unsigned char *p = to;

	(void)flags;
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)draw(256);
	return (ssize_t)n;
}

int
sim_gethostname(char *name, size_t n)
{
	snprintf(name, n, "host%d", sim.current->process->host);
	return 0;
}

static char **
variable(const char *name)
{
	size_t n = strlen(name);
	char **e = sim.current->process->env;

	while (*e && (strncmp(*e, name, n) || (*e)[n] != '='))
		e++;
	return e;
}

char *
sim_getenv(const char *name)
{
	char **e = variable(name);

	return *e ? *e + strlen(name) + 1 : NULL;
}

/* What OpenBLAS reads is everybody's. */
static bool
is_library(const char *name)
{
	return !strncmp(name, "OPENBLAS_", 9);
}

/* The old text stays: somebody may still read it. */
int
sim_setenv(const char *name, const char *value, int overwrite)
{
	char **e = variable(name);
	struct str text = { 0 };

	if (*e && !overwrite)
		return 0;
	str_addf(&text, "%s=%s", name, value);
	*e = str_detach(&text);
	return is_library(name) ? setenv(name, value, overwrite) : 0;
}

int
sim_unsetenv(const char *name)
{
	for (char **e = variable(name); *e; e++)
		e[0] = e[1];
	return is_library(name) ? unsetenv(name) : 0;
}

long
sim_sysconf(int name)
{
	switch (name) {
	case _SC_PAGESIZE: return 4096;
	case _SC_NPROCESSORS_ONLN:
	case _SC_NPROCESSORS_CONF: return 4;
	case _SC_PHYS_PAGES: return 1 << 22;
	default: return -1;
	}
}

int
sim_getrlimit(int what, struct rlimit *limit)
{
	(void)what;
	*limit = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
	return 0;
}

int
sim_sched_getaffinity(pid_t pid, size_t n, cpu_set_t *set)
{
	(void)pid;
	CPU_ZERO_S(n, set);
	for (size_t i = 0; i < 4; i++)
		CPU_SET_S(i, n, set);
	return 0;
}

void
sim_openblas_set_num_threads(int n)
{
	(void)n;
}

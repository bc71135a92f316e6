/* poll.c - descriptors that are waited for: sockets, events, signals */
#include "lib/base/mem.h"
#include "tests/sim/files.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

/* What a thread in poll() waits for. */
static const char polling;

void
poll_wake(const struct process *p)
{
	for (struct thread *t = sim.threads; t; t = t->next)
		if (t->process == p && t->waits_for == &polling)
			thread_wake(t, 0);
}

static int
special(enum file_kind kind)
{
	int err = call_begin(CALL_SOCKET, NULL, (int)kind);
	struct file *f;

	if (err)
		return fail(err);
	f = mem_zalloc(1, sizeof *f);
	f->kind = kind;
	return file_add(f);
}

int
sim_eventfd(unsigned count, int flags)
{
	int fd = special(FILE_EVENT);

	(void)flags;
	if (fd >= 0)
		file_of(fd)->at = count;
	return fd;
}

int
sim_signalfd(int old, const sigset_t *set, int flags)
{
	int fd = special(FILE_SIGNALS);

	(void)old;
	(void)flags;
	for (int sig = 1; fd >= 0 && sig < SIGNALS; sig++)
		if (sigismember(set, sig) == 1)
			file_of(fd)->signals |= UINT64_C(1) << sig;
	return fd;
}

ssize_t
poll_read(struct file *f, void *to, size_t n)
{
	struct process *p = sim.current->process;
	struct signalfd_siginfo *came = to;
	uint64_t there = f->signals & p->pending;

	if (f->kind == FILE_EVENT || !there || n < sizeof *came)
		return fail(EAGAIN);
	memset(came, 0, sizeof *came);
	came->ssi_signo = (uint32_t)__builtin_ctzll(there);
	p->pending &= ~(UINT64_C(1) << came->ssi_signo);
	return (ssize_t)sizeof *came;
}

/* Only events are written to. */
ssize_t
poll_write(struct file *f, size_t n)
{
	f->at++;
	poll_wake(sim.current->process);
	return (ssize_t)n;
}

/* A time at which it is ready; NEVER: another thread or a signal will tell. */
static int64_t
ready_at(const struct file *f)
{
	switch (f ? f->kind : FILE_NULL) {
	case FILE_SOCKET: return socket_ready(f->socket);
	case FILE_EVENT: return f->at ? sim.now : NEVER;
	case FILE_SIGNALS: return f->signals & sim.current->process->pending ? sim.now : NEVER;
	default: return sim.now;
	}
}

int
sim_poll(struct pollfd *p, nfds_t n, int milliseconds)
{
	struct thread *self = sim.current;
	int64_t until, next;
	int ready = 0;

	call_begin(CALL_SLEEP, "poll", milliseconds);
	until = milliseconds < 0 ? NEVER : sim.now + milliseconds * MILLISECOND;
	for (;;) {
		next = until;
		for (nfds_t i = 0; i < n; i++) {
			int64_t at = p[i].fd < 0 ? NEVER : ready_at(file_of(p[i].fd));

			p[i].revents = at <= sim.now ? POLLIN : 0;
			ready += at <= sim.now;
			next = at < next ? at : next;
		}
		if (ready || sim.now >= until)
			return ready;
		self->ready = next;
		self->waits_for = &polling;
		if (schedule())
			return fail(EINTR);
		self->waits_for = NULL;
	}
}

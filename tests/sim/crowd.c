/*
 * crowd.c - many seeds, each in a process of its own
 *
 * What ranks that are killed leave is never freed, and a crash is one failed seed. Results are in
 * memory that all processes share, and so are the references, each made when it is first needed.
 */
#include "tests/sim/crowd.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS_MAX = 256, SECONDS_MAX = 300 }; /* of the processor: the machine may be busy */

void *
crowd_shared(size_t n)
{
	void *p = mmap(
	    NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void
crowd_note_end(struct result *r, int status)
{
	size_t n = strlen(r->why);

	if (r->ended)
		return;
	r->failed = true;
	if (WIFSIGNALED(status))
		snprintf(r->why + n, sizeof r->why - n, "the simulator was ended by signal %d (%s)",
		    WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(r->why + n, sizeof r->why - n, "the simulator ended with status %d",
		    WEXITSTATUS(status));
}

static pid_t
begin(const struct case_options *o, const struct reference *ref, struct result *r)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	setrlimit(RLIMIT_CPU, &(struct rlimit){ SECONDS_MAX, SECONDS_MAX + 1 });
	case_run(o, ref, r);
	fflush(stdout);
	_exit(0);
}

/* Makes the reference of a layout, if it is not there yet. */
static int
need(struct reference *all, int layout, struct err *e)
{
	struct reference *r = &all[layout];
	struct image *image[] = { &r->start, &r->half, &r->end };
	int status;

	for (int i = 0; i < 3 && !r->known; i++) {
		*image[i] = (struct image){ 0, IMAGE_BYTES, crowd_shared(IMAGE_BYTES) };
		if (!image[i]->bytes)
			return err_set(e, "no memory for the images of disks");
	}
	for (int part = PART_WHOLE; part <= PART_REST && !r->known; part++) {
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (pid == 0) {
			case_reference(layout, (enum part)part, r);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) < 0)
			return err_set(e, "cannot start a process");
		if (!r->good)
			return err_set(
			    e, "the undisturbed run of '%s' fails", layouts[layout].name);
	}
	r->known = true;
	return 0;
}

/* One seed of those under way. */
struct slot {
	pid_t pid;
	struct result *result;
	uint64_t hash; /* of its first time */
	struct case_options options;
	const struct reference *reference;
};

static int
start(const struct crowd *c, struct slot *s, struct err *e)
{
	static struct reference *all;
	const struct case_options *o = &s->options;
	int layout = case_layout(o);

	if (!all && !(all = crowd_shared(LAYOUTS * sizeof *all)))
		return err_set(e, "no memory for the references");
	if (need(all, layout, e) < 0)
		return -1;
	s->reference = &all[layout];
	s->hash = 0;
	memset(s->result, 0, sizeof *s->result);
	s->result->seed = o->seed;
	fflush(stdout);
	if (c->here) {
		case_run(o, s->reference, s->result);
		c->take(c->ctx, o, s->result);
		return 0;
	}
	s->pid = begin(o, s->reference, s->result);
	return s->pid < 0 ? err_set(e, "cannot start a process") : 0;
}

/* False: it is simulated once more. */
static bool
finish(const struct crowd *c, struct slot *s, int status)
{
	struct result *r = s->result;
	size_t n = strlen(r->why);

	crowd_note_end(r, status);
	if (c->twice && !s->hash && r->ended) {
		s->hash = r->hash;
		memset(r, 0, sizeof *r);
		r->seed = s->options.seed;
		s->pid = begin(&s->options, s->reference, r);
		return s->pid < 0;
	}
	if (s->hash && s->hash != r->hash) {
		r->failed = true;
		snprintf(r->why + n, sizeof r->why - n, "the second log differs from the first");
	}
	c->take(c->ctx, &s->options, r);
	return true;
}

int
crowd_run(const struct crowd *c, struct err *e)
{
	struct slot slot[JOBS_MAX] = { 0 };
	int running = 0, status, rc = 0;
	bool more = true;
	pid_t pid;

	for (int i = 0; i < c->jobs; i++)
		slot[i].result = crowd_shared(sizeof(struct result));
	while (rc == 0 && (running || more)) {
		for (int i = 0; rc == 0 && i < c->jobs && more; i++)
			if (!slot[i].pid && (more = c->next(c->ctx, &slot[i].options))) {
				rc = start(c, &slot[i], e);
				running += rc == 0 && !c->here;
			}
		pid = running ? wait(&status) : -1;
		for (int i = 0; i < c->jobs; i++)
			if (pid > 0 && slot[i].pid == pid && finish(c, &slot[i], status)) {
				slot[i].pid = 0;
				running--;
			}
	}
	for (int i = 0; i < c->jobs; i++)
		munmap(slot[i].result, sizeof(struct result));
	return rc;
}

/* Ranks that are killed leave their memory, so each seed takes some more: in large pages, and never
 * as maps of their own, which would be faults and calls of the kernel. */
static const char memory_wishes[] =
    "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=33554432:glibc.malloc.mmap_threshold=1073741824";

void
crowd_alone(char **argv)
{
	int now = personality(0xffffffff);
	bool fixed = now == -1 || now & ADDR_NO_RANDOMIZE ||
	    personality((unsigned)now | ADDR_NO_RANDOMIZE) == -1;

	if (fixed && getenv("OPENBLAS_NUM_THREADS") && getenv("GLIBC_TUNABLES"))
		return;
	setenv("GLIBC_TUNABLES", memory_wishes, 0);
	setenv("OPENBLAS_NUM_THREADS", "1", 1);
	setenv("OMP_NUM_THREADS", "1", 1);
	setenv("TZ", "UTC", 1);
	execv("/proc/self/exe", argv);
}

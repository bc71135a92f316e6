/*
 * launcher.c - jobs of several ranks, as mpirun starts and ends them
 *
 * As Open MPI does: when the first rank ends with a status other than 0, or without MPI_Finalize,
 * the others get SIGTERM, and SIGKILL a second later; its status is the launcher's.
 */
#include "tests/sim/launcher.h"
#include "lib/base/mem.h"
#include "tests/sim/disk.h"

#include <stdlib.h>

static struct job *jobs[JOBS];
static bool waits_for_all[JOBS]; /* srun without --kill-on-bad-exit */
static int num_jobs;

static void
put_rank(const char *words, int rank, struct str *out)
{
	for (; *words; words++)
		if (*words == '%')
			str_addf(out, "%d", rank);
		else
			str_addc(out, *words);
}

struct job *
job_start(const struct launch *x)
{
	struct job *j = mem_zalloc(1, sizeof *j);

	if (num_jobs == JOBS)
		abort();
	j->number = num_jobs++;
	j->size = j->alive = x->ranks;
	jobs[j->number] = j;
	waits_for_all[j->number] = x->srun;
	for (int i = 0; i < x->ranks; i++) {
		char rank[40], size[40], local[40];
		const char *env[] = { rank, size, local, "HOME=/", NULL };
		struct str words = { 0 };

		put_rank(x->words, i, &words);
		snprintf(rank, sizeof rank, "OMPI_COMM_WORLD_RANK=%d", i);
		snprintf(size, sizeof size, "OMPI_COMM_WORLD_SIZE=%d", x->ranks);
		snprintf(local, sizeof local, "OMPI_COMM_WORLD_LOCAL_RANK=%d", i);
		j->rank[i] = process_begin(&(struct program){ .name = x->tool,
		    .main = x->main,
		    .words = words.buf,
		    .host = i * x->hosts / x->ranks,
		    .job = j->number,
		    .rank = i,
		    .said = x->said,
		    .env = env });
		str_release(&words);
		mpi_process_begin(j->rank[i], x->ranks);
		j->rank[i]->thread->ready = sim.now + draw_delay(20 * MILLISECOND);
	}
	return j;
}

/* The second half of the rule. */
static void *
end_others(void *arg)
{
	struct job *j = arg;

	rest(draw_delay(2 * MILLISECOND));
	for (int i = 0; i < j->size; i++)
		process_signal_from(j->rank[i], SIGCONT, LAUNCHER_PID);
	job_signal(j, SIGTERM);
	rest(SECOND);
	job_kill(j);
	return NULL;
}

void
launcher_ended(struct process *p, bool finalized)
{
	struct job *j = p->job == JOB_NONE ? NULL : jobs[p->job];

	if (!j)
		return;
	j->alive--;
	j->succeeded |= p->status == 0;
	if (!j->failed && (p->status != 0 || !finalized)) {
		j->failed = true;
		j->status = p->status ? p->status : 1;
		if (j->alive && !waits_for_all[j->number])
			thread_new(sim.init, end_others, j);
	}
	for (struct thread *t = sim.threads; t && !j->alive; t = t->next)
		if (t->waits_for == j)
			thread_wake(t, 0);
}

void
launcher_abort(struct process *p, int status)
{
	struct job *j = jobs[p->job];

	if (j && !j->aborted && waits_for_all[j->number]) {
		j->aborted = true;
		thread_new(sim.init, end_others, j);
	}
	process_end(p, status);
	abort();
}

bool
job_wait(struct job *j, int64_t until)
{
	while (j->alive && !sim.stuck && sim.now < until) {
		sim.current->waits_for = j;
		sim.current->ready = until;
		schedule();
	}
	return !j->alive;
}

void
job_kill(struct job *j)
{
	job_signal(j, SIGKILL);
}

void
job_signal(struct job *j, int sig)
{
	for (int i = 0; i < j->size; i++)
		process_signal(j->rank[i], sig);
}

static void
new_boot(int host)
{
	sim.memory[host] = node_new(true);
	snprintf(sim.boot[host], sizeof sim.boot[host], "%08llx-b007-4000-8000-%012x",
	    (unsigned long long)draw(UINT32_MAX), host);
}

/* The process that runs ends last, since this does not return for it. */
static void
end_all_of(int host)
{
	struct process *self = sim.current->process;

	for (struct process *p = sim.processes; p; p = p->next)
		if (p != sim.init && p != self && (host < 0 || p->host == host))
			process_end(p, 128 + SIGKILL);
	if (self != sim.init && (host < 0 || self->host == host))
		process_end(self, 128 + SIGKILL);
}

void
power_lost(void)
{
	enum loss how = (enum loss)draw(LOSS_KINDS);

	sim.count[COUNT_LOST_ALL + (int)how]++;
	for (int i = 0; i < HOSTS; i++)
		new_boot(i);
	disk_lose_power(sim.disk, how);
	end_all_of(-1);
}

void
host_lost(int host)
{
	new_boot(host);
	end_all_of(host);
}

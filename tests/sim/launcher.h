/* launcher.h - jobs of several ranks, as mpirun starts and ends them */
#ifndef SIM_LAUNCHER_H
#define SIM_LAUNCHER_H

#include "tests/sim/world.h"

struct job {
	int number, size, alive;
	struct process *rank[RANKS];
	bool failed, succeeded; /* one of its processes has ended so */
	bool aborted;           /* by MPI_Abort, where ranks live on else */
	int status;             /* of the first that failed, else 0 */
};

struct launch {
	const char *tool;
	int (*main)(int, char **);
	const char *words; /* its arguments; %: the rank's number */
	int ranks, hosts;  /* ranks are spread over the hosts in equal parts, in order */
	bool srun;         /* the others live on when one has died */
	struct str *said;
};
struct job *job_start(const struct launch *x);
/* False: not all have ended by that time, or all threads wait. */
bool job_wait(struct job *j, int64_t until);
/* Ends all at once. */
void job_kill(struct job *j);
void job_signal(struct job *j, int sig);

/* All hosts, or one, lose what is not on the disk, and are there again at once. */
void power_lost(void);
void host_lost(int host);

#endif

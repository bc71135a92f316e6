/*
 * leave.h - what a run says of its end: how long a stop takes, what was saved, how it continues
 *
 * Open MPI's mpirun gives ranks twice OMPI_MCA_odls_base_sigkill_timeout seconds when it is asked
 * to end. Where a step and a save take longer, that costs the steps since the last checkpoint.
 */
#ifndef TRAIN_RUN_LEAVE_H
#define TRAIN_RUN_LEAVE_H

struct run;

/* Set by a launcher of ours for its ranks, on all hosts: mpirun exports what begins like this. The
 * value says whether the launcher's standard error is a terminal. */
#define LEAVE_LAUNCHED "OMPI_MCA_mtrain_launch"
#define LEAVE_TERMINAL "terminal"

/* On rank 0: a progress line that comes to a terminal through a launcher is shown. */
void leave_begin(void);
/* After a step, on rank 0: an answer to a request will say how long the stop
 * takes, and a note says once when it takes longer than mpirun allows. */
void leave_expect(struct run *r);
/* With -v, on rank 0, after all else: how the time since the start of the program was spent. */
void leave_parts(const struct run *r);
/* The last words of a run that was stopped and saved. */
void leave_say(const struct run *r, const char *why);
/* When the last run ended with steps that it had not saved: a note with their number. Rank 0,
 * before the metrics file is opened. */
void leave_lost(const struct run *r);

#endif

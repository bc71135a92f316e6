/*
 * loop.c - the step loop: what happens between the steps
 *
 * After each step, a save in the background advances, and then come, if due, evaluation, save and
 * stop, in this order. All ranks do the same, because they decide by the step's totals, the options
 * and the number of the step. The time of an evaluation, and of a save that the run waits for,
 * belongs to no step.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/data/corpus_log.h"
#include "train/run/begin.h"
#include "train/run/leave.h"
#include "train/run/loop.h"
#include "train/run/tasks.h"
#include "train/state/hooks.h"
#include "train/state/saver.h"
#include "train/watch/stop.h"

#include <stdlib.h>

/* How long a run that ends waits for the comparison of its data with their checksums: small
 * datasets are compared whole in the shortest run. */
enum { AUDIT_SECONDS = 1 };

/* --- saves ------------------------------------------------------------------------------------ */

/* A failed save is reported once and ends the run. */
static int
save_status(const struct run *r, int rc, const struct err *err)
{
	if (rc < 0 && r->e->rank == 0)
		warn("%s", err->msg);
	return rc < 0 ? EXIT_FAILED : EXIT_DONE;
}

/* The time until steps_resume belongs to no step. Returns the clock when the device has done what
 * is queued: the end of a step belongs to the next one's time. */
static double
steps_pause(const struct run *r)
{
	timing_end(r->e, SPAN_BETWEEN);
	engine_sync(r->e);
	energy_pause(r->energy);
	return r->watch.clock();
}

static void
steps_resume(struct run *r, double since)
{
	stopwatch_exclude(&r->watch, since);
	energy_resume(r->energy);
	timing_watch(r->e, true);
	timing_begin(r->e, SPAN_BETWEEN);
}

/* Begins a save, which may continue during the next steps; what it costs them is in their time.
 * EXIT_DONE without --save. */
static int
save(struct run *r)
{
	struct str data = { 0 };
	struct err err;
	double since, held;
	int rc;

	r->saved_at = r->at.iteration;
	audit_files(r->audit);
	if (!r->saver)
		return EXIT_DONE;
	held = r->watch.clock();
	since = saver_background(r->saver) ? r->watch.clock() : steps_pause(r);
	corpus_log_gather(r->corpora);
	if (r->e->rank == 0) {
		data_state(
		    r->data, corpus_log_counts(r->corpora), corpus_log_trained(r->corpora), &data);
		data_note_consumed(
		    r->data, corpus_log_counts(r->corpora), corpus_log_trained(r->corpora));
	}
	rc = saver_start(r->saver, &r->at, data.buf, &err);
	str_release(&data);
	if (!saver_background(r->saver))
		steps_resume(r, since);
	r->parts.saves += r->watch.clock() - held;
	return save_status(r, rc, &err);
}

/* Waits until the save under way is a checkpoint. */
static int
save_ends(struct run *r)
{
	double held = r->watch.clock();
	struct err err;
	int rc = r->saver ? saver_wait(r->saver, &err) : 0;

	r->parts.saves += r->watch.clock() - held;
	return save_status(r, rc, &err);
}

/* Saves unless this step has been saved already, and waits until the device is done and everything
 * is on the disk. */
static int
save_last(struct run *r)
{
	struct prefetch_stats stats = prefetch_stats(r->prefetch);
	int status = r->saved_at == r->at.iteration ? EXIT_DONE : save(r);

	if (!r->saver)
		corpus_log_gather(r->corpora);
	if (!r->saver && r->e->rank == 0)
		data_note_consumed(
		    r->data, corpus_log_counts(r->corpora), corpus_log_trained(r->corpora));
	engine_sync(r->e);
	if (r->empty && r->e->rank == 0)
		note("the loss mask left no token of %lld batches: their steps were taken with "
		     "gradients of 0",
		    (long long)r->empty);
	if (prog_level() > 0)
		note("waited for data %lld times, %.3f s in all", (long long)stats.waits,
		    stats.seconds);
	if (status == EXIT_DONE)
		status = save_ends(r);
	leave_parts(r);
	return status;
}

/* --- stops ------------------------------------------------------------------------------------ */

/* True when a signal or the file 'stop' asked for it during the last step. */
static bool
asked_to_stop(const struct run *r)
{
	return r->total[TOTAL_STOP] > 0;
}

/* NULL to continue. Non-NULL on all ranks or on none; the text may differ between them, and only
 * rank 0's is shown. */
static const char *
reason_to_stop(const struct run *r)
{
	const struct train_options *o = &r->c->o;

	if (asked_to_stop(r))
		return stop_signal()     ? stop_signal()
		    : stop_file(o->save) ? "the file 'stop'"
					 : "a request of another rank";
	if (o->exit_interval && r->at.iteration % o->exit_interval == 0)
		return "--exit-interval";
	return r->total[TOTAL_LATE] > 0 ? "--exit-duration-in-mins" : NULL;
}

/* The barrier holds every rank until rank 0 has removed the stop file and printed its note, since
 * the first exit may end the others. */
static int
stop_run(struct run *r, const char *why)
{
	int status = asked_to_stop(r) ? EXIT_DONE : iteration_audit(r, AUDIT_SECONDS);

	if (status == EXIT_DONE)
		status = save_last(r);
	if (status != EXIT_DONE)
		return status;
	if (r->e->rank == 0) {
		stop_file_remove(r->c->o.save);
		metrics_stop(r->metrics, r->at.iteration, why);
		leave_say(r, why);
	}
	r->e->groups.world->ops->barrier(COMM_HERE(r->e->groups.world));
	return EXIT_STOPPED;
}

/* --- the loop --------------------------------------------------------------------------------- */

/* The run cannot continue. The save under way is finished first: it was asked for, and the search
 * for the reason may end the program. Bad data do not spoil what was trained before them, so that
 * is saved as at the end of a run; after numbers that are not finite nothing is worth a save. */
static int
give_up(struct run *r, enum iteration_end end)
{
	if (r->saver && end == ITERATION_BAD_DATA)
		save_last(r);
	else
		save_ends(r);
	return iteration_failure(r, end);
}

static int
evaluate(struct run *r, enum split which)
{
	double since = steps_pause(r);
	enum iteration_end end = iteration_evaluate(r, which);

	r->parts.evaluation += r->watch.clock() - since;
	steps_resume(r, since);
	return end == ITERATION_DONE ? EXIT_DONE : give_up(r, end);
}

/* What the weights make of the tasks, if there are any. A file of answers that cannot be written
 * is reported, and costs no run that trains. */
static int
evaluate_tasks(struct run *r)
{
	const char *output = r->c->o.eval_tasks_output;
	struct task_answer *answers;
	struct err err;
	double since;
	int rc = 0;

	if (!r->tasks)
		return EXIT_DONE;
	since = steps_pause(r);
	timing_watch(r->e, false);
	answers = mem_alloc((size_t)r->tasks->tasks.num_pairs, sizeof *answers);
	tasks_answer(r->e, r->tasks, answers);
	if (r->metrics)
		tasks_report(&r->tasks->tasks, answers, r->at.iteration, r->metrics);
	if (r->e->rank == 0 && output)
		rc = tasks_write(&r->tasks->tasks, answers, output, &err);
	if (rc < 0)
		warn("--eval-tasks-output: %s", err.msg);
	free(answers);
	r->parts.evaluation += r->watch.clock() - since;
	steps_resume(r, since);
	return rc < 0 && r->c->o.skip_train ? EXIT_FAILED : EXIT_DONE;
}

int
loop_evaluate(struct run *r)
{
	int status = evaluate(r, SPLIT_VALID);

	if (status == EXIT_DONE)
		status = evaluate(r, SPLIT_TEST);
	return status == EXIT_DONE ? evaluate_tasks(r) : status;
}

/* Does the evaluation and the save that are due after this step; the last step has its own. A
 * request from outside skips what is due: a batch system leaves only seconds, and the save needs
 * them. --exit-interval and --exit-duration-in-mins wait for both. */
static int
after_step(struct run *r)
{
	const struct train_options *o = &r->c->o;
	const char *why = reason_to_stop(r);
	int64_t step = r->at.iteration;
	bool asked = asked_to_stop(r);
	int status = EXIT_DONE;

	if (!asked && step % o->eval_interval == 0 && step < r->c->train_iters) {
		status = evaluate(r, SPLIT_VALID);
		if (status == EXIT_DONE && step % o->eval_tasks_interval == 0)
			status = evaluate_tasks(r);
	}
	if (status == EXIT_DONE && !asked &&
	    ((o->save_interval && step % o->save_interval == 0) || r->total[TOTAL_SAVE] > 0))
		status = save(r);
	return status == EXIT_DONE && why ? stop_run(r, why) : status;
}

/* After a spike: to a checkpoint before it, or on. */
static int
go_back(struct run *r)
{
	int64_t at = r->at.iteration;
	double since = steps_pause(r);
	int status = rewind_run(r);

	r->parts.back += r->watch.clock() - since;
	r->parts.lost += at - r->at.iteration + 1;
	steps_resume(r, since);
	return status;
}

/* A step with what comes after it. When another run owns --save, nothing more is written, not even
 * the save under way. A run that has been asked to stop does not go back before a spike: the run
 * that resumes will. */
static int
take_step(struct run *r)
{
	enum iteration_end end = iteration_train(r);
	struct err err;
	int status;

	r->parts.taken++;

	if (r->total[TOTAL_LOST] > 0) {
		if (lock_check(r->lock, &err) < 0)
			warn("%s: stopping after iteration %lld, and nothing more is saved",
			    err.msg, (long long)r->at.iteration);
		return EXIT_FAILED;
	}
	watchdog_steady(r->watchdog);
	if (end == ITERATION_SPIKE && !asked_to_stop(r))
		return go_back(r);
	if (end != ITERATION_DONE && end != ITERATION_SPIKE)
		return give_up(r, end);
	leave_expect(r);
	hooks_poll(r->hooks);
	/* A save in the background takes its next part when all ranks have written. */
	status = r->total[TOTAL_WRITTEN] < (double)r->e->groups.world->size
	    ? EXIT_DONE
	    : save_status(r, saver_next(r->saver, &err), &err);
	return status == EXIT_DONE ? after_step(r) : status;
}

/* Collective; returns the exit status, the same on every rank. The last evaluation comes before the
 * last save, so that its result is logged even if the save fails. */
int
loop_train(struct run *r)
{
	int status = EXIT_DONE;

	stopwatch_start(&r->watch);
	r->started = r->watch.lap;
	r->parts.start = prog_seconds();
	r->began = r->saved_at = r->at.iteration;
	while (status == EXIT_DONE && r->at.iteration < r->c->train_iters)
		status = take_step(r);
	if (status == EXIT_DONE)
		status = loop_evaluate(r);
	if (status == EXIT_DONE)
		status = iteration_audit(r, AUDIT_SECONDS);
	return status == EXIT_DONE ? save_last(r) : status;
}

/*
 * saver.c - saves that run during training
 *
 * A save goes through phases, each with a job that this rank's thread does and an agreement of all
 * ranks after it: files (wait for the copies, write and sync this rank's file), then commit (rank 0
 * renames the directory and moves the tracker). MPI is called by the main thread alone, so ranks
 * agree at step boundaries. The copies go to one pinned array, on a stream of their own; only the
 * update of the next step waits for them. A save is a directory beside the others until rank 0
 * renames it: until then the previous checkpoint is the latest.
 */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/ckpt/ckpt.h"
#include "train/config/config.h"
#include "train/engine/host.h"
#include "train/engine/pinned.h"
#include "train/state/save.h"
#include "train/state/saver.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum phase { IDLE, FILES, COMMIT };

/* The snapshot is pinned in parts of this many bytes, and no copy crosses the end of one. */
enum { PART = 1 << 28 };

struct saver {
	struct engine *e;
	const struct train_config *c;
	struct lock *lock; /* that of the directory, on rank 0 */
	struct hooks *hooks;
	struct ckpt_retention retention;
	/* agreed: the ranks know of each other whether they have the memory for it */
	bool background, agreed;
	size_t bytes; /* of all pieces */
	/* the pieces, one after the other; NULL: they are staged one by one */
	char *snapshot;
	struct event *begun, *copied;
	struct stream *copies;
	/* the save under way */
	enum phase phase;
	struct progress at;
	double start; /* seconds */
	double took;  /* the last one that has ended; 0: none has */
	bool told;    /* a note has said that a save had to wait for the one before */
	char dir[IO_PATH];
	struct str options, state, lines;
	struct ckpt_writer *writer;
	char *manifest;
	/* the job under way */
	pthread_t thread;
	bool running; /* a thread is to be joined */
	atomic_bool done;
	int rc;
	struct err err;
	struct err left;  /* why a checkpoint was not removed; empty: none was left */
	struct str aside; /* where an iter_* of this number that is not of this run was moved */
};

/* --- jobs: one thread at a time --------------------------------------------------------------- */

/* Hands a job to a thread; without the background it is done when this returns. */
static void
job_start(struct saver *s, void *(*job)(void *))
{
	atomic_store(&s->done, false);
	s->rc = 0;
	if (s->background && pthread_create(&s->thread, NULL, job, s) == 0)
		s->running = true;
	else
		job(s);
}

/* A job's last act: result and reason are in place before another thread sees done. */
static void
job_end(struct saver *s, int rc)
{
	s->rc = rc;
	atomic_store(&s->done, true);
}

static int
job_join(struct saver *s)
{
	if (s->running)
		pthread_join(s->thread, NULL);
	s->running = false;
	return s->rc;
}

/* --- the copies ------------------------------------------------------------------------------- */

/* Adds a piece to the size of the snapshot. What lies on the host is written from there. */
static int
visit_size(void *ctx, const struct save_piece *p, struct err *err)
{
	struct saver *s = ctx;

	(void)err;
	s->bytes += p->host ? 0 : save_piece_bytes(p);
	return 0;
}

/* Takes the array for the copies. It is pinned in parts, and touched before, since a driver that
 * pins gigabytes at once holds up every other call. A host without that much memory saves without
 * it. */
static void *
snapshot_job(void *arg)
{
	struct saver *s = arg;

	s->snapshot = pinned_alloc(s->e, s->bytes, PART);
	job_end(s, 0);
	return NULL;
}

/* Queues the copy of a piece after those before it. */
struct copying {
	struct saver *s;
	size_t at;
};
static void
copy_tensor(struct copying *x, const struct tensor *t)
{
	const char *from = t->data;

	for (size_t left = t->data ? tensor_bytes(t) : 0, n; left; left -= n) {
		n = PART - x->at % PART;
		n = n < left ? n : left;
		x->s->e->backend->copy_out(x->s->copies, x->s->snapshot + x->at, from, n);
		x->at += n;
		from += n;
	}
}
static int
visit_copy(void *ctx, const struct save_piece *p, struct err *err)
{
	(void)err;
	if (p->host)
		return 0;
	copy_tensor(ctx, &p->from);
	copy_tensor(ctx, &p->low_bits);
	return 0;
}

/* --- this rank's file ------------------------------------------------------------------------- */

/* Declares a piece in the file's header. */
static int
visit_declare(void *ctx, const struct save_piece *p, struct err *err)
{
	struct saver *s = ctx;

	(void)err;
	ckpt_declare(
	    s->writer, p->name, save_piece_dtype(p), p->param->ndim, p->param->shape, p->slice);
	return 0;
}

/* Writes the bytes of a piece: as they are, or joined with those of its low bits to F32. */
static int
write_piece(struct saver *s, const struct save_piece *p, const void *bytes, const void *low_bits,
    struct err *err)
{
	int64_t count = tensor_elements(&p->from);
	const uint16_t *weight = bytes, *low = low_bits;
	float *joined;
	int rc;

	if (!p->low_bits.data)
		return ckpt_write(s->writer, bytes, err);
	joined = mem_alloc((size_t)count, sizeof *joined);
	for (int64_t i = 0; i < count; i++)
		joined[i] = dtype_f32_from_parts(weight[i], low[i]);
	rc = ckpt_write(s->writer, joined, err);
	free(joined);
	return rc;
}

/* Writes a piece from where it lies on the host, from the snapshot, or from a copy of it that is
 * taken from the device now, its low bits after it. */
static int
visit_write(void *ctx, const struct save_piece *p, struct err *err)
{
	struct copying *x = ctx;
	const struct engine *e = x->s->e;
	size_t n = tensor_bytes(&p->from), all = save_piece_bytes(p);
	char *from, *staging = NULL;
	int rc;

	if (p->host)
		return write_piece(x->s, p, p->from.data, p->low_bits.data, err);
	if (x->s->background) {
		from = x->s->snapshot + x->at;
	} else {
		from = staging = mem_alloc(all, 1);
		e->backend->copy_out(e->stream, staging, p->from.data, n);
		if (all > n)
			e->backend->copy_out(e->stream, staging + n, p->low_bits.data, all - n);
		engine_sync(e);
	}
	rc = write_piece(x->s, p, from, from + n, err);
	free(staging);
	x->at += all;
	return rc;
}

/* Writes this rank's file and puts its manifest lines into s->lines. On failure the file is
 * removed; rank 0 removes the directory. */
static int
write_file(struct saver *s, struct err *err)
{
	struct copying x = { s, 0 };
	struct save_walk declare = { s->e, visit_declare, s }, write = { s->e, visit_write, &x };

	if (s->background && s->e->backend->sync(s->copies, err) < 0)
		return -1;
	s->writer = ckpt_writer_new(s->dir, s->e->rank, err);
	if (!s->writer)
		return -1;
	save_pieces(&declare, s->c->o.save_optim, err);
	if (save_pieces(&write, s->c->o.save_optim, err) < 0) {
		ckpt_writer_abort(s->writer);
		return -1;
	}
	return ckpt_writer_finish(s->writer, &s->lines, err);
}

/* What lies on the host stays as it is meanwhile. */
static void *
file_job(void *arg)
{
	struct saver *s = arg;
	int rc;

	host_held(s->e);
	rc = write_file(s, &s->err);
	host_resume(s->e);
	job_end(s, rc);
	return NULL;
}

/* Rank 0 puts options, state and manifest beside the files, and makes the directory the latest
 * checkpoint, if this run still owns --save. Checkpoints that --save-retain-interval does not keep
 * are removed once the new one is there. A failure to remove one does not end the run. */
static void *
commit_job(void *arg)
{
	struct saver *s = arg;
	struct ckpt_commit k = { .save = s->c->o.save,
		.iteration = s->at.iteration,
		.manifest = s->manifest,
		.options = s->options.buf,
		.state = s->state.buf,
		.aside = &s->aside,
		.lock = s->lock,
		.tmp = s->dir };
	int rc = 0;

	s->left.msg[0] = '\0';
	str_clear(&s->aside);
	if (ckpt_commit(&k, &s->err) < 0)
		rc = -1;
	else if (s->retention.interval)
		ckpt_retain(&s->retention, &s->left);
	job_end(s, rc);
	return NULL;
}

/* --- the phases ------------------------------------------------------------------------------- */

/* Back to idle, whether the save succeeded or not. */
static void
reset(struct saver *s)
{
	s->phase = IDLE;
	free(s->manifest);
	s->manifest = NULL;
	str_clear(&s->lines);
	str_clear(&s->options);
	str_clear(&s->state);
}

/* Every rank has ended its job of this phase; rc is this rank's result. True when one failed: the
 * directory is removed, unless it has its own name already, and the reason is in err on rank 0.
 * When another run owns --save by now, that is the reason. */
static bool
failed(struct saver *s, int rc, struct err *err)
{
	*err = s->err;
	if (!comm_agree(COMM_HERE(s->e->groups.world), rc, err))
		return false;
	if (s->e->rank == 0) {
		lock_check(s->lock, err);
		io_remove_tree(s->dir, NULL);
	}
	reset(s);
	return true;
}

/* Rank 0 makes the directory and tells the others its name. No other rank makes it: when the run
 * has lost its lock, the next one has removed it, and it stays away. The copies start after all
 * that is queued, and the next update waits for their end. */
static int
begin_files(struct saver *s, struct err *err)
{
	const struct backend *b = s->e->backend;
	struct copying x = { s, 0 };
	struct save_walk copy = { s->e, visit_copy, &x };
	struct comm *w = s->e->groups.world;
	struct tensor name = tensor_1d(s->dir, DTYPE_U8, sizeof s->dir);
	int rc = 0;

	s->phase = FILES;
	s->dir[0] = '\0';
	if (w->rank == 0)
		rc = lock_check(s->lock, &s->err) < 0
		    ? -1
		    : ckpt_begin(s->c->o.save, s->at.iteration, s->dir, &s->err);
	if (failed(s, rc, err))
		return -1;
	w->ops->broadcast(COMM_HERE(w), NULL, &(struct comm_broadcast){ name, 0 });
	if (s->background) {
		b->record(s->e->stream, s->begun);
		b->wait(s->copies, s->begun);
		save_pieces(&copy, s->c->o.save_optim, NULL);
		b->record(s->copies, s->copied);
		s->e->held = s->copied;
	}
	host_hold(s->e);
	job_start(s, file_job);
	return 0;
}

/* The memory for copies is taken at once, so that the first save finds it ready. */
struct saver *
saver_new(struct engine *e, const struct train_config *c, struct lock *lock, struct hooks *hooks,
    bool background)
{
	struct saver *s = mem_zalloc(1, sizeof *s);
	struct save_walk size = { e, visit_size, s };

	s->e = e;
	s->c = c;
	s->lock = lock;
	s->hooks = hooks;
	s->retention = (struct ckpt_retention){ .save = c->o.save,
		.interval = c->o.save_retain_interval,
		.since = INT64_MAX,
		.lock = lock };
	s->background = background;
	s->copies = e->backend->stream(e->device, STREAM_SAVE);
	s->begun = e->backend->event(e->device);
	s->copied = e->backend->event(e->device);
	save_pieces(&size, c->o.save_optim, NULL);
	if (background && s->bytes > 0)
		job_start(s, snapshot_job);
	return s;
}

/* Joins a thread that is still at work, so that nothing is written after this returns. */
void
saver_free(struct saver *s)
{
	if (!s)
		return;
	job_join(s);
	s->e->held = NULL;
	pinned_free(s->e, s->snapshot, s->bytes, PART);
	reset(s);
	str_release(&s->lines);
	str_release(&s->options);
	str_release(&s->state);
	str_release(&s->aside);
	free(s);
}

/* Waits for the snapshot's memory, once. When one rank could not get it, no rank saves in the
 * background. */
static void
agree_on_background(struct saver *s)
{
	struct comm *w = s->e->groups.world;
	double without = s->bytes && !s->snapshot;
	struct tensor t = tensor_1d(&without, DTYPE_F64, 1);

	if (!s->background || s->agreed)
		return;
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ t, REDUCE_MAX });
	s->agreed = true;
	s->background = without == 0;
	if (!s->background && s->e->rank == 0)
		note("no memory for copies of %zu bytes: training waits for each save", s->bytes);
}

/* Before another save is begun. Notes, once, that a save was due before the previous one had ended:
 * training waits for the disk. A wait of less than a hundredth of the time between them is none. */
static int
end_previous(struct saver *s, int64_t iteration, struct err *err)
{
	bool busy = s->phase != IDLE;
	double due = clock_seconds(), between = due - s->start, took, waited;

	if (saver_wait(s, err) < 0)
		return -1;
	waited = clock_seconds() - due;
	took = between + waited;
	if (busy && between > 0 && !s->told && s->e->rank == 0 && waited * 100 >= between) {
		s->told = true;
		note("the save of iteration %lld took %.2f s, and the next one was due after "
		     "%.2f s: training waited %.2f s for it; with --save-interval %.0f it would "
		     "not wait",
		    (long long)s->at.iteration, took, between, waited,
		    ceil((double)(iteration - s->at.iteration) * took / between));
	}
	job_join(s);
	return 0;
}

/* The texts are made now: scaler and schedule change while the save runs. */
int
saver_start(struct saver *s, const struct progress *p, const char *data, struct err *err)
{
	if (end_previous(s, p->iteration, err) < 0)
		return -1;
	agree_on_background(s);
	s->at = *p;
	s->start = clock_seconds();
	s->err.msg[0] = '\0';
	if (s->e->rank == 0) {
		train_dump(s->c, false, &s->options);
		save_state_text(s->c, p, data, &s->state);
	}
	if (begin_files(s, err) < 0)
		return -1;
	return s->background ? 0 : saver_wait(s, err);
}

double
saver_seconds(const struct saver *s)
{
	return s ? s->took : 0;
}

bool
saver_background(const struct saver *s)
{
	return s->background;
}

/* The answer of this rank alone. */
bool
saver_ready(const struct saver *s)
{
	return s->phase != IDLE && atomic_load(&s->done);
}

/* From files, whose lines of the manifest go to rank 0, to the commit, which rank 0 does, or from
 * there to the end, which rank 0 notes. */
int
saver_next(struct saver *s, struct err *err)
{
	struct comm *w = s->e->groups.world;
	int rc = job_join(s);
	size_t total;

	if (failed(s, rc, err))
		return -1;
	if (s->phase == FILES) {
		s->manifest =
		    w->ops->gather_bytes(COMM_HERE(w), s->lines.buf, s->lines.len, 0, &total);
		s->phase = COMMIT;
		atomic_store(&s->done, true);
		if (s->manifest) {
			s->manifest = mem_realloc(s->manifest, total + 1, 1);
			s->manifest[total] = '\0';
			s->retention.iteration = s->at.iteration;
			s->retention.num_read = hooks_read(s->hooks, s->retention.read);
			job_start(s, commit_job);
		}
		return 0;
	}
	s->took = clock_seconds() - s->start;
	if (s->e->rank == 0)
		note("saved iteration %lld to %s (%.2f s)", (long long)s->at.iteration,
		    s->c->o.save, s->took);
	if (s->aside.len)
		warn("--save %s: iter_%07lld was not of this run: it is moved aside: %s",
		    s->c->o.save, (long long)s->at.iteration, s->aside.buf);
	if (s->left.msg[0])
		note("--save-retain-interval: a checkpoint that was to be removed is left: %s",
		    s->left.msg);
	hooks_saved(s->hooks, s->at.iteration);
	reset(s);
	return 0;
}

/* Blocks for the slowest rank; ranks enter and leave phases together. */
int
saver_wait(struct saver *s, struct err *err)
{
	while (s->phase != IDLE)
		if (saver_next(s, err) < 0)
			return -1;
	return 0;
}

/*
 * copy.c - a source becomes a checkpoint
 *
 * Each rank of a layout gets a file as mtrain would write it: the same shards, the same parts of
 * the buckets, the same order. It is filled from whatever the source has of the rank's boxes, so
 * source and target are independent. Pieces are cut into slabs: while one is written, a thread
 * reads the next.
 */
#include "ckpt/copy.h"
#include "ckpt/finite.h"
#include "ckpt/provenance.h"
#include "ckpt/slab.h"
#include "lib/base/cli.h"
#include "lib/base/io.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/base/relay.h"
#include "lib/base/target.h"
#include "lib/ckpt/ckpt.h"
#include "lib/model/bucket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const copy_dtypes[] = { "keep", "bf16", "fp16", "fp32", NULL };
const enum dtype copy_types[] = { DTYPE_NONE, DTYPE_BF16, DTYPE_F16, DTYPE_F32 };

/* All that a checkpoint of an iteration holds, in the format of mtrain and in those of Megatron-LM.
 */
static const char *const names[] = { "manifest.tsv", "options.conf", "state.conf",
	"pieces-*.safetensors", "mp_rank_*/model_optim_rng.pt", "mp_rank_*/distrib_optim.pt",
	".metadata", "metadata.json", "common.pt", "__*.distcp", NULL };

/* The iteration of the target: nothing has its name, or a checkpoint that may be replaced has, and
 * the source has not. */
static int
check_iteration(const struct copy_target *t, struct err *e)
{
	char dir[IO_PATH];
	struct stat st;

	ckpt_iter_dir(t->save, t->iteration, dir);
	if (lstat(dir, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, "look at", dir);
	if (target_is(dir, t->source))
		return err_set(
		    e, "'%s' is the source: it is not replaced; give another directory", dir);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, "'%s' is not a directory: it is not replaced", dir);
	return target_look_inside(dir, names, e) < 0 ? -1 : 0;
}

/* Other files in it do not matter: checkpoints have names of their own. */
static int
is_free(const struct copy_target *t, struct err *e)
{
	int64_t iteration;
	int there = io_there(t->save, e);

	if (there <= 0)
		return there;
	if (!io_is_dir(t->save))
		return err_set(e, "'%s' exists and is not a directory", t->save);
	if (check_iteration(t, e) < 0)
		return -1;
	if (!t->force && (ckpt_has_iterations(t->save) || ckpt_tracker(t->save, &iteration, NULL)))
		return err_set(
		    e, "'%s' holds a checkpoint already; --force writes into it", t->save);
	return 0;
}

/* The directory is looked at again under its lock, whose former holder may have written one. */
struct lock *
copy_claim(const struct copy_target *t, struct err *e)
{
	const struct lock_terms how = { .say = cli_note };
	struct lock *lock;
	struct err why;

	if (is_free(t, e) < 0 || ckpt_make_save(t->save, e) < 0)
		return NULL;
	lock = ckpt_claim(t->save, &how, &why);
	if (!lock) {
		err_set(e, "%s; give another directory", why.msg);
		return NULL;
	}
	if (is_free(t, e) == 0)
		return lock;
	lock_release(lock);
	return NULL;
}

int
copy_check(const struct copy_target *t, struct lock *lock, struct err *e)
{
	return lock_check(lock, e) < 0 ? -1 : is_free(t, e);
}

/* State of a copy. */
struct copy {
	struct lock *lock;
	struct source *src;
	const struct copy_options *o;
	char tmp[IO_PATH];
	struct str manifest, state;
	/* of the file that is being written */
	struct ckpt_writer *w;
	struct slabs slabs; /* of its pieces */
	int64_t *nonfinite; /* of each parameter; NULL: not asked */
};

/* The type in which a parameter or a state is written. */
static enum dtype
dtype_of(const struct copy *c, const struct source_part *p)
{
	bool keep = !source_is_weight(c->src, p) || c->o->dtype == DTYPE_NONE;

	return keep ? source_dtype(c->src, p->param, p->state) : c->o->dtype;
}

/* Declares a piece, as the header of the file needs them all, and lists its slabs. */
static void
add_piece(struct copy *c, const struct source_part *piece)
{
	const struct param *p = piece->param;
	char name[128];

	source_name(p, piece->state, name);
	ckpt_declare(c->w, name, dtype_of(c, piece), p->ndim, p->shape, &piece->slice);
	slabs_add(&c->slabs, piece);
}

/* The pieces of state k of all parameters that a rank owns; 0: of the weights. With data ranks each
 * owns an equal part of each bucket. */
static void
add_pieces(struct copy *c, const struct shards *shards, int k)
{
	const char *state = source_state(c->src, k);

	for (int i = 0; i < shards->count; i++) {
		const struct shard *s = &shards->item[i];
		struct part own = shard_share(shards, s);
		struct slice slice[SLICE_FLAT_MAX];
		const struct param *p = &c->src->param[s->param];
		int n = s->owner && source_keeps(c->src, p, k) ? shard_slices(s, &own, slice) : 0;

		for (int b = 0; b < n; b++)
			add_piece(c,
			    &(struct source_part){ .param = p, .state = state, .slice = slice[b] });
	}
}

/* Slabs that are asked of a disk before they are read: with one, it waits in between. */
enum { AHEAD = 3 };

/* Reads a slab, while the disk begins with the next ones; runs in the thread that alone reads the
 * source. */
static int
fill(void *ctx, int64_t i, void *buffer, struct err *e)
{
	struct copy *c = ctx;
	const struct source_part *p = &c->slabs.item[i];

	for (int64_t k = i ? AHEAD : 1; k <= AHEAD && i + k < c->slabs.count; k++)
		source_expect(c->src, p + k);
	return source_read(c->src, p, dtype_of(c, p), buffer, e);
}

/* Writes a slab, and counts what is not finite after the conversion, as a narrower type may
 * overflow. */
static int
empty(void *ctx, int64_t i, const void *buffer, struct err *e)
{
	struct copy *c = ctx;
	const struct source_part *p = &c->slabs.item[i];
	int64_t n = slice_elements(&p->slice);
	enum dtype t = dtype_of(c, p);

	if (c->nonfinite && source_is_weight(c->src, p))
		c->nonfinite[p->param - c->src->param] += dtype_count_nonfinite(buffer, t, n);
	return ckpt_write_part(c->w, buffer, (uint64_t)n * dtype_size(t), e);
}

/* Writes the file of one rank. */
static int
write_rank(struct copy *c, int rank, struct err *e)
{
	const struct source *src = c->src;
	struct relay relay = {
		.bytes = SLAB_ELEMENTS * sizeof(double), .fill = fill, .empty = empty, .ctx = c
	};
	struct shards shards;
	int coord[AX_COUNT], rc;

	c->w = ckpt_writer_direct(c->tmp, rank, e);
	if (!c->w)
		return -1;
	layout_coord(c->o->layout, rank, coord);
	shards_init(&shards,
	    &(struct shards_of){ src->param, src->count, &src->config, c->o->layout, 0 }, coord);
	/* Without the optimizer's state, the weights and their average. */
	for (int k = 0; k <= source_num_states(src); k++)
		if (!c->o->no_optim || k == 0 || k > optim_num_states(src->rule))
			add_pieces(c, &shards, k);
	for (int i = 0; rank == 0 && i < src->num_of_run; i++) {
		const struct param *p = &src->of_run[i];

		add_piece(c,
		    &(struct source_part){ .param = p, .slice = slice_whole(p->ndim, p->shape) });
	}
	shards_release(&shards);
	relay.count = c->slabs.count;
	rc = relay_run(&relay, e);
	slabs_release(&c->slabs);
	if (rc == 0)
		return ckpt_writer_finish(c->w, &c->manifest, e);
	ckpt_writer_abort(c->w);
	return rc;
}

/* Notes the parameters whose numbers are not finite, and refuses them unless they are allowed. */
static int
check_finite(const struct copy *c, struct str *notes, struct err *e)
{
	const struct source *src = c->src;
	int wrong = 0, first = 0;

	for (int i = src->count - 1; c->nonfinite && i >= 0; i--)
		if (c->nonfinite[i]) {
			first = i;
			wrong++;
		}
	if (wrong == 0)
		return 0;
	for (int i = 0; i < src->count; i++)
		finite_report(notes, src, &src->param[i], c->nonfinite[i]);
	if (c->o->allow_nonfinite)
		return 0;
	return err_set(e,
	    "%s: %d of %d tensors hold numbers that are not finite, '%s' first; --allow-nonfinite "
	    "imports them",
	    src->path, wrong, src->count, src->param[first].name);
}

/* A file that was written to holds other numbers now, also under sums that cover some of them. */
static int
check_files(struct err *e)
{
	struct str changes = { 0 };
	int rc = 0;

	map_changes(&changes);
	if (changes.len)
		rc = err_set(e, "%.*s", (int)strcspn(changes.buf, "\n"), changes.buf);
	str_release(&changes);
	return rc;
}

/* Earlier parts of a source that has changed may be of another state than later ones. */
int
copy_unchanged(const struct provenance_sources *of, struct err *e)
{
	for (int i = 0; i < of->count; i++) {
		const struct source *was = of->from[i];
		struct source *now = source_open(was->path, e);
		bool same =
		    now && now->kind == was->kind && now->kind->hash(now) == was->kind->hash(was);

		source_close(now);
		if (!same)
			return err_at(e, was->path, 0, "has changed while it was read");
	}
	return check_files(e);
}

/* Writes all files into the temporary directory, and commits it or removes it. */
int
copy_source(struct source *src, const struct copy_options *o, struct str *notes, struct err *e)
{
	struct copy c = { .src = src, .o = o };
	struct ckpt_commit commit = { .save = o->save,
		.iteration = src->state.iteration,
		.fresh = !o->force,
		.options = o->options };
	const struct provenance_sources itself = { &src, 1, NULL, NULL },
					*origin = o->origin ? o->origin : &itself;
	struct copy_target target = { o->save, origin->from[origin->count - 1]->path,
		src->state.iteration, o->force };
	bool begun;
	int rc;

	str_add(notes, src->notes.buf, src->notes.len);
	if (source_require(src, e) < 0 || !(c.lock = copy_claim(&target, e)))
		return -1;
	if (o->check_finite)
		c.nonfinite = mem_zalloc((size_t)src->count, sizeof *c.nonfinite);
	str_adds(&c.state, o->state);
	if (o->given)
		provenance_add(&c.state, o->verb, o->given, origin);
	rc = ckpt_begin(o->save, commit.iteration, c.tmp, e);
	begun = rc == 0;
	if (rc == 0 && o->clone)
		rc = source_clone(o->clone, c.tmp, &c.manifest, e);
	for (int64_t rank = 0; !o->clone && rank < layout_world(o->layout) && rc == 0; rank++)
		rc = lock_check(c.lock, e) < 0 ? -1 : write_rank(&c, (int)rank, e);
	if (rc == 0)
		rc = check_finite(&c, notes, e);
	if (rc == 0)
		rc = o->origin ? copy_unchanged(origin, e) : check_files(e);
	if (rc == 0)
		rc = copy_check(&target, c.lock, e);
	commit.state = c.state.buf;
	commit.manifest = c.manifest.buf;
	commit.lock = c.lock;
	commit.tmp = c.tmp;
	if (rc == 0)
		rc = ckpt_commit(&commit, e);
	else if (begun)
		io_remove_tree(c.tmp, NULL);
	if (rc < 0) /* another run has removed the directory then, which is no reason */
		lock_check(c.lock, e);
	lock_release(c.lock);
	free(c.nonfinite);
	str_release(&c.state);
	str_release(&c.manifest);
	return rc;
}

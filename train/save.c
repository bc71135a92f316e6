/*
 * save.c - writing a checkpoint
 *
 * Every rank writes one file with the boxes it is responsible for, so that each element of the
 * model is written exactly once and all data ranks share the work. Names and boxes are those of
 * the global tensors: nothing in the files depends on the layout, which is why a run may resume
 * under another one. Declaring comes before writing because the file's header needs all sizes. A
 * save is a directory beside the others until rank 0 renames it and moves the tracker: until
 * then the previous checkpoint is the latest.
 */
#include "train/save.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "train/grads.h"

#include <stdlib.h>
#include <string.h>

/* What is written of each parameter: the buffer it comes from and the ending of its name. */
static const struct {
	enum buffer buffer;
	const char *ending;
} stored[] = { { BUF_MASTER, "" }, { BUF_EXP_AVG, ".exp_avg" }, { BUF_EXP_AVG_SQ, ".exp_avg_sq" } };

enum { STORED = sizeof stored / sizeof *stored };

/* The flat range that this rank writes: its optimizer's, or an equal share when every data rank
 * has all. Every shard buffer is padded to a multiple of the data ranks, so the division is
 * exact. */
static void
writing_range(const struct engine *e, int64_t *first, int64_t *count)
{
	*count = e->mem.shards.elements / e->plan.layout.data_parallel_size;
	*first = *count * e->coord[AX_DP];
}

/* Elements [first, first + count) of what is stored as number k; data NULL when the run has
 * none. Weights stand in for a master copy that the run does not need. */
static struct tensor
source(const struct engine *e, int k, int64_t first, int64_t count)
{
	struct tensor t = engine_buffer(e, stored[k].buffer);

	if (k == 0 && !t.data) {
		t = engine_buffer(e, BUF_WEIGHTS);
		return tensor_rows(&t, first, count);
	}
	return t.data ? tensor_rows(&t, first - e->own_first, count) : t;
}

/* One rank's file under way. write_shards goes through the same boxes twice with it. */
struct writing {
	struct engine *e;
	struct ckpt_writer *w;
	int num_stored;
	bool declare;                   /* first pass: declare; second: write */
	char *host;                     /* staging of host_bytes */
	size_t host_bytes;
};

/* One box of a shard: elements [at, at + n) of the flat buffer. Declares in the first pass,
 * writes in the second; both go through the boxes in the same order. A moment that the rule does
 * not keep is passed over in both. */
static int
write_box(struct writing *x, const struct param *p, int k, const struct slice *box, int64_t at,
    struct err *err)
{
	int64_t n = slice_elements(box);
	struct tensor t = source(x->e, k, at, n);
	char name[128];

	if (!t.data)
		return 0;
	snprintf(name, sizeof name, "%s%s", p->name, stored[k].ending);
	if (x->declare) {
		ckpt_declare(x->w, name, t.dtype, p->ndim, p->shape, box);
		return 0;
	}
	if (tensor_bytes(&t) > x->host_bytes) {
		x->host_bytes = tensor_bytes(&t);
		x->host = mem_realloc(x->host, x->host_bytes, 1);
	}
	x->e->backend->copy_out(x->e->stream, x->host, t.data, tensor_bytes(&t));
	engine_sync(x->e);
	return ckpt_write(x->w, x->host, err);
}

/* Only owners write: a parameter that is whole on several tensor ranks is written by one. Boxes
 * are what the flat range leaves of a shard, at most a few rows' ends and the block between. */
static int
write_shards(struct writing *x, struct err *err)
{
	int64_t first, count;

	writing_range(x->e, &first, &count);
	for (int k = 0; k < x->num_stored; k++)
		for (int i = 0; i < x->e->mem.shards.count; i++) {
			const struct shard *s = &x->e->mem.shards.item[i];
			struct slice box[SLICE_FLAT_MAX];
			int n = s->owner ? shard_pieces(s, first, count, box) : 0;
			int64_t at = first > s->offset ? first : s->offset;

			for (int b = 0; b < n; b++) {
				if (write_box(x, &x->e->table[s->param], k, &box[b], at, err) < 0)
					return -1;
				at += slice_elements(&box[b]);
			}
		}
	return 0;
}

/* This rank's file; its manifest lines go to lines. Declaring cannot fail. On failure nothing is
 * left of the file; the directory is the caller's to remove. */
static int
write_file(struct engine *e, const struct train_config *c, const char *dir, struct str *lines,
    struct err *err)
{
	struct writing x = { .e = e, .num_stored = c->o.save_optim ? STORED : 1, .declare = true };
	int rc;

	x.w = ckpt_writer_new(dir, e->rank, err);
	if (!x.w)
		return -1;
	write_shards(&x, err);
	x.declare = false;
	rc = write_shards(&x, err);
	free(x.host);
	if (rc < 0) {
		ckpt_writer_abort(x.w);
		return -1;
	}
	return ckpt_writer_finish(x.w, lines, err);
}

/* Keys of state.conf (mckpt(5)); readers ignore what they do not know. Doubles are exact. */
static void
state_text(const struct train_config *c, const struct progress *p, const char *fingerprint,
    struct str *out)
{
	str_addf(out,
	    "iteration %lld\nconsumed_train_samples %lld\noptimizer_steps %lld\nskipped_iterations "
	    "%lld\n",
	    (long long)p->iteration, (long long)p->consumed_samples, (long long)p->optimizer_steps,
	    (long long)p->skipped);
	str_addf(out,
	    "loss_scale %.17g\nloss_scale_growth %lld\nloss_scale_hysteresis %lld\nseed "
	    "%lld\ndtype %s\n",
	    c->scaler.scale, (long long)c->scaler.growth, (long long)c->scaler.hysteresis_left,
	    (long long)c->o.seed, dtype_name(c->plan.shape.dtype));
	str_addf(out, "data %s\nschedule ", fingerprint);
	train_schedule_line(&c->schedule, out);
	str_addc(out, '\n');
	if (c->tokenizer)
		str_addf(
		    out, "tokenizer %016llx\n", (unsigned long long)tokenizer_hash(c->tokenizer));
}

/* Collective. Rank 0 puts options, state and manifest beside the files, and makes the directory
 * the latest checkpoint; the others wait for its verdict, since none may go on if it failed. */
static int
commit(struct engine *e, const struct train_config *c, const struct progress *p,
    const char *fingerprint, char *lines, struct err *err)
{
	struct str options = { 0 }, state = { 0 };
	struct ckpt_commit k = { .save = c->o.save, .iteration = p->iteration, .manifest = lines };
	int rc = 0;

	if (e->rank == 0) {
		train_dump(c, &options);
		state_text(c, p, fingerprint, &state);
		k.options = options.buf;
		k.state = state.buf;
		rc = ckpt_commit(&k, err);
	}
	str_release(&options);
	str_release(&state);
	return comm_agree(e->groups.world, rc, err) ? -1 : 0;
}

/* Collective over the world. -1 on all ranks when it failed on one, with the reason on rank 0;
 * the last checkpoint is as it was. Rank 0 makes the directory before the others look for it. */
int
save_checkpoint(struct engine *e, const struct train_config *c, const struct progress *p,
    const char *fingerprint, struct err *err)
{
	struct comm *w = e->groups.world;
	struct str lines = { 0 };
	struct err ignored;
	char dir[1024];
	size_t total;
	char *all;
	int rc = 0;

	err->msg[0] = '\0';
	if (w->rank == 0)
		rc = io_mkdir_p(c->o.save, err) < 0
		    ? -1
		    : ckpt_begin(c->o.save, p->iteration, true, dir, err);
	if (comm_agree(w, rc, err))
		return -1;
	if (w->rank != 0)
		rc = ckpt_begin(c->o.save, p->iteration, false, dir, err);
	if (rc == 0)
		rc = write_file(e, c, dir, &lines, err);
	if (comm_agree(w, rc, err)) {
		str_release(&lines);
		if (w->rank == 0)
			io_remove_tree(dir, &ignored);
		return -1;
	}
	all = w->ops->gather_bytes(w, lines.buf, lines.len, 0, &total);
	str_release(&lines);
	if (all) {
		all = mem_realloc(all, total + 1, 1);
		all[total] = '\0';
	}
	rc = commit(e, c, p, fingerprint, all, err);
	free(all);
	return rc;
}

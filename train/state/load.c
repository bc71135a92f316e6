/*
 * load.c - reading a checkpoint, or the weights of a model of another format, under this run's
 * layout
 *
 * Each rank opens the files itself and reads the boxes that its layout gives it; no rank sends
 * weights to another. After each shard the ranks agree on whether to continue: loading may take
 * minutes, and a request to stop, or a piece that cannot be read, ends it on all of them at once.
 * Boxes are in global coordinates, so loading under another layout is the same as loading under
 * this one. No format is known here: lib/ckpt/source.h reads them all, and has checked shapes and
 * types when it opened one.
 */
#include "lib/base/cli.h"
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/config/start.h"
#include "train/engine/fp8.h"
#include "train/engine/grads.h"
#include "train/engine/offload.h"
#include "train/engine/pinned.h"
#include "train/optim/ema.h"
#include "train/optim/optim.h"
#include "train/state/load.h"
#include "train/state/optim_record.h"
#include "train/state/save.h"
#include "train/watch/stop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLABS = 2, SLAB_BYTES = BUCKET_CHUNK * sizeof(double) };

/* One load. Elements pass through slabs of pinned memory: one is filled while the others are
 * copied to the device. */
struct load {
	struct engine *e;
	struct source *w;
	char *memory; /* the slabs */
	struct event *copied[SLABS];
	int64_t turn;
};

/* What is read for each shard that has it: a buffer, and the optimizer state that it holds; NULL:
 * the weights. */
struct reading {
	struct load *l;
	int to;
	const char *state;
};

/* Needs a load_close whatever it returns. */
static int
load_open(struct load *l, struct err *err)
{
	for (int i = 0; i < SLABS; i++)
		l->copied[i] = l->e->backend->event(l->e->device);
	l->memory = pinned_alloc(l->e, (size_t)SLABS * SLAB_BYTES, SLAB_BYTES);
	return l->memory ? 0 : err_set(err, "no memory to read '%s' into", l->w->path);
}

static void
load_close(struct load *l)
{
	pinned_free(l->e, l->memory, (size_t)SLABS * SLAB_BYTES, SLAB_BYTES);
}

/* The next slab, when nothing is copied from it any more. */
static char *
next_slab(struct load *l)
{
	int i = (int)(l->turn++ % SLABS);

	l->e->backend->await(l->e->device, l->copied[i]);
	return l->memory + (size_t)i * SLAB_BYTES;
}

/* Copies the newest slab, of elements of the stored type, to a buffer. */
static void
put(struct load *l, bool on_host, const struct tensor *dst, const void *slab)
{
	if (on_host) {
		memcpy(dst->data, slab, tensor_bytes(dst));
		return;
	}
	l->e->backend->copy_in(l->e->stream, dst->data, slab, tensor_bytes(dst));
	l->e->backend->record(l->e->stream, l->copied[(l->turn - 1) % SLABS]);
}

/* Replaces floats by their low bits, in place. */
static void
keep_low_bits(void *host, int64_t count)
{
	const float *from = host;
	uint16_t *to = host;

	for (int64_t i = 0; i < count; i++) {
		uint16_t low_bits = dtype_low_bits_from_f32(from[i]);

		memcpy(to + i, &low_bits, sizeof low_bits);
	}
}

/* A part that is a box of the shard's parameter, and fits a slab. */
static int
read_slice(const struct reading *r, const struct shard *s, const struct part *p,
    const struct slice *slice, struct err *err)
{
	struct engine *e = r->l->e;
	struct tensor dst = engine_part(e, r->to, p);
	bool weights = r->to == BUF_WEIGHTS,
	     on_host = r->to == BUF_AVERAGE || (!weights && engine_updated_on_host(e, p));
	/* low bits are made from the whole F32 */
	enum dtype type = r->to == BUF_LOW_BITS ? DTYPE_F32 : dst.dtype;
	char *slab = next_slab(r->l);

	if (source_read(r->l->w,
		&(struct source_part){
		    .param = &e->table[s->param], .state = r->state, .slice = *slice },
		type, slab, err) < 0)
		return -1;
	if (r->to == BUF_LOW_BITS)
		keep_low_bits(slab, p->count);
	put(r->l, on_host, &dst, slab);
	return 0;
}

/* Weights that every data rank holds whole are read whole, and others' shards, so that nothing need
 * be gathered but for passes; of everything else, this rank's part. */
static int
read_shard(const struct reading *r, int i, struct err *err)
{
	struct engine *e = r->l->e;
	const struct shard *s = &e->mem.shards.item[i];
	bool weights = r->to == BUF_WEIGHTS, whole = weights && !engine_shards(e, SHARDING_PARAMS),
	     rule = r->to >= BUF_STATE && r->to <= BUF_STATE_LAST,
	     kept = !rule || engine_keeps(e, s->bucket, (int)r->to - BUF_STATE);
	struct part shard = engine_shard(e, s->bucket);
	struct part part = whole ? shard_part(&e->mem.shards, s, 0, 1)
	    : weights            ? part_cut(&shard, s->offset, s->count)
				 : engine_optim_part_of(e, s);
	int rc = 0;

	for (; kept && part.count && rc == 0;
	     part = part_cut(&part, part.first + BUCKET_CHUNK, part.count)) {
		struct part piece = part_cut(&part, part.first, BUCKET_CHUNK);
		struct slice slice[SLICE_FLAT_MAX];
		int n = shard_slices(s, &piece, slice);

		for (int k = 0; k < n && rc == 0; k++) {
			struct part p = part_cut(&piece, piece.first, slice_elements(&slice[k]));

			rc = read_slice(r, s, &p, &slice[k], err);
			piece = part_cut(&piece, p.first + p.count, piece.count);
		}
	}
	return rc;
}

/* Returns rc. For a damaged checkpoint, adds the one to go back to to the reason. */
static int
name_damage(const struct source *w, int rc, struct err *err)
{
	if (rc < 0 && w->damaged)
		train_name_older(w->path, err);
	return rc;
}

/* Collective; -1 on all ranks. rc: whether this rank has failed before. Padding stays zero. A
 * buffer that this run does not have is skipped. Ranks with fewer shards than others keep
 * agreeing. */
static int
read_shards(const struct reading *r, int rc, struct err *err)
{
	struct engine *e = r->l->e;
	struct comm *world = e->groups.world;
	int64_t count = memory_has(&e->mem, r->to) ? e->mem.shards.count : 0, most = count;
	struct tensor t = tensor_1d(&most, DTYPE_I64, 1);

	if (comm_agree(COMM_HERE(world), rc, err))
		return -1;
	engine_clear(e, r->to);
	world->ops->all_reduce(COMM_HERE(world), NULL, &(struct comm_reduce){ t, REDUCE_MAX });
	for (int i = 0; i < most && rc == 0; i++) {
		rc = i < count ? read_shard(r, i, err) : 0;
		if (comm_agree(COMM_HERE(world), name_damage(r->l->w, rc, err), err) ||
		    stop_agree(world, err) < 0)
			rc = -1;
	}
	engine_sync(e);
	return rc;
}

/* Restores the position of the run. One that does not say how many samples were skipped is from a
 * version whose batch size did not change. A checkpoint that was imported, or has another type than
 * fp16, has no loss scale: the run then begins with its own. One that does not say what its loss
 * scale multiplied is from a version where that was the sum over tokens. The gradients of such a
 * run stay scaled as they were; a scale that the command line fixes does not, and a note says
 * so. */
static void
resume_progress(
    const struct engine *e, const struct source *w, struct train_config *c, struct progress *p)
{
	const struct run_state *s = &w->state;
	struct scaler *scaler = &c->scaler;
	double of_mean;

	p->iteration = s->iteration;
	p->consumed_samples = s->consumed_train_samples;
	p->optimizer_steps = s->optimizer_steps;
	p->skipped = s->skipped_iterations;
	p->passed_samples = s->passed_samples != STATE_NONE ? s->passed_samples : 0;
	p->skipped_samples = s->skipped_samples != STATE_NONE
	    ? s->skipped_samples
	    : s->skipped_iterations * c->plan.global_batch_size;
	if (!c->o.run.fp16 || isnan(s->loss_scale) || !s->dtype ||
	    strcmp(s->dtype, dtype_name(DTYPE_F16)))
		return;
	scaler->growth = s->loss_scale_growth;
	scaler->hysteresis_left = s->loss_scale_hysteresis;
	of_mean = s->loss_scale_of ? s->loss_scale : s->loss_scale * scaler->tokens;
	if (scaler->dynamic)
		scaler->scale = of_mean;
	if (of_mean != s->loss_scale && e->rank == 0)
		note("%s: its loss scale %.15g multiplied a sum over tokens, which is %.15g of "
		     "their mean; %s %.15g",
		    w->path, s->loss_scale, of_mean,
		    scaler->dynamic ? "the run continues with" : "--loss-scale is", scaler->scale);
}

/* The schedule must stay as it was unless the user says which side counts; a run that trains
 * nothing has none. This guards against a silent change of the schedule in a requeued script. */
static int
resume_schedule(const struct source *w, struct train_config *c, struct err *err)
{
	const char *line = w->state.schedule;
	struct lr_schedule theirs;
	struct err why;

	if (!line || c->o.override_schedule || c->plan.shape.forward_only)
		return 0;
	if (lr_parse(line, &theirs, &why) < 0)
		return err_set(err, "%s: state.conf: schedule: %s", w->path, why.msg);
	if (c->o.use_checkpoint_schedule) {
		c->schedule = theirs;
		return 0;
	}
	return lr_same(&c->schedule, &theirs)
	    ? 0
	    : err_set(err,
		  "%s: the learning-rate schedule differs from the checkpoint's; "
		  "--override-opt_param-scheduler takes the command line's, "
		  "--use-checkpoint-opt_param-scheduler the checkpoint's",
		  w->path);
}

/* The moments must come from this run's rule with the same constants, unless the user says
 * otherwise; Megatron-LM accepts every change. */
static int
resume_optimizer(
    const struct engine *e, const struct source *w, const struct train_config *c, struct err *err)
{
	const char *mine = e->mem.rule->name, *theirs = w->state.optimizer;
	struct str changes = { 0 };
	struct err why;
	int rc = 0;

	if (!w->rule)
		return err_set(err,
		    "%s: holds no optimizer state; --finetune or --no-load-optim starts without it",
		    w->path);
	if (optim_rule_known(theirs, &why) < 0)
		return err_set(err,
		    "%s: %s; --finetune or --no-load-optim starts without its state", w->path,
		    why.msg);
	if (!theirs)
		theirs = w->rule->name;
	if (strcmp(mine, theirs))
		return err_set(err,
		    "%s: --optimizer is %s and was %s, whose state this rule cannot use; "
		    "--finetune or --no-load-optim starts without it",
		    w->path, mine, theirs);
	optim_differences(&c->optim, &w->state, &changes);
	if (changes.len && !c->o.override_schedule)
		rc = err_set(err,
		    "%s: the optimizer changed since this checkpoint was saved: %s; "
		    "--override-opt_param-scheduler takes the command line's, --no-load-optim "
		    "starts without its moments",
		    w->path, changes.buf);
	else if (changes.len && e->rank == 0)
		note("%s: the optimizer continues with moments from other options: %s", w->path,
		    changes.buf);
	str_release(&changes);
	return rc;
}

/* Master copies, or what completes the weights to them: this run has one of the two, or neither.
 * Collective. */
static int
read_masters(struct load *l, struct err *err)
{
	int rc = read_shards(&(struct reading){ l, BUF_MASTER, NULL }, 0, err);

	return rc == 0 ? read_shards(&(struct reading){ l, BUF_LOW_BITS, NULL }, 0, err) : -1;
}

/* The average of the resumed run continues; without one it begins with the masters as they are now.
 * Collective. */
static int
read_average(struct load *l, enum start start, struct err *err)
{
	struct engine *e = l->e;
	const struct source *w = l->w;
	bool resumes = start == START_RESUME && w->averaged;

	if (e->rank == 0 && w->averaged && !e->ema && !e->plan.shape.forward_only)
		note("%s: its average of the weights ends here, without --ema-decay", w->path);
	if (e->rank == 0 && e->ema && !resumes && start == START_RESUME)
		note("%s: holds no average of the weights: it begins here", w->path);
	if (e->ema && resumes)
		return read_shards(&(struct reading){ l, BUF_AVERAGE, STATE_AVERAGE }, 0, err);
	ema_start(e);
	return 0;
}

/* Reads a tensor of the slots of 8-bit operands: of the history the newest columns, where this run
 * has fewer, and 0 for those that it has more. */
static int
read_slots(struct load *l, const struct param *p, const struct tensor *to, struct err *err)
{
	int64_t columns = int64_min(p->shape[1], to->shape[1]);
	struct source_part part = { .param = p, .slice = slice_whole(p->ndim, p->shape) };
	float *rows = mem_zalloc((size_t)tensor_elements(to), sizeof *rows);
	int rc = 0;

	part.slice.count[0] = 1;
	part.slice.count[1] = columns;
	for (; part.slice.start[0] < to->shape[0] && rc == 0; part.slice.start[0]++)
		rc = source_read(
		    l->w, &part, DTYPE_F32, rows + part.slice.start[0] * to->shape[1], err);
	if (rc == 0)
		l->e->backend->copy_in(l->e->stream, to->data, rows, tensor_bytes(to));
	engine_sync(l->e);
	free(rows);
	return rc;
}

/* Scales of 8-bit operands, as far as the run has any to go by. Collective. */
static int
read_scales(struct load *l, struct err *err)
{
	struct engine *e = l->e;
	const struct source *w = l->w;
	bool speaks = e->rank == 0, wants = fp8_slots(e, FP8_SCALE).data;
	int rc = 0, read = 0;

	for (int i = 0; i < FP8_STATES && rc == 0; i++) {
		struct param named = fp8_state_param(&w->config, (enum fp8_state)i, 0);
		const struct param *p = source_of_run(w, named.name);
		struct tensor to = fp8_slots(e, (enum fp8_state)i);

		if (p && to.data)
			rc = read_slots(l, p, &to, err);
		read += p && to.data;
	}
	if (comm_agree(COMM_HERE(e->groups.world), name_damage(w, rc, err), err))
		return -1;
	if (read && w->state.iteration > 0)
		fp8_resumed(e);
	if (!wants && w->num_of_run && speaks)
		note("%s: its scales of 8-bit operands are not read: this run has none", w->path);
	if (wants && !read && speaks)
		note(
		    "%s: holds no scales of 8-bit operands: the first step makes its own", w->path);
	return 0;
}

/* Progress, schedule, then masters and the states of the update rule. data_record.c restores the
 * data's state. Collective. */
static int
resume(struct load *l, struct train_config *c, struct progress *p, struct err *err)
{
	struct engine *e = l->e;
	const struct source *w = l->w;
	const struct run_state *s = &w->state;
	bool forward = e->plan.shape.forward_only;
	int rc = resume_schedule(w, c, err);
	struct err why;

	resume_progress(e, w, c, p);
	if (rc == 0 && spike_read(&p->spikes, s->recent_losses, s->rewound, &why) < 0)
		rc = err_set(err, "%s: state.conf: %s", w->path, why.msg);
	if (rc == 0 && !forward && c->o.load_optim)
		rc = resume_optimizer(e, w, c, err);
	if (comm_agree(COMM_HERE(e->groups.world), rc, err))
		return -1;
	if (read_scales(l, err) < 0)
		return -1;
	if (forward)
		return 0;
	if (!c->o.load_optim) {
		optim_from_weights(e);
		return 0;
	}
	rc = read_masters(l, err);
	for (int i = 0; rc == 0 && i < optim_num_states(e->mem.rule); i++) {
		struct reading r = { l, BUF_STATE + i, e->mem.rule->states[i] };

		rc = read_shards(&r, 0, err);
	}
	return rc;
}

/* The model of what the run starts from must be the run's; tokens that it has not recorded are the
 * run's. Weights come first and in the run's type. Master copies come from the checkpoint when it
 * has them, since it stores them unrounded; from a Hugging Face directory they are the widened
 * weights. Collective; -1 on all ranks, with the reason on rank 0. */
int
load_checkpoint(struct engine *e, struct train_config *c, struct progress *p, struct err *err)
{
	struct source *w = train_open_source(c->weights_from, err);
	struct load l = { .e = e, .w = w };
	int rc = -1;

	if (w)
		source_rotate_as(w, &c->plan.model);
	if (w && (!w->padded_vocab || source_set_vocab(w, c->plan.model.vocab_size, err) == 0) &&
	    source_require(w, err) == 0 && train_same_model(c, w->path, &w->config, err) == 0)
		rc = 0;
	if (rc == 0 && e->rank == 0) {
		train_note_changes(c, w->path, &w->config, &w->notes);
		cli_say(&w->notes, note);
	}
	/* Each rank checks its share of what no rank reads, where reading does not. */
	if (rc == 0 && w->kind->share)
		rc = name_damage(w, w->kind->share(w, e->rank, e->groups.world->size, err), err);
	if (rc == 0)
		rc = load_open(&l, err);
	optim_settle(e);
	rc = read_shards(&(struct reading){ &l, BUF_WEIGHTS, NULL }, rc, err);
	offload_copy_weights(e, false);
	if (rc == 0 && c->start == START_RESUME)
		rc = resume(&l, c, p, err);
	else if (rc == 0 && !e->plan.shape.forward_only)
		rc = read_masters(&l, err);
	/* Only this rank's own part was read. */
	if (rc == 0 && engine_shards(e, SHARDING_PARAMS))
		optim_to_weights(e);
	if (rc == 0)
		rc = read_average(&l, c->start, err);
	if (rc == 0)
		state_print_origin(&w->state, &c->origin);
	load_close(&l);
	source_close(w);
	return rc;
}

/*
 * source_torch_dist.c - a Megatron-LM checkpoint of the torch_dist format as a source
 *
 *   SAVE/iter_0000500/.metadata, *.distcp   distcp_dir.h
 *   SAVE/iter_0000500/metadata.json         names the format; written last
 *   SAVE/iter_0000500/common.pt             args, iteration, optimizer groups; newer versions have
 *                                           it as the object common_state/shard_0_1
 *
 * The tensors are Megatron-LM's (megatron.h), whole, by the names of Transformer Engine. Those of
 * the layers are stacked, with the layer as their first dimension, or one by one, and those of
 * experts with the expert as the next. States of the optimizer are tensors of the same shapes
 * (fully_reshardable, and without the distributed optimizer), or lie in flat buffers of each model
 * rank (dp_reshardable; torch_dist_flat.c).
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/megatron_dir.h"
#include "lib/ckpt/megatron_run.h"
#include "lib/ckpt/torch_dist_impl.h"
#include "lib/model/split.h"

#include <stdlib.h>
#include <string.h>

static const char first_table[] = "embedding.word_embeddings.weight";
static const char needs_model[] = "; mckpt import --model config.json says the model instead";

/* --- finding ---------------------------------------------------------------------------------- */

/* NeMo's directories have a checkpoint as weights/. */
static bool
find_dir(const char *path, char out[IO_PATH])
{
	char weights[CKPT_PATH_BYTES];

	if (!megatron_find_dir(path, ".metadata", out) &&
	    !(ckpt_join(weights, path, "weights") && megatron_find_dir(weights, ".metadata", out)))
		return false;
	return ckpt_has_entry(out, "metadata.json", "");
}

static bool
is_torch_dist(const char *path)
{
	char dir[IO_PATH];

	return find_dir(path, dir);
}

/* --- what is common to all ranks -------------------------------------------------------------- */

/* Objects are stored as lists of one. */
static const struct pickle_value *
only_item(const struct pickle_value *v)
{
	return v && v->type == PICKLE_LIST && v->len == 1 ? pickle_item(v, 0) : v;
}

/* The step of the first parameter group; -1: none that is a number. Where ranks
 * share the experts there are two optimizers, of all else and of these, in a dict by number. */
static int64_t
group_step(const struct pickle_value *optimizer)
{
	const struct pickle_value *first = pickle_at(optimizer, 0), *groups;
	double step;

	optimizer = first ? first : optimizer;
	groups = pickle_get(optimizer, "param_groups");
	if (!groups)
		groups = pickle_get(pickle_get(optimizer, "optimizer"), "param_groups");
	return pickle_double(pickle_get(pickle_item(groups, 0), "step"), &step) ? (int64_t)step
										: -1;
}

/* The step that torch's AdamW keeps as a tensor beside its states; -1: none. */
static int64_t
tensor_step(const struct torchzip *z, const struct pickle_value *optimizer)
{
	const struct pickle_value *inner = pickle_get(optimizer, "optimizer"),
				  *step = pickle_get(pickle_get(inner ? inner : optimizer, "state"),
				      "common_step");
	struct torch_tensor t;
	double x;

	if (!torch_is_tensor(step) || torchzip_tensor(z, step, &t, NULL) < 0 ||
	    torch_tensor_elements(&t) != 1 || !dtype_is_float(t.dtype))
		return -1;
	dtype_convert(&x, DTYPE_F64, t.data, t.dtype, 1);
	return (int64_t)x;
}

/* The step that the flat buffers of the first model rank have beside them; -1: none. */
static int64_t
flat_step(const struct dist_source *d)
{
	const struct distcp_object *o;
	struct torchzip *z;
	char name[96], before[16];
	int64_t step;

	dist_optimizer_prefix(d, 0, before);
	snprintf(name, sizeof name, "%soptimizer.distributed.dp_group_idx_0.optimizer/shard_0_1",
	    before);
	o = distcp_object(&d->dir.d, name);
	z = o ? distcp_load(&d->dir, o, NULL) : NULL;
	step = z ? group_step(only_item(torchzip_root(z))) : -1;
	torchzip_close(z);
	return step;
}

static int64_t
optional(const struct pickle_value *args, const char *name)
{
	int64_t x;

	return pickle_int(pickle_get(args, name), &x) && x > 0 ? x : 0;
}

static bool
is_true(const struct pickle_value *args, const char *name)
{
	const struct pickle_value *v = pickle_get(args, name);

	return v && v->type == PICKLE_BOOL && v->boolean;
}

/* The layout that wrote; Megatron-LM cuts the layers equally unless an option says how. Only flat
 * buffers depend on it, so that one we do not know is that of one rank. */
static void
read_layout(struct dist_source *d, const struct pickle_value *args)
{
	struct layout *l = &d->s.layout;
	int64_t p = d->args.stages, v = d->args.chunks, layers = d->args.config.num_layers;
	struct split_options o = {
		.decoder_first_pipeline_num_layers =
		    optional(args, "decoder_first_pipeline_num_layers"),
		.decoder_last_pipeline_num_layers =
		    optional(args, "decoder_last_pipeline_num_layers"),
		.account_for_embedding_in_pipeline_split =
		    is_true(args, "account_for_embedding_in_pipeline_split"),
		.account_for_loss_in_pipeline_split =
		    is_true(args, "account_for_loss_in_pipeline_split"),
		.pipeline_model_parallel_layout =
		    pickle_string(pickle_get(args, "pipeline_model_parallel_layout")),
	};

	if (o.decoder_first_pipeline_num_layers || o.decoder_last_pipeline_num_layers ||
	    o.account_for_embedding_in_pipeline_split || o.account_for_loss_in_pipeline_split)
		o.num_virtual_stages_per_pipeline_rank = v;
	else if (!o.pipeline_model_parallel_layout && p > 1)
		o.num_layers_per_virtual_pipeline_stage =
		    p <= layers && v <= layers ? (layers + p * v - 1) / (p * v) : 1;
	l->tensor_model_parallel_size = d->args.tensor_ranks;
	l->expert_model_parallel_size = d->args.expert_ranks;
	l->expert_tensor_parallel_size = d->args.slices;
	l->pipeline_model_parallel_size = p;
	if (layout_check(l, &d->args.config, NULL) < 0 ||
	    split_resolve(&o, &d->args.config, 0, l, NULL) < 0) {
		*l = (struct layout){ 1, 1, 1, 1 };
		d->args.tensor_ranks = d->args.expert_ranks = d->args.slices = 1;
	}
}

static bool has_state(const void *ctx, const char *state);

/* The model and the layout, of the args or of a config.json in their place. */
static int
take_model(struct dist_source *d, const char *model, struct megatron_run *r, struct err *e)
{
	const char *implementation = pickle_string(pickle_get(r->args, "transformer_impl"));
	struct err why;

	if (model && r->args)
		return err_at(e, d->s.path, 0, "has the args of its run, which say its model");
	if (model)
		return dist_take_model(d, model, r, e);
	if (megatron_args_read(r->args, &d->args, &why) < 0)
		return err_at(e, d->s.path, 0, "%s%s", why.msg, r->args ? "" : needs_model);
	d->names =
	    implementation && !strcmp(implementation, "local") ? MEGATRON_LOCAL : MEGATRON_ENGINE;
	d->experts = is_true(r->args, "moe_grouped_gemm") ? MEGATRON_GROUPED : MEGATRON_SEQUENTIAL;
	read_layout(d, r->args);
	return 0;
}

/* The model, the layout and the state; z is NULL where there is nothing common. */
static int
take_common(struct dist_source *d, const struct torchzip *z, const char *model, struct err *e)
{
	const struct pickle_value *root = z ? only_item(torchzip_root(z)) : NULL,
				  *optimizer = pickle_get(root, "optimizer");
	struct megatron_run r = { .args = pickle_get(root, "args"),
		.scheduler = pickle_get(root, "opt_param_scheduler") };

	pickle_int(pickle_get(root, "iteration"), &r.iteration);
	if (take_model(d, model, &r, e) < 0)
		return -1;
	d->s.config = d->args.config;
	if (!d->divided)
		d->s.rule = optim_rule_of(optim_rule_with(OPTIM_OF_MEGATRON)->name, has_state, d);
	r.adam = d->s.rule;
	r.optimizer_steps = group_step(optimizer);
	if (r.optimizer_steps < 0 && z)
		r.optimizer_steps = tensor_step(z, optimizer);
	if (r.optimizer_steps < 0)
		r.optimizer_steps = flat_step(d);
	megatron_run_state(&r, &d->s);
	megatron_run_options(r.args, &d->s.run_options);
	return 0;
}

/* From the zip with the common dict: an object, or a file of its own. */
static int
read_common(struct dist_source *d, const char *model, struct err *e)
{
	const struct distcp_object *o = distcp_object(&d->dir.d, "common_state/shard_0_1");
	char path[CKPT_PATH_BYTES];
	struct torchzip *z = NULL;
	struct map file = { 0 };
	struct err why;
	bool there = ckpt_join(path, d->s.path, "common.pt") && io_exists(path);
	int rc;

	if (!o && !there && model)
		return take_common(d, NULL, model, e);
	if (o)
		z = distcp_load(&d->dir, o, e);
	else if (!there)
		err_at(e, d->s.path, 0,
		    "neither a file common.pt nor an object common_state: the args of the run are "
		    "missing%s",
		    needs_model);
	else if (map_open(&file, path, e) == 0)
		z = torchzip_open(file.base, file.size, path, e);
	rc = z ? take_common(d, z, model, e) : -1;
	if (rc == 0 && torchzip_check_root(z, &why) < 0)
		source_problem(&d->s, "%s: %s", o ? o->name : "common.pt", why.msg);
	if (rc == 0 && !torchzip_has_sums(z))
		str_addf(&d->s.notes,
		    "%s: the files have no CRC-32, so that damage of their bytes is not found\n",
		    d->s.path);
	torchzip_close(z);
	map_close(&file);
	return rc;
}

/* --- the tensors ------------------------------------------------------------------------------ */

const char *
dist_state_name(const struct dist_source *d, int kind, int k)
{
	static const char *const masters[] = { "param", "fp32_param", NULL };

	if (kind == DIST_MASTER)
		return masters[k];
	return k == 0 ? d->s.rule->states[kind - DIST_STATES] : NULL;
}

/* The stored tensor of a tensor: whole, or a layer of the stack. */
static struct dist_tensor
find_tensor(const struct dist_source *d, const char *before, const struct megatron_tensor *t)
{
	struct dist_tensor out = { .t = NULL };
	char key[128], name[256];

	megatron_key(t, 0, 0, key);
	snprintf(name, sizeof name, "%s%s%s", before, d->prefix, key);
	out.t = distcp_tensor(&d->dir.d, name);
	if (!out.t && megatron_stack_key(t, key)) {
		snprintf(name, sizeof name, "%s%s%s", before, d->prefix, key);
		out.t = distcp_tensor(&d->dir.d, name);
		out.at[out.ndim++] = t->layer;
	}
	if (t->expert >= 0)
		out.at[out.ndim++] = t->expert;
	return out;
}

static struct dist_tensor
find_state(const struct dist_source *d, int kind, const struct megatron_tensor *t)
{
	struct dist_tensor out = { .t = NULL };
	const char *name;

	for (int k = 0; !out.t && (name = dist_state_name(d, kind, k)); k++) {
		char before[96];

		snprintf(before, sizeof before, "optimizer.state.%s.", name);
		out = find_tensor(d, before, t);
	}
	return out;
}

/* By the first table, for rules: each state is there or not. */
static bool
has_state(const void *ctx, const char *state)
{
	const struct dist_source *d = ctx;
	char name[256];

	snprintf(name, sizeof name, "optimizer.state.%s.%s%s", state, d->prefix, first_table);
	return distcp_tensor(&d->dir.d, name) || dist_has_flat_state(d, state);
}

/* Keys may have something before them; that of the first table tells what. */
static void
find_prefix(struct dist_source *d)
{
	for (int i = 0; i < d->dir.d.num_tensors; i++) {
		const char *name = d->dir.d.tensor[i].name, *at = strstr(name, first_table);

		if (at && strcmp(at, first_table) == 0 && strncmp(name, "optimizer.", 10) &&
		    at - name < (int)sizeof d->prefix)
			snprintf(d->prefix, sizeof d->prefix, "%.*s", (int)(at - name), name);
	}
}

/* Whether a stored tensor has the shape of the model's below the layers and experts, and all of
 * those. */
static bool
has_shape(const struct dist_source *d, const struct dist_tensor *h, const struct megatron_tensor *t)
{
	int64_t want[2] = { d->s.config.num_layers, d->s.config.num_experts };
	const int64_t *above = want + (t->expert >= 0 && h->ndim == 1);

	return h->t->ndim == t->ndim + h->ndim &&
	    !memcmp(h->t->shape, above, (size_t)h->ndim * sizeof *above) &&
	    !memcmp(h->t->shape + h->ndim, t->shape, (size_t)t->ndim * sizeof *t->shape);
}

/* Adds a problem unless a stored tensor can be read as the model's. */
static void
check_tensor(struct dist_source *d, const struct dist_tensor *h, const struct megatron_tensor *t)
{
	static const char *const each[] = { "", " in each layer", " in each layer and expert" };
	struct str text = { 0 };

	if (!dtype_is_float(h->t->dtype)) {
		source_problem(&d->s, "tensor '%s' is not F64, F32, BF16 or F16", h->t->name);
	} else if (!has_shape(d, h, t)) {
		source_print_shape(&text, h->t->ndim, h->t->shape);
		str_addf(&text, ", %s ", d->needs);
		source_print_shape(&text, t->ndim, t->shape);
		source_problem(
		    &d->s, "tensor '%s' has shape %s%s", h->t->name, text.buf, each[h->ndim]);
	}
	str_release(&text);
}

/* One tensor of the model, and its states where they are whole tensors. A stack is checked once. */
static void
take_tensor(struct dist_source *d, int i, bool *used)
{
	const struct megatron_tensor *t = &d->map.tensor[i];
	struct dist_tensor *h = &d->held[(size_t)i * DIST_KINDS];
	char key[128];

	for (int kind = 0; kind < d->num_kinds; kind++) {
		if (kind != DIST_WEIGHT &&
		    (d->flat || t->balance || (kind == DIST_MASTER && !d->has_master)))
			continue;
		h[kind] = kind == DIST_WEIGHT ? find_tensor(d, "", t) : find_state(d, kind, t);
		megatron_key(t, 0, 0, key);
		if (!h[kind].t) {
			source_problem(&d->s, "tensor '%s%s'%s%s is missing", d->prefix, key,
			    kind ? " of optimizer.state." : "",
			    kind ? dist_state_name(d, kind, 0) : "");
			continue;
		}
		if (!used[h[kind].t - d->dir.d.tensor])
			check_tensor(d, &h[kind], t);
		used[h[kind].t - d->dir.d.tensor] = true;
	}
}

static bool
is_of_optimizer(const char *name)
{
	return !strncmp(name, "optimizer.", 10) || !strncmp(name, "chained_", 8);
}

/* Extra states are of no use without their implementation; flat buffers are checked as such. */
static void
check_unused(struct dist_source *d, const bool *used)
{
	for (int i = 0; i < d->dir.d.num_tensors; i++) {
		const char *name = d->dir.d.tensor[i].name;
		bool ignored = strstr(name, "_extra_state") ||
		    (is_of_optimizer(name) &&
			(!d->s.rule || strstr(name, "optimizer.distributed.")));

		if (!used[i] && !ignored)
			source_problem(&d->s, "tensor '%s' does not belong to the model of %s",
			    name, d->said_by);
	}
}

static bool
has_object(const void *distcp, const char *name)
{
	const struct distcp *d = distcp;

	for (int i = 0; i < d->num_objects; i++)
		if (!strncmp(d->object[i].name, name, strlen(name)))
			return true;
	return false;
}

static void
add_notes(struct dist_source *d, int64_t rows)
{
	struct source *s = &d->s;
	int64_t padding = rows - s->config.vocab_size;

	if (!d->args.vocab_known)
		s->padded_vocab = s->config.vocab_size;
	if (padding)
		str_addf(&s->notes,
		    "%s: %lld rows of padding of the vocabulary tables are dropped\n", s->path,
		    (long long)padding);
	megatron_run_left_out(s, has_object, &d->dir.d);
	if (!s->rule)
		for (int i = 0; i < d->dir.d.num_tensors; i++)
			if (is_of_optimizer(d->dir.d.tensor[i].name)) {
				str_addf(&s->notes, "%s: the optimizer%s: its state is not read\n",
				    s->path,
				    d->divided ? " is in buffers of ranks whose layout the args "
						 "would tell"
					       : " is not Adam");
				return;
			}
}

/* Names, shapes and buffers against the model. */
static int
check(struct dist_source *d, struct err *e)
{
	struct megatron_model model = { &d->s.config, d->s.param, d->s.count,
		d->names == MEGATRON_LOCAL ? MEGATRON_LOCAL_DIST : MEGATRON_ENGINE,
		d->args.padded_vocab_size, MEGATRON_STACKED };
	const struct ckpt_tensor *table;
	bool *used = mem_zalloc((size_t)d->dir.d.num_tensors + 1, sizeof *used);
	char name[256];
	int rc;

	/* Which rows of the vocabulary tables are stored may be of another run's padding. */
	snprintf(name, sizeof name, "%s%s", d->prefix, first_table);
	table = distcp_tensor(&d->dir.d, name);
	if (table && table->shape[0] >= d->s.config.vocab_size)
		model.padded_vocab_size = table->shape[0];
	rc = megatron_map_init(&d->map, &model, e);
	if (rc == 0) {
		d->held = mem_zalloc((size_t)d->map.count * DIST_KINDS, sizeof *d->held);
		d->has_master = d->s.rule && (has_state(d, "param") || has_state(d, "fp32_param"));
		d->num_kinds = d->s.rule ? DIST_STATES + optim_num_states(d->s.rule) : 1;
		d->flat = d->s.rule && dist_has_flat(d);
		for (int i = 0; i < d->map.count; i++)
			take_tensor(d, i, used);
		check_unused(d, used);
		if (d->flat && d->s.num_problems == 0)
			dist_open_flat(d);
		add_notes(d, model.padded_vocab_size);
	}
	free(used);
	return rc;
}

static struct source *
open_as(const char *path, const char *model, struct err *e)
{
	char dir[IO_PATH];
	struct source *s;
	struct dist_source *d;

	if (!find_dir(path, dir)) {
		err_set(e, "'%s' changed while it was opened", path);
		return NULL;
	}
	s = source_new(&source_torch_dist, sizeof *d, dir);
	d = (struct dist_source *)s;
	if (distcp_open(&d->dir, dir, e) < 0)
		goto failed;
	find_prefix(d);
	d->said_by = "its args";
	d->needs = "its args need";
	if (read_common(d, model, e) < 0)
		goto failed;
	source_set_model(s);
	s->num_tensors = d->dir.d.num_tensors;
	s->num_files = d->dir.d.num_files;
	if (check(d, e) < 0)
		goto failed;
	return s;
failed:
	source_close(s);
	return NULL;
}

static struct source *
open_torch_dist(const char *path, struct err *e)
{
	return open_as(path, NULL, e);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The whole tensor has all columns, so that pieces are rows of the box. */
int
dist_read(
    struct dist_source *d, int i, int kind, const struct slice *slice, void *dst, struct err *e)
{
	const struct dist_tensor *h = &d->held[(size_t)d->map.rows[i].tensor * DIST_KINDS + kind];
	struct megatron_piece p = { 0 };
	char *at = dst;

	while (megatron_next(&d->map, i, (struct megatron_ranks){ 1, 1 }, slice, &p)) {
		struct slice part = { p.tensor.ndim + h->ndim, { h->at[0], h->at[1] }, { 1, 1 } };

		for (int k = 0; k < p.tensor.ndim; k++) {
			part.start[h->ndim + k] = p.tensor.start[k];
			part.count[h->ndim + k] = p.tensor.count[k];
		}
		if (distcp_read(&d->dir, h->t, &part, at, e) < 0)
			return -1;
		at += (size_t)slice_elements(&p.param) * dtype_size(h->t->dtype);
	}
	return 0;
}

/* Copy 0 of a parameter is the master where there is one; -1: not held. */
static int
kind_of(const struct dist_source *d, const struct source_part *p)
{
	int masters = d->has_master && !(p->param->flags & PARAM_BALANCE);

	if (!p->state && p->copy <= masters)
		return p->copy < masters ? DIST_MASTER : DIST_WEIGHT;
	for (int k = DIST_STATES; p->state && !p->copy && k < d->num_kinds; k++)
		if (!strcmp(p->state, dist_state_name(d, k, 0)))
			return k;
	return -1;
}

/* What is wrong with a tensor is a problem of the source, which only some callers ask for: such a
 * tensor is not found. */
static bool
find_part(const struct source *s, const struct source_part *p, struct source_stored *out)
{
	const struct dist_source *d = (const struct dist_source *)s;
	int i = source_index(s, p->param), kind = kind_of(d, p),
	    tensor = i < 0 ? 0 : d->map.rows[i].tensor;
	const struct dist_tensor *h;
	const struct ckpt_tensor *t;
	int masters = d->has_master && i >= 0 && !d->map.tensor[tensor].balance;

	if (source_is_idle(s, p)) {
		*out = (struct source_stored){ DTYPE_F32, 1, 1 };
		return p->copy == 0;
	}
	if (i < 0 || kind < 0)
		return false;
	h = &d->held[(size_t)tensor * DIST_KINDS + kind];
	t = h->t;
	if (d->flat && kind != DIST_WEIGHT)
		t = s->num_problems ? NULL : dist_flat_tensor(d, tensor, kind);
	else if (t && !has_shape(d, h, &d->map.tensor[tensor]))
		return false;
	if (!t || !dtype_is_float(t->dtype))
		return false;
	*out = (struct source_stored){ t->dtype, p->state ? 1 : 1 + masters, t->num_pieces };
	return true;
}

static int
read_part(struct source *s, const struct source_part *p, void *dst, struct err *e)
{
	struct dist_source *d = (struct dist_source *)s;
	int i = source_index(s, p->param), kind = kind_of(d, p), rc;
	struct source_stored how;

	if (source_is_idle(s, p)) {
		memset(dst, 0, (size_t)slice_elements(&p->slice) * sizeof(float));
		return 0;
	}
	rc = d->flat && kind != DIST_WEIGHT ? dist_read_flat(d, i, kind, &p->slice, dst, e)
					    : dist_read(d, i, kind, &p->slice, dst, e);
	if (rc == 0 && !p->state && find_part(s, p, &how))
		megatron_restore(&d->map, i, dst, how.dtype, slice_elements(&p->slice));
	return rc;
}

static int
check_share(struct source *s, int rank, int num_ranks, struct err *e)
{
	int rc = distcp_check_share(&((struct dist_source *)s)->dir, rank, num_ranks, e);

	s->damaged |= rc < 0;
	return rc;
}

static int
verify_files(struct source *s, struct str *problems)
{
	return distcp_verify(&((struct dist_source *)s)->dir, problems);
}

static uint64_t
metadata_hash(const struct source *s)
{
	return ((const struct dist_source *)s)->dir.sum;
}

static void
release(struct source *s)
{
	struct dist_source *d = (struct dist_source *)s;

	distcp_close(&d->dir);
	megatron_map_release(&d->map);
	free(d->held);
	free(d->range);
}

const struct source_kind source_torch_dist = {
	.name = "Megatron-LM torch_dist checkpoint",
	.is = is_torch_dist,
	.open = open_torch_dist,
	.open_as = open_as,
	.find = find_part,
	.read = read_part,
	.verify = verify_files,
	.hash = metadata_hash,
	.share = check_share,
	.close = release,
};

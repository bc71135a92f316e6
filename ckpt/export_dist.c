/*
 * export_dist.c - Megatron-LM's format torch_dist: whole tensors in chunks, in one file
 *
 *   __0_0.distcp    the args and other objects as one, then the chunks, each a zip of its own
 *   .metadata       what each is, and where
 *   metadata.json   the format's name
 *
 * Tensors of the layers are stacked: the layer is their first dimension, unless some layers have
 * experts or linear attention and some have not, and the expert is the next. Layers after the head
 * are apart. A chunk is of one layer, one expert and one tensor rank. Source: Megatron-LM
 * core/dist_checkpointing; torch/distributed/checkpoint/metadata.py.
 */
#include "ckpt/export_impl.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/ckpt/pickle_write.h"

#include <stdlib.h>
#include <string.h>

#define DCP "torch.distributed.checkpoint.metadata"
static const char data_file[] = "__0_0.distcp";
static const char format[] = "{\"sharded_backend\": \"torch_dist\", "
			     "\"sharded_backend_version\": 1, \"common_backend\": \"torch\", "
			     "\"common_backend_version\": 1}";

/* The file of chunks, and the two dicts of .metadata as they grow. */
struct dist_file {
	struct export *x;
	struct outfile out;
	uint64_t at;
	struct str names, places;
};

/* A stored tensor: its name, and what it has before the dimensions of the model's tensor. */
struct stack {
	char name[128];
	int ndim;
	int64_t at[2], size[2];
};

/* --- names ------------------------------------------------------------------------------------ */

/* Whether all layers have the same tensors. */
static bool
is_uniform(const struct export *x)
{
	const struct model_config *c = &x->src->config;

	return !model_has_linear(c) && (!c->num_experts || model_expert_layers(c) == c->num_layers);
}

/* Where a tensor of the model is stored. */
static struct stack
stack_of(const struct export *x, const struct megatron_tensor *t)
{
	const struct model_config *c = &x->src->config;
	struct stack s = { .ndim = 0 };

	if (is_uniform(x) && megatron_stack_key(t, s.name)) {
		s.at[s.ndim] = t->layer;
		s.size[s.ndim++] = c->num_layers;
	} else {
		megatron_key(t, 0, 0, s.name);
	}
	if (t->expert >= 0) {
		s.at[s.ndim] = t->expert;
		s.size[s.ndim++] = c->num_experts;
	}
	return s;
}

/* Whether two tensors of the model are in one. */
static bool
same_stack(const struct export *x, const struct megatron_tensor *a, const struct megatron_tensor *b)
{
	bool stacked = is_uniform(x) && a->later < 0 && b->later < 0;

	return a->name == b->name && (stacked || a->layer == b->layer);
}

/* --- metadata --------------------------------------------------------------------------------- */

/* An entry of storage_data; ndim -1: of an object. */
static void
put_place(struct dist_file *f, const char *name, int ndim, const int64_t *start, uint64_t bytes)
{
	struct str *s = &f->places;

	pickle_open_object(s, DCP, "MetadataIndex");
	pickle_put_text(s, "fqn");
	pickle_put_text(s, name);
	pickle_put_text(s, "offset");
	if (ndim >= 0)
		pickle_put_size(s, ndim, start);
	else
		pickle_put_none(s);
	pickle_put_text(s, "index");
	pickle_put_none(s);
	pickle_close_object(s);
	pickle_open_object(s, "torch.distributed.checkpoint.filesystem", "_StorageInfo");
	pickle_put_text(s, "relative_path");
	pickle_put_text(s, data_file);
	pickle_put_text(s, "offset");
	pickle_put_int(s, (int64_t)f->at);
	pickle_put_text(s, "length");
	pickle_put_int(s, (int64_t)bytes);
	pickle_close_object(s);
	f->at += bytes;
}

/* Opens an entry of state_dict_metadata of a tensor; its chunks follow. Properties are the type,
 * layout, gradient, memory format, pinned. */
static void
open_tensor(struct str *s, const char *name, enum dtype t, int ndim, const int64_t *shape)
{
	pickle_put_text(s, name);
	pickle_open_object(s, DCP, "TensorStorageMetadata");
	pickle_put_text(s, "properties");
	pickle_open_state(s, DCP, "TensorProperties");
	pickle_put_dtype(s, t);
	pickle_open_call(s, "torch.serialization", "_get_layout");
	pickle_put_text(s, "torch.strided");
	pickle_close_call(s);
	pickle_put_bool(s, false);
	pickle_open_call(s, DCP, "_MEM_FORMAT_ENCODING");
	pickle_put_int(s, 0);
	pickle_close_call(s);
	pickle_put_bool(s, false);
	pickle_close_state(s);
	pickle_put_text(s, "size");
	pickle_put_size(s, ndim, shape);
	pickle_put_text(s, "chunks");
	pickle_open_list(s);
}

static void
put_chunk(struct str *s, const struct slice *slice)
{
	pickle_open_object(s, DCP, "ChunkStorageMetadata");
	pickle_put_text(s, "offsets");
	pickle_put_size(s, slice->ndim, slice->start);
	pickle_put_text(s, "sizes");
	pickle_put_size(s, slice->ndim, slice->count);
	pickle_close_object(s);
}

static int
write_metadata(const struct dist_file *f)
{
	char path[IO_PATH + 100];
	struct str s = { 0 };
	int rc;

	pickle_begin(&s);
	pickle_open_object(&s, DCP, "Metadata");
	pickle_put_text(&s, "state_dict_metadata");
	pickle_open_dict(&s);
	str_add(&s, f->names.buf, f->names.len);
	pickle_close_dict(&s);
	pickle_put_text(&s, "planner_data");
	pickle_put_none(&s);
	pickle_put_text(&s, "storage_data");
	pickle_open_dict(&s);
	str_add(&s, f->places.buf, f->places.len);
	pickle_close_dict(&s);
	pickle_put_text(&s, "storage_meta");
	pickle_put_none(&s);
	pickle_close_object(&s);
	pickle_end(&s);
	snprintf(path, sizeof path, "%s/.metadata", f->x->tmp);
	rc = outfile_write(path, s.buf, s.len, f->x->e);
	str_release(&s);
	return rc;
}

/* --- objects ---------------------------------------------------------------------------------- */

/* A zip with a pickle alone. */
static void
put_object(struct dist_file *f, const char *name, const struct str *pickle)
{
	struct torchzip_writer *w = torchzip_begin(f->out.f, "archive", pickle);

	pickle_put_text(&f->names, name);
	pickle_open_object(&f->names, DCP, "BytesStorageMetadata");
	pickle_close_object(&f->names);
	put_place(f, name, -1, NULL, torchzip_end(w));
}

/* An optimizer without its tensors. */
static void
put_optimizer(const struct export *x, bool experts, struct str *s)
{
	static const int none[2] = { -1, -1 };
	bool wrapped = x->o->use_distributed_optimizer || x->has_master;

	pickle_open_dict(s);
	if (wrapped) {
		pickle_put_text(s, "optimizer");
		pickle_open_dict(s);
	}
	pickle_put_text(s, "param_groups");
	export_put_groups(x, s, none, experts);
	if (wrapped)
		pickle_close_dict(s);
	if (x->o->use_distributed_optimizer) {
		pickle_put_text(s, "param_state_sharding_type");
		pickle_put_text(s, "fully_reshardable");
	}
	pickle_close_dict(s);
}

/* Several are in a dict by number. */
static void
put_optimizers(const struct export *x, struct str *s)
{
	int n = export_num_optimizers(x);

	if (n == 1) {
		put_optimizer(x, false, s);
		return;
	}
	pickle_open_dict(s);
	for (int i = 0; i < n; i++) {
		pickle_put_int(s, i);
		put_optimizer(x, i == 1, s);
	}
	pickle_close_dict(s);
}

/* Objects are lists of one. The optimizer is wrapped as in put_optimizer of export_torch.c. */
static void
put_common(struct dist_file *f)
{
	const struct export *x = f->x;
	struct str s = { 0 };

	pickle_begin(&s);
	pickle_open_list(&s);
	export_open_common(x, &s);
	if (x->num_kinds > 1) {
		pickle_put_text(&s, "optimizer");
		put_optimizers(x, &s);
		export_put_scheduler(x, &s);
	}
	/* What its loader asks of the rest: how the optimizer is stored. */
	pickle_put_text(&s, "content_metadata");
	pickle_open_dict(&s);
	if (x->o->use_distributed_optimizer) {
		pickle_put_text(&s, "distrib_optim_sharding_type");
		pickle_put_text(&s, "fully_reshardable");
		pickle_put_text(&s, "distrib_optim_fully_reshardable_mem_efficient");
		pickle_put_bool(&s, false);
	}
	pickle_put_text(&s, "singleton_local_shards");
	pickle_put_bool(&s, false);
	pickle_put_text(&s, "chained_optim_avoid_prefix");
	pickle_put_bool(&s, true);
	pickle_close_dict(&s);
	pickle_close_dict(&s);
	pickle_close_list(&s);
	pickle_end(&s);
	put_object(f, "common_state/shard_0_1", &s);
	str_release(&s);
}

/* "0.3", or "0" where there is none. */
static void
add_numbers(struct str *out, int n, const int64_t *x, int64_t none)
{
	for (int i = 0; i < n; i++)
		str_addf(out, "%s%lld", i ? "." : "", (long long)x[i]);
	if (n == 0)
		str_addf(out, "%lld", (long long)none);
}

/* Linear layers have a state of their own, which is empty without FP8; its loader asks for it. That
 * of a weight in parts is named once, with the first of them. */
static void
put_extra_states(struct dist_file *f)
{
	const struct export *x = f->x;
	struct str s = { 0 }, name = { 0 };

	pickle_begin(&s);
	pickle_open_list(&s);
	pickle_put_none(&s);
	pickle_close_list(&s);
	pickle_end(&s);
	for (int i = 0; i < x->map.count; i++) {
		struct stack at = stack_of(x, &x->map.tensor[i]);
		char *end = strstr(at.name, ".weight");

		if (!end || !export_is_linear(at.name) || (end[7] && strcmp(end + 7, ".query")))
			continue;
		str_clear(&name);
		str_addf(&name, "%.*s._extra_state/shard_", (int)(end - at.name), at.name);
		add_numbers(&name, at.ndim, at.at, 0);
		str_addc(&name, '_');
		add_numbers(&name, at.ndim, at.size, 1);
		put_object(f, name.buf, &s);
	}
	str_release(&s);
	str_release(&name);
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* The box of a block's part in the stored tensor. */
static struct slice
chunk_box(const struct export *x, const struct megatron_tensor *t, int rank, int block)
{
	int64_t ranks = megatron_num_ranks(t, x->ranks);
	const struct stack s = stack_of(x, t);
	struct slice slice = slice_whole(t->ndim, t->shape),
		     out = { t->ndim + s.ndim, { s.at[0], s.at[1] }, { 1, 1 } };

	if (t->cut >= 0) {
		int64_t part = t->shape[t->cut] / (ranks * t->blocks);

		slice.start[t->cut] = (block * ranks + rank) * part;
		slice.count[t->cut] = part;
	}
	for (int d = 0; d < t->ndim; d++) {
		out.start[s.ndim + d] = slice.start[d];
		out.count[s.ndim + d] = slice.count[d];
	}
	return out;
}

/* One rank's part of a tensor: a chunk of each block of rows. */
static int
put_part(struct dist_file *f, const char *name, int tensor, int kind, int rank)
{
	struct export *x = f->x;
	const struct megatron_tensor *t = &x->map.tensor[tensor];
	enum dtype dtype = export_dtype(x, tensor, kind);
	uint64_t n = export_bytes(x, tensor, kind) / (uint64_t)t->blocks;
	int rc = 0;

	for (int block = 0; block < t->blocks && rc == 0; block++) {
		struct slice slice = chunk_box(x, t, rank, block);
		struct str pickle = { 0 };
		struct torchzip_writer *w;

		pickle_begin(&pickle);
		pickle_put_tensor(&pickle, dtype, slice.ndim, slice.count, 0);
		pickle_end(&pickle);
		w = torchzip_begin(f->out.f, "archive", &pickle);
		torchzip_storage(w, n);
		rc =
		    export_put(x, w, &(struct export_part){ tensor, kind, rank, block, t->blocks });
		put_chunk(&f->names, &slice);
		if (rc == 0)
			put_place(f, name, slice.ndim, slice.start, torchzip_end(w));
		else
			torchzip_abort(w);
		str_release(&pickle);
	}
	return rc;
}

/* The tensors of one name: a stack or one. first is the first of them. */
static int
put_stack(struct dist_file *f, int first, int kind)
{
	struct export *x = f->x;
	const struct megatron_tensor *t = &x->map.tensor[first];
	const struct stack s = stack_of(x, t);
	int64_t shape[SLICE_DIMS] = { s.size[0], s.size[1] };
	char name[200];
	int ranks = (int)megatron_num_ranks(t, x->ranks);

	if (kind == KIND_WEIGHT)
		snprintf(name, sizeof name, "%s", s.name);
	else
		snprintf(name, sizeof name, "optimizer.state.%s.%s",
		    kind != KIND_MASTER                   ? export_state(x, kind)
			: x->o->use_distributed_optimizer ? "param"
							  : "fp32_param",
		    s.name);
	for (int d = 0; d < t->ndim; d++)
		shape[s.ndim + d] = t->shape[d];
	open_tensor(&f->names, name, export_dtype(x, first, kind), t->ndim + s.ndim, shape);
	for (int i = first; i < x->map.count; i++)
		for (int rank = 0; rank < ranks && same_stack(x, &x->map.tensor[i], t); rank++)
			if (put_part(f, name, i, kind, rank) < 0)
				return -1;
	pickle_close_list(&f->names);
	pickle_close_object(&f->names);
	return 0;
}

/* The data first: what says where they are is complete only then. */
int
export_torch_dist(struct export *x)
{
	struct dist_file f = { .x = x };
	char path[IO_PATH + 100];
	int rc = 0;

	snprintf(path, sizeof path, "%s/%s", x->tmp, data_file);
	if (outfile_open_direct(&f.out, path, x->e) < 0)
		return -1;
	put_common(&f);
	put_extra_states(&f);
	for (int kind = KIND_WEIGHT; kind < x->num_kinds; kind++)
		for (int i = 0; i < x->map.count && rc == 0; i++) {
			int first = 0; /* of the name of tensor i */

			if (!export_has(x, i, kind))
				continue;
			while (!same_stack(x, &x->map.tensor[first], &x->map.tensor[i]))
				first++;
			if (i == first)
				rc = put_stack(&f, i, kind);
		}
	if (rc == 0)
		rc = outfile_commit(&f.out, x->e);
	else
		outfile_abort(&f.out);
	if (rc == 0)
		rc = write_metadata(&f);
	snprintf(path, sizeof path, "%s/metadata.json", x->tmp);
	if (rc == 0)
		rc = outfile_write(path, format, sizeof format - 1, x->e);
	str_release(&f.names);
	str_release(&f.places);
	return rc;
}

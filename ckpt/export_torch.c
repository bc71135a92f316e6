/*
 * export_torch.c - Megatron-LM's format torch: a directory for each model rank
 *
 *   mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt   args, weights, optimizer
 *                          distrib_optim.pt     of the distributed optimizer: flat buffers
 *
 * Where ranks share the experts there are two optimizers, in a list; the buffers of the first are
 * with the first rank of each tensor rank alone. A file is a pickle that names its storages, then
 * these in order; so the pickle is made first, with a list of them.
 */
#include "ckpt/export_impl.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/ckpt/megatron_flat.h"
#include "lib/ckpt/pickle_write.h"

#include <stdlib.h>
#include <string.h>

/* A tensor that a stage holds under a name, which counts layers from its chunk's first, and experts
 * from the rank's. */
struct item {
	int tensor, chunk;
	char key[128];
	bool shared; /* a table of which two stages sum the gradients */
};

/* Tensors of one storage: a part of one, or of the flat buffer all that a chunk has. */
struct storage {
	int item, kind;
};

/* A rank, and the file of it that is written; number: as in struct torch_rank of lib/ckpt. */
struct rank_file {
	struct export *x;
	int number, tensor_rank, stage, expert_rank, count;
	struct item *item; /* in the order of registration */
	struct str pickle;
	int num_storages;
	struct storage *storage; /* [count * kinds] */
};

/* --- what a stage holds ----------------------------------------------------------------------- */

static void
add_item(struct rank_file *f, int tensor, int chunk, const char *key, bool shared)
{
	struct item *it = &f->item[f->count++];

	it->tensor = tensor;
	it->chunk = chunk;
	it->shared = shared;
	snprintf(it->key, sizeof it->key, "%s", key);
}

/* Whether a rank has a tensor of virtual stage v. */
static bool
holds(const struct rank_file *f, const struct megatron_tensor *t, int v)
{
	const struct export *x = f->x;
	int64_t local = x->src->config.num_experts / layout_expert_ranks(&x->layout);

	return megatron_is_in(t, &x->src->config, &x->layout, v) &&
	    (t->expert < 0 || t->expert / local == f->expert_rank);
}

/* Copies of tables that virtual stage v has, chunk j of the rank: the output table or the other. */
static void
list_copies(struct rank_file *f, int v, int j, bool output)
{
	const struct export *x = f->x;
	int last = layout_stages(&x->layout) - 1, n;
	struct megatron_copy copy[MEGATRON_COPIES];

	n = megatron_copies(
	    &x->map, &x->src->config, &(struct megatron_stages){ last, last }, copy);
	for (int k = 0; k < n; k++)
		if (copy[k].virtual_stage == v && copy[k].output == output)
			add_item(f, copy[k].tensor, j, copy[k].key, !copy[k].idle);
}

static void
list_items(struct rank_file *f)
{
	const struct export *x = f->x;
	const struct model_config *c = &x->src->config;
	int64_t expert = f->expert_rank * (c->num_experts / layout_expert_ranks(&x->layout));
	bool copied = (c->mtp_num_layers || !c->untie_embeddings_and_output_weights) &&
	    x->layout.pipeline_model_parallel_size > 1;
	char key[128];

	for (int j = 0; j < layout_chunks(&x->layout); j++) {
		int v = layout_stage(&x->layout, f->stage, j);
		int64_t first, count;

		layout_layers(&x->layout, c, v, &first, &count);
		list_copies(f, v, j, false);
		for (int i = 0; i < x->map.count; i++) {
			const struct megatron_tensor *t = &x->map.tensor[i];

			if (!holds(f, t, v))
				continue;
			megatron_key(t, first, expert, key);
			add_item(f, i, j, key, copied && i == 0);
		}
		list_copies(f, v, j, true);
	}
}

/* --- the pickle ------------------------------------------------------------------------------- */

/* Appends a tensor, and its storage to the list. */
static void
put_tensor(struct rank_file *f, int item, int kind)
{
	const struct export *x = f->x;
	const struct megatron_tensor *t = &x->map.tensor[f->item[item].tensor];
	int64_t shape[SLICE_DIMS];

	megatron_rank_shape(t, x->ranks, shape);
	pickle_put_tensor(&f->pickle, export_dtype(x, f->item[item].tensor, kind), t->ndim, shape,
	    f->num_storages);
	f->storage[f->num_storages++] = (struct storage){ item, kind };
}

/* Linear layers have a state of their own, which is empty without FP8; its loader looks for it. One
 * of several experts has one: weight0. */
static void
put_models(struct rank_file *f)
{
	int chunks = layout_chunks(&f->x->layout);

	for (int j = 0; j < chunks; j++) {
		char name[32] = "model", extra[160];

		if (chunks > 1)
			snprintf(name, sizeof name, "model%d", j);
		pickle_put_text(&f->pickle, name);
		pickle_open_dict(&f->pickle);
		for (int i = 0; i < f->count; i++) {
			const char *key = f->item[i].key, *end = strstr(key, ".weight");

			if (f->item[i].chunk != j)
				continue;
			pickle_put_text(&f->pickle, key);
			put_tensor(f, i, KIND_WEIGHT);
			if (!end || (end[7] && strcmp(end + 7, "0")) ||
			    (!export_is_linear(key) && strncmp(key, "output_layer", 12)))
				continue;
			snprintf(extra, sizeof extra, "%.*s._extra_state", (int)(end - key), key);
			pickle_put_text(&f->pickle, extra);
			pickle_put_none(&f->pickle);
		}
		pickle_close_dict(&f->pickle);
	}
}

/* A group of parameters of one of the optimizers: group 0 decays, group 1 does not. */
struct group {
	int optimizer, number;
};

/* Item number n of a group, or -1. */
static int
group_item(const struct rank_file *f, struct group g, int n)
{
	const struct export *x = f->x;

	for (int i = 0; i < f->count; i++)
		if (export_optimizes(x, g.optimizer, f->item[i].tensor) &&
		    x->map.tensor[f->item[i].tensor].decay == (g.number == 0) && n-- == 0)
			return i;
	return -1;
}

static int
group_count(const struct rank_file *f, struct group g)
{
	int n = 0;

	while (group_item(f, g, n) >= 0)
		n++;
	return n;
}

/* That of the experts has matrices alone. */
static int
num_groups(int optimizer)
{
	return optimizer == 1 ? 1 : 2;
}

/* Parameters are numbered group by group. */
static void
put_states(struct rank_file *f, int optimizer)
{
	const struct export *x = f->x;
	int id = 0, item;

	pickle_put_text(&f->pickle, "state");
	pickle_open_dict(&f->pickle);
	for (int g = 0; g < num_groups(optimizer); g++)
		for (int n = 0; (item = group_item(f, (struct group){ optimizer, g }, n)) >= 0;
		     n++) {
			pickle_put_int(&f->pickle, id++);
			pickle_open_dict(&f->pickle);
			for (int kind = KIND_STATES; kind < x->num_kinds; kind++) {
				pickle_put_text(&f->pickle, export_state(x, kind));
				put_tensor(f, item, kind);
			}
			pickle_close_dict(&f->pickle);
		}
	pickle_close_dict(&f->pickle);
}

static void
put_masters(struct rank_file *f, int optimizer)
{
	int item;

	pickle_put_text(&f->pickle, "fp32_from_fp16_params");
	pickle_open_list(&f->pickle);
	for (int g = 0; g < num_groups(optimizer); g++) {
		pickle_open_list(&f->pickle);
		for (int n = 0; (item = group_item(f, (struct group){ optimizer, g }, n)) >= 0; n++)
			put_tensor(f, item, KIND_MASTER);
		pickle_close_list(&f->pickle);
	}
	pickle_close_list(&f->pickle);
}

/* With masters an optimizer is inside a wrapper, which has them. */
static void
put_optimizer(struct rank_file *f, int optimizer)
{
	const struct export *x = f->x;
	bool distributed = x->o->use_distributed_optimizer, wrapped = distributed || x->has_master;
	const int none[2] = { -1, -1 },
		  ids[2] = { group_count(f, (struct group){ optimizer, 0 }),
			  group_count(f, (struct group){ optimizer, 1 }) };

	pickle_open_dict(&f->pickle);
	if (wrapped) {
		pickle_put_text(&f->pickle, "optimizer");
		pickle_open_dict(&f->pickle);
	}
	if (!distributed)
		put_states(f, optimizer);
	pickle_put_text(&f->pickle, "param_groups");
	export_put_groups(x, &f->pickle, distributed ? none : ids, optimizer == 1);
	if (wrapped)
		pickle_close_dict(&f->pickle);
	if (!distributed && x->has_master)
		put_masters(f, optimizer);
	pickle_close_dict(&f->pickle);
}

/* Several are in a list. */
static void
put_optimizers(struct rank_file *f)
{
	int n = export_num_optimizers(f->x);

	pickle_put_text(&f->pickle, "optimizer");
	if (n > 1)
		pickle_open_list(&f->pickle);
	for (int i = 0; i < n; i++)
		put_optimizer(f, i);
	if (n > 1)
		pickle_close_list(&f->pickle);
	export_put_scheduler(f->x, &f->pickle);
}

/* --- files ------------------------------------------------------------------------------------ */

/* Opens a file of the rank, whose directory is made for the first. */
static int
open_file(const struct rank_file *f, const char *name, struct outfile *out)
{
	const struct export *x = f->x;
	char path[1200];
	int n;

	n = snprintf(path, sizeof path, "%s/mp_rank_%02d", x->tmp, f->tensor_rank);
	if (x->layout.pipeline_model_parallel_size > 1)
		n += snprintf(path + n, sizeof path - (size_t)n, "_%03d", f->stage);
	if (layout_expert_ranks(&x->layout) > 1)
		n += snprintf(path + n, sizeof path - (size_t)n, "_%03d", f->expert_rank);
	if (io_mkdir_p(path, x->e) < 0)
		return -1;
	snprintf(path + n, sizeof path - (size_t)n, "/%s", name);
	return outfile_open_direct(out, path, x->e);
}

static int
finish_file(struct export *x, struct outfile *out, struct torchzip_writer *w, int rc)
{
	if (rc == 0) {
		torchzip_end(w);
		return outfile_commit(out, x->e);
	}
	torchzip_abort(w);
	outfile_abort(out);
	return -1;
}

/* Which part of a tensor the rank has. */
static int
part_of(const struct rank_file *f, int tensor)
{
	const struct export *x = f->x;

	return f->number % (int)megatron_num_ranks(&x->map.tensor[tensor], x->ranks);
}

static int
write_model(struct rank_file *f)
{
	struct export *x = f->x;
	struct torchzip_writer *w;
	struct outfile out;
	int rc = 0;

	pickle_begin(&f->pickle);
	export_open_common(x, &f->pickle);
	put_models(f);
	if (x->num_kinds > 1)
		put_optimizers(f);
	pickle_close_dict(&f->pickle);
	pickle_end(&f->pickle);
	if (open_file(f, "model_optim_rng.pt", &out) < 0)
		return -1;
	w = torchzip_begin(out.f, "archive", &f->pickle);
	for (int i = 0; i < f->num_storages && rc == 0; i++) {
		int tensor = f->item[f->storage[i].item].tensor;
		const struct export_part part = { tensor, f->storage[i].kind, part_of(f, tensor), 0,
			1 };

		torchzip_storage(w, export_bytes(x, part.tensor, part.kind));
		rc = export_put(x, w, &part);
	}
	return finish_file(x, &out, w, rc);
}

/* --- flat buffers ----------------------------------------------------------------------------- */

/* The buffer of a chunk of an optimizer: its tensors from the last to the first; none: there is no
 * buffer. */
struct flat {
	int count, *item;
	int64_t *start, *end, length;
};

/* One bucket, as without --overlap-grad-reduce; a table that two stages share has one of its own.
 */
static void
lay_flat(const struct rank_file *f, int optimizer, int chunk, struct flat *b)
{
	static const struct megatron_flat_rule rule = { 0, 64, true, 1 };
	const struct export *x = f->x;
	struct megatron_flat_tensor *t = mem_alloc((size_t)f->count, sizeof *t);

	*b = (struct flat){ .item = mem_alloc((size_t)f->count, sizeof *b->item),
		.start = mem_alloc((size_t)f->count, sizeof *b->start),
		.end = mem_alloc((size_t)f->count, sizeof *b->end) };
	for (int i = f->count - 1; i >= 0; i--) {
		if (f->item[i].chunk != chunk || !export_optimizes(x, optimizer, f->item[i].tensor))
			continue;
		t[b->count] = (struct megatron_flat_tensor){
			(int64_t)(export_bytes(x, f->item[i].tensor, KIND_MASTER) / 4),
			f->item[i].shared
		};
		b->item[b->count++] = i;
	}
	b->length = megatron_flat(&rule, t, b->count, b->start);
	for (int i = 0; i < b->count; i++)
		b->end[i] = b->start[i] + t[i].elements;
	free(t);
}

/* The bytes of one kind of a chunk's buffer; zeros between tensors. */
static int
put_flat(const struct rank_file *f, const struct flat *b, int kind, struct torchzip_writer *w)
{
	static const char zeros[4 * 4096];
	int64_t at = 0;

	torchzip_storage(w, (uint64_t)b->length * 4);
	for (int i = 0; i <= b->count; i++) {
		int tensor = i < b->count ? f->item[b->item[i]].tensor : 0;
		const struct export_part part = { tensor, kind, part_of(f, tensor), 0, 1 };
		int64_t next = i < b->count ? b->start[i] : b->length;

		for (; at < next; at += next - at < 4096 ? next - at : 4096)
			torchzip_put(w, zeros, (size_t)(next - at < 4096 ? next - at : 4096) * 4);
		if (i < b->count && export_put(f->x, w, &part) < 0)
			return -1;
		at = i < b->count ? b->end[i] : at;
	}
	return 0;
}

/* {number: {(dtype, torch.float32): {kind: tensor, ..., "numel_unpadded": n}}}, with the storages
 * from `first` on. */
static void
put_flat_dict(const struct export *x, struct str *out, int number, int64_t length, int first)
{
	int kinds = x->num_kinds - KIND_MASTER;

	pickle_put_int(out, number);
	pickle_open_dict(out);
	pickle_open_tuple(out);
	pickle_put_dtype(out, x->dtype);
	pickle_put_dtype(out, DTYPE_F32);
	pickle_close_tuple(out);
	pickle_open_dict(out);
	for (int k = 0; k < kinds; k++) {
		pickle_put_text(out, k ? export_state(x, KIND_MASTER + k) : "param");
		pickle_put_tensor(out, DTYPE_F32, 1, &length, first + k);
	}
	pickle_put_text(out, "numel_unpadded");
	pickle_put_int(out, length);
	pickle_close_dict(out);
	pickle_close_dict(out);
}

/* Lays the buffers of an optimizer, b[chunk], and appends their dict, with storages from `first`
 * on; None where another rank has them. Returns the number of buffers. */
static int
put_buffers(const struct rank_file *f, int optimizer, int first, struct flat *b, struct str *out)
{
	const struct export *x = f->x;
	int n = 0, kinds = x->num_kinds - KIND_MASTER;

	if (optimizer == 0 && f->number >= x->ranks.tensor) {
		pickle_put_none(out);
		return 0;
	}
	pickle_open_dict(out);
	pickle_put_text(out, "buckets_coalesced");
	pickle_put_bool(out, true);
	for (int j = 0; j < layout_chunks(&x->layout); j++) {
		lay_flat(f, optimizer, j, &b[j]);
		if (b[j].count == 0)
			continue;
		put_flat_dict(x, out, n, b[j].length, first + n * kinds);
		n++;
	}
	pickle_close_dict(out);
	return n;
}

static int
write_flat(struct rank_file *f)
{
	struct export *x = f->x;
	int optimizers = export_num_optimizers(x), chunks = layout_chunks(&x->layout),
	    count = optimizers * chunks, first = 0, rc;
	struct flat *b = mem_zalloc((size_t)count, sizeof *b);
	struct torchzip_writer *w;
	struct str pickle = { 0 };
	struct outfile out;

	pickle_begin(&pickle);
	if (optimizers > 1)
		pickle_open_list(&pickle);
	for (int i = 0; i < optimizers; i++)
		first += (x->num_kinds - KIND_MASTER) *
		    put_buffers(f, i, first, &b[i * chunks], &pickle);
	if (optimizers > 1)
		pickle_close_list(&pickle);
	pickle_end(&pickle);
	rc = open_file(f, "distrib_optim.pt", &out);
	if (rc == 0) {
		w = torchzip_begin(out.f, "archive", &pickle);
		for (int j = 0; j < count; j++)
			for (int kind = KIND_MASTER;
			     b[j].count > 0 && kind < x->num_kinds && rc == 0; kind++)
				rc = put_flat(f, &b[j], kind, w);
		rc = finish_file(x, &out, w, rc);
	}
	for (int j = 0; j < count; j++) {
		free(b[j].item);
		free(b[j].start);
		free(b[j].end);
	}
	free(b);
	str_release(&pickle);
	return rc;
}

int
export_torch(struct export *x)
{
	int ranks = (int)layout_expert_holders(&x->layout), rc = 0,
	    stages = (int)x->layout.pipeline_model_parallel_size;
	size_t most = (size_t)x->map.count + MEGATRON_COPIES;

	for (int i = 0; i < stages * ranks && rc == 0; i++) {
		struct rank_file f = { .x = x,
			.number = i % ranks,
			.tensor_rank = i % ranks % (int)x->ranks.tensor,
			.stage = i / ranks,
			.expert_rank = i % ranks / (int)x->ranks.slices,
			.item = mem_alloc(most, sizeof *f.item),
			.storage = mem_alloc(most * (size_t)x->num_kinds, sizeof *f.storage) };

		list_items(&f);
		rc = write_model(&f);
		if (rc == 0 && x->num_kinds > 1 && x->o->use_distributed_optimizer)
			rc = write_flat(&f);
		free(f.item);
		free(f.storage);
		str_release(&f.pickle);
	}
	return rc;
}

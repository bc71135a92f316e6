/*
 * torch_dist_flat.c - the flat buffers of the distributed optimizer in the torch_dist format
 *
 * A model rank lays the tensors of a chunk of layers in a row, from the one that was registered
 * last to the first, each at a multiple of 64 elements of its bucket. Each bucket is a tensor
 * without the padding at its end; by how long it is we know which tensors it has, whatever rule
 * closed it. Which implementation registered them is tried out: the places are right by which every
 * master rounds to its weight. Where ranks share the experts, these have buffers of their own, in
 * which only chunks with experts are counted. Source: Megatron-LM
 * core/distributed/param_and_grad_buffer.py, core/optimizer/{__init__,distrib_optimizer}.py.
 */
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/ckpt/torch_dist_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, STEM_BYTES = 192, PROOF_ELEMENTS = 64, PROOF_CHUNK = 1 << 20 };

/* --- names ------------------------------------------------------------------------------------ */

/* Where ranks share the experts there are two, of all else and of these. */
static int
num_optimizers(const struct dist_source *d)
{
	return d->args.config.num_experts && d->args.expert_ranks > 1 ? 2 : 1;
}

void
dist_optimizer_prefix(const struct dist_source *d, int optimizer, char out[16])
{
	*out = '\0';
	if (num_optimizers(d) > 1)
		snprintf(out, 16, "chained_%d.", optimizer);
}

/* A buffer of a model rank, by the number of its optimizer. */
struct flat_id {
	int optimizer;
	int64_t rank, number;
};

/* What the names of its buckets begin with: the text in brackets tells types. False when the rank
 * has none, or several kinds of them. */
static bool
find_stem(const struct dist_source *s, struct flat_id id, char stem[STEM_BYTES])
{
	static const char mark[] = ").bucket_idx_";
	const struct distcp *d = &s->dir.d;
	int low = 0, high = d->num_tensors;
	const char *end;
	char before[16];
	size_t n;

	dist_optimizer_prefix(s, id.optimizer, before);
	snprintf(stem, STEM_BYTES,
	    "%soptimizer.distributed.dp_group_idx_%lld.gbuf_idx_%lld.dtype_(", before,
	    (long long)id.rank, (long long)id.number);
	n = strlen(stem);
	while (low < high) {
		int middle = low + (high - low) / 2;

		if (strcmp(d->tensor[middle].name, stem) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == d->num_tensors || strncmp(d->tensor[low].name, stem, n))
		return false;
	end = strstr(d->tensor[low].name + n, mark);
	if (!end || end - d->tensor[low].name + sizeof mark > STEM_BYTES)
		return false;
	snprintf(stem, STEM_BYTES, "%.*s%s", (int)(end - d->tensor[low].name), d->tensor[low].name,
	    mark);
	return true;
}

static const struct ckpt_tensor *
find_bucket(const struct distcp *d, const char *stem, int bucket, const char *state)
{
	char name[STEM_BYTES + 64];

	snprintf(name, sizeof name, "%s%d.%s", stem, bucket, state);
	return distcp_tensor(d, name);
}

bool
dist_has_flat(const struct dist_source *d)
{
	char stem[STEM_BYTES];

	return find_stem(d, (struct flat_id){ 0, 0, 0 }, stem);
}

bool
dist_has_flat_state(const struct dist_source *d, const char *state)
{
	char stem[STEM_BYTES];

	return find_stem(d, (struct flat_id){ 0, 0, 0 }, stem) &&
	    find_bucket(&d->dir.d, stem, 0, state);
}

/* Ranks of a stage. */
static int64_t
width(const struct dist_source *d)
{
	return d->args.slices * d->args.expert_ranks;
}

static size_t
num_ranges(const struct dist_source *d)
{
	return (size_t)(layout_size(&d->s.layout, AX_PP) * width(d)) * (size_t)d->map.count;
}

/* --- the walk --------------------------------------------------------------------------------- */

/* The buckets of one chunk of a model rank, whose number is that in its stage, and how far they are
 * taken. */
struct walk {
	struct dist_source *d;
	const struct megatron_map *order; /* the tensors as an implementation registers them */
	int optimizer;
	int64_t stage, number, chunk;
	char stem[STEM_BYTES];
	int bucket;
	const struct ckpt_tensor *kind[DIST_KINDS]; /* of this bucket; all NULL after the last */
	int64_t length, start, cursor;              /* elements; start: of the last one placed */
};

/* Opens bucket w->bucket. -1 when its kinds are not of one length. */
static int
open_bucket(struct walk *w)
{
	const struct dist_source *d = w->d;
	int found = 0, wanted = 0;

	memset(w->kind, 0, sizeof w->kind);
	w->length = w->cursor = 0;
	for (int kind = DIST_MASTER; kind < d->num_kinds; kind++) {
		const struct ckpt_tensor *t =
		    find_bucket(&d->dir.d, w->stem, w->bucket, dist_state_name(d, kind, 0));

		wanted++;
		if (!t)
			continue;
		if (t->ndim != 1 || !dtype_is_float(t->dtype) ||
		    (found > 0 && t->shape[0] != w->length))
			return -1;
		w->kind[kind] = t;
		w->length = t->shape[0];
		found++;
	}
	return found == 0 || found == wanted ? 0 : -1;
}

static int64_t
aligned(int64_t x)
{
	return int64_div_up(x, ALIGN) * ALIGN;
}

/* A bucket ends with its last tensor, or where the one of a tied table follows at a multiple. */
static bool
is_full(const struct walk *w)
{
	return w->length > 0 && (w->cursor == w->length || aligned(w->cursor) == w->length);
}

static struct megatron_ranks
ranks_of(const struct dist_source *d)
{
	return (struct megatron_ranks){ d->args.tensor_ranks, d->args.slices };
}

/* Places a tensor in this bucket, or where it is full in the next, from w->start on. */
static int
place(struct walk *w, const struct megatron_tensor *t)
{
	int64_t shape[SLICE_DIMS], n = 1;

	megatron_rank_shape(t, ranks_of(w->d), shape);
	for (int d = 0; d < t->ndim; d++)
		n *= shape[d];
	if (is_full(w)) {
		w->bucket++;
		if (open_bucket(w) < 0)
			return -1;
	}
	if (n > w->length - aligned(w->cursor))
		return -1;
	w->start = aligned(w->cursor);
	w->cursor = w->start + n;
	return 0;
}

static struct dist_range *
range_of(const struct dist_source *d, int64_t stage, int64_t number, int tensor)
{
	return &d->range[(stage * width(d) + number) * d->map.count + tensor];
}

/* The first of the ranks of a stage that hold an expert. */
static int64_t
first_holder(const struct dist_source *d, int expert)
{
	return expert / (d->s.config.num_experts / d->args.expert_ranks) * d->args.slices;
}

/* Whether the optimizer of a rank has a tensor, wherever its layer is. */
static bool
is_optimized(const struct walk *w, const struct megatron_tensor *t)
{
	const struct dist_source *d = w->d;
	int64_t first = t->expert < 0 ? 0 : first_holder(d, t->expert);

	if (t->balance || (num_optimizers(d) > 1 && (t->expert >= 0) != (w->optimizer == 1)))
		return false;
	return t->expert < 0 || (w->number >= first && w->number < first + d->args.slices);
}

static int
virtual_stage(const struct walk *w, int64_t chunk)
{
	return layout_stage(&w->d->s.layout, (int)w->stage, (int)chunk);
}

static bool
is_in(const struct walk *w, const struct megatron_tensor *t, int64_t chunk)
{
	const struct dist_source *d = w->d;

	return megatron_is_in(t, &d->s.config, &d->s.layout, virtual_stage(w, chunk));
}

/* Whether a chunk has anything that the optimizer has. */
static bool
has_buffer(const struct walk *w, int64_t number)
{
	const struct dist_source *d = w->d;

	for (int i = 0; i < d->map.count; i++)
		if (is_optimized(w, &d->map.tensor[i]) && is_in(w, &d->map.tensor[i], number))
			return true;
	return false;
}

/* Places the copies of tables on a stage that have the same one of these names. */
static int
place_copies(struct walk *w, bool output)
{
	struct dist_source *d = w->d;
	int last = layout_stages(&d->s.layout) - 1;
	struct megatron_copy copy[MEGATRON_COPIES];
	int n =
	    megatron_copies(&d->map, &d->s.config, &(struct megatron_stages){ last, last }, copy);

	for (int k = 0; k < n && w->optimizer == 0; k++)
		if (copy[k].virtual_stage == virtual_stage(w, w->chunk) &&
		    copy[k].output == output && place(w, &d->map.tensor[copy[k].tensor]) < 0)
			return -1;
	return 0;
}

/* Notes where the tensor that was placed last has those of ours that are its parts: each has its
 * rows of a rank one after another. */
static void
note_ranges(const struct walk *w, int tensor)
{
	struct dist_source *d = w->d;
	const struct megatron_tensor *t = &w->order->tensor[tensor];
	int64_t ranks = megatron_num_ranks(t, ranks_of(d)), width = 1;

	for (int k = 1; k < t->ndim; k++)
		width *= t->shape[k];
	for (int i = t->first; i < d->s.count && d->s.param[i].layer == t->layer; i++) {
		const struct megatron_rows *r = &w->order->rows[i], *ours = &d->map.rows[i];
		struct dist_range *out = range_of(d, w->stage, w->number, ours->tensor);

		if (r->tensor != tensor)
			continue;
		memcpy(out->bucket, w->kind, sizeof out->bucket);
		out->start = w->start + (r->first - ours->first) / ranks * width;
	}
}

/* From the tensor that was registered last to the first: the copies of tables are at either end. */
static int
place_chunk(struct walk *w)
{
	struct dist_source *d = w->d;

	if (place_copies(w, true) < 0)
		return -1;
	for (int i = w->order->count - 1; i >= 0; i--) {
		const struct megatron_tensor *t = &w->order->tensor[i];

		if (!is_optimized(w, t) || !is_in(w, t, w->chunk))
			continue;
		if (place(w, t) < 0)
			return -1;
		note_ranges(w, i);
	}
	if (place_copies(w, false) < 0)
		return -1;
	return is_full(w) && !find_bucket(&d->dir.d, w->stem, w->bucket + 1, d->s.rule->states[0])
	    ? 0
	    : -1;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* What the rank with part `rank` of a tensor has of it; NULL: no stage has any. */
static const struct dist_range *
find_range(const struct dist_source *d, int tensor, int64_t rank)
{
	int64_t stages = layout_size(&d->s.layout, AX_PP);
	int expert = d->map.tensor[tensor].expert;

	if (expert >= 0)
		rank += first_holder(d, expert);
	for (int64_t stage = 0; stage < stages; stage++) {
		const struct dist_range *r = range_of(d, stage, rank, tensor);

		if (r->bucket[DIST_STATES])
			return r;
	}
	return NULL;
}

const struct ckpt_tensor *
dist_flat_tensor(const struct dist_source *d, int tensor, int kind)
{
	const struct dist_range *r = find_range(d, tensor, 0);

	return r ? r->bucket[kind] : NULL;
}

/* Of each piece, the rows of the rank's tensor that it lies in are a range of the bucket. */
static int
read_kind(
    struct dist_source *d, int i, int kind, const struct slice *slice, void *dst, struct err *e)
{
	int tensor = d->map.rows[i].tensor, rc = 0;
	const struct megatron_tensor *t = &d->map.tensor[tensor];
	struct megatron_piece p = { 0 };
	int64_t shape[SLICE_DIMS];

	megatron_rank_shape(t, ranks_of(d), shape);
	while (rc == 0 && megatron_next(&d->map, i, ranks_of(d), slice, &p)) {
		const struct dist_range *r = find_range(d, tensor, p.rank);
		struct slice rows = p.param, range = { 1, { 0 }, { 0 } };
		int64_t width = rows.ndim == 2 ? shape[t->ndim - 1] : 1;
		size_t size = dtype_size(r->bucket[kind]->dtype);
		void *bytes;

		rows.start[1] -= p.tensor.start[t->ndim - 1];
		rows.count[1] = rows.ndim == 2 ? width : 0;
		range.start[0] = r->start + p.tensor.start[0] * width;
		range.count[0] = p.tensor.count[0] * width;
		bytes = mem_alloc((size_t)range.count[0], size);
		rc = distcp_read(&d->dir, r->bucket[kind], &range, bytes, e);
		if (rc == 0)
			slice_copy(dst, slice, bytes, &rows, &p.param, size);
		free(bytes);
	}
	return rc;
}

/* --- the proof -------------------------------------------------------------------------------- */

/* Whether a box of masters rounds to the weights. */
static int
prove(struct dist_source *d, int i, const struct slice *slice, const void *master, struct err *e)
{
	int tensor = d->map.rows[i].tensor;
	enum dtype weight = d->held[(size_t)tensor * DIST_KINDS].t->dtype,
		   main = dist_flat_tensor(d, tensor, DIST_MASTER)->dtype;
	int64_t n = slice_elements(slice), k = 0;
	void *stored = mem_alloc((size_t)n, dtype_size(weight)),
	     *rounded = mem_alloc((size_t)n, dtype_size(weight));
	double *a = mem_alloc((size_t)n, sizeof *a), *b = mem_alloc((size_t)n, sizeof *b);
	int rc = dist_read(d, i, DIST_WEIGHT, slice, stored, e);

	if (rc == 0) {
		dtype_convert(rounded, weight, master, main, n);
		dtype_convert(a, DTYPE_F64, rounded, weight, n);
		dtype_convert(b, DTYPE_F64, stored, weight, n);
		while (k < n && (a[k] == b[k] || (isnan(a[k]) && isnan(b[k]))))
			k++;
		if (k < n)
			rc = err_set(e,
			    "%s: the master weights of '%s' do not round to its weights: the "
			    "layout of the optimizer's buffers is not known",
			    d->s.path, d->s.param[i].name);
	}
	free(stored);
	free(rounded);
	free(a);
	free(b);
	return rc;
}

/* Masters are proved whole, a bounded number of elements at a time. */
int
dist_read_flat(
    struct dist_source *d, int i, int kind, const struct slice *slice, void *dst, struct err *e)
{
	const char *master = dst;
	int64_t total = slice_elements(slice);
	enum dtype t;

	if (read_kind(d, i, kind, slice, dst, e) < 0)
		return -1;
	if (kind != DIST_MASTER)
		return 0;
	t = dist_flat_tensor(d, d->map.rows[i].tensor, DIST_MASTER)->dtype;
	for (int64_t at = 0; at < total; at += PROOF_CHUNK) {
		struct slice part[SLICE_FLAT_MAX];
		int n = slice_flat(slice, at, int64_min(PROOF_CHUNK, total - at), part);

		for (int k = 0; k < n; k++) {
			if (prove(d, i, &part[k], master, e) < 0)
				return -1;
			master += (size_t)slice_elements(&part[k]) * dtype_size(t);
		}
	}
	return 0;
}

/* The first row of every piece of a parameter, or the beginning of it. */
static int
prove_some(struct dist_source *d, int i, struct err *e)
{
	const struct param *p = &d->s.param[i];
	struct slice whole = slice_whole(p->ndim, p->shape);
	struct megatron_piece it = { 0 };
	double master[PROOF_ELEMENTS];

	while (megatron_next(&d->map, i, ranks_of(d), &whole, &it)) {
		struct slice slice = it.param;

		slice.count[0] = p->ndim == 2 ? 1 : int64_min(slice.count[0], PROOF_ELEMENTS);
		slice.count[1] = int64_min(slice.count[1], PROOF_ELEMENTS);
		if (read_kind(d, i, DIST_MASTER, &slice, master, e) < 0 ||
		    prove(d, i, &slice, master, e) < 0)
			return -1;
	}
	return 0;
}

/* All chunks of a model rank. */
static int
place_rank(struct dist_source *d, const struct megatron_map *o, struct flat_id id, struct err *e)
{
	int64_t ranks = id.optimizer ? width(d) : d->args.tensor_ranks;

	for (int64_t chunk = 0; chunk < layout_chunks(&d->s.layout); chunk++) {
		struct walk w = { .d = d,
			.order = o,
			.optimizer = id.optimizer,
			.stage = id.rank / ranks,
			.number = id.rank % ranks,
			.chunk = chunk };

		if (!has_buffer(&w, chunk))
			continue;
		if (!find_stem(d, id, w.stem) || open_bucket(&w) < 0 || place_chunk(&w) < 0)
			return err_set(e,
			    "%s: the optimizer's buffers of model rank %lld do not hold the "
			    "%s of its layers",
			    d->s.path, (long long)id.rank, id.optimizer ? "experts" : "tensors");
		id.number++;
	}
	return 0;
}

static int
place_all(struct dist_source *d, const struct megatron_map *o, struct err *e)
{
	int64_t stages = layout_size(&d->s.layout, AX_PP);

	memset(d->range, 0, num_ranges(d) * sizeof *d->range);
	for (int k = 0; k < num_optimizers(d); k++) {
		int64_t ranks = stages * (k ? width(d) : d->args.tensor_ranks);

		for (int64_t rank = 0; rank < ranks; rank++)
			if (place_rank(d, o, (struct flat_id){ k, rank, 0 }, e) < 0)
				return -1;
	}
	return 0;
}

/* Places all tensors as an implementation would, and compares some elements of each. */
static int
try_order(
    struct dist_source *d, enum megatron_names names, enum megatron_experts experts, struct err *e)
{
	const struct megatron_model model = { &d->s.config, d->s.param, d->s.count, names,
		d->map.tensor[0].shape[0], experts };
	struct megatron_map o;
	int rc = megatron_map_init(&o, &model, e);

	if (rc == 0)
		rc = place_all(d, &o, e);
	for (int i = 0; rc == 0 && i < d->s.count; i++)
		if (!(d->s.param[i].flags & PARAM_BALANCE))
			rc = prove_some(d, i, e);
	megatron_map_release(&o);
	return rc;
}

/* A few elements show a wrong order; all are compared when they are read. The order that the args
 * tell comes first, and its failure is the one that is reported: older versions do not tell. */
void
dist_open_flat(struct dist_source *d)
{
	const enum megatron_names names[] = { d->names,
		d->names == MEGATRON_LOCAL ? MEGATRON_ENGINE : MEGATRON_LOCAL };
	const enum megatron_experts experts[] = { d->experts,
		d->experts == MEGATRON_GROUPED ? MEGATRON_SEQUENTIAL : MEGATRON_GROUPED };
	struct err e;

	if (!d->has_master) {
		source_problem(&d->s,
		    "the optimizer's buffers have no master weights, by which their layout could "
		    "be proved");
		return;
	}
	if (megatron_check_ranks(&d->map, ranks_of(d), &e) < 0) {
		source_problem(&d->s, "%s", e.msg);
		return;
	}
	d->range = mem_zalloc(num_ranges(d), sizeof *d->range);
	for (int i = 0; i < 4; i++)
		if (try_order(d, names[i % 2], experts[i / 2], i ? NULL : &e) == 0)
			return;
	str_addf(&d->s.problems, "%s\n", e.msg);
	d->s.num_problems++;
}

/* block.c - the kinds of block, which of them make up a model, and which a stage has */
#include "lib/model/block/block.h"
#include "lib/base/mem.h"

#include <stddef.h>

#define BLOCK_ENTRY(name) &block_##name,
const struct block_kind *const block_kinds[] = { BLOCKS(BLOCK_ENTRY) NULL };
#undef BLOCK_ENTRY

enum { KINDS = sizeof block_kinds / sizeof *block_kinds - 1 };

int
block_number(const struct block_kind *k)
{
	int i = 0;

	while (block_kinds[i] != k)
		i++;
	return i + 1;
}

const char *
block_name(int number)
{
	if (number <= BLOCK_rank || number >= BLOCK_COUNT)
		return number == BLOCK_rank ? "rank" : "no block";
	return block_kinds[number - 1]->name;
}

/* The first from k on that the layer has. */
static const struct block_kind *const *
found(const struct block_kind *const *k, const struct model_config *c, int64_t layer)
{
	while (*k && !(*k)->in(c, layer))
		k++;
	return k;
}

const struct block_kind *const *
block_first(const struct model_config *c, int64_t layer)
{
	return found(block_kinds, c, layer);
}

const struct block_kind *const *
block_next(const struct block_kind *const *k, const struct model_config *c, int64_t layer)
{
	return found(k + 1, c, layer);
}

bool
block_in_model(const struct block_kind *k, const struct model_config *c)
{
	int64_t layer = -1;

	while (layer <= model_end(c) && !k->in(c, layer))
		layer++;
	return layer <= model_end(c);
}

/* A number beyond the chunk's layers means all of them. */
struct recompute_span
block_recompute(const struct recompute *r, int64_t num_layers)
{
	int64_t n = r->num_layers < num_layers ? r->num_layers : num_layers;

	if (r->granularity != RECOMPUTE_FULL)
		return (struct recompute_span){ 0, 0 };
	return r->method == RECOMPUTE_UNIFORM ? (struct recompute_span){ num_layers, n }
					      : (struct recompute_span){ n, 1 };
}

bool
branch_has_own_gradient(const struct model_config *c, const struct train_shape *s)
{
	return c->hidden_dropout > 0 || c->residual_multiplier > 0 ||
	    memory_residual(s) != s->dtype;
}

/* Lets neighbouring blocks share passes, if one reads the sum of the other. With dropout or a norm
 * between a bias and the sum, or a sum of another type, their gradients differ, so the bias is not
 * taken; nor by a norm that adds to a gradient of its weights where the bias has none yet. */
static void
join(struct block *before, struct block *b, const struct model_config *c,
    const struct train_shape *s)
{
	if (!before->kind->residual || !b->norm || b->reads != b->kind->input)
		return;
	b->norm_taken = true;
	b->passes = before->bias_taken = !before->post && !branch_has_own_gradient(c, s) &&
	    !(b->parallel && c->shared_parallel_norm);
}

/* The most layers of a chunk of the stage that has the virtual stage. */
static int64_t
largest_chunk(const struct model_config *c, const struct layout *l, int virtual_stage)
{
	int pp = virtual_stage % (int)l->pipeline_model_parallel_size;
	int64_t first, count, most = 0;

	for (int j = 0; j < layout_chunks(l); j++) {
		layout_layers(l, c, layout_stage(l, pp, j), &first, &count);
		most = count > most ? count : most;
	}
	return most;
}

/* The number of a block's layer among those that hold buffers of its level: of a chunk's own, then
 * of those after the head; or of the heads. */
static int
local_of(const struct block_kind *k, const struct model_config *c, int64_t layer, int64_t first,
    int64_t largest)
{
	int64_t later = layer - c->num_layers;

	if (later >= 0)
		return (int)(k == &block_head ? later : largest + later - 1);
	return layer < 0 ? 0 : (int)(layer - first);
}

/* The blocks of a virtual stage: the embedding is on the first, the head on the last, with those
 * of later tokens unless nothing trains. Parallel blocks of a layer read its input. The head, which
 * ends no branch, has its norm in every model. */
static int
add_chunk(struct block *b, const struct model_config *c, const struct layout *l,
    const struct train_shape *s, int virtual_stage)
{
	int64_t first, count, end, largest;
	struct recompute_span span;
	int n = 0;

	layout_layers(l, c, virtual_stage, &first, &count);
	span = block_recompute(&s->recompute, count);
	end = first + count;
	if (virtual_stage == layout_stages(l) - 1)
		end = (s->forward_only ? c->num_layers : model_end(c)) + 1;
	largest = largest_chunk(c, l, virtual_stage);
	for (int64_t i = virtual_stage == 0 ? -1 : first; i < end; i++)
		for (const struct block_kind *const *k = block_first(c, i); *k;
		     k = block_next(k, c, i), n++) {
			bool within = i >= first && i < first + count;

			b[n].kind = *k;
			b[n].layer = (int)i;
			b[n].chunk = virtual_stage / (int)l->pipeline_model_parallel_size;
			b[n].local = local_of(*k, c, i, first, largest);
			b[n].recompute_chunk = within && i - first < span.layers
			    ? (int)((i - first) / span.chunk)
			    : -1;
			if (!(*k)->residual || model_pre_norm(c))
				b[n].norm = (*k)->norm;
			if (model_post_norm(c))
				b[n].post = (*k)->post;
			b[n].parallel = c->use_parallel_residual && (*k)->residual;
			b[n].weights = b[n].parallel && c->shared_parallel_norm
			    ? block_attention.norm
			    : b[n].norm;
			b[n].reads = b[n].parallel ? block_attention.input : (*k)->input;
			if (n > 0)
				join(&b[n - 1], &b[n], c, s);
		}
	return n;
}

bool
block_recompute_ends(const struct block *b, int n, int i)
{
	return b[i].recompute_chunk >= 0 &&
	    (i + 1 == n || b[i + 1].chunk != b[i].chunk ||
		b[i + 1].recompute_chunk != b[i].recompute_chunk);
}

bool
block_in_layer(const struct block *b, const struct model_config *c)
{
	return b->layer >= 0 && b->layer < c->num_layers;
}

/* The layers of a stage, and the ends of the model. */
static int64_t
most_layers(const struct model_config *c, const struct layout *l, int pp)
{
	int64_t first, count, sum = 2 + c->mtp_num_layers;

	for (int j = 0; j < layout_chunks(l); j++) {
		layout_layers(l, c, layout_stage(l, pp, j), &first, &count);
		sum += count;
	}
	return sum;
}

int64_t
block_count(
    const struct block_kind *k, const struct model_config *c, const struct layout *l, int pp)
{
	int64_t first, count, sum = 0;

	for (int j = 0; j < layout_chunks(l); j++) {
		layout_layers(l, c, layout_stage(l, pp, j), &first, &count);
		for (int64_t i = first; i < first + count; i++)
			sum += k->in(c, i);
	}
	return sum;
}

/* A layer has a block of each kind at most. Blocks of a kind, and layers whose linears read 8-bit
 * operands, are numbered over all chunks. */
int
block_list(const struct model_config *c, const struct layout *l, const struct train_shape *s,
    int pp, struct block **out)
{
	struct block *b = mem_zalloc(KINDS * (size_t)most_layers(c, l, pp), sizeof *b);
	int n = 0, of_kind[KINDS + 1] = { 0 }, fp8_layers = 0;

	for (int j = 0; j < layout_chunks(l); j++)
		n += add_chunk(b + n, c, l, s, layout_stage(l, pp, j));
	for (int i = 0; i < n; i++) {
		bool same = i > 0 && b[i].layer == b[i - 1].layer;

		b[i].fp8 = -1;
		b[i].of_kind = of_kind[block_number(b[i].kind)]++;
		if (block_in_layer(&b[i], c) && fp8_layer(&s->fp8, c, b[i].layer))
			b[i].fp8 = same ? b[i - 1].fp8 : fp8_layers++;
	}
	*out = b;
	return n;
}

struct block_range
block_chunk(const struct block *b, int n, int chunk)
{
	struct block_range r = { 0, n };

	while (r.first < n && b[r.first].chunk < chunk)
		r.first++;
	while (r.end > r.first && b[r.end - 1].chunk > chunk)
		r.end--;
	return r;
}

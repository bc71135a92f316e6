/* block.c - the kinds of block, which of them make up a model, and which a stage has */
#include "lib/model/block/block.h"
#include "lib/base/mem.h"

#include <stddef.h>

const struct block_kind *const block_kinds[] = { &block_embedding, &block_attention, &block_mlp,
	&block_moe, &block_head, NULL };

/* The blocks of a transformer before the layers, in each layer and after them. */
const struct block_kind *const *
block_recipe(const struct model_config *c, int64_t layer)
{
	static const struct block_kind *const before[] = { &block_embedding, NULL },
					      *const dense[] = { &block_attention, &block_mlp,
						      NULL },
					      *const sparse[] = { &block_attention, &block_moe,
						      NULL },
					      *const after[] = { &block_head, NULL };

	if (layer < 0 || layer >= c->num_layers)
		return layer < 0 ? before : after;
	return layer_has_experts(c, layer) ? sparse : dense;
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

/* Lets neighbouring blocks share passes, if one reads the sum of the other. With dropout or a norm
 * between a bias and the sum, or a sum of another type, their gradients differ, so the bias is not
 * taken. */
static void
join(struct block *before, struct block *b, const struct model_config *c,
    const struct train_shape *s)
{
	if (!before->kind->residual || !b->norm || b->reads != b->kind->input)
		return;
	b->norm_taken = true;
	before->bias_taken =
	    c->hidden_dropout == 0 && !before->post && memory_stream(s) == s->dtype;
}

/* Which norms of its kind a block has. The head, which ends no branch, has its norm in every
 * model. */
static void
place_norms(struct block *b, const struct model_config *c)
{
	if (!b->kind->residual || c->norm_placement != NORM_PLACEMENT_POST)
		b->norm = b->kind->norm;
	if (c->norm_placement != NORM_PLACEMENT_PRE)
		b->post = b->kind->post;
}

/* What a block reads: within layers, the layer's input where its blocks are parallel. */
static void
place_input(struct block *b, const struct model_config *c)
{
	b->parallel = c->use_parallel_residual && b->kind->residual;
	b->reads = b->parallel ? block_attention.input : b->kind->input;
}

/* The blocks of a virtual stage: the embedding is on the first, the head on the last. */
static int
add_chunk(struct block *b, const struct model_config *c, const struct layout *l,
    const struct train_shape *s, int virtual_stage)
{
	int64_t first, count, end;
	struct recompute_span span;
	int n = 0;

	layout_layers(l, c, virtual_stage, &first, &count);
	span = block_recompute(&s->recompute, count);
	end = first + count + (virtual_stage == layout_stages(l) - 1);
	for (int64_t i = virtual_stage == 0 ? -1 : first; i < end; i++)
		for (const struct block_kind *const *k = block_recipe(c, i); *k; k++, n++) {
			bool within = i >= first && i < first + count;

			b[n].kind = *k;
			b[n].layer = (int)i;
			b[n].chunk = virtual_stage / (int)l->pipeline_model_parallel_size;
			b[n].local = within ? (int)(i - first) : 0;
			b[n].recompute_chunk = within && i - first < span.layers
			    ? (int)((i - first) / span.chunk)
			    : -1;
			place_norms(&b[n], c);
			place_input(&b[n], c);
			if (n > 0)
				join(&b[n - 1], &b[n], c, s);
		}
	return n;
}

/* Counts the layers in all chunks whose linears read 8-bit operands. */
static void
number_fp8(struct block *b, int n, const struct model_config *c, const struct train_shape *s)
{
	int count = 0;

	for (int i = 0; i < n; i++) {
		bool same = i > 0 && b[i].layer == b[i - 1].layer;

		b[i].fp8 = -1;
		if (b[i].kind->residual && fp8_layer(&s->fp8, c, b[i].layer))
			b[i].fp8 = same ? b[i - 1].fp8 : count++;
	}
}

/* A layer has two blocks at most. */
int
block_list(const struct model_config *c, const struct layout *l, const struct train_shape *s,
    int pp, struct block **out)
{
	int n = 0;

	*out = mem_zalloc((size_t)(2 * c->num_layers + 2), sizeof **out);
	for (int j = 0; j < layout_chunks(l); j++)
		n += add_chunk(*out + n, c, l, s, layout_stage(l, pp, j));
	number_fp8(*out, n, c, s);
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

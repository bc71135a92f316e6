/* pieces.c - the pieces that ranks write tile every tensor; a dumped model reads back from a run's
 * options */
#include "lib/base/mem.h"
#include "lib/model/family.h"
#include "lib/model/options.h"
#include "tests/check.h"

/* A small model with grouped queries, a padded vocabulary and, when tied, a replica on the last
 * stage. */
static struct model_config
small_model(bool untied)
{
	struct model_config c;

	family_defaults(&c);
	c.num_layers = 4;
	c.hidden_size = 24;
	c.ffn_hidden_size = 40;
	c.num_attention_heads = 4;
	c.num_query_groups = 2;
	c.kv_channels = 6;
	c.max_position_embeddings = 32;
	c.vocab_size = 131;
	c.make_vocab_size_divisible_by = 16;
	c.normalization = NORMALIZATION_LAYERNORM;
	c.norm_epsilon = 1e-5;
	c.activation = ACTIVATION_SWIGLU;
	c.position = POSITION_LEARNED;
	c.qkv_bias = c.proj_bias = c.mlp_bias = true;
	c.untie_embeddings_and_output_weights = untied;
	return c;
}

/* Counts the writes of each element by the data ranks of one (tp, pp). */
static void
mark(const struct shards *s, int dp, const struct param *table, unsigned char **seen)
{
	for (int rank = 0; rank < dp; rank++)
		for (int i = 0; i < s->count; i++) {
			const struct shard *sh = &s->item[i];
			const struct param *p = &table[sh->param];
			struct slice slice[SLICE_FLAT_MAX], whole = slice_whole(p->ndim, p->shape);
			struct part own = shard_part(s, sh, rank, dp);
			int n = sh->owner ? shard_slices(sh, &own, slice) : 0;

			for (int k = 0; k < n; k++) {
				int64_t count = slice_elements(&slice[k]);
				unsigned char *one = mem_alloc((size_t)count, 1);

				CHECK(count > 0 && slice_inside(&slice[k], p->ndim, p->shape));
				slice_copy(one, &slice[k], seen[sh->param], &whole, &slice[k], 1);
				for (int64_t j = 0; j < count; j++)
					one[j]++;
				slice_copy(seen[sh->param], &whole, one, &slice[k], &slice[k], 1);
				free(one);
			}
		}
}

/* Every element of every tensor is written by exactly one rank. */
static void
test_tiling(const struct model_config *c, const struct layout *l)
{
	struct param *table;
	int n = model_params(c, &table);
	unsigned char **seen = mem_alloc((size_t)n, sizeof *seen);
	struct err e;

	CHECK(layout_check(l, c, &e) == 0);
	for (int i = 0; i < n; i++)
		seen[i] = mem_zalloc((size_t)param_elements(&table[i]), 1);
	for (int tp = 0; tp < l->tensor_model_parallel_size; tp++)
		for (int pp = 0; pp < l->pipeline_model_parallel_size; pp++) {
			int coord[AX_COUNT] = { [AX_TP] = tp, [AX_PP] = pp };
			struct shards s;

			shards_init(&s, &(struct shards_of){ table, n, c, l, 3000 }, coord);
			mark(&s, (int)l->data_parallel_size, table, seen);
			shards_release(&s);
		}
	for (int i = 0; i < n; i++) {
		bool once = true;

		for (int64_t j = 0; j < param_elements(&table[i]); j++)
			once &= seen[i][j] == 1;
		CHECK(once);
		free(seen[i]);
	}
	free(seen);
	free(table);
}

/* The dump of a model, among options outside the table, reads back to the same model and layout. */
static void
test_text(const struct model_config *c)
{
	struct str text = { 0 }, again = { 0 };
	struct model_config back;
	struct layout l;
	struct err e;

	str_adds(&text, "lr 1e-4\nsave \"a b\"\ndata-path 1 x 2 y\ntensor-model-parallel-size 2\n");
	model_dump(c, &text);
	CHECK(model_from_text("options.conf", text.buf, &back, &l, &e) == 0);
	CHECK(l.tensor_model_parallel_size == 2 && l.pipeline_model_parallel_size == 1 &&
	    l.data_parallel_size == 1);
	model_dump(&back, &again);
	CHECK(strstr(text.buf, again.buf) != NULL);
	str_adds(&text, "num-layers zero\n");
	CHECK(model_from_text("options.conf", text.buf, &back, &l, &e) < 0);
	CHECK(strstr(e.msg, "--num-layers zero: not an integer") != NULL);
	CHECK(model_from_text("options.conf", "lr 1\n", &back, &l, &e) < 0);
	CHECK_STR(e.msg, "options.conf: --num-layers: is needed (or --model CONFIG)");
	str_release(&text);
	str_release(&again);
}

int
main(void)
{
	static const struct layout layouts[] = {
		{ 1, 1, 1, 1 },
		{ 1, 1, 3, 1 },
		{ 2, 1, 1, 2 },
		{ 2, 1, 2, 2 },
		{ 4, 1, 2, 1 },
		{ 4, 1, 5, 4 },
		{ 1, 1, 7, 2 },
	};

	for (int untied = 0; untied < 2; untied++) {
		struct model_config c = small_model(untied);

		for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
			test_tiling(&c, &layouts[i]);
		test_text(&c);
	}
	return check_done();
}

/* blocks.c - tests of the blocks: the lists of the stages make up the model, neighbours agree on
 * the work that one does for the other, each parameter has a number and a name of its own */
#include "lib/model/block/block.h"
#include "lib/model/memory.h"
#include "lib/model/block/rows.h"
#include "lib/model/family.h"
#include "lib/model/work.h"
#include "tests/check.h"
#include "tests/sized_model.h"

static const struct train_shape none = { .recompute = { RECOMPUTE_NONE, RECOMPUTE_UNIFORM, 1 } };

/* A model of this many layers. */
static struct model_config
layers(int64_t n)
{
	struct model_config c = sized_model((struct model_sizes){ n, 64, 8, 8, 128, 32, 500 });

	c.hidden_dropout = 0;
	return c;
}

/* The concatenated lists of the stages are the model's blocks. */
static void
test_stages(void)
{
	struct model_config c = layers(8);

	for (int stages = 1; stages <= 8; stages *= 2) {
		struct layout l = { 1, 1, 1, stages };
		int layer = -1, seen = 0;

		for (int pp = 0; pp < stages; pp++) {
			struct block *b;
			int n = block_list(&c, &l, &none, pp, &b);

			for (int i = 0; i < n; i++, seen++) {
				const struct block_kind *want = seen == 0 ? &block_embedding
				    : seen == 17                          ? &block_head
				    : seen % 2                            ? &block_attention
									  : &block_mlp;

				layer += b[i].kind != &block_mlp && seen > 0;
				CHECK(b[i].kind == want && b[i].layer == layer &&
				    b[i].recompute_chunk == -1);
				CHECK(b[i].local ==
				    (layer < 0 || layer == 8 ? 0 : layer % (8 / stages)));
			}
			free(b);
		}
		CHECK(seen == 18);
	}
}

/* A stage's chunks follow each other in its list, each with layers counted from its first. */
static void
test_chunks(void)
{
	struct model_config c = layers(8);
	const struct layout l = { 1, 1, 1, 2, .virtual_stages = 2 };

	for (int pp = 0; pp < 2; pp++) {
		struct block *b;
		int n = block_list(&c, &l, &none, pp, &b);
		struct block_range first = block_chunk(b, n, 0), second = block_chunk(b, n, 1);

		CHECK(n == 9 && first.first == 0 && first.end == second.first && second.end == n);
		CHECK(first.end == (pp == 0 ? 5 : 4));
		for (int i = second.first; i < second.first + 4; i++)
			CHECK(b[i].chunk == 1 && b[i].layer == 4 + 2 * pp + b[i].local);
		CHECK(!b[second.first].norm_taken && !b[first.end - 1].bias_taken);
		free(b);
	}
}

/* A norm is computed by the block before it, if that ends with a sum; a bias is added by the norm
 * after it, unless dropout comes between, or the sum has another type. */
static void
test_neighbours(void)
{
	struct model_config c = layers(4);
	struct layout l = { 1, 1, 1, 2 };

	for (int i = 0; i < 6; i++) {
		struct train_shape s = { .dtype = DTYPE_BF16,
			.fp32_residual_connection = i / 2 == 2 };
		struct block *b;
		int n;

		c.hidden_dropout = i / 2 == 1 ? 0.1 : 0;
		n = block_list(&c, &l, &s, i % 2, &b);
		CHECK(n == 5);
		for (int k = 0; k < n; k++) {
			bool first = i % 2 ? k == 0 : k <= 1;

			CHECK(b[k].norm_taken == !first);
			CHECK(b[k].bias_taken ==
			    (i / 2 == 0 && k + 1 < n && b[k].kind != &block_embedding));
		}
		free(b);
	}
}

/* A norm of a branch comes between a bias and the sum, and a block without a norm of its input has
 * none to share; the head has its norm always. */
static void
test_placement(void)
{
	struct model_config c = layers(2);
	struct layout l = { 1, 1, 1, 1 };

	for (int i = NORM_PLACEMENT_PRE; i <= NORM_PLACEMENT_POST; i++) {
		struct train_shape s = { .dtype = DTYPE_BF16 };
		struct block *b;
		int n;

		c.norm_placement = (enum norm_placement)i;
		n = block_list(&c, &l, &s, 0, &b);
		for (int k = 1; k + 1 < n; k++) {
			CHECK(!b[k].norm == (i == NORM_PLACEMENT_POST));
			CHECK(!b[k].post == (i == NORM_PLACEMENT_PRE));
			CHECK(b[k].norm_taken == (b[k].norm && k > 1));
			CHECK(b[k].bias_taken == !b[k].post);
		}
		CHECK(b[n - 1].norm && !b[n - 1].post && b[n - 1].norm_taken);
		free(b);
	}
}

/* Chunks of recomputed layers. */
static void
test_recompute(void)
{
	static const struct {
		struct recompute how;
		const int chunk[4]; /* of each layer */
	} cases[] = {
		{ { RECOMPUTE_NONE, RECOMPUTE_UNIFORM, 2 }, { -1, -1, -1, -1 } },
		{ { RECOMPUTE_SELECTIVE, RECOMPUTE_UNIFORM, 2 }, { -1, -1, -1, -1 } },
		{ { RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 1 }, { 0, 1, 2, 3 } },
		{ { RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 3 }, { 0, 0, 0, 1 } },
		{ { RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 9 }, { 0, 0, 0, 0 } },
		{ { RECOMPUTE_FULL, RECOMPUTE_BLOCK, 2 }, { 0, 1, -1, -1 } },
		{ { RECOMPUTE_FULL, RECOMPUTE_BLOCK, 9 }, { 0, 1, 2, 3 } },
	};
	struct model_config c = layers(4);
	struct layout l = { 1, 1, 1, 1 };

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct train_shape s = { .recompute = cases[i].how };
		struct block *b;
		int n = block_list(&c, &l, &s, 0, &b);

		CHECK(n == 10 && b[0].recompute_chunk == -1 && b[9].recompute_chunk == -1);
		for (int k = 1; k < 9; k++)
			CHECK(b[k].recompute_chunk == cases[i].chunk[(k - 1) / 2]);
		free(b);
	}
}

/* A number is that of one row of its block that a layer has, and a name that of one in a layer. */
static void
test_statements(void)
{
	const struct model_config c = layers(2);

	for (const struct block_kind *const *k = block_kinds; *k; k++) {
		struct param_list all = block_params(*k, &c, c.num_layers);

		CHECK(all.count > 0);
		for (int i = 0; i < all.count; i++)
			for (int j = 0; j < i; j++)
				CHECK((all.row[i].number != all.row[j].number ||
					  all.row[i].when != all.row[j].when) &&
				    strcmp(all.row[i].name, all.row[j].name) != 0);
	}
}

/* Elements of a block's matrices that GEMMs read: all except the embedding's tables, which are
 * looked up. */
static int64_t
matrix_elements(const struct block_kind *kind, const struct model_config *c)
{
	struct param *p;
	int64_t sum = 0;
	int n = model_params(c, &p);

	for (int i = 0; i < n; i++)
		if (p[i].number >> BLOCK_SHIFT == block_number(kind) && p[i].layer != 0 &&
		    p[i].ndim == 2)
			sum += param_elements(&p[i]);
	free(p);
	return kind == &block_embedding ? 0 : sum;
}

/* A block multiplies each row of tokens by all of its matrices, divided over tensor ranks. Layer 0
 * of two is left out, so that each kind occurs once. */
static void
test_work(void)
{
	struct model_config c = layers(2);
	struct train_shape s = { .seq_length = 32, .micro_batch_size = 3 };

	c.untie_embeddings_and_output_weights = true;
	c.make_vocab_size_divisible_by = 1;
	c.vocab_size = 512;
	for (int i = 0; i < 4; i++) {
		struct layout l = { i % 2 ? 4 : 1, 1, 1, 1 };

		c.activation = i / 2 ? ACTIVATION_SWIGLU : ACTIVATION_RELU2;
		for (const struct block_kind *const *k = block_kinds; *k; k++) {
			int64_t sum = 0;
			struct work w;

			if (*k == &block_moe || *k == &block_mtp)
				continue;
			work_of(&w, *k, &c, &l, &s);
			for (int n = 0; n < w.num_gemms; n++) {
				CHECK(w.gemm[n].rows == 96);
				sum += w.gemm[n].out * w.gemm[n].in;
			}
			CHECK(sum * l.tensor_model_parallel_size == matrix_elements(*k, &c));
			CHECK((w.attention > 0) == (*k == &block_attention));
			CHECK(w.forward.act + w.forward.stream > 0 && w.reductions > 0);
			CHECK(w.backward.act + w.backward.stream > 0);
			CHECK(w.scatters >= 2 * w.reductions);
		}
	}
}

/* A row is multiplied by topk experts and that of all tokens; the router does not count. */
static void
test_expert_work(void)
{
	struct model_config c = layers(1);
	struct train_shape s = { .seq_length = 32, .micro_batch_size = 3 };
	struct layout l = { 1, 1, 1, 1 };
	struct work w;
	int64_t sum = 0, h = c.hidden_size;

	c.num_experts = 8;
	c.moe_router_topk = 3;
	c.moe_ffn_hidden_size = 24;
	c.moe_shared_expert_intermediate_size = 40;
	c.activation = ACTIVATION_SWIGLU;
	work_of(&w, &block_moe, &c, &l, &s);
	for (int n = 0; n < w.num_gemms; n++)
		sum += w.gemm[n].rows * w.gemm[n].out * w.gemm[n].in;
	CHECK(sum == 96 * 3 * h * (3 * 24 + 40));
}

/* Layers after the head are like the last of the model's, and have what they begin and end with: on
 * the last stage, in passes that train. Each tensor rank multiplies by the whole projection. */
static void
test_later(void)
{
	struct model_config c = layers(3);
	struct train_shape s = { .seq_length = 32, .micro_batch_size = 3 };
	struct layout l = { 1, 1, 1, 2, .split = { 2, 1 }, .virtual_stages = 1 };
	static const struct block_kind *const want[] = { &block_attention, &block_mlp, &block_head,
		&block_mtp, &block_attention, &block_mlp, &block_head, &block_mtp, &block_attention,
		&block_mlp, &block_head };
	static const int layer[] = { 2, 2, 3, 4, 4, 4, 4, 5, 5, 5, 5 },
			 local[] = { 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2 };
	struct block *b;
	struct work w;
	int n;

	c.mtp_num_layers = 2;
	n = block_list(&c, &l, &s, 1, &b);
	CHECK(n == sizeof want / sizeof *want);
	for (int i = 0; i < n; i++)
		CHECK(b[i].kind == want[i] && b[i].layer == layer[i] && b[i].local == local[i]);
	free(b);
	s.forward_only = true;
	CHECK(block_list(&c, &l, &s, 1, &b) == 3);
	free(b);
	CHECK(block_list(&c, &l, &s, 0, &b) == 5);
	free(b);
	l = (struct layout){ 4, 1, 1, 1 };
	work_of(&w, &block_mtp, &c, &l, &s);
	CHECK(w.num_gemms == 1 && w.gemm[0].rows == 96 && w.gemm[0].out == c.hidden_size &&
	    w.gemm[0].in == 2 * c.hidden_size);
}

int
main(void)
{
	test_later();
	test_work();
	test_expert_work();
	test_stages();
	test_chunks();
	test_neighbours();
	test_placement();
	test_recompute();
	test_statements();
	return check_done();
}

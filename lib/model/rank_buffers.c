/*
 * rank_buffers.c - the buffers of a rank that belong to no block, or to several
 *
 * The run's arrays, a micro batch, and the scratch through which blocks pass data. Sharded weights
 * and gradients hold the rank's own elements, plus slots in which buckets are whole.
 */
#include "lib/model/rank_buffers.h"
#include "lib/base/int64.h"
#include "lib/model/block/latent.h"
#include "lib/model/block/linears.h"
#include "lib/model/capacity.h"

enum { SCALARS = 64 };

/* The phases of the backward pass of a layer. */
enum { BWD = MLP_BWD | ATTN_BWD | QKV_BWD };

/* Messages of stages that go beside passes are at the beginning of the arena on every stage. */
static void
state_weights(struct buffer_list *to, const struct sizes *z, const struct rank_share *has)
{
	const struct train_shape *s = z->shape;
	int64_t all = has->shards->elements, largest = has->shards->largest,
		slot_elements = has->shards->slot_elements,
		data_ranks = layout_most_data_ranks(z->layout),
		/* the parts that the other data ranks have of a bucket, if no more pass at a
		 * time */
	    passing = int64_min(largest - largest / data_ranks, BUCKET_PASSING);
	bool overlap = layout_schedule(z->layout, 1, true).overlap, trains = z->trains,
	     shared = data_ranks > 1, reduces = trains && shared, in_8 = s->grad_reduce_in_bf16,
	     parts = s->sharding >= SHARDING_PARAMS, grads = s->sharding >= SHARDING_GRADS;
	const struct buffer_row rows[] = {
		{ "messages of stages", BUF_RECEIVE, RUN, overlap, RESIDUAL,
		    { 2 * z->rows, z->hidden } },
		{ "weights", BUF_WEIGHTS, RUN, true, ACT, { parts ? has->shard_elements : all } },
		{ "gathered weights", BUF_WEIGHT_SLOTS, RUN, shared && parts, ACT,
		    { slot_elements } },
		{ "main gradients", BUF_GRADS, RUN, trains, GRADS,
		    { grads ? has->shard_elements : all } },
		{ "gradients to reduce", BUF_GRAD_SLOTS, RUN, reduces && grads, COMPUTE,
		    { slot_elements } },
		{ "narrow gradients", BUF_BF16_GRADS, RUN, reduces && in_8, BF16, { largest } },
		{ "replicas' gradients", BUF_DATA_RANK_GRADS, RUN, reduces && in_8, BF16,
		    { largest } },
		{ "replicas' gradients", BUF_DATA_RANK_GRADS, RUN, reduces && !in_8, COMPUTE,
		    { passing } },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* What an update reads and writes besides weights and gradients, of the elements that the device
 * updates, and of those of the host. Masters are in real, or weights in BF16 with low bits. */
static void
state_masters(struct buffer_list *to, const struct sizes *z, const struct rank_share *has)
{
	const struct train_shape *s = z->shape;
	int64_t device = has->optim_device, host = has->optim_elements - device,
		staging = s->averaged || host > 0 ? 2 * has->staging : 0;
	bool rest = s->optim.low_bits, masters = !rest && s->dtype != memory_compute(s->dtype);
	const struct buffer_row rows[] = {
		{ "master weights", BUF_MASTER, RUN, masters, COMPUTE, { device } },
		{ "remainders of weights", BUF_LOW_BITS, RUN, rest, U16, { device } },
		{ "weights", BUF_HOST_WEIGHTS, HOST, true, ACT, { host } },
		{ "master weights", BUF_HOST_MASTER, HOST, masters, COMPUTE, { host } },
		{ "remainders of weights", BUF_HOST_LOW_BITS, HOST, rest, U16, { host } },
		{ "average of weights", BUF_AVERAGE, HOST, s->averaged, COMPUTE,
		    { has->optim_elements } },
		{ "ring to the host", BUF_STAGING_RING, HOST, true, COMPUTE, { staging } },
	};

	if (z->trains)
		state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* The states of the update rule, by what each is kept of. */
static void
state_optimizer(struct buffer_list *to, const struct sizes *z, const struct rank_share *has)
{
	int64_t host = has->optim_elements - has->optim_device;

	for (int i = 0; z->trains && i < optim_num_states(has->rule); i++) {
		enum element type = (enum element)(STATE + i);
		const char *name = has->rule->states[i];
		int64_t n = !optim_keeps(has->rule, i, true)
		    ? has->optim_elements - has->optim_matrices
		    : !optim_keeps(has->rule, i, false) ? has->optim_matrices
							: has->optim_device;
		const struct buffer_row rows[] = {
			{ name, BUF_STATE + i, RUN, true, type, { n } },
			{ name, BUF_HOST_STATE + i, HOST, true, type, { host } },
		};

		state_buffers(to, rows, sizeof rows / sizeof *rows);
	}
}

/* Constants and sums of the run. */
static void
state_run(struct buffer_list *to, const struct sizes *z, const struct rank_share *has)
{
	const struct model_config *c = z->model;
	bool rope = c->position == POSITION_ROPE;
	int64_t rotary = model_rotary_dim(c),
		heads = model_transforms(c) * c->num_attention_heads /
	    z->layout->tensor_model_parallel_size;
	const struct buffer_row rows[] = {
		{ "rotary table", BUF_ROPE, RUN, rope, COMPUTE, { z->positions, rotary } },
		{ "window rotary table", BUF_WINDOW_ROPE, RUN,
		    rope && c->sliding_window_rope_base > 0, COMPUTE, { z->positions, rotary } },
		{ "scalars", BUF_SCALARS, RUN, true, F64, { SCALARS } },
		{ "largest scores", BUF_SCORES, RUN, z->trains && z->shape->qk_clip, COMPUTE,
		    { heads } },
		/* twice: of the loss, and of each of the tensors */
		{ "hashes", BUF_HASHES, RUN, z->trains && z->shape->hashed, I64,
		    { 2 * (1 + has->shards->count) } },
		/* of every layer with experts: their loads, and the sums of its losses */
		{ "router sums", BUF_ROUTER_SUMS, RUN, z->trains && c->num_experts, F64,
		    { model_routers(c), c->num_experts + ROUTER_COLUMNS } },
		/* of each of these layers, of all data ranks in the micro batches of the step */
		{ "loads of the step", BUF_ROUTER_LOADS, RUN,
		    z->trains && model_balances_globally(c), F64,
		    { model_routers(c), c->num_experts } },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* A micro batch, and what a pass hands on: its output, or the gradient that it updates in place. */
static void
state_batch(struct buffer_list *to, const struct sizes *z)
{
	const struct train_shape *s = z->shape;
	bool last = z->pp == z->layout->pipeline_model_parallel_size - 1,
	     stage_outputs = z->trains || layout_chunks(z->layout) > 1 || !last;
	int64_t t = z->tokens, documents = s->context_form == CONTEXT_HEADS ? z->all_tokens : t;
	const struct buffer_row rows[] = {
		{ "tokens", BUF_TOKENS, BATCH, true, I32, { t } },
		{ "labels", BUF_LABELS, BATCH, true, I32, { t } },
		{ "positions", BUF_POSITIONS, BATCH, true, I32, { t } },
		{ "loss mask", BUF_LOSS_MASK, BATCH, true, F32, { t } },
		{ "starts of documents", BUF_DOCUMENTS, BATCH, s->reset_attention_mask, I32,
		    { documents } },
		{ "kept positions", BUF_KEPT, BATCH, s->kept_positions > 0, I32, { 1 } },
		/* those one token on, two tokens on, and so forth, of all rows each */
		{ "later labels", BUF_LATER_LABELS, BATCH, z->later > 0, I32, { z->later * t } },
		{ "mask of later labels", BUF_LATER_MASK, BATCH, z->later > 0, F32,
		    { z->later * t } },
		{ "positions of later tokens", BUF_LATER_POSITIONS, BATCH,
		    z->later > 0 && z->model->position == POSITION_LEARNED, I32, { z->later * t } },
		{ "output or gradient", BUF_STAGE_OUTPUT, STAGE_OUTPUT, stage_outputs, RESIDUAL,
		    { z->rows, z->hidden } },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* Between the blocks of tensor ranks: the gathered input of a GEMM, or a GEMM's partial sums before
 * they are scattered, of hidden states or latents. With overlap gathered gradients last until the
 * weight's is made, beside what comes for other GEMMs. */
static void
state_tensor(struct buffer_list *to, const struct sizes *z)
{
	struct latent_sizes latent = latent_sizes_of(z->model);
	int64_t t = z->tokens, h = z->hidden,
		others = t - t / z->layout->tensor_model_parallel_size,
		widest = int64_max(h, int64_max(latent.q, latent.kv));
	bool rows_apart = layout_row_shards(z->layout) > 1,
	     overlap = rows_apart && z->shape->tp_comm_overlap && z->trains;
	const struct buffer_row rows[] = {
		{ "rows of all tensor ranks", BUF_GATHERED, STEP, rows_apart, ACT, { t, widest },
		    ANY },
		{ "output gradients of all tensor ranks", BUF_DGATHERED, STEP, overlap, ACT,
		    { t, h }, BWD },
		{ "sums of other tensor ranks", BUF_PARTIAL_SUMS, STEP,
		    capacity_in_parts(z->layout, z->shape), ACT, { others, widest },
		    FWD | MLP_BWD | QKV_BWD | HEAD },
		{ "partial sums", BUF_PARTIAL, STEP, overlap, ACT, { t, h }, MLP_BWD | QKV_BWD },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* The end of a block, and the gradients there. */
static void
state_branch(struct buffer_list *to, const struct sizes *z)
{
	const struct model_config *c = z->model;
	bool trains = z->trains,
	     dropped = c->embedding_dropout > 0 || branch_has_own_gradient(c, z->shape),
	     post = model_post_norm(c), parallel = c->use_parallel_residual;
	int64_t r = z->rows, h = z->hidden;
	const struct buffer_row rows[] = {
		{ "block output", BUF_BRANCH, STEP, true, ACT, { r, h }, FWD },
		{ "block output gradient", BUF_DBRANCH, STEP, trains && dropped, ACT, { r, h },
		    MLP_BWD | ATTN_BWD },
		{ "post norm input gradient", BUF_DPOST, STEP, trains && post, ACT, { r, h },
		    MLP_BWD | ATTN_BWD },
		/* of the sum at the end of a layer, without what its MLP adds to that of its
		 * input */
		{ "layer output gradient", BUF_DSUM, STEP, trains && parallel, RESIDUAL, { r, h },
		    MLP_BWD | ATTN_BWD },
		{ "norm output gradient", BUF_DNORM, STEP, trains, ACT, { r, h },
		    MLP_BWD | QKV_BWD },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* Of a matrix for each tensor rank, this rank's part; then of one matrix all parts; and the
 * matrices that are multiplied. */
static void
state_matrices(struct buffer_list *to, const struct sizes *z, const struct rank_share *has)
{
	const struct train_shape *s = z->shape;
	bool cut = z->layout->tensor_model_parallel_size > 1 || layout_expert_slices(z->layout) > 1;
	int64_t n = has->matrix, gram = has->gram;
	const struct buffer_row rows[] = {
		{ "updates of matrices", BUF_UPDATES, STEP, true, COMPUTE, { has->updates },
		    OPTIM },
		{ "gathered update", BUF_UPDATES_GATHERED, STEP, cut, COMPUTE, { n }, OPTIM },
		{ "matrix", BUF_MATRIX, STEP, true, UPDATE, { n }, OPTIM },
		{ "next matrix", BUF_MATRIX_NEXT, STEP, true, UPDATE, { n }, OPTIM },
		{ "Gram matrix", BUF_GRAM, STEP, true, UPDATE, { gram }, OPTIM },
		{ "next Gram matrix", BUF_GRAM_NEXT, STEP, true, UPDATE, { gram }, OPTIM },
	};

	if (z->trains && s->rule && s->rule->matrix_states)
		state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* --- 8-bit operands --------------------------------------------------------------------------- */

/* Sums over the linears of the rank's layers: elements of copies of weights, and the scales of
 * their blocks, of the copies and of the transposed ones. */
struct copies {
	int64_t weights, squares, transposed;
};

static int64_t
num_squares(int64_t r, int64_t k)
{
	struct fp8_squares s = fp8_squares(r, k);

	return s.rows * s.columns;
}

static struct copies
copies_of(const struct sizes *z, const struct rank_share *has)
{
	struct copies sum = { 0 };

	for (int i = 0; i < has->num_blocks; i++) {
		struct linear_list x = block_linears(has->block[i].kind, z);

		for (int k = 0; has->block[i].fp8 >= 0 && k < x.count; k++) {
			const struct linear_row *l = &x.row[k];
			int64_t rows = l->count * l->out;

			sum.weights += rows * l->in;
			sum.squares += num_squares(rows, l->in);
			sum.transposed += num_squares(l->in, rows);
		}
	}
	return sum;
}

/* Copies of weights are of a stage's linears in the order of their layers, renewed when weights
 * change. */
static void
state_fp8_weights(struct buffer_list *to, const struct sizes *z, const struct rank_share *has)
{
	struct copies n = copies_of(z, has);
	bool trains = z->trains, blocks = z->shape->fp8.recipe == FP8_BLOCKWISE,
	     history = trains && z->shape->fp8.recipe == FP8_DELAYED;
	int64_t slots = fp8_num_slots(z->model), steps = z->shape->fp8.history_len;
	const struct buffer_row rows[] = {
		{ "fp8 weights", BUF_FP8_WEIGHTS, RUN, true, F8, { n.weights } },
		{ "fp8 transposed weights", BUF_FP8_TRANSPOSED, RUN, trains, F8, { n.weights } },
		{ "fp8 scales", BUF_FP8_SCALE, RUN, !blocks, F32, { slots, FP8_SCALE_ROW } },
		{ "fp8 amax", BUF_FP8_AMAX, RUN, history, F32, { slots } },
		{ "fp8 amax history", BUF_FP8_HISTORY, RUN, history, F32, { slots, steps } },
		{ "fp8 largest numbers", BUF_FP8_LARGEST, RUN, history, F32, { slots } },
		{ "fp8 scales of weights", BUF_FP8_SQUARES, RUN, blocks, F32, { n.squares } },
		{ "fp8 scales of transposed weights", BUF_FP8_SQUARES_TRANSPOSED, RUN,
		    blocks && trains, F32, { n.transposed } },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* The widest input and the widest output of the model's linears, and the wider side of those of
 * experts; and whether the rank has such linears, and those whose gradient waits. */
struct operands {
	int64_t in, out, expert;
	bool experts, waits;
};

static struct operands
operands_of(const struct sizes *z, const struct rank_share *has)
{
	struct linear_list all = model_linears(z);
	struct operands o = { 0 };

	for (int i = 0; i < all.count; i++) {
		const struct linear_row *l = &all.row[i];

		if (l->experts) {
			o.expert = int64_max(o.expert, int64_max(l->in, l->out));
			continue;
		}
		o.in = int64_max(o.in, l->in);
		o.out = int64_max(o.out, l->out);
	}
	for (int i = 0; i < has->num_blocks; i++) {
		struct linear_list x = block_linears(has->block[i].kind, z);

		for (int k = 0; k < x.count; k++) {
			o.experts |= x.row[k].experts;
			o.waits |= x.row[k].waits;
		}
	}
	return o;
}

/* Of one GEMM: its input, summed along its channels or, in the backward pass, along tokens; the
 * gradient of an output both ways, for two, and one that waits; and of one grouped GEMM, input or
 * output gradient, summed along channels alone. */
static void
state_fp8_operands(struct buffer_list *to, const struct sizes *z, const struct rank_share *has)
{
	struct operands n = operands_of(z, has);
	bool trains = z->trains, blocks = z->shape->fp8.recipe == FP8_BLOCKWISE;
	int64_t t = z->tokens, h = z->hidden, lines = fp8_lines(t),
		x_lines = int64_max(fp8_lines(n.in) * t, lines * n.in),
		p = n.experts ? capacity_received(z->model, z->layout, z->shape).round : 0;
	const struct buffer_row operands[] = {
		{ "fp8 input", BUF_FP8_X, STEP, true, F8, { t, n.in }, FWD | BWD },
		{ "fp8 output gradient", BUF_FP8_DY, STEP, trains, F8_GRAD, { t, n.out }, BWD },
		{ "fp8 transposed output gradient", BUF_FP8_DY_TRANSPOSED, STEP, trains, F8_GRAD,
		    { t, n.out }, BWD },
		{ "fp8 transposed fc2 output gradient", BUF_FP8_FC2_DY_TRANSPOSED, STEP,
		    trains && n.waits, F8_GRAD, { h, t }, MLP_BWD },
		{ "fp8 rows of experts", BUF_FP8_EXPERT, STEP, n.experts, F8, { p, n.expert },
		    FWD | MLP_BWD },
	};
	const struct buffer_row scales[] = {
		{ "fp8 scales of input", BUF_FP8_X_LINES, STEP, true, F32, { x_lines }, FWD | BWD },
		{ "fp8 scales of output gradient", BUF_FP8_DY_LINES, STEP, trains, F32,
		    { fp8_lines(n.out) * t }, BWD },
		{ "fp8 scales of transposed output gradient", BUF_FP8_DY_TRANSPOSED_LINES, STEP,
		    trains, F32, { lines * n.out }, BWD },
		{ "fp8 scales of transposed fc2 output gradient", BUF_FP8_FC2_DY_TRANSPOSED_LINES,
		    STEP, trains && n.waits, F32, { lines, h }, MLP_BWD },
		{ "fp8 scales of rows of experts", BUF_FP8_EXPERT_LINES, STEP, n.experts, F32,
		    { fp8_lines(n.expert) * p }, FWD | MLP_BWD },
	};

	state_buffers(to, operands, sizeof operands / sizeof *operands);
	if (blocks)
		state_buffers(to, scales, sizeof scales / sizeof *scales);
}

void
rank_buffers(struct buffer_list *to, const struct sizes *z, const struct rank_share *has)
{
	bool fp8 = z->shape->fp8.format != FP8_NONE;

	state_weights(to, z, has);
	state_masters(to, z, has);
	state_run(to, z, has);
	if (fp8)
		state_fp8_weights(to, z, has);
	state_optimizer(to, z, has);
	state_batch(to, z);
	state_tensor(to, z);
	state_branch(to, z);
	state_matrices(to, z, has);
	if (fp8)
		state_fp8_operands(to, z, has);
}

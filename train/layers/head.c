/*
 * head.c - final norm, output table and loss, in chunks of token rows so that logits never fill the
 * memory
 *
 * The gradient of the logits is computed in the forward pass, while they exist: what is saved for
 * the backward pass is the gradient of the final norm's output. The chunk size depends on the model
 * alone (head_rows), so that the order of the sums does not depend on the layout. Source:
 * docs/math.md 2.8 and docs/parallelism.md 2.2.
 */
#include "lib/base/int64.h"
#include "lib/model/block/embedding.h"
#include "lib/model/block/head.h"
#include "train/engine/timing.h"
#include "train/layers/layer.h"
#include "train/layers/linear.h"
#include "train/layers/mtp.h"
#include "train/layers/norm.h"

/* The output table: its own, or the word embeddings'. Tied embeddings live on the first stage;
 * the last has a copy of them, which groups.embedding keeps equal. */
static struct tensor
table(const struct engine *e, bool grad)
{
	bool untied = e->plan.model.untie_embeddings_and_output_weights;

	return engine_joined(e, grad, untied ? (int)e->plan.model.num_layers : -1,
	    untied ? HEAD_OUTPUT : EMBEDDING_WORDS, untied ? HEAD_OUTPUT : EMBEDDING_WORDS);
}

/* The statistics of each tensor rank's columns, in rank order on all ranks. None with one rank: the
 * loss computes them itself. */
static struct tensor
statistics(struct engine *e, const struct xent *x)
{
	struct comm *tp = e->groups.tp;
	struct tensor none = { .data = NULL }, all = engine_buffer(e, HEAD_STATS);
	int64_t rows = x->logits.shape[0];
	struct xent part = *x;

	if (tp->size == 1)
		return none;
	all = tensor_rows(&all, 0, rows * tp->size);
	part.stats = tensor_rows(&all, rows * tp->rank, rows);
	e->ops->xent_stats(e->stream, &part);
	timing_begin(e, SPAN_TENSOR);
	tp->ops->all_gather(COMM_HERE(tp), e->stream, &(struct comm_gather){ all, part.stats });
	timing_end(e, SPAN_TENSOR);
	return all;
}

/* The columns of a chunk of logits that are no padding. */
static int64_t
valid_columns(const struct engine *e, int64_t columns)
{
	int64_t left = e->plan.model.vocab_size - columns * e->coord[AX_TP];

	return int64_max(0, int64_min(left, columns));
}

/* The number of a head: that of the next token is the first. */
static int
number_of(const struct layer *l, const struct engine *e)
{
	return l->block->layer - (int)e->plan.model.num_layers;
}

/* Whether a layer after the head reads what it reads. */
static bool
is_followed(const struct layer *l, const struct step *s)
{
	return s->training && l->block->layer < model_end(&s->e->plan.model);
}

/* What multiplies the loss of a head beside its mask: the losses of later tokens count as their
 * mean does. */
static double
weight_of(const struct engine *e, int number)
{
	const struct model_config *c = &e->plan.model;

	return number ? c->mtp_loss_scaling_factor / (double)c->mtp_num_layers : 1;
}

/* Loss of the rows of one chunk; the logits become their gradient. Padding columns beyond the
 * vocabulary are left out of the maximum and the sums, and get gradient zero; evaluation asks
 * for no gradient by scale 0. */
static void
cross_entropy(const struct layer *l, struct step *s, int64_t first, const struct tensor *logits)
{
	struct engine *e = s->e;
	int number = number_of(l, e);
	int64_t rows = logits->shape[0], columns = logits->shape[1];
	struct tensor labels = later_labels(s, number), mask = later_mask(s, number);
	struct tensor loss = engine_buffer(e, HEAD_LOSS), zloss = engine_buffer(e, HEAD_ZLOSS);
	struct xent x = {
		.logits = *logits,
		.labels = tensor_rows(&labels, first, rows),
		.mask = tensor_rows(&mask, first, rows),
		.parts = e->groups.tp->size,
		.loss = tensor_rows(&loss, first, rows),
		.zloss = tensor_rows(&zloss, first, rows),
		.first_column = columns * e->coord[AX_TP],
		.z_loss = number ? 0 : e->z_loss,
		.grad_scale = s->training ? e->token_scale * weight_of(e, number) : 0,
		.softcap = e->plan.model.final_logit_softcapping,
		.valid_columns = valid_columns(e, columns),
	};

	x.stats = statistics(e, &x);
	e->ops->xent_loss(e->stream, &x);
	/* What has no weight has no gradient, which the operation then leaves to the caller. */
	if (s->training && !(x.grad_scale > 0))
		e->ops->fill(e->stream, &(struct fill){ *logits, 0 });
}

/* The likeliest token of each row of a chunk, among this rank's columns. */
static void
find_likeliest(struct step *s, int64_t first, const struct tensor *logits)
{
	struct engine *e = s->e;
	struct tensor value = engine_buffer(e, HEAD_BEST),
		      index = engine_buffer(e, HEAD_BEST_TOKEN);
	int64_t rows = logits->shape[0], columns = logits->shape[1];

	e->ops->argmax(e->stream,
	    &(struct argmax){ .logits = *logits,
		.value = tensor_rows(&value, first, rows),
		.index = tensor_rows(&index, first, rows),
		.first_column = columns * e->coord[AX_TP],
		.valid_columns = valid_columns(e, columns) });
}

/* Copies this tensor rank's columns of a chunk to the host, not capped. */
static void
keep_logits(struct step *s, int64_t first, const struct tensor *logits)
{
	struct engine *e = s->e;
	size_t before = (size_t)(first - s->first_logits) * (size_t)logits->shape[1];

	e->backend->copy_out(e->stream, (char *)s->logits + before * dtype_size(logits->dtype),
	    logits->data, tensor_bytes(logits));
}

/* Rows [first, first + count) of x and dx [T,h]. */
struct row_range {
	struct tensor x, dx;
	int64_t first, count;
};

/* The logits, or their gradient, divided by the model's number, if it has one. */
static void
divide(struct step *s, const struct tensor *logits)
{
	double by = s->e->plan.model.logits_scaling;
	struct axpby a = { .y = *logits, .x = *logits };

	if (!(by > 0))
		return;
	a.a = 1 / by;
	s->e->ops->axpby(s->e->stream, &a);
}

/* One chunk of token rows: x holds the final norm's output, dx its gradient from this rank's
 * columns. The table's gradient is added to main gradients here already, in the forward pass: the
 * logits' gradient does not outlive the chunk. The first chunk of the first head writes it in the
 * first micro batch. dx may be x, so its GEMM is the last. */
static void
chunk(const struct layer *l, struct step *s, const struct row_range *r)
{
	struct engine *e = s->e;
	struct tensor all = layer_buffer(l, s, HEAD_LOGITS),
		      logits = tensor_rows(&all, 0, r->count),
		      x = tensor_rows(&r->x, r->first, r->count), weight = table(e, false);
	struct linear out_table = { .y = logits, .x = x, .weight = weight };

	forward_gemm(s, &out_table);
	divide(s, &logits);
	if (e->plan.shape.likeliest)
		find_likeliest(s, r->first, &logits);
	if (s->logits)
		keep_logits(s, r->first, &logits);
	else
		cross_entropy(l, s, r->first, &logits);
	if (s->training) {
		struct linear_grad g = { .dx = tensor_rows(&r->dx, r->first, r->count),
			.dy = logits,
			.x = x,
			.weight = weight,
			.dweight = table(e, true) };
		struct step weights = *s;

		divide(s, &logits);
		weights.accumulate = s->accumulate || r->first > 0 || number_of(l, e) > 0;
		weight_gradient(&weights, &g);
		input_gradient(s, &g);
	}
}

/* Runs all chunks of rows, or of those whose logits are wanted. The table's input is gathered once,
 * and its gradient summed once. */
static void
all_chunks(const struct layer *l, struct step *s, const struct tensor *normed)
{
	struct tensor grad = layer_buffer(l, s, HEAD_GRAD);
	struct row_range r = { .x = gather_rows(s, normed),
		.dx = partial_sums(s, &grad),
		.first = s->logits ? s->first_logits : 0 };
	int64_t rows = r.x.shape[0], step = memory_buffer(&s->e->mem, HEAD_LOGITS)->shape[0];

	for (; r.first < rows; r.first += step) {
		r.count = rows - r.first < step ? rows - r.first : step;
		chunk(l, s, &r);
	}
	if (s->training)
		scatter_sums(s, &grad);
}

/* Copies what is known of the tokens to the host, one array after the other. Queued: they arrive no
 * later than the step's scalars. */
static void
keep_losses(struct step *s, const struct tensor *loss, const struct tensor *mask)
{
	struct engine *e = s->e;
	struct tensor kept[] = { *loss, *mask, engine_buffer(e, HEAD_BEST),
		engine_buffer(e, HEAD_BEST_TOKEN) };
	char *to = s->losses;

	for (size_t i = 0; i < sizeof kept / sizeof *kept && kept[i].data; i++) {
		e->backend->copy_out(e->stream, to, kept[i].data, tensor_bytes(&kept[i]));
		to += tensor_bytes(&kept[i]);
	}
}

/* Adds the sums of loss times mask over this micro batch to the step's scalars, or gives logits. y
 * is the hidden state of a layer after the head, and unused where none follows. */
static void
forward(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct tensor scalars = engine_buffer(e, BUF_SCALARS);
	int number = number_of(l, e);
	struct tensor mask = later_mask(s, number), loss = layer_buffer(l, s, HEAD_LOSS);
	struct tensor zloss = layer_buffer(l, s, HEAD_ZLOSS),
		      sum = tensor_rows(
			  &scalars, number ? SCALAR_LATER + number - 1 : SCALAR_LOSS, 1);
	struct tensor zsum = tensor_rows(&scalars, SCALAR_ZLOSS, 1);
	struct tensor normed = norm_forward(l, s, x);

	all_chunks(l, s, &normed);
	if (is_followed(l, s))
		e->ops->cast(e->stream, &(struct pair){ *y, normed });
	if (s->logits)
		return;
	e->ops->dot(e->stream, &(struct dot){ sum, loss, mask });
	if (number == 0)
		e->ops->dot(e->stream, &(struct dot){ zsum, zloss, mask });
	if (s->losses)
		keep_losses(s, &loss, &mask);
}

/* The norm's output has a gradient from the logits and, in dx, from a layer after the head.
 * norm_backward adds to dx, since elsewhere the residual's gradient is there already; here there is
 * none, hence the zeros. */
static void
backward(const struct layer *l, struct step *s, const struct tensor *dx, const struct tensor *x)
{
	struct norm_flow flow = { *dx, layer_buffer(l, s, HEAD_GRAD), *x };

	if (is_followed(l, s)) {
		s->e->ops->add(s->e->stream, &(struct pair){ *dx, flow.dy });
		s->e->ops->cast(s->e->stream, &(struct pair){ flow.dy, *dx });
	}
	s->e->ops->fill(s->e->stream, &(struct fill){ *dx, 0 });
	norm_backward(l, s, &flow);
}

static const enum use uses[] = { OP_add, OP_argmax, OP_axpby, OP_cast, OP_dot, OP_fill,
	OP_xent_loss, OP_xent_stats, CALL_all_gather, USES_END };

const struct layer_kind layer_head = { &block_head, SITE_COUNT, forward, backward, .uses = uses };

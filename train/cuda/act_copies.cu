/*
 * act_copies.cu - activations and their gradients that go into 8 bits as they are made
 *
 * Of SwiGLU's backward pass, with y rebuilt for its transpose and nothing kept in 16 bits, 11 bytes
 * an element of y are moved in place of 23. The kind is known when a kernel is compiled: all of
 * them together, unrolled, are more instructions than the caches for these hold.
 */
#include "train/cuda/act.cuh"
#include "train/cuda/produce.cuh"

/* What both passes read. */
struct act_inputs {
	int64_t columns;     /* of y */
	struct tensor x, dy; /* dy: of the backward pass */
	struct gate_bounds bounds;
};

/* Makes y. */
template <int KIND> struct act_maker {
	enum { RESULTS = 1 };
	struct act_inputs in;
};

/* Makes the gradient at x; of a gated kind, at the gate and at what is gated. */
template <int KIND> struct act_grad_maker {
	enum {
		RESULTS =
		    KIND == ACT_SWIGLU || KIND == ACT_GEGLU_TANH || KIND == ACT_QUICK_GEGLU ? 2 : 1
	};
	struct act_inputs in;
};

/* Four rows of what is read. */
struct act_rows {
	pack<bf16, COLUMNS> gate[ROWS], up[ROWS], dy[ROWS];
};

/* Zeros where there is nothing. All is asked for in one branch, before anything is waited for. */
template <int KIND, bool GRAD>
static __device__ inline struct act_rows
fetch_rows(const struct act_inputs &in, const struct spot &s)
{
	struct act_rows r = {};

	if (s.inside)
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			const bf16 *x = row_of<bf16>(in.x, s.row + i) + s.column;

			r.gate[i] = fetch<bf16, COLUMNS>(x);
			if (is_gated((enum act_kind)KIND))
				r.up[i] = fetch<bf16, COLUMNS>(x + in.columns);
			if (GRAD)
				r.dy[i] =
				    fetch<bf16, COLUMNS>(row_of<bf16>(in.dy, s.row + i) + s.column);
		}
	return r;
}

template <int KIND>
static __device__ inline struct made<act_maker<KIND>>
make(const struct act_maker<KIND> &m, const struct spot &s) {
	const struct act_rows in = fetch_rows<KIND, false>(m.in, s);
	const struct act_curve a = { (enum act_kind)KIND, m.in.bounds };
	struct made<act_maker<KIND>> r;

#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		float gate[COLUMNS], up[COLUMNS], y[COLUMNS];

		unpack(gate, in.gate[i]);
		unpack(up, in.up[i]);
		act_forward(a, y, gate, up);
		r.of[0][i] = packed<bf16, COLUMNS>(y);
	}
	return r;
}

template <int KIND>
static __device__ inline struct made<act_grad_maker<KIND>>
make(const struct act_grad_maker<KIND> &m, const struct spot &s) {
	const struct act_rows in = fetch_rows<KIND, true>(m.in, s);
	const struct act_curve a = { (enum act_kind)KIND, m.in.bounds };
	struct made<act_grad_maker<KIND>> r;

#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		float gate[COLUMNS], up[COLUMNS], dy[COLUMNS], y[COLUMNS];

		unpack(gate, in.gate[i]);
		unpack(up, in.up[i]);
		unpack(dy, in.dy[i]);
		act_backward(a, y, gate, up, dy);
		r.of[0][i] = packed<bf16, COLUMNS>(gate);
		if (act_grad_maker<KIND>::RESULTS > 1)
			r.of[1][i] = packed<bf16, COLUMNS>(up);
	}
	return r;
}

/* A call: the inputs, and where y and the gradient go. */
struct act_copies {
	struct act_inputs in;
	struct targets y, dx;
	bool wants_y, in_place; /* dx is kept, so y is made before */
};

template <int KIND>
static void
forward(struct stream *st, const struct act_copies *c)
{
	const struct act_maker<KIND> y = {
		c->in
	};

	produce(st, y, c->y);
}

template <int KIND>
static void
backward(struct stream *st, const struct act_copies *c)
{
	const struct act_maker<KIND> y = {
		c->in
	};
	const struct act_grad_maker<KIND> dx = {
		c->in
	};

	if (c->wants_y && !c->in_place) {
		produce_both(st, dx, c->dx, y, c->y);
		return;
	}
	if (c->wants_y)
		produce(st, y, c->y);
	produce(st, dx, c->dx);
}

/* Of the kinds in their order. */
typedef void launcher(struct stream *, const struct act_copies *);
static launcher *const forwards[ACT_KINDS] = { forward<ACT_GELU_TANH>, forward<ACT_GELU_ERF>,
	forward<ACT_RELU2>, forward<ACT_SWIGLU>, forward<ACT_GEGLU_TANH>,
	forward<ACT_QUICK_GEGLU> };
static launcher *const backwards[ACT_KINDS] = { backward<ACT_GELU_TANH>, backward<ACT_GELU_ERF>,
	backward<ACT_RELU2>, backward<ACT_SWIGLU>, backward<ACT_GEGLU_TANH>,
	backward<ACT_QUICK_GEGLU> };

/* The inputs and the sizes of a call. */
static struct act_copies
begin(enum act_kind kind, const struct act_gate *gate, const struct tensor *x,
    const struct tensor *dy)
{
	struct act_copies c = {};
	int64_t columns = x->shape[1] / (is_gated(kind) ? 2 : 1);

	ops_require(x->ndim == 2 && x->dtype == DTYPE_BF16 && columns % 16 == 0);
	ops_require(cu_packs(x, COLUMNS) && cu_packs(dy, COLUMNS));
	c.in.columns = c.y.columns = c.dx.columns = columns;
	c.y.rows = c.dx.rows = x->shape[0];
	c.in.bounds = act_curve_of(kind, gate).bounds;
	c.in.x = *x;
	c.in.dy = *dy;
	return c;
}

void
cu_act_copies(struct stream *st, const struct act *a)
{
	struct tensor none = {}, y;
	struct act_copies c = begin(a->kind, &a->gate, &a->x, &none);

	if (!cu_has_float8(st, "act_fwd"))
		return;
	y = tensor_2d(NULL, DTYPE_BF16, c.y.rows, c.y.columns);
	c.y.of[0] = target_of(&a->y, &a->copies, &y);
	forwards[a->kind](st, &c);
	cu_quantise_sums(st, &a->y, &a->copies);
}

void
cu_act_grad_copies(struct stream *st, const struct act_grad *a)
{
	struct act_copies c = begin(a->kind, &a->gate, &a->x, &a->dy);

	if (!cu_has_float8(st, "act_bwd"))
		return;
	ops_require(!a->y.data && a->dy.dtype == DTYPE_BF16);
	c.wants_y = quantise_makes(&a->y_copies);
	c.in_place = a->dx.data;
	c.y.of[0] = target_of(&a->y, &a->y_copies, &a->dy);
	c.dx.of[0] = target_of(&a->dx, &a->dx_copies, &a->x);
	if (is_gated(a->kind)) {
		ops_require(a->dx_copies.kind != QUANTISE_BLOCK || c.dx.columns % SIDE == 0);
		c.dx.of[1] = c.dx.of[0];
		c.dx.of[1].first = c.dx.columns;
	}
	backwards[a->kind](st, &c);
	cu_quantise_sums(st, &a->dx, &a->dx_copies);
}

/*
 * norm_copies.cu - norms that go into 8 bits as they are made: from their input and its statistics,
 * which a pass over the rows has left. The arithmetic is that of the norms that are stored. Source:
 * docs/math.md 2.2, 2.3
 */
#include "train/cuda/produce.cuh"

/* Makes y. S: the type of x, the residual stream's. */
template <typename S> struct norm_maker {
	enum { RESULTS = 1 };
	struct tensor x;
	const bf16 *weight, *bias; /* bias and mean: NULL where the norm has none */
	const float *mean, *rstd;
	float shift;
};

/* Four rows of what is read, and the thread's columns of the vectors. */
template <typename S> struct norm_rows {
	pack<S, COLUMNS> x[ROWS];
	float mean[ROWS], rstd[ROWS], weight[COLUMNS], bias[COLUMNS];
};

/* Zeros where there is nothing. All is asked for in one branch, before anything is waited for;
 * parameters may lie on any address. */
template <typename S>
static __device__ inline struct norm_rows<S>
fetch_rows(const struct norm_maker<S> &m, const struct spot &s) {
	struct norm_rows<S> r = {
	};

	if (!s.inside)
		return r;
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		r.x[i] = fetch<S, COLUMNS>(row_of<S>(m.x, s.row + i) + s.column);
		r.mean[i] = m.mean ? m.mean[s.row + i] : 0;
		r.rstd[i] = m.rstd[s.row + i];
	}
#pragma unroll
	for (int k = 0; k < COLUMNS; k++) {
		r.weight[k] = to_float(m.weight[s.column + k]);
		r.bias[k] = m.bias ? to_float(m.bias[s.column + k]) : 0;
	}
	return r;
}

template <typename S>
static __device__ inline struct made<norm_maker<S>>
make(const struct norm_maker<S> &m, const struct spot &s) {
	const struct norm_rows<S> in = fetch_rows(m, s);
	struct made<norm_maker<S>> r;

#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		float x[COLUMNS], y[COLUMNS];

		unpack(x, in.x[i]);
#pragma unroll
		for (int k = 0; k < COLUMNS; k++)
			y[k] = s.inside ? fmaf((x[k] - in.mean[i]) * in.rstd[i],
					      in.weight[k] + m.shift, in.bias[k])
					: 0;
		r.of[0][i] = packed<bf16, COLUMNS>(y);
	}
	return r;
}

template <typename S>
static void
launch(struct stream *st, const struct norm *n, const struct targets *t)
{
	struct norm_maker<S> m = {
	};

	m.x = n->x;
	m.weight = (const bf16 *)n->weight.data;
	m.bias = (const bf16 *)n->bias.data;
	m.mean = (const float *)n->mean.data;
	m.rstd = (const float *)n->rstd.data;
	m.shift = (float)n->shift;
	produce(st, m, *t);
}

/* Where the statistics alone are at hand, y is stored here too. */
void
cu_norm_copies(struct stream *st, const struct norm *n)
{
	struct tensor none = {}, like = tensor_2d(NULL, DTYPE_BF16, n->x.shape[0], n->x.shape[1]);
	struct targets t = {};

	if (!cu_has_float8(st, "norm_fwd"))
		return;
	ops_require(n->weight.dtype == DTYPE_BF16 && cu_packs(&n->x, COLUMNS));
	t.rows = like.shape[0];
	t.columns = like.shape[1];
	t.of[0] = target_of(n->has_stats ? &n->y : &none, &n->copies, &like);
	(n->x.dtype == DTYPE_F32 ? launch<float> : launch<bf16>)(st, n, &t);
	cu_quantise_sums(st, &n->y, &n->copies);
}

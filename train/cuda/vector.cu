/*
 * vector.cu - element-wise operations that know nothing of the model
 *
 * They take tensors of any floating type, also two of different types. The pairs that runs consist
 * of (F32 with itself and with each 16-bit type, and a 16-bit type with itself) move packs; other
 * pairs, and double precision, decide on the type at each element.
 */
#include "train/cuda/kernel.cuh"

enum pair_op { PAIR_CAST, PAIR_ADD, PAIR_MIX };
enum unary_op { UNARY_FILL, UNARY_BIAS };

static __device__ inline double
load_at(const struct tensor &t, int64_t row, int64_t column)
{
	return load_any(t, row * t.stride[0] + column);
}

static __device__ inline void
store_at(const struct tensor &t, int64_t row, int64_t column, double x)
{
	store_any(t, row * t.stride[0] + column, x);
}

/* The numbers of PAIR_MIX, as in struct axpby. */
struct mix {
	double a, b, eps;
	const double *squares;
};

/* What x is multiplied by. */
static __device__ inline double
mix_factor(const struct mix &m)
{
	return m.squares ? m.a / fmax(sqrt(*m.squares), m.eps) : m.a;
}

/* y = x, y += x or y = a x + b y of any two types: sums in float, in double when y is. */
static __global__ void
pair_any_kernel(struct tensor y, struct tensor x, enum pair_op op, struct mix m, struct walk w)
{
	double a = op == PAIR_MIX ? mix_factor(m) : 1, b = op == PAIR_MIX ? m.b : 1;

	FOR_PACKS(w, r, c)
	{
		double v = load_at(x, r, c);

		if (op != PAIR_CAST) {
			double u = b == 0 ? 0 : load_at(y, r, c);

			v = y.dtype == DTYPE_F64 ? a * v + b * u
						 : (float)a * (float)v + (float)b * (float)u;
		}
		store_at(y, r, c, v);
	}
}

/* Packs of two given types; both are read before anything is written. */
template <typename Y, typename X, int OP, int N>
static __global__ void
__launch_bounds__(CU_THREADS)
    pair_kernel(struct tensor y, struct tensor x, struct mix m, struct walk w)
{
	float factor = OP == PAIR_MIX ? (float)mix_factor(m) : 1, keep = (float)m.b;

	FOR_PACKS(w, r, i)
	{
		Y *to = row_of<Y>(y, r) + i * N;
		float a[N], b[N];

		load(b, row_of<X>(x, r) + i * N);
		if (OP == PAIR_ADD || (OP == PAIR_MIX && keep != 0))
			load(a, to);
#pragma unroll
		for (int k = 0; k < N; k++)
			if (OP == PAIR_ADD)
				b[k] = a[k] + b[k];
			else if (OP == PAIR_MIX)
				b[k] = keep == 0 ? factor * b[k] : factor * b[k] + keep * a[k];
		store(to, b);
	}
}

/* The value as a double. */
static __global__ void
fill_any_kernel(struct tensor x, double value, struct walk w)
{
	FOR_PACKS(w, r, c)
	store_at(x, r, c, value);
}

/* The value, or x and the bias of its column. */
template <typename T, int OP, int N>
static __global__ void
__launch_bounds__(CU_THREADS)
    unary_kernel(struct tensor x, const T *bias, float value, struct walk w)
{
	FOR_PACKS(w, r, i)
	{
		T *to = row_of<T>(x, r) + i * N;
		float a[N], b[N];

		if (OP != UNARY_FILL)
			load(a, to);
		if (OP == UNARY_BIAS)
			load(b, bias + i * N);
#pragma unroll
		for (int k = 0; k < N; k++)
			a[k] = OP == UNARY_FILL ? value : a[k] + b[k];
		store(to, a);
	}
}

/* What a sum adds, and where it goes: `count` elements from y on. */
struct terms {
	void *y;
	const void *x, *others;
	int64_t stride; /* of others, in elements */
	int own, ranks, block;
	int64_t count;
	bool wide;
};

/* Adds what came before. */
template <int N>
static __device__ inline void
join(float (&later)[N], const float (&earlier)[N])
{
#pragma unroll
	for (int n = 0; n < N; n++)
		later[n] = earlier[n] + later[n];
}

/* The same from one array to another. */
template <int N>
static __device__ inline void
keep(float (&to)[N], const float (&from)[N])
{
#pragma unroll
	for (int n = 0; n < N; n++)
		to[n] = from[n];
}

/* Where a rank's term begins. */
template <typename T>
static __device__ inline const T *
term_of(const struct terms &t, int rank)
{
	if (rank == t.own)
		return (const T *)t.x;
	return (const T *)t.others + (rank - (t.own >= 0 && rank > t.own)) * t.stride;
}

/* T of `count` ranks' terms of a pack, at most MOST: the subtrees of a binary counter
 * (lib/base/tree.h) stay in registers, since every level is known when this is compiled. */
template <typename T, int MOST, int N>
static __device__ inline void
add_block(float (&sum)[N], const struct terms &t, int first, int count, int64_t i)
{
	float tree[TREE_LEVELS][N];
	bool begun = false;

#pragma unroll
	for (int k = 0; k < MOST; k++) {
		if (k >= count)
			break;
		load(sum, term_of<T>(t, first + k) + i * N);
#pragma unroll
		for (int level = 0; level < TREE_LEVELS; level++) {
			if (k >> level & 1) {
				join(sum, tree[level]);
				continue;
			}
			keep(tree[level], sum);
			break;
		}
	}
#pragma unroll
	for (int level = 0; level < TREE_LEVELS; level++) {
		if (!(count >> level & 1))
			continue;
		if (begun)
			join(sum, tree[level]);
		else
			keep(sum, tree[level]);
		begun = true;
	}
}

/* A pack of every term is read before it is written. Y: what the sum is rounded to. MOST: terms of
 * a block, at most. */
template <typename T, typename Y, int MOST, int N>
static __global__ void
__launch_bounds__(CU_THREADS) sum_kernel(struct terms t, struct walk w)
{
	FOR_PACKS(w, r, i)
	{
		float sum[N], before[N];

		add_block<T, MOST>(sum, t, 0, min(t.ranks, t.block), i);
		for (int first = t.block; first < t.ranks; first += t.block) {
			keep(before, sum);
			add_block<T, MOST>(sum, t, first, min(t.ranks - first, t.block), i);
			join(sum, before);
		}
		store((Y *)t.y + i * N, sum);
	}
}

/* A dense matrix viewed as a vector, so that packs may cross its rows. */
static struct tensor
flat(const struct tensor *t)
{
	return t->ndim == 2 && t->stride[0] != t->shape[1] ? *t : tensor_flat(t);
}

/* Two tensors of one shape, as vectors when both are dense. */
static void
flatten(struct tensor *a, struct tensor *b)
{
	struct tensor x = flat(a), y = flat(b);

	if (x.ndim != y.ndim)
		return;
	*a = x;
	*b = y;
}

/* Cuts a vector into whole packs and a rest; matrices stay whole. */
static int64_t
cut(const struct tensor *t, int n)
{
	return t->ndim == 1 ? t->shape[0] / n * n : 0;
}

/* Columns [0, at) or [at, end) of a vector. */
static struct tensor
piece(const struct tensor *t, int64_t at, bool head)
{
	return head ? tensor_rows(t, 0, at) : tensor_rows(t, at, t->shape[0] - at);
}

/* Two types in packs of N elements, or one by one. */
template <typename Y, typename X, int OP>
static void
launch_pair(struct stream *st, const struct tensor *y, const struct tensor *x, const struct mix *m)
{
	enum { N = 16 / (sizeof(Y) < sizeof(X) ? sizeof(Y) : sizeof(X)) };
	bool wide = cu_packs(y, N) && cu_packs(x, N);
	struct walk w = walk_of(st, tensor_num_rows(y), tensor_num_columns(y), wide ? (int)N : 1);

	if (wide)
		pair_kernel<Y, X, OP, N><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*y, *x, *m, w);
	else
		pair_kernel<Y, X, OP, 1><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*y, *x, *m, w);
}

typedef void pair_launcher(
    struct stream *, const struct tensor *, const struct tensor *, const struct mix *);

/* The launcher for two types; NULL: pair_any_kernel. */
template <int OP>
static pair_launcher *
pick_pair(enum dtype y, enum dtype x)
{
	if (y == DTYPE_F32)
		return x == DTYPE_F32 ? launch_pair<float, float, OP>
		    : x == DTYPE_BF16 ? launch_pair<float, bf16, OP>
		    : x == DTYPE_F16  ? launch_pair<float, half, OP>
				      : (pair_launcher *)NULL;
	if (x == DTYPE_F32)
		return y == DTYPE_BF16 ? launch_pair<bf16, float, OP>
		    : y == DTYPE_F16   ? launch_pair<half, float, OP>
				       : (pair_launcher *)NULL;
	if (x != y)
		return NULL;
	return x == DTYPE_BF16 ? launch_pair<bf16, bf16, OP>
	    : x == DTYPE_F16   ? launch_pair<half, half, OP>
			       : (pair_launcher *)NULL;
}

/* For what mixes nothing. */
static const struct mix no_mix = { 1, 1, 0, NULL };

/* All of two tensors: a vector's whole packs, then the rest. */
static void
run_pair(struct stream *st, struct tensor y, struct tensor x, enum pair_op op, const struct mix *m)
{
	pair_launcher *launch = op == PAIR_ADD ? pick_pair<PAIR_ADD>(y.dtype, x.dtype)
	    : op == PAIR_MIX                   ? pick_pair<PAIR_MIX>(y.dtype, x.dtype)
					       : pick_pair<PAIR_CAST>(y.dtype, x.dtype);
	int64_t at;

	flatten(&y, &x);
	at = cut(&y, 8);
	if (!launch) {
		struct walk w = walk_of(st, tensor_num_rows(&y), tensor_num_columns(&y), 1);

		pair_any_kernel<<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(y, x, op, *m, w);
	} else if (at > 0 && at < y.shape[0]) {
		struct tensor head = piece(&y, at, true), head_x = piece(&x, at, true);
		struct tensor tail = piece(&y, at, false), tail_x = piece(&x, at, false);

		launch(st, &head, &head_x, m);
		launch(st, &tail, &tail_x, m);
	} else
		launch(st, &y, &x, m);
}

/* A call of unary_kernel without its type. */
struct unary {
	struct tensor x;
	const void *bias;
	float value;
	bool wide;
};

/* One type in packs, or one by one. */
template <typename T, int OP>
static void
launch_unary(struct stream *st, const struct unary *u)
{
	struct walk w = walk_of(st, tensor_num_rows(&u->x), tensor_num_columns(&u->x),
	    u->wide ? (int)full<T>::width : 1);

	if (u->wide)
		unary_kernel<T, OP, full<T>::width><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(
		    u->x, (const T *)u->bias, u->value, w);
	else
		unary_kernel<T, OP, 1><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(
		    u->x, (const T *)u->bias, u->value, w);
}

/* Fills one piece. */
static void
fill_piece(struct stream *st, const struct tensor *x, double value)
{
	struct unary u = { *x, NULL, (float)value, cu_packs(x, 16 / (int)dtype_size(x->dtype)) };
	struct walk w = walk_of(st, tensor_num_rows(x), tensor_num_columns(x), 1);

	if (x->dtype == DTYPE_F64)
		fill_any_kernel<<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*x, value, w);
	else
		pick(x->dtype, launch_unary<float, UNARY_FILL>, launch_unary<bf16, UNARY_FILL>,
		    launch_unary<half, UNARY_FILL>)(st, &u);
}

/* A vector's whole packs, then the rest. */
static void
fill_all(struct stream *st, const struct tensor *t, double value)
{
	struct tensor x = flat(t);
	int64_t at = cut(&x, 8);

	if (at > 0 && at < x.shape[0]) {
		struct tensor tail = piece(&x, at, false);

		fill_piece(st, &tail, value);
		x = piece(&x, at, true);
	}
	fill_piece(st, &x, value);
}

/* One pair of types in packs, or one by one. */
template <typename T, typename Y, int MOST>
static void
launch_sum_of(struct stream *st, const struct terms *t)
{
	enum { WIDTH = full<T>::width };
	struct walk w = walk_of(st, 1, t->count, t->wide ? (int)WIDTH : 1);

	if (t->wide)
		sum_kernel<T, Y, MOST, WIDTH><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*t, w);
	else
		sum_kernel<T, Y, MOST, 1><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*t, w);
}

/* The ranks of a host are often few, and then fewer registers let more blocks run at once. */
template <typename T, typename Y>
static void
launch_sum(struct stream *st, const struct terms *t)
{
	enum { FEW = 4 };

	if (t->ranks <= FEW || t->block <= FEW)
		launch_sum_of<T, Y, FEW>(st, t);
	else
		launch_sum_of<T, Y, TREE_TERMS>(st, t);
}

/* Into the terms' own type, or into F32. */
template <typename T>
static void
launch_sum_to(struct stream *st, const struct terms *t, enum dtype to)
{
	(to == DTYPE_F32 ? launch_sum<T, float> : launch_sum<T, T>)(st, t);
}

/* Into any type. */
template <>
void
launch_sum_to<float>(struct stream *st, const struct terms *t, enum dtype to)
{
	pick(to, launch_sum<float, float>, launch_sum<float, bf16>, launch_sum<float, half>)(st, t);
}

/* Looks for one kernel, which stands for all: they are built for the same architectures. */
cudaError_t
cu_kernels_present(void)
{
	struct cudaFuncAttributes a;

	return cudaFuncGetAttributes(&a, pair_any_kernel);
}

/* A bias of another type than the sum's: a router's, whose logits are real. */
static __global__ void
__launch_bounds__(CU_THREADS) bias_any_kernel(const struct tensor y, const struct tensor bias)
{
	FOR_ELEMENTS(row, column, y.shape[0], y.shape[1])
	{
		int64_t at = row * y.stride[0] + column;

		store_any(y, at, load_any(y, at) + load_any(bias, column));
	}
}

/* y [T, n] += bias [n]; the sum is taken in float, or where the types differ in double, and rounded
 * once. */
void
cu_bias_add(struct stream *st, const struct tensor *y, const struct tensor *bias)
{
	int n = 16 / (int)dtype_size(y->dtype);
	struct unary u = { *y, bias->data, 0, cu_packs(y, n) && cu_packs(bias, n) };

	ops_require(y->ndim == 2 && bias->shape[0] == y->shape[1]);
	if (bias->dtype != y->dtype) {
		bias_any_kernel<<<element_grid(y->shape[0], y->shape[1]), CU_THREADS, 0,
		    cu_handle(st)>>>(*y, *bias);
		cu_launched(st, "bias_add");
		return;
	}
	pick(y->dtype, launch_unary<float, UNARY_BIAS>, launch_unary<bf16, UNARY_BIAS>,
	    launch_unary<half, UNARY_BIAS>)(st, &u);
	cu_launched(st, "bias_add");
}

/* Shapes must agree, types need not. */
void
cuda_add(struct stream *st, const struct pair *p)
{
	ops_require(tensor_same_shape(&p->y, &p->x) && dtype_is_float(p->y.dtype) &&
	    dtype_is_float(p->x.dtype));
	run_pair(st, p->y, p->x, PAIR_ADD, &no_mix);
	cu_launched(st, "add");
}

/* The divisor is read by the kernel: no host waits for it. */
void
cuda_axpby(struct stream *st, const struct axpby *c)
{
	struct mix m = { c->a, c->b, c->eps, (const double *)c->squares.data };

	ops_require(tensor_same_shape(&c->y, &c->x) && dtype_is_float(c->y.dtype) &&
	    dtype_is_float(c->x.dtype));
	ops_require(!c->squares.data || (c->squares.dtype == DTYPE_F64 && c->eps > 0));
	run_pair(st, c->y, c->x, PAIR_MIX, &m);
	cu_launched(st, "axpby");
}

/* Whether packs of the terms and of the sum can be moved as one. */
static bool
sum_packs(const struct terms *t, int64_t size)
{
	return ((uintptr_t)t->y | (uintptr_t)t->x | (uintptr_t)t->others) % 16 == 0 &&
	    t->stride * size % 16 == 0;
}

/* Whole packs, then the rest. */
void
cuda_sum(struct stream *st, const struct sum *a)
{
	const struct tensor *x = a->own >= 0 ? &a->x : &a->others;
	int64_t n = tensor_elements(&a->y), size = (int64_t)dtype_size(x->dtype), packs = 16 / size;
	enum dtype to = a->y.dtype;
	struct terms t = {};

	t.y = a->y.data;
	t.x = a->own >= 0 ? a->x.data : NULL;
	t.others = a->others.data;
	ops_require(x->data && (to == x->dtype || to == DTYPE_F32 || x->dtype == DTYPE_F32));
	ops_require(a->block <= TREE_TERMS);
	ops_require(a->own < 0 || tensor_elements(&a->x) == n);
	ops_require(!t.others ||
	    (a->others.dtype == x->dtype && a->others.shape[1] == n &&
		a->own <= a->others.shape[0]));
	t.own = a->own;
	t.block = a->block ? a->block : TREE_TERMS;
	t.ranks = (t.own >= 0) + (int)(t.others ? a->others.shape[0] : 0);
	t.stride = t.others ? a->others.stride[0] : 0;
	t.wide = sum_packs(&t, size);
	t.count = t.wide ? n / packs * packs : n;
	if (t.count > 0)
		PICK(x->dtype, launch_sum_to)(st, &t, to);
	t.y = (char *)t.y + t.count * (int64_t)dtype_size(a->y.dtype);
	t.x = (const char *)t.x + t.count * size;
	t.others = (const char *)t.others + t.count * size;
	t.count = n - t.count;
	t.wide = false;
	if (t.count > 0)
		PICK(x->dtype, launch_sum_to)(st, &t, to);
	cu_launched(st, "sum");
}

/* A dense tensor is zeroed as bytes. */
void
cuda_fill(struct stream *st, const struct fill *f)
{
	const struct tensor *x = &f->x;

	ops_require(dtype_is_float(x->dtype));
	if (f->value == 0 && flat(x).ndim == 1)
		cu_ok(st->device, cudaMemsetAsync(x->data, 0, tensor_bytes(x), cu_handle(st)),
		    "fill");
	else
		fill_all(st, x, f->value);
	cu_launched(st, "fill");
}

/* Sets *out to the rows of a matrix as words of four bytes; false where they are not whole packs.
 */
static bool
as_words(const struct tensor *t, struct tensor *out)
{
	int64_t size = (int64_t)dtype_size(t->dtype), pack = 16 / size;

	if (t->ndim != 2 || t->shape[1] % pack || t->stride[0] % pack || (uintptr_t)t->data % 16)
		return false;
	*out = tensor_2d(t->data, DTYPE_F32, t->shape[0], t->shape[1] * size / 4);
	out->stride[0] = t->stride[0] * size / 4;
	return true;
}

/* Rows of one type, as bytes: the runtime copies those of a matrix at a third of the rate. */
static cudaError_t
copy_rows(struct stream *st, const struct tensor *to, const struct tensor *from)
{
	size_t size = dtype_size(to->dtype), width = (size_t)tensor_num_columns(to) * size;
	struct tensor y, x;

	if (as_words(to, &y) && as_words(from, &x)) {
		run_pair(st, y, x, PAIR_CAST, &no_mix);
		return cudaSuccess;
	}
	if (to->ndim == 1)
		return cudaMemcpyAsync(
		    to->data, from->data, width, cudaMemcpyDeviceToDevice, cu_handle(st));
	return cudaMemcpy2DAsync(to->data, (size_t)to->stride[0] * size, from->data,
	    (size_t)from->stride[0] * size, width, (size_t)tensor_num_rows(to),
	    cudaMemcpyDeviceToDevice, cu_handle(st));
}

/* Narrowing rounds to nearest, ties to even. Same types are copied as bytes, integers too. */
void
cuda_cast(struct stream *st, const struct pair *p)
{
	struct tensor to = p->y, from = p->x;

	ops_require(tensor_same_shape(&to, &from));
	ops_require(
	    to.dtype == from.dtype || (dtype_is_float(to.dtype) && dtype_is_float(from.dtype)));
	flatten(&to, &from);
	if (to.dtype == from.dtype)
		cu_ok(st->device, copy_rows(st, &to, &from), "cast");
	else
		run_pair(st, to, from, PAIR_CAST, &no_mix);
	cu_launched(st, "cast");
}

/* quantise.c - copies of 8 bits and their scales, bit for bit as on the CPU */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "tests/op/producers.h"
#include "tests/op/op.h"

static float
number_of(enum dtype t, uint8_t code)
{
	float x;

	dtype_convert(&x, DTYPE_F32, &code, t, 1);
	return x;
}

static uint8_t
code_of(enum dtype t, float x)
{
	uint8_t code;

	dtype_convert(&code, t, &x, DTYPE_F32, 1);
	return code;
}

/* --- copies ----------------------------------------------------------------------------------- */

/* A copy of the columns from the eighth on of an array that is so much wider; the transpose lies in
 * a wider array too then. */
struct copy_case {
	int64_t rows, columns, extra;
	enum quantise_kind kind;
	enum scale_kind scale; /* BLOCK */
	bool q, qt, largest, sums, special;
};

static const struct copy_case copies[] = {
	{ 16, 16, 0, QUANTISE_DELAYED, 0, true, true, true, false, false },
	{ 48, 80, 8, QUANTISE_DELAYED, 0, true, true, true, true, true },
	{ 128, 128, 0, QUANTISE_DELAYED, 0, true, false, true, false, true },
	{ 144, 272, 16, QUANTISE_DELAYED, 0, false, true, false, true, true },
	{ 400, 112, 0, QUANTISE_DELAYED, 0, false, false, true, false, true },
	{ 20, 144, 8, QUANTISE_DELAYED, 0, true, false, true, false, true },
	{ 1040, 4096, 0, QUANTISE_DELAYED, 0, true, true, true, false, false },
	{ 528, 14336, 0, QUANTISE_DELAYED, 0, true, true, true, true, false },
	{ 16, 48, 0, QUANTISE_CURRENT, 0, true, true, true, false, false },
	{ 272, 656, 24, QUANTISE_CURRENT, 0, true, true, false, true, false },
	{ 272, 656, 24, QUANTISE_CURRENT, 0, false, true, true, false, true },
	{ 4096, 1040, 0, QUANTISE_CURRENT, 0, true, true, true, false, false },
	{ 16, 16, 0, QUANTISE_BLOCK, SCALE_LINES, true, true, false, false, false },
	{ 48, 80, 8, QUANTISE_BLOCK, SCALE_LINES, true, true, false, true, true },
	{ 400, 144, 0, QUANTISE_BLOCK, SCALE_LINES, true, false, false, false, true },
	{ 144, 400, 0, QUANTISE_BLOCK, SCALE_LINES, false, true, false, false, true },
	{ 1040, 4096, 0, QUANTISE_BLOCK, SCALE_LINES, true, true, false, false, false },
	{ 16, 16, 0, QUANTISE_BLOCK, SCALE_SQUARES, true, true, false, false, false },
	{ 272, 656, 24, QUANTISE_BLOCK, SCALE_SQUARES, true, true, false, false, true },
	{ 656, 272, 0, QUANTISE_BLOCK, SCALE_SQUARES, true, false, false, false, true },
	{ 4096, 1040, 0, QUANTISE_BLOCK, SCALE_SQUARES, true, true, false, false, false },
};

/* What a copy makes. */
struct made {
	uint8_t *q, *qt;
	float scale[SCALE_ROW], amax, *sums, *blocks, *blocks_t;
};

/* The shape of the scales of blocks of [rows, k]. */
static struct tensor
blocks_of(enum scale_kind kind, int64_t rows, int64_t k)
{
	int64_t lines = (k + SCALE_BLOCK - 1) / SCALE_BLOCK;

	return kind == SCALE_LINES
	    ? tensor_2d(NULL, DTYPE_F32, lines, rows)
	    : tensor_2d(
		  NULL, DTYPE_F32, (rows + SCALE_BLOCK - 1) / SCALE_BLOCK, (lines + 3) / 4 * 4);
}

/* Magnitudes from subnormal codes to beyond the largest; in the middle what is not a number, or has
 * no magnitude. */
static void
fill(const struct copy_case *c, enum dtype type, void *x)
{
	static const float odd[] = { NAN, INFINITY, -INFINITY, -0.0f, 0x1p-149f, -3e38f };
	int64_t count = c->rows * (c->columns + c->extra);
	float *wide = mem_alloc((size_t)count, sizeof *wide);
	uint64_t state = 1;

	for (int64_t i = 0; i < count; i++) {
		int exponent = (int)(rig_random(&state) % 20) - 42;

		wide[i] = ldexpf((float)rig_random(&state) - 0x1p30f, exponent);
	}
	for (int i = 0; c->special && i < 6; i++)
		wide[count / 2 + 17 * i] = odd[i];
	/* A line of zeros, and squares where they fit. */
	for (int64_t i = 0; c->special && i < count / 4; i++)
		wide[i] = 0;
	dtype_convert(x, type, wide, DTYPE_F32, count);
	free(wide);
}

static struct made
made_new(const struct copy_case *c)
{
	int64_t count = c->rows * c->columns;

	return (struct made){ mem_zalloc((size_t)count, 1), mem_zalloc((size_t)count, 1),
		{ 1.0f / 24, 24 }, 0.5f, mem_zalloc((size_t)c->columns, sizeof(float)),
		mem_zalloc((size_t)count, sizeof(float)),
		mem_zalloc((size_t)count, sizeof(float)) };
}

static void
made_free(struct made *m)
{
	free(m->q);
	free(m->qt);
	free(m->sums);
	free(m->blocks);
	free(m->blocks_t);
}

/* The columns from MARGIN on of a wider array. */
enum { MARGIN = 16 };

static void
take_back_inner(const struct rig *r, struct tensor all, uint8_t *host)
{
	uint8_t *wide = mem_alloc(tensor_elements(&all) + 1, 1);
	int64_t count = all.shape[1] - 2 * MARGIN;

	if (all.data)
		rig_read(r, &all, wide);
	for (int64_t i = 0; all.data && i < all.shape[0]; i++)
		memcpy(host + i * count, wide + i * all.shape[1] + MARGIN, (size_t)count);
	rig_take(r, all, NULL);
	free(wide);
}

/* The copy by a backend; twice in the same memory, which must change nothing but the sums. */
static void
copy_by(const struct rig *r, const struct copy_case *c, const enum dtype type[2], const void *x,
    struct made *m)
{
	int64_t rows = c->rows, columns = c->columns;
	bool block = c->kind == QUANTISE_BLOCK, wide = c->extra > 0 && c->qt;
	struct tensor transposed =
	    rig_tensor(r, wide, tensor_2d(NULL, type[1], columns, rows + 2 * MARGIN), NULL);
	struct tensor all =
	    rig_tensor(r, true, tensor_2d(NULL, type[0], rows, columns + c->extra), x);
	struct quantise q = {
		.x = tensor_columns(&all, c->extra ? 8 : 0, columns),
		.q = rig_tensor(r, c->q, tensor_2d(NULL, type[1], rows, columns), NULL),
		.qt = wide ? tensor_columns(&transposed, MARGIN, rows)
			   : rig_tensor(r, c->qt, tensor_2d(NULL, type[1], columns, rows), NULL),
		.scale = rig_tensor(r, !block || c->q,
		    block ? blocks_of(c->scale, rows, columns)
			  : tensor_1d(NULL, DTYPE_F32, SCALE_ROW),
		    block ? NULL : m->scale),
		.scale_t = rig_tensor(r, block && c->qt, blocks_of(c->scale, columns, rows), NULL),
		.amax = rig_tensor(r, c->largest, tensor_1d(NULL, DTYPE_F32, 1), &m->amax),
		.sums = rig_tensor(r, c->sums, tensor_1d(NULL, DTYPE_F32, columns), NULL),
		.kind = c->kind,
	};

	r->st->ops->quantise(r->st, &q);
	q.accumulate = true;
	r->st->ops->quantise(r->st, &q);
	rig_take(r, q.q, m->q);
	if (wide)
		take_back_inner(r, transposed, m->qt);
	else
		rig_take(r, q.qt, m->qt);
	rig_take(r, q.scale, block ? m->blocks : m->scale);
	rig_take(r, q.scale_t, m->blocks_t);
	rig_take(r, q.amax, &m->amax);
	rig_take(r, q.sums, m->sums);
	rig_take(r, all, NULL);
}

/* The largest power of two that keeps a block within its type, found by trying. */
static int
exponent_for(float largest, enum dtype type)
{
	int e = 126;

	if (!(largest > 0 && largest < INFINITY))
		return 0;
	while (e > -126 && ldexp(largest, e) > (double)dtype_largest_float8(type))
		e--;
	return e;
}

/* What QUANTISE_BLOCK says, of the rows of x [rows, k]: a block of `high` rows at a time. */
static void
copy_blocks(const float *x, struct tensor q, struct tensor scale, int64_t high)
{
	int64_t rows = q.shape[0], k = q.shape[1];

	for (int64_t r = 0; r < rows; r += high)
		for (int64_t b = 0; b < k; b += SCALE_BLOCK) {
			int64_t end = r + high < rows ? r + high : rows,
				last = b + SCALE_BLOCK < k ? b + SCALE_BLOCK : k;
			float most = 0,
			      *to = (float *)scale.data +
			    (high == 1 ? b / SCALE_BLOCK * rows + r
				       : r / high * scale.shape[1] + b / SCALE_BLOCK);
			int e;

			for (int64_t i = r * k + b; i < (end - 1) * k + last; i++)
				if (i % k >= b && i % k < last)
					most = isnan(x[i]) ? INFINITY : fmaxf(most, fabsf(x[i]));
			e = exponent_for(most, q.dtype);
			*to = ldexpf(1, -e);
			for (int64_t i = r * k + b; i < (end - 1) * k + last; i++)
				if (i % k >= b && i % k < last)
					((uint8_t *)q.data)[i] =
					    code_of(q.dtype, x[i] * ldexpf(1, e));
		}
}

/* The same on the host. */
static void
copy_blocks_by_hand(
    const struct copy_case *c, const enum dtype type[2], const void *x, struct made *m)
{
	int64_t count = c->rows * c->columns, wide = c->columns + c->extra,
		high = c->scale == SCALE_LINES ? 1 : SCALE_BLOCK;
	float *all = mem_alloc((size_t)(c->rows * wide), sizeof *all),
	      *rows = mem_alloc((size_t)count, sizeof *rows),
	      *transposed = mem_alloc((size_t)count, sizeof *transposed);
	struct tensor scale = blocks_of(c->scale, c->rows, c->columns),
		      scale_t = blocks_of(c->scale, c->columns, c->rows);

	dtype_convert(all, DTYPE_F32, x, type[0], c->rows * wide);
	for (int64_t i = 0; i < count; i++) {
		rows[i] = all[i / c->columns * wide + i % c->columns + (c->extra ? 8 : 0)];
		transposed[i % c->columns * c->rows + i / c->columns] = rows[i];
	}
	scale.data = m->blocks;
	scale_t.data = m->blocks_t;
	if (c->q)
		copy_blocks(rows, tensor_2d(m->q, type[1], c->rows, c->columns), scale, high);
	if (c->qt)
		copy_blocks(
		    transposed, tensor_2d(m->qt, type[1], c->columns, c->rows), scale_t, high);
	for (int64_t j = 0; c->sums && j < c->columns; j++)
		for (int64_t i = 0; i < c->rows; i++)
			m->sums[j] += 2 * rows[i * c->columns + j];
	free(all);
	free(rows);
	free(transposed);
}

/* Prints how many of two arrays' bytes differ, and the first. */
static void
check_same(const char *what, int number, const void *a, const void *b, size_t bytes)
{
	const uint8_t *x = a, *y = b;
	size_t differ = 0, first = 0;

	for (size_t i = bytes; i-- > 0;)
		if (x[i] != y[i]) {
			differ++;
			first = i;
		}
	check_count++;
	if (!differ)
		return;
	check_failures++;
	fprintf(stderr,
	    "copy %d: %zu of %zu bytes of %s differ, first at %zu: %02x, must be %02x\n", number,
	    differ, bytes, what, first, x[first], y[first]);
}

/* Sums are of another order than the CPU's; with numbers that are not finite, and as large as those
 * beside them, they say nothing. */
static void
check_sums(const struct copy_case *c, int number, const struct made *gpu, const struct made *cpu)
{
	double error = 0, size = 0;

	for (int64_t j = 0; c->sums && !c->special && j < c->columns; j++) {
		double d = (double)gpu->sums[j] - (double)cpu->sums[j];

		error += d * d;
		size += (double)cpu->sums[j] * (double)cpu->sums[j];
	}
	check_count++;
	if (error <= 1e-10 * size)
		return;
	check_failures++;
	fprintf(stderr, "copy %d: sums differ, NMSE %g\n", number, error / size);
}

/* Every case from every type to both 8-bit ones. */
static void
test_copies(const struct backend *b)
{
	static const enum dtype from[] = { DTYPE_BF16, DTYPE_F16, DTYPE_F32 };
	struct rig gpu = rig_open(b, DTYPE_BF16), cpu = rig_open(&backend_cpu, DTYPE_BF16);

	for (int i = 0; i < (int)(sizeof copies / sizeof *copies) * 6; i++) {
		const struct copy_case *c = &copies[i / 6];
		enum dtype type[2] = { from[i % 3], i % 2 ? DTYPE_F8_E5M2 : DTYPE_F8_E4M3 };
		size_t count = (size_t)(c->rows * c->columns);
		struct made got = made_new(c), want = made_new(c);
		void *x = mem_alloc((size_t)(c->rows * (c->columns + c->extra)), 4);

		fill(c, type[0], x);
		copy_by(&gpu, c, type, x, &got);
		if (c->kind == QUANTISE_BLOCK)
			copy_blocks_by_hand(c, type, x, &want);
		else
			copy_by(&cpu, c, type, x, &want);
		check_same("the copy", i, got.q, want.q, count);
		check_same("its transpose", i, got.qt, want.qt, count);
		check_same("the factor", i, got.scale, want.scale, sizeof got.scale);
		check_same("the largest", i, &got.amax, &want.amax, sizeof got.amax);
		check_same("blocks", i, got.blocks, want.blocks, count * sizeof(float));
		check_same(
		    "transposed blocks", i, got.blocks_t, want.blocks_t, count * sizeof(float));
		check_sums(c, i, &got, &want);
		free(x);
		made_free(&got);
		made_free(&want);
	}
	backend_cpu.close(cpu.d);
	b->close(gpu.d);
}

/* --- histories -------------------------------------------------------------------------------- */
enum { FACTORS = 7, STEPS = 5, LENGTH_MAX = 1030 };

struct slots {
	float history[FACTORS * LENGTH_MAX], amax[FACTORS], scale[SCALE_ROW * FACTORS],
	    largest[FACTORS];
};

/* Some steps on a backend. */
static void
step_scales(const struct rig *r, int64_t length, bool most_recent, struct slots *s)
{
	static const float seen[] = { 3, 0, INFINITY, 1e-44f, 3e38f, 0.01f, 448, 5, 7 };
	struct scales call = {
		.history =
		    rig_tensor(r, true, tensor_2d(NULL, DTYPE_F32, FACTORS, length), s->history),
		.amax = rig_tensor(r, true, tensor_1d(NULL, DTYPE_F32, FACTORS), NULL),
		.scale =
		    rig_tensor(r, true, tensor_2d(NULL, DTYPE_F32, FACTORS, SCALE_ROW), s->scale),
		.largest = rig_tensor(r, true, tensor_1d(NULL, DTYPE_F32, FACTORS), s->largest),
		.margin = most_recent ? 1 : 0,
		.most_recent = most_recent,
	};

	for (int step = 0; step < STEPS; step++) {
		for (int i = 0; i < FACTORS; i++)
			s->amax[i] = i == 6 && step == 2 ? NAN : seen[(i + step) % 9];
		r->b->copy_in(r->st, call.amax.data, s->amax, sizeof s->amax);
		r->st->ops->scales(r->st, &call);
		rig_sync(r);
	}
	rig_take(r, call.history, s->history);
	rig_take(r, call.amax, s->amax);
	rig_take(r, call.scale, s->scale);
	rig_take(r, call.largest, NULL);
}

/* Of every length about the number of a block's threads. */
static void
test_scales(const struct backend *b)
{
	static const int64_t lengths[] = { 1, 2, 3, 255, 256, 257, 258, 512, 513, 514, 1024, 1030 };
	static struct slots gpu, cpu;
	struct rig g = rig_open(b, DTYPE_BF16), c = rig_open(&backend_cpu, DTYPE_BF16);

	for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
		for (int k = 0; k < FACTORS * LENGTH_MAX; k++)
			cpu.history[k] = (float)(k * 37 % 101) / 8;
		for (int k = 0; k < FACTORS; k++) {
			cpu.scale[SCALE_ROW * k + SCALE_FACTOR] = 3;
			cpu.scale[SCALE_ROW * k + SCALE_INVERSE] = 1.0f / 3;
			cpu.largest[k] = k % 2 ? 57344 : 448;
		}
		gpu = cpu;
		step_scales(&g, lengths[i / 2], i % 2, &gpu);
		step_scales(&c, lengths[i / 2], i % 2, &cpu);
		CHECK(!memcmp(&gpu, &cpu, sizeof gpu));
	}
	backend_cpu.close(c.d);
	b->close(g.d);
}

/* --- by hand, on the CPU ---------------------------------------------------------------------- */

enum { ROWS = 70, COLUMNS = 130 };

static struct stream *st; /* of the CPU, for what is computed by hand */

static int
code_by_hand(enum dtype t, double x)
{
	float f = (float)x;
	uint8_t wide, narrow;

	dtype_convert(&wide, t, &x, DTYPE_F64, 1);
	dtype_convert(&narrow, t, &f, DTYPE_F32, 1);
	CHECK((double)f != x || wide == narrow);
	return wide;
}

/* Numbers in [-0.5, 0.5) and one larger one. */
static void
fill_bf16(uint16_t *x, int64_t count, uint32_t stream)
{
	for (int64_t i = 0; i < count; i++)
		x[i] = dtype_bf16_from_f32((float)rng_uniform(7, (uint64_t)i, stream, 1) - 0.5f);
	x[count / 3] = dtype_bf16_from_f32(-3.25f);
}

/* A copy and its transpose hold the same codes, those of the scaled numbers; rows may be strided.
 */
static void
copy_by_hand(enum quantise_kind kind)
{
	static uint16_t x[ROWS * (COLUMNS + 3)];
	static uint8_t q[ROWS * COLUMNS], qt[COLUMNS * ROWS];
	float scale[SCALE_ROW] = { 1.0f / 24, 24 }, amax = 0.5f;
	struct quantise call = { .x = tensor_2d(x, DTYPE_BF16, ROWS, COLUMNS + 3),
		.q = tensor_2d(q, DTYPE_F8_E4M3, ROWS, COLUMNS),
		.qt = tensor_2d(qt, DTYPE_F8_E4M3, COLUMNS, ROWS),
		.scale = tensor_1d(scale, DTYPE_F32, SCALE_ROW),
		.amax = tensor_1d(&amax, DTYPE_F32, 1),
		.kind = kind };

	fill_bf16(x, ROWS * (COLUMNS + 3), 1);
	call.x = tensor_columns(&call.x, 2, COLUMNS);
	st->ops->quantise(st, &call);
	CHECK(amax == 3.25f);
	CHECK(scale[SCALE_FACTOR] == (kind == QUANTISE_CURRENT ? 448 / 3.25f : 24));
	CHECK(scale[SCALE_INVERSE] == 1 / scale[SCALE_FACTOR]);
	for (int i = 0; i < ROWS; i++)
		for (int j = 0; j < COLUMNS; j++) {
			float v =
			    dtype_f32_from_bf16(x[i * (COLUMNS + 3) + 2 + j]) * scale[SCALE_FACTOR];

			CHECK(q[i * COLUMNS + j] == code_by_hand(DTYPE_F8_E4M3, (double)v));
			CHECK(qt[j * ROWS + i] == q[i * COLUMNS + j]);
		}
}

/* Another part of the tensor has a larger number. */
static void
raise(const void *sharer, struct stream *to, const struct tensor *largest)
{
	to->ops->fill(to, &(struct fill){ *largest, *(const double *)sharer });
}

/* The factor, and the maximum that is recorded, are those of all parts. */
static void
share_by_hand(void)
{
	static uint16_t x[ROWS * COLUMNS];
	static uint8_t q[ROWS * COLUMNS];
	float scale[SCALE_ROW] = { 1, 1 }, amax = 0.5f;
	double all = 6.5;
	struct quantise call = { .x = tensor_2d(x, DTYPE_BF16, ROWS, COLUMNS),
		.q = tensor_2d(q, DTYPE_F8_E4M3, ROWS, COLUMNS),
		.scale = tensor_1d(scale, DTYPE_F32, SCALE_ROW),
		.amax = tensor_1d(&amax, DTYPE_F32, 1),
		.kind = QUANTISE_CURRENT,
		.share = raise,
		.sharer = &all };

	fill_bf16(x, ROWS * COLUMNS, 1);
	st->ops->quantise(st, &call);
	CHECK(amax == 6.5f && scale[SCALE_FACTOR] == 448 / 6.5f);
	CHECK(q[ROWS * COLUMNS / 3] == code_by_hand(DTYPE_F8_E4M3, -224));
}

/* A maximum without a copy; NaN counts as infinity, and a larger maximum stays. Sums are those of
 * the numbers as they are. */
static void
largest_by_hand(void)
{
	static uint16_t x[ROWS * COLUMNS];
	float amax = 9, sums[COLUMNS], twice[COLUMNS];
	struct quantise call = { .x = tensor_2d(x, DTYPE_BF16, ROWS, COLUMNS),
		.amax = tensor_1d(&amax, DTYPE_F32, 1),
		.sums = tensor_1d(sums, DTYPE_F32, COLUMNS) };

	fill_bf16(x, ROWS * COLUMNS, 2);
	st->ops->quantise(st, &call);
	CHECK(amax == 9);
	memcpy(twice, sums, sizeof twice);
	call.accumulate = true;
	call.sums.data = twice;
	st->ops->quantise(st, &call);
	for (int j = 0; j < COLUMNS; j++) {
		double sum = 0;

		for (int i = 0; i < ROWS; i++)
			sum += (double)dtype_f32_from_bf16(x[i * COLUMNS + j]);
		CHECK_NEAR(sums[j], sum, 1e-5);
		CHECK_NEAR(twice[j], 2 * sum, 1e-5);
	}
	x[COLUMNS + 1] = 0x7fc0;
	st->ops->quantise(st, &call);
	CHECK(isinf(amax) && amax > 0);
}

/* Nothing but zeros, or an infinite number, gives no factor of its own. */
static void
no_factor_by_hand(void)
{
	uint16_t x[2] = { 0, 0 };
	uint8_t q[2];
	float scale[SCALE_ROW] = { 0.2f, 5 };
	struct quantise call = { .x = tensor_2d(x, DTYPE_BF16, 1, 2),
		.q = tensor_2d(q, DTYPE_F8_E5M2, 1, 2),
		.scale = tensor_1d(scale, DTYPE_F32, SCALE_ROW),
		.kind = QUANTISE_CURRENT };

	st->ops->quantise(st, &call);
	CHECK(scale[SCALE_FACTOR] == 1 && scale[SCALE_INVERSE] == 1 && q[0] == 0);
	x[0] = 0x7f80, scale[SCALE_FACTOR] = 5;
	st->ops->quantise(st, &call);
	CHECK(scale[SCALE_FACTOR] == 1 && q[0] == 0x7b);
}

/* The shape of the scales of a copy [r,k]. */
static struct tensor
scales_of(float *data, enum scale_kind kind, int64_t r, int64_t k)
{
	int64_t lines = (k + 127) / 128;

	return kind == SCALE_LINES
	    ? tensor_2d(data, DTYPE_F32, lines, r)
	    : tensor_2d(data, DTYPE_F32, (r + 127) / 128, (lines + 3) / 4 * 4);
}

/* Where the scale of an element of a copy is. */
static float *
scale_at(const struct tensor *scale, enum scale_kind kind, int row, int k)
{
	float *s = scale->data;

	return kind == SCALE_LINES ? s + k / 128 * scale->shape[1] + row
				   : s + row / 128 * scale->shape[1] + k / 128;
}

/* A copy [rows,columns] of x, element by element: its number, and that the factor of its block is
 * the largest power of two that keeps the block's largest within 448. */
static void
check_blocks(const struct quantise *c, enum scale_kind kind, bool transposed)
{
	const struct tensor *q = transposed ? &c->qt : &c->q;
	const struct tensor *scale = transposed ? &c->scale_t : &c->scale;
	static float largest[512 * 512];
	const uint16_t *x = c->x.data;
	int rows = (int)q->shape[0], columns = (int)q->shape[1];

	memset(largest, 0, sizeof largest);
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++) {
			float v = dtype_f32_from_bf16(
				  x[transposed ? j * rows + i : i * columns + j]),
			      inverse = *scale_at(scale, kind, i, j);
			float *most =
			    largest + (scale_at(scale, kind, i, j) - (float *)scale->data);

			CHECK(((uint8_t *)q->data)[i * columns + j] ==
			    code_by_hand(DTYPE_F8_E4M3, (double)(v / inverse)));
			*most = fmaxf(*most, fabsf(v) / inverse);
		}
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j += 128) {
			float *at = scale_at(scale, kind, i, j);
			float most = largest[at - (float *)scale->data];
			int exponent;

			CHECK(frexpf(*at, &exponent) == 0.5f);
			CHECK(most > 224 && most <= 448);
		}
}

/* Blocks of both kinds, whole ones and parts; and a GEMM of them is that of the numbers they stand
 * for. */
static void
blocks_by_hand(enum scale_kind kind)
{
	enum { M = 144, N = 272 };
	static uint16_t x[M * N];
	static uint8_t q[M * N], qt[N * M], one[16 * N];
	static float scale[8 * 512], scale_t[8 * 512], wide[M * N], ones[16 * N], got[16 * M],
	    want[16 * M];
	struct quantise c = { .x = tensor_2d(x, DTYPE_BF16, M, N),
		.q = tensor_2d(q, DTYPE_F8_E4M3, M, N),
		.qt = tensor_2d(qt, DTYPE_F8_E4M3, N, M),
		.scale = scales_of(scale, kind, M, N),
		.scale_t = scales_of(scale_t, kind, N, M),
		.kind = QUANTISE_BLOCK };
	static float lines[3 * 16];
	struct gemm g = { .c = tensor_2d(got, DTYPE_F32, 16, M),
		.a = tensor_2d(one, DTYPE_F8_E4M3, 16, N),
		.b = c.q,
		.trans_b = true,
		.alpha = 1,
		.scale_a = scales_of(lines, SCALE_LINES, 16, N),
		.scale_b = c.scale };

	fill_bf16(x, M * N, 9);
	x[5] = dtype_bf16_from_f32(448 * 0x1p-20f);
	st->ops->quantise(st, &c);
	check_blocks(&c, kind, false);
	check_blocks(&c, kind, true);
	for (int i = 0; i < M * N; i++)
		wide[i] = number_of(DTYPE_F8_E4M3, q[i]) * *scale_at(&c.scale, kind, i / N, i % N);
	for (int i = 0; i < 3 * 16; i++)
		lines[i] = ldexpf(1, i % 5);
	for (int i = 0; i < 16 * N; i++) {
		one[i] = (uint8_t)(0x30 + i % 7);
		ones[i] = number_of(DTYPE_F8_E4M3, one[i]) * lines[i % N / 128 * 16 + i / N];
	}
	st->ops->gemm(st, &g);
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < M; j++) {
			double sum = 0;

			for (int k = 0; k < N; k++)
				sum += (double)ones[i * N + k] * (double)wide[j * N + k];
			want[i * M + j] = (float)sum;
			CHECK_NEAR(got[i * M + j], want[i * M + j], 1e-5);
		}
}

/* The history moves on whatever came; factors follow its maximum, or its newest place. */
static void
scales_by_hand(bool most_recent)
{
	float history[4][3] = { { 2, 8, 7 }, { 1, 1, 1 }, { 0, 0, 9 }, { 1, 0, 0 } },
	      amax[4] = { 4, INFINITY, 0, 1e-44f }, scale[4][SCALE_ROW],
	      largest[4] = { 448, 57344, 448, 448 };
	struct scales call = { .history = tensor_2d(history, DTYPE_F32, 4, 3),
		.amax = tensor_1d(amax, DTYPE_F32, 4),
		.scale = tensor_2d(scale, DTYPE_F32, 4, SCALE_ROW),
		.largest = tensor_1d(largest, DTYPE_F32, 4),
		.margin = 1,
		.most_recent = most_recent };

	for (int i = 0; i < 4; i++)
		scale[i][SCALE_FACTOR] = 3, scale[i][SCALE_INVERSE] = 1.0f / 3;
	st->ops->scales(st, &call);
	CHECK(history[0][0] == 4 && history[0][1] == 2 && history[0][2] == 8);
	CHECK(history[1][0] == 0 && history[1][1] == 1);
	CHECK(scale[0][SCALE_FACTOR] == 448 / (most_recent ? 4.0f : 8.0f) / 2);
	CHECK(scale[0][SCALE_INVERSE] == 1 / scale[0][SCALE_FACTOR]);
	CHECK(scale[1][SCALE_FACTOR] == (most_recent ? 3 : 57344 / 2));
	CHECK(scale[2][SCALE_FACTOR] == 3 && scale[2][SCALE_INVERSE] == 1.0f / 3);
	CHECK(scale[3][SCALE_FACTOR] == (most_recent ? SCALE_MAX : 224));
	for (int i = 0; i < 4; i++)
		CHECK(amax[i] == 0);
}

static void
by_hand(const struct backend *b)
{
	struct rig r = rig_open(b, DTYPE_BF16);

	st = r.st;
	copy_by_hand(QUANTISE_DELAYED);
	copy_by_hand(QUANTISE_CURRENT);
	share_by_hand();
	largest_by_hand();
	no_factor_by_hand();
	blocks_by_hand(SCALE_LINES);
	blocks_by_hand(SCALE_SQUARES);
	scales_by_hand(false);
	scales_by_hand(true);
	b->close(r.d);
}

const struct op_case cases[] = {
	CHECKED(CASE_CUDA, test_copies),
	CHECKED(CASE_CUDA, test_scales),
	CHECKED(CASE_BOTH, test_producers),
	CHECKED(CASE_CPU, by_hand),
	{ 0 },
};

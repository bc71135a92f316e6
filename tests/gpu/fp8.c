/*
 * fp8.c [copies] [scales] [producers] [gemms] [blocks] - 8-bit floats on the GPU: copies,
 * factors and histories bit for bit as on the CPU, and GEMMs within what their accumulation
 * loses
 *
 * Every GEMM prints a line of what was found. Without a GPU, or in a build without the backend,
 * it prints a note and succeeds.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "tests/gpu/producers.h"

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
	printf("copies: %ld failures so far\n", check_failures);
}

/* --- histories -------------------------------------------------------------------------------- */
enum { SLOTS = 7, STEPS = 5, LENGTH_MAX = 1030 };

struct slots {
	float history[SLOTS * LENGTH_MAX], amax[SLOTS], scale[SCALE_ROW * SLOTS], largest[SLOTS];
};

/* Some steps on a backend. */
static void
step_scales(const struct rig *r, int64_t length, bool most_recent, struct slots *s)
{
	static const float seen[] = { 3, 0, INFINITY, 1e-44f, 3e38f, 0.01f, 448, 5, 7 };
	struct scales call = {
		.history =
		    rig_tensor(r, true, tensor_2d(NULL, DTYPE_F32, SLOTS, length), s->history),
		.amax = rig_tensor(r, true, tensor_1d(NULL, DTYPE_F32, SLOTS), NULL),
		.scale =
		    rig_tensor(r, true, tensor_2d(NULL, DTYPE_F32, SLOTS, SCALE_ROW), s->scale),
		.largest = rig_tensor(r, true, tensor_1d(NULL, DTYPE_F32, SLOTS), s->largest),
		.margin = most_recent ? 1 : 0,
		.most_recent = most_recent,
	};

	for (int step = 0; step < STEPS; step++) {
		for (int i = 0; i < SLOTS; i++)
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
		for (int k = 0; k < SLOTS * LENGTH_MAX; k++)
			cpu.history[k] = (float)(k * 37 % 101) / 8;
		for (int k = 0; k < SLOTS; k++) {
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
	printf("scales: %ld failures so far\n", check_failures);
}

/* --- GEMMs ------------------------------------------------------------------------------------ */

/* The parts that a GEMM plays in a layer, and what else is allowed. */
struct role {
	const char *name;
	enum dtype a, b, c;
	enum scale_kind scale_a, scale_b;
	double alpha, beta;
	bool bias, exact;
	int64_t layer[3]; /* its size in fc2 of 8B, which has the longest sums; 0: not tried */
};

static const struct role roles[] = {
	{ "forward", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_BF16, 0, 0, 1, 0, false, false,
	    { 8192, 4096, 14336 } },
	{ "forward, bias", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_BF16, 0, 0, 1, 0, true, false },
	{ "forward, exact", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_BF16, 0, 0, 1, 0, false, true },
	{ "input gradient", DTYPE_F8_E5M2, DTYPE_F8_E4M3, DTYPE_BF16, 0, 0, 1, 0, false, true,
	    { 8192, 14336, 4096 } },
	{ "weight gradient", DTYPE_F8_E5M2, DTYPE_F8_E4M3, DTYPE_F32, 0, 0, 1, 0, false, true },
	{ "weight gradient, added", DTYPE_F8_E5M2, DTYPE_F8_E4M3, DTYPE_F32, 0, 0, 1, 1, false,
	    true, { 4096, 14336, 8192 } },
	{ "weight gradient of E4M3, added", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_F32, 0, 0, 1, 1,
	    false, true },
	{ "types exchanged, added", DTYPE_F8_E4M3, DTYPE_F8_E5M2, DTYPE_F32, 0, 0, 0.5, 1, false,
	    true },
	{ "bias into F32", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_F32, 0, 0, 1, 0, true, false },
	{ "into F16, bias", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_F16, 0, 0, 0.25, 0, true, true },
};

static const struct role block_roles[] = {
	{ "forward of blocks", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_BF16, SCALE_LINES, SCALE_SQUARES,
	    1, 0, false, false, { 8192, 4096, 14336 } },
	{ "forward of blocks, bias", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_BF16, SCALE_LINES,
	    SCALE_SQUARES, 1, 0, true, false },
	{ "input gradient of blocks", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_BF16, SCALE_LINES,
	    SCALE_SQUARES, 1, 0, false, true, { 8192, 14336, 4096 } },
	{ "input gradient of blocks, E5M2", DTYPE_F8_E5M2, DTYPE_F8_E4M3, DTYPE_BF16, SCALE_LINES,
	    SCALE_SQUARES, 1, 0, false, true },
	{ "weight gradient of blocks", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_F32, SCALE_LINES,
	    SCALE_LINES, 1, 0, false, true },
	{ "weight gradient of blocks, added", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_F32, SCALE_LINES,
	    SCALE_LINES, 1, 1, false, true, { 4096, 14336, 8192 } },
	{ "squares times lines", DTYPE_F8_E4M3, DTYPE_F8_E4M3, DTYPE_F32, SCALE_SQUARES,
	    SCALE_LINES, 1, 1, false, true },
};

enum { CHECKED = 16, PLACES = 3 }; /* rows of the result that are computed here, at each place */

/* One GEMM: operands and scales on the host. */
struct gemm_test {
	const struct role *role;
	int64_t m, n, k;
	uint8_t *a, *b;
	float *scale_a, *scale_b, *bias;
	double *want; /* [PLACES * CHECKED, n] */
	bool deterministic;
};

/* Codes of magnitudes from 1/4 to nearly 8, of either sign. */
static uint8_t *
random_codes(enum dtype t, int64_t count, uint64_t seed)
{
	uint8_t *out = mem_alloc((size_t)count, 1);
	int first = t == DTYPE_F8_E4M3 ? 0x28 : 0x34, range = t == DTYPE_F8_E4M3 ? 40 : 20;
	uint64_t state = seed;

	for (int64_t i = 0; i < count; i++) {
		uint32_t u = rig_random(&state);

		out[i] = (uint8_t)(first + (int)(u >> 8) % range + (u & 1 ? 0x80 : 0));
	}
	return out;
}

/* The shape of an operand's scales, of a tensor a factor and its inverse. */
static struct tensor
scale_shape(enum scale_kind kind, int64_t rows, int64_t k)
{
	return kind == SCALE_TENSOR ? tensor_1d(NULL, DTYPE_F32, SCALE_ROW)
				    : blocks_of(kind, rows, k);
}

/* Powers of two from 1/4 to 2; of a tensor, 3 and its inverse. */
static float *
random_scales(enum scale_kind kind, int64_t rows, int64_t k, uint64_t seed)
{
	struct tensor t = scale_shape(kind, rows, k);
	float *out = mem_alloc((size_t)tensor_elements(&t), sizeof *out);

	for (int64_t i = 0; i < tensor_elements(&t); i++)
		out[i] = kind == SCALE_TENSOR ? (i == SCALE_FACTOR ? 3 : 1.0f / 3)
					      : ldexpf(1, (int)(rig_random(&seed) >> 8) % 4 - 2);
	return out;
}

/* Rows [first, first + count) of an operand [rows, k] as the numbers that they stand for. */
static float *
numbers(const uint8_t *code, const float *scale, const int64_t of[4], const int what[2])
{
	int64_t rows = of[0], k = of[1], first = of[2], count = of[3], lines = (k + 127) / 128;
	float *out = mem_alloc((size_t)(count * k), sizeof *out), table[256];

	for (int i = 0; i < 256; i++)
		table[i] = number_of((enum dtype)what[0], (uint8_t)i);
	for (int64_t r = first; r < first + count; r++)
		for (int64_t i = 0; i < k; i++) {
			int64_t at = what[1] == SCALE_LINES ? i / 128 * rows + r
			    : what[1] == SCALE_SQUARES ? r / 128 * ((lines + 3) / 4 * 4) + i / 128
						       : SCALE_INVERSE;

			out[(r - first) * k + i] = table[code[r * k + i]] * scale[at];
		}
	return out;
}

/* The first row of a place. */
static int64_t
place_row(const struct gemm_test *p, int place)
{
	return (p->m - CHECKED) * place / (PLACES - 1);
}

/* What was in the result before. */
static double
before(int64_t row, int64_t column)
{
	return (double)((row * 31 + column * 17) % 97) - 48;
}

/* The rows that are checked, by the CPU in F32, from the numbers that the codes stand for. */
static void
expect(struct gemm_test *p)
{
	const struct role *o = p->role;
	struct rig cpu = rig_open(&backend_cpu, DTYPE_F32);
	float *b = numbers(p->b, p->scale_b, (const int64_t[]){ p->n, p->k, 0, p->n },
		  (const int[]){ (int)o->b, (int)o->scale_b }),
	      *c = mem_alloc((size_t)(CHECKED * p->n), sizeof *c);

	p->want = mem_alloc((size_t)(PLACES * CHECKED * p->n), sizeof *p->want);
	for (int place = 0; place < PLACES; place++) {
		int64_t row = place_row(p, place);
		float *a = numbers(p->a, p->scale_a, (const int64_t[]){ p->m, p->k, row, CHECKED },
		    (const int[]){ (int)o->a, (int)o->scale_a });
		double *want = p->want + place * CHECKED * p->n;

		cpu.st->ops->gemm(cpu.st,
		    &(struct gemm){ .c = tensor_2d(c, DTYPE_F32, CHECKED, p->n),
			.a = tensor_2d(a, DTYPE_F32, CHECKED, p->k),
			.b = tensor_2d(b, DTYPE_F32, p->n, p->k),
			.trans_b = true,
			.alpha = 1 });
		for (int64_t i = 0; i < CHECKED * p->n; i++)
			want[i] = o->alpha * (double)c[i] +
			    o->beta * before(row + i / p->n, i % p->n) +
			    (o->bias ? (double)p->bias[i % p->n] : 0);
		free(a);
	}
	free(b);
	free(c);
	backend_cpu.close(cpu.d);
}

/* The GEMM's arguments on a device, with what was in the result before. */
static struct gemm
load_gemm(const struct rig *r, const struct gemm_test *p, void *c)
{
	const struct role *o = p->role;
	char *bias = mem_alloc((size_t)p->n, sizeof(double));
	struct gemm g = { .trans_b = true, .alpha = o->alpha, .beta = o->beta, .exact = o->exact };

	for (int64_t i = 0; i < p->m * p->n; i++) {
		double x = before(i / p->n, i % p->n);

		dtype_convert((char *)c + (size_t)i * dtype_size(o->c), o->c, &x, DTYPE_F64, 1);
	}
	dtype_convert(bias, o->c, p->bias, DTYPE_F32, p->n);
	g.a = rig_tensor(r, true, tensor_2d(NULL, o->a, p->m, p->k), p->a);
	g.b = rig_tensor(r, true, tensor_2d(NULL, o->b, p->n, p->k), p->b);
	g.c = rig_tensor(r, true, tensor_2d(NULL, o->c, p->m, p->n), c);
	g.scale_a = rig_tensor(r, true, scale_shape(o->scale_a, p->m, p->k), p->scale_a);
	g.scale_b = rig_tensor(r, true, scale_shape(o->scale_b, p->n, p->k), p->scale_b);
	if (o->scale_a == SCALE_TENSOR) {
		g.scale_a = tensor_rows(&g.scale_a, SCALE_INVERSE, 1);
		g.scale_b = tensor_rows(&g.scale_b, SCALE_INVERSE, 1);
	}
	g.bias = rig_tensor(r, o->bias, tensor_1d(NULL, o->c, p->n), bias);
	rig_sync(r);
	free(bias);
	return g;
}

static void
give_away(const struct rig *r, const struct gemm *g)
{
	const struct tensor all[] = { g->a, g->b, g->c, g->bias },
			    *scale[] = { &g->scale_a, &g->scale_b };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		rig_take(r, all[i], NULL);
	for (int i = 0; i < 2; i++)
		r->b->release(r->d, scale[i]->data);
}

/* The checked rows by the GPU; false when it fails, and then says why. A device of its own, so that
 * a failure does not take the next GEMM with it. */
static bool
compute(const struct backend *b, const struct gemm_test *p, double *got)
{
	const struct role *o = p->role;
	struct device_config config = {
		.num_threads = 1, .dtype = DTYPE_BF16, .deterministic = p->deterministic
	};
	struct err e;
	struct rig r = { .b = b, .d = b->open(&config, &e) };
	size_t size = dtype_size(o->c), bytes = (size_t)(p->m * p->n) * size;
	char *c = mem_alloc(bytes, 1);
	struct gemm g;
	bool good;

	r.st = b->stream(r.d, STREAM_COMPUTE);
	g = load_gemm(&r, p, c);
	r.st->ops->gemm(r.st, &g);
	b->copy_out(r.st, c, g.c.data, bytes);
	good = b->sync(r.st, &e) == 0;
	if (!good)
		fprintf(stderr, "%s: %s\n", o->name, e.msg);
	for (int place = 0; good && place < PLACES; place++)
		dtype_convert(got + place * CHECKED * p->n, DTYPE_F64,
		    c + (size_t)(place_row(p, place) * p->n) * size, o->c, CHECKED * p->n);
	give_away(&r, &g);
	b->close(r.d);
	free(c);
	return good;
}

/*
 * What a GEMM may lose. The tensor cores of Hopper keep about 14 bits of a sum while they add
 * 32 products at a time: every such step may lose 2^-14 of the sum. Promotion after 128 products,
 * exact and of blocks, leaves four steps; fast accumulation takes all of k. Doubled for chance; and
 * once the rounding of the result.
 */
static double
limit_of(const struct gemm_test *p)
{
	const struct role *o = p->role;
	bool promoted = o->exact || o->scale_a != SCALE_TENSOR;
	double steps = promoted || p->k < 128 ? 4 : (double)p->k / 32;
	double rounding = o->c == DTYPE_BF16 ? 0x1p-9 : o->c == DTYPE_F16 ? 0x1p-12 : 0x1p-22;

	return 2 * steps * 0x1p-14 * (2 * steps * 0x1p-14) + rounding * rounding;
}

/* The line of a GEMM. */
static void
report(const struct gemm_test *p, const double *got)
{
	double error = 0, size = 0, worst = 0, limit = limit_of(p);

	for (int64_t i = 0; i < PLACES * CHECKED * p->n; i++) {
		double d = got[i] - p->want[i];

		error += d * d;
		size += p->want[i] * p->want[i];
		worst = fabs(d) > worst || isnan(d) ? fabs(d) : worst;
	}
	size /= (double)(PLACES * CHECKED * p->n);
	error /= (double)(PLACES * CHECKED * p->n) * size;
	check_count++;
	if (!(error <= limit))
		check_failures++;
	printf("%-33s %5lld x %5lld x %5lld %s: NMSE %.2g of %.2g, largest error %.2g of %.3g%s\n",
	    p->role->name, (long long)p->m, (long long)p->n, (long long)p->k,
	    p->deterministic ? "first answer" : "measured", error, limit, worst, sqrt(size),
	    error <= limit ? "" : ": TOO MUCH");
	fflush(stdout);
}

static void
test_gemm(const struct backend *b, const struct role *o, const int64_t size[3], bool deterministic)
{
	struct gemm_test p = { o, size[0], size[1], size[2], .deterministic = deterministic };
	double *got = mem_alloc((size_t)(PLACES * CHECKED * p.n), sizeof *got);

	p.a = random_codes(o->a, p.m * p.k, 1);
	p.b = random_codes(o->b, p.n * p.k, 2);
	p.scale_a = random_scales(o->scale_a, p.m, p.k, 3);
	p.scale_b = random_scales(o->scale_b, p.n, p.k, 4);
	p.bias = mem_alloc((size_t)p.n, sizeof *p.bias);
	for (int64_t i = 0; i < p.n; i++)
		p.bias[i] = (float)(i % 13) - 6;
	expect(&p);
	check_count++;
	if (compute(b, &p, got))
		report(&p, got);
	else
		check_failures++;
	free(p.a);
	free(p.b);
	free(p.scale_a);
	free(p.scale_b);
	free(p.bias);
	free(p.want);
	free(got);
}

/* Every role at small sizes, by the library's first answer or by a measured one, then those of a
 * layer. */
static void
test_gemms(const struct backend *b, const struct role *role, int count)
{
	static const int64_t small[][3] = { { 16, 16, 16 }, { 48, 80, 112 }, { 1040, 528, 1296 } };

	for (int i = 0; i < 3 * count; i++)
		test_gemm(b, &role[i / 3], small[i % 3], i % 2);
	for (int i = 0; i < count; i++)
		if (role[i].layer[0] > 0)
			test_gemm(b, &role[i], role[i].layer, false);
	printf("gemms: %ld failures so far\n", check_failures);
}

int
main(int argc, char **argv)
{
	const struct backend *b = gpu_backend();
	char dir[] = "/tmp/gpu-fp8-XXXXXX";
	struct err e;

	if (!b)
		return 0;
	if (!mkdtemp(dir) || setenv("XDG_CACHE_HOME", dir, 1) < 0) {
		perror(dir);
		return 1;
	}
	if (rig_wanted(argc, argv, "copies"))
		test_copies(b);
	if (rig_wanted(argc, argv, "scales"))
		test_scales(b);
	if (rig_wanted(argc, argv, "producers"))
		test_producers(b);
	if (rig_wanted(argc, argv, "gemms"))
		test_gemms(b, roles, (int)(sizeof roles / sizeof *roles));
	if (rig_wanted(argc, argv, "blocks"))
		test_gemms(b, block_roles, (int)(sizeof block_roles / sizeof *block_roles));
	CHECK(io_remove_tree(dir, &e) == 0);
	return check_done();
}

/* hf_decode.c - tests of quantised tensors: every code with every factor against the definitions,
 * boxes, blocks that do not divide a matrix, and what is refused */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/ckpt/hfdir.h"
#include "tests/check.h"
#include "tests/random_box.h"

#include <unistd.h>

/* A tensor to write. */
struct made {
	const char *name;
	enum dtype dtype;
	int ndim;
	int64_t shape[5];
	const void *data;
};

/* The directory of these tensors, decoded; the current one is used again for each. */
static struct hfdir *
open_made(const struct made *t, int count, const struct config_quantised *how, int want)
{
	struct err e = { "" };
	struct safetensors_writer *w = safetensors_writer_new("model.safetensors", &e);
	struct hfdir *d;

	for (int i = 0; i < count; i++)
		safetensors_declare(w, t[i].name, t[i].dtype, t[i].ndim, t[i].shape);
	for (int i = 0; i < count; i++) {
		size_t n = dtype_size(t[i].dtype);

		for (int k = 0; k < t[i].ndim; k++)
			n *= (size_t)t[i].shape[k];
		CHECK(safetensors_write(w, t[i].data, n, &e) == 0);
	}
	CHECK(safetensors_commit(w, &e) == 0);
	d = hfdir_open(".", &e);
	CHECK_STR(e.msg, "");
	CHECK(hfdir_decode(d, how) == want);
	return d;
}

/* The number of a code of E4M3, by its bits. */
static float
e4m3(unsigned char c)
{
	int exponent = c >> 3 & 15, fraction = c & 7;
	float x =
	    exponent ? ldexpf((float)(8 + fraction), exponent - 10) : ldexpf((float)fraction, -9);

	if ((c & 127) == 127)
		x = NAN;
	return c & 128 ? -x : x;
}

/* The number of a code of E2M1, by its bits. */
static float
e2m1(unsigned char c)
{
	int exponent = c >> 1 & 3, fraction = c & 1;
	float x = exponent ? ldexpf((float)(2 + fraction), exponent - 2) : (float)fraction / 2;

	return c & 8 ? -x : x;
}

static bool
same(float a, float b)
{
	return (isnan(a) && isnan(b)) || !memcmp(&a, &b, sizeof a);
}

/* All of a tensor in FP32, then random boxes of it in FP32 and BF16, some transposed. */
static void
check_boxes(const struct hfdir_tensor *t, const float *want)
{
	struct slice whole = slice_whole(t->ndim, t->shape), last;
	int64_t n = slice_elements(&whole);
	float *out = mem_alloc((size_t)n, sizeof *out), *all = mem_alloc((size_t)n, sizeof *all),
	      *turned = mem_alloc((size_t)n, sizeof *turned);
	uint16_t *half = mem_alloc((size_t)n, sizeof *half);
	struct err e;

	CHECK(hfdir_read(t, &(struct hfdir_box){ whole, DTYPE_F32, false }, all, &e) == 0);
	for (int64_t i = 0; i < n; i++)
		CHECK(same(all[i], want[i]));
	for (int k = 0; k < 40; k++) {
		struct slice box = random_box(&whole);
		int64_t count = slice_elements(&box), rows, cols;
		bool equal = true;

		slice_copy(out, &box, all, &whole, &box, sizeof *out);
		CHECK(hfdir_read(t, &(struct hfdir_box){ box, DTYPE_F32, false }, turned, &e) == 0);
		for (int64_t i = 0; i < count; i++)
			equal &= same(turned[i], out[i]);
		CHECK(hfdir_read(t, &(struct hfdir_box){ box, DTYPE_BF16, false }, half, &e) == 0);
		for (int64_t i = 0; i < count; i++)
			equal &= isnan(out[i]) || half[i] == dtype_bf16_from_f32(out[i]);
		rows = box.count[t->ndim - 2];
		cols = box.count[t->ndim - 1];
		CHECK(hfdir_read(t, &(struct hfdir_box){ box, DTYPE_F32, true }, turned, &e) == 0);
		for (int64_t i = 0; i < count; i++) {
			int64_t m = i / (rows * cols), r = i / cols % rows, c = i % cols;

			equal &= same(turned[m * rows * cols + c * rows + r], out[i]);
		}
		CHECK(equal);
	}
	last = (struct slice){ .ndim = t->ndim };
	CHECK(hfdir_read(t, &(struct hfdir_box){ last, DTYPE_F32, false }, out, &e) == 0);
	free(out);
	free(all);
	free(turned);
	free(half);
}

/* Blocks of 16 x 16 hold every code; each of 256 blocks has one exponent. */
static void
test_fp8_codes(void)
{
	enum { N = 256, B = 16 };
	static unsigned char code[N * N], exponent[B * B];
	static float want[N * N];
	const struct config_quantised how = { "fp8", true, { B, B } };
	struct made made[] = { { "a.weight", DTYPE_F8_E4M3, 2, { N, N }, code },
		{ "a.weight_scale_inv", DTYPE_U8, 2, { B, B }, exponent } };
	struct hfdir *d;

	for (int r = 0; r < N; r++)
		for (int c = 0; c < N; c++) {
			code[r * N + c] = (unsigned char)(r % B * B + c % B);
			exponent[r / B * B + c / B] = (unsigned char)(r / B * B + c / B);
		}
	for (int i = 0; i < N * N; i++) {
		int e = exponent[i / N / B * B + i % N / B];

		want[i] = e4m3(code[i]) * (e == 255 ? INFINITY : ldexpf(1, e - 127));
	}
	d = open_made(made, 2, &how, 1);
	CHECK(hfdir_count(d) == 1 && hfdir_at(d, 0)->view.dtype == DTYPE_BF16);
	check_boxes(hfdir_at(d, 0), want);
	hfdir_close(d);
}

/* Three matrices of 37 x 70 in blocks of 8 x 16: the last blocks of both dimensions are cut, and
 * shapes alone would tell other blocks. Then one factor for a tensor. */
static void
test_fp8_blocks(void)
{
	enum { E = 3, R = 37, C = 70, GR = 5, GC = 5 };
	static unsigned char code[E * R * C];
	static float scale[E * GR * GC], want[E * R * C];
	const struct config_quantised how = { "fp8", true, { 8, 16 } },
				      one = { "fp8", true, { 0, 0 } };
	struct made made[] = { { "x", DTYPE_F8_E4M3, 3, { E, R, C }, code },
		{ "x_scale_inv", DTYPE_F32, 3, { E, GR, GC }, scale },
		{ "y", DTYPE_F32, 1, { 3 }, scale } };
	struct hfdir *d;

	for (int i = 0; i < E * R * C; i++)
		code[i] = (unsigned char)between(0, 126);
	for (int i = 0; i < E * GR * GC; i++)
		scale[i] = (float)between(1, 1 << 24) / 3e8F;
	for (int i = 0; i < E * R * C; i++)
		want[i] =
		    e4m3(code[i]) * scale[(i / (R * C) * GR + i / C % R / 8) * GC + i % C / 16];
	d = open_made(made, 3, &how, 1);
	CHECK(hfdir_count(d) == 2);
	check_boxes(hfdir_find(d, "x"), want);
	hfdir_close(d);

	made[1] = (struct made){ "x_scale", DTYPE_F32, 0, { 0 }, scale };
	for (int i = 0; i < E * R * C; i++)
		want[i] = e4m3(code[i]) * scale[0];
	d = open_made(made, 3, &one, 1);
	check_boxes(hfdir_find(d, "x"), want);
	hfdir_close(d);
}

/* Every byte with every exponent that is read. */
static void
test_mxfp4(void)
{
	enum { E = 253, R = 4, G = 4 };
	static unsigned char byte[E * R * G * 16], exponent[E * R * G];
	static float want[E * G * 32 * R];
	const struct config_quantised how = { "mxfp4", true, { 0, 0 } };
	struct made made[] = { { "m.down_proj_blocks", DTYPE_U8, 4, { E, R, G, 16 }, byte },
		{ "m.down_proj_scales", DTYPE_U8, 3, { E, R, G }, exponent } };
	struct hfdir *d;
	struct err e;

	for (int i = 0; i < E * R * G * 16; i++) {
		byte[i] = (unsigned char)i;
		exponent[i / 16] = (unsigned char)(i / (R * G * 16));
	}
	for (int x = 0; x < E; x++)
		for (int r = 0; r < R; r++)
			for (int c = 0; c < G * 32; c++) {
				unsigned char b =
				    byte[((x * R + r) * G + c / 32) * 16 + c % 32 / 2];

				want[(x * G * 32 + c) * R + r] =
				    e2m1(c % 2 ? b >> 4 : b & 15) * ldexpf(1, x - 127);
			}
	d = open_made(made, 2, &how, 1);
	CHECK(hfdir_count(d) == 1);
	CHECK_STR(hfdir_at(d, 0)->name, "m.down_proj");
	CHECK(hfdir_at(d, 0)->shape[1] == G * 32 && hfdir_at(d, 0)->shape[2] == R);
	check_boxes(hfdir_at(d, 0), want);
	hfdir_close(d);

	exponent[5] = 253;
	d = open_made(made, 2, &how, 1);
	CHECK(hfdir_read(hfdir_at(d, 0),
		  &(struct hfdir_box){ slice_whole(3, hfdir_at(d, 0)->shape), DTYPE_BF16, false },
		  want, &e) < 0);
	CHECK_STR(
	    e.msg, "tensor 'm.down_proj': a factor is 2 to the 126 or more, beyond BF16 and FP32");
	hfdir_close(d);
}

/* Each is a tensor that says why it is none. */
static void
test_refused(void)
{
	static const unsigned char zero[1 << 14];
	static const struct {
		const char *method;
		int64_t block;
		struct made tensor, scales;
		const char *name, *why;
	} cases[] = {
		{ "fp8", 8, { "x", DTYPE_F8_E4M3, 2, { 20, 8 }, zero },
		    { "y_scale_inv", DTYPE_F32, 2, { 3, 1 }, zero }, "x",
		    "there is no 'x_scale_inv'" },
		{ "fp8", 8, { "x", DTYPE_F8_E4M3, 2, { 20, 8 }, zero },
		    { "x_scale_inv", DTYPE_F32, 2, { 2, 1 }, zero }, "x",
		    "its factors 'x_scale_inv' do not have the shape of blocks of 8 x 8" },
		{ "fp8", 8, { "x", DTYPE_F8_E4M3, 2, { 20, 8 }, zero },
		    { "x_scale_inv", DTYPE_I32, 2, { 3, 1 }, zero }, "x",
		    "its factors 'x_scale_inv' are I32" },
		{ "fp8", 0, { "x", DTYPE_F8_E4M3, 2, { 20, 8 }, zero },
		    { "x_scale_inv", DTYPE_F32, 2, { 3, 1 }, zero }, "x",
		    "its factors 'x_scale_inv' are not one number, and config.json has no "
		    "\"weight_block_size\"" },
		{ "mxfp4", 0, { "x_blocks", DTYPE_U8, 3, { 4, 2, 16 }, zero },
		    { "x_scales", DTYPE_U8, 2, { 2, 4 }, zero }, "x",
		    "there is no 'x_scales' with a byte (U8) for each group" },
		{ "mxfp4", 0, { "x_blocks", DTYPE_U8, 3, { 4, 2, 15 }, zero },
		    { "x_scales", DTYPE_U8, 2, { 4, 2 }, zero }, "x",
		    "it is not groups of 16 bytes (U8)" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct made made[] = { cases[i].tensor, cases[i].scales };
		struct config_quantised how = { .decoded = true };
		const struct hfdir_tensor *t;
		struct hfdir *d;

		snprintf(how.method, sizeof how.method, "%s", cases[i].method);
		how.block[0] = how.block[1] = cases[i].block;
		d = open_made(made, 2, &how, 0);
		t = hfdir_find(d, cases[i].name);
		CHECK(t && t->why && t->view.dtype == DTYPE_NONE);
		CHECK_STR(t && t->why ? t->why : "", cases[i].why);
		hfdir_close(d);
	}
}

int
main(void)
{
	char dir[] = "/tmp/hf-decode-XXXXXX";

	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	mt19937_seed(&rng, (uint32_t)check_seed());
	test_fp8_codes();
	test_fp8_blocks();
	test_mxfp4();
	test_refused();
	CHECK(chdir("/") == 0 && io_remove_tree(dir, NULL) == 0);
	return check_done();
}

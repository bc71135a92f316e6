/* source.c - tests of the reader of all formats: the same numbers by any box, in any type */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/source.h"
#include "tests/check.h"
#include "tests/random_box.h"

#include <unistd.h>

/* All of a parameter in this type, or in its own for DTYPE_NONE; the caller frees it. */
static void *
read_whole(struct source *s, const struct param *p, enum dtype t)
{
	const struct source_part part = { .param = p, .slice = slice_whole(p->ndim, p->shape) };
	struct err e = { "" };
	void *out;

	t = t == DTYPE_NONE ? source_dtype(s, p, NULL) : t;
	out = mem_alloc((size_t)param_elements(p), dtype_size(t));
	CHECK(source_read(s, &part, t, out, &e) == 0);
	CHECK_STR(e.msg, "");
	return out;
}

/* A box of a parameter is the same part of the whole of it, in its own type and in another. */
static void
test_box(struct source *s, const struct param *p, enum dtype t)
{
	const struct slice whole = slice_whole(p->ndim, p->shape);
	struct source_part part = { .param = p, .slice = random_box(&whole) };
	size_t bytes = (size_t)slice_elements(&part.slice) * dtype_size(t);
	void *all = read_whole(s, p, t), *want = mem_alloc(bytes, 1), *have = mem_alloc(bytes, 1);
	struct err e = { "" };

	slice_copy(want, &part.slice, all, &whole, &part.slice, dtype_size(t));
	CHECK(source_read(s, &part, t, have, &e) == 0 && !memcmp(want, have, bytes));
	part.slice.count[0] = p->shape[0] + 1;
	CHECK(source_read(s, &part, t, have, &e) < 0);
	CHECK(strstr(e.msg, "does not contain the requested part") != NULL);
	free(all);
	free(want);
	free(have);
}

/* What is lent of a box is what is read of it. Returns whether it was lent. */
static bool
test_lent(struct source *s, const struct param *p, const struct slice *box)
{
	const struct source_part part = { .param = p, .slice = *box };
	enum dtype t = source_dtype(s, p, NULL);
	size_t bytes = (size_t)slice_elements(box) * dtype_size(t);
	void *want = mem_alloc(bytes, 1);
	const void *at;
	struct err e = { "" };

	CHECK(source_read(s, &part, t, want, &e) == 0);
	CHECK(source_lend(s, &part, &at, &e) == 0);
	CHECK_STR(e.msg, "");
	CHECK(!at || !memcmp(want, at, bytes));
	if (at)
		source_give_back(s, &part);
	free(want);
	return at;
}

/* A whole parameter is lent where it lies so, and any box of it is the same. */
static int
count_lent(struct source *s)
{
	int n = 0;

	for (int i = 0; i < s->count; i++) {
		const struct param *p = &s->param[i];
		const struct slice whole = slice_whole(p->ndim, p->shape), box = random_box(&whole);

		n += test_lent(s, p, &whole);
		test_lent(s, p, &box);
	}
	return n;
}

/* Writes the source's weights as a checkpoint, in two passes over its parameters. */
static void
write_checkpoint(struct source *s, const char *save)
{
	struct str manifest = { 0 };
	struct err e = { "" };
	char tmp[IO_PATH];
	struct ckpt_commit c = {
		.save = save, .options = s->options.buf, .state = s->state_text.buf
	};
	struct ckpt_writer *w;

	CHECK(ckpt_begin(save, 0, tmp, &e) == 0);
	w = ckpt_writer_new(tmp, 0, &e);
	for (int i = 0; i < s->count; i++) {
		const struct param *p = &s->param[i];
		struct slice whole = slice_whole(p->ndim, p->shape);

		ckpt_declare(w, p->name, source_dtype(s, p, NULL), p->ndim, p->shape, &whole);
	}
	for (int i = 0; i < s->count; i++) {
		void *bytes = read_whole(s, &s->param[i], DTYPE_NONE);

		CHECK(ckpt_write(w, bytes, &e) == 0);
		free(bytes);
	}
	CHECK(ckpt_writer_finish(w, &manifest, &e) == 0);
	c.tmp = tmp;
	c.manifest = manifest.buf;
	CHECK(ckpt_commit(&c, &e) == 0);
	CHECK_STR(e.msg, "");
	str_release(&manifest);
}

/* Two sources of the same model give the same numbers. */
static void
compare(struct source *a, struct source *b)
{
	CHECK(a->count == b->count && a->num_problems == 0 && b->num_problems == 0);
	CHECK(a->kind->hash(a) != b->kind->hash(b));
	for (int i = 0; i < a->count; i++) {
		size_t bytes = (size_t)param_elements(&a->param[i]) * sizeof(double);
		void *x = read_whole(a, &a->param[i], DTYPE_F64),
		     *y = read_whole(b, &a->param[i], DTYPE_F64);

		CHECK(!memcmp(x, y, bytes));
		free(x);
		free(y);
	}
}

/* A golden Hugging Face directory, by boxes, and as a checkpoint. */
static void
test_model(const char *name, const char *dir)
{
	static const enum dtype types[] = { DTYPE_BF16, DTYPE_F32, DTYPE_F64 };
	char path[1024], save[200];
	struct err e = { "" };
	struct source *s, *copy;
	int n;

	snprintf(path, sizeof path, "%s/tests/golden/ckpt/%s", getenv("TOP") ? getenv("TOP") : ".",
	    name);
	snprintf(save, sizeof save, "%s/%s", dir, name);
	s = source_open(path, &e);
	CHECK_STR(e.msg, "");
	CHECK(s && source_require(s, &e) == 0 && s->kind == &source_hf && !s->rule);
	CHECK(s->state.iteration == 0 && s->layout.tensor_model_parallel_size == 1);
	CHECK(source_dtype(s, &s->param[0], "exp_avg") == DTYPE_NONE);
	for (int i = 0; i < s->count; i++)
		test_box(s, &s->param[i], types[i % 3]);
	/* of GPT-2 the files have matrices turned, but for the two tables */
	n = count_lent(s);
	CHECK(strcmp(name, "gpt2") ? n == s->count : n > 0 && n < s->count);
	write_checkpoint(s, save);
	copy = source_open(save, &e);
	CHECK_STR(e.msg, "");
	CHECK(copy && copy->kind == &source_ckpt && strstr(copy->path, "/iter_0000000"));
	compare(s, copy);
	for (int i = 0; i < copy->count; i++)
		test_box(copy, &copy->param[i], types[i % 3]);
	CHECK(count_lent(copy) == copy->count);
	source_close(copy);
	source_close(s);
}

/* Why a path is not a source. */
static void
test_refused(const char *dir, const char *file, const char *want)
{
	char path[200], name[300];
	struct err e = { "" };

	snprintf(path, sizeof path, "%s/%s", dir, "refused");
	snprintf(name, sizeof name, "%s/%s", path, file);
	CHECK(io_mkdir_p(path, &e) == 0 && outfile_write(name, "{}", 2, &e) == 0);
	CHECK(source_open(path, &e) == NULL && strstr(e.msg, want));
	io_remove_tree(path, NULL);
	CHECK(source_open(path, &e) == NULL && strstr(e.msg, "No such file"));
}

/* Overflow and underflow of the conversions to 16 bits. */
static void
test_lost(void)
{
	static const float x[] = { 0, -0.0f, 1, 65519, 65520, -1e6f, 1e-8f, 1e-40f, 3.4e38f,
		INFINITY, NAN };
	enum { N = sizeof x / sizeof *x };
	static const struct {
		enum dtype to;
		struct dtype_lost want;
	} row[] = { { DTYPE_F16, { 3, 2 } }, { DTYPE_BF16, { 1, 0 } }, { DTYPE_F64, { 0, 0 } } };
	double wide[N], out[N];

	dtype_convert(wide, DTYPE_F64, x, DTYPE_F32, N);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		for (int from = DTYPE_F64; from <= DTYPE_F32; from++) {
			struct dtype_array a = { from == DTYPE_F64 ? (const void *)wide : x,
				(enum dtype)from };
			struct dtype_lost lost;

			dtype_convert(out, row[i].to, a.data, a.type, N);
			lost = dtype_count_lost(a, (struct dtype_array){ out, row[i].to }, N);
			CHECK(lost.overflows == row[i].want.overflows);
			CHECK(lost.underflows == row[i].want.underflows);
		}
}

/* Every number of 16 bits in the other form, against the way through double. */
static void
test_crossed(void)
{
	static uint16_t all[65536], direct[65536], by_double[65536];
	static double wide[65536];

	for (int i = 0; i < 65536; i++)
		all[i] = (uint16_t)i;
	for (int k = 0; k < 2; k++) {
		enum dtype from = k ? DTYPE_F16 : DTYPE_BF16, to = k ? DTYPE_BF16 : DTYPE_F16;
		int64_t over = 0, under = 0;
		struct dtype_lost lost;

		dtype_convert(direct, to, all, from, 65536);
		dtype_convert(wide, DTYPE_F64, all, from, 65536);
		dtype_convert(by_double, to, wide, DTYPE_F64, 65536);
		for (int i = 0; i < 65536; i++) {
			double back;

			CHECK(direct[i] == by_double[i] || isnan(wide[i]));
			dtype_convert(&back, DTYPE_F64, &direct[i], to, 1);
			over += isinf(back) && isfinite(wide[i]);
			under += back == 0 && wide[i] != 0;
		}
		lost = dtype_count_lost(
		    (struct dtype_array){ all, from }, (struct dtype_array){ direct, to }, 65536);
		CHECK(lost.overflows == over && lost.underflows == under);
		CHECK((over > 0) == (k == 0));
	}
}

int
main(void)
{
	char dir[] = "/tmp/mikoshi-source-XXXXXX";
	struct err e;

	mt19937_seed(&rng, (uint32_t)check_seed());
	CHECK(mkdtemp(dir) != NULL);
	test_model("llama", dir);
	test_model("gpt2", dir);
	test_refused(dir, "pytorch_model.bin", "pytorch_model.bin: 2 bytes are not a zip file");
	test_refused(dir, "config.json", ": holds no weights: none of model.safetensors");
	test_refused(dir, "notes.txt", "no checkpoint in '");
	test_lost();
	test_crossed();
	io_remove_tree(dir, &e);
	return check_done();
}

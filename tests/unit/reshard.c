/*
 * reshard.c - a synthetic checkpoint with optimizer states is resharded to other layouts and back
 *
 * With operands it makes test checkpoints for the scripts: SAVE VOCAB [KIND], where KIND is plain,
 * a kind of damage (missing, half, extra, shape), or large (a number that fp16 cannot hold).
 */
#include "ckpt/diff.h"
#include "ckpt/reshard.h"
#include "ckpt/verify.h"
#include "lib/base/io.h"
#include "lib/ckpt/ckpt.h"
#include "lib/model/family.h"
#include "tests/check.h"
#include "tests/made_checkpoint.h"
#include "tests/sized_model.h"

#include <unistd.h>

/* A small model, which still has thousands of pieces, with grouped queries and a tied table. */
static struct model_config
tiny_llama(int64_t vocab)
{
	return sized_llama((struct model_sizes){ 2, 16, 4, 2, 24, 32, vocab });
}

/* Writes SAVE/iter_0000007 with fp32 weights and Adam's moments, one piece per tensor. */
static int
make_checkpoint(const char *save, int64_t vocab, const char *kind, struct err *e)
{
	struct model_config c = tiny_llama(vocab);
	const struct made_checkpoint m = { .save = save,
		.config = &c,
		.iteration = 7,
		.dtype = DTYPE_F32,
		.states = optim_num_states(optim_rules) - !strcmp(kind, "half"),
		.seed = 1,
		.missing = !strcmp(kind, "missing"),
		.extra = !strcmp(kind, "extra"),
		.shape = !strcmp(kind, "shape"),
		.large = !strcmp(kind, "large") };

	return made_write(&m, e);
}

/* Number of problems that verify finds. */
static int
problems(const char *dir)
{
	struct str text = { 0 };
	int n = verify_dir(dir, stdout, &text);

	if (n)
		fprintf(stderr, "%s", text.buf);
	str_release(&text);
	return n;
}

/* A state of the checkpoint's rule that no parameter has is reported as missing for each. */
static void
test_half(const char *dir)
{
	struct model_config c = tiny_llama(131);
	struct param *p;
	char half[100];
	struct err e;

	snprintf(half, sizeof half, "%s/half", dir);
	CHECK(make_checkpoint(half, 131, "half", &e) == 0);
	CHECK(problems(half) == model_params(&c, &p));
	free(p);
}

/* The verdict of mckpt diff. */
static int
differs(const char *a, const char *b)
{
	struct diff_options o = { .a = a, .b = b, .tolerance = -1 };
	FILE *out = fopen("/dev/null", "w");
	struct str warnings = { 0 };
	struct err e;
	int rc = diff_sources(&o, out, &warnings, &e);

	str_release(&warnings);
	fclose(out);
	return rc;
}

/* True when the pieces of two checkpoints have the same bytes. */
static bool
same_files(const char *a, const char *b)
{
	static const char *const names[] = { "manifest.tsv", "pieces-00000.safetensors",
		"options.conf", "state.conf" };
	bool same = true;

	for (int i = 0; i < 4; i++) {
		char path[1200], *x, *y;
		size_t nx = 0, ny = 0;
		struct err e;

		snprintf(path, sizeof path, "%s/iter_0000007/%s", a, names[i]);
		if (io_read_file(path, 0, &x, &nx, &e) < 0)
			return false;
		snprintf(path, sizeof path, "%s/iter_0000007/%s", b, names[i]);
		if (io_read_file(path, 0, &y, &ny, &e) < 0)
			return false;
		same &= nx == ny && !memcmp(x, y, nx);
		free(x);
		free(y);
	}
	return same;
}

/* Reshards to a layout, with the stages listed if there is a text, and back. */
static void
test_there_and_back(const char *dir, const struct layout *l, const char *stages)
{
	char src[100], there[100], back[100], direct[100];
	struct reshard_options o = { .layout = *l, .split.pipeline_model_parallel_layout = stages };
	struct str notes = { 0 };
	struct err e = { "" };

	snprintf(src, sizeof src, "%s/src", dir);
	snprintf(there, sizeof there, "%s/there", dir);
	snprintf(back, sizeof back, "%s/back", dir);
	snprintf(direct, sizeof direct, "%s/direct", dir);
	o.src = src;
	o.save = there;
	CHECK(reshard(&o, &notes, &e) == 0);
	CHECK_STR(e.msg, "");
	CHECK(problems(there) == 0);
	CHECK(differs(src, there) == 0);
	o.layout = (struct layout){ 1, 1, 1, 1 };
	o.split.pipeline_model_parallel_layout = NULL;
	o.src = there;
	o.save = back;
	CHECK(reshard(&o, &notes, &e) == 0);
	o.src = src;
	o.save = direct;
	CHECK(reshard(&o, &notes, &e) == 0);
	CHECK(same_files(back, direct));
	io_remove_tree(there, &e);
	io_remove_tree(back, &e);
	io_remove_tree(direct, &e);
	str_release(&notes);
}

/* Moments are dropped, the weights are kept. */
static void
test_no_optim(const char *dir)
{
	char src[100], bare[100];
	struct reshard_options o = {
		.src = src, .save = bare, .layout = { 2, 1, 1, 1 }, .no_optim = true
	};
	struct str notes = { 0 };
	struct ckpt *c;
	struct err e;

	snprintf(src, sizeof src, "%s/src", dir);
	snprintf(bare, sizeof bare, "%s/bare", dir);
	CHECK(reshard(&o, &notes, &e) == 0);
	CHECK(problems(bare) == 0);
	c = ckpt_open(bare, &e);
	CHECK(c && ckpt_find(c, "decoder.final_layernorm.weight") &&
	    !ckpt_find(c, "decoder.final_layernorm.weight.exp_avg"));
	CHECK(c && strstr(ckpt_options_text(c), "lr 1e-4\nbf16\ndata-path"));
	CHECK(c &&
	    strstr(ckpt_options_text(c),
		"tensor-model-parallel-size 2\npipeline-model-parallel-size 1\n"));
	ckpt_close(c);
	CHECK(reshard(&o, &notes, &e) < 0 && strstr(e.msg, "holds a checkpoint already"));
	o.force = true;
	CHECK(reshard(&o, &notes, &e) == 0);
	o.layout.pipeline_model_parallel_size = 1000;
	CHECK(reshard(&o, &notes, &e) < 0);
	str_release(&notes);
}

int
main(int argc, char **argv)
{
	static const struct {
		struct layout l;
		const char *stages;
	} row[] = {
		{ { 1, 1, 3, 1 }, NULL },
		{ { 2, 1, 1, 2 }, NULL },
		{ { 4, 1, 2, 1 }, NULL },
		{ { 4, 1, 5, 2 }, "E|t*2L" },
		{ { 1, 1, 1, 2 }, "Et*2|L" },
	};
	char dir[] = "/tmp/mikoshi-reshard-XXXXXX", src[100];
	struct err e = { "" };

	if (argc > 2) {
		if (make_checkpoint(
			argv[1], strtoll(argv[2], NULL, 10), argc > 3 ? argv[3] : "plain", &e) == 0)
			return 0;
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	CHECK(mkdtemp(dir) != NULL);
	snprintf(src, sizeof src, "%s/src", dir);
	CHECK(make_checkpoint(src, 131, "plain", &e) == 0);
	CHECK(problems(src) == 0);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		test_there_and_back(dir, &row[i].l, row[i].stages);
	test_no_optim(dir);
	test_half(dir);
	io_remove_tree(dir, &e);
	return check_done();
}

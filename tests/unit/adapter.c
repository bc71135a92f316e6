/* adapter.c - adapters of PEFT merged into a model: the numbers, and what is refused by name */
#include "ckpt/adapted.h"
#include "lib/base/io.h"
#include "lib/base/outfile.h"
#include "lib/ckpt/safetensors.h"
#include "tests/check.h"
#include "tests/made_checkpoint.h"
#include "tests/sized_model.h"

#include <unistd.h>

enum { RANK = 3, HIDDEN = 16, ROWS = 131 };

static const char q_a[] = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight",
		  q_b[] = "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight",
		  k_b[] = "base_model.model.model.layers.1.self_attn.k_proj.lora_B.weight",
		  other_a[] = "base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight",
		  other_b[] = "base_model.model.model.layers.9.self_attn.q_proj.lora_B.weight",
		  norm[] = "base_model.model.model.norm.weight",
		  head[] = "base_model.model.lm_head.weight",
		  in_a[] = "base_model.model.model.embed_tokens.lora_embedding_A",
		  in_b[] = "base_model.model.model.embed_tokens.lora_embedding_B";

/* A tensor of an adapter; its numbers follow from its name. */
struct tensor_of {
	const char *name;
	int ndim;
	int64_t shape[2];
};

static void
draw(const char *name, int64_t n, float *out)
{
	double *x = mem_alloc((size_t)n, sizeof *x);

	rng_normal(5, 0, n, rng_stream(name), 0, x);
	dtype_convert(out, DTYPE_F32, x, DTYPE_F64, n);
	free(x);
}

/* Writes DIR/adapter_config.json with these members too, and the tensors, the last of which has no
 * name. */
static void
write_adapter(const char *members, const struct tensor_of *t)
{
	struct str text = { 0 };
	struct safetensors_writer *w;
	float *x;
	struct err e;

	CHECK(io_mkdir_p("adapter", &e) == 0);
	str_addf(&text, "{\"peft_type\": \"LORA\", \"r\": 3, \"lora_alpha\": 6%s}", members);
	CHECK(outfile_write("adapter/adapter_config.json", text.buf, text.len, &e) == 0);
	str_release(&text);
	w = safetensors_writer_new("adapter/adapter_model.safetensors", &e);
	CHECK(w != NULL);
	for (int i = 0; t[i].name; i++)
		safetensors_declare(w, t[i].name, DTYPE_F32, t[i].ndim, t[i].shape);
	for (int i = 0; t[i].name; i++) {
		int64_t n = t[i].shape[0] * (t[i].ndim > 1 ? t[i].shape[1] : 1);

		x = mem_alloc((size_t)n, sizeof *x);
		draw(t[i].name, n, x);
		CHECK(safetensors_write(w, x, (size_t)n * sizeof *x, &e) == 0);
		free(x);
	}
	CHECK(safetensors_commit(w, &e) == 0);
}

/* What is made of a base; NULL with the reason. */
static struct derived *
apply(const char *base, const struct adapted_rule *rule, struct err *e)
{
	static const char *path[1];
	struct derived_job job = {
		.kind = &derived_adapted, .rule = rule, .path = path, .count = 1, .save = "out"
	};

	path[0] = base;
	*e = (struct err){ "" };
	return derived_open(&job, e);
}

/* A parameter of a source in fp32; free() it. */
static float *
numbers(struct source *s, const char *name, int64_t *n)
{
	struct err e = { "" };
	const struct param *p = NULL;
	struct source_part part = { 0 };
	float *x;

	for (int i = 0; i < s->count; i++)
		if (!strcmp(s->param[i].name, name))
			p = &s->param[i];
	CHECK(p != NULL);
	part.param = p;
	part.slice = slice_whole(p->ndim, p->shape);
	*n = param_elements(p);
	x = mem_alloc((size_t)*n, sizeof *x);
	CHECK(source_read(s, &part, DTYPE_F32, x, &e) == 0);
	return x;
}

/* Whether a matrix became W + scale B A, of an embedding W + scale (B A)^T. */
static void
check_pair(struct derived *d, const char *param, const char *const names[2], double scale)
{
	int64_t n, m;
	struct source *base = d->from[0];
	float *was = numbers(base, param, &n), *is = numbers(&d->s, param, &m),
	      *a = mem_alloc(RANK * ROWS, sizeof *a), *b = mem_alloc(RANK * HIDDEN, sizeof *b);
	bool embedding = n == ROWS * HIDDEN;
	int64_t rows = n / HIDDEN, inner = embedding ? ROWS : HIDDEN;

	CHECK(n == m);
	draw(names[0], RANK * inner, a);
	draw(names[1], RANK * (embedding ? HIDDEN : rows), b);
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < HIDDEN; j++) {
			double sum = 0;

			for (int k = 0; k < RANK; k++)
				sum += embedding ? (double)b[j * RANK + k] * a[k * inner + i]
						 : (double)b[i * RANK + k] * a[k * inner + j];
			CHECK_NEAR(is[i * HIDDEN + j], was[i * HIDDEN + j] + scale * sum, 1e-6);
		}
	free(was);
	free(is);
	free(a);
	free(b);
}

static const struct tensor_of pair[] = { { q_a, 2, { RANK, HIDDEN } }, { q_b, 2, { HIDDEN, RANK } },
	{ NULL, 0, { 0 } } };

/* The scale is alpha / r, or / sqrt(r), of the first key that matches a trailing part. */
static void
test_scales(void)
{
	static const struct {
		const char *members;
		double scale;
	} row[] = {
		{ "", 2 },
		{ ", \"use_rslora\": true", 3.4641016151377544 },
		{ ", \"alpha_pattern\": {\"k_proj\": 1, \"proj\": 1, \"q_proj\": 9}", 3 },
		{ ", \"alpha_pattern\": {\"layers\\\\.[1].self_attn.q_proj\": 1.5}", 0.5 },
		{ ", \"r\": 8, \"rank_pattern\": {\"model.layers.1.self_attn.q_proj\": 3}", 2 },
	};
	static const char *const names[] = { q_a, q_b };
	const struct adapted_rule rule = { .adapter = "adapter" };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct err e;
		struct derived *d;
		int64_t n;
		float *x, *y;

		write_adapter(row[i].members, pair);
		d = apply("base", &rule, &e);
		CHECK_STR(e.msg, "");
		check_pair(
		    d, "decoder.layers.1.self_attention.linear_q.weight", names, row[i].scale);
		x = numbers(&d->s, "decoder.layers.0.self_attention.linear_q.weight", &n);
		y = numbers(d->from[0], "decoder.layers.0.self_attention.linear_q.weight", &n);
		CHECK(!memcmp(x, y, (size_t)n * sizeof *x));
		free(x);
		free(y);
		CHECK(
		    strstr(d->s.notes.buf, "2 tensors: 1 modules with a pair, 0 tensors replaced"));
		derived_close(d);
	}
}

/* A tied table that changes becomes two, of which the other one is the base's. */
static void
test_tables(void)
{
	static const struct tensor_of tables[] = { { in_a, 2, { RANK, ROWS } },
		{ in_b, 2, { HIDDEN, RANK } }, { norm, 1, { HIDDEN } }, { NULL, 0, { 0 } } };
	static const char *const names[] = { in_a, in_b };
	struct adapted_rule rule = { .adapter = "adapter" };
	struct derived *d;
	struct err e;
	int64_t n, m;
	float *x, *y;

	write_adapter("", tables);
	CHECK(apply("base", &rule, &e) == NULL);
	CHECK_STR(e.msg,
	    "adapter: 'model.embed_tokens.weight' is one of two tables that are tied in this "
	    "model: --untie makes them two");
	rule.untie = true;
	d = apply("base", &rule, &e);
	CHECK_STR(e.msg, "");
	check_pair(d, "embedding.word_embeddings.weight", names, 2);
	x = numbers(&d->s, "output_layer.weight", &n);
	y = numbers(d->from[0], "embedding.word_embeddings.weight", &m);
	CHECK(n == m && !memcmp(x, y, (size_t)n * sizeof *x));
	free(x);
	x = numbers(&d->s, "decoder.final_layernorm.weight", &n);
	draw(norm, n, y);
	CHECK(!memcmp(x, y, (size_t)n * sizeof *x));
	free(x);
	free(y);
	derived_close(d);
}

static void
test_refused(void)
{
	static const struct tensor_of none[] = { { NULL, 0, { 0 } } },
				      unknown[] = { { other_a, 2, { RANK, HIDDEN } },
					      { other_b, 2, { HIDDEN, RANK } },
					      { NULL, 0, { 0 } } },
				      half[] = { { k_b, 2, { HIDDEN, RANK } }, { NULL, 0, { 0 } } },
				      thin[] = { { q_a, 2, { 2, HIDDEN } },
					      { q_b, 2, { HIDDEN, 2 } }, { NULL, 0, { 0 } } },
				      wide[] = { { q_a, 2, { RANK, HIDDEN + 1 } },
					      { q_b, 2, { HIDDEN, RANK } }, { NULL, 0, { 0 } } },
				      saved[] = { { head, 2, { ROWS, HIDDEN } },
					      { NULL, 0, { 0 } } };
	static const struct {
		const char *members;
		const struct tensor_of *tensors;
		const char *want;
	} row[] = {
		{ ", \"use_dora\": true", pair,
		    "adapter/adapter_config.json: \"use_dora\": such an adapter is not merged: the "
		    "result would not be the model that it makes" },
		{ ", \"target_parameters\": [\"mlp.experts\"]", pair,
		    "adapter/adapter_config.json: \"target_parameters\": such an adapter is not "
		    "merged: the result would not be the model that it makes" },
		{ ", \"init_lora_weights\": \"pissa_niter_4\"", pair,
		    "adapter/adapter_config.json: \"init_lora_weights\": \"pissa_niter_4\" has "
		    "changed the base: with --base-is-residual it is taken for the changed one" },
		{ ", \"peft_type\": \"IA3\"", none,
		    "adapter/adapter_config.json: \"peft_type\" is \"IA3\": only LORA is merged" },
		{ "", unknown,
		    "adapter: 'model.layers.9.self_attn.q_proj.weight' is of no tensor of a llama "
		    "model of this config" },
		{ "", half,
		    "adapter/adapter_model.safetensors: 'model.layers.1.self_attn.k_proj.weight' "
		    "has one of two matrices alone" },
		{ "", thin,
		    "adapter/adapter_model.safetensors: 'model.layers.1.self_attn.q_proj' has rank "
		    "2, but its config says 3" },
		{ "", wide,
		    "adapter: 'model.layers.1.self_attn.q_proj.weight': matrices of 17 to 16 do "
		    "not "
		    "fit the model's tensor" },
		{ "", saved,
		    "adapter: 'lm_head.weight' is one of two tables that are tied in this model: "
		    "--untie makes them two" },
	};
	const struct adapted_rule rule = { .adapter = "adapter" };
	struct err e;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		write_adapter(row[i].members, row[i].tensors);
		CHECK(apply("base", &rule, &e) == NULL);
		CHECK_STR(e.msg, row[i].want);
	}
	CHECK(!io_exists("out"));
}

/* Writes ./adapter for queries of layer 0 of a model of this width. */
static int
make_adapter(int64_t width)
{
	const struct tensor_of wide[] = {
		{ "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", 2,
		    { RANK, width } },
		{ "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", 2,
		    { width, RANK } },
		{ NULL, 0, { 0 } }
	};

	write_adapter("", wide);
	return check_done();
}

int
main(int argc, char **argv)
{
	char dir[] = "/tmp/mikoshi-adapter-XXXXXX";
	struct model_config c = sized_llama((struct model_sizes){ 2, HIDDEN, 4, 2, 24, 32, ROWS });
	struct made_checkpoint m = {
		.save = "base", .config = &c, .iteration = 7, .dtype = DTYPE_F32, .seed = 2
	};
	struct err e;

	if (argc == 2)
		return make_adapter(strtoll(argv[1], NULL, 10));
	CHECK(mkdtemp(dir) && chdir(dir) == 0 && made_write(&m, &e) == 0);
	test_scales();
	test_tables();
	test_refused();
	CHECK(chdir("/") == 0);
	io_remove_tree(dir, &e);
	return check_done();
}

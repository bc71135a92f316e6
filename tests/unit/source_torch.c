/* source_torch.c - tests of lib/ckpt/source_torch: what is wrong in a checkpoint is named, and what
 * is not is read; every form of the optimizer */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/ckpt/megatron_flat.h"
#include "lib/ckpt/pickle_write.h"
#include "lib/ckpt/source.h"
#include "lib/ckpt/torchzip_write.h"
#include "tests/check.h"

#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/source_torch.XXXXXX";

enum { LAYERS = 2, MOST = 24, EXP_AVG = 100, EXP_AVG_SQ = 200 };

/* The tensors of a small Llama by their local names, in the order of registration. Element i of
 * tensor k is k + i / 8, which BF16 has exactly. */
static const struct shape {
	const char *key;
	int64_t rows, cols; /* cols 0: a vector */
} layer_shapes[] = {
	{ "input_layernorm.weight", 4, 0 },
	{ "self_attention.linear_proj.weight", 4, 4 },
	{ "self_attention.linear_qkv.weight", 12, 4 },
	{ "pre_mlp_layernorm.weight", 4, 0 },
	{ "mlp.linear_fc1.weight", 12, 4 },
	{ "mlp.linear_fc2.weight", 4, 6 },
};
enum { PER_LAYER = sizeof layer_shapes / sizeof *layer_shapes, TENSORS = 3 + LAYERS * PER_LAYER };

enum form { FORM_NONE, FORM_GROUPS, FORM_FLAT, FORM_FP32 };

/* What is written. Changes are of the form "KEY ACTION". */
struct plan {
	enum form form;
	struct megatron_flat_rule rule;
	const char *change;
};

struct writing {
	const struct plan *plan;
	struct str pickle, data;
	int64_t storage[4 * MOST]; /* bytes of each */
	int64_t count;
};

/* Whether the change is this action on the key. */
static bool
changed(const struct writing *w, const char *key, const char *action)
{
	const char *c = w->plan->change;
	size_t n = strlen(key);

	return c && !strncmp(c, key, n) && c[n] == ' ' && !strcmp(c + n + 1, action);
}

static struct shape
shape_of(int k, char key[96])
{
	static const struct shape ends[] = { { "embedding.word_embeddings.weight", 8, 4 },
		{ "decoder.final_layernorm.weight", 4, 0 }, { "output_layer.weight", 8, 4 } };
	struct shape s = k == 0      ? ends[0]
	    : k > LAYERS * PER_LAYER ? ends[k - LAYERS * PER_LAYER]
				     : layer_shapes[(k - 1) % PER_LAYER];

	if (k == 0 || k > LAYERS * PER_LAYER)
		snprintf(key, 96, "%s", s.key);
	else
		snprintf(key, 96, "decoder.layers.%d.%s", (k - 1) / PER_LAYER, s.key);
	return s;
}

static int64_t
elements_of(const struct shape *s)
{
	return s->rows * (s->cols ? s->cols : 1);
}

/* Appends values first, first + 1/8, ... of a type; masters are a little larger. */
static void
add_values(struct str *out, enum dtype t, double first, int64_t n, bool master)
{
	for (int64_t i = 0; i < n; i++) {
		double x = (first + (double)i / 8) * (master ? 1 + 1.0 / 4096 : 1);
		char bytes[8];

		dtype_convert(bytes, t, &x, DTYPE_F64, 1);
		str_add(out, bytes, dtype_size(t));
	}
}

/* One tensor of the pickle and its storage. */
static void
put_tensor(struct writing *w, enum dtype t, const struct shape *s, double first, bool master)
{
	size_t before = w->data.len;

	pickle_put_tensor(
	    &w->pickle, t, s->cols ? 2 : 1, (int64_t[]){ s->rows, s->cols }, w->count);
	add_values(&w->data, t, first, elements_of(s), master);
	w->storage[w->count++] = (int64_t)(w->data.len - before);
}

static void
put_model(struct writing *w)
{
	enum dtype type = w->plan->form == FORM_FP32 ? DTYPE_F32 : DTYPE_BF16;

	pickle_open_dict(&w->pickle);
	for (int k = 0; k < TENSORS; k++) {
		char key[96];
		struct shape s = shape_of(k, key);
		size_t at = w->pickle.len;

		if (changed(w, key, "gone"))
			continue;
		if (changed(w, key, "wide"))
			s.rows++;
		pickle_put_text(&w->pickle, changed(w, key, "renamed") ? "unknown.weight" : key);
		if (changed(w, key, "none"))
			pickle_put_none(&w->pickle);
		else
			put_tensor(w, type, &s, k, false);
		if (changed(w, key, "strange"))
			*(char *)memchr(w->pickle.buf + at, 'B', w->pickle.len - at) = 'X';
		if (!changed(w, key, "twice"))
			continue;
		pickle_put_text(&w->pickle, key);
		put_tensor(w, type, &s, k, false);
	}
	pickle_put_text(&w->pickle, "decoder.layers.0.mlp.linear_fc1._extra_state");
	pickle_put_none(&w->pickle);
	pickle_close_dict(&w->pickle);
}

/* The tensors of a group: those that decay, or the others. */
static void
put_group(struct writing *w, bool decay, int *id)
{
	struct str *p = &w->pickle;

	pickle_open_dict(p);
	pickle_put_text(p, "wd_mult");
	pickle_put_double(p, decay);
	pickle_put_text(p, "step");
	pickle_put_int(p, 9);
	pickle_put_text(p, "params");
	pickle_open_list(p);
	for (int k = 0; k < TENSORS; k++) {
		char key[96];

		if (!!shape_of(k, key).cols == decay)
			pickle_put_int(p, (*id)++);
	}
	if (decay && changed(w, "groups", "longer"))
		pickle_put_int(p, 99);
	pickle_close_list(p);
	pickle_close_dict(p);
}

/* The states of all, by number: those that decay first. */
static void
put_states(struct writing *w)
{
	struct str *p = &w->pickle;
	int id = 0;

	pickle_open_dict(p);
	for (int decay = 1; decay >= 0; decay--)
		for (int k = 0; k < TENSORS; k++) {
			char key[96];
			struct shape s = shape_of(k, key);

			if (!!s.cols != decay)
				continue;
			pickle_put_int(p, id++);
			pickle_open_dict(p);
			pickle_put_text(p, "exp_avg");
			put_tensor(w, DTYPE_F32, &s, k + EXP_AVG, false);
			if (!changed(w, key, "half")) {
				pickle_put_text(p, "exp_avg_sq");
				put_tensor(w, DTYPE_F32, &s, k + EXP_AVG_SQ, false);
			}
			pickle_close_dict(p);
		}
	pickle_close_dict(p);
}

static void
put_masters(struct writing *w)
{
	struct str *p = &w->pickle;

	pickle_put_text(p, "fp32_from_fp16_params");
	pickle_open_list(p);
	for (int decay = 1; decay >= 0; decay--) {
		pickle_open_list(p);
		for (int k = 0; k < TENSORS; k++) {
			char key[96];
			struct shape s = shape_of(k, key);

			if (!!s.cols == decay)
				put_tensor(w, DTYPE_F32, &s, k + changed(w, key, "other"), true);
		}
		pickle_close_list(p);
	}
	pickle_close_list(p);
}

static void
put_optimizer(struct writing *w)
{
	bool outer = w->plan->form != FORM_FP32;
	struct str *p = &w->pickle;
	int id = 0;

	pickle_open_dict(p);
	if (outer) {
		pickle_put_text(p, "optimizer");
		pickle_open_dict(p);
	}
	if (w->plan->form != FORM_FLAT) {
		pickle_put_text(p, "state");
		put_states(w);
	}
	pickle_put_text(p, "param_groups");
	pickle_open_list(p);
	put_group(w, true, &id);
	put_group(w, false, &id);
	pickle_close_list(p);
	if (outer)
		pickle_close_dict(p);
	if (w->plan->form == FORM_GROUPS)
		put_masters(w);
	pickle_close_dict(p);
}

static void
put_args(struct writing *w)
{
	static const char *const sizes[] = { "num_layers", "hidden_size", "num_attention_heads",
		"ffn_hidden_size", "padded_vocab_size", "vocab_size", "max_position_embeddings",
		"consumed_train_samples" };
	const int64_t values[] = { LAYERS, 4, 1, 6, 8, 5, 16, 90 };
	struct str *p = &w->pickle;

	pickle_open_object(p, "argparse", "Namespace");
	for (int i = 0; i < 8; i++) {
		pickle_put_text(p, sizes[i]);
		pickle_put_int(p, values[i] + changed(w, sizes[i], "more"));
	}
	pickle_put_text(p, "normalization");
	pickle_put_text(p, "RMSNorm");
	pickle_put_text(p, "position_embedding_type");
	pickle_put_text(p, "rope");
	pickle_put_text(p, "swiglu");
	pickle_put_bool(p, true);
	pickle_put_text(p, "add_bias_linear");
	pickle_put_bool(p, false);
	pickle_put_text(p, "untie_embeddings_and_output_weights");
	pickle_put_bool(p, true);
	pickle_put_text(p, "optimizer");
	pickle_put_text(p, changed(w, "optimizer", "sgd") ? "sgd" : "adam");
	pickle_put_text(p, "ddp_bucket_size");
	pickle_put_int(p, w->plan->rule.bucket);
	pickle_close_object(p);
}

/* Writes what has been gathered as DIR/mp_rank_00/NAME. */
static void
write_file(struct writing *w, const char *name)
{
	char path[256];
	FILE *f;
	struct torchzip_writer *z;
	int64_t at = 0;

	pickle_end(&w->pickle);
	snprintf(path, sizeof path, "%s/mp_rank_00", dir);
	mkdir(path, 0777);
	snprintf(path, sizeof path, "%s/mp_rank_00/%s", dir, name);
	f = fopen(path, "w");
	CHECK(f);
	z = torchzip_begin(f, "archive", &w->pickle);
	for (int64_t i = 0; i < w->count; at += w->storage[i++]) {
		torchzip_storage(z, (uint64_t)w->storage[i]);
		torchzip_put(z, w->data.buf + at, (size_t)w->storage[i]);
	}
	torchzip_end(z);
	fclose(f);
	str_release(&w->pickle);
	str_release(&w->data);
	w->count = 0;
}

/* The three flat tensors. */
static void
write_flat(struct writing *w)
{
	struct megatron_flat_tensor t[TENSORS];
	int64_t start[TENSORS], length;
	char key[96];

	for (int i = 0; i < TENSORS; i++) {
		struct shape s = shape_of(TENSORS - 1 - i, key);

		t[i] = (struct megatron_flat_tensor){ elements_of(&s), false };
	}
	length = megatron_flat(&w->plan->rule, t, TENSORS, start);
	pickle_begin(&w->pickle);
	pickle_open_dict(&w->pickle);
	pickle_put_text(&w->pickle, changed(w, "flat", "old") ? "x" : "buckets_coalesced");
	pickle_put_bool(&w->pickle, true);
	pickle_put_int(&w->pickle, 0);
	pickle_open_dict(&w->pickle);
	pickle_put_text(&w->pickle, "types");
	pickle_open_dict(&w->pickle);
	for (int part = 0; part < 3; part++) {
		static const char *const names[] = { "param", "exp_avg", "exp_avg_sq" };
		const int add[] = { changed(w, "flat", "other"), EXP_AVG, EXP_AVG_SQ };
		struct shape flat = { "", length, 0 };
		size_t base = w->data.len;

		pickle_put_text(&w->pickle, names[part]);
		put_tensor(w, DTYPE_F32, &flat, -1000, false);
		for (int i = 0; i < TENSORS; i++) {
			struct str values = { 0 };

			add_values(&values, DTYPE_F32, TENSORS - 1 - i + add[part], t[i].elements,
			    part == 0);
			memcpy(w->data.buf + base + (size_t)start[i] * 4, values.buf, values.len);
			str_release(&values);
		}
	}
	pickle_close_dict(&w->pickle);
	pickle_close_dict(&w->pickle);
	pickle_close_dict(&w->pickle);
	write_file(w, "distrib_optim.pt");
}

static void
write_checkpoint(const struct plan *plan)
{
	struct writing w = { .plan = plan };
	struct str *p = &w.pickle;

	io_remove_tree(dir, NULL);
	mkdir(dir, 0777);
	pickle_begin(p);
	pickle_open_dict(p);
	if (!changed(&w, "args", "gone")) {
		pickle_put_text(p, "args");
		put_args(&w);
	}
	pickle_put_text(p, "checkpoint_version");
	pickle_put_double(p, changed(&w, "version", "old") ? 2.0 : 3.0);
	pickle_put_text(p, "iteration");
	pickle_put_int(p, 9);
	pickle_put_text(p, "model");
	if (changed(&w, "model", "old")) {
		pickle_open_dict(p);
		pickle_put_text(p, "language_model");
		pickle_put_none(p);
		pickle_close_dict(p);
	} else {
		put_model(&w);
	}
	if (plan->form != FORM_NONE) {
		pickle_put_text(p, "optimizer");
		put_optimizer(&w);
	}
	pickle_close_dict(p);
	write_file(&w, "model_optim_rng.pt");
	if (plan->form == FORM_FLAT)
		write_flat(&w);
}

/* --- tests ------------------------------------------------------------------------------------ */

/* The rows of a parameter are those of its tensor, from row `at` on. */
static void
check_part(struct source *s, const char *name, const char *state, double first)
{
	struct source_part part = { .state = state };
	struct err e;
	double x = 0;

	for (int i = 0; i < s->count; i++)
		if (!strcmp(s->param[i].name, name))
			part.param = &s->param[i];
	CHECK(part.param);
	if (!part.param)
		return;
	part.slice = slice_whole(part.param->ndim, part.param->shape);
	for (int d = 0; d < part.slice.ndim; d++)
		part.slice.count[d] = 1;
	CHECK(source_read(s, &part, DTYPE_F64, &x, &e) == 0);
	CHECK_NEAR(x, first, 1e-3);
}

/* Values of q, k, v, gate, up and a norm, with their states. Layer 1 begins with tensor 7; a row of
 * 4 is 1/2 more than the one before. */
static void
check_values(struct source *s)
{
	static const struct {
		const char *name;
		double first;
	} params[] = {
		{ "embedding.word_embeddings.weight", 0 },
		{ "decoder.layers.1.input_layernorm.weight", 7 },
		{ "decoder.layers.1.self_attention.linear_q.weight", 9 },
		{ "decoder.layers.1.self_attention.linear_k.weight", 11 },
		{ "decoder.layers.1.self_attention.linear_v.weight", 13 },
		{ "decoder.layers.1.mlp.linear_gate.weight", 11 },
		{ "decoder.layers.1.mlp.linear_up.weight", 14 },
		{ "output_layer.weight", 14 },
	};

	for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
		check_part(s, params[i].name, NULL, params[i].first);
		if (!s->rule)
			continue;
		check_part(s, params[i].name, "exp_avg", params[i].first + EXP_AVG);
		check_part(s, params[i].name, "exp_avg_sq", params[i].first + EXP_AVG_SQ);
	}
}

static const struct {
	struct plan plan;
	bool rule;
	enum dtype dtype;
} good[] = {
	{ { .form = FORM_NONE }, false, DTYPE_BF16 },
	{ { .form = FORM_GROUPS }, true, DTYPE_F32 },
	{ { .form = FORM_FP32 }, true, DTYPE_F32 },
	{ { .form = FORM_FLAT, .rule = { 0, 64, true, 1 } }, true, DTYPE_F32 },
	{ { .form = FORM_FLAT, .rule = { 0, 1, true, 1 } }, true, DTYPE_F32 },
	{ { .form = FORM_FLAT, .rule = { 40, 64, true, 1 } }, true, DTYPE_F32 },
	{ { .form = FORM_FLAT, .rule = { 40, 64, false, 128 } }, true, DTYPE_F32 },
	{ { .form = FORM_GROUPS, .change = "optimizer sgd" }, false, DTYPE_BF16 },
};

static void
test_good(void)
{
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		struct err e = { "" };
		struct source *s;

		write_checkpoint(&good[i].plan);
		s = source_open(dir, &e);
		CHECK_STR(e.msg, "");
		CHECK(s && source_require(s, &e) == 0);
		if (!s)
			continue;
		CHECK_STR(s->problems.buf ? s->problems.buf : "", "");
		CHECK(!!s->rule == good[i].rule);
		CHECK(source_dtype(s, &s->param[0], NULL) == good[i].dtype);
		CHECK(s->state.iteration == 9 && s->state.optimizer_steps == 9);
		check_values(s);
		source_close(s);
	}
}

/* What does not open, and what opens with a problem; DIR is left out of both. */
static const struct {
	struct plan plan;
	const char *reason;
} bad[] = {
	{ { .change = "args gone" },
	    ": mp_rank_00/model_optim_rng.pt: no args: the options of the run are not in the "
	    "checkpoint" },
	{ { .change = "version old" },
	    ": mp_rank_00/model_optim_rng.pt: checkpoint_version 2: at least 3.0 is read" },
	{ { .change = "model old" },
	    ": mp_rank_00/model_optim_rng.pt: a model of before Megatron Core (language_model), "
	    "which is not read" },
	{ { .change = "num_layers more" }, ": 2 layers in the files, but num_layers is 3" },
	{ { .change = "hidden_size more" },
	    ": mp_rank_00/model_optim_rng.pt: tensor 'embedding.word_embeddings.weight' has shape "
	    "[8, 4], a rank of the model needs [8, 5] (and 14 more; mckpt verify lists them)" },
	{ { .change = "ffn_hidden_size more" },
	    ": mp_rank_00/model_optim_rng.pt: tensor 'decoder.layers.0.mlp.linear_fc1.weight' has "
	    "shape [12, 4], a rank of the model needs [14, 4] (and 3 more; mckpt verify lists "
	    "them)" },
	{ { .change = "output_layer.weight gone" },
	    ": tensor 'output_layer.weight' of tensor rank 0 is missing" },
	{ { .change = "output_layer.weight twice" },
	    ": mp_rank_00/model_optim_rng.pt: tensor 'output_layer.weight' is there twice" },
	{ { .change = "output_layer.weight renamed" },
	    ": mp_rank_00/model_optim_rng.pt: tensor 'unknown.weight' does not belong to the model "
	    "(and 1 more; mckpt verify lists them)" },
	{ { .change = "output_layer.weight none" },
	    ": mp_rank_00/model_optim_rng.pt: tensor 'output_layer.weight' cannot be read: None is "
	    "not a tensor" },
	{ { .change = "output_layer.weight strange" },
	    ": mp_rank_00/model_optim_rng.pt: tensor 'output_layer.weight' cannot be read: a "
	    "storage of torch.XFloat16Storage, which is not read" },
	{ { .change = "output_layer.weight wide" },
	    ": mp_rank_00/model_optim_rng.pt: tensor 'output_layer.weight' has shape [9, 4], a "
	    "rank of the model needs [8, 4]" },
	{ { FORM_GROUPS, .change = "output_layer.weight other" },
	    ": mp_rank_00/model_optim_rng.pt: the optimizer has no entry that fits "
	    "'output_layer.weight' in its place" },
	{ { FORM_GROUPS, .change = "output_layer.weight half" },
	    ": mp_rank_00/model_optim_rng.pt: the optimizer has no entry that fits "
	    "'output_layer.weight' in its place" },
	{ { FORM_GROUPS, .change = "groups longer" },
	    ": mp_rank_00/model_optim_rng.pt: the optimizer has 1 parameters more than the model" },
	{ { FORM_FP32, .change = "decoder.final_layernorm.weight half" },
	    ": mp_rank_00/model_optim_rng.pt: the optimizer has no entry that fits "
	    "'decoder.final_layernorm.weight' in its place" },
	{ { FORM_FLAT, { 0, 64, true, 1 }, "flat other" },
	    ": mp_rank_00/distrib_optim.pt: chunk 0: its fp32 weights round to the model's in no "
	    "known "
	    "layout of the distributed optimizer" },
	{ { FORM_FLAT, { 0, 64, true, 1 }, "flat old" },
	    ": mp_rank_00/distrib_optim.pt: chunk 0: not one pair of types with coalesced buckets, "
	    "as versions from 2023 on write it" },
	{ { FORM_FLAT, { 0, 32, true, 1 }, NULL },
	    ": mp_rank_00/distrib_optim.pt: chunk 0: its fp32 weights round to the model's in no "
	    "known "
	    "layout of the distributed optimizer" },
};

static void
test_bad(void)
{
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err e = { "none" };
		struct source *s;
		const char *text = e.msg;

		write_checkpoint(&bad[i].plan);
		s = source_open(dir, &e);
		if (s && s->num_problems)
			source_require(s, &e);
		text += !strncmp(text, dir, strlen(dir)) ? strlen(dir) : 0;
		CHECK_STR(text, bad[i].reason);
		source_close(s);
	}
}

int
main(void)
{
	CHECK(mkdtemp(dir));
	test_good();
	test_bad();
	io_remove_tree(dir, NULL);
	return check_done();
}

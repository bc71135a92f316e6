/*
 * megatron_args.c - from the attributes of a Namespace to the options of a model
 *
 * The attributes become a command line, which is parsed like any other; so ranges, defaults and
 * derived sizes are those of the options.
 */
#include "lib/base/mem.h"
#include "lib/ckpt/megatron_args.h"
#include "lib/ckpt/torchzip.h"
#include "lib/model/options.h"

#include <string.h>

struct holder {
	struct run_options run;
};

static const struct opt options[] = { RUN_OPTS(struct holder, run), OPT_END };
static const struct opt model_rows[] = { MODEL_OPTS(struct holder, run.model),
	{ .type = OPT_END_TYPE } };
enum { MODEL_ROWS = sizeof model_rows / sizeof *model_rows };

/* Options whose attribute has another name than theirs, or had one at some time. */
static const struct {
	const char *option, *attribute;
} other_names[] = {
	{ "disable-bias-linear", "add_bias_linear" },
	{ "no-bias-gelu-fusion", "bias_gelu_fusion" },
	{ "no-position-embedding", "add_position_embedding" },
	{ "norm-epsilon", "layernorm_epsilon" },
	{ "apply-layernorm-1p", "layernorm_zero_centered_gamma" },
};

/* Attributes that make another model than we have, unless they are off (None, False, 0) or have the
 * plain value. */
static const struct {
	const char *attribute, *plain, *what;
} refused[] = {
	{ "moe_router_topk_limited_devices", NULL, "groups of experts" },
	{ "moe_extended_tp", NULL, "experts that more ranks than tensor ranks cut" },
	{ "moe_latent_size", NULL, "experts of a narrower input" },
	{ "moe_mlp_glu_interleave_size", NULL, "rows of gate and up that take turns" },
	{ "moe_apply_probs_on_input", NULL, "weights of experts before their activation" },
	{ "mtp_use_repeated_layer", NULL, "one layer for all later tokens" },
	{ "mla_down_proj_fusion", NULL, "projections down to latents in one" },
	{ "qk_l2_norm", NULL, "L2 norms of q and k" },
	{ "apply_residual_connection_post_layernorm", NULL, "another residual stream" },
	{ "enable_mhc_connections", NULL, "several residual streams" },
	{ "use_mup", NULL, "scaled initial values and outputs" },
	{ "is_hybrid_model", NULL, "layers of another kind" },
	{ "hybrid_layer_pattern", NULL, "layers of another kind" },
	{ "hybrid_override_pattern", NULL, "layers of another kind" },
	{ "heterogeneous_layers_config_path", NULL, "layers of different shapes" },
	{ "heterogeneous_layers_config_encoded_json", NULL, "layers of different shapes" },
};

/* A command line in the making. */
struct words {
	struct mem_pool pool;
	int count;
	char *word[2 * MODEL_ROWS + 8];
};

static void
add_word(struct words *w, const struct str *s)
{
	w->word[w->count++] = mem_pool_strndup(&w->pool, s->buf, s->len);
}

/* NAME VALUE: what the attribute is. Returns -1. */
static int
refuse(const char *name, const struct pickle_value *v, const char *why, struct err *e)
{
	struct str text = { 0 };

	pickle_print(v, &text);
	err_set(e, "%s %s: %s", name, text.buf, why);
	str_release(&text);
	return -1;
}

static bool
is_off(const struct pickle_value *v)
{
	double x;

	if (!v || v->type == PICKLE_NONE || (v->type == PICKLE_BOOL && !v->boolean))
		return true;
	return pickle_double(v, &x) && x == 0;
}

static double
number(const struct pickle_value *args, const char *name, double absent)
{
	double x;

	return pickle_double(pickle_get(args, name), &x) ? x : absent;
}

/* Whether angles of attention of latents are those of YaRN, which is its kind of rotation unless
 * the args have another. */
static bool
has_yarn(const struct pickle_value *args)
{
	const char *kind = pickle_string(pickle_get(args, "rope_type"));

	return !is_off(pickle_get(args, "multi_latent_attention")) &&
	    !(kind && !strcmp(kind, "rope")) && number(args, "rotary_scaling_factor", 1) > 1;
}

/* The attribute that says which attention some layers have in the place of another; it had another
 * name once. NULL: none does. */
static const char *
find_variant(const struct pickle_value *args)
{
	static const char *const names[] = { "experimental_attention_variant",
		"linear_attention_type" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!is_off(pickle_get(args, names[i])))
			return names[i];
	return NULL;
}

static int
check_variant(const struct pickle_value *args, struct err *e)
{
	const char *name = find_variant(args);
	const struct pickle_value *v = name ? pickle_get(args, name) : NULL;
	const char *text = pickle_string(v);

	if (!name)
		return 0;
	if (!text || (strcmp(text, "gdn") && strcmp(text, "gated_delta_net")))
		return refuse(name, v, "another attention, which is not read", e);
	v = pickle_get(args, "linear_attention_freq");
	return is_off(v) ? refuse("linear_attention_freq", v, "is needed", e) : 0;
}

/* What makes another model, then sizes without a default. */
static int
check_attributes(const struct pickle_value *args, struct err *e)
{
	static const char *const needed[] = { "num_layers", "hidden_size", "num_attention_heads" };
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		const struct pickle_value *v = pickle_get(args, refused[i].attribute);
		const char *text = pickle_string(v);
		char why[96];

		if (is_off(v) || (text && refused[i].plain && !strcmp(text, refused[i].plain)))
			continue;
		snprintf(why, sizeof why, "%s, which is not read", refused[i].what);
		return refuse(refused[i].attribute, v, why, e);
	}
	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
		if (is_off(pickle_get(args, needed[i])))
			return refuse(needed[i], pickle_get(args, needed[i]), "is needed", e);
	if (check_variant(args, e) < 0)
		return -1;
	if (!is_off(pickle_get(args, "multi_latent_attention")) && !has_yarn(args) &&
	    number(args, "rotary_scaling_factor", 1) > 1 && number(args, "mscale_all_dim", 0) != 0)
		return refuse("mscale_all_dim", pickle_get(args, "mscale_all_dim"),
		    "scores of YaRN without its angles, which are not read", e);
	return 0;
}

/* The attribute of an option, and its name. */
static const struct pickle_value *
find_attribute(const struct pickle_value *args, const char *option, char name[64])
{
	const struct pickle_value *v;

	snprintf(name, 64, "%s", option);
	for (char *p = name; *p; p++)
		*p = *p == '-' ? '_' : *p;
	v = pickle_get(args, name);
	for (size_t i = 0; !v && i < sizeof other_names / sizeof *other_names; i++)
		if (!strcmp(option, other_names[i].option)) {
			snprintf(name, 64, "%s", other_names[i].attribute);
			v = pickle_get(args, name);
		}
	return v;
}

/* Appends a value as it is typed; false when an option cannot have it. A list of integers is in
 * brackets, and a tuple, such as the pair of a window, is not. */
static bool
print_value(const struct pickle_value *v, struct str *out)
{
	const char *text = pickle_string(v);
	bool list = v->type == PICKLE_LIST;
	int64_t x;

	switch (v->type) {
	case PICKLE_INT: str_addf(out, "%lld", (long long)v->integer); return true;
	case PICKLE_FLOAT: str_add_double(out, v->number); return true;
	case PICKLE_STRING: str_adds(out, text ? text : ""); return text;
	case PICKLE_LIST:
	case PICKLE_TUPLE: break;
	default: return false;
	}
	str_adds(out, list ? "[" : "");
	for (uint32_t i = 0; i < v->len; i++) {
		if (!pickle_int(v->item[i], &x))
			return false;
		str_addf(out, "%s%lld", i ? "," : "", (long long)x);
	}
	str_adds(out, list ? "]" : "");
	return v->len > 0;
}

/* The words of one option, when it has an attribute that is set. */
static int
add_option(struct words *w, const struct opt *o, const struct pickle_value *args, struct err *e)
{
	char name[64];
	const struct pickle_value *v = find_attribute(args, o->name, name);
	struct str word = { 0 };
	int rc = 0;

	if (!v || v->type == PICKLE_NONE)
		return 0;
	str_addf(&word, "--%s", o->name);
	if (o->type == OPT_FLAG || o->type == OPT_UNFLAG) {
		if (v->type != PICKLE_BOOL)
			rc = refuse(name, v, "is to be True or False", e);
		else if (v->boolean == (o->type == OPT_FLAG))
			add_word(w, &word);
	} else {
		str_addc(&word, '=');
		if (print_value(v, &word))
			add_word(w, &word);
		else
			rc = refuse(name, v, "no value of this option", e);
	}
	str_release(&word);
	return rc;
}

/* Whether an attribute says nothing of the model. Without the switch Megatron-LM has as many groups
 * as heads, whatever num_query_groups says; without experts, layers after the head, latents, linear
 * attention or YaRN, what is said of them has no effect; and latents have widths of their own. */
static bool
is_idle(const struct pickle_value *args, const struct opt *o)
{
	static const struct {
		const char *option, *needs;
		unsigned tag;
	} rows[] = {
		{ "num-query-groups", "group_query_attention", 0 },
		{ "num-experts", "num_experts", MODEL_IF_EXPERTS },
		{ "mtp-num-layers", "mtp_num_layers", MODEL_IF_MTP },
		{ "multi-latent-attention", "multi_latent_attention", MODEL_IF_LATENT },
	};
	bool linear = !strcmp(o->name, "linear-attention-freq") || o->tag & MODEL_IF_LINEAR;
	static const char *const of_yarn[] = { "rotary-scaling-factor", "mscale",
		"mscale-all-dim" };

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if ((!strcmp(o->name, rows[i].option) || o->tag & rows[i].tag) &&
		    is_off(pickle_get(args, rows[i].needs)))
			return true;
	for (size_t i = 0; i < sizeof of_yarn / sizeof *of_yarn; i++)
		if (!strcmp(o->name, of_yarn[i]))
			return !has_yarn(args);
	return (linear && !find_variant(args)) ||
	    (!strcmp(o->name, "kv-channels") &&
		!is_off(pickle_get(args, "multi_latent_attention")));
}

/* The interpolation of positions has a switch of its own there. */
static int
add_options(struct words *w, const struct pickle_value *args, struct err *e)
{
	const struct pickle_value *factor = pickle_get(args, "rotary_seq_len_interpolation_factor");
	struct str word = { 0 };

	for (const struct opt *o = model_rows; o->type != OPT_END_TYPE; o++) {
		if (!o->name || !strcmp(o->name, "model") || is_idle(args, o))
			continue;
		if (add_option(w, o, args, e) < 0)
			return -1;
	}
	if (is_off(factor))
		return 0;
	str_adds(&word, "--rope-scaling-type=linear");
	add_word(w, &word);
	str_clear(&word);
	str_adds(&word, "--rope-scaling-factor=");
	if (print_value(factor, &word))
		add_word(w, &word);
	str_release(&word);
	return 0;
}

/* The model of the command line; vocab_size is what it has when the line does not say. */
static int
parse(struct words *w, int64_t vocab_size, struct model_config *c, struct err *e)
{
	struct holder cfg = { 0 };
	struct opt_parse p;
	char **argv = w->word;
	int argc = w->count, rc;

	opt_begin(&p, options, &cfg);
	rc = opt_argv(&p, &argc, &argv, e);
	if (rc == 0)
		rc = run_model(&p, &cfg.run, vocab_size, c, e);
	opt_release(&p);
	return rc;
}

/* A positive integer attribute; def when it is not set. */
static int
read_count(
    const struct pickle_value *args, const char *name, int64_t def, int64_t *out, struct err *e)
{
	const struct pickle_value *v = pickle_get(args, name);

	*out = def;
	if (!v || v->type == PICKLE_NONE)
		return 0;
	if (!pickle_int(v, out) || *out < 1 || *out > INT32_MAX)
		return refuse(name, v, "is to be an integer from 1 to 2147483647", e);
	return 0;
}

static int
read_layout(const struct pickle_value *args, struct megatron_args *out, struct err *e)
{
	int64_t data;

	if (read_count(args, "tensor_model_parallel_size", 1, &out->tensor_ranks, e) < 0 ||
	    read_count(args, "pipeline_model_parallel_size", 1, &out->stages, e) < 0 ||
	    read_count(args, "virtual_pipeline_model_parallel_size", 1, &out->chunks, e) < 0 ||
	    read_count(args, "data_parallel_size", 1, &data, e) < 0 ||
	    read_count(args, "context_parallel_size", 1, &out->context_ranks, e) < 0)
		return -1;
	out->data_ranks = data * out->context_ranks;
	out->expert_ranks = 1;
	out->slices = out->tensor_ranks;
	if (is_off(pickle_get(args, "num_experts")))
		return 0;
	if (read_count(args, "expert_model_parallel_size", 1, &out->expert_ranks, e) < 0)
		return -1;
	return read_count(args, "expert_tensor_parallel_size", out->tensor_ranks, &out->slices, e);
}

/* What only some sizes and options together tell. */
static int
check_model(const struct megatron_args *a, struct err *e)
{
	const struct model_config *c = &a->config;

	if (c->num_experts && c->mlp_bias)
		return err_set(
		    e, "add_bias_linear True: biases of experts and routers, which are not read");
	if (c->mtp_num_layers && c->position == POSITION_LEARNED)
		return err_set(e,
		    "position_embedding_type learned_absolute: Megatron-LM has it in no model with "
		    "mtp_num_layers");
	if (c->num_experts % a->expert_ranks)
		return err_set(e,
		    "expert_model_parallel_size %lld: does not divide num_experts %lld",
		    (long long)a->expert_ranks, (long long)c->num_experts);
	if (model_has_linear(c) &&
	    (c->activation != ACTIVATION_SWIGLU || c->normalization != NORMALIZATION_RMSNORM))
		return err_set(e,
		    "linear_attention_freq: has the activation and the norm of the rest of the "
		    "model, and is read with swiglu and RMSNorm alone");
	if (a->padded_vocab_size < c->vocab_size)
		return err_set(e, "padded_vocab_size %lld: is below vocab_size %lld",
		    (long long)a->padded_vocab_size, (long long)c->vocab_size);
	return 0;
}

int
megatron_args_read(const struct pickle_value *args, struct megatron_args *out, struct err *e)
{
	struct words w = { .count = 0 };
	int64_t tokens;
	int rc;

	memset(out, 0, sizeof *out);
	if (!pickle_is(args, "argparse.Namespace"))
		return err_set(e, "no args: the options of the run are not in the checkpoint");
	if (check_attributes(args, e) < 0 || read_layout(args, out, e) < 0 ||
	    read_count(args, "padded_vocab_size", 0, &out->padded_vocab_size, e) < 0 ||
	    read_count(args, "vocab_size", 0, &tokens, e) < 0)
		return -1;
	out->vocab_known = tokens > 0;
	out->dtype = torch_dtype(pickle_get(args, "params_dtype"));
	rc = add_options(&w, args, e);
	if (rc == 0)
		rc = parse(&w, out->padded_vocab_size, &out->config, e);
	mem_pool_release(&w.pool);
	if (rc < 0)
		return -1;
	if (!out->padded_vocab_size)
		out->padded_vocab_size = out->config.vocab_size;
	return check_model(out, e);
}

void
megatron_args_line(const struct pickle_value *args, const char *option, struct str *out)
{
	char name[64];
	const struct pickle_value *v = find_attribute(args, option, name);
	struct str value = { 0 };

	if (v && v->type == PICKLE_BOOL && v->boolean)
		str_addf(out, "%s\n", option);
	else if (v && print_value(v, &value))
		str_addf(out, "%s %s\n", option, value.buf);
	str_release(&value);
}

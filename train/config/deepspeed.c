/*
 * deepspeed.c - DeepSpeed's configuration file, and lengths in tokens
 *
 * DeepSpeed takes some settings from the options and some from a JSON file; where both have one
 * they must agree, since it is not said there which one wins. What the file has alone is applied
 * like an option file. Its other keys are about how DeepSpeed works and are named in one note.
 */
#include "lib/base/json.h"
#include "train/config/deepspeed.h"
#include "train/config/options.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 20, SECTION = 64 };

struct file {
	struct train_config *c;
	const char *path;
	const struct json_value *root;
	struct str take; /* lines for options that were not given */
	struct str rest; /* ", key" of what nothing here reads */
};

/* A key of the file, "section.key" or "key", and its option. */
static const struct setting {
	const char *key, *option;
} settings[] = {
	{ "train_batch_size", "global-batch-size" },
	{ "train_micro_batch_size_per_gpu", "micro-batch-size" },
	{ "gradient_clipping", "clip-grad" },
	{ "bf16.enabled", "bf16" },
	{ "fp16.enabled", "fp16" },
	{ "fp16.loss_scale", "loss-scale" },
	{ "fp16.initial_scale_power", "initial-loss-scale" },
	{ "fp16.loss_scale_window", "loss-scale-window" },
	{ "fp16.hysteresis", "hysteresis" },
	{ "fp16.min_loss_scale", "min-loss-scale" },
};

enum { SETTINGS = sizeof settings / sizeof *settings };

/* An error about the file; the line names the option, so that it has its place in the answer. */
static void
fail(const struct file *f, const char *what, const char *why)
{
	struct err e;

	opt_rule(
	    &f->c->parse, err_set(&e, "--deepspeed-config %s: %s: %s", f->path, what, why), &e);
}

/* The member of "section.key"; NULL: absent or null. */
static const struct json_value *
member(const struct file *f, const char *key)
{
	const char *dot = strchr(key, '.');
	const struct json_value *in = f->root;
	char section[SECTION];

	if (dot) {
		snprintf(section, sizeof section, "%.*s", (int)(dot - key), key);
		in = json_get(in, section);
		key = dot + 1;
	}
	in = json_get(in, key);
	return in && in->type != JSON_NULL ? in : NULL;
}

static bool
is_number(const struct json_value *v)
{
	return v->type == JSON_INT || v->type == JSON_FLOAT;
}

/* fp16's other keys are read when it is on. */
static bool
is_read(const struct file *f, const struct setting *s)
{
	const struct json_value *on = member(f, "fp16.enabled");

	return strncmp(s->key, "fp16.", 5) != 0 || !strcmp(s->option, "fp16") ||
	    (on && on->type == JSON_BOOL && on->boolean);
}

/* The value that the option would have. */
static double
value_of(const struct setting *s, const struct json_value *v)
{
	double x = json_number(v), power = 1;

	if (strcmp(s->key, "fp16.initial_scale_power") != 0)
		return x;
	for (int i = 0; i < x && i < 64; i++)
		power *= 2;
	return power;
}

/* The number that an option of the table has now. */
static double
option_value(const struct train_config *c, const struct opt *o)
{
	const void *field = (const char *)&c->o + o->off;

	return o->type == OPT_INT ? (double)*(const int64_t *)field : *(const double *)field;
}

/* A number: compared with the option, or taken. */
static void
number(struct file *f, const struct setting *s, const struct json_value *v)
{
	const struct opt *o = opt_find(mtrain_opts, s->option);
	struct str text = { 0 };
	struct err e;

	if (!is_number(v)) {
		fail(f, s->key, "must be a number");
		return;
	}
	if (o->type == OPT_INT)
		str_addf(&text, "%.0f", value_of(s, v));
	else
		str_add_double(&text, value_of(s, v));
	if (!opt_given(&f->c->parse, s->option))
		str_addf(&f->take, "%s %s\n", s->option, text.buf);
	else if (option_value(f->c, o) != value_of(s, v))
		opt_rule(&f->c->parse,
		    err_set(&e, "--%s %.15g: %s has %s %s", s->option, option_value(f->c, o),
			f->path, s->key, text.buf),
		    &e);
	str_release(&text);
}

/* A switch. Where the file alone has it, the other precision must not be among the options. */
static void
precision(struct file *f, const struct setting *s, const struct json_value *v)
{
	const char *other = !strcmp(s->option, "bf16") ? "fp16" : "bf16";
	bool given = opt_given(&f->c->parse, s->option);
	struct err e;

	if (v->type != JSON_BOOL)
		fail(f, s->key, "must be true or false");
	else if (given && !v->boolean)
		opt_rule(&f->c->parse,
		    err_set(&e, "--%s: %s has %s false", s->option, f->path, s->key), &e);
	else if (!given && v->boolean && opt_given(&f->c->parse, other))
		opt_rule(
		    &f->c->parse, err_set(&e, "--%s: %s has %s true", other, f->path, s->key), &e);
	else if (!given && v->boolean)
		str_addf(&f->take, "%s\n", s->option);
}

/* ZeRO's stage as the options have it; -1: they say nothing of it. */
static int
stage_of_options(const struct train_config *c)
{
	const struct run_options *r = &c->o.run;

	if (opt_given(&c->parse, "data-parallel-sharding-strategy"))
		return r->sharding;
	if (r->use_megatron_fsdp)
		return 3;
	if (r->use_distributed_optimizer)
		return 1;
	return opt_foreign_given(&c->parse, "zero-stage") ? 0 : -1;
}

/* Stage 1 is the distributed optimizer; 2 and 3 shard gradients and weights too. */
static void
zero(struct file *f, const struct json_value *v)
{
	static const char *const options[] = { "", "use-distributed-optimizer\n",
		"data-parallel-sharding-strategy optim_grads\n",
		"data-parallel-sharding-strategy optim_grads_params\n" };
	int given = stage_of_options(f->c);
	struct err e;

	if (v->type != JSON_INT || v->integer < 0 || v->integer > 3)
		fail(f, "zero_optimization.stage", "must be from 0 to 3");
	else if (given >= 0 && given != (int)v->integer)
		opt_rule(&f->c->parse,
		    err_set(&e,
			"--deepspeed-config %s: zero_optimization.stage is %d, but the options "
			"say stage %d",
			f->path, (int)v->integer, given),
		    &e);
	else if (given < 0)
		str_adds(&f->take, options[v->integer]);
}

/* Samples that change with the step would be others. */
static void
refuse_curriculum(const struct file *f)
{
	static const char *const keys[] = { "curriculum_learning.enabled",
		"data_efficiency.enabled" };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const struct json_value *v = member(f, keys[i]);

		if (v && (v->type != JSON_BOOL || v->boolean))
			fail(f, keys[i],
			    "samples by difficulty and layers that drop tokens are not supported");
	}
}

/* Whether a setting, or one inside it, has the name. */
static bool
is_known(const char *name)
{
	for (size_t i = 0; i < SETTINGS; i++)
		if (!strcmp(settings[i].key, name))
			return true;
	return !strcmp(name, "zero_optimization.stage");
}

/* Adds the keys that are read by nothing; those of a section with settings one by one. */
static void
list_rest(struct file *f)
{
	static const char *const sections[] = { "zero_optimization", "bf16", "fp16" };
	char name[2 * SECTION];

	for (size_t i = 0; i < f->root->len; i++) {
		const struct json_value *v = &f->root->item[i];
		bool section = false;

		for (size_t k = 0; k < sizeof sections / sizeof *sections; k++)
			section |= v->type == JSON_OBJECT && !strcmp(v->key, sections[k]);
		if (!section && !is_known(v->key))
			str_addf(&f->rest, "%s%s", f->rest.len ? ", " : "", v->key);
		for (size_t k = 0; section && k < v->len; k++) {
			snprintf(name, sizeof name, "%.63s.%.63s", v->key, v->item[k].key);
			if (!is_known(name))
				str_addf(&f->rest, "%s%s", f->rest.len ? ", " : "", name);
		}
	}
}

static void
compare(struct file *f)
{
	const struct json_value *v = member(f, "zero_optimization.stage");

	if (v)
		zero(f, v);
	for (size_t i = 0; i < SETTINGS; i++) {
		const struct setting *s = &settings[i];
		const struct opt *o = opt_find(mtrain_opts, s->option);

		v = member(f, s->key);
		if (!v || !is_read(f, s))
			continue;
		if (o->type == OPT_FLAG)
			precision(f, s, v);
		else
			number(f, s, v);
	}
	refuse_curriculum(f);
	list_rest(f);
}

/* The file's values are options from here on, so that a record of the run does not need it. */
static void
apply(struct file *f)
{
	struct opt_parse *p = &f->c->parse;
	const struct opt *row = opt_find(mtrain_opts, "deepspeed-config");
	struct err e;

	if (f->take.len)
		opt_rule(p, opt_text(p, f->path, f->take.buf, true, &e), &e);
	if (f->rest.len)
		str_addf(&p->notes, "--deepspeed-config %s: without effect here: %s\n", f->path,
		    f->rest.buf);
	f->c->o.deepspeed_config = NULL;
	p->given[row - mtrain_opts] = false;
}

void
deepspeed_read(struct train_config *c)
{
	struct file f = { .c = c, .path = c->o.deepspeed_config };
	struct json *j;
	struct err e;

	if (!f.path)
		return;
	j = json_read(f.path, FILE_MOST, &e);
	if (!j) {
		opt_rule(&c->parse, -1, &e);
		return;
	}
	f.root = json_root(j);
	if (f.root->type == JSON_OBJECT) {
		compare(&f);
		apply(&f);
	} else {
		fail(&f, "the file", "must be a JSON object");
	}
	str_release(&f.take);
	str_release(&f.rest);
	json_free(j);
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* An option in tokens and the one in samples that it stands for. */
static const struct length {
	const char *tokens, *samples;
	size_t off;
	bool fraction; /* need not be whole */
} lengths[] = {
	{ "train-tokens", "train-samples", offsetof(struct train_options, train_tokens), false },
	{ "lr-decay-tokens", "lr-decay-samples", offsetof(struct train_options, lr_decay_tokens),
	    false },
	{ "lr-warmup-tokens", "lr-warmup-samples", offsetof(struct train_options, lr_warmup_tokens),
	    true },
};

enum { LENGTHS = sizeof lengths / sizeof *lengths };

const char *
deepspeed_samples(const char *tokens)
{
	for (size_t i = 0; i < LENGTHS; i++)
		if (!strcmp(lengths[i].tokens, tokens))
			return lengths[i].samples;
	return NULL;
}

/* The samples of a length; -1 after an error, and for a warm-up that is no whole number of samples,
 * which the schedule takes as it is. */
static int64_t
in_samples(struct train_config *c, const struct length *l, int64_t value)
{
	int64_t seq = c->o.run.seq_length, low;
	struct err e;

	if (!seq) {
		opt_needed(&c->parse, "seq-length", NULL);
		return -1;
	}
	low = value / seq * seq;
	if (low == value)
		return value / seq;
	if (l->fraction)
		str_addf(&c->parse.notes, "--%s %lld: is %.12g samples here\n", l->tokens,
		    (long long)value, (double)value / (double)seq);
	else
		opt_rule(&c->parse,
		    err_set(&e, "--%s %lld: must be a multiple of --seq-length %lld (try %lld)",
			l->tokens, (long long)value, (long long)seq, (long long)(low ? low : seq)),
		    &e);
	return -1;
}

/* A script gives --train-tokens with a number of steps or samples that is above it: the run ends at
 * the first of them. True when that is the tokens. */
static bool
tokens_end_first(const struct train_config *c, int64_t samples)
{
	const struct train_options *o = &c->o;

	if (o->train_samples)
		return samples <= o->train_samples;
	return !o->train_iters ||
	    (o->run.global_batch_size && !o->run.rampup_batch_size.count &&
		samples / o->run.global_batch_size <= o->train_iters);
}

static void
forget(struct train_config *c, const char *name)
{
	c->parse.given[opt_find(mtrain_opts, name) - mtrain_opts] = false;
}

/* Sets the option in samples in the place of that in tokens. */
static void
convert(struct train_config *c, const struct length *l)
{
	int64_t *value = (int64_t *)(void *)((char *)&c->o + l->off);
	int64_t tokens = *value, samples = in_samples(c, l, tokens);
	bool length = !strcmp(l->tokens, "train-tokens");
	char text[96];
	struct err e;

	if (samples < 0 && l->fraction)
		return;
	*value = 0;
	forget(c, l->tokens);
	if (samples < 0 || (length && !tokens_end_first(c, samples)))
		return;
	if (length && c->o.train_iters) {
		c->o.train_iters = 0;
		forget(c, "train-iters");
	}
	snprintf(text, sizeof text, "%s %lld\n", l->samples, (long long)samples);
	opt_rule(&c->parse, opt_text(&c->parse, l->tokens, text, false, &e), &e);
	str_addf(&c->parse.notes, "--%s %lld: is --%s %lld here\n", l->tokens, (long long)tokens,
	    l->samples, (long long)samples);
}

void
deepspeed_tokens(struct train_config *c)
{
	for (size_t i = 0; i < LENGTHS; i++)
		if (opt_given(&c->parse, lengths[i].tokens))
			convert(c, &lengths[i]);
}

/* --- experts ---------------------------------------------------------------------------------- */

void
deepspeed_experts(const struct train_config *c)
{
	const struct opt_parse *p = &c->parse;
	struct err e;

	if (!opt_foreign_given(p, "deepspeed") || !opt_given(p, "num-experts") ||
	    c->o.run.model.typed.num_experts < 2 ||
	    opt_foreign_given(p, "disable-moe-token-dropping") ||
	    opt_given(p, "moe-expert-capacity-factor"))
		return;
	opt_rule(p,
	    err_set(&e,
		"--num-experts %lld: DeepSpeed drops the tokens above a capacity of 1.0 unless a "
		"script says otherwise: give --moe-expert-capacity-factor 1.0, or "
		"--disable-moe-token-dropping to drop none",
		(long long)c->o.run.model.typed.num_experts),
	    &e);
}

/*
 * fields.c - a model's defaults, options, dumps and differences, all from its rows
 *
 * Most fields have the type of their option, which is stored in one place and copied to the other.
 * Some options take several values, or may be written in several ways; they also have a row of
 * functions.
 */
#include "lib/model/fields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct holder {
	struct model_options o;
};

static const struct opt rows[] = { MODEL_OPTS(struct holder, o), { .type = OPT_END_TYPE } };

/* --- fields of words -------------------------------------------------------------------------- */

/* The three biases of a model, by their names in the list. */
static const struct bias_name {
	const char *name;
	size_t off;
} bias_names[] = {
	{ "qkv", offsetof(struct model_config, qkv_bias) },
	{ "proj", offsetof(struct model_config, proj_bias) },
	{ "mlp", offsetof(struct model_config, mlp_bias) },
};

enum { BIASES = sizeof bias_names / sizeof *bias_names };

_Static_assert(offsetof(struct model_config, mlp_bias) + sizeof(bool) -
	    offsetof(struct model_config, qkv_bias) ==
	BIASES * sizeof(bool),
    "the biases are one stretch of the model");

static bool *
bias_at(const struct model_config *c, int i)
{
	return (bool *)((char *)(uintptr_t)c + bias_names[i].off);
}

static int
read_biases(const struct model_options *o, struct model_config *c, struct err *e)
{
	for (int i = 0; i < BIASES; i++)
		*bias_at(c, i) = false;
	for (int w = 0; w < o->linear_biases.count; w++) {
		const char *word = o->linear_biases.item[w];
		int i = 0;

		while (i < BIASES && strcmp(word, bias_names[i].name))
			i++;
		if (i < BIASES)
			*bias_at(c, i) = true;
		else if (strcmp(word, "none"))
			return err_set(
			    e, "--linear-biases %s: must be any of qkv, proj, mlp, or none", word);
	}
	return 0;
}

/* Never empty, because the default depends on other options. */
static void
print_biases(const struct model_config *c, struct str *out)
{
	size_t before = out->len;

	for (int i = 0; i < BIASES; i++)
		if (*bias_at(c, i))
			str_addf(out, " %s", bias_names[i].name);
	if (out->len == before)
		str_adds(out, " none");
}

/* Reads the integer at the start of s; returns its end, or NULL when there is none. */
static const char *
integer(const char *s, int64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoll(s, &end, 10);
	return end == s || errno ? NULL : end;
}

/*
 * W, or Megatron-LM's pair: the number of keys that a query sees before and after its own, with or
 * without brackets; -1 means all keys before it. In a causal model it sees none after its own.
 */
static int
read_window(const struct model_options *o, struct model_config *c, struct err *e)
{
	const char *s = o->window_size, *end;
	int64_t before, after = 0;
	bool bracket = *s == '(', pair;

	end = integer(s + bracket, &before);
	pair = end && *end == ',';
	if (pair)
		end = integer(end + 1, &after);
	if (end && bracket)
		end = pair && *end == ')' ? end + 1 : NULL;
	if (!end || *end || before < (pair ? -1 : 1) || before > 1 << 30)
		return err_set(e,
		    "--window-size %s: must be from 1 to 2^30, or a pair such as 127,0 for 128", s);
	if (after != 0)
		return err_set(
		    e, "--window-size %s: must end in 0: a query sees no keys after its own", s);
	c->window_size = before + pair;
	return 0;
}

static void
print_window(const struct model_config *c, struct str *out)
{
	str_addf(out, " %lld", (long long)c->window_size);
}

/* The value of an option that says by a pattern which layers have something. */
static int
read_pattern(const char *option, const char *text, const struct model_config *c,
    const struct pattern_form *form, struct layer_pattern *out, struct err *e)
{
	struct err why;

	if (pattern_read(text, c->num_layers, form, out, &why) == 0)
		return 0;
	return err_set(e, "--%s %s: %s", option, text, why.msg);
}

static void
print_pattern(const struct model_config *c, const struct layer_pattern *p,
    const struct pattern_form *form, struct str *out)
{
	str_addc(out, ' ');
	pattern_print(p, c->num_layers, form, out);
}

/* clang-format off */
#define PATTERN(name, option, field, form) \
	static int read_##name(const struct model_options *o, struct model_config *c, \
	    struct err *e) { \
		return read_pattern(option, o->field, c, &form, &c->field, e); \
	} \
	static void print_##name(const struct model_config *c, struct str *out) { \
		print_pattern(c, &c->field, &form, out); \
	}
PATTERN(skipped, "window-attn-skip-freq", window_attn_skip_freq, pattern_attention)
PATTERN(dense, "moe-layer-freq", moe_layer_freq, pattern_experts)
PATTERN(unrotated, "no-rope-freq", no_rope_freq, pattern_no_rope)
PATTERN(linear, "linear-attention-freq", linear_attention_freq, pattern_linear)
/* clang-format on */

static int
read_factors(const char *option, const struct opt_list *l, struct rope_factors *f, struct err *e)
{
	if (l->count > ROPE_FACTORS_MAX)
		return err_set(
		    e, "--%s: %d factors: must be at most %d", option, l->count, ROPE_FACTORS_MAX);
	for (int i = 0; i < l->count; i++) {
		char *end;

		f->factor[i] = strtod(l->item[i], &end);
		if (end == l->item[i] || *end)
			return err_set(e, "--%s %s: not a number", option, l->item[i]);
	}
	f->count = l->count;
	return 0;
}

static void
print_factors(const struct rope_factors *f, struct str *out)
{
	for (int i = 0; i < f->count; i++) {
		str_addc(out, ' ');
		str_add_double(out, f->factor[i]);
	}
}

static int
read_short(const struct model_options *o, struct model_config *c, struct err *e)
{
	return read_factors(
	    "longrope-short-factor", &o->longrope_short_factor, &c->longrope_short_factor, e);
}

static void
print_short(const struct model_config *c, struct str *out)
{
	print_factors(&c->longrope_short_factor, out);
}

static int
read_long(const struct model_options *o, struct model_config *c, struct err *e)
{
	return read_factors(
	    "longrope-long-factor", &o->longrope_long_factor, &c->longrope_long_factor, e);
}

static void
print_long(const struct model_config *c, struct str *out)
{
	print_factors(&c->longrope_long_factor, out);
}

/* -1 stands for none, as for the other special ids. */
static int
read_ends(const struct model_options *o, struct model_config *c, struct err *e)
{
	const struct opt_list *l = &o->eos_token_id;
	struct err why;

	c->eos_token_id.count = 0;
	if (l->count == 1 && !strcmp(l->item[0], "-1"))
		return 0;
	for (int i = 0; i < l->count; i++) {
		int64_t id;
		const char *end = integer(l->item[i], &id);

		if (!end || *end)
			return err_set(e, "--eos-token-id %s: not an integer", l->item[i]);
		if (id_list_add(&c->eos_token_id, id, &why) < 0)
			return err_set(e, "--eos-token-id: %s", why.msg);
	}
	return 0;
}

static void
print_ends(const struct model_config *c, struct str *out)
{
	for (int i = 0; i < c->eos_token_id.count; i++)
		str_addf(out, " %lld", (long long)c->eos_token_id.id[i]);
	if (!c->eos_token_id.count)
		str_adds(out, " -1");
}

/* Found by the offset of the words. print adds each value after a blank. */
static const struct words {
	size_t off;         /* in the options */
	size_t field, size; /* in the model */
	int (*read)(const struct model_options *o, struct model_config *c, struct err *e);
	void (*print)(const struct model_config *c, struct str *out);
} all_words[] = {
	{ offsetof(struct model_options, linear_biases), offsetof(struct model_config, qkv_bias),
	    BIASES * sizeof(bool), read_biases, print_biases },
	{ offsetof(struct model_options, window_size), offsetof(struct model_config, window_size),
	    sizeof(int64_t), read_window, print_window },
	{ offsetof(struct model_options, window_attn_skip_freq),
	    offsetof(struct model_config, window_attn_skip_freq), sizeof(struct layer_pattern),
	    read_skipped, print_skipped },
	{ offsetof(struct model_options, moe_layer_freq),
	    offsetof(struct model_config, moe_layer_freq), sizeof(struct layer_pattern), read_dense,
	    print_dense },
	{ offsetof(struct model_options, linear_attention_freq),
	    offsetof(struct model_config, linear_attention_freq), sizeof(struct layer_pattern),
	    read_linear, print_linear },
	{ offsetof(struct model_options, no_rope_freq), offsetof(struct model_config, no_rope_freq),
	    sizeof(struct layer_pattern), read_unrotated, print_unrotated },
	{ offsetof(struct model_options, longrope_short_factor),
	    offsetof(struct model_config, longrope_short_factor), sizeof(struct rope_factors),
	    read_short, print_short },
	{ offsetof(struct model_options, longrope_long_factor),
	    offsetof(struct model_config, longrope_long_factor), sizeof(struct rope_factors),
	    read_long, print_long },
	{ offsetof(struct model_options, eos_token_id), offsetof(struct model_config, eos_token_id),
	    sizeof(struct id_list), read_ends, print_ends },
};

/* NULL when the row is not one of them. */
static const struct words *
words_of(const struct opt *r)
{
	for (size_t i = 0; i < sizeof all_words / sizeof *all_words; i++)
		if (r->name && r->off == all_words[i].off)
			return &all_words[i];
	return NULL;
}

/* --- where a field lies ----------------------------------------------------------------------- */

struct place {
	size_t off, size;
};

static size_t
size_of(enum opt_type t)
{
	switch (t) {
	case OPT_INT: return sizeof(int64_t);
	case OPT_NUMBER: return sizeof(double);
	case OPT_CHOICE: return sizeof(int);
	case OPT_FLAG: return sizeof(bool);
	default: BUG("no field has type %d", (int)t);
	}
}

/* Where the parser stores a row's field, or NULL. */
static bool
typed_place(const struct opt *r, struct place *out)
{
	enum { TYPED = offsetof(struct model_options, typed) };

	if (!r->name || r->off < TYPED || r->off >= TYPED + sizeof(struct model_config))
		return false;
	*out = (struct place){ r->off - TYPED, size_of(r->type) };
	return true;
}

/* The field of a row; false for a switch. */
static bool
field_place(const struct opt *r, struct place *out)
{
	const struct words *w = words_of(r);

	if (!w)
		return typed_place(r, out);
	*out = (struct place){ w->field, w->size };
	return true;
}

static void
copy_field(struct model_config *to, const struct model_config *from, const struct place *p)
{
	memcpy((char *)to + p->off, (const char *)from + p->off, p->size);
}

/* --- defaults and options --------------------------------------------------------------------- */

bool
model_has_base(const struct model_options *o)
{
	return o->path || o->fixed;
}

void
model_defaults(struct model_config *c, enum model_tag tag)
{
	struct holder h = { 0 };
	struct opt_parse p;
	struct place at;

	opt_begin(&p, rows, &h);
	memset(c, 0, sizeof *c);
	for (const struct opt *r = rows; r->type != OPT_END_TYPE; r++)
		if ((r->tag & tag) && typed_place(r, &at))
			copy_field(c, &h.o.typed, &at);
	opt_release(&p);
}

void
model_take(const struct opt_parse *p, const struct model_options *o, struct model_config *c)
{
	struct place at;

	for (const struct opt *r = rows; r->type != OPT_END_TYPE; r++)
		if (typed_place(r, &at) && (!model_has_base(o) || opt_given(p, r->name)))
			copy_field(c, &o->typed, &at);
}

int
model_read_words(
    const struct opt_parse *p, const struct model_options *o, struct model_config *c, struct err *e)
{
	for (const struct opt *r = rows; r->type != OPT_END_TYPE; r++) {
		const struct words *w = words_of(r);

		if (w && opt_given(p, r->name) && w->read(o, c, e) < 0)
			return -1;
	}
	return 0;
}

void
model_keep_recipe(const struct model_config *from, struct model_config *c)
{
	struct place at;

	for (const struct opt *r = rows; r->type != OPT_END_TYPE; r++)
		if ((r->tag & MODEL_KEPT) && field_place(r, &at))
			copy_field(c, from, &at);
}

/* --- dumps and differences -------------------------------------------------------------------- */

/* Options without effect, such as the factor without scaling, are left out. */
static bool
is_dumped(const struct model_config *c, const struct opt *r)
{
	enum { scaled = MODEL_IF_SCALED | MODEL_IF_LLAMA3 | MODEL_IF_YARN | MODEL_IF_LONGROPE };
	static const struct model_config zero;
	static const int of[] = {
		[ROPE_SCALING_LINEAR] = MODEL_IF_SCALED,
		[ROPE_SCALING_LLAMA3] = MODEL_IF_SCALED | MODEL_IF_LLAMA3,
		[ROPE_SCALING_YARN] = MODEL_IF_SCALED | MODEL_IF_YARN,
		[ROPE_SCALING_LONGROPE] = MODEL_IF_LONGROPE,
	};
	struct place at;

	if (!(r->tag & MODEL_DUMPED) || ((r->tag & MODEL_IF_EXPERTS) && !c->num_experts) ||
	    ((r->tag & MODEL_IF_LATENT) && !c->multi_latent_attention) ||
	    ((r->tag & MODEL_IF_LINEAR) && !model_has_linear(c)) ||
	    ((r->tag & MODEL_IF_MTP) && !c->mtp_num_layers))
		return false;
	if ((r->tag & MODEL_IF_SET) && field_place(r, &at) &&
	    !memcmp((const char *)c + at.off, (const char *)&zero + at.off, at.size))
		return false;
	return !(r->tag & scaled) || (r->tag & of[c->rope_scaling]);
}

/* The line of a row, or nothing. */
static void
dump_row(const struct model_config *c, const struct opt *r, struct str *out)
{
	const struct holder h = { { .typed = *c, .group_query_attention = true } };
	const struct words *w = words_of(r);

	if (!is_dumped(c, r))
		return;
	if (!w) {
		opt_dump_row(r, &h, out);
		return;
	}
	str_adds(out, r->name);
	w->print(c, out);
	str_addc(out, '\n');
}

void
model_dump(const struct model_config *c, struct str *out)
{
	for (const struct opt *r = rows; r->type != OPT_END_TYPE; r++)
		dump_row(c, r, out);
}

/* One side of a difference: its line without the newline, or "no NAME". */
static void
add_side(struct str *out, const struct opt *r, const struct str *line)
{
	if (line->len)
		str_addf(out, "\t'%.*s'", (int)line->len - 1, line->buf);
	else
		str_addf(out, "\tno %s", r->name);
}

/* Compares dumped lines, so fields without effect do not count. */
static void
differences(
    const struct model_config *a, const struct model_config *b, unsigned without, struct str *out)
{
	struct str x = { 0 }, y = { 0 };

	for (const struct opt *r = rows; r->type != OPT_END_TYPE; r++) {
		bool same;

		str_clear(&x);
		str_clear(&y);
		dump_row(a, r, &x);
		dump_row(b, r, &y);
		same = x.len == y.len && (!x.len || !memcmp(x.buf, y.buf, x.len));
		if ((r->tag & without) || same)
			continue;
		str_adds(out, r->name);
		add_side(out, r, &x);
		add_side(out, r, &y);
		str_addc(out, '\n');
	}
	str_release(&x);
	str_release(&y);
}

void
model_replace(const char *text, const struct model_config *c, struct str *out)
{
	opt_text_without(rows, text, out);
	model_dump(c, out);
}

void
model_differences(const struct model_config *a, const struct model_config *b, struct str *out)
{
	differences(a, b, 0, out);
}

static bool
has_mlp(const struct model_config *c)
{
	return model_expert_layers(c) < c->num_layers;
}

/* Tags of rows that do not change the meaning of weights in either model. */
static unsigned
without_meaning(const struct model_config *a, const struct model_config *b)
{
	bool mlp = has_mlp(a) || has_mlp(b),
	     rotary = a->position == POSITION_ROPE || b->position == POSITION_ROPE;

	return MODEL_FREE | (mlp ? 0 : MODEL_MLP) | (rotary ? 0 : MODEL_ROTARY);
}

void
model_weight_differences(
    const struct model_config *a, const struct model_config *b, struct str *out)
{
	differences(a, b, without_meaning(a, b), out);
}

void
model_start_differences(const struct model_config *a, const struct model_config *b, struct str *out)
{
	differences(a, b, without_meaning(a, b) | MODEL_FREE_START, out);
}

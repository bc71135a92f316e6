/*
 * fields.h - what the rows of fields_list.h are besides members: options, dumps, comparisons
 *
 * The options are a macro because each tool's option table is a constant with the struct at its own
 * offset; fields.c expands the rows once more for its own use.
 */
#ifndef MODEL_FIELDS_H
#define MODEL_FIELDS_H

#include "lib/base/opt.h"
#include "lib/model/config.h"

#include <math.h>

/* The member of struct model_options of a row that is not a member of struct model_config. */
#define MODEL_GIVEN(kind, S, M, ...) MODEL_GIVEN_##kind(__VA_ARGS__)
#define MODEL_GIVEN_INT(...)
#define MODEL_GIVEN_NUM(...)
#define MODEL_GIVEN_ID(...)
#define MODEL_GIVEN_FLAG(...)
#define MODEL_GIVEN_CHOICE(...)
#define MODEL_GIVEN_SAME_INT(...)
#define MODEL_GIVEN_SAME_NUM(...)
#define MODEL_GIVEN_WORDS(n, y, f, ...) MODEL_GIVEN_##y(f)
#define MODEL_GIVEN_OPT_LIST(f) struct opt_list f;
#define MODEL_GIVEN_OPT_STRING(f) const char *f;
#define MODEL_GIVEN_SWITCH(n, f, ...) bool f;
#define MODEL_GIVEN_UNSWITCH(n, f, ...) bool f;

/* Values of the options in the group "Model". */
struct model_options {
	const char *path; /* of a config.json */
	/* by field; options that were not given have their default, or 0 */
	struct model_config typed;
	/* fields given as words, see model_read_words, and switches that set fields, by
	 * Megatron-LM's rules */
	MODEL_FIELDS(MODEL_GIVEN, , )
	/* set by the program: a model whose values serve as defaults, as with --model; and whether
	 * its recipe overrides the command line, as with --use-checkpoint-args */
	const struct model_config *fixed;
	bool keep_recipe;
};

/* Whether untyped options leave the values of a config.json or a checkpoint alone. */
bool model_has_base(const struct model_options *o);
/* Sets the fields of rows with the tag to their defaults, and all others to 0. */
void model_defaults(struct model_config *c, enum model_tag tag);
/* Copies the fields that were given to c; without a base also the defaults of the others. Fields
 * given as words are left alone. p holds the rows of MODEL_OPTS for o. */
void model_take(const struct opt_parse *p, const struct model_options *o, struct model_config *c);
/* Reads the fields that are given as words: biases, window and ends of text. */
int model_read_words(const struct opt_parse *p, const struct model_options *o,
    struct model_config *c, struct err *e);
/* Copies the fields that Megatron-LM always takes from the checkpoint (load_args_from_checkpoint of
 * megatron/training/checkpointing.py); sizes given on the command line stay. */
void model_keep_recipe(const struct model_config *from, struct model_config *c);

/* The config as an option file, readable by mtrain --config; checkpoints store it. */
void model_dump(const struct model_config *c, struct str *out);
/* Appends an option file in which the model's lines replace those of the text's own. */
void model_replace(const char *text, const struct model_config *c, struct str *out);
/* The differences of a and b, one line per option: its name, a's line and b's line, separated by
 * tabs. A line is "'num-layers 2'", or "no num-layers" where there is none. */
void model_differences(const struct model_config *a, const struct model_config *b, struct str *out);
/* The same without options that do not change the meaning of stored weights, such as dropout,
 * initial values, special ids and the number of positions, the width of an MLP that no layer has,
 * and rotary angles of positions that do not rotate. */
void model_weight_differences(
    const struct model_config *a, const struct model_config *b, struct str *out);
/* Those that do so even where a run begins with the weights alone: positions may then be scaled by
 * another rule, since no tensor depends on it. */
void model_start_differences(
    const struct model_config *a, const struct model_config *b, struct str *out);

/* clang-format off */
#define MODEL_INT(S, M, n, f, lo, d, t, ...) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, M.typed.f), .min = lo, .max = 1e15, \
	  .def = d, .tag = t, .help = __VA_ARGS__ }
#define MODEL_ID(S, M, n, f, d, t, h) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, M.typed.f), .def = d, .tag = t, .help = h }
#define MODEL_NUM(S, M, n, f, lo, hi, d, t, ...) \
	{ .name = n, .type = OPT_NUMBER, .off = offsetof(S, M.typed.f), .min = lo, .max = hi, \
	  .def = d, .tag = t, .help = __VA_ARGS__ }
#define MODEL_FLAG(S, M, n, f, t, ...) \
	{ .name = n, .type = OPT_FLAG, .off = offsetof(S, M.typed.f), .tag = t, \
	  .help = __VA_ARGS__ }
#define MODEL_CHOICE(S, M, n, e, f, c, d, t, ...) \
	{ .name = n, .type = OPT_CHOICE, .off = offsetof(S, M.typed.f), .choices = c, .def = d, \
	  .tag = t, .help = __VA_ARGS__ }
#define MODEL_WORDS(S, M, n, y, f, u, t, needed, h, ...) \
	{ .name = n, .type = y, .off = offsetof(S, M.f), .unit = u, .tag = t, .needs = needed, \
	  .help = h }
#define MODEL_SWITCH(S, M, n, f, t, ...) \
	{ .name = n, .type = OPT_FLAG, .off = offsetof(S, M.f), .tag = t, .help = __VA_ARGS__ }
#define MODEL_UNSWITCH(S, M, n, f, h) \
	{ .name = n, .type = OPT_UNFLAG, .off = offsetof(S, M.f), .help = h }
#define MODEL_SAME_INT(S, M, n, f, lo, ...) MODEL_INT(S, M, n, f, lo, NULL, 0, __VA_ARGS__)
#define MODEL_SAME_NUM(S, M, n, f, lo, hi, ...) \
	MODEL_NUM(S, M, n, f, lo, hi, NULL, 0, __VA_ARGS__)
#define MODEL_OPT(kind, ...) , MODEL_##kind(__VA_ARGS__)

/* The options of a model, as rows of a table of options. M is the struct model_options in S. */
#define MODEL_OPTS(S, M) \
	{ .type = OPT_GROUP, .help = "Model" }, \
	{ .name = "model", .type = OPT_STRING, .off = offsetof(S, M.path), .unit = "CONFIG", \
	  .help = "a Hugging Face config.json (or its directory) in place of the shape " \
	          "options; its values are the defaults" } \
	MODEL_FIELDS(MODEL_OPT, S, M)
/* clang-format on */

#endif

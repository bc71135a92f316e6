/*
 * pattern.h - which layers of a model differ from the others, as a pattern that repeats
 */
#ifndef MODEL_PATTERN_H
#define MODEL_PATTERN_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { PATTERN_MAX = 128 };

/* Layer i is skipped when bit i mod period is set; period 0: no layer is. */
struct layer_pattern {
	int64_t period;
	uint64_t skipped[PATTERN_MAX / 64];
};

bool pattern_skips(const struct layer_pattern *p, int64_t layer);
/* Of the first num_layers layers. */
int64_t pattern_count(const struct layer_pattern *p, int64_t num_layers);
/* Every n-th layer is skipped, n from 1 to PATTERN_MAX. */
struct layer_pattern pattern_every(int64_t n);
/* The shortest pattern with these first layers, count from 1 to PATTERN_MAX; without an entry
 * skipped, that of none. */
struct layer_pattern pattern_of(const bool *skipped, int count);
/* All but every n-th, from the first on, are skipped, n from 1 to PATTERN_MAX. */
struct layer_pattern pattern_but_every(int64_t n);
/* What an option means by a number, and which bit of a list is a layer that is skipped. */
struct pattern_form {
	struct layer_pattern (*number)(int64_t n);
	int skipped;
};
/* Of windows, of experts, of layers that do not rotate and of linear attention: Megatron-LM's four
 * options. */
extern const struct pattern_form pattern_attention, pattern_experts, pattern_no_rope,
    pattern_linear;
/* Megatron-LM's forms: a number, or an expression of Python lists of 1 and 0, such as
 * ([1]*5+[0])*8, with an entry for each layer. -1 with the rule that s breaks. */
int pattern_read(const char *s, int64_t num_layers, const struct pattern_form *form,
    struct layer_pattern *out, struct err *e);
/* As pattern_read reads it in the same form; nothing for period 0. */
void pattern_print(const struct layer_pattern *p, int64_t num_layers,
    const struct pattern_form *form, struct str *out);

#endif

/*
 * verbs.h - the verbs of mckpt, each at the end of its file, and rows of their option tables
 */
#ifndef CKPT_VERBS_H
#define CKPT_VERBS_H

#include "lib/base/cli.h"

extern const struct verb verb_ls, verb_info, verb_verify, verb_seal, verb_diff, verb_cat,
    verb_import, verb_reshard, verb_cast, verb_upcycle, verb_average, verb_stack, verb_drop_layers,
    verb_set, verb_resize_vocab, verb_apply_lora, verb_merge, verb_strip, verb_extract, verb_export;

/* clang-format off */
#define CHOICE(S, n, f, c, d, h) \
	{ .name = n, .type = OPT_CHOICE, .off = offsetof(S, f), .choices = c, .def = d, .help = h }
#define FLAG(S, n, f, h) { .name = n, .type = OPT_FLAG, .off = offsetof(S, f), .help = h }
#define TEXT(S, n, f, u, h) \
	{ .name = n, .type = OPT_STRING, .off = offsetof(S, f), .unit = u, .help = h }
#define SIZE(S, n, f, d, h) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, f), .min = 1, .max = 1e6, .def = d, \
	  .help = h }
/* clang-format on */

#endif

/*
 * mckpt.c - look at, check, compare, convert and change checkpoints
 *
 * The list of its verbs; each is at the end of its file in ckpt/.
 */
#include "ckpt/verbs.h"

static const struct verb *const verbs[] = { &verb_ls, &verb_info, &verb_verify, &verb_seal,
	&verb_diff, &verb_cat, &verb_import, &verb_reshard, &verb_cast, &verb_upcycle,
	&verb_average, &verb_stack, &verb_drop_layers, &verb_set, &verb_resize_vocab,
	&verb_apply_lora, &verb_merge, &verb_strip, &verb_extract, &verb_export, NULL };

static const struct tool tool = {
	.name = "mckpt",
	.summary = "look at, check, compare, convert and change checkpoints",
	.built_in = "CPU",
	.verbs = verbs,
};

/* The frame is cli_main's: help, version, finding the verb, exit status, closing stdout. */
int
main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}

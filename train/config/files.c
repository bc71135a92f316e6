/* files.c - what a run reads: given once, and there */
#include "lib/base/io.h"
#include "lib/data/sampler.h"
#include "lib/data/samples.h"
#include "train/config/files.h"
#include "train/config/planned.h"
#include "train/config/tokenizer.h"

#include <string.h>

/* Checks that a file exists before it is needed. Whether it is readable shows when it is opened,
 * and so does why it cannot be looked at. NULL: the option was not given. */
static int
check_file(const char *option, const char *path, struct err *e)
{
	if (path && !strcmp(path, "-"))
		return err_set(e,
		    "--%s -: standard input reaches one rank alone: give a file, or /dev/stdin to "
		    "a run of one rank",
		    option);
	return !path || io_there(path, NULL) ? 0
					     : err_set(e, "--%s %s: no such file", option, path);
}

/* The option that gave the list of a split. */
static const char *
list_option(const struct path_options *o, enum split which)
{
	static const char *const names[] = { "train-data-path", "valid-data-path",
		"test-data-path" };

	return o->data_path.count         ? "data-path"
	    : o->data_args_path           ? "data-args-path"
	    : o->data_schedule            ? "data-schedule"
	    : o->per_split_data_args_path ? "per-split-data-args-path"
					  : names[which];
}

/* One dataset of a list. Checks only that the files exist: dataset_open checks what is in them. */
static int
check_prefix(const char *option, const char *prefix, struct err *e)
{
	static const char *const endings[] = { "idx", "bin" };
	struct str path = { 0 };
	int rc = 0;

	for (int i = 0; i < 2 && rc == 0; i++) {
		path.len = 0;
		str_addf(&path, "%s.%s", prefix, endings[i]);
		if (io_there(path.buf, NULL) == 0)
			rc = err_set(e, "--%s %s: there is no '%s'; %s", option, prefix, path.buf,
			    data_paths_advice(prefix));
	}
	str_release(&path);
	return rc;
}

/* Validation sets that are evaluated one by one, and their names. */
static int
check_validation_sets(const struct train_config *c, struct err *e)
{
	const struct path_list *l = data_paths_list(&c->paths, SPLIT_VALID);
	int names = c->o.validation_set_names.count;

	if (!c->o.multiple_validation_sets)
		return names
		    ? err_set(e, "--validation-set-names: is for --multiple-validation-sets")
		    : 0;
	if (c->paths.per_split && l->weight)
		return err_set(e,
		    "--multiple-validation-sets: the list of the valid split has weights, but each "
		    "set is evaluated by itself");
	if (names && names != l->count)
		return err_set(
		    e, "--validation-set-names: %d names for %d validation sets", names, l->count);
	return 0;
}

/* What needs documents one after the other in a sample, or has none. */
static int
check_apart(const struct train_config *c, struct err *e)
{
	const char *option = c->o.sample_packing == PACKING_BEST_FIT
	    ? "sample-packing best-fit"
	    : "dataloader-inter-document-masking";

	if (c->o.loss_per == LOSS_PER_DOCUMENT)
		option = "loss-per document";
	else if (!train_documents_apart(&c->o))
		return 0;
	if (c->o.mock_data)
		return err_set(e, "--%s: --mock-data has no documents", option);
	if (c->o.fim.on)
		return err_set(e, "--%s and --fim-data exclude each other", option);
	return 0;
}

bool
train_tasks_alone(const struct train_config *c)
{
	return c->o.skip_train && c->o.eval_tasks.count && !c->o.mock_data &&
	    !path_options_any(&c->o.paths);
}

/* Reads the lists of corpora and checks that their files exist. Options that look for ends of
 * documents need the token that marks them: without it they would silently do nothing. */
static int
check_data(struct train_config *c, struct err *e)
{
	const struct path_options *o = &c->o.paths;
	bool lists = path_options_any(o);
	const char *ends = c->o.eod_mask_loss ? "eod-mask-loss"
	    : c->o.reset_position_ids         ? "reset-position-ids"
	    : c->plan.shape.reset_attention_mask && !train_documents_apart(&c->o)
	    ? "reset-attention-mask"
	    : NULL;
	int first = SPLIT_TRAIN;

	while (first < SPLIT_COUNT && !o->split_path[first].count)
		first++;
	if (ends && c->eod < 0 && !train_lacks_tokenizer(c))
		return err_set(
		    e, "--%s: needs a tokenizer, whose end-of-document token it looks for", ends);
	if (check_apart(c, e) < 0)
		return -1;
	if (c->o.mock_data && c->o.sample_losses)
		return err_set(e, "--sample-losses: --mock-data has no samples to look at");
	if (c->o.mock_data)
		return !lists ? 0
			      : err_set(e, "--mock-data: excludes --%s: give one source of data",
				    list_option(o, (enum split)first));
	if (!lists) {
		if (!train_tasks_alone(c))
			opt_needed(&c->parse, "data-path", "or --mock-data");
		return 0;
	}
	if (o->data_schedule && c->o.dataloader_type != SAMPLER_SINGLE)
		return err_set(e,
		    "--data-schedule: its stages are in the order of the single loader, which "
		    "--dataloader-type cyclic permutes: leave it out");
	if (data_paths_read(o, &c->paths, e) < 0)
		return -1;
	for (int w = 0; w < SPLIT_COUNT; w++)
		for (int k = 0; k < c->paths.list[w].count; k++)
			if (check_prefix(
				list_option(o, (enum split)w), c->paths.list[w].prefix[k], e) < 0)
				return -1;
	return check_validation_sets(c, e);
}

/* Of --eval-tasks. */
static int
check_tasks(const struct train_config *c, struct err *e)
{
	const struct train_options *o = &c->o;

	if (!o->eval_tasks.count)
		return 0;
	if (!c->tokenizer)
		return err_set(e,
		    "--eval-tasks: needs a tokenizer (--tokenizer-model F, or --vocab-file F "
		    "--merge-file F)");
	if (o->generate || o->tokens_file || o->calibrate)
		return err_set(e, "--eval-tasks and --%s exclude each other",
		    o->generate        ? "generate"
			: o->calibrate ? "calibrate"
				       : "tokens-file");
	if (c->plan.shape.expert_capacity > 0)
		return err_set(e,
		    "--moe-expert-capacity-factor: with --eval-tasks an answer would depend on "
		    "the others of its batch: leave it out");
	for (int i = 0; i < o->eval_tasks.count; i++)
		if (check_file("eval-tasks", o->eval_tasks.item[i], e) < 0)
			return -1;
	return 0;
}

int
train_check_files(struct train_config *c, struct err *e)
{
	const struct train_options *o = &c->o;
	struct split_matrix m;

	if (split_parse(o->split, &m, e) < 0)
		return -1;
	if (o->dry_run)
		return planned_data(c, e);
	if (o->generate && !c->tokenizer)
		return err_set(e,
		    "--generate: needs a tokenizer (--tokenizer-model F, or --vocab-file F "
		    "--merge-file F)");
	if (o->generate && o->tokens_file)
		return err_set(e,
		    "--generate and --tokens-file exclude each other: give one of "
		    "them");
	if (o->prompts && o->prompt_file)
		return err_set(e,
		    "--prompts and --prompt-file exclude each other: give one of "
		    "them");
	if (!o->generate && (o->tokens_file != NULL) != (o->logits_file != NULL))
		return err_set(e, "--tokens-file and --logits-file: need each other");
	if (o->wandb_project && o->wandb_id && !io_is_file_name(o->wandb_id))
		return err_set(e,
		    "--wandb-id '%s': is the name of a file and a directory too: a "
		    "word without '/'",
		    o->wandb_id);
	if (check_file("tokens-file", o->tokens_file, e) < 0 || check_tasks(c, e) < 0)
		return -1;
	return o->tokens_file || o->generate || o->calibrate ? 0 : check_data(c, e);
}

/* lists.c - names in the registries: each is there once, and can be read back from what holds it */
#include "lib/model/block/block.h"
#include "lib/model/block/rows.h"
#include "lib/model/family.h"
#include "lib/model/fields.h"
#include "lib/model/lr.h"
#include "lib/model/optim_rule.h"
#include "tests/check.h"
#include "tests/sized_model.h"
#include "train/config/options.h"

#include <string.h>

/* One line that names the file to mend, where a rule is broken. */
static void
rule(bool holds, const char *file, const char *list, const char *word, const char *what)
{
	check_count++;
	check_failures += !holds;
	if (!holds)
		fprintf(stderr, "%s: %s: '%s' %s\n", file, list, word, what);
}

/* Words of state.conf have no blanks, and are not numbers, which stand for others in older files.
 */
static void
check_words(const char *file, const char *list, const char *const *words)
{
	for (int i = 0; words[i]; i++) {
		bool twice = false;

		for (int k = 0; k < i; k++)
			twice = twice || !strcmp(words[k], words[i]);
		rule(!twice, file, list, words[i], "is there twice");
		rule(!strpbrk(words[i], " \t\n"), file, list, words[i], "has a blank");
		rule(words[i][strspn(words[i], "0123456789")], file, list, words[i], "is a number");
	}
}

/* A config.json says which family reads it. */
static void
check_families(void)
{
	const struct family *const *all = family_all();

	for (int i = 0; all[i]; i++) {
		bool twice = false;

		for (int k = 0; k < i; k++)
			twice = twice || !strcmp(all[k]->model_type, all[i]->model_type);
		rule(!twice, "lib/model/family_list.h", "FAMILIES", all[i]->model_type,
		    "is there twice");
	}
}

/* Whether some kind of block has a tensor of this name. */
static bool
is_stated(const struct model_config *c, const char *name)
{
	for (const struct block_kind *const *k = block_kinds; *k; k++) {
		struct param_list all = block_params(*k, c, c->num_layers);

		for (int i = 0; i < all.count; i++)
			if (!strcmp(all.row[i].name, name))
				return true;
	}
	return false;
}

/* Every tensor that a family names is one that a block has, in some models. */
static void
check_names(const struct family *f, const struct family_name *n)
{
	struct model_config c = sized_model((struct model_sizes){ 2, 32, 4, 4, 128, 16, 100 });

	for (; n && n->hf; n++)
		rule(is_stated(&c, n->name), "lib/model/family", f->model_type, n->name,
		    "is a tensor that no block has");
}

static void
check_tensors(void)
{
	for (const struct family *const *f = family_all(); *f; f++) {
		check_names(*f, (*f)->names);
		check_names(*f, (*f)->other_names);
	}
}

struct holder {
	struct model_options model;
};

static const struct opt model_rows[] = { MODEL_OPTS(struct holder, model),
	{ .type = OPT_END_TYPE } };

/* Whether a name is that of a row before `end`. */
static bool
is_before(const struct opt *rows, const struct opt *end, const char *name)
{
	for (; rows < end; rows++)
		if (rows->name && !strcmp(rows->name, name))
			return true;
	return false;
}

/* The parser would never come to the second of two rows with one name. */
static void
check_options(const struct opt *rows, const char *file, const char *list)
{
	for (const struct opt *o = rows; o->type != OPT_END_TYPE; o++)
		if (o->name)
			rule(!is_before(rows, o, o->name), file, list, o->name, "is there twice");
}

int
main(void)
{
	check_options(model_rows, "lib/model/fields_list.h", "MODEL_FIELDS");
	check_options(mtrain_opts, "train/config/option_list.h", "TRAIN_OPTIONS");
	check_families();
	check_tensors();
	check_words("lib/model/lr_list.h", "LR_STYLES", lr_styles);
	check_words("lib/model/lr_list.h", "LR_TAILS", wsd_styles);
	check_words("lib/model/optim_list.h", "OPTIM_RULES", optim_rule_names);
	check_words("lib/model/lr_list.h", "WD_STYLES", wd_styles);
	return check_done();
}

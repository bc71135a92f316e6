/*
 * planned.c - files of a run that is planned and not started
 *
 * A plan is made where some files are not: what is here is opened as the run would, so that it
 * cannot be wrong; what is not here is noted.
 */
#include "lib/base/io.h"
#include "lib/data/dataset.h"
#include "train/config/planned.h"

/* The option whose file is not here; NULL: all are, or none has files. */
static const char *
absent_tokenizer(const struct train_options *o, const char **path)
{
	const struct {
		const char *option, *path;
	} file[] = {
		{ "tokenizer-model", o->tokenizer_model },
		{ "vocab-file", o->vocab_file },
		{ "merge-file", o->merge_file },
	};

	for (size_t i = 0; i < sizeof file / sizeof *file; i++)
		if (file[i].path && io_there(file[i].path, NULL) == 0) {
			*path = file[i].path;
			return file[i].option;
		}
	return NULL;
}

bool
planned_without_tokenizer(struct train_config *c)
{
	const struct model_options *m = &c->o.run.model;
	const char *path = NULL, *option = absent_tokenizer(&c->o, &path);

	if (!option)
		return false;
	str_addf(
	    &c->parse.notes, "--%s %s: does not exist here; the run will need it", option, path);
	if (!m->typed.vocab_size && !m->path && !c->o.load && !c->o.pretrained_checkpoint)
		str_addf(&c->parse.notes, ", and the plan has a vocabulary of %d tokens",
		    PLANNED_VOCABULARY);
	str_addc(&c->parse.notes, '\n');
	return true;
}

/* 1: the dataset is whole; 0: there is nothing of it; -1 with the reason. */
static int
open_dataset(const char *prefix, struct err *e)
{
	static const char *const endings[] = { ".idx", ".bin" };
	struct str path = { 0 };
	struct dataset *d;
	bool there[2];

	for (int i = 0; i < 2; i++) {
		str_clear(&path);
		str_addf(&path, "%s%s", prefix, endings[i]);
		there[i] = io_there(path.buf, NULL) != 0;
	}
	str_release(&path);
	if (!there[0] && !there[1])
		return 0;
	if (there[0] != there[1])
		return err_set(e, "there is no '%s%s'; %s", prefix, endings[there[0]],
		    data_paths_advice(prefix));
	d = dataset_open(prefix, e);
	dataset_close(d);
	return d ? 1 : -1;
}

/* The datasets of a list: opened, or counted in *absent, with the first of them. */
static int
open_list(const struct path_list *l, int *absent, const char **first, struct err *e)
{
	struct err why;

	for (int i = 0; i < l->count; i++) {
		int rc = open_dataset(l->prefix[i], &why);

		if (rc < 0)
			return err_set(e, "--data-path %s: %s", l->prefix[i], why.msg);
		if (rc == 0 && (*absent)++ == 0)
			*first = l->prefix[i];
	}
	return 0;
}

/* Whether the options name datasets, and the file that lists them, if there is one, is here. */
static bool
names_data(struct train_config *c)
{
	const struct path_options *o = &c->o.paths;
	const char *list = path_options_file(o);

	if (!path_options_any(o) || c->o.mock_data || c->o.tokens_file || c->o.generate)
		return false;
	if (!list || io_there(list, NULL) != 0)
		return true;
	str_addf(&c->parse.notes, "%s: does not exist here; the run will need it\n", list);
	return false;
}

int
planned_data(struct train_config *c, struct err *e)
{
	const char *first = NULL;
	int absent = 0;

	if (!names_data(c))
		return 0;
	if (data_paths_read(&c->o.paths, &c->paths, e) < 0)
		return -1;
	/* Without lists of their own all splits have one. */
	for (int w = 0; w < (c->paths.per_split ? SPLIT_COUNT : 1); w++)
		if (open_list(data_paths_list(&c->paths, (enum split)w), &absent, &first, e) < 0)
			return -1;
	if (absent == 1)
		str_addf(&c->parse.notes,
		    "--data-path %s: does not exist here; the run will need it\n", first);
	else if (absent)
		str_addf(&c->parse.notes,
		    "--data-path: %d datasets do not exist here, the first '%s'; the run will need "
		    "them\n",
		    absent, first);
	return 0;
}

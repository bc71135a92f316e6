/* origin.c - the files that lay beside the weights that a run began with */
#include "export/origin.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

static char *
path_of(const struct origin *o, const char *name)
{
	struct str path = { 0 };

	str_addf(&path, "%s/%s", o->dir, name);
	return path.buf;
}

/* Takes a file that is there; one that has changed is a note, and a tokenizer then another. */
static void
look_at(struct origin *o, const char *name, uint64_t was, struct str *notes)
{
	char *path = path_of(o, name);
	bool tokenizer = !strcmp(name, "tokenizer.json");
	struct err why;
	uint64_t sum;

	if (hf_files_sum(path, &sum, &why) < 0) {
		str_addf(notes, "of the model that the run began with: %s\n", why.msg);
	} else {
		o->files.name =
		    mem_realloc(o->files.name, (size_t)o->files.count + 1, sizeof *o->files.name);
		o->files.name[o->files.count++] = mem_strdup(name);
		if (sum != was)
			str_addf(notes, "%s: has changed since the run began with that model%s\n",
			    path, tokenizer ? ": it is not taken" : "");
		else if (tokenizer) {
			o->tokenizer = mem_strdup(path);
			o->sum = sum;
		}
	}
	free(path);
}

void
origin_open(struct origin *o, const struct run_state *s, struct str *notes)
{
	int64_t n = s->origin && s->origin_files != STATE_NONE ? s->origin_files : 0;

	o->dir = s->origin;
	if (n && !io_exists(o->dir)) {
		str_addf(notes,
		    "'%s', whose model the run began with, is not here: its tokenizer, templates "
		    "and generation_config.json are not taken\n",
		    o->dir);
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		uint64_t sum;
		const char *name = hash_read(s->origin_file[i], &sum);

		if (name && *name == ' ' && hf_files_is(name + 1))
			look_at(o, name + 1, sum, notes);
		else
			str_addf(
			    notes, "state.conf: 'origin_file_%lld' is damaged\n", (long long)i);
	}
}

void
origin_extras(const struct origin *o, const struct str *json, struct extras *x, struct str *notes)
{
	bool same = o->tokenizer && json->len && hash_xxh3(json->buf, json->len) == o->sum;

	for (int i = 0; i < o->files.count; i++) {
		struct err why;

		if ((same || !strcmp(o->files.name[i], GENERATION_CONFIG)) &&
		    extras_take(x, o->dir, o->files.name[i], &why) < 0)
			str_addf(notes, "of the model that the run began with: %s\n", why.msg);
	}
}

void
origin_release(struct origin *o)
{
	hf_files_release(&o->files);
	free(o->tokenizer);
	*o = (struct origin){ 0 };
}

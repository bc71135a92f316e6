/* extras.c - the files that belong to a tokenizer.json and lie in its directory */
#include "export/extras.h"
#include "lib/base/hub.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/ckpt/hf_files.h"
#include "lib/model/family.h"

#include <stdlib.h>
#include <string.h>

static const size_t file_max = (size_t)1 << 30, generation_max = (size_t)1 << 24;

/* The path of a file in the directory of a tokenizer.json; free() it. */
static char *
path_of(const char *json, const char *name)
{
	const char *slash = strrchr(json, '/');
	struct str path = { 0 };

	str_addf(&path, "%.*s%s", slash ? (int)(slash + 1 - json) : 0, json, name);
	return path.buf;
}

/* 1 if there is one, else 0. */
static int
read_file(const char *path, struct str *out, struct err *e)
{
	int rc = io_there(path, e);

	if (rc > 0 &&
	    (hub_check_pointer(path, e) < 0 ||
		io_read_regular(path, file_max, &out->buf, &out->len, e) < 0))
		rc = -1;
	return rc;
}

int
extras_read_file(const char *json, const char *name, struct str *out, struct err *e)
{
	char *path = path_of(json, name);
	int rc = read_file(path, out, e);

	free(path);
	return rc;
}

static int
take_generation(struct extras *x, const char *path, struct err *e)
{
	x->generation = json_read_regular(path, generation_max, e);
	if (!x->generation)
		return -1;
	if (json_root(x->generation)->type == JSON_OBJECT)
		return 0;
	json_free(x->generation);
	x->generation = NULL;
	return err_at(e, path, 0, "not a JSON object");
}

/* Whether a file is here already, or is the tokenizer's own, which tokenizer_json.c reads. */
static bool
has(const struct extras *x, const char *name)
{
	static const char *const own[] = { "tokenizer.json", "tokenizer_config.json",
		"special_tokens_map.json" };

	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (!strcmp(name, own[i]))
			return true;
	for (int i = 0; i < x->count; i++)
		if (!strcmp(name, x->file[i].name))
			return true;
	return x->generation && !strcmp(name, GENERATION_CONFIG);
}

int
extras_take(struct extras *x, const char *dir, const char *name, struct err *e)
{
	struct str path = { 0 }, bytes = { 0 };
	int rc = 0;

	if (has(x, name))
		return 0;
	str_addf(&path, "%s/%s", dir, name);
	if (!strcmp(name, GENERATION_CONFIG))
		rc = take_generation(x, path.buf, e);
	else
		rc = read_file(path.buf, &bytes, e);
	if (rc > 0) {
		x->file = mem_realloc(x->file, (size_t)x->count + 1, sizeof *x->file);
		x->file[x->count++] = (struct extra_file){ mem_strdup(name), bytes };
	}
	str_release(&path);
	return rc < 0 ? -1 : 0;
}

int
extras_read(struct extras *x, const char *json, struct err *e)
{
	char *dir = io_parent(json);
	struct hf_files files = { 0 };
	int rc = hf_files_list(&files, dir, e);

	for (int i = 0; rc == 0 && i < files.count; i++)
		rc = extras_take(x, dir, files.name[i], e);
	hf_files_release(&files);
	free(dir);
	return rc;
}

int
extras_write(const struct extras *x, const char *dir, struct err *e)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < x->count; i++) {
		const struct extra_file *f = &x->file[i];
		struct str path = { 0 };

		str_addf(&path, "%s/%s", dir, f->name);
		if (strchr(f->name, '/')) {
			char *parent = io_parent(path.buf);

			rc = io_mkdir_p(parent, e);
			free(parent);
		}
		if (rc == 0)
			rc = outfile_write(path.buf, f->bytes.buf, f->bytes.len, e);
		str_release(&path);
	}
	return rc;
}

/* The ids of the model as a JSON object. */
static struct json *
ids_of(const struct model_config *c)
{
	struct str text = { 0 };
	struct json *ids;

	str_adds(&text, "{\"_from_model_config\": true");
	family_write_ids(c, false, &text);
	str_addc(&text, '}');
	ids = json_parse(text.buf, text.len, GENERATION_CONFIG, NULL);
	str_release(&text);
	return ids;
}

/* A line where a member has other ids than the model. */
static void
note_ids(const struct json_value *given, const struct json_value *ids, struct str *notes)
{
	struct str other = { 0 }, own = { 0 };

	json_print(&other, given);
	json_print(&own, ids);
	if (strcmp(other.buf, own.buf) != 0)
		str_addf(notes, GENERATION_CONFIG ": \"%s\": %s -> %s, as in the model\n",
		    given->key, other.buf, own.buf);
	str_release(&other);
	str_release(&own);
}

/* Appends the members of which the model has nothing; returns their number. */
static int
add_members(struct str *out, const struct json_value *given, const struct json_value *ids,
    struct str *notes)
{
	int n = 0;

	for (size_t i = 0; given && i < given->len; i++) {
		const struct json_value *v = &given->item[i], *own = json_get(ids, v->key);

		if (own && own->type != JSON_BOOL) {
			note_ids(v, own, notes);
			continue;
		}
		str_adds(out, n++ ? ",\n  " : "\n  ");
		str_add_json(out, v->key, v->key_len);
		str_adds(out, ": ");
		json_print(out, v);
	}
	return n;
}

void
extras_generation(
    const struct extras *x, const struct model_config *c, struct str *out, struct str *notes)
{
	struct json *ids = ids_of(c);

	str_addc(out, '{');
	if (!add_members(
		out, x->generation ? json_root(x->generation) : NULL, json_root(ids), notes))
		str_adds(out, "\n  \"_from_model_config\": true");
	family_write_ids(c, false, out);
	str_adds(out, "\n}\n");
	json_free(ids);
}

void
extras_release(struct extras *x)
{
	for (int i = 0; i < x->count; i++) {
		free(x->file[i].name);
		str_release(&x->file[i].bytes);
	}
	free(x->file);
	json_free(x->generation);
	*x = (struct extras){ 0 };
}

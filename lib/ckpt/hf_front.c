/*
 * hf_front.c - what a directory of Hugging Face's form is
 *
 * People give adapters, roots of caches and files of other forms. Each is told by a name that only
 * it has, before any file is read, so that the message names the cause and not a tensor that is
 * missing as a consequence.
 */
#include "lib/base/hub.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/hf_front.h"
#include "lib/ckpt/meta_dir.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* In the order in which they are read. */
static const struct {
	const char *name;
	bool is_index, is_bin;
} weights[] = {
	{ "model.safetensors", false, false },
	{ "model.safetensors.index.json", true, false },
	{ "pytorch_model.bin", false, true },
	{ "pytorch_model.bin.index.json", true, true },
};
enum { WEIGHTS = sizeof weights / sizeof *weights };

static const char adapter[] = "adapter_config.json";

static bool
has(const char *dir, const char *name)
{
	char path[CKPT_PATH_BYTES];

	return ckpt_join(path, dir, name) && io_exists(path);
}

/* model.VARIANT.safetensors, or pytorch_model.VARIANT.bin, of one file or with an index. */
static bool
is_variant(const char *name, char out[64])
{
	static const char *const begins[] = { "model.", "pytorch_model." },
				 *const ends[] = { ".safetensors", ".bin",
					 ".safetensors.index.json", ".bin.index.json" };
	size_t n = strlen(name);

	for (int b = 0; b < 2; b++)
		for (int k = 0; k < 4; k++) {
			size_t p = strlen(begins[b]), s = strlen(ends[k]);

			if (n <= p + s || strncmp(name, begins[b], p) ||
			    strcmp(name + n - s, ends[k]) || n - p - s >= 64 ||
			    memchr(name + p, '.', n - p - s))
				continue;
			snprintf(out, 64, "%.*s", (int)(n - p - s), name + p);
			return true;
		}
	return false;
}

static int
compare_words(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The variants of the weights that a directory has, as "bf16, fp16"; returns how many. */
static int
list_variants(const char *dir, struct str *out)
{
	enum { MOST = 16 };
	char word[MOST][64];
	struct dirent *de;
	DIR *d = opendir(dir);
	int n = 0, different = 0;

	while (d && n < MOST && (de = readdir(d)))
		n += is_variant(de->d_name, word[n]);
	if (d)
		closedir(d);
	qsort(word, (size_t)n, sizeof *word, compare_words);
	for (int i = 0; i < n; i++)
		if (i == 0 || strcmp(word[i - 1], word[i]))
			str_addf(out, "%s%s", different++ ? ", " : "", word[i]);
	return different;
}

bool
hf_front_has_weights(const char *dir)
{
	for (int i = 0; i < WEIGHTS; i++)
		if (has(dir, weights[i].name))
			return true;
	return false;
}

bool
hf_front_is(const char *path)
{
	char dir[IO_PATH];
	struct str variants = { 0 };
	bool found;
	struct err why;

	if (hub_snapshot(path, dir, &why) < 0)
		return io_is_dir(path);
	found = hf_front_has_weights(dir) || has(dir, adapter) ||
	    list_variants(dir, &variants) > 0 || (strcmp(dir, path) && has(dir, "config.json"));
	str_release(&variants);
	return found;
}

/* The reason that names the model of an adapter. */
static int
refuse_adapter(const char *dir, struct err *e)
{
	char path[CKPT_PATH_BYTES];
	const char *kind = "LORA", *base = "?";
	struct json *j = ckpt_join(path, dir, adapter) ? json_read_python(path, 1 << 24, e) : NULL;

	if (!j)
		return -1;
	json_string(json_root(j), "peft_type", kind, &kind, e);
	json_string(json_root(j), "base_model_name_or_path", base, &base, e);
	err_at(e, dir, 0,
	    "is an adapter (%.20s) of '%.200s', not a model: merge it into that model", kind, base);
	json_free(j);
	return -1;
}

/* What a directory without weights is. */
static int
refuse(const char *dir, struct err *e)
{
	struct str variants = { 0 };

	if (has(dir, adapter))
		return refuse_adapter(dir, e);
	if (list_variants(dir, &variants) > 0)
		err_at(e, dir, 0,
		    "holds variants of the weights alone: %s; rename the files of one, such as "
		    "model.%.*s.safetensors to model.safetensors",
		    variants.buf, (int)strcspn(variants.buf, ","), variants.buf);
	else
		err_at(e, dir, 0,
		    "holds no weights: none of model.safetensors, pytorch_model.bin and their "
		    "indexes");
	str_release(&variants);
	return -1;
}

/* Files of weights that are not read, since those before them are there. */
static void
note_others(struct hf_front *f, int chosen)
{
	for (int i = chosen + 1; i < WEIGHTS; i++)
		if (has(f->dir, weights[i].name) && weights[i].is_bin != f->is_bin)
			str_addf(&f->notes, "%s: %s is not read, since %s is there\n", f->dir,
			    weights[i].name, f->file);
	if (meta_dir_is(f->dir))
		str_addf(&f->notes, "%s: consolidated files are not read, since %s is there\n",
		    f->dir, f->file);
}

int
hf_front_open(struct hf_front *f, const char *path, struct err *e)
{
	char name[CKPT_PATH_BYTES];
	int there = 0;

	memset(f, 0, sizeof *f);
	if (hub_snapshot(path, f->dir, e) < 0)
		return -1;
	for (int i = 0; i < WEIGHTS && !there; i++) {
		if (!ckpt_join(name, f->dir, weights[i].name))
			return err_set(e, "path too long: '%.60s...'", f->dir);
		there = io_there(name, e);
		if (there < 0)
			return -1;
		if (!there)
			continue;
		f->file = weights[i].name;
		f->is_index = weights[i].is_index;
		f->is_bin = weights[i].is_bin;
		note_others(f, i);
	}
	return there ? 0 : refuse(f->dir, e);
}

void
hf_front_release(struct hf_front *f)
{
	str_release(&f->notes);
}

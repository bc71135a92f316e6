/*
 * check.c - mexport --check: an export that lies on the disk, compared with what it is of
 *
 * The directory is opened as any program opens it, through its index and its config.json, and every
 * tensor is compared byte by byte with the source's numbers in the type that is stored. Whatever is
 * wrong is a line, and all else is checked.
 */
#include "export/hf_impl.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/ckpt/hfdir.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 20, /* elements compared at a time */ SHOWN = 60 /* bytes of a value */ };

static const size_t text_max = (size_t)1 << 30;

void
differ(struct differences *d, const char *file, const char *fmt, ...)
{
	va_list ap;
	char what[800];

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	str_addf(d->lines, "%s%s%s: %s\n", d->dir, *file ? "/" : "", file, what);
	d->count++;
}

/* A line of something that could not be done, which may name the directory already. */
static void
differ_reason(struct differences *d, const struct err *e)
{
	size_t n = strlen(d->dir);
	const char *at = strstr(e->msg, d->dir);
	bool quoted = at && at > e->msg && at[-1] == '\'' && strchr("/'", at[n]);

	if (quoted || (at == e->msg && strchr("/:", at[n])))
		str_addf(d->lines, "%s\n", e->msg);
	else
		str_addf(d->lines, "%s: %s\n", d->dir, e->msg);
	d->count++;
}

bool
differ_read(struct differences *d, const char *file, struct str *out)
{
	struct str path = { 0 };
	struct err why;
	int rc;

	str_addf(&path, "%s/%s", d->dir, file);
	rc = io_read_regular(path.buf, text_max, &out->buf, &out->len, &why);
	str_release(&path);
	if (rc < 0)
		differ_reason(d, &why);
	return rc == 0;
}

/* --- texts ------------------------------------------------------------------------------------ */

static void
differ_member(struct differences *d, const char *file, const struct json_value *have,
    const struct json_value *want)
{
	struct str a = { 0 }, b = { 0 };

	json_print(&a, have);
	json_print(&b, want);
	if (strcmp(a.buf, b.buf) != 0 && a.len <= SHOWN && b.len <= SHOWN)
		differ(d, file, "\"%s\" is %s, must be %s", want->key, a.buf, b.buf);
	else if (strcmp(a.buf, b.buf) != 0)
		differ(d, file, "\"%s\" is another one", want->key);
	str_release(&a);
	str_release(&b);
}

/* Members of the objects, in either. */
static void
differ_members(struct differences *d, const char *file, const struct json_value *have,
    const struct json_value *want)
{
	for (size_t i = 0; i < want->len; i++) {
		const struct json_value *own = json_get(have, want->item[i].key);

		if (own)
			differ_member(d, file, own, &want->item[i]);
		else
			differ(d, file, "\"%s\" is missing", want->item[i].key);
	}
	for (size_t i = 0; i < have->len; i++)
		if (!json_get(want, have->item[i].key))
			differ(d, file, "\"%s\" is not of this export", have->item[i].key);
}

void
differ_json(struct differences *d, const char *file, const struct str *want)
{
	struct str text = { 0 };
	struct json *have, *of;
	struct err why;

	if (!differ_read(d, file, &text))
		return;
	have = json_parse(text.buf, text.len, file, &why);
	of = json_parse(want->buf, want->len, file, NULL);
	if (!have)
		differ_reason(d, &why);
	else if (json_root(have)->type != JSON_OBJECT)
		differ(d, file, "not a JSON object");
	else if (of)
		differ_members(d, file, json_root(have), json_root(of));
	json_free(have);
	json_free(of);
	str_release(&text);
}

/* What the export would write. */
static void
check_texts(struct differences *d, struct job *j)
{
	struct str config = { 0 }, generation = { 0 };

	export_config_text(j, &config);
	differ_json(d, "config.json", &config);
	export_generation_text(j, &generation);
	differ_json(d, "generation_config.json", &generation);
	str_release(&config);
	str_release(&generation);
}

/* --- the index -------------------------------------------------------------------------------- */

static const char index_name[] = "model.safetensors.index.json";

/* Each tensor is in the file that the index names, and no other is. */
static void
check_map(struct differences *d, const struct hfdir *h)
{
	const struct hf_index *x = hfdir_index(h);

	for (int i = 0; i < x->count; i++) {
		const struct hfdir_tensor *t = hfdir_find(h, x->entry[i].tensor);

		if (!t)
			differ(d, index_name, "tensor '%s' is in no file", x->entry[i].tensor);
		else if (strcmp(t->file, x->entry[i].file))
			differ(d, index_name, "tensor '%s' is in %s, not in %s", t->name, t->file,
			    x->entry[i].file);
	}
	for (int i = 0; i < hfdir_count(h); i++) {
		const char *name = hfdir_at(h, i)->name;
		int low = 0, high = x->count;

		while (low < high) {
			int mid = (low + high) / 2;

			if (strcmp(x->entry[mid].tensor, name) < 0)
				low = mid + 1;
			else
				high = mid;
		}
		if (low == x->count || strcmp(x->entry[low].tensor, name))
			differ(d, index_name, "tensor '%s' is not named", name);
	}
}

static void
check_total(struct differences *d, const struct hfdir *h)
{
	const struct json_value *metadata = json_get(json_root(hfdir_index(h)->json), "metadata");
	int64_t said = 0, bytes = 0;
	struct err why;

	for (int i = 0; i < hfdir_count(h); i++)
		bytes += (int64_t)hfdir_at(h, i)->bytes;
	if (json_int(metadata, "total_size", 0, &said, &why) < 0)
		differ(d, index_name, "%s", why.msg);
	else if (said != bytes)
		differ(d, index_name, "\"total_size\" is %lld, but the tensors have %lld bytes",
		    (long long)said, (long long)bytes);
}

/* A single file has no index: one that is left makes other programs read other files. */
static void
check_index(struct differences *d)
{
	struct str path = { 0 };
	struct err why;
	struct hfdir *h = hfdir_open(d->dir, &why);

	str_addf(&path, "%s/%s", d->dir, index_name);
	if (h && hfdir_index(h)->count) {
		check_map(d, h);
		check_total(d, h);
	} else if (h && io_exists(path.buf)) {
		differ(d, index_name, "stale: the weights are in one file");
	}
	hfdir_close(h);
	str_release(&path);
}

/* --- weights ---------------------------------------------------------------------------------- */

/* Buffers of two boxes in one type. */
struct pair {
	struct source *own, *exported;
	enum dtype dtype;
	char *a, *b;
};

/* How many elements of a box differ; -1 with the reason. */
static int64_t
compare_box(
    struct pair *p, const struct source_part *of, const struct source_part *in, struct err *e)
{
	size_t size = dtype_size(p->dtype);
	int64_t n = slice_elements(&of->slice), differ = 0;

	if (source_read(p->own, of, p->dtype, p->a, e) < 0 ||
	    p->exported->kind->read(p->exported, in, p->b, e) < 0)
		return -1;
	if (!memcmp(p->a, p->b, (size_t)n * size))
		return 0;
	for (int64_t i = 0; i < n; i++)
		differ += memcmp(p->a + (size_t)i * size, p->b + (size_t)i * size, size) != 0;
	return differ;
}

/* The same of a whole tensor, some rows at a time. */
static int64_t
compare_tensor(struct pair *p, struct source_part of, struct source_part in, struct err *e)
{
	struct slice whole = slice_whole(of.param->ndim, of.param->shape), box[SLICE_FLAT_MAX];
	int64_t total = slice_elements(&whole), sum = 0;

	for (int64_t at = 0, step; at < total; at += step) {
		int n;

		step = total - at < CHUNK ? total - at : CHUNK;
		n = slice_flat(&whole, at, step, box);
		for (int i = 0; i < n; i++) {
			int64_t found;

			of.slice = in.slice = box[i];
			found = compare_box(p, &of, &in, e);
			if (found < 0)
				return -1;
			sum += found;
		}
	}
	return sum;
}

/* Compares a parameter, whose tensor is missing where the directory has reported so. */
static int
check_param(struct differences *d, struct job *j, struct pair *p, int i)
{
	const struct param *own = &j->src->param[i];
	int k = source_index(p->exported, own);
	struct source_part of = { .param = own, .state = j->x.state }, in = { .param = own };
	struct family_place place;
	enum dtype stored;
	int64_t wrong;

	if (k < 0 || (stored = source_dtype(p->exported, own, NULL)) == DTYPE_NONE)
		return 0;
	in.param = &p->exported->param[k];
	p->dtype = stored;
	wrong = compare_tensor(p, of, in, j->e);
	if (wrong < 0)
		return -1;
	if (family_place(j->x.family, &j->src->config, own, &place, j->e) < 0)
		return -1;
	if (wrong)
		differ(d, "", "tensor '%s': %lld of %lld elements of '%s' differ", place.name,
		    (long long)wrong, (long long)param_elements(own), own->name);
	if (stored != j->x.dtype)
		differ(d, "", "tensor '%s' is %s, others are %s", place.name, dtype_name(stored),
		    dtype_name(j->x.dtype));
	return 0;
}

/* Every parameter of the source is in the directory, with the same bytes. */
static int
check_weights(struct differences *d, struct job *j, struct source *exported)
{
	struct pair p = { .own = j->src,
		.exported = exported,
		.a = mem_alloc(CHUNK, sizeof(double)),
		.b = mem_alloc(CHUNK, sizeof(double)) };
	int rc = 0;

	for (int i = 0; i < j->src->count && rc == 0; i++)
		rc = check_param(d, j, &p, i);
	free(p.a);
	free(p.b);
	return rc;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void
add_problems(struct differences *d, const struct source *s)
{
	str_add(d->lines, s->problems.buf, s->problems.len);
	d->count += s->num_problems;
}

/* The type of the directory's first tensor that can be read. */
static enum dtype
stored_type(const struct source *s)
{
	enum dtype t = DTYPE_NONE;

	for (int i = 0; i < s->count && t == DTYPE_NONE; i++)
		t = source_dtype(s, &s->param[i], NULL);
	return t;
}

/* Of the directory alone: it opens, and its numbers are finite. */
static void
check_alone(struct differences *d, struct source *s)
{
	double *x = mem_alloc(CHUNK, sizeof *x);
	struct err why;

	for (int i = 0; i < s->count; i++) {
		struct source_part part = { .param = &s->param[i] };
		struct slice whole = slice_whole(part.param->ndim, part.param->shape),
			     box[SLICE_FLAT_MAX];
		int64_t total = slice_elements(&whole), bad = 0;
		enum dtype t = source_dtype(s, part.param, NULL);

		for (int64_t at = 0; t != DTYPE_NONE && at < total; at += CHUNK) {
			int n =
			    slice_flat(&whole, at, total - at < CHUNK ? total - at : CHUNK, box);

			for (int k = 0; k < n; k++) {
				part.slice = box[k];
				if (s->kind->read(s, &part, x, &why) == 0)
					bad += dtype_count_nonfinite(x, t, slice_elements(&box[k]));
			}
		}
		if (bad)
			differ(d, "", "tensor '%s': %lld of %lld elements are not finite",
			    part.param->name, (long long)bad, (long long)total);
	}
	free(x);
}

/* A directory that does not open is one difference; its texts and its tokenizer are compared all
 * the same. */
static int
check_all(struct differences *d, struct job *j, struct source *exported)
{
	const struct model_config *c = exported ? &exported->config : &j->config;

	if (exported)
		add_problems(d, exported);
	check_index(d);
	if (j->src)
		check_texts(d, j);
	if (exported && j->src && check_weights(d, j, exported) < 0)
		return -1;
	if (exported && !j->src)
		check_alone(d, exported);
	check_tokenizer(d, j, exported || j->src ? c : NULL);
	return 0;
}

int
export_check(const struct export_options *o, struct str *differences, struct str *notes,
    struct str *what, struct err *e)
{
	struct job j = { .o = o, .notes = notes, .warnings = notes, .e = e };
	struct export_options of = *o;
	struct differences d = { .dir = o->dst, .lines = differences };
	struct err why;
	struct source *exported = source_open(o->dst, &why);
	int rc;

	if (exported && exported->kind != &source_hf) {
		source_close(exported);
		return err_set(e, "'%s' is no Hugging Face directory", o->dst);
	}
	if (!exported)
		differ_reason(&d, &why);
	else if (of.dtype == DTYPE_NONE)
		of.dtype = stored_type(exported);
	j.o = &of;
	rc = o->src ? export_open(&j) : 0;
	if (rc == 0 && o->src && !j.has_tokenizer)
		check_take_ids(o->dst, &j.config);
	if (rc == 0)
		rc = check_all(&d, &j, exported);
	if (rc == 0 && exported)
		str_addf(what, "%s: ok: %d tensors in %d files", o->dst, exported->num_tensors,
		    exported->num_files);
	source_close(exported);
	export_release(&j);
	return rc < 0 ? rc : d.count;
}

/*
 * hf.c - a Hugging Face directory as a model of ours
 *
 * All checks of a Hugging Face directory: the config against our rules, the shapes against the
 * config, and that every tensor in the files is used. Parameters are read one at a time, in our
 * orientation and order; one stored tensor may hold several.
 */
#include "ckpt/hf.h"
#include "ckpt/table.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The config is read first: it tells which tensors to expect. */
int
hf_model_open(struct hf_model *m, const char *path, struct err *e)
{
	memset(m, 0, sizeof *m);
	if (strlen(path) >= sizeof m->path)
		return err_set(e, "path too long: '%.60s...'", path);
	snprintf(m->path, sizeof m->path, "%s", path);
	m->family = family_read_config(path, &m->config, e);
	if (!m->family)
		return -1;
	m->dir = hfdir_open(path, e);
	if (!m->dir)
		return -1;
	m->count = model_params(&m->config, &m->param);
	return 0;
}

/* Also releases a model whose opening failed; the family is static. */
void
hf_model_release(struct hf_model *m)
{
	free(m->param);
	hfdir_close(m->dir);
	memset(m, 0, sizeof *m);
}

/*
 * Files of the base model lack the prefix that those of the model with a head have; both exist
 * under the same config.
 */
static const struct safetensors_entry *
find_name(const struct hf_model *m, const char *name)
{
	const struct safetensors_entry *t = hfdir_find(m->dir, name);
	const char *prefix = m->family->optional_prefix;

	if (!t && prefix && !strncmp(name, prefix, strlen(prefix)))
		t = hfdir_find(m->dir, name + strlen(prefix));
	return t;
}

/*
 * A wrong number of vocabulary rows is by far the most common mistake, from tokens added without
 * updating the config, so that message names the member of config.json.
 */
static int
check_shape(const struct hf_model *m, const struct param *p, const struct family_place *place,
    const struct safetensors_entry *t, struct err *e)
{
	struct str want = { 0 }, have = { 0 };

	if (t->ndim == place->ndim &&
	    !memcmp(t->shape, place->shape, (size_t)t->ndim * sizeof *t->shape))
		return 0;
	print_shape(&want, place->ndim, place->shape);
	print_shape(&have, t->ndim, t->shape);
	if (p->shard == SHARD_VOCAB && t->ndim == 2 && t->shape[1] == place->shape[1])
		err_at(e, m->path, 0,
		    "tensor '%s' has %lld rows, but config.json says \"vocab_size\": %lld", t->name,
		    (long long)t->shape[0], (long long)m->config.vocab_size);
	else
		err_at(e, m->path, 0, "tensor '%s' has shape %s, config.json needs %s", t->name,
		    have.buf, want.buf);
	str_release(&want);
	str_release(&have);
	return -1;
}

/* Returns only an entry that can be read as the parameter. */
const struct safetensors_entry *
hf_model_find(const struct hf_model *m, int i, struct family_place *place, struct err *e)
{
	const struct param *p = &m->param[i];
	const struct safetensors_entry *t;
	struct err why;

	if (family_place(m->family, &m->config, p, place, &why) < 0) {
		err_at(e, m->path, 0, "%s", why.msg);
		return NULL;
	}
	t = find_name(m, place->name);
	if (!t) {
		err_at(e, m->path, 0, "tensor '%s' is missing", place->name);
		return NULL;
	}
	if (!dtype_is_float(t->dtype)) {
		err_at(e, m->path, 0, "tensor '%s' is %s; F64, F32, BF16 and F16 are read", t->name,
		    t->dtype_name);
		return NULL;
	}
	return check_shape(m, p, place, t, e) < 0 ? NULL : t;
}

/* Whether s ends with this suffix. */
static bool
has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), k = strlen(suffix);

	return n >= k && !strcmp(s + n - k, suffix);
}

/*
 * Masks and frequencies that old versions saved as tensors; they follow from the config, so no
 * model needs them.
 */
static bool
is_buffer(const char *name)
{
	return has_suffix(name, ".attn.bias") || has_suffix(name, ".attn.masked_bias") ||
	    has_suffix(name, "rotary_emb.inv_freq");
}

/* For a second copy of a tied embedding 1 when it is equal, -1 when it is not; 0 for any other
 * tensor. */
static int
tied_copy(const struct hf_model *m, const struct safetensors_entry *t)
{
	struct family_place place;
	const struct safetensors_entry *table;

	if (strcmp(t->name, "lm_head.weight") || m->config.untie_embeddings_and_output_weights)
		return 0;
	table = hf_model_find(m, 0, &place, NULL);
	return table && table->bytes == t->bytes && table->dtype == t->dtype &&
		!memcmp(table->data, t->data, t->bytes)
	    ? 1
	    : -1;
}

/* Entries are compared by address. */
static int
compare_pointers(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;

	return (x > y) - (x < y);
}

/* Reports tensors of the files that no parameter uses; `used` holds the entries in use, sorted. */
static int
check_unused(const struct hf_model *m, const void **used, int num_used, struct str *problems,
    struct str *notes)
{
	int wrong = 0, buffers = 0;

	for (int i = 0; i < hfdir_count(m->dir); i++) {
		const struct safetensors_entry *t = hfdir_at(m->dir, i);
		int tied = tied_copy(m, t);

		if (bsearch(&t, used, (size_t)num_used, sizeof *used, compare_pointers) || tied > 0)
			continue;
		if (is_buffer(t->name)) {
			buffers++;
			continue;
		}
		wrong++;
		if (tied < 0)
			str_addf(problems,
			    "%s: tensor '%s' differs from the embedding that config.json ties it "
			    "to "
			    "(\"tie_word_embeddings\": true)\n",
			    m->path, t->name);
		else
			str_addf(problems,
			    "%s: tensor '%s' does not belong to a %s model of this config.json\n",
			    m->path, t->name, m->family->model_type);
	}
	if (buffers)
		str_addf(notes, "%s: %d buffers ignored (attn.bias, attn.masked_bias, inv_freq)\n",
		    m->path, buffers);
	return wrong;
}

/* First the tensors that the model needs, then the others in the files. */
int
hf_model_check(const struct hf_model *m, struct str *problems, struct str *notes)
{
	const void **used = mem_alloc((size_t)m->count, sizeof *used);
	int wrong = 0, n = 0;
	char last[128] = "";

	for (int i = 0; i < m->count; i++) {
		struct family_place place = { .name = "" };
		struct err e;
		const struct safetensors_entry *t = hf_model_find(m, i, &place, &e);

		if (t) {
			used[n++] = t;
		} else if (strcmp(last, place.name)) {
			/* Several parameters may lie in one tensor; it is reported once. */
			str_addf(problems, "%s\n", e.msg);
			wrong++;
		}
		snprintf(last, sizeof last, "%s", place.name);
	}
	qsort(used, (size_t)n, sizeof *used, compare_pointers);
	wrong += check_unused(m, used, n, problems, notes);
	free(used);
	return wrong;
}

/* The stored part is copied first and transposed afterwards, so that the copy runs along rows. */
int
hf_model_read(const struct hf_model *m, int i, void *dst, struct err *e)
{
	struct family_place place;
	const struct safetensors_entry *t = hf_model_find(m, i, &place, e);
	struct slice whole;
	size_t size;

	if (!t)
		return -1;
	size = dtype_size(t->dtype);
	whole = slice_whole(place.ndim, place.shape);
	if (place.transposed) {
		void *stored = mem_alloc((size_t)slice_elements(&place.box), size);

		slice_copy(stored, &place.box, t->data, &whole, &place.box, size);
		slice_transpose(dst, stored, place.box.count[0], place.box.count[1], size);
		free(stored);
	} else {
		slice_copy(dst, &place.box, t->data, &whole, &place.box, size);
	}
	return 0;
}

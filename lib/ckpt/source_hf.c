/*
 * source_hf.c - a Hugging Face directory as a source
 *
 * All checks of such a directory: the config against our rules, the shapes against the config, and
 * that every tensor in the files is used. Names may lack the family's optional prefix. A tied
 * output table may exist if it equals the embedding. Buffers in old files (attention masks, rotary
 * frequencies) are ignored. Parameters are read in our orientation; one stored tensor may hold
 * several.
 */
#include "lib/base/hash.h"
#include "lib/base/int64.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/ckpt/hfdir.h"
#include "lib/ckpt/source.h"
#include "lib/model/family.h"

#include <stdlib.h>
#include <string.h>

struct hf_source {
	struct source s;
	struct family family; /* with the names that the files have */
	struct config_rest rest;
	struct hfdir *dir;
};

/* No run has been: mckpt import makes a checkpoint of iteration 0. */
static const char initial_state[] = "iteration 0\nconsumed_train_samples 0\noptimizer_steps 0\n"
				    "skipped_iterations 0\n";

static const struct hf_source *
hf_of(const struct source *s)
{
	return (const struct hf_source *)s;
}

/*
 * Files of the base model lack the prefix that those of the model with a head have; both exist
 * under the same config.
 */
static const struct safetensors_entry *
find_name(const struct hf_source *h, const char *name)
{
	const struct safetensors_entry *t = hfdir_find(h->dir, name);
	const char *prefix = h->family.optional_prefix;

	if (!t && prefix && !strncmp(name, prefix, strlen(prefix)))
		t = hfdir_find(h->dir, name + strlen(prefix));
	return t;
}

/* Whether an entry can be read as the parameter that has this place. */
static bool
fits(const struct safetensors_entry *t, const struct family_place *place)
{
	return t && dtype_is_float(t->dtype) && t->ndim == place->ndim &&
	    !memcmp(t->shape, place->shape, (size_t)t->ndim * sizeof *t->shape);
}

/* Why it cannot. A wrong number of vocabulary rows is by far the most common mistake, from tokens
 * added without updating the config, so that message names the member of config.json. */
static void
explain(const struct hf_source *h, const struct param *p, const struct family_place *place,
    struct str *why)
{
	const struct safetensors_entry *t = find_name(h, place->name);

	if (!t) {
		str_addf(why, "tensor '%s' is missing", place->name);
	} else if (!dtype_is_float(t->dtype)) {
		str_addf(why, "tensor '%s' is %s; F64, F32, BF16 and F16 are read", t->name,
		    t->dtype_name);
	} else if (p->shard == SHARD_VOCAB && t->ndim == 2 && t->shape[1] == place->shape[1]) {
		str_addf(why,
		    "tensor '%s' has %lld rows, but config.json says \"vocab_size\": %lld", t->name,
		    (long long)t->shape[0], (long long)h->s.config.vocab_size);
	} else {
		str_addf(why, "tensor '%s' has shape ", t->name);
		source_print_shape(why, t->ndim, t->shape);
		str_adds(why, ", config.json needs ");
		source_print_shape(why, place->ndim, place->shape);
	}
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
	    has_suffix(name, ".attention.bias") || has_suffix(name, ".attention.masked_bias") ||
	    has_suffix(name, "rotary_emb.inv_freq");
}

/* For a second copy of a tied embedding 1 when it is equal, -1 when it is not; 0 for any other
 * tensor. */
static int
tied_copy(const struct hf_source *h, const struct safetensors_entry *t)
{
	struct family_place place;
	const struct safetensors_entry *table;
	bool same;

	if ((strcmp(t->name, "lm_head.weight") && strcmp(t->name, "embed_out.weight")) ||
	    h->s.config.untie_embeddings_and_output_weights ||
	    family_place(&h->family, &h->s.config, &h->s.param[0], &place, NULL) < 0)
		return 0;
	table = find_name(h, place.name);
	same = table && table->bytes == t->bytes && table->dtype == t->dtype &&
	    !memcmp(table->data, t->data, t->bytes);
	if (table)
		map_forget_part(table->data, table->bytes);
	map_forget_part(t->data, t->bytes);
	return same ? 1 : -1;
}

/* Entries are compared by address. */
static int
compare_pointers(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;

	return (x > y) - (x < y);
}

/* Reports tensors of the files that no parameter uses; `used` holds the entries in use, sorted. */
static void
check_unused(struct hf_source *h, const void **used, int num_used)
{
	int buffers = 0;

	for (int i = 0; i < h->s.num_tensors; i++) {
		const struct safetensors_entry *t = hfdir_at(h->dir, i);
		int tied = tied_copy(h, t);

		if (bsearch(&t, used, (size_t)num_used, sizeof *used, compare_pointers) || tied > 0)
			continue;
		if (is_buffer(t->name))
			buffers++;
		else if (tied < 0)
			source_problem(&h->s,
			    "tensor '%s' differs from the embedding that config.json ties it to "
			    "(\"tie_word_embeddings\": true)",
			    t->name);
		else
			source_problem(&h->s,
			    "tensor '%s' does not belong to a %s model of this config.json",
			    t->name, h->family.model_type);
	}
	if (buffers)
		str_addf(&h->s.notes,
		    "%s: %d buffers ignored (attn.bias, attn.masked_bias, inv_freq)\n", h->s.path,
		    buffers);
}

/* First the tensors that the model needs, then the others in the files. Several parameters may lie
 * in one tensor, which is reported once. */
static void
check(struct hf_source *h)
{
	const void **used = mem_alloc((size_t)h->s.count, sizeof *used);
	char last[128] = "";
	int n = 0;

	for (int i = 0; i < h->s.count; i++) {
		const struct param *p = &h->s.param[i];
		struct family_place place = { .name = "" };
		struct str why = { 0 };
		struct err e;

		if (family_place(&h->family, &h->s.config, p, &place, &e) < 0) {
			source_problem(&h->s, "%s", e.msg);
			continue;
		}
		used[n] = find_name(h, place.name);
		if (!fits(used[n], &place) && strcmp(last, place.name)) {
			explain(h, p, &place, &why);
			source_problem(&h->s, "%s", why.buf);
		}
		n += used[n] != NULL;
		snprintf(last, sizeof last, "%s", place.name);
		str_release(&why);
	}
	qsort(used, (size_t)n, sizeof *used, compare_pointers);
	check_unused(h, used, n);
	free(used);
}

/* Takes the family's other names where the files have a tensor by one of these and none by the
 * usual one. */
static void
choose_names(struct hf_source *h)
{
	struct family other = h->family;
	struct family_place usual, place;

	other.names = h->family.other_names;
	for (int i = 0; other.names && i < h->s.count; i++) {
		const struct param *p = &h->s.param[i];

		if (family_place(&h->family, &h->s.config, p, &usual, NULL) < 0 ||
		    family_place(&other, &h->s.config, p, &place, NULL) < 0 ||
		    find_name(h, usual.name) || !find_name(h, place.name))
			continue;
		h->family.names = other.names;
		return;
	}
}

/* The config is read first: it tells which tensors to expect. */
static struct source *
open_directory(const char *path, struct err *e)
{
	struct source *s = source_new(&source_hf, sizeof(struct hf_source), path);
	struct hf_source *h = (struct hf_source *)s;
	const struct family *f;

	h->dir = hfdir_open(path, e);
	f = h->dir ? family_read_config(path, &s->config, &h->rest, e) : NULL;
	if (f && *h->rest.quantised) {
		err_at(e, path, 0, "is quantised by %s; start from the unquantised model",
		    h->rest.quantised);
		f = NULL;
	}
	if (!f) {
		source_close(s);
		return NULL;
	}
	h->family = *f;
	str_add(&s->notes, h->rest.notes.buf, h->rest.notes.len);
	str_adds(&s->state_text, initial_state);
	source_set_model(s);
	s->num_tensors = hfdir_count(h->dir);
	s->num_files = hfdir_num_files(h->dir);
	choose_names(h);
	check(h);
	return s;
}

/* The entry, when it can be read as the part; such a directory holds weights alone, each once. */
static const struct safetensors_entry *
entry_of(const struct source *s, const struct source_part *p, struct family_place *place)
{
	const struct hf_source *h = hf_of(s);
	const struct safetensors_entry *t;

	if (p->state || p->copy || family_place(&h->family, &s->config, p->param, place, NULL) < 0)
		return NULL;
	t = find_name(h, place->name);
	return fits(t, place) ? t : NULL;
}

static bool
find_part(const struct source *s, const struct source_part *p, struct source_stored *out)
{
	struct family_place place;
	const struct safetensors_entry *t = entry_of(s, p, &place);

	if (t)
		*out = (struct source_stored){ t->dtype, 1, 1 };
	return t;
}

/* Copied first and transposed afterwards, so that the copy runs along rows. */
static void
read_slice(const struct safetensors_entry *t, const struct family_place *place,
    const struct slice *of, void *dst)
{
	struct slice slice = family_stored_slice(place, of);
	struct slice whole = slice_whole(place->ndim, place->shape);
	size_t size = dtype_size(t->dtype);
	int64_t first, n = slice_span(&slice, &whole, &first);
	const char *bytes = (const char *)t->data + (size_t)first * size;

	map_will_need(bytes, (uint64_t)n * size);
	if (place->transposed) {
		void *stored = mem_alloc((size_t)slice_elements(&slice), size);

		slice_copy(stored, &slice, t->data, &whole, &slice, size);
		slice_transpose(dst, stored, slice.count[0], slice.count[1], size);
		free(stored);
	} else {
		slice_copy(dst, &slice, t->data, &whole, &slice, size);
	}
	map_forget_part(bytes, (uint64_t)n * size);
}

/* A box of the parameter is a box of the stored tensor, or one in each run. */
static int
read_part(struct source *s, const struct source_part *p, void *dst, struct err *e)
{
	struct family_place place;
	const struct safetensors_entry *t = entry_of(s, p, &place);
	int64_t end = p->slice.start[0] + p->slice.count[0], height = place.slice.count[0];
	struct slice slice = p->slice;

	(void)e;
	for (; slice.start[0] < end; slice.start[0] += slice.count[0]) {
		slice.count[0] = end - slice.start[0];
		if (place.runs > 1)
			slice.count[0] =
			    int64_min(slice.count[0], height - slice.start[0] % height);
		read_slice(t, &place, &slice, dst);
		dst = (char *)dst + (size_t)slice_elements(&slice) * dtype_size(t->dtype);
	}
	return 0;
}

/* Of names, types, shapes and places, and of the first elements of each tensor: all bytes would
 * take as long as loading them. */
static uint64_t
header_hash(const struct source *s)
{
	enum { FIRST = 64 };
	struct hash_stream *h = hash_stream_new();

	for (int i = 0; i < s->num_tensors; i++) {
		const struct safetensors_entry *t = hfdir_at(hf_of(s)->dir, i);

		hash_stream_add(h, t->name, strlen(t->name) + 1);
		hash_stream_add(h, t->dtype_name, strlen(t->dtype_name) + 1);
		hash_stream_add(h, t->shape, (size_t)t->ndim * sizeof *t->shape);
		hash_stream_add(h, t->data, t->bytes < FIRST ? t->bytes : FIRST);
	}
	return hash_stream_free(h);
}

static void
release(struct source *s)
{
	hfdir_close(((struct hf_source *)s)->dir);
	config_rest_release(&((struct hf_source *)s)->rest);
}

const struct source_kind source_hf = {
	.name = "Hugging Face directory",
	.is = hfdir_is,
	.open = open_directory,
	.find = find_part,
	.read = read_part,
	.hash = header_hash,
	.close = release,
};

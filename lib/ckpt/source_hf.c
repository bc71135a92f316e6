/*
 * source_hf.c - a Hugging Face directory as a source
 *
 * All checks of such a directory: the config against our rules, the shapes against the config, and
 * that every tensor in the files is used or known to be no part of the text's model. A tied output
 * table may exist if it equals the embedding. Parameters are read in our orientation; one stored
 * tensor may hold several.
 */
#include "lib/base/hash.h"
#include "lib/base/int64.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/ckpt/hf_files.h"
#include "lib/ckpt/hf_front.h"
#include "lib/ckpt/hf_names.h"
#include "lib/ckpt/source.h"
#include "lib/model/family.h"

#include <stdlib.h>
#include <string.h>

struct hf_source {
	struct source s;
	struct family family; /* with the names that the files have */
	struct config_rest rest;
	struct hf_names names;
	struct hfdir *dir;
	size_t notes; /* bytes of those before the tensors' */
};

/* No run has been: mckpt import makes a checkpoint of iteration 0. */
static const char initial_state[] = "iteration 0\nconsumed_train_samples 0\noptimizer_steps 0\n"
				    "skipped_iterations 0\n";

static const struct hf_source *
hf_of(const struct source *s)
{
	return (const struct hf_source *)s;
}

/* The tensor that has this name in the family. */
static const struct hfdir_tensor *
find_name(const struct hf_source *h, const char *name)
{
	char mapped[HF_NAME];

	hf_names_map(&h->names, name, mapped);
	return hfdir_find(h->dir, mapped);
}

/* Whether an entry can be read as the parameter that has this place. */
static bool
fits(const struct hfdir_tensor *t, const struct family_place *place)
{
	return t && dtype_is_float(t->view.dtype) && t->ndim == place->ndim &&
	    !memcmp(t->shape, place->shape, (size_t)t->ndim * sizeof *t->shape);
}

/* Why it cannot. A wrong number of vocabulary rows is by far the most common mistake, from tokens
 * added without updating the config, so that message names the member of config.json. */
static void
explain(const struct hf_source *h, const struct param *p, const struct family_place *place,
    struct str *why)
{
	const struct hfdir_tensor *t = find_name(h, place->name);
	char name[HF_NAME];

	hf_names_map(&h->names, place->name, name);
	if (!t && hf_names_lack_head(&h->names) && param_is(p, "output_layer.weight")) {
		str_addf(why,
		    "a base model without '%s', but config.json says \"tie_word_embeddings\": "
		    "false",
		    name);
	} else if (!t) {
		str_addf(why, "tensor '%s' is missing", name);
	} else if (t->why) {
		str_addf(why, "tensor '%s' %s: %s", t->name,
		    t->decode.code == HF_STORED ? "is none" : "is quantised and not decoded",
		    t->why);
	} else if (!dtype_is_float(t->view.dtype)) {
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

/* For a second copy of a tied embedding 1 when it has the same numbers, -1 when it has not; 0 for
 * any other tensor. */
static int
tied_copy(const struct hf_source *h, const struct hfdir_tensor *t)
{
	static const char *const heads[] = { "lm_head.weight", "embed_out.weight" };
	struct family_place place;
	const struct hfdir_tensor *table;
	bool is_head = false;

	for (int i = 0; i < 2; i++)
		is_head |= find_name(h, heads[i]) == t;
	if (!is_head || h->s.config.untie_embeddings_and_output_weights ||
	    family_place(&h->family, &h->s.config, &h->s.param[0], &place, NULL) < 0)
		return 0;
	table = find_name(h, place.name);
	return table && hfdir_same(table, t) ? 1 : -1;
}

/* For a second copy of a table in a layer that predicts later tokens, and is read, likewise. */
static int
repeated(const struct hf_source *h, const struct hfdir_tensor *t)
{
	static const char *const copies[][2] = { { "embed_tokens.weight",
						     "embedding.word_embeddings.weight" },
		{ "shared_head.head.weight", "output_layer.weight" } };
	const struct model_config *c = &h->s.config;

	for (int64_t i = c->num_layers; i < model_end(c); i++)
		for (int k = 0; k < 2; k++) {
			bool tied = !c->untie_embeddings_and_output_weights;
			const struct param *p = source_param(&h->s, copies[tied ? 0 : k][1]);
			struct family_place place;
			char name[HF_NAME];

			snprintf(
			    name, sizeof name, "model.layers.%lld.%s", (long long)i, copies[k][0]);
			if (find_name(h, name) != t || !p ||
			    family_place(&h->family, c, p, &place, NULL) < 0)
				continue;
			return find_name(h, place.name) && hfdir_same(find_name(h, place.name), t)
			    ? 1
			    : -1;
		}
	return 0;
}

/* Entries are compared by address. */
static int
compare_pointers(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;

	return (x > y) - (x < y);
}

/* What no parameter uses and is passed over: a line for each class. */
struct passed {
	int tensors[HF_FOREIGN + 1];
	uint64_t bytes[HF_FOREIGN + 1];
};

static void
note_passed(struct hf_source *h, const struct passed *p)
{
	static const char *const what[HF_FOREIGN + 1] = {
		[HF_BUFFER] = "are buffers, which follow from config.json",
		[HF_MODALITY] = "are of images or sound",
		[HF_MTP] = "are of layers that predict later tokens (MTP)",
	};

	for (int i = 0; i <= HF_FOREIGN; i++)
		if (what[i] && p->tensors[i])
			str_addf(&h->s.notes, "%s: not read: %d tensors (%.1f MB) %s\n", h->s.path,
			    p->tensors[i], (double)p->bytes[i] / 1e6, what[i]);
}

/* Notes a tensor that the model can do without, or reports it. */
static void
take_unused(struct hf_source *h, const struct hfdir_tensor *t, struct passed *p)
{
	enum hf_class class = hf_class_of(t->name, &h->s.config, &h->rest);
	int tied = tied_copy(h, t), again = repeated(h, t);

	if (tied > 0 || again > 0)
		return;
	if (again < 0) {
		source_problem(&h->s,
		    "tensor '%s' differs from the table that layers which predict later tokens "
		    "share with the model",
		    t->name);
		return;
	}
	p->tensors[class]++;
	p->bytes[class] += t->bytes;
	if (tied < 0)
		source_problem(&h->s,
		    "tensor '%s' differs from the embedding that config.json ties it to "
		    "(\"tie_word_embeddings\": true): with false there the model has it as its "
		    "output table",
		    t->name);
	else if (class == HF_HEAD)
		source_problem(&h->s,
		    "tensor '%s' is of a classifier or a reward model, not of a language model",
		    t->name);
	else if (class == HF_ADAPTER)
		source_problem(
		    &h->s, "tensor '%s' is of an adapter: merge it into the model first", t->name);
	else if (class == HF_FOREIGN)
		source_problem(&h->s,
		    "tensor '%s' does not belong to a %s model of this config.json", t->name,
		    h->family.model_type);
}

/* Lines of the index whose tensors are in no file. What the model needs of them has been reported
 * as missing. */
static void
note_stale(struct hf_source *h)
{
	const struct hf_index *x = hfdir_index(h->dir);
	const char *first = NULL;
	int n = 0;

	for (int i = 0; i < x->count; i++)
		if (!hfdir_find(h->dir, x->entry[i].tensor) && n++ == 0)
			first = x->entry[i].tensor;
	if (n)
		str_addf(&h->s.notes,
		    "%s: the index names %d tensor%s that %s in no file, such as '%s'\n", h->s.path,
		    n, n > 1 ? "s" : "", n > 1 ? "are" : "is", first);
}

/* Tensors of the files that no parameter uses; `used` holds the others, sorted. */
static void
check_unused(struct hf_source *h, const void **used, int num_used)
{
	struct passed passed = { { 0 }, { 0 } };

	for (int i = 0; i < h->s.num_tensors; i++) {
		const struct hfdir_tensor *t = hfdir_at(h->dir, i);

		if (!bsearch(&t, used, (size_t)num_used, sizeof *used, compare_pointers))
			take_unused(h, t, &passed);
	}
	note_passed(h, &passed);
	note_stale(h);
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

/* The rule of the names, by the embedding's. */
static void
choose_prefixes(struct hf_source *h)
{
	struct family_place place;

	if (family_place(&h->family, &h->s.config, &h->s.param[0], &place, NULL) == 0)
		hf_names_choose(&h->names, h->dir, place.name);
}

/* Joins what is quantised by a method that is read, with a note. */
static int
decode(struct hf_source *h, struct err *e)
{
	const struct config_quantised *q = &h->rest.quantised;
	struct source *s = &h->s;
	int n;

	if (!*q->method)
		return 0;
	if (!q->decoded)
		return err_at(e, s->path, 0, "is quantised by %s; start from the unquantised model",
		    q->method);
	n = hfdir_decode(h->dir, q);
	str_addf(&h->rest.notes, "%s: %d tensors of %s", s->path, n, q->method);
	if (q->block[0])
		str_addf(&h->rest.notes, " in blocks of %lld x %lld", (long long)q->block[0],
		    (long long)q->block[1]);
	str_adds(&h->rest.notes, " are decoded, to BF16 where no other type is asked for\n");
	return 0;
}

/* The model of the directory's config.json. */
static int
read_config(struct hf_source *h, struct err *e)
{
	struct source *s = &h->s;
	const struct family *f = family_read_config(s->path, &s->config, &h->rest, e);

	if (!f)
		return -1;
	h->family = *f;
	return decode(h, e);
}

/* That they cannot be recorded is no fault of the weights. */
static void
record_files(struct source *s)
{
	struct err why;

	str_adds(&s->state_text, initial_state);
	if (hf_files_record(s->path, &s->state_text, &why) < 0)
		str_addf(&s->notes, "%s: its tokenizer and templates are not recorded: %s\n",
		    s->path, why.msg);
}

/* The files are found first: they tell what a directory without a config.json is. */
static struct source *
open_directory(const char *path, struct err *e)
{
	struct source *s = source_new(&source_hf, sizeof(struct hf_source), path);
	struct hf_source *h = (struct hf_source *)s;

	h->dir = hfdir_open(path, e);
	if (h->dir)
		snprintf(s->path, sizeof s->path, "%s", hfdir_path(h->dir));
	if (!h->dir || read_config(h, e) < 0) {
		source_close(s);
		return NULL;
	}
	str_adds(&s->notes, hfdir_notes(h->dir));
	str_add(&s->notes, h->rest.notes.buf, h->rest.notes.len);
	record_files(s);
	source_set_model(s);
	s->num_tensors = hfdir_count(h->dir);
	s->num_files = hfdir_num_files(h->dir);
	h->notes = s->notes.len;
	choose_prefixes(h);
	choose_names(h);
	check(h);
	return s;
}

int
source_predict(struct source *s, int64_t layers, struct err *e)
{
	struct hf_source *h = (struct hf_source *)s;

	if (s->kind != &source_hf || layers == s->config.mtp_num_layers)
		return 0;
	if (layers > h->rest.num_mtp_layers)
		return err_at(e, s->path, 0,
		    "has %lld layers that predict later tokens, not %lld (--mtp-num-layers)",
		    (long long)h->rest.num_mtp_layers, (long long)layers);
	s->config.mtp_num_layers = layers;
	free(s->param);
	str_clear(&s->options);
	str_clear(&s->problems);
	s->num_problems = 0;
	s->notes.len = h->notes;
	if (s->notes.buf)
		s->notes.buf[s->notes.len] = '\0';
	source_set_model(s);
	check(h);
	return 0;
}

/* The entry, when it can be read as the part; such a directory holds weights alone, each once. */
static const struct hfdir_tensor *
entry_of(const struct source *s, const struct source_part *p, struct family_place *place)
{
	const struct hf_source *h = hf_of(s);
	const struct hfdir_tensor *t;

	if (p->state || p->copy || family_place(&h->family, &s->config, p->param, place, NULL) < 0)
		return NULL;
	t = find_name(h, place->name);
	return fits(t, place) ? t : NULL;
}

static bool
find_part(const struct source *s, const struct source_part *p, struct source_stored *out)
{
	struct family_place place;
	const struct hfdir_tensor *t = entry_of(s, p, &place);

	if (t)
		*out = (struct source_stored){ t->view.dtype, 1, 1, t->decode.code != HF_STORED };
	return t;
}

/* A storage of torch is compared with its checksum when it is first read. */
static int
check_storage(struct source *s, const struct hfdir_tensor *t, struct err *e)
{
	int rc = torch_tensor_check(&t->view, e);

	s->damaged |= rc < 0;
	return rc;
}

/* The box of the stored tensor that rows of the parameter from slice->start[0] on are: of all of
 * them, or of those in one run, or of one row where pairs lie otherwise. slice->count[0] becomes
 * how many. */
static struct slice
stored_box(const struct family_place *place, struct slice *slice)
{
	int64_t height = place->slice.count[place->dim[0]];
	struct slice stored;

	if (place->runs > 1)
		slice->count[0] = int64_min(slice->count[0], height - slice->start[0] % height);
	if (place->rotary)
		slice->count[0] = int64_min(slice->count[0], 1);
	stored = *slice;
	stored.start[0] = family_stored_row(place, slice->start[0]);
	return family_stored_slice(place, &stored);
}

static int
read_as(struct source *s, const struct source_part *p, enum dtype as, void *dst, struct err *e)
{
	struct family_place place;
	const struct hfdir_tensor *t = entry_of(s, p, &place);
	int64_t end = p->slice.start[0] + p->slice.count[0];
	struct hfdir_box box = { .as = as, .transposed = place.transposed };
	struct slice slice = p->slice;

	if (check_storage(s, t, e) < 0)
		return -1;
	for (; slice.start[0] < end; slice.start[0] += slice.count[0]) {
		struct err why;

		slice.count[0] = end - slice.start[0];
		box.slice = stored_box(&place, &slice);
		if (hfdir_read(t, &box, dst, &why) < 0)
			return err_at(e, s->path, 0, "%s", why.msg);
		dst = (char *)dst + (size_t)slice_elements(&slice) * dtype_size(as);
	}
	return 0;
}

static int
read_part(struct source *s, const struct source_part *p, void *dst, struct err *e)
{
	struct family_place place;

	return read_as(s, p, entry_of(s, p, &place)->view.dtype, dst, e);
}

static int
read_exact(struct source *s, const struct source_part *p, void *dst, struct err *e)
{
	return read_as(s, p, DTYPE_F32, dst, e);
}

/* Where a part lies as it is; NULL: it does not. */
static const void *
find_bytes(const struct source *s, const struct source_part *p, uint64_t *bytes)
{
	struct family_place place;
	const struct hfdir_tensor *t = entry_of(s, p, &place);
	struct hfdir_box box = { .as = t->view.dtype, .transposed = place.transposed };
	struct slice slice = p->slice;

	box.slice = stored_box(&place, &slice);
	return slice.count[0] == p->slice.count[0] ? hfdir_find_box(t, &box, bytes) : NULL;
}

static int
lend_part(struct source *s, const struct source_part *p, const void **at, struct err *e)
{
	struct family_place place;
	uint64_t bytes;

	if (check_storage(s, entry_of(s, p, &place), e) < 0)
		return -1;
	*at = find_bytes(s, p, &bytes);
	if (*at) {
		map_will_need(*at, bytes);
		map_keep(*at, bytes, *at, bytes);
	}
	return 0;
}

static void
give_back_part(struct source *s, const struct source_part *p)
{
	uint64_t bytes;
	const void *at = find_bytes(s, p, &bytes);

	map_forget_part(at, bytes);
}

void
source_rotate_as(struct source *s, const struct model_config *c)
{
	if (s->kind != &source_hf || !c->rotary_interleaved || s->config.rotary_interleaved ||
	    s->config.position != POSITION_ROPE)
		return;
	s->config.rotary_interleaved = true;
	str_addf(&s->notes,
	    "%s: rows of q and k are read in the order of interleaved pairs "
	    "(--rotary-interleaved)\n",
	    s->path);
}

/* Of names, types, shapes and places, and of the first elements of each tensor: all bytes would
 * take as long as loading them. */
static uint64_t
header_hash(const struct source *s)
{
	enum { FIRST = 64 };
	struct hash_stream *h = hash_stream_new();

	for (int i = 0; i < s->num_tensors; i++) {
		const struct hfdir_tensor *t = hfdir_at(hf_of(s)->dir, i);

		hash_stream_add(h, t->name, strlen(t->name) + 1);
		hash_stream_add(h, t->dtype_name, strlen(t->dtype_name) + 1);
		hash_stream_add(h, t->shape, (size_t)t->ndim * sizeof *t->shape);
		if (t->is_dense)
			hash_stream_add(h, t->view.data, t->bytes < FIRST ? t->bytes : FIRST);
		if (t->decode.scales && t->bytes)
			hash_stream_add(h, t->decode.scales, 1);
	}
	return hash_stream_free(h);
}

static int
verify(struct source *s, struct str *problems)
{
	return hfdir_verify(hf_of(s)->dir, problems);
}

static void
release(struct source *s)
{
	hfdir_close(((struct hf_source *)s)->dir);
	config_rest_release(&((struct hf_source *)s)->rest);
}

const struct source_kind source_hf = {
	.name = "Hugging Face directory",
	.is = hf_front_is,
	.open = open_directory,
	.find = find_part,
	.read = read_part,
	.lend = lend_part,
	.give_back = give_back_part,
	.read_exact = read_exact,
	.verify = verify,
	.hash = header_hash,
	.close = release,
};

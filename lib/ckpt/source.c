/*
 * source.c - opens a model of any format, and reads it in any type
 *
 * What is the same for every format: choosing the kind, the state, the conversion. Kinds deliver
 * boxes in the stored type only; conversion takes a bounded number of elements at a time, so that
 * no parameter is in memory twice.
 */
#include "lib/base/hub.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/source.h"
#include "lib/model/fields.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CONVERT_CHUNK = 1 << 20 }; /* elements */

/* In the order in which they are asked. Those of downloads first: such a directory may lie
 * anywhere, also where a run saves. */
static const struct source_kind *const kinds[] = { &source_meta, &source_hf, &source_torch,
	&source_torch_dist, &source_ckpt, NULL };

/* What is of no kind, or cannot be looked at, is opened as a checkpoint of ours, which gives the
 * reason. */
static const struct source_kind *
kind_of(const char *path)
{
	char file[CKPT_PATH_BYTES];

	for (int i = 0; kinds[i]; i++)
		if (kinds[i]->is(path))
			return kinds[i];
	return ckpt_join(file, path, "config.json") && io_exists(file) ? &source_hf : &source_ckpt;
}

static struct source *
open_kind(const struct source_kind *k, const char *path, const char *model, struct err *e)
{
	if (!model)
		return k->open(path, e);
	if (k->open_as)
		return k->open_as(path, model, e);
	err_set(e, "'%s' is a %s, which says its model itself", path, k->name);
	return NULL;
}

struct source *
source_open_as(const char *path, const char *model, struct err *e)
{
	bool here = hub_check(path, "a directory with its weights", e) == 0;
	struct source *s = here ? open_kind(kind_of(path), path, model, e) : NULL;

	if (s && state_parse(&s->state, s->state_text.buf, s->path, e) < 0) {
		source_close(s);
		return NULL;
	}
	return s;
}

struct source *
source_open(const char *path, struct err *e)
{
	return source_open_as(path, NULL, e);
}

void
source_close(struct source *s)
{
	if (!s)
		return;
	s->kind->close(s);
	free(s->param);
	str_release(&s->options);
	str_release(&s->run_options);
	str_release(&s->state_text);
	str_release(&s->problems);
	str_release(&s->notes);
	state_release(&s->state);
	free(s);
}

int
source_require(const struct source *s, struct err *e)
{
	int first = s->num_problems ? (int)strcspn(s->problems.buf, "\n") : 0;

	if (s->num_problems > 1)
		return err_set(e, "%.*s (and %d more; mckpt verify lists them)", first,
		    s->problems.buf, s->num_problems - 1);
	return s->num_problems ? err_set(e, "%.*s", first, s->problems.buf) : 0;
}

/* The options of a source that has no text of them. */
static void
make_options(struct source *s)
{
	str_clear(&s->options);
	model_dump(&s->config, &s->options);
	str_add(&s->options, s->run_options.buf, s->run_options.len);
}

int
source_set_vocab(struct source *s, int64_t tokens, struct err *e)
{
	int64_t rows = s->padded_vocab ? s->padded_vocab : s->config.vocab_size;

	if (tokens > rows || (tokens < rows && !s->padded_vocab))
		return err_at(e, s->path, 0, "the model has %lld tokens%s, not %lld",
		    (long long)rows, s->padded_vocab ? " at most" : "", (long long)tokens);
	if (tokens == s->config.vocab_size)
		return 0;
	s->config.vocab_size = tokens;
	for (int i = 0; i < s->count; i++)
		if (s->param[i].shard == SHARD_VOCAB)
			s->param[i].shape[s->param[i].shard_dim] = tokens;
	make_options(s);
	return 0;
}

enum dtype
source_dtype(const struct source *s, const struct param *p, const char *state)
{
	const struct source_part part = { .param = p, .state = state };
	struct source_stored t;

	return s->kind->find(s, &part, &t) ? t.dtype : DTYPE_NONE;
}

int
source_lend(struct source *s, const struct source_part *p, const void **at, struct err *e)
{
	*at = NULL;
	return s->kind->lend ? s->kind->lend(s, p, at, e) : 0;
}

void
source_give_back(struct source *s, const struct source_part *p)
{
	s->kind->give_back(s, p);
}

void
source_expect(struct source *s, const struct source_part *p)
{
	if (s->kind->expect)
		s->kind->expect(s, p);
}

void
source_name(const struct param *p, const char *state, char out[128])
{
	snprintf(out, 128, "%s%s%s", p->name, state ? "." : "", state ? state : "");
}

int
source_num_states(const struct source *s)
{
	return optim_num_states(s->rule) + s->averaged;
}

const char *
source_state(const struct source *s, int k)
{
	if (k == 0)
		return NULL;
	return k <= optim_num_states(s->rule) ? s->rule->states[k - 1] : STATE_AVERAGE;
}

bool
source_keeps(const struct source *s, const struct param *p, int k)
{
	return k == 0 || k > optim_num_states(s->rule) ||
	    optim_keeps(s->rule, k - 1, param_is_layer_matrix(p, &s->config));
}

/* Order of names. */
static int
compare_tensors(const void *a, const void *b)
{
	return strcmp(
	    ((const struct source_tensor *)a)->name, ((const struct source_tensor *)b)->name);
}

/* Adds a tensor to a list, if the source has it; returns how many it has added. */
static int
add_tensor(
    const struct source *s, const struct param *p, const char *state, struct source_tensor *out)
{
	out->part = (struct source_part){
		.param = p, .state = state, .slice = slice_whole(p->ndim, p->shape)
	};
	source_name(p, state, out->name);
	return s->kind->find(s, &out->part, &out->stored);
}

int
source_tensors(const struct source *s, struct source_tensor **out)
{
	int n = 0, states = source_num_states(s);
	size_t most = (size_t)s->count * (size_t)(states + 1) + FP8_STATES;
	struct source_tensor *t = mem_alloc(most, sizeof *t);

	for (int i = 0; i < s->count; i++)
		for (int k = 0; k <= states; k++)
			if (source_keeps(s, &s->param[i], k))
				n += add_tensor(s, &s->param[i], source_state(s, k), &t[n]);
	for (int i = 0; i < s->num_of_run; i++)
		n += add_tensor(s, &s->of_run[i], NULL, &t[n]);
	qsort(t, (size_t)n, sizeof *t, compare_tensors);
	*out = t;
	return n;
}

bool
source_is_weight(const struct source *s, const struct source_part *p)
{
	return !p->state && !source_of_run(s, p->param->name);
}

const struct param *
source_of_run(const struct source *s, const char *name)
{
	for (int i = 0; i < s->num_of_run; i++)
		if (!strcmp(s->of_run[i].name, name))
			return &s->of_run[i];
	return NULL;
}

/* A box as it is stored, or of what is rounded to that in FP32. */
static int
read_all_bits(struct source *s, const struct source_part *p, const struct source_stored *t,
    void *dst, struct err *e)
{
	return t->rounded ? s->kind->read_exact(s, p, dst, e) : s->kind->read(s, p, dst, e);
}

/* What is stored in another type is read and converted in chunks: each is a range of the box in
 * row-major order, which is a few boxes. What was rounded to its type is read with all bits, so
 * that it is rounded once. */
int
source_read(
    struct source *s, const struct source_part *p, enum dtype dtype, void *dst, struct err *e)
{
	struct source_part part = *p;
	struct source_stored t;
	int64_t total, most;
	char name[128], *raw, *to = dst;
	int rc = 0;

	source_name(p->param, p->state, name);
	if (!s->kind->find(s, p, &t))
		return err_at(e, s->path, 0, "no tensor '%s'", name);
	if (!slice_inside(&p->slice, p->param->ndim, p->param->shape))
		return err_at(
		    e, s->path, 0, "tensor '%s' does not contain the requested part", name);
	total = slice_elements(&p->slice);
	if (total == 0)
		return 0;
	if (t.dtype == dtype)
		return s->kind->read(s, p, dst, e);
	t.dtype = t.rounded ? DTYPE_F32 : t.dtype;
	if (t.dtype == dtype)
		return read_all_bits(s, p, &t, dst, e);
	most = total < CONVERT_CHUNK ? total : CONVERT_CHUNK;
	raw = mem_alloc((size_t)most, dtype_size(t.dtype));
	for (int64_t at = 0; at < total && rc == 0; at += most) {
		struct slice slice[SLICE_FLAT_MAX];
		int slices =
		    slice_flat(&p->slice, at, total - at < most ? total - at : most, slice);

		for (int i = 0; i < slices && rc == 0; i++) {
			int64_t n = slice_elements(&slice[i]);
			struct dtype_lost lost;

			part.slice = slice[i];
			rc = read_all_bits(s, &part, &t, raw, e);
			if (rc < 0)
				break;
			dtype_convert(to, dtype, raw, t.dtype, n);
			lost = dtype_count_lost((struct dtype_array){ raw, t.dtype },
			    (struct dtype_array){ to, dtype }, n);
			s->lost.overflows += lost.overflows;
			s->lost.underflows += lost.underflows;
			to += (size_t)n * dtype_size(dtype);
		}
	}
	free(raw);
	return rc;
}

struct source *
source_new(const struct source_kind *kind, size_t size, const char *path)
{
	struct source *s = mem_zalloc(1, size);

	s->kind = kind;
	snprintf(s->path, sizeof s->path, "%s", path);
	s->layout = (struct layout){ 1, 1, 1, 1 };
	state_init(&s->state);
	return s;
}

bool
source_is_idle(const struct source *s, const struct source_part *p)
{
	if (!p->state || !(p->param->flags & PARAM_BALANCE))
		return false;
	for (int i = 0; i < optim_num_states(s->rule); i++)
		if (!strcmp(p->state, s->rule->states[i]))
			return true;
	return false;
}

const struct param *
source_param(const struct source *s, const char *in_layer)
{
	for (int i = 0; i < s->count; i++)
		if (param_is(&s->param[i], in_layer))
			return &s->param[i];
	return NULL;
}

/* The table has the parameters of a layer together, and the layers in order. */
int
source_index(const struct source *s, const struct param *p)
{
	int low = 0, high = s->count;

	while (low < high) {
		int mid = low + (high - low) / 2;

		if (s->param[mid].layer < p->layer)
			low = mid + 1;
		else
			high = mid;
	}
	for (int i = low; i < s->count && s->param[i].layer == p->layer; i++)
		if (s->param[i].expert == p->expert && param_is(&s->param[i], p->in_layer))
			return param_has_shape(p, s->param[i].ndim, s->param[i].shape) ? i : -1;
	return -1;
}

void
source_set_model(struct source *s)
{
	s->count = model_params(&s->config, &s->param);
	if (!s->options.len)
		make_options(s);
}

void
source_problem(struct source *s, const char *fmt, ...)
{
	char line[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	str_addf(&s->problems, "%s: %s\n", s->path, line);
	s->num_problems++;
}

void
source_print_shape(struct str *out, int ndim, const int64_t *shape)
{
	str_addc(out, '[');
	for (int i = 0; i < ndim; i++)
		str_addf(out, "%s%lld", i ? ", " : "", (long long)shape[i]);
	str_addc(out, ']');
}

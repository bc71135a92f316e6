/* derived.c - a source made of sources: opening, reading and writing whatever the kind */
#include "ckpt/copy.h"
#include "ckpt/derived.h"
#include "ckpt/provenance.h"
#include "ckpt/slab.h"
#include "lib/base/cli.h"
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/base/pool.h"
#include "lib/base/target.h"
#include "lib/ckpt/ckpt.h"
#include "lib/model/fields.h"
#include "lib/model/layout_text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct derived *
derived_of(const struct source *s)
{
	return (struct derived *)(uintptr_t)s;
}

struct source *
derived_last(const struct derived *d)
{
	return d->from[d->count - 1];
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The tensors of the run are those of the last source. */
static bool
find_origin(const struct derived *d, const struct source_part *p, struct derived_origin *out)
{
	const struct param *of_run = source_of_run(&d->s, p->param->name);

	*out = (struct derived_origin){ .dtype = DTYPE_NONE };
	if (p->copy)
		return false;
	if (!of_run)
		return d->kind->origin(d, p, out);
	out->from = derived_last(d);
	out->param = of_run;
	return true;
}

static bool
find_part(const struct source *s, const struct source_part *p, struct source_stored *out)
{
	struct derived_origin o;
	struct source_part of = { 0 };

	if (!find_origin(derived_of(s), p, &o))
		return false;
	*out = (struct source_stored){ o.dtype, 1, 1 };
	if (!o.from)
		return true;
	of.param = o.param;
	of.state = o.state;
	if (!o.from->kind->find(o.from, &of, out))
		return false;
	out->copies = 1;
	return true;
}

/* Rounds numbers once. */
static struct dtype_lost
round_numbers(void *dst, enum dtype type, const double *numbers, int64_t n)
{
	dtype_convert(dst, type, numbers, DTYPE_F64, n);
	return dtype_count_lost(
	    (struct dtype_array){ numbers, DTYPE_F64 }, (struct dtype_array){ dst, type }, n);
}

void
derived_round(struct derived *d, struct dtype_array dst, const double *numbers, int64_t n)
{
	struct dtype_lost lost = round_numbers((void *)(uintptr_t)dst.data, dst.type, numbers, n);

	d->s.lost.overflows += lost.overflows;
	d->s.lost.underflows += lost.underflows;
}

enum { STRETCHES = 16 /* that a thread takes at once */ };

/* A box that is computed. */
struct computation {
	struct derived *d;
	const struct source_part *part;
	char *dst;
	enum dtype type;
	_Atomic int64_t overflows, underflows;
};

static void
compute_stretches(void *ctx, int index)
{
	struct computation *c = ctx;
	const int64_t most = (int64_t)STRETCHES * DERIVED_STRETCH;
	struct derived_stretch s = { c->part, index * most, 0 };
	int64_t end = int64_min(slice_elements(&c->part->slice), s.at + most);
	double x[DERIVED_STRETCH];

	for (; s.at < end; s.at += s.n) {
		char *dst = c->dst + (size_t)s.at * dtype_size(c->type);
		struct dtype_lost lost;

		s.n = int64_min(end - s.at, DERIVED_STRETCH);
		c->d->kind->numbers(c->d, &s, x);
		lost = round_numbers(dst, c->type, x, s.n);
		c->overflows += lost.overflows;
		c->underflows += lost.underflows;
	}
}

static int
compute_part(struct derived *d, const struct source_part *p, struct dtype_array dst, struct err *e)
{
	struct computation c = { d, p, (void *)(uintptr_t)dst.data, dst.type, 0, 0 };
	const int64_t most = (int64_t)STRETCHES * DERIVED_STRETCH;

	if (d->kind->begin && d->kind->begin(d, p, e) < 0)
		return -1;
	derived_share(d, (int)int64_div_up(slice_elements(&p->slice), most), compute_stretches, &c);
	d->s.lost.overflows += c.overflows;
	d->s.lost.underflows += c.underflows;
	return 0;
}

/* Computes a box by parts. */
static int
compute(struct derived *d, const struct source_part *p, struct dtype_array dst, struct err *e)
{
	char *to = (void *)(uintptr_t)dst.data;
	struct source_part own = *p;
	struct slabs parts = { 0 };
	int rc = 0;

	if (d->kind->gather)
		return d->kind->gather(d, p, to, e);
	own.param = &d->s.param[source_index(&d->s, p->param)];
	slabs_cut(&parts, &own, derived_part(d));
	for (int64_t i = 0; i < parts.count && rc == 0; i++) {
		rc = compute_part(d, &parts.item[i], (struct dtype_array){ to, dst.type }, e);
		to += (size_t)slice_elements(&parts.item[i].slice) * dtype_size(dst.type);
	}
	slabs_release(&parts);
	return rc;
}

static int
read_part(struct source *s, const struct source_part *p, void *dst, struct err *e)
{
	struct derived *d = derived_of(s);
	struct source_part of = *p;
	struct derived_origin o;

	if (!find_origin(d, p, &o))
		BUG("'%s' is not held", p->param->name);
	if (!o.from)
		return compute(d, p, (struct dtype_array){ dst, o.dtype }, e);
	of.param = o.param;
	of.state = o.state;
	return o.from->kind->read(o.from, &of, dst, e);
}

/* Of what a source has rounded, and none computes. */
static int
read_exact(struct source *s, const struct source_part *p, void *dst, struct err *e)
{
	struct source_part of = *p;
	struct derived_origin o;

	if (!find_origin(derived_of(s), p, &o) || !o.from)
		BUG("'%s' is not rounded", p->param->name);
	of.param = o.param;
	of.state = o.state;
	return o.from->kind->read_exact(o.from, &of, dst, e);
}

/* What will be copied, or of all sources the same box, which most kinds compute it of. */
static void
expect_part(struct source *s, const struct source_part *p)
{
	struct derived *d = derived_of(s);
	struct source_part of = *p;
	struct derived_origin o;

	if (!find_origin(d, p, &o))
		return;
	of.param = o.param;
	of.state = o.state;
	if (o.from)
		source_expect(o.from, &of);
	else if (d->kind->numbers)
		derived_expect(d, p);
}

/* --- boxes of sources ------------------------------------------------------------------------- */

/* Gives back what was lent. */
static void
give_back(struct derived *d)
{
	for (int i = 0; i < d->num_boxes; i++)
		if (d->box[i].lent)
			source_give_back(d->box[i].term.from, &d->box[i].term.part);
	d->num_boxes = 0;
}

/* Plans to read boxes into room, each after the other. */
static int
list_boxes(struct derived *d, const struct derived_term *t, int count, struct err *e)
{
	size_t bytes = 0;
	char *at;

	d->box = mem_realloc(d->box, (size_t)count, sizeof *d->box);
	for (int i = 0; i < count; i++) {
		struct source_stored how;

		if (!t[i].from->kind->find(t[i].from, &t[i].part, &how))
			return err_at(
			    e, t[i].from->path, 0, "no tensor '%s'", t[i].part.param->name);
		d->box[i] = (struct derived_box){ t[i], { NULL, how.dtype }, false };
		bytes += (size_t)slice_elements(&t[i].part.slice) * dtype_size(how.dtype);
	}
	if (d->room_bytes < bytes) {
		free(d->room);
		d->room = mem_alloc(bytes, 1);
		d->room_bytes = bytes;
	}
	at = d->room;
	for (int i = 0; i < count; i++) {
		d->box[i].array.data = at;
		at += (size_t)slice_elements(&t[i].part.slice) * dtype_size(d->box[i].array.type);
	}
	d->num_boxes = count;
	return 0;
}

/* Reads a box, unless it is lent. */
static int
read_box(struct derived_box *b, struct err *e)
{
	struct source *from = b->term.from;
	const void *at;

	if (source_lend(from, &b->term.part, &at, e) < 0)
		return -1;
	b->lent = at;
	if (!at)
		return from->kind->read(from, &b->term.part, (void *)(uintptr_t)b->array.data, e);
	b->array.data = at;
	return 0;
}

struct reads {
	struct derived *d;
	struct err *why; /* of each source; an empty reason is none */
};

/* The boxes of a source are read by one thread. */
static void
read_source(void *ctx, int i)
{
	const struct reads *r = ctx;
	bool failed = false;

	for (int k = 0; k < r->d->num_boxes && !failed; k++)
		if (r->d->box[k].term.from == r->d->from[i])
			failed = read_box(&r->d->box[k], &r->why[i]) < 0;
	if (!failed)
		r->why[i].msg[0] = '\0';
}

int
derived_read(struct derived *d, const struct derived_term *t, int count, struct err *e)
{
	struct reads r = { d, mem_alloc((size_t)d->count, sizeof *r.why) };
	int rc;

	give_back(d);
	rc = list_boxes(d, t, count, e);
	if (rc == 0)
		derived_share(d, d->count, read_source, &r);
	for (int i = 0; i < d->count && rc == 0; i++)
		if (r.why[i].msg[0])
			rc = err_set(e, "%s", r.why[i].msg);
	free(r.why);
	return rc;
}

/* --- opening ---------------------------------------------------------------------------------- */

static uint64_t
last_hash(const struct source *s)
{
	const struct source *last = derived_last(derived_of(s));

	return last->kind->hash(last);
}

static void
release(struct source *s)
{
	struct derived *d = derived_of(s);

	if (d->kind->release)
		d->kind->release(d);
	give_back(d);
	pool_free(d->pool);
	free(d->box);
	free(d->room);
}

/* Not among the kinds that a path is asked for: it has no files of its own. */
static const struct source_kind source_derived = {
	.name = "model made of others",
	.find = find_part,
	.read = read_part,
	.read_exact = read_exact,
	.expect = expect_part,
	.hash = last_hash,
	.close = release,
};

/* Nothing is written into a source, nor over it. */
static int
check_place(const struct derived *d, const struct derived_job *job, struct err *e)
{
	char dir[IO_PATH];

	ckpt_iter_dir(job->save, d->s.state.iteration, dir);
	for (int i = 0; i < d->count; i++) {
		const char *path = d->from[i]->path;

		if (target_inside(job->save, job->path[i]) || target_inside(job->save, path))
			return err_set(e,
			    "'%s' is the source '%s', or inside it; give another directory",
			    job->save, job->path[i]);
		if (target_is(dir, path))
			return err_set(
			    e, "'%s' is a source: it is not replaced; give another directory", dir);
	}
	return 0;
}

/* Opens the sources, as many as open. */
static int
open_sources(struct derived *d, const struct derived_job *job, struct err *e)
{
	d->from = mem_zalloc((size_t)job->count, sizeof *d->from);
	for (int i = 0; i < job->count; i++) {
		struct source *s = source_open(job->path[i], e);

		if (!s)
			return -1;
		d->from[d->count++] = s;
		str_add(&d->s.notes, s->notes.buf, s->notes.len);
		if (source_require(s, e) < 0)
			return -1;
	}
	return 0;
}

/* What the last source has besides its weights, as far as the kind keeps it. */
static void
take_rest(struct derived *d, const struct derived_job *job)
{
	const struct source *last = derived_last(d);
	struct source *s = &d->s;
	unsigned keeps = d->kind->keeps;

	if (keeps & KEEPS_OPTIM)
		s->rule = last->rule;
	else if (last->rule && !job->no_optim)
		str_addf(&s->notes, "%s: the optimizer's state is left out\n", last->path);
	s->averaged = last->averaged && keeps & KEEPS_AVERAGE;
	if (last->averaged && !s->averaged && !job->no_optim)
		str_addf(&s->notes, "%s: the average of the weights is left out\n", last->path);
	if (keeps & KEEPS_HISTORIES && !job->no_optim) {
		s->num_of_run = last->num_of_run;
		memcpy(s->of_run, last->of_run, sizeof s->of_run);
	} else if (last->num_of_run && !job->no_optim) {
		str_addf(&s->notes, "%s: the scales of 8-bit operands are left out\n", last->path);
	}
	if (s->num_of_run && d->count > 1)
		str_addf(&s->notes, "%s: the scales of 8-bit operands are its own\n", last->path);
}

/* The options of the last source's run, for a model that may be another, in one file. */
static void
take_options(struct derived *d)
{
	const struct source *last = derived_last(d);
	static const struct layout one = { 1, 1, 1, 1 };
	static const struct split_options whole;
	struct str text = { 0 };

	if (!(d->kind->keeps & KEEPS_RUN_OPTIONS))
		return;
	model_replace(last->options.buf, &d->s.config, &text);
	if (d->s.config.num_layers == last->config.num_layers)
		str_add(&d->s.options, text.buf, text.len);
	else
		layout_replace(text.buf, &one, &whole, &d->s.options);
	str_release(&text);
}

/* The model, and with it the table, and the texts. */
static int
describe(struct derived *d, const struct derived_job *job, struct err *e)
{
	const struct source *last = derived_last(d);
	struct source *s = &d->s;
	struct err why;

	snprintf(s->path, sizeof s->path, "%s", last->path);
	s->config = last->config;
	str_adds(&s->state_text, last->state_text.buf);
	if (d->kind->model && d->kind->model(d, e) < 0)
		return -1;
	if (model_check(&s->config, &why) < 0)
		return err_at(e, s->path, 0, "%s", why.msg);
	take_options(d);
	source_set_model(s);
	take_rest(d, job);
	if (d->kind->state && d->kind->state(d, e) < 0)
		return -1;
	return state_parse(&s->state, s->state_text.buf, s->path, e);
}

struct derived *
derived_open(const struct derived_job *job, struct err *e)
{
	struct derived *d =
	    derived_of(source_new(&source_derived, job->kind->size, job->path[job->count - 1]));

	d->kind = job->kind;
	d->rule = job->rule;
	if (open_sources(d, job, e) == 0 && describe(d, job, e) == 0 && check_place(d, job, e) == 0)
		return d;
	derived_close(d);
	return NULL;
}

void
derived_close(struct derived *d)
{
	struct source **from = d ? d->from : NULL;
	int count = d ? d->count : 0;

	source_close(d ? &d->s : NULL);
	for (int i = 0; i < count; i++)
		source_close(from[i]);
	free(from);
}

/* The source whose files are the result's; NULL: none. */
static const struct source *
find_clone(const struct derived *d, const struct derived_job *job)
{
	bool whole = d->kind->is_whole && d->kind->is_whole(d);

	return whole && job->dtype == DTYPE_NONE && !job->no_optim &&
		source_has_files(derived_last(d))
	    ? derived_last(d)
	    : NULL;
}

int
derived_write(struct derived *d, const struct derived_job *job, struct err *e)
{
	static const struct layout one = { 1, 1, 1, 1 };
	const struct provenance_sources origin = { d->from, d->count, d->weight, d->how };
	const struct copy_options o = { .save = job->save,
		.verb = job->verb,
		.given = job->given,
		.origin = &origin,
		.layout = &one,
		.clone = find_clone(d, job),
		.dtype = job->dtype,
		.no_optim = job->no_optim,
		.force = job->force,
		.options = d->s.options.buf,
		.state = d->s.state_text.buf };
	struct str notes = { 0 };
	int rc = copy_source(&d->s, &o, &notes, e);

	if (rc == 0 && d->s.lost.overflows)
		str_addf(&notes,
		    "%s: %lld numbers are too large for their type and became infinite\n",
		    job->save, (long long)d->s.lost.overflows);
	cli_notes(&notes);
	derived_close(d);
	return rc;
}

int
derived_run(struct derived_job *job, int argc, char **argv, struct err *e)
{
	struct derived *d;
	int rc = cli_operands(argc, 2, "SRC DST", e);

	if (rc)
		return rc;
	job->path = (const char *const *)argv;
	job->count = 1;
	job->save = argv[1];
	d = derived_open(job, e);
	return d ? derived_write(d, job, e) : CLI_FAILED;
}

/* --- arithmetic ------------------------------------------------------------------------------- */

enum { THREADS_MAX = 4 /* more wait for the disk */ };

int64_t
derived_part(const struct derived *d)
{
	size_t size = d->masters ? sizeof(float) : sizeof(uint16_t);

	return (int64_t)(DERIVED_ROOM / size) / d->count;
}

void
derived_share(struct derived *d, int count, void (*fn)(void *ctx, int index), void *ctx)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (!d->pool)
		d->pool = pool_new(cores < THREADS_MAX ? (int)cores : THREADS_MAX);
	pool_run(d->pool, count, fn, ctx);
}

void
derived_expect(struct derived *d, const struct source_part *p)
{
	for (int i = 0; i < d->count; i++) {
		struct source_part of = *p;
		int k = source_index(d->from[i], p->param);

		if (k < 0)
			continue;
		of.param = &d->from[i]->param[k];
		if (slice_inside(&of.slice, of.param->ndim, of.param->shape) &&
		    derived_choose_copy(d, d->from[i], of.param, &of.copy) != DTYPE_NONE)
			source_expect(d->from[i], &of);
	}
}

void
derived_numbers(struct dtype_array box, int64_t at, int64_t n, double *x)
{
	dtype_convert(
	    x, DTYPE_F64, (const char *)box.data + (size_t)at * dtype_size(box.type), box.type, n);
}

/* The sum begins with a number, not with 0, which would lose the sign of -0. */
void
derived_sum(const struct derived *d, const struct derived_stretch *s, double *sum)
{
	double x[DERIVED_STRETCH];

	for (int64_t i = 0; i < s->n && d->num_boxes == 0; i++)
		sum[i] = 0;
	for (int k = 0; k < d->num_boxes; k++) {
		double weight = d->box[k].term.weight;

		derived_numbers(d->box[k].array, s->at, s->n, k ? x : sum);
		for (int64_t i = 0; i < s->n && k == 0; i++)
			sum[i] *= weight;
		for (int64_t i = 0; i < s->n && k > 0; i++)
			sum[i] += weight * x[i];
	}
}

/* --- equal models ----------------------------------------------------------------------------- */

/* The lines of model_differences as one: "'num-layers 2' and 'num-layers 4', ...". */
static void
join_differences(char *lines, struct str *out)
{
	char *rest, *line = strtok_r(lines, "\n", &rest);

	for (; line; line = strtok_r(NULL, "\n", &rest)) {
		char *a = strchr(line, '\t') + 1, *b = strchr(a, '\t');

		*b++ = '\0';
		str_addf(out, "%s%s and %s", out->len ? ", " : "", a, b);
	}
}

static int
same_model(const struct source *a, const struct source *b, bool vocabularies, struct err *e)
{
	struct str lines = { 0 }, all = { 0 };
	struct model_config c = a->config;
	int rc = 0;

	if (!vocabularies)
		c.vocab_size = b->config.vocab_size;
	model_weight_differences(&c, &b->config, &lines);
	if (lines.buf)
		join_differences(lines.buf, &all);
	/* learned positions are a tensor */
	if (a->config.position == POSITION_LEARNED &&
	    a->config.max_position_embeddings != b->config.max_position_embeddings)
		str_addf(&all,
		    "%s'max-position-embeddings %lld' and 'max-position-embeddings %lld'",
		    all.len ? ", " : "", (long long)a->config.max_position_embeddings,
		    (long long)b->config.max_position_embeddings);
	if (all.len)
		rc =
		    err_set(e, "'%s' and '%s' are different models: %s", a->path, b->path, all.buf);
	str_release(&lines);
	str_release(&all);
	return rc;
}

int
derived_same_models(struct derived *d, bool vocabularies, struct err *e)
{
	const struct source *last = derived_last(d), *known = NULL;
	int unknown = 0;

	for (int i = 0; i < d->count; i++) {
		const struct source *s = d->from[i];

		if (s != last && same_model(s, last, vocabularies, e) < 0)
			return -1;
		if (!vocabularies)
			continue;
		unknown += !s->state.tokenizer;
		if (known && s->state.tokenizer &&
		    strcmp(known->state.tokenizer, s->state.tokenizer))
			return err_set(e, "'%s' and '%s' are of different tokenizers: %s and %s",
			    known->path, s->path, known->state.tokenizer, s->state.tokenizer);
		if (s->state.tokenizer)
			known = s;
	}
	if (unknown && d->count > 1)
		str_addf(&d->s.notes,
		    "%d of %d sources do not say which tokenizer they are of: it is not compared\n",
		    unknown, d->count);
	return 0;
}

/* --- masters ---------------------------------------------------------------------------------- */

/* True when every parameter of the source is in fp32 or fp64. */
static bool
has_masters(const struct source *s)
{
	for (int i = 0; i < s->count; i++)
		if (dtype_size(source_dtype(s, &s->param[i], NULL)) < sizeof(float))
			return false;
	return true;
}

void
derived_find_masters(struct derived *d)
{
	d->masters = true;
	for (int i = 0; i < d->count && d->masters; i++)
		d->masters = has_masters(d->from[i]);
	d->how = d->masters ? "masters" : "weights";
}

enum dtype
derived_choose_copy(const struct derived *d, struct source *from, const struct param *p, int *copy)
{
	struct source_part part = { .param = p };
	struct source_stored first, how;

	*copy = 0;
	if (!from->kind->find(from, &part, &first))
		return DTYPE_NONE;
	if (d->masters)
		return first.dtype;
	for (part.copy = 1; part.copy < first.copies; part.copy++)
		if (from->kind->find(from, &part, &how) && dtype_size(how.dtype) == 2) {
			*copy = part.copy;
			return how.dtype;
		}
	return first.dtype;
}

static enum dtype
wider(enum dtype a, enum dtype b)
{
	if (a == b || dtype_size(a) > dtype_size(b))
		return a;
	return dtype_size(b) > dtype_size(a) ? b : DTYPE_F32;
}

enum dtype
derived_widest(const struct derived *d, const struct param *p)
{
	enum dtype all = DTYPE_NONE;
	int copy;

	for (int i = 0; i < d->count; i++) {
		enum dtype t = derived_choose_copy(d, d->from[i], p, &copy);

		if (t == DTYPE_NONE)
			return DTYPE_NONE;
		all = i ? wider(all, t) : t;
	}
	return all;
}

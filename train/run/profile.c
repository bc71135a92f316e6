/*
 * profile.c - times every operation of some steps and writes a table and a Chrome trace
 *
 * One timed event after each operation is enough, since operations of one stream follow each other;
 * the events of a step are read when the step is over. Calls are grouped by name and work, so that
 * GEMMs of different shapes have rows of their own.
 */
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "train/run/profile.h"
#include "train/watch/observe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls of the same name and amount of work. */
struct row {
	const char *name;
	double flops, bytes; /* of one call */
	double seconds;      /* of all calls */
	int64_t calls;
};

/* One call in the step under way. */
struct span {
	const char *name;
	int row, layer;
	int64_t microbatch;
	bool backward;
	struct event *end;
};

struct profile {
	struct observer base;
	struct engine *e;
	struct profile_config c;
	struct row *row;
	int num_rows;
	struct span *span; /* of the step; the events are kept for the next one */
	int num_spans, max_spans;
	struct event *start;
	int64_t steps;
	/* seconds of observed steps so far: where the next one lies in the trace */
	double clock;
	struct str trace;
};

static void
before(struct observer *o, struct stream *st)
{
	(void)o;
	(void)st;
}

/* The row of a call, made when it is the first of its kind. */
static int
find_row(struct profile *p, const struct op_call *c)
{
	int i = 0;

	while (i < p->num_rows &&
	    (strcmp(p->row[i].name, c->name) || p->row[i].flops != c->flops ||
		p->row[i].bytes != c->bytes))
		i++;
	if (i == p->num_rows) {
		p->row = mem_realloc(p->row, (size_t)++p->num_rows, sizeof *p->row);
		p->row[i] = (struct row){ c->name, c->flops, c->bytes, 0, 0 };
	}
	return i;
}

static void
after(struct observer *o, struct stream *st, const struct op_call *c)
{
	struct profile *p = (struct profile *)o;
	struct span *s;

	if (p->num_spans == p->max_spans) {
		int grown = 2 * p->max_spans + 256;

		p->span = mem_realloc(p->span, (size_t)grown, sizeof *p->span);
		for (int i = p->max_spans; i < grown; i++)
			p->span[i].end = p->e->backend->timer(p->e->device);
		p->max_spans = grown;
	}
	s = &p->span[p->num_spans++];
	s->name = c->name;
	s->row = find_row(p, c);
	s->layer = o->layer;
	s->microbatch = o->microbatch;
	s->backward = o->backward;
	p->e->backend->record(st, s->end);
}

struct profile *
profile_new(struct engine *e, const struct profile_config *c)
{
	struct profile *p = mem_zalloc(1, sizeof *p);

	p->base.before = before;
	p->base.after = after;
	p->e = e;
	p->c = *c;
	p->start = e->backend->timer(e->device);
	return p;
}

void
profile_free(struct profile *p)
{
	if (!p)
		return;
	free(p->row);
	free(p->span);
	str_release(&p->trace);
	free(p);
}

/* True when the step after this many finished ones is to be observed. */
static bool
observed(const struct profile *p, int64_t iteration)
{
	return iteration >= p->c.first && iteration < p->c.last;
}

void
profile_step_begin(struct profile *p, int64_t iteration)
{
	if (!p || !observed(p, iteration))
		return;
	p->num_spans = 0;
	p->e->backend->record(p->e->stream, p->start);
	p->e->ops = observe_begin(p->e->stream, &p->base);
}

/* --- attainable rates: the largest of this device, by the same operations --------------------- */

/* Seconds per call over several calls, after one for warm-up. */
static double
time_calls(
    struct profile *p, void (*call)(struct engine *, const struct tensor *), const struct tensor *t)
{
	enum { CALLS = 20 };
	struct event *end = p->e->backend->timer(p->e->device);

	call(p->e, t);
	p->e->backend->record(p->e->stream, p->start);
	for (int i = 0; i < CALLS; i++)
		call(p->e, t);
	p->e->backend->record(p->e->stream, end);
	engine_sync(p->e);
	return p->e->backend->elapsed(p->start, end) / CALLS;
}

/* c = a b^T of squares, one after the other. */
static void
call_gemm(struct engine *e, const struct tensor *t)
{
	int64_t n = t->shape[1];
	struct gemm g = { .c = tensor_rows(t, 2 * n, n),
		.a = tensor_rows(t, 0, n),
		.b = tensor_rows(t, n, n),
		.trans_b = true,
		.alpha = 1 };

	e->ops->gemm(e->stream, &g);
}

/* y += x of the halves of a vector: reads twice, writes once. */
static void
call_add(struct engine *e, const struct tensor *t)
{
	struct tensor flat = tensor_flat(t), x = tensor_rows(&flat, 0, flat.shape[0] / 2),
		      y = tensor_rows(&flat, flat.shape[0] / 2, flat.shape[0] / 2);

	e->ops->add(e->stream, &(struct pair){ y, x });
}

/* FLOP/s of a large GEMM and bytes/s of a large sum, on random numbers in the scratch arena, which
 * is free between steps. */
static void
measure_attainable(struct profile *p, double *flops, double *bytes)
{
	struct engine *e = p->e;
	enum dtype t = e->plan.shape.dtype;
	int64_t elements = (int64_t)(e->mem.arena[ARENA_SCRATCH] / dtype_size(t)), n = 8192;
	struct normal random = { .key = 1, .std = 0.02 };
	struct tensor all, part;

	while (n > 64 && 3 * n * n > elements)
		n /= 2;
	all = tensor_2d(e->arena[ARENA_SCRATCH], t, elements / n, n);
	part = tensor_rows(&all, 0, all.shape[0] < 3 * n ? all.shape[0] : 3 * n);
	random.x = tensor_flat(&part);
	e->ops->normal(e->stream, &random);
	*flops = 3 * n * n <= elements
	    ? 2.0 * (double)n * (double)n * (double)n / time_calls(p, call_gemm, &all)
	    : 0;
	*bytes = 1.5 * (double)tensor_bytes(&all) / time_calls(p, call_add, &all);
}

/* --- the files -------------------------------------------------------------------------------- */

static int
by_time(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->seconds < y->seconds ? 1
	    : x->seconds > y->seconds  ? -1
				       : strcmp(x->name, y->name);
}

/* PREFIX.ENDING, whole or not at all. */
static int
write_text(const struct profile *p, const char *ending, const struct str *text, struct err *err)
{
	char path[1024];

	if ((size_t)snprintf(path, sizeof path, "%s.%s", p->c.prefix, ending) >= sizeof path)
		return err_set(err, "--profile-prefix: is too long");
	return outfile_write(path, text->buf, text->len, err);
}

/* Both files. The table has one row per kind, the longest first: its time per step, its rate, and
 * its share of the roofline, which is the larger of arithmetic and bytes over the attainable
 * ones. */
static int
write_files(struct profile *p, struct err *err)
{
	struct str table = { 0 }, trace = { 0 };
	double flops, bytes, steps = (double)p->steps;
	int rc;

	measure_attainable(p, &flops, &bytes);
	qsort(p->row, (size_t)p->num_rows, sizeof *p->row, by_time);
	str_addf(&table, "# %lld steps; ceilings measured: %.1f TFLOP/s, %.1f GB/s\n",
	    (long long)p->steps, flops / 1e12, bytes / 1e9);
	str_adds(&table,
	    "operation\tcalls\tms\tshare\tgflop\tmbytes\ttflops\tgbytes_per_second\troofline\n");
	for (int i = 0; i < p->num_rows; i++) {
		const struct row *r = &p->row[i];
		double each = r->seconds / (double)r->calls;
		double floor = fmax(flops > 0 ? r->flops / flops : 0, r->bytes / bytes);

		str_addf(&table, "%s\t%.0f\t%.4f\t%.4f\t%.9g\t%.3f\t%.2f\t%.1f\t%.3f\n", r->name,
		    (double)r->calls / steps, r->seconds * 1e3 / steps, r->seconds / p->clock,
		    r->flops / 1e9, r->bytes / 1e6, each > 0 ? r->flops / each / 1e12 : 0,
		    each > 0 ? r->bytes / each / 1e9 : 0, each > 0 ? floor / each : 0);
	}
	str_addf(&trace, "{\"traceEvents\": [\n%s\n]}\n", p->trace.len ? p->trace.buf : "");
	rc = write_text(p, "tsv", &table, err) < 0 ? -1 : write_text(p, "json", &trace, err);
	str_release(&table);
	str_release(&trace);
	return rc;
}

/* Adds the step's spans to the rows and the trace (microseconds, as chrome://tracing wants
 * them). */
int
profile_step_end(struct profile *p, int64_t iteration, struct err *err)
{
	struct event *from;
	double at;

	if (!p || !observed(p, iteration))
		return 0;
	p->e->ops = observe_end(p->e->stream);
	engine_sync(p->e);
	from = p->start;
	at = p->clock;
	for (int i = 0; i < p->num_spans; i++) {
		struct span *s = &p->span[i];
		double seconds = p->e->backend->elapsed(from, s->end);

		p->row[s->row].seconds += seconds;
		p->row[s->row].calls++;
		str_addf(&p->trace,
		    "%s{\"name\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": 0, \"ts\": %.3f, "
		    "\"dur\": %.3f, \"args\": {\"layer\": %d, \"microbatch\": %lld, \"pass\": "
		    "\"%s\"}}",
		    p->trace.len ? ",\n" : "", s->name, p->e->rank, at * 1e6, seconds * 1e6,
		    s->layer, (long long)s->microbatch, s->backward ? "backward" : "forward");
		at += seconds;
		from = s->end;
	}
	p->clock = at;
	p->steps++;
	return iteration + 1 == p->c.last ? write_files(p, err) : 0;
}

/*
 * backend.c - the host as a device: threads, workspace, streams that execute at once
 *
 * OpenBLAS runs on the calling thread alone; the operations divide their work among our own threads
 * instead, so that no result depends on their number.
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/pool.h"
#include "train/cpu/impl.h"

#include <cblas.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 256 };

/* How OpenBLAS picks its kernels when it is loaded; only builds for several processors have
 * them. */
void gotoblas_dynamic_quit(void) __attribute__((weak));
void gotoblas_dynamic_init(void) __attribute__((weak));

/* How its calls take a buffer, which it keeps for later calls when it is given back. */
void *blas_memory_alloc(int position) __attribute__((weak));
void blas_memory_free(void *buffer) __attribute__((weak));

/* Nothing is ever pending; a timer stores the time at which it was recorded, and what the device
 * had computed until then. The system likes to take the core away while it is asked for the latter:
 * the times before and after the question are kept, so that this falls into the span. */
struct event {
	bool timer;
	double before, after, computed;
	struct event *next;
};

/* One device is one pool of threads, so two devices in a process would not share any state. */
struct device {
	struct pool *pool;
	char *scratch; /* CPU_SCRATCH bytes per thread */
	struct stream stream[STREAM_COUNT];
	struct event *events;
};

/* One cpu_for. A lane is a share of the threads' work with a scratch of its own; lanes take items
 * as they come. */
struct loop {
	struct device *device;
	int64_t count;
	atomic_llong next;
	void (*fn)(const void *, int64_t, void *);
	const void *ctx;
};

/* cpu_spans as items of cpu_for: how spans, rows and items are numbered. */
struct span_loop {
	int64_t columns, per_row, per_item, total; /* spans in a row, in an item, in all */
	void (*fn)(const void *, const struct span *);
	const void *ctx;
};

/* A lane: takes items until none is left. The order of items is unspecified; they must not depend
 * on it. */
static void
lane(void *ctx, int index)
{
	struct loop *l = ctx;
	void *scratch = l->device->scratch + (size_t)index * CPU_SCRATCH;

	for (;;) {
		int64_t item = atomic_fetch_add(&l->next, 1);

		if (item >= l->count)
			return;
		l->fn(l->ctx, item, scratch);
	}
}

/* No more lanes than items, so that little work wakes few threads. Returns when all items are
 * done. fn gets CPU_SCRATCH bytes of its own for the call. */
void
cpu_for(
    struct stream *st, int64_t count, void (*fn)(const void *, int64_t, void *), const void *ctx)
{
	struct loop l = { .device = st->device, .count = count, .fn = fn, .ctx = ctx };

	pool_run(st->device->pool, (int)int64_min(count, pool_size(st->device->pool)), lane, &l);
}

/* One item of cpu_spans: some spans in a row. */
static void
span_item(const void *ctx, int64_t item, void *scratch)
{
	const struct span_loop *l = ctx;
	int64_t end = int64_min(l->total, (item + 1) * l->per_item);

	(void)scratch;
	for (int64_t i = item * l->per_item; i < end; i++) {
		struct span s = { .row = i / l->per_row, .first = i % l->per_row * CPU_SPAN };

		s.count = int64_min(CPU_SPAN, l->columns - s.first);
		l->fn(l->ctx, &s);
	}
}

/* Items are CPU_GRAIN elements or one span. A span never crosses a row. fn is called from
 * several threads. */
void
cpu_spans(struct stream *st, const struct tensor *t, void (*fn)(const void *, const struct span *),
    const void *ctx)
{
	int64_t rows = tensor_num_rows(t), columns = tensor_num_columns(t);
	struct span_loop l = {
		.columns = columns, .per_row = int64_div_up(columns, CPU_SPAN), .fn = fn, .ctx = ctx
	};

	l.total = rows * l.per_row;
	l.per_item = cpu_rows_per_item(int64_min(columns, CPU_SPAN));
	cpu_for(st, int64_div_up(l.total, l.per_item), span_item, &l);
}

/* The host is always available. */
static bool
cpu_available(struct err *why)
{
	(void)why;
	return true;
}

/* One scratch buffer per thread. */
static size_t
cpu_workspace(const struct device_config *config)
{
	return (size_t)(config->num_threads < 1 ? 1 : config->num_threads) * CPU_SCRATCH;
}

/* Allocation that may fail, hence not from mem.h; zeroed, ALIGNMENT-aligned, free() it. */
static void *
aligned_zeroed(size_t bytes)
{
	size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	void *p = rounded < bytes ? NULL : aligned_alloc(ALIGNMENT, rounded ? rounded : ALIGNMENT);

	return p ? memset(p, 0, bytes) : NULL;
}

#ifdef __x86_64__
/* OpenBLAS before 0.3.25 takes Intel processors newer than itself for a Prescott, which costs a
 * factor of four. The kernels for what this processor can do, NULL where the choice was right. See
 * OpenMathLib/OpenBLAS issue 4267. */
static const char *
better_kernels(void)
{
	bool avx512 = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq");

	if (strcmp(openblas_get_corename(), "Prescott") != 0 || !__builtin_cpu_supports("avx2") ||
	    !__builtin_cpu_supports("fma"))
		return NULL;
	return avx512 ? "SkylakeX" : "Haswell";
}
#else
/* No wrong choice is known on other processors. */
static const char *
better_kernels(void)
{
	return NULL;
}
#endif

/* Makes OpenBLAS choose again where it chose badly. */
static void
choose_kernels(void)
{
	const char *name;

	if (!gotoblas_dynamic_quit || !gotoblas_dynamic_init || getenv("OPENBLAS_CORETYPE"))
		return;
	name = better_kernels();
	if (!name)
		return;
	setenv("OPENBLAS_CORETYPE", name, 1);
	gotoblas_dynamic_quit();
	gotoblas_dynamic_init();
	unsetenv("OPENBLAS_CORETYPE");
}

/* OpenBLAS takes a buffer of this size for each thread that calls it, and tries for ever where
 * there is no memory for it: that is tried here first, and they are taken at once. */
static int
take_buffers(int threads, struct err *e)
{
	enum { BUFFER = 129 << 20 };
	size_t bytes = (size_t)threads * BUFFER;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0), **buffer;

	if (all == MAP_FAILED)
		return err_set(
		    e, "cannot allocate the buffers of %d threads (%zu bytes)", threads, bytes);
	munmap(all, bytes);
	if (!blas_memory_alloc || !blas_memory_free)
		return 0;
	buffer = mem_zalloc((size_t)threads, sizeof *buffer);
	for (int i = 0; i < threads; i++)
		buffer[i] = blas_memory_alloc(0);
	for (int i = 0; i < threads; i++)
		blas_memory_free(buffer[i]);
	free(buffer);
	return 0;
}

/* Chooses the table of operations by the type that the run computes in: F64 runs in double, all
 * others in float. NULL with a reason when there is no memory for the workspace. */
static struct device *
cpu_open(const struct device_config *config, struct err *e)
{
	const struct ops *ops = config->dtype == DTYPE_F64 ? &cpu_ops_f64 : &cpu_ops_f32;
	char *scratch = aligned_zeroed(cpu_workspace(config));
	struct device *d;

	if (!scratch) {
		err_set(e, "cannot allocate the workspace of %d threads (%zu bytes)",
		    config->num_threads, cpu_workspace(config));
		return NULL;
	}
	choose_kernels();
	openblas_set_num_threads(1);
	if (take_buffers(config->num_threads, e) < 0) {
		free(scratch);
		return NULL;
	}
	d = mem_zalloc(1, sizeof *d);
	d->scratch = scratch;
	d->pool = pool_new(config->num_threads);
	for (int i = 0; i < STREAM_COUNT; i++)
		d->stream[i] = (struct stream){ ops, d };
	return d;
}

/* NULL is ignored. Memory from alloc belongs to its caller and is not freed here. */
static void
cpu_close(struct device *d)
{
	if (!d)
		return;
	while (d->events) {
		struct event *next = d->events->next;

		free(d->events);
		d->events = next;
	}
	pool_free(d->pool);
	free(d->scratch);
	free(d);
}

/* Host memory is shared with other processes, so the free memory means nothing. */
static size_t
cpu_free_memory(struct device *d)
{
	(void)d;
	return 0;
}

/* The second figure of Linux's statm: resident pages. */
static size_t
cpu_used_memory(struct device *d)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	(void)d;
	if (!f)
		return 0;
	if (fscanf(f, "%*s %lu", &pages) != 1)
		pages = 0;
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* The device is not asked: host memory belongs to the process. */
static void *
cpu_alloc(struct device *d, size_t bytes, struct err *e)
{
	void *p = aligned_zeroed(bytes);

	(void)d;
	if (!p)
		err_set(e, "cannot allocate %zu bytes", bytes);
	return p;
}

/* NULL is ignored, as by free(). */
static void
cpu_release(struct device *d, void *p)
{
	(void)d;
	free(p);
}

/* All streams are the same thread of execution here; they differ so that the engine's code is the
 * same for both backends. */
static struct stream *
cpu_stream(struct device *d, int index)
{
	ops_require(index >= 0 && index < STREAM_COUNT);
	return &d->stream[index];
}

/* Both directions: host and device memory are one. */
static void
cpu_copy(struct stream *st, void *dst, const void *src, size_t bytes)
{
	(void)st;
	memmove(dst, src, bytes);
}

/* Nothing is ever pending, nothing can have failed. */
static int
cpu_sync(struct stream *st, struct err *e)
{
	(void)st;
	(void)e;
	return 0;
}

/* Freed with the device. */
static struct event *
cpu_event(struct device *d)
{
	struct event *e = mem_zalloc(1, sizeof *e);

	e->next = d->events;
	d->events = e;
	return e;
}

static struct event *
cpu_timer(struct device *d)
{
	struct event *e = cpu_event(d);

	e->timer = true;
	return e;
}

/* The work was done when the call that queued it returned. */
static void
cpu_record(struct stream *st, struct event *event)
{
	struct pool *pool = st->device->pool;

	if (!event->timer)
		return;
	event->before = clock_seconds();
	event->computed = pool_cpu_seconds(pool) / pool_size(pool);
	event->after = clock_seconds();
}

/* Nothing to wait for. */
static void
cpu_wait(struct stream *st, struct event *event)
{
	(void)st;
	(void)event;
}

static double
cpu_elapsed(struct event *from, struct event *to)
{
	return to->after - from->before;
}

/* Nothing is ever pending. */
static void
cpu_await(struct device *d, struct event *event)
{
	(void)d;
	(void)event;
}

/* The mean of the threads. */
static double
cpu_computed(struct event *from, struct event *to)
{
	return to->computed - from->computed;
}

/* No comm: the host's communicators carry host memory as they are. */
const struct backend backend_cpu = {
	.name = "cpu",
	.ops = &cpu_ops_f32,
	.host = &backend_cpu,
	.one_attention = true,
	.repeatable = true,
	.max_head_size = CPU_HEAD_MAX,
	.max_norm = CPU_ROW_MAX,
	.max_experts = CPU_SPAN,
	.step_rows = 2,
	.available = cpu_available,
	.open = cpu_open,
	.close = cpu_close,
	.workspace = cpu_workspace,
	.free_memory = cpu_free_memory,
	.used_memory = cpu_used_memory,
	.alloc = cpu_alloc,
	.release = cpu_release,
	.stream = cpu_stream,
	.copy_in = cpu_copy,
	.copy_out = cpu_copy,
	.sync = cpu_sync,
	.event = cpu_event,
	.timer = cpu_timer,
	.elapsed = cpu_elapsed,
	.computed = cpu_computed,
	.record = cpu_record,
	.wait = cpu_wait,
	.await = cpu_await,
};

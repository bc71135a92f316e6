/*
 * host.c - the rates that bound updates by the host: copies between device and host, and passes of
 * the host's processors over its memory
 *
 * Each is measured at the size of the ring's slots, on the streams that offload uses. Prints a line
 * for each: its name and GB/s, of bytes read and written.
 */
#include "lib/base/clock.h"
#include "train/engine/host.h"
#include "train/engine/pinned.h"
#include "train/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SLOTS = 64, TIMES = 4 };
static const size_t slot = (size_t)BUCKET_CHUNK * sizeof(float);

struct ends {
	struct engine e;
	char *host, *device;
};

/* Ends the program with the reason. */
static void
need(bool ok, const struct err *why)
{
	if (ok)
		return;
	fprintf(stderr, "host: %s\n", why->msg);
	exit(1);
}

/* Seconds of TIMES passes over all slots, after one that does not count. */
static double
time_copies(struct ends *x, bool in, bool out)
{
	const struct backend *b = x->e.backend;
	struct stream *from = b->stream(x->e.device, STREAM_FROM_HOST),
		      *to = b->stream(x->e.device, STREAM_TO_HOST);
	struct err why;
	double began = 0;

	for (int i = 0; i < (TIMES + 1) * SLOTS; i++) {
		size_t at = (size_t)(i % SLOTS) * slot, other = (size_t)((i + 1) % SLOTS) * slot;

		if (i == SLOTS) {
			need(b->sync(from, &why) == 0 && b->sync(to, &why) == 0, &why);
			began = clock_seconds();
		}
		if (out)
			b->copy_out(to, x->host + at, x->device + at, slot);
		if (in)
			b->copy_in(from, x->device + other, x->host + other, slot);
	}
	need(b->sync(from, &why) == 0 && b->sync(to, &why) == 0, &why);
	return clock_seconds() - began;
}

/* Adam moves fp32 moments, a weight and its remainder both ways, and reads a gradient. */
static double
time_adam(struct ends *x, struct stream *st)
{
	int64_t n = (int64_t)BUCKET_CHUNK;
	double began = 0;

	for (int i = 0; i < (TIMES + 1) * SLOTS / 4; i++) {
		char *at = x->host + (size_t)(i % (SLOTS / 4) * 4) * slot;
		struct adamw a = { .master = tensor_1d(at, DTYPE_BF16, n),
			.low_bits = tensor_1d(at + slot / 2, DTYPE_U16, n),
			.exp_avg = tensor_1d(at + slot, DTYPE_F32, n),
			.exp_avg_sq = tensor_1d(at + 2 * slot, DTYPE_F32, n),
			.grad = tensor_1d(at + 3 * slot, DTYPE_F32, n),
			.beta1 = 0.9,
			.beta2 = 0.95,
			.correction1 = 1,
			.correction2 = 1,
			.eps = 1,
			.decoupled = true };

		if (i == SLOTS / 4)
			began = clock_seconds();
		st->ops->adamw(st, &a);
	}
	return clock_seconds() - began;
}

int
main(void)
{
	struct ends x = { .e.backend = backend_choose("auto", &(struct err){ "" }) };
	struct device_config c = { .num_threads = (int)sysconf(_SC_NPROCESSORS_ONLN),
		.dtype = DTYPE_BF16 };
	const double gigabytes = 1e-9 * TIMES * SLOTS * (double)slot;
	struct device *processors;
	struct err why = { "no memory" };

	need(x.e.backend != NULL, &why);
	x.e.device = x.e.backend->open(&c, &why);
	need(x.e.device != NULL, &why);
	x.device = x.e.backend->alloc(x.e.device, SLOTS * slot, &why);
	x.host = pinned_alloc(&x.e, SLOTS * slot, SLOTS * slot);
	processors = x.e.backend->host->open(&c, &why);
	need(x.device && x.host && processors, &why);
	printf("to the host\t%.1f\n", gigabytes / time_copies(&x, false, true));
	printf("from the host\t%.1f\n", gigabytes / time_copies(&x, true, false));
	printf("both at once\t%.1f\n", 2 * gigabytes / time_copies(&x, true, true));
	printf("adam\t%.1f\n",
	    gigabytes / 4 * (24 + 4) / 4 /
		time_adam(&x, x.e.backend->host->stream(processors, STREAM_COMPUTE)));
	x.e.backend->host->close(processors);
	pinned_free(&x.e, x.host, SLOTS * slot, SLOTS * slot);
	x.e.backend->release(x.e.device, x.device);
	x.e.backend->close(x.e.device);
	return 0;
}

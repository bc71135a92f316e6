/* rig.h - a device with vectors on it, for tests of operations on a GPU and on the CPU */
#ifndef TESTS_GPU_RIG_H
#define TESTS_GPU_RIG_H

#include "tests/check.h"
#include "tests/gpu.h"
#include "train/ops.h"

#include <string.h>

/* A device that a test opens and closes. */
struct rig {
	const struct backend *b;
	struct device *d;
	struct stream *st;
};

/* Ends the program where there is no such device. */
static inline struct rig
rig_open(const struct backend *b, enum dtype dtype)
{
	struct device_config config = { .num_threads = 2, .dtype = dtype };
	struct rig r = { .b = b };
	struct err e;

	r.d = b->open(&config, &e);
	if (!r.d) {
		fprintf(stderr, "cannot open %s: %s\n", b->name, e.msg);
		exit(1);
	}
	r.st = b->stream(r.d, STREAM_COMPUTE);
	return r;
}

/* Waits for the device; an error is a failure. */
static inline void
rig_sync(const struct rig *r)
{
	struct err e;

	check_count++;
	if (r->b->sync(r->st, &e) == 0)
		return;
	check_failures++;
	fprintf(stderr, "%s\n", e.msg);
}

/* A vector on the device with these host values; NULL: zeros. */
static inline struct tensor
rig_vector(const struct rig *r, enum dtype dtype, int64_t n, const void *host)
{
	struct err e;
	struct tensor t = tensor_1d(r->b->alloc(r->d, (size_t)n * dtype_size(dtype), &e), dtype, n);

	if (host)
		r->b->copy_in(r->st, t.data, host, tensor_bytes(&t));
	return t;
}

/* A dense tensor's elements, when the device has come to them. */
static inline void
rig_read(const struct rig *r, const struct tensor *t, void *host)
{
	r->b->copy_out(r->st, host, t->data, tensor_bytes(t));
	rig_sync(r);
}

/* Memory of its own for a tensor of this shape and type, or none. */
static inline struct tensor
rig_tensor(const struct rig *r, bool wanted, struct tensor shape, const void *host)
{
	if (!wanted)
		return (struct tensor){ .data = NULL };
	shape.data = rig_vector(r, shape.dtype, tensor_elements(&shape), host).data;
	return shape;
}

/* Reads it back and releases its memory; `none` reads nothing. */
static inline void
rig_take(const struct rig *r, struct tensor t, void *host)
{
	if (!t.data)
		return;
	if (host)
		rig_read(r, &t, host);
	r->b->release(r->d, t.data);
}

/* A sequence of numbers below 2^31 that looks random. */
static inline uint32_t
rig_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* True when a group of tests was requested; without requests all run. */
static inline bool
rig_wanted(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc < 2;
}

#endif

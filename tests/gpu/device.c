/*
 * device.c - a GPU as a device: order of its streams, and what it refuses
 *
 * Without a GPU, or in a build without the backend, it prints a note and succeeds.
 */
#include "lib/base/mem.h"
#include "tests/gpu/rig.h"

/* A second stream that waits for the first sees what it wrote. */
static void
test_streams(const struct backend *b)
{
	enum { N = 1 << 24 };
	struct rig r = rig_open(b, DTYPE_F32), other = r;
	struct tensor x = rig_vector(&r, DTYPE_F32, N, NULL),
		      y = rig_vector(&r, DTYPE_F32, N, NULL);
	struct event *done = b->event(r.d);
	float *host = mem_alloc(N, sizeof *host);
	int64_t wrong = 0;

	other.st = b->stream(r.d, 3);
	for (int i = 0; i < 50; i++)
		r.st->ops->fill(r.st, &(struct fill){ x, i });
	b->record(r.st, done);
	b->wait(other.st, done);
	other.st->ops->cast(other.st, &(struct pair){ y, x });
	rig_read(&other, &y, host);
	for (int i = 0; i < N; i++)
		wrong += host[i] != 49;
	CHECK(wrong == 0);
	free(host);
	b->release(r.d, x.data);
	b->release(r.d, y.data);
	b->close(r.d);
}

/* Memory is zeroed; too much of it, and double precision, are refused with a reason, and the device
 * stays usable. */
static void
test_refusals(const struct backend *b)
{
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_F64 };
	struct rig r = rig_open(b, DTYPE_F32);
	struct err e = { "" };
	struct tensor x;
	double zero = 1;

	CHECK(b->alloc(r.d, (size_t)1 << 50, &e) == NULL && strstr(e.msg, "cannot allocate"));
	CHECK(b->open(&config, &e) == NULL && strstr(e.msg, "double precision"));
	CHECK(b->free_memory(r.d) > 0);
	x = rig_vector(&r, DTYPE_F64, 1, NULL);
	rig_read(&r, &x, &zero);
	CHECK(zero == 0);
	b->release(r.d, x.data);
	b->close(r.d);
}

int
main(void)
{
	const struct backend *b = gpu_backend();

	if (!b)
		return 0;
	test_streams(b);
	test_refusals(b);
	return check_done();
}

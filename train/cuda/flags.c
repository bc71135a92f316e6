/*
 * flags.c - numbers that streams write and wait for
 *
 * The runtime has no such calls, so they are the driver's. CUDA knows nothing of the order that
 * flags make: work that waits for a flag may be put before any other in one hardware queue. So what
 * is waited for must have been queued before the wait, on each GPU.
 */
#include "lib/base/mem.h"
#include "train/cuda/device.h"
#include "train/cuda/symbols.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct flag_api {
	CUresult (*write)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
	CUresult (*wait)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
};

struct cu_flags {
	struct flag_api api;
	void *library;
};

static const struct symbol symbols[] = {
	{ "cuStreamWriteValue32_v2", offsetof(struct flag_api, write) },
	{ "cuStreamWaitValue32_v2", offsetof(struct flag_api, wait) },
	{ .name = NULL },
};

struct cu_flags *
cu_flags_open(struct err *e)
{
	struct cu_flags *f = mem_zalloc(1, sizeof *f);
	const char *missing;

	f->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!f->library) {
		err_set(e, "cannot open libcuda.so.1: %s", dlerror());
		free(f);
		return NULL;
	}
	missing = symbols_find(f->library, symbols, &f->api);
	if (!missing)
		return f;
	err_set(e, "the driver has no %s", missing);
	cu_flags_close(f);
	return NULL;
}

/* NULL is ignored. */
void
cu_flags_close(struct cu_flags *f)
{
	if (!f)
		return;
	(void)dlclose(f->library);
	free(f);
}

static void
check(struct stream *st, CUresult rc, const char *what)
{
	char reason[64];

	if (rc == CUDA_SUCCESS)
		return;
	snprintf(reason, sizeof reason, "error %d of the driver", (int)rc);
	cu_fail(st->device, what, reason);
}

void
cu_flag_write(const struct cu_flags *f, struct stream *st, uint32_t *at, uint32_t value)
{
	check(st,
	    f->api.write(cu_handle(st), (CUdeviceptr)at, value, CU_STREAM_WRITE_VALUE_DEFAULT),
	    "write of a flag");
}

void
cu_flag_wait(const struct cu_flags *f, struct stream *st, uint32_t *at, uint32_t value)
{
	check(st, f->api.wait(cu_handle(st), (CUdeviceptr)at, value, CU_STREAM_WAIT_VALUE_GEQ),
	    "wait for a flag");
}

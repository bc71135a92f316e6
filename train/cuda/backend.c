/*
 * backend.c - one GPU of this host: its streams, memory, copies and failures
 *
 * Kernels run on streams that do not wait for the default one. Copies take pageable host memory:
 * the runtime has read the host bytes of a copy to the device when the call returns, and a copy to
 * the host is complete when sync() returns.
 */
#include "lib/base/mem.h"
#include "train/comm.h"
#include "train/cuda/attention/cudnn.h"
#include "train/cuda/impl.h"
#include "train/cuda/nvml.h"

#include <stdio.h>
#include <stdlib.h>

/* Kept in a list so that the device can destroy all events. */
struct event {
	cudaEvent_t handle;
	struct event *next;
};
struct recorded {
	cudaGraphExec_t handle;
};

/* The first failure is kept, since later ones follow from it; `what` must be static. The
 * operation's caller gets no status: sync() reports it, or the end of the recording. */
void
cu_fail(struct device *d, const char *what, const char *reason)
{
	struct failure *f = d->recording ? &d->refusal : &d->failure;

	if (f->what)
		return;
	f->what = what;
	snprintf(f->reason, sizeof f->reason, "%s", reason);
}

/* For calls whose failure makes the device unusable. */
bool
cu_ok(struct device *d, cudaError_t rc, const char *what)
{
	if (rc == cudaSuccess)
		return true;
	cu_fail(d, what, cudaGetErrorString(rc));
	return false;
}

/* Called after every launch: a launch returns nothing, and its error would otherwise surface in a
 * later call. The name is only for the message. */
void
cu_launched(struct stream *st, const char *name)
{
	st->device->last = name;
	cu_ok(st->device, cudaGetLastError(), name);
}

/* One workspace per device: operations of one stream use it in turn, so only those of the compute
 * stream may. */
void *
cu_workspace(struct stream *st)
{
	if (st != &st->device->stream[STREAM_COMPUTE].base)
		BUG("an operation that needs the workspace, on another stream than the compute "
		    "stream");
	return st->device->workspace;
}

/* After the workspace, under the same rule. */
void *
cu_side(struct stream *st)
{
	return (char *)cu_workspace(st) + CU_WORKSPACE;
}

/* Hardware queues, the most there are. Streams that share one wait for each other, and a stream
 * that waits for another GPU would hold up those that compute; scripts written for Megatron-LM
 * often ask for one queue. */
#define CONNECTIONS "32"

/* A driver that answers and at least one GPU. The driver reads the number of queues when it is
 * first called, which is here. Clears the error that the runtime remembers, since a query is not a
 * failure. */
static bool
cuda_available(struct err *why)
{
	int count = 0;
	cudaError_t rc;

	setenv("CUDA_DEVICE_MAX_CONNECTIONS", CONNECTIONS, 1);
	rc = cudaGetDeviceCount(&count);
	if (rc == cudaSuccess && count > 0)
		return true;
	(void)cudaGetLastError();
	if (rc == cudaErrorInsufficientDriver)
		err_set(why, "there is no NVIDIA driver, or it is older than CUDA %d.%d needs",
		    CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
	else
		err_set(
		    why, "%s", rc == cudaSuccess ? "no GPU is visible" : cudaGetErrorString(rc));
	return false;
}

/* By the first GPU: those of a run are alike. */
static bool
cuda_has_hopper_attention(void)
{
	return cu_capability(0) == CU_HOPPER;
}

/* The GPU of a rank: the one with its number, or the only one visible to it. Launchers may hide the
 * other ranks' GPUs; then each rank sees its own as number 0. -1 with a reason otherwise. */
static int
choose(const struct device_config *c, struct err *e)
{
	int count = 0;
	cudaError_t rc = cudaGetDeviceCount(&count);

	if (rc != cudaSuccess) {
		(void)cudaGetLastError();
		return err_set(e, "cannot list the GPUs: %s", cudaGetErrorString(rc));
	}
	if (count == 1)
		return 0;
	if (c->local_rank >= count)
		return err_set(e, "rank %d of this host has no GPU of its own: there are %d",
		    c->local_rank, count);
	return c->local_rank;
}

/* Clears the error that the runtime remembers: without a GPU, a query is not a failure. */
int
cu_capability(int index)
{
	int major = 0, minor = 0;

	if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) ==
		cudaSuccess &&
	    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index) == cudaSuccess)
		return 10 * major + minor;
	(void)cudaGetLastError();
	return 0;
}

/* Checks that the GPU supports the run and that this build has kernels for it, when the device is
 * opened rather than at the first kernel or GEMM. CUDA 13 compiles for 7.5 and later. */
static int
check_gpu(int index, const struct device_config *c, struct err *e)
{
	int capability = cu_capability(index);
	struct cudaDeviceProp p;
	cudaError_t rc = cudaGetDeviceProperties(&p, index);

	if (rc != cudaSuccess)
		return err_set(
		    e, "cannot get the properties of GPU %d: %s", index, cudaGetErrorString(rc));
	if (cu_kernels_present() != cudaSuccess) {
		(void)cudaGetLastError();
		return err_set(e,
		    "this build has no kernels for GPU %d (%s, compute capability %d.%d): build "
		    "with "
		    "CUDA_ARCH=%d%s",
		    index, p.name, p.major, p.minor, capability,
		    capability < 75 && CUDART_VERSION >= 13000 ? " and a CUDA 12 toolkit" : "");
	}
	if (c->dtype == DTYPE_BF16 && capability < CU_TILED)
		return err_set(e,
		    "GPU %d (%s, compute capability %d.%d) has no bfloat16 GEMMs, which need "
		    "8.0: use --fp16",
		    index, p.name, p.major, p.minor);
	if (c->float8_experts && !cu_has_float8_experts(capability, c->float8_experts))
		return err_set(e,
		    "--fp8-format with --num-experts: GPU %d (%s, compute capability %d.%d) has no "
		    "8-bit GEMMs of %lld experts: these need 9.0, and a rank at most %d experts",
		    index, p.name, p.major, p.minor, (long long)c->float8_experts,
		    CU_FLOAT8_EXPERTS);
	return 0;
}

/* Streams, workspace and what serves GEMMs and attention, for a device whose number is set.
 * cuda_close frees what was made before a failure. */
static int
set_up(struct device *d, const struct device_config *c, struct err *e)
{
	int least = 0, greatest = 0;
	cudaError_t rc = cudaDeviceGetStreamPriorityRange(&least, &greatest);

	/* A collective must not wait for the last block of a GEMM to find room. */
	for (int i = 0; i < STREAM_COUNT; i++) {
		d->stream[i].base = (struct stream){ &cuda_ops, d };
		if (rc == cudaSuccess)
			rc = cudaStreamCreateWithPriority(&d->stream[i].handle,
			    cudaStreamNonBlocking,
			    i > STREAM_COMPUTE && i < STREAM_SAVE ? greatest : least);
	}
	if (rc == cudaSuccess)
		rc = cudaMalloc(&d->workspace, CU_WORKSPACE + CU_SIDE);
	if (rc == cudaSuccess)
		rc = cudaDeviceGetAttribute(&d->num_sms, cudaDevAttrMultiProcessorCount, d->index);
	if (rc == cudaSuccess)
		rc = cudaDeviceGetAttribute(
		    &d->shared_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, d->index);
	if (rc == cudaSuccess)
		rc = cudaDeviceGetAttribute(
		    &d->shared_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, d->index);
	if (rc != cudaSuccess)
		return err_set(e, "cannot set up GPU %d: %s", d->index, cudaGetErrorString(rc));
	d->gemms = gemm_cache_new(d, e);
	if (!d->gemms)
		return -1;
	d->grouped = grouped_cache_new(d);
	d->attention = attention_cache_new(c, d->stream[STREAM_COMPUTE].handle, e);
	return d->attention ? 0 : -1;
}

/* After a failure the driver cleans up what cannot be freed any more. */
static void
cuda_close(struct device *d)
{
	if (!d)
		return;
	while (d->events) {
		struct event *next = d->events->next;

		(void)cudaEventDestroy(d->events->handle);
		free(d->events);
		d->events = next;
	}
	attention_cache_free(d->attention);
	grouped_cache_free(d->grouped);
	gemm_cache_free(d->gemms);
	nvml_close(d->nvml);
	(void)cudaFree(d->workspace);
	for (int i = 0; i < STREAM_COUNT; i++)
		if (d->stream[i].handle)
			(void)cudaStreamDestroy(d->stream[i].handle);
	free(d);
}

/* The runtime and the management library number GPUs each in its own way; the bus is common to
 * them. */
static struct nvml *
find_meters(int index)
{
	char bus_id[32];

	if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, index) == cudaSuccess)
		return nvml_open(bus_id);
	(void)cudaGetLastError();
	return NULL;
}

/* Allocates only the workspace, not the run's memory. NULL with a reason; the GPU is this process's
 * current device afterwards. */
static struct device *
cuda_open(const struct device_config *c, struct err *e)
{
	struct device *d;
	cudaError_t rc;
	int index;

	if (c->dtype == DTYPE_F64) {
		err_set(e, "double precision is for the CPU: --backend cpu");
		return NULL;
	}
	index = choose(c, e);
	if (index < 0)
		return NULL;
	rc = cudaSetDevice(index);
	if (rc != cudaSuccess) {
		err_set(e, "cannot use GPU %d: %s", index, cudaGetErrorString(rc));
		return NULL;
	}
	if (check_gpu(index, c, e) < 0)
		return NULL;
	d = mem_zalloc(1, sizeof *d);
	d->index = index;
	d->last = "none";
	d->deterministic = c->deterministic;
	d->float8 = cu_capability(d->index) >= CU_FLOAT8;
	d->early = cu_capability(d->index) >= CU_HOPPER;
	d->nvml = find_meters(index);
	if (set_up(d, c, e) == 0)
		return d;
	cuda_close(d);
	return NULL;
}

/* The libraries found at run time. */
static void
cuda_describe(char *text, size_t size)
{
	struct err why;
	int v = cudnn_find(&why), nccl = nccl_version();
	char cudnn[64];

	snprintf(cudnn, sizeof cudnn, "cuDNN %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
	snprintf(text, size, "%s%s, NCCL %d.%d.%d", v ? cudnn : "no cuDNN: ", v ? "" : why.msg,
	    nccl / 10000, nccl / 100 % 100, nccl % 100);
}

/* As the driver reports it now; other processes may take it. 0 when the driver does not answer. */
static size_t
cuda_free_memory(struct device *d)
{
	size_t left = 0, total = 0;

	return cu_ok(d, cudaMemGetInfo(&left, &total), "cudaMemGetInfo") ? left : 0;
}

/* By all processes. 0 when the driver does not answer. */
static size_t
cuda_used_memory(struct device *d)
{
	size_t left = 0, total = 0;

	return cu_ok(d, cudaMemGetInfo(&left, &total), "cudaMemGetInfo") ? total - left : 0;
}

static void
cuda_meter(struct device *d, struct meter *out)
{
	if (d->nvml)
		nvml_read(d->nvml, out);
}

/* Zeroed on the default stream, which no other stream waits for, so the host waits here. */
static void *
cuda_alloc(struct device *d, size_t bytes, struct err *e)
{
	void *p = NULL;
	cudaError_t rc = cudaMalloc(&p, bytes ? bytes : 1);

	if (rc == cudaSuccess)
		rc = cudaMemset(p, 0, bytes);
	if (rc == cudaSuccess)
		rc = cudaStreamSynchronize(NULL);
	if (rc == cudaSuccess)
		return p;
	(void)cudaGetLastError();
	(void)cudaFree(p);
	err_set(e, "cannot allocate %zu bytes on GPU %d (%zu are free): %s", bytes, d->index,
	    cuda_free_memory(d), cudaGetErrorString(rc));
	return NULL;
}

/* Waits for the device. The next sync reports a failure. */
static void
cuda_release(struct device *d, void *p)
{
	cu_ok(d, cudaFree(p), "cudaFree");
}

/* The streams live as long as the device. */
static struct stream *
cuda_stream(struct device *d, int index)
{
	ops_require(index >= 0 && index < STREAM_COUNT);
	return &d->stream[index].base;
}

/* Pageable source: staged before the call returns, so the caller may change it at once. */
static void
cuda_copy_in(struct stream *st, void *dst, const void *src, size_t bytes)
{
	cu_ok(st->device, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, cu_handle(st)),
	    "copy to the device");
}

/* dst is valid only after sync. */
static void
cuda_copy_out(struct stream *st, void *dst, const void *src, size_t bytes)
{
	cu_ok(st->device, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, cu_handle(st)),
	    "copy to the host");
}

/* Any thread may come here, so it has to say which GPU it means. Memory that cannot be pinned is
 * copied all the same, only slower; the runtime's remembered error is cleared. */
static void
cuda_pin(struct device *d, void *host, size_t bytes)
{
	if (cudaSetDevice(d->index) != cudaSuccess ||
	    cudaHostRegister(host, bytes, cudaHostRegisterDefault) != cudaSuccess)
		(void)cudaGetLastError();
}

/* Also accepts memory that could not be pinned. */
static void
cuda_unpin(struct device *d, void *host)
{
	(void)d;
	if (cudaHostUnregister(host) != cudaSuccess)
		(void)cudaGetLastError();
}

/* A fault in a kernel is noticed late, so the operation queued last is only a hint. */
static int
cuda_sync(struct stream *st, struct err *e)
{
	struct device *d = st->device;
	cudaError_t rc = cudaStreamSynchronize(cu_handle(st));

	if (d->failure.what)
		return err_set(e, "GPU %d: %s: %s", d->index, d->failure.what, d->failure.reason);
	if (rc != cudaSuccess)
		return err_set(e, "GPU %d: %s (the operation queued last: %s)", d->index,
		    cudaGetErrorString(rc), d->last);
	return 0;
}

/* Kept in a list and destroyed with the device: an event has no owner that would outlive its
 * streams. */
static struct event *
event_new(struct device *d, unsigned flags)
{
	struct event *ev = mem_zalloc(1, sizeof *ev);

	cu_ok(d, cudaEventCreateWithFlags(&ev->handle, flags), "cudaEventCreate");
	ev->next = d->events;
	d->events = ev;
	return ev;
}

/* No timing, which would make it slower. */
static struct event *
cuda_event(struct device *d)
{
	return event_new(d, cudaEventDisableTiming);
}

static struct event *
cuda_timer(struct device *d)
{
	return event_new(d, cudaEventDefault);
}

/* To half a microsecond. 0 for events that no stream has passed. */
static double
cuda_elapsed(struct event *from, struct event *to)
{
	float ms = 0;

	if (cudaEventElapsedTime(&ms, from->handle, to->handle) != cudaSuccess)
		(void)cudaGetLastError();
	return (double)ms * 1e-3;
}

/* Any thread may come here, so it has to say which GPU it means. An event that was never recorded
 * has passed. */
static bool
cuda_passed(struct device *d, struct event *ev)
{
	cudaError_t rc = cudaSetDevice(d->index);

	if (rc == cudaSuccess)
		rc = cudaEventQuery(ev->handle);
	if (rc != cudaSuccess)
		(void)cudaGetLastError();
	return rc != cudaErrorNotReady;
}

/* A failure is reported by the next sync. */
static void
cuda_await(struct device *d, struct event *ev)
{
	cu_ok(d, cudaEventSynchronize(ev->handle), "cudaEventSynchronize");
}

/* Without it a thread would make a context of its own on the first GPU. */
static void
cuda_enter(struct device *d)
{
	cu_ok(d, cudaSetDevice(d->index), "cudaSetDevice");
}

/* Recording again moves the event; waits that were queued before keep the old place. */
static void
cuda_record(struct stream *st, struct event *ev)
{
	cu_ok(st->device, cudaEventRecord(ev->handle, cu_handle(st)), "cudaEventRecord");
}

/* The stream waits, the host does not. An event that was never recorded causes no wait. */
static void
cuda_wait(struct stream *st, struct event *ev)
{
	cu_ok(st->device, cudaStreamWaitEvent(cu_handle(st), ev->handle, 0), "cudaStreamWaitEvent");
}

/* Records only this thread's calls: a save may be copying on another stream. */
static bool
cuda_record_begin(struct stream *st, struct err *why)
{
	struct device *d = st->device;
	cudaError_t rc = cudaStreamBeginCapture(cu_handle(st), cudaStreamCaptureModeThreadLocal);

	d->recording = rc == cudaSuccess;
	d->refusal.what = NULL;
	if (d->recording)
		return true;
	(void)cudaGetLastError();
	err_set(why, "GPU %d: %s", d->index, cudaGetErrorString(rc));
	return false;
}

/* A call that cannot be recorded ends the recording; that is not a failure of the device. */
static struct recorded *
cuda_record_end(struct stream *st, struct err *why)
{
	struct device *d = st->device;
	struct failure *f = &d->refusal;
	cudaGraph_t graph = NULL;
	struct recorded *r = mem_zalloc(1, sizeof *r);

	cu_ok(d, cudaStreamEndCapture(cu_handle(st), &graph), "cudaStreamEndCapture");
	if (!f->what)
		cu_ok(d, cudaGraphInstantiate(&r->handle, graph, 0), "cudaGraphInstantiate");
	d->recording = false;
	if (graph)
		(void)cudaGraphDestroy(graph);
	if (!f->what)
		return r;
	(void)cudaGetLastError();
	err_set(why, "GPU %d: %s: %s", d->index, f->what, f->reason);
	free(r);
	return NULL;
}

static void
cuda_launch(struct stream *st, struct recorded *r)
{
	cu_ok(st->device, cudaGraphLaunch(r->handle, cu_handle(st)), "a recorded pass");
}

static void
cuda_drop(struct recorded *r)
{
	if (r)
		(void)cudaGraphExecDestroy(r->handle);
	free(r);
}

/* No max_norm: rows are walked, not held. */
const struct backend backend_cuda = {
	.name = "cuda",
	.ops = &cuda_ops,
	.comm_ops = &nccl_ops,
	.host = &backend_cpu,
	.max_head_size = CU_HEAD_MAX,
	.max_experts = CU_EXPERTS,
	.gemm_rows = 1024,
	.step_rows = 2,
	.has_hopper_attention = cuda_has_hopper_attention,
	.available = cuda_available,
	.describe = cuda_describe,
	.nccl_version = nccl_version,
	.open = cuda_open,
	.close = cuda_close,
	.free_memory = cuda_free_memory,
	.used_memory = cuda_used_memory,
	.meter = cuda_meter,
	.alloc = cuda_alloc,
	.release = cuda_release,
	.stream = cuda_stream,
	.copy_in = cuda_copy_in,
	.copy_out = cuda_copy_out,
	.sync = cuda_sync,
	.pin = cuda_pin,
	.unpin = cuda_unpin,
	.event = cuda_event,
	.timer = cuda_timer,
	.elapsed = cuda_elapsed,
	.computed = cuda_elapsed,
	.record = cuda_record,
	.wait = cuda_wait,
	.passed = cuda_passed,
	.await = cuda_await,
	.enter = cuda_enter,
	.record_begin = cuda_record_begin,
	.record_end = cuda_record_end,
	.launch = cuda_launch,
	.drop = cuda_drop,
	.comm = nccl_comm,
};

/*
 * cudnn.c - cuDNN at run time: the library, its plans of attention, and running them
 *
 * The library is optional: it is looked for when a device is opened, so the same program runs with
 * and without it. A plan is one compiled engine. The heuristics' first answer is taken and nothing
 * is timed, so every run takes the same engine. Source: docs/gpu.md 1.
 */
#include "lib/base/mem.h"
#include "train/cuda/attention/cudnn.h"
#include "train/cuda/symbols.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* The oldest supported version: 9.10.0 and 9.10.1 give wrong results, and earlier ones
	 * cannot mask with -inf. */
	OLDEST = 91100,
	CONFIGS = 8, /* engines that the heuristics may propose */
};

#define VALUES(...) \
	(const struct dnn_value[]) \
	{ \
		__VA_ARGS__, \
		{ \
			0 \
		} \
	}

static const struct symbol symbols[] = {
	{ "cudnnGetVersion", offsetof(struct dnn_api, version) },
	{ "cudnnGetErrorString", offsetof(struct dnn_api, error_string) },
	{ "cudnnCreate", offsetof(struct dnn_api, create) },
	{ "cudnnDestroy", offsetof(struct dnn_api, destroy) },
	{ "cudnnSetStream", offsetof(struct dnn_api, set_stream) },
	{ "cudnnBackendCreateDescriptor", offsetof(struct dnn_api, create_descriptor) },
	{ "cudnnBackendDestroyDescriptor", offsetof(struct dnn_api, destroy_descriptor) },
	{ "cudnnBackendSetAttribute", offsetof(struct dnn_api, set_attribute) },
	{ "cudnnBackendGetAttribute", offsetof(struct dnn_api, get_attribute) },
	{ "cudnnBackendFinalize", offsetof(struct dnn_api, finalize) },
	{ "cudnnBackendExecute", offsetof(struct dnn_api, execute) },
	{ .name = NULL },
};

/* By the loader's rules, then beside the runtime library: a toolkit in one directory needs no entry
 * in the loader's cache. It is never unloaded, since the driver keeps its kernels. NULL when it is
 * not found. */
static void *
load(void)
{
	static const char name[] = "libcudnn.so.9";
	const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
	cudaError_t (*runtime)(int *) = cudaGetDeviceCount;
	void *library = dlopen(name, flags);
	const char *slash;
	char path[4096];
	Dl_info info;
	void *address;

	memcpy(&address, &runtime, sizeof address);
	if (library || dladdr(address, &info) == 0 || !info.dli_fname)
		return library;
	slash = strrchr(info.dli_fname, '/');
	if (!slash || (size_t)(slash - info.dli_fname) + sizeof name + 1 > sizeof path)
		return NULL;
	memcpy(path, info.dli_fname, (size_t)(slash - info.dli_fname) + 1);
	memcpy(path + (slash - info.dli_fname) + 1, name, sizeof name);
	return dlopen(path, flags);
}

/* Opens the library and fills the table. -1 with a reason, and nothing stays open. */
static int
open_library(struct cudnn *c, struct err *why)
{
	const char *missing;

	memset(c, 0, sizeof *c);
	c->library = load();
	if (!c->library)
		return err_set(why, "there is no libcudnn.so.9");
	missing = symbols_find(c->library, symbols, &c->api);
	if (missing) {
		(void)dlclose(c->library);
		return err_set(why, "libcudnn.so.9 has no %s", missing);
	}
	c->version = (int)c->api.version();
	if (c->version >= OLDEST)
		return 0;
	(void)dlclose(c->library);
	return err_set(why, "cuDNN %d.%d.%d is older than 9.11", c->version / 10000,
	    c->version / 100 % 100, c->version % 100);
}

/* Closes what it has opened. */
int
cudnn_find(struct err *why)
{
	struct cudnn c;

	if (open_library(&c, why) < 0)
		return 0;
	(void)dlclose(c.library);
	return c.version;
}

/* The handle takes device memory of its own, so it is made here and not in the first step. */
struct cudnn *
cudnn_open(cudaStream_t stream, struct err *why)
{
	struct cudnn *c = mem_alloc(1, sizeof *c);
	int status;

	if (open_library(c, why) < 0) {
		free(c);
		return NULL;
	}
	status = c->api.create(&c->handle);
	if (status == 0)
		status = c->api.set_stream(c->handle, stream);
	if (status == 0)
		return c;
	err_set(why, "cannot start cuDNN: %s", c->api.error_string(status));
	cudnn_close(c);
	return NULL;
}

/* Its plans must be freed first. */
void
cudnn_close(struct cudnn *c)
{
	if (!c)
		return;
	if (c->handle)
		(void)c->api.destroy(c->handle);
	(void)dlclose(c->library);
	free(c);
}

/* The first configuration of one mode of the heuristics that compiles; NULL when none does, which
 * is not a failure of the graph. */
static dnn_desc
compile(const struct cudnn *c, struct sdpa_graph *gr, dnn_desc graph, enum dnn_heuristics mode)
{
	int32_t m = (int32_t)mode;
	dnn_desc heur = dnn_create(gr, DNN_ENGINEHEUR,
	    VALUES({ DNN_ATTR_HEUR_GRAPH, DNN_DESCRIPTOR, 1, &graph },
		{ DNN_ATTR_HEUR_MODE, DNN_HEUR_MODE, 1, &m }));
	dnn_desc config[CONFIGS], plan;
	int64_t count = 0; /* of results; with no room given, an upper bound */

	for (int i = 0; i < CONFIGS; i++)
		config[i] = dnn_create(gr, DNN_ENGINECFG, VALUES({ 0 }));
	if (gr->status != 0 || c->api.finalize(heur) != 0 ||
	    c->api.get_attribute(
		heur, DNN_ATTR_HEUR_RESULTS, DNN_DESCRIPTOR, CONFIGS, &count, config) != 0)
		return NULL;
	for (int64_t i = 0; i < count && gr->status == 0; i++) {
		plan = dnn_create(gr, DNN_EXECUTION_PLAN,
		    VALUES({ DNN_ATTR_PLAN_HANDLE, DNN_HANDLE, 1, &c->handle },
			{ DNN_ATTR_PLAN_CONFIG, DNN_DESCRIPTOR, 1, &config[i] }));
		if (gr->status == 0 && c->api.finalize(plan) == 0)
			return plan;
	}
	return NULL;
}

/* Takes the plan out of the graph's list, so that it outlives the graph. */
static void
take(struct sdpa_graph *gr, struct sdpa_plan *p, dnn_desc plan)
{
	for (int i = 0; i < gr->num_all; i++)
		if (gr->all[i] == plan) {
			gr->all[i] = gr->all[--gr->num_all];
			break;
		}
	p->plan = plan;
	p->num_ids = gr->num_ids;
	memcpy(p->ids, gr->ids, sizeof p->ids);
}

/* Everything but the plan is freed at once. */
int
sdpa_plan_new(const struct cudnn *c, const struct sdpa_shape *s, struct sdpa_plan *p, struct err *e)
{
	static const enum dnn_heuristics modes[] = { DNN_HEUR_A, DNN_HEUR_B, DNN_HEUR_FALLBACK };
	struct sdpa_graph gr;
	dnn_desc graph, plan = NULL;
	int status;

	memset(p, 0, sizeof *p);
	sdpa_graph_build(&gr, &c->api, s);
	graph = dnn_make(&gr, DNN_OPERATIONGRAPH,
	    VALUES({ DNN_ATTR_GRAPH_HANDLE, DNN_HANDLE, 1, &c->handle },
		{ DNN_ATTR_GRAPH_OPS, DNN_DESCRIPTOR, gr.num_ops, gr.ops }));
	for (int i = 0; i < 3 && !plan && gr.status == 0; i++)
		plan = compile(c, &gr, graph, modes[i]);
	if (plan) {
		take(&gr, p, plan);
		gr.status = c->api.get_attribute(
		    plan, DNN_ATTR_PLAN_WORKSPACE, DNN_INT64, 1, NULL, &p->workspace);
	}
	status = gr.status;
	sdpa_graph_free(&gr);
	if (plan && status == 0)
		return 0;
	sdpa_plan_free(c, p);
	return err_set(e, "cuDNN has no engine for this attention: %s",
	    status ? c->api.error_string(status) : "none compiles");
}

/* The device must have finished its last run. */
void
sdpa_plan_free(const struct cudnn *c, struct sdpa_plan *p)
{
	if (p->plan)
		(void)c->api.destroy_descriptor(p->plan);
	p->plan = NULL;
}

/* Addresses are bound in each call, which takes a few microseconds: every layer has its own. */
int
sdpa_run(const struct cudnn *c, const struct sdpa_plan *p, void *const memory[SDPA_IDS],
    void *workspace, struct err *e)
{
	struct sdpa_graph gr = { .api = &c->api };
	void *used[SDPA_IDS];
	dnn_desc pack;

	for (int i = 0; i < p->num_ids; i++)
		used[i] = memory[p->ids[i]];
	pack = dnn_make(&gr, DNN_VARIANT_PACK,
	    VALUES({ DNN_ATTR_PACK_WORKSPACE, DNN_VOID_PTR, 1, &workspace },
		{ DNN_ATTR_PACK_POINTERS, DNN_VOID_PTR, p->num_ids, used },
		{ DNN_ATTR_PACK_IDS, DNN_INT64, p->num_ids, p->ids }));
	if (gr.status == 0)
		gr.status = c->api.execute(c->handle, p->plan, pack);
	sdpa_graph_free(&gr);
	return gr.status ? err_set(e, "cuDNN: %s", c->api.error_string(gr.status)) : 0;
}

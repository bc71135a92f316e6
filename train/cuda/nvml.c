/*
 * nvml.c - the driver's management library at run time
 *
 * It comes with the driver, not with the toolkit, so it is opened with the device, and a run
 * without it has no meters. The few functions and numbers that are used are declared here, from
 * NVIDIA's NVML API reference.
 */
#include "lib/base/mem.h"
#include "train/cuda/nvml.h"
#include "train/cuda/symbols.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { GPU_SENSOR = 0, SM_CLOCK = 1 }; /* NVML_TEMPERATURE_GPU, NVML_CLOCK_SM */

/* Every call returns 0 when it has done what it says. */
struct nvml_api {
	int (*init)(void);
	int (*shutdown)(void);
	int (*find)(const char *bus_id, void **device);
	int (*energy)(void *device, unsigned long long *millijoules); /* since the driver started */
	int (*power)(void *device, unsigned *milliwatts);
	int (*temperature)(void *device, int sensor, unsigned *celsius);
	int (*clock)(void *device, int which, unsigned *megahertz);
};

struct nvml {
	struct nvml_api api;
	void *library, *device;
};

static const struct symbol symbols[] = {
	{ "nvmlInit_v2", offsetof(struct nvml_api, init) },
	{ "nvmlShutdown", offsetof(struct nvml_api, shutdown) },
	{ "nvmlDeviceGetHandleByPciBusId_v2", offsetof(struct nvml_api, find) },
	{ "nvmlDeviceGetTotalEnergyConsumption", offsetof(struct nvml_api, energy) },
	{ "nvmlDeviceGetPowerUsage", offsetof(struct nvml_api, power) },
	{ "nvmlDeviceGetTemperature", offsetof(struct nvml_api, temperature) },
	{ "nvmlDeviceGetClockInfo", offsetof(struct nvml_api, clock) },
	{ .name = NULL },
};

struct nvml *
nvml_open(const char *bus_id)
{
	struct nvml *n = mem_zalloc(1, sizeof *n);

	n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (n->library && !symbols_find(n->library, symbols, &n->api) && n->api.init() == 0) {
		if (n->api.find(bus_id, &n->device) == 0)
			return n;
		(void)n->api.shutdown();
	}
	if (n->library)
		(void)dlclose(n->library);
	free(n);
	return NULL;
}

void
nvml_close(struct nvml *n)
{
	if (!n)
		return;
	(void)n->api.shutdown();
	(void)dlclose(n->library);
	free(n);
}

void
nvml_read(const struct nvml *n, struct meter *out)
{
	unsigned long long energy;
	unsigned value;

	if (n->api.energy(n->device, &energy) == 0)
		out->joules = (double)energy * 1e-3;
	if (n->api.power(n->device, &value) == 0)
		out->watts = value * 1e-3;
	if (n->api.temperature(n->device, GPU_SENSOR, &value) == 0)
		out->celsius = value;
	if (n->api.clock(n->device, SM_CLOCK, &value) == 0)
		out->megahertz = value;
}

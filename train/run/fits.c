/*
 * fits.c - whether a plan fits a device, in words
 *
 * The table of --dry-run is for programs; these lines are for people.
 */
#include "train/run/fits.h"
#include "lib/base/prog.h"
#include "lib/model/hardware.h"

#include <string.h>

static const double gib = 1024.0 * 1024 * 1024;

static const char *
precision(const struct run_options *o)
{
	return o->bf16 ? "bf16" : o->fp16 ? "fp16" : o->fp64 ? "fp64" : "fp32";
}

/* A line for stages in a row whose ranks hold equally much. */
static void
note_classes(int stages, int64_t ranks, const uint64_t *bytes)
{
	for (int first = 0, next; first < stages; first = next) {
		char name[64];

		for (next = first + 1; next < stages && bytes[next] == bytes[first];)
			next++;
		snprintf(name, sizeof name, next == first + 1 ? "stage %d" : "stages %d-%d", first,
		    next - 1);
		note("%s, %lld ranks: %.2f GiB each", name, (long long)(ranks * (next - first)),
		    (double)bytes[first] / gib);
	}
}

int
fits(const struct train_config *c, int64_t world_size, const uint64_t *bytes)
{
	const struct opt_parse *p = &c->parse;
	int stages = (int)c->plan.layout.pipeline_model_parallel_size;
	const char *in = precision(&c->o.run), *gpu = hardware_names[c->o.gpu];
	struct hardware hw;
	uint64_t most = 0;
	double room;
	bool fits;

	for (int i = 0; i < stages; i++)
		most = bytes[i] > most ? bytes[i] : most;
	note_classes(stages, world_size / stages, bytes);
	if (!opt_given(p, "gpu")) {
		note("no --gpu: %.2f GiB a rank, in %s", (double)most / gib, in);
		return EXIT_DONE;
	}
	hardware_row(c->o.gpu, &hw);
	room = hw.memory_gb - hw.reserve_gb;
	fits = (double)most <= room * gib;
	if (c->plan.shape.dtype == DTYPE_F32 && hw.tflops > hw.tflops_fp32)
		note("the plan is in fp32: GEMMs of %.3g TFLOP/s at most, and of %.3g with --%s",
		    hw.tflops_fp32, hw.tflops, hw.bf16 ? "bf16" : "fp16");
	note("%s %lld x %s: %.2f of %.2f GiB, in %s", fits ? "fits" : "does not fit",
	    (long long)world_size, gpu, (double)most / gib, room, in);
	return fits ? EXIT_DONE : EXIT_FAILED;
}

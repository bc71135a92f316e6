/*
 * hardware.c - the table of devices
 *
 * Peaks are data-sheet figures; efficiencies are the parts of them that large GEMMs, attention,
 * memory and links reach (docs/planning.md 3). They are starting points: every figure is an option,
 * and one measured step is worth more than the table.
 */
#include "lib/model/hardware.h"
#include "lib/base/io.h"
#include "lib/model/stacks.h"

#include <stdlib.h>
#include <string.h>

/* Figures shared by the rows of one generation: efficiencies, latencies, host work. HOPPER: 674
 * TFLOP/s for all GEMMs of a step of Llama 8B under the power limit (results.tsv, d9f42012), the
 * curves of docs/gpu.md 1.6 less 3 % for the same reason. COMMON, on H200s: 8-bit GEMMs without
 * their copies beside 16-bit ones, 4c83f22e; 55 of 63 GB/s to the host, 76a138e0; a quarter of the
 * exchanges of tensor ranks is not hidden, 6a80849c; 11 of 107 ms of those of data ranks, 89b855c7;
 * step_ms is what GPT-2 124M with one sample a step takes beyond its kernels, af07b9f. expert_skew:
 * docs/planning.md 2.1. profile_error: what tests/unit/predicted.c prints of models that are left
 * out. */
#define VOLTA \
	.gemm_efficiency = 0.75, .attention_efficiency = 0.35, COMMON, .network_efficiency = 0.5
#define AMPERE \
	.gemm_efficiency = 0.78, .attention_efficiency = 0.45, COMMON, .network_efficiency = 0.5
#define HOPPER \
	.gemm_efficiency = 0.708, .attention_efficiency = 0.54, COMMON, \
	.network_efficiency = 0.85, .hopper = true, .profile_error = 4.8
#define BLACKWELL \
	.gemm_efficiency = 0.55, .attention_efficiency = 0.3, COMMON, .network_efficiency = 0.85
#define COMMON \
	.memory_efficiency = 0.75, .link_efficiency = 0.75, .host_efficiency = 0.87, \
	.fp8_efficiency = 0.9, .kernel_us = 3, .host_us = 4, .link_us = 10, .network_us = 25, \
	.message_us = 5, .step_ms = 0.2, .dp_overlap = 0.9, .layer_overlap = 0.75, \
	.stage_exposed = 1, .expert_skew = 1.15, .memory_passes = 1, .host_update_bandwidth = 110

/* Peaks, memory and links: docs/planning.md 3; links to the host, PCI Express or NVLink; F32 peaks
 * without tensor cores, numbers of multiprocessors and watts: the vendors' data sheets. H200s that
 * train Llama 8B draw 690 of their 700 W (results.tsv, eec9e8c); other devices are taken to reach
 * their limit too. */
static const struct hardware rows[] = {
	{ "h100", 989, 67, true, true, 79.2, 1.5, 3350, 450, 50, 8, 63, 132, 700, HOPPER },
	{ "h100-pcie", 756, 51, true, true, 79.2, 1.5, 2000, 63, 50, 8, 63, 114, 350, HOPPER },
	{ "h200", 989, 67, true, true, 139.8, 1.5, 4800, 450, 50, 8, 63, 132, 690, HOPPER },
	{ "b200", 2250, 80, true, true, 178, 1.8, 8000, 900, 50, 8, 63, 148, 1000, BLACKWELL },
	{ "b300", 2250, 80, true, true, 268, 1.8, 8000, 900, 100, 8, 126, 148, 1100, BLACKWELL },
	{ "gb200", 2500, 80, true, true, 184, 1.8, 8000, 900, 50, 72, 225, 152, 1200, BLACKWELL },
	{ "gb300", 2500, 80, true, true, 276, 1.8, 8000, 900, 100, 72, 225, 152, 1400, BLACKWELL },
	{ "a100-40", 312, 19.5, true, false, 39.4, 1.2, 1560, 300, 25, 8, 31, 108, 400, AMPERE },
	{ "a100-80", 312, 19.5, true, false, 79.2, 1.2, 2000, 300, 25, 8, 31, 108, 400, AMPERE },
	{ "a100-pcie", 312, 19.5, true, false, 79.2, 1.2, 1940, 31, 25, 8, 31, 108, 300, AMPERE },
	{ "v100-16", 125, 15.7, false, false, 15.7, 1, 900, 150, 12.5, 4, 16, 80, 300, VOLTA },
	{ "v100-32", 125, 15.7, false, false, 31.7, 1, 900, 150, 12.5, 4, 16, 80, 300, VOLTA },
	/* One rank on one or two cores of a laptop: measure the machine and give --tflops,
	 * --memory-bandwidth and --memory-gb. */
	{ "cpu", 0.05, 0.05, true, false, 4, 0.2, 10, 5, 0.1, 64, 10, 0, 0, .gemm_efficiency = 0.8,
	    .attention_efficiency = 0.3, .memory_efficiency = 0.7, .link_efficiency = 0.5,
	    .network_efficiency = 0.8, .host_efficiency = 0.5, .fp8_efficiency = 1, .kernel_us = 5,
	    .link_us = 10, .network_us = 50, .message_us = 5, .step_ms = 1, .stage_exposed = 1,
	    .expert_skew = 1.15, .memory_passes = 1, .host_update_bandwidth = 110 },
};

const char *const hardware_names[] = { "h100", "h100-pcie", "h200", "b200", "b300", "gb200",
	"gb300", "a100-40", "a100-80", "a100-pcie", "v100-16", "v100-32", "cpu", NULL };

_Static_assert(sizeof rows / sizeof *rows == sizeof hardware_names / sizeof *hardware_names - 1,
    "one name per row");

struct stack_config {
	struct hardware hw;
	int gpu;
};

/* clang-format off */
#define FIGURE(name, field) { name, offsetof(struct hardware, field) }
/* clang-format on */

/* Options that set one figure each. */
static const struct figure {
	const char *option;
	size_t off;
} figures[] = {
	FIGURE("tflops", tflops),
	FIGURE("memory-gb", memory_gb),
	FIGURE("reserve-gb", reserve_gb),
	FIGURE("memory-bandwidth", memory_bandwidth),
	FIGURE("link-bandwidth", link_bandwidth),
	FIGURE("network-bandwidth", network_bandwidth),
	FIGURE("gpus-per-node", gpus_per_node),
	FIGURE("rails", rails),
	FIGURE("message-us", message_us),
	FIGURE("host-bandwidth", host_bandwidth),
	FIGURE("host-update-bandwidth", host_update_bandwidth),
	FIGURE("host-memory-gb", host_memory_gb),
	FIGURE("watts", watts),
	FIGURE("gemm-efficiency", gemm_efficiency),
	FIGURE("attention-efficiency", attention_efficiency),
	FIGURE("memory-efficiency", memory_efficiency),
	FIGURE("link-efficiency", link_efficiency),
	FIGURE("network-efficiency", network_efficiency),
	FIGURE("kernel-us", kernel_us),
	FIGURE("step-ms", step_ms),
	FIGURE("dp-overlap", dp_overlap),
	FIGURE("attention-passes", attention_passes),
	FIGURE("memory-passes", memory_passes),
	FIGURE("gradient-bytes", gradient_bytes),
	FIGURE("launch-blocking", launch_blocking),
	FIGURE("expert-skew", expert_skew),
	FIGURE("layer-overlap", layer_overlap),
	FIGURE("stage-exposed", stage_exposed),
	FIGURE("stage-slices", stage_slices),
	FIGURE("whole-recompute", whole_recompute),
	FIGURE("gradient-fusion", gradient_fusion),
	FIGURE("loss-fusion", loss_fusion),
	FIGURE("profile-error", profile_error),
	FIGURE("host-us", host_us),
	FIGURE("host-efficiency", host_efficiency),
	FIGURE("fp8-efficiency", fp8_efficiency),
};

void
hardware_row(int row, struct hardware *out)
{
	*out = rows[row];
}

/* Each figure that was given, over that of *out. All are doubles, so one copy serves. */
static void
take_given(const struct opt_parse *p, const struct hardware *typed, struct hardware *out)
{
	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
		if (opt_given(p, figures[i].option))
			memcpy((char *)out + figures[i].off, (const char *)typed + figures[i].off,
			    sizeof(double));
	/* One option for both rates: it is the rate of the run. */
	if (opt_given(p, "tflops"))
		out->tflops_fp32 = out->tflops;
}

/* The constants of a program, a name or a file, in place of those that are there. -1 with the
 * reason. */
static int
take_stack(const char *stack, struct hardware *out, struct err *e)
{
	static const struct opt table[] = { HARDWARE_OPTS(struct stack_config, hw, gpu), OPT_END };
	const char *text = stack_text(stack);
	struct stack_config cfg;
	struct opt_parse p;
	char *file = NULL;
	int rc;

	if (!text && io_read_regular(stack, 1 << 20, &file, NULL, e) < 0)
		return -1;
	opt_begin(&p, table, &cfg);
	rc = opt_text(&p, stack, text ? text : file, false, e);
	if (rc == 0)
		take_given(&p, &cfg.hw, out);
	opt_release(&p);
	free(file);
	return rc;
}

int
hardware_check_stack(const struct hardware *typed, struct err *e)
{
	struct hardware hw = { .name = NULL };
	struct err why;

	if (!typed->stack || take_stack(typed->stack, &hw, &why) == 0)
		return 0;
	return err_set(e, "--stack: %s", why.msg);
}

void
hardware_resolve(
    const struct opt_parse *p, int row, const struct hardware *typed, struct hardware *out)
{
	struct err ignored;

	hardware_row(row, out);
	if (typed->stack) {
		out->stack = typed->stack;
		(void)take_stack(typed->stack, out, &ignored);
	}
	take_given(p, typed, out);
}

bool
hardware_is_own(const struct hardware *hw)
{
	return hw->message_us > 0;
}

bool
hardware_figure(int number, const char **option, size_t *off)
{
	if (number < 0 || (size_t)number >= sizeof figures / sizeof *figures)
		return false;
	*option = figures[number].option;
	*off = figures[number].off;
	return true;
}

/* V100 has no bfloat16 GEMMs; double precision counts as half of F32. */
double
hardware_peak(const struct hardware *hw, enum dtype t)
{
	if (dtype_is_float8(t))
		return hardware_peak(hw, DTYPE_BF16) * (hw->fp8 ? 2 : 1);
	if (t == DTYPE_F64)
		return hw->tflops_fp32 * 0.5e12;
	return (t == DTYPE_F32 || (t == DTYPE_BF16 && !hw->bf16) ? hw->tflops_fp32 : hw->tflops) *
	    1e12;
}

/* Edges of an output tile, which are twice as wide before Hopper: published steps on A100s are
 * nearer then, ours on H200s are not. The K at which a GEMM reaches half of its asymptotic rate;
 * the most parts into which one cuts its sum where it has few tiles. */
enum { TILE = 128, K_HALF = 64, SPLITS = 16 };

/* The share of multiprocessors at work in the waves of output tiles, times what the depth of the
 * sum leaves of the rate. A sum may be cut into parts, which make more tiles. Rows and columns
 * beyond the edge count as idle. */
double
hardware_gemm_share(const struct hardware *hw, double m, double n, double k, double count)
{
	double wide = hw->fp8 ? TILE : 2 * TILE, tiles = ceil(m / TILE) * ceil(n / wide) * count,
	       used = m * n * count / (TILE * wide);
	double best = 0;

	if (hw->num_sms < 1)
		return k / (k + K_HALF);
	/* With many waves the last one hardly counts. */
	if (tiles >= 16 * hw->num_sms)
		return used / (ceil(tiles / hw->num_sms) * hw->num_sms) * k / (k + K_HALF);
	for (int parts = 1; parts <= SPLITS && (parts == 1 || k / parts >= 8 * TILE); parts *= 2) {
		double waves = ceil(tiles * parts / hw->num_sms) * hw->num_sms;
		double share = used * parts / waves * (k / parts) / (k / parts + K_HALF);

		best = fmax(best, share);
	}
	return best;
}

/* Short sequences lose the tiles on the diagonal, and narrow heads wait for exponentials. The
 * constants are those of the two curves through the rows of docs/gpu.md 1.6: 1,024 to 8,192
 * positions, heads of 64 and of 128. */
double
hardware_attention_share(double keys, double channels)
{
	enum { KEYS_HALF = 300, WIDTH_HALF = 29 };

	return keys / (keys + KEYS_HALF) * (1 + WIDTH_HALF / 128.0) / (1 + WIDTH_HALF / channels);
}

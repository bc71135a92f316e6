/*
 * hardware.h - peaks and efficiencies of devices and links: one row per device, every figure an
 * option
 *
 * Peaks are for dense 16-bit GEMMs; efficiencies are the parts of a peak that real kernels and
 * collectives reach. A figure that is given overrides the row. Source: docs/planning.md 3.
 */
#ifndef MODEL_HARDWARE_H
#define MODEL_HARDWARE_H

#include "lib/base/dtype.h"
#include "lib/base/opt.h"

#include <math.h>

struct hardware {
	const char *name;
	double tflops, tflops_fp32; /* TFLOP/s of 16-bit and of F32 GEMMs */
	bool bf16;                  /* has bfloat16 GEMMs; otherwise they run at the F32 rate */
	bool fp8; /* has GEMMs of 8-bit operands, at twice the 16-bit rate; otherwise at that */
	/* GiB: what the driver shows; of it, what the context and the libraries take */
	double memory_gb, reserve_gb;
	double memory_bandwidth; /* GB/s */
	/* GB/s of one device and direction: inside a node, between nodes */
	double link_bandwidth, network_bandwidth;
	double gpus_per_node;
	double host_bandwidth; /* GB/s to the host's memory, and as much back */
	double num_sms; /* multiprocessors that the tiles of a GEMM are dealt to; 0: not modelled */
	double watts;   /* that a device draws in training; 0: not known */
	/* GB/s of gradients and states that the processors of a host update, for all its ranks */
	double host_update_bandwidth;
	double host_memory_gb; /* GiB of a host that its ranks may take; 0: not known */
	/* of 8 bits: beyond that of 16 */
	double gemm_efficiency, fp8_efficiency, attention_efficiency, memory_efficiency,
	    link_efficiency, network_efficiency, host_efficiency;
	/* start of a kernel on the device, and by the host; of a collective; host work per step */
	double kernel_us, host_us, link_us, network_us, step_ms;
	/* start of a message to each further host of an exchange; 0: hosts pass it on in as many
	 * steps as their number has powers of two, and while links inside them are busy */
	double message_us;
	double rails; /* network cards of a host, which its devices share; 0: each has one */
	/* most of the gradient traffic, and of the exchanges inside layers that run beside
	 * computation, that it hides, 0..1 */
	double dp_overlap, layer_overlap;
	double expert_skew; /* rows of the rank that gets the most, over the mean */
	/* what of messages between stages is not hidden, where stages do not exchange beside passes
	 */
	double stage_exposed;
	/* 1: the last of blocks that are recomputed together computes its output too */
	double whole_recompute;
	/* 1: each tensor rank sends a slice of a message between stages, and they gather it inside
	 * their host; 0: each sends all */
	double stage_slices;
	/* 1: GEMMs add gradients of weights to main gradients; the loss is one kernel */
	double gradient_fusion, loss_fusion;
	/* how often the scores of attention pass through memory in a forward pass; 0: never */
	double attention_passes;
	/* bytes that kernels bound by memory move, over those of ours */
	double memory_passes;
	/* bytes that a weight's gradient moves in each micro batch beside its GEMM, which then does
	 * not add to main gradients itself; 0: it does */
	double gradient_bytes;
	/* 1: the host starts a kernel when the one before has ended */
	double launch_blocking;
	bool hopper; /* compute capability 9.0, which has attention of our own */
	/* the program whose constants these are: the name of one in stacks.h, or a file; NULL: this
	 * one. Of steps that they were not fitted to, the mean error in percent */
	const char *stack;
	double profile_error;
};

/* Names of the rows, ended by NULL: the choices of --gpu. */
extern const char *const hardware_names[];

/* Row number `row`: an index of hardware_names. */
void hardware_row(int row, struct hardware *out);
/* Row number `row`, with the figures of the program that was given and those that were given
 * themselves in place of its own; p's table holds HARDWARE_OPTS over a struct hardware. A program
 * that hardware_check_stack refuses has no figures. */
void hardware_resolve(
    const struct opt_parse *p, int row, const struct hardware *typed, struct hardware *out);
/* -1 with the reason when the program that was given is neither a name nor a file that can be
 * read. */
int hardware_check_stack(const struct hardware *typed, struct err *e);
/* Whether these are figures of this program: others have messages passed on by NCCL. */
bool hardware_is_own(const struct hardware *hw);
/* A figure of a device and the option that sets it, by number; false after the last. */
bool hardware_figure(int number, const char **option, size_t *off);
/* The share of its rate that a GEMM reaches, `count` of them in one kernel: what waves of output
 * tiles and the depth of the sum leave. */
double hardware_gemm_share(const struct hardware *hw, double m, double n, double k, double count);
/* That of attention, of so many keys that a query sees in the mean, and heads of these channels. */
double hardware_attention_share(double keys, double channels);
/* The peak FLOP/s of GEMMs of this type, which may have 8 bits. */
double hardware_peak(const struct hardware *hw, enum dtype t);

/* clang-format off */
#define HARDWARE_NUM(S, M, n, f, lo, hi, h)                                                        \
	{ .name = n, .type = OPT_NUMBER, .off = offsetof(S, M.f), .min = lo, .max = hi, .help = h }
/* clang-format on */

/* clang-format off */
#define HARDWARE_OPTS(S, M, G)                                                                     \
	{ .type = OPT_GROUP, .help = "Device and network; the defaults are the device's" },        \
	    { .name = "gpu",                                                                       \
		    .type = OPT_CHOICE,                                                            \
		    .off = offsetof(S, G),                                                         \
		    .choices = hardware_names,                                                     \
		    .help = "the device" },                                                        \
	    { .name = "stack",                                                                     \
		    .type = OPT_STRING,                                                            \
		    .off = offsetof(S, M.stack),                                                   \
		    .unit = "NAME|FILE",                                                           \
		    .help = "the program whose constants replace this one's: megatron-lm, "        \
			    "megatron-deepspeed, bigscience, bigscience-v100, megatron-core, "     \
			    "fsdp, fsdp-h100, or a file of these options such as mplan fit -o "    \
			    "writes" },                                                            \
	    HARDWARE_NUM(S, M, "tflops", tflops, 1e-6, 1e9,                                        \
		"peak of dense GEMMs in the run's precision, TFLOP/s"),                            \
	    HARDWARE_NUM(S, M, "memory-gb", memory_gb, 1e-6, 1e9, "memory of a device, GiB"),      \
	    HARDWARE_NUM(S, M, "reserve-gb", reserve_gb, 0, 1e9,                                   \
		"part used by driver and libraries, GiB"),                                         \
	    HARDWARE_NUM(S, M, "memory-bandwidth", memory_bandwidth, 1e-6, 1e9,                    \
		"device memory bandwidth, GB/s"),                                                  \
	    HARDWARE_NUM(S, M, "link-bandwidth", link_bandwidth, 1e-6, 1e9,                        \
		"bandwidth inside a node, one way, GB/s"),                                         \
	    HARDWARE_NUM(S, M, "network-bandwidth", network_bandwidth, 1e-6, 1e9,                  \
		"bandwidth between nodes, one way, GB/s"),                                         \
	    { .name = "gpus-per-node",                                                             \
		    .type = OPT_NUMBER,                                                            \
		    .off = offsetof(S, M.gpus_per_node),                                           \
		    .min = 1,                                                                      \
		    .max = 1e6,                                                                    \
		    .help = "devices joined by the fast links; tensor ranks stay inside" },        \
	    HARDWARE_NUM(S, M, "rails", rails, 0, 1e6,                                             \
		"network cards of a node, which its devices share; 0: each has one"),              \
	    HARDWARE_NUM(S, M, "host-bandwidth", host_bandwidth, 1e-6, 1e9,                        \
		"bandwidth to host memory, one way, GB/s"),             \
	    HARDWARE_NUM(S, M, "host-update-bandwidth", host_update_bandwidth, 1e-6, 1e9,          \
		"bytes of gradients and states that the processors of a node update, GB/s"),       \
	    HARDWARE_NUM(S, M, "host-memory-gb", host_memory_gb, 0, 1e9,                           \
		"memory of a node's processors that its ranks may take, GiB; 0: any"),             \
	    HARDWARE_NUM(S, M, "watts", watts, 0, 1e6,                                             \
		"power that a device draws in training, W"),                                       \
	    HARDWARE_NUM(S, M, "gemm-efficiency", gemm_efficiency, 1e-3, 1,                        \
		"part of the peak that large GEMMs reach"),                                        \
	    HARDWARE_NUM(S, M, "fp8-efficiency", fp8_efficiency, 1e-3, 2,                          \
		"that of 8-bit GEMMs over it"),                                                    \
	    HARDWARE_NUM(S, M, "attention-efficiency", attention_efficiency, 1e-3, 1,              \
		"part of the peak that attention reaches"),                                        \
	    HARDWARE_NUM(S, M, "memory-efficiency", memory_efficiency, 1e-3, 1,                    \
		"part of the memory bandwidth that kernels reach"),                                \
	    HARDWARE_NUM(S, M, "link-efficiency", link_efficiency, 1e-3, 1,                        \
		"part of the link bandwidth that collectives reach"),                              \
	    HARDWARE_NUM(S, M, "network-efficiency", network_efficiency, 1e-3, 1,                  \
		"the same between nodes"),                                                         \
	    HARDWARE_NUM(S, M, "host-efficiency", host_efficiency, 1e-3, 1,                        \
		"the same to the host"),                                                           \
	    HARDWARE_NUM(S, M, "kernel-us", kernel_us, 0, 1e6,                                     \
		"time to start a kernel, microseconds"),                                           \
	    HARDWARE_NUM(S, M, "host-us", host_us, 0, 1e6,                                         \
		"time in which the host starts a kernel, microseconds: a block takes no less "     \
		"than all of its kernels"),                                                        \
	    HARDWARE_NUM(S, M, "message-us", message_us, 0, 1e6,                                   \
		"time to start a message to each further node of an exchange, microseconds; 0: "   \
		"nodes pass it on by halves, as rings and trees of NCCL do, while links inside "   \
		"them are busy"),                                                                  \
	    HARDWARE_NUM(                                                                          \
		S, M, "step-ms", step_ms, 0, 1e6, "host work per step, milliseconds"),             \
	    HARDWARE_NUM(S, M, "dp-overlap", dp_overlap, 0, 1,                                     \
		"part of the gradient traffic overlapped with computation"),                       \
	    HARDWARE_NUM(S, M, "layer-overlap", layer_overlap, 0, 1,                               \
		"most of an exchange inside a layer that computation beside it hides"),            \
	    HARDWARE_NUM(S, M, "stage-exposed", stage_exposed, 0, 1,                               \
		"part of the messages between stages that nothing hides, unless they go beside "   \
		"passes"),                                                                         \
	    HARDWARE_NUM(S, M, "stage-slices", stage_slices, 0, 1,                                 \
		"1: each tensor rank sends a slice of a message between stages, 0: all of it"),    \
	    HARDWARE_NUM(S, M, "whole-recompute", whole_recompute, 0, 1,                           \
		"1: layers that are recomputed compute their outputs too, 0: what their "          \
		"gradients need"),                                                                 \
	    HARDWARE_NUM(S, M, "gradient-fusion", gradient_fusion, 0, 1,                           \
		"1: the program's GEMMs add gradients of weights to main gradients, and leave "    \
		"an array of each shape"),                                                         \
	    HARDWARE_NUM(S, M, "loss-fusion", loss_fusion, 0, 1,                                   \
		"1: the program's loss is one kernel and keeps the logits once"),                  \
	    HARDWARE_NUM(S, M, "expert-skew", expert_skew, 1, 1e6,                                 \
		"rows of the rank whose experts get the most, over the mean; 1 with "              \
		"--moe-router-force-load-balancing"),                                              \
	    HARDWARE_NUM(S, M, "attention-passes", attention_passes, 0, 1e3,                       \
		"how often the scores of attention pass through memory in a forward pass, in "     \
		"programs that store them"),                                                       \
	    HARDWARE_NUM(S, M, "memory-passes", memory_passes, 0.1, 100,                           \
		"bytes that the program's kernels bound by memory move, over those of this one"),  \
	    HARDWARE_NUM(S, M, "gradient-bytes", gradient_bytes, 0, 100,                           \
		"bytes per weight and micro batch by which the program adds a gradient after "     \
		"its GEMM; 0: the GEMM adds it"),                                                  \
	    HARDWARE_NUM(S, M, "launch-blocking", launch_blocking, 0, 1,                           \
		"1: the host starts a kernel when the one before has ended, so that their times "  \
		"add up, as with CUDA_LAUNCH_BLOCKING"),                                           \
	    HARDWARE_NUM(S, M, "profile-error", profile_error, 0, 1e6,                             \
		"mean error of these constants over steps that they were not fitted to, percent")
/* clang-format on */

#endif

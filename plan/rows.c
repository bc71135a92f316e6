/*
 * rows.c - from rows of measured steps to runs
 */
#include "plan/rows.h"
#include "lib/base/io.h"
#include "lib/model/work.h"
#include "plan/memtable.h"
#include "plan/options.h"

#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 64, FILE_MAX = 64 << 20 };

/* A row of a table, and the names of its fields. */
struct fields {
	char *name[FIELDS_MAX], *value[FIELDS_MAX];
	int count;
};

/* The text of a field; empty where there is none. */
static const char *
text_of(const struct fields *f, const char *name)
{
	for (int i = 0; i < f->count; i++)
		if (!strcmp(f->name[i], name))
			return f->value[i] ? f->value[i] : "";
	return "";
}

static double
number(const struct fields *f, const char *name)
{
	return strtod(text_of(f, name), NULL);
}

static bool
has(const struct fields *f, const char *name, const char *value)
{
	return !strcmp(text_of(f, name), value);
}

static bool
begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* --- options of a row ------------------------------------------------------------------------- */

/* The device by its name here; NULL: it has none. */
static const char *
device_of(const struct fields *f)
{
	static const struct {
		const char *name, *gb, *ours;
	} known[] = { { "A100-SXM", "40", "a100-40" }, { "A100-SXM", "", "a100-80" },
		{ "A100-PCIe", "", "a100-pcie" }, { "H100-SXM", "", "h100" },
		{ "H100-PCIe", "", "h100-pcie" }, { "H200", "", "h200" }, { "B200", "", "b200" },
		{ "B300", "", "b300" }, { "GB200", "", "gb200" }, { "GB300", "", "gb300" },
		{ "V100-SXM", "16", "v100-16" }, { "V100-SXM", "", "v100-32" } };

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (has(f, "gpu", known[i].name) &&
		    (!*known[i].gb || has(f, "gpu_mem_gb", known[i].gb)))
			return known[i].ours;
	return NULL;
}

static void
add(struct str *out, const char *option, double value)
{
	if (value > 0)
		str_addf(out, "%s %.0f\n", option, value);
}

static void
add_model(struct str *out, const struct fields *f)
{
	bool gpt = has(f, "arch", "gpt"), gelu = has(f, "act", "gelu");
	/* The reference runs of Megatron-Core have the defaults of Megatron-LM too. */
	bool older = begins(text_of(f, "framework"), "Megatron-LM") ||
	    begins(text_of(f, "framework"), "Megatron-DeepSpeed") ||
	    strstr(text_of(f, "framework"), "reference run");
	double groups = number(f, "kv_heads");

	add(out, "num-layers", number(f, "layers"));
	add(out, "hidden-size", number(f, "hidden"));
	add(out, "num-attention-heads", number(f, "heads"));
	if (groups > 0 && groups < number(f, "heads"))
		str_addf(out, "group-query-attention\nnum-query-groups %.0f\n", groups);
	add(out, "ffn-hidden-size", number(f, "ffn"));
	/* GPT-2's, padded, where a source does not say */
	add(out, "vocab-size", number(f, "vocab") > 0 ? number(f, "vocab") : 51200);
	add(out, "seq-length", number(f, "seq"));
	if (has(f, "tied", "0"))
		str_adds(out, "untie-embeddings-and-output-weights\n");
	str_adds(out,
	    gelu                          ? "activation gelu\n"
		: has(f, "act", "sqrelu") ? "activation squared-relu\n"
					  : "activation swiglu\n");
	if (!gpt)
		str_adds(out, "normalization RMSNorm\n");
	if (gpt && gelu && older)
		return;
	str_adds(out,
	    "position-embedding-type rope\ndisable-bias-linear\nattention-dropout 0\n"
	    "hidden-dropout 0\n");
}

/* Those of DeepSeek-V2 and V3, whose widths tables do not have. Source: arXiv:2405.04434, 3.1.2;
 * arXiv:2412.19437, 4.2. */
static void
add_latents(struct str *out, const struct fields *f)
{
	if (has(f, "arch", "moe-mla"))
		str_adds(out,
		    "multi-latent-attention\nqk-layernorm\nq-lora-rank 1536\nkv-lora-rank 512\n"
		    "qk-head-dim 128\nqk-pos-emb-head-dim 64\nv-head-dim 128\n");
}

static void
add_experts(struct str *out, const struct fields *f)
{
	if (number(f, "experts") <= 0)
		return;
	add(out, "num-experts", number(f, "experts"));
	add(out, "moe-router-topk", number(f, "topk"));
	add(out, "moe-ffn-hidden-size", number(f, "moe_ffn"));
	add(out, "moe-shared-expert-intermediate-size", number(f, "shared_ffn"));
	if (number(f, "dense_layers") > 0)
		str_addf(out, "moe-layer-freq ([0]*%.0f+[1]*%.0f)\n", number(f, "dense_layers"),
		    number(f, "layers") - number(f, "dense_layers"));
	if (number(f, "ep") > 1)
		add(out, "expert-model-parallel-size", number(f, "ep"));
	if (number(f, "ep") > 1 || number(f, "etp") > 0)
		add(out, "expert-tensor-parallel-size",
		    number(f, "etp") > 0 ? number(f, "etp") : number(f, "tp"));
	if (strstr(text_of(f, "notes"), "balanced"))
		str_adds(out, "moe-router-force-load-balancing\n");
}

/* Equal stages where the layers, or with the embedding and the head as layers, divide among
 * them. */
static void
add_split(struct str *out, const struct fields *f)
{
	double p = number(f, "pp"), v = fmax(number(f, "vpp"), 1), n = number(f, "layers");

	if (p <= 1)
		return;
	if (fmod(n, p * v) == 0)
		add(out, "num-layers-per-virtual-pipeline-stage", n / (p * v));
	else if (v == 1 && fmod(n + 2, p) == 0)
		str_adds(out,
		    "account-for-embedding-in-pipeline-split\naccount-for-loss-in-pipeline-"
		    "split\n");
	else if (v > 1)
		add(out, "num-virtual-stages-per-pipeline-rank", v);
}

/* Megatron-Core shares rows among tensor ranks and sends them beside GEMMs unless told not to. */
static void
add_rows(struct str *out, const struct fields *f)
{
	bool core = strstr(text_of(f, "framework"), "Core") != NULL;

	if (number(f, "tp") <= 1 || (number(f, "sp") < 1 && (!core || *text_of(f, "sp"))))
		return;
	str_addf(out, "sequence-parallel\n%s", core ? "tp-comm-overlap\n" : "");
}

static void
add_layout(struct str *out, const struct fields *f)
{
	const char *sharding = text_of(f, "sharding");

	add(out, "world-size", number(f, "gpus"));
	add(out, "tensor-model-parallel-size", number(f, "tp"));
	add(out, "pipeline-model-parallel-size", number(f, "pp"));
	if (number(f, "cp") > 1)
		add(out, "context-parallel-size", number(f, "cp"));
	add_rows(out, f);
	add(out, "micro-batch-size", number(f, "mbs"));
	add(out, "global-batch-size", number(f, "gbs"));
	if (begins(sharding, "zero1"))
		str_adds(out, "use-distributed-optimizer\n");
	else if (!strcmp(sharding, "zero2"))
		str_adds(out, "data-parallel-sharding-strategy optim_grads\n");
	else if (*sharding && strcmp(sharding, "none") != 0)
		str_adds(out, "data-parallel-sharding-strategy optim_grads_params\n");
	/* shards inside each node */
	if ((!strcmp(sharding, "hsdp") || !strcmp(sharding, "zero1-node")) &&
	    number(f, "gpus_per_node") > 0)
		add(out, "num-distributed-optimizer-instances",
		    number(f, "gpus") / number(f, "gpus_per_node"));
	if (begins(text_of(f, "framework"), "Megatron-DeepSpeed") ||
	    begins(text_of(f, "framework"), "fms-fsdp") ||
	    strstr(text_of(f, "notes"), "MP mode PURE"))
		str_adds(out, "grad-reduce-in-bf16\n");
	add_split(out, f);
}

static void
add_precision(struct str *out, const struct fields *f)
{
	bool half = has(f, "precision", "fp16");

	str_adds(out, half ? "fp16\n" : "bf16\n");
	if (strstr(text_of(f, "precision"), "fp8"))
		str_addf(out, "fp8-format hybrid\nfp8-recipe %s\n",
		    has(f, "precision", "fp8") ? "delayed" : "tensorwise");
	if (has(f, "recompute", "full"))
		str_adds(out, "recompute-granularity full\n");
	else if (has(f, "recompute", "selective"))
		str_adds(out, "recompute-granularity selective\nrecompute-modules core_attn\n");
}

static void
add_device(struct str *out, const struct fields *f, const char *gpu)
{
	/* Racks of 72 are one domain, whatever a node is. */
	bool rack = begins(gpu, "gb");

	str_addf(out, "gpu %s\n", gpu);
	if (!rack)
		add(out, "gpus-per-node", number(f, "gpus_per_node"));
	if (number(f, "net_gbps_per_gpu") > 0)
		str_addf(out, "network-bandwidth %g\n", number(f, "net_gbps_per_gpu") / 8);
}

/* GEMMs add gradients where Megatron-LM is not told otherwise, since 2022; before, and in
 * Megatron-DeepSpeed, a kernel adds those of 16 bits. The loss is one kernel where a row says so.
 * Operations of PyTorch are a kernel each where no compiler joins them: of a layer with a plain MLP
 * they read and write 46 hidden sizes a token, ours 24. */
static void
add_fusions(struct str *out, const struct fields *f)
{
	const char *with = text_of(f, "framework"), *notes = text_of(f, "notes");
	bool older = begins(with, "Megatron-LM") && strstr(text_of(f, "source"), "2021");

	/* NCCL passes on the messages of others. */
	if (*with && !begins(with, "mikoshi"))
		str_adds(out, "message-us 0\n");
	if (older || begins(with, "Megatron-DeepSpeed"))
		str_adds(out, "gradient-bytes 6\n");
	else if ((begins(with, "Megatron-LM") || strstr(with, "Core") || begins(with, "NeMo")) &&
	    !strstr(notes, "no gradient-accumulation fusion"))
		str_adds(out, "gradient-fusion 1\n");
	if (strstr(with, "FSDP") && !strstr(notes, "torch.compile"))
		str_adds(out, "memory-passes 1.9\n");
	if (strstr(notes, "cross-entropy fusion"))
		str_adds(out, "loss-fusion 1\n");
}

/* --- seconds of a row ------------------------------------------------------------------------- */

/* FLOPs of attention above the diagonal. */
static double
upper_half(const struct run_plan *p)
{
	const struct layout one = { 1, 1, 1, 1 };
	struct train_shape s = p->shape;
	struct work w;

	s.micro_batch_size = p->global_batch_size;
	work_of(&w, &block_attention, &p->model, &one, &s);
	return 3 * w.attention * (double)model_softmax_layers(&p->model);
}

/* FLOPs of a step as the row's source counts them: with what is computed again where its rates are
 * of the hardware, over the full square of attention unless it halves it. Source: Narayanan et al.
 * 2021, arXiv:2104.04473, appendix. */
static double
row_flops(const struct fields *f, const struct run_plan *p)
{
	double flops = model_flops(&p->model, p->global_batch_size, p->shape.seq_length,
	    layout_vocab(&p->layout, &p->model));
	double head = 6 * (double)p->global_batch_size * (double)p->shape.seq_length *
	    (double)p->model.hidden_size * (double)layout_vocab(&p->layout, &p->model);

	if (!has(f, "flops_conv", "causal"))
		flops += upper_half(p);
	return has(f, "tflops_kind", "hw") ? (flops - head) * 4 / 3 + head : flops;
}

static double
row_seconds(const struct fields *f, const struct run_plan *p)
{
	double gpus = number(f, "gpus"), rate = number(f, "tok_s_gpu"),
	       tflops = number(f, "tflops_gpu");
	double tokens = (double)p->global_batch_size * (double)p->shape.seq_length;

	if (number(f, "iter_s") > 0)
		return number(f, "iter_s");
	if (rate > 0)
		return tokens / rate / gpus;
	return tflops > 0 ? row_flops(f, p) / (tflops * 1e12) / gpus : 0;
}

/* --- a row ------------------------------------------------------------------------------------ */

/* The plan and the device of options; -1 with the reason. */
static int
resolve(const char *id, const char *text, struct measured_row *r, struct err *e)
{
	struct plan_config cfg = { 0 };
	struct str notes = { 0 };
	struct opt_parse p;
	int rc;

	opt_begin(&p, plan_time_opts, &cfg);
	rc = opt_text(&p, id, text, false, e);
	if (rc == 0)
		rc = run_resolve(&p, &cfg.run, cfg.world_size, 0, &r->plan, &notes, e);
	if (rc == 0) {
		hardware_resolve(&p, cfg.gpu, &cfg.hw, &r->hw);
		r->plan.shape.hopper = r->hw.hopper ? HOPPER_YES : HOPPER_NO;
		snprintf(r->gpu, sizeof r->gpu, "%s", hardware_names[cfg.gpu]);
	}
	str_release(&notes);
	opt_release(&p);
	return rc;
}

/* -1 with the reason where the row is no run of ours. */
static int
take(struct measured_row *r, const struct fields *f, struct err *e)
{
	static const char *const needed[] = { "layers", "hidden", "heads", "seq", "gpus", "tp",
		"pp", "mbs", "gbs" };
	const char *gpu = device_of(f);
	struct str text = { 0 };
	int rc;

	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
		if (number(f, needed[i]) <= 0)
			return err_set(e, "no %s", needed[i]);
	if (!gpu)
		return err_set(e, "device '%s' is not known", text_of(f, "gpu"));
	if (has(f, "precision", "nvfp4"))
		return err_set(e, "%s: is not computed here", text_of(f, "precision"));
	add_model(&text, f);
	add_latents(&text, f);
	add_experts(&text, f);
	add_layout(&text, f);
	add_precision(&text, f);
	add_device(&text, f, gpu);
	add_fusions(&text, f);
	rc = resolve(r->id, text.buf, r, e);
	str_release(&text);
	if (rc < 0)
		return -1;
	r->fp8 = r->plan.shape.fp8.format != FP8_NONE;
	r->seconds = row_seconds(f, &r->plan);
	r->gib = has(f, "mem_kind", "max_allocated") ? number(f, "mem_gib") : 0;
	if (!(r->seconds > 0) || !isfinite(r->seconds))
		return err_set(e, "no time of a step");
	return 0;
}

static bool
is_wanted(const struct rows_wanted *w, const struct fields *f)
{
	const char *gpu = device_of(f);
	bool found = !w->ids || !w->ids->count;

	for (int i = 0; w->ids && i < w->ids->count; i++)
		found |= begins(text_of(f, "id"), w->ids->item[i]);
	return found && (!w->gpu || (gpu && !strcmp(gpu, w->gpu)));
}

/* --- the file --------------------------------------------------------------------------------- */

static int
split(char *line, char *out[FIELDS_MAX])
{
	int n = 0;

	for (char *next = line; next && n < FIELDS_MAX; line = next) {
		next = strchr(line, '\t');
		if (next)
			*next++ = '\0';
		out[n++] = line;
	}
	return n;
}

void
rows_add(struct measured_rows *rows, const struct measured_row *row)
{
	struct measured_row *r;
	struct memory_stages stages;
	int64_t elements, own;

	rows->item = mem_realloc(rows->item, (size_t)++rows->count, sizeof *rows->item);
	r = &rows->item[rows->count - 1];
	*r = *row;
	memory_stages_init(&stages, &r->plan.model, &r->plan.layout, &r->plan.shape);
	memtable_most(&stages, &r->plan.shape, &elements, &own);
	r->owned =
	    operation_owned(&stages, &r->plan.shape, operation_stage(&stages, elements), own);
	memory_stages_release(&stages);
}

static void
add_row(struct measured_rows *rows, struct fields *f, const struct rows_wanted *w)
{
	struct measured_row *r = mem_zalloc(1, sizeof *r);
	struct err e;

	snprintf(r->id, sizeof r->id, "%s", text_of(f, "id"));
	snprintf(r->source, sizeof r->source, "%.*s", (int)strcspn(r->id, "-"), r->id);
	snprintf(r->model, sizeof r->model, "%s", text_of(f, "model"));
	if (has(f, "status", "oom"))
		err_set(&e, "did not fit");
	else if (take(r, f, &e) == 0) {
		rows_add(rows, r);
		free(r);
		return;
	}
	rows->left++;
	if (w->why)
		str_addf(w->why, "%s: left out: %s\n", r->id, e.msg);
	free(r);
}

/* The run of a metrics file. */
static int
read_run(struct measured_rows *rows, const char *path, const struct rows_wanted *w, struct err *e)
{
	const struct report_device none = { .given = false };
	struct report_run run = { .path = NULL };
	struct measured_row *r;
	int rc;

	if (!w->gpu)
		return err_set(e, "--gpu: is needed for the steps of %s", path);
	rc = report_read(&run, path, e);
	if (rc == 0)
		rc = report_plan(&run, NULL, &none, e);
	if (rc == 0 && run.plan.why_not)
		rc = err_set(e, "%s: %s", path, run.plan.why_not);
	if (rc == 0 && run.plan.run.shape.offloaded_layers)
		rc = err_set(e, "%s: saved activations on the host: not fitted", path);
	if (rc == 0) {
		r = mem_zalloc(1, sizeof *r);
		r->plan = run.plan.run;
		snprintf(r->id, sizeof r->id, "run-%d", rows->count + 1);
		snprintf(r->source, sizeof r->source, "run");
		snprintf(r->model, sizeof r->model, "%lld x %lld",
		    (long long)r->plan.model.num_layers, (long long)r->plan.model.hidden_size);
		snprintf(r->gpu, sizeof r->gpu, "%s", w->gpu);
		r->seconds = report_median(run.steps.column[REPORT_SECONDS], run.steps.count);
		rows_add(rows, r);
		free(r);
	}
	report_release(&run);
	return rc;
}

int
rows_read(struct measured_rows *r, const char *path, const struct rows_wanted *w, struct err *e)
{
	size_t length = strlen(path);
	struct fields f = { .count = 0 };
	char *text, *line, *next;

	if (length > 6 && !strcmp(path + length - 6, ".jsonl"))
		return read_run(r, path, w, e);
	if (io_read_regular(path, FILE_MAX, &text, NULL, e) < 0)
		return -1;
	for (line = text; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (*line == '#')
			continue;
		if (!f.count) {
			f.count = split(line, f.name);
			continue;
		}
		memset(f.value, 0, sizeof f.value);
		split(line, f.value);
		if (is_wanted(w, &f))
			add_row(r, &f, w);
	}
	free(text);
	return 0;
}

void
rows_release(struct measured_rows *r)
{
	free(r->item);
	*r = (struct measured_rows){ 0 };
}

struct run_case
rows_case(const struct measured_row *r, const struct hardware *hw)
{
	return (
	    struct run_case){ &r->plan.model, &r->plan.layout, &r->plan.shape, hw, NULL, r->owned };
}

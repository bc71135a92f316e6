/*
 * torch_dist_model.c - the torch_dist format of programs that do not save Megatron-LM's args
 *
 * NeMo 2 and Megatron-Bridge write their own configuration instead, in YAML that names Python's
 * classes. The model is said by a config.json, against which every shape is held; the layout of the
 * run stays unknown. Source: NVIDIA-NeMo/Megatron-Bridge training/{checkpointing,state}.py.
 */
#include "lib/base/io.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/torch_dist_impl.h"
#include "lib/ckpt/torchzip.h"
#include "lib/model/family.h"

#include <stdlib.h>
#include <string.h>

/* A count in the state, a tensor of no dimensions; 0: none. */
static int64_t
count_of(const struct torchzip *z, const char *name)
{
	const struct pickle_value *v = pickle_get(torchzip_root(z), name);
	struct torch_tensor t;
	int32_t small;
	int64_t n = 0;

	if (pickle_int(v, &n))
		return n;
	if (!torch_is_tensor(v) || torchzip_tensor(z, v, &t, NULL) < 0 ||
	    torch_tensor_elements(&t) != 1)
		return 0;
	if (t.dtype == DTYPE_I64)
		memcpy(&n, t.data, sizeof n);
	if (t.dtype == DTYPE_I32) {
		memcpy(&small, t.data, sizeof small);
		n = small;
	}
	return n > 0 ? n : 0;
}

/* The number in the name of the directory; 0: none. */
static int64_t
number_of(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	return strncmp(name, "iter_", 5) ? 0 : strtoll(name + 5, NULL, 10);
}

/* How far the run got. */
static int
take_progress(const struct dist_source *d, struct megatron_run *run, struct err *e)
{
	char path[CKPT_PATH_BYTES];
	struct map file;
	struct torchzip *z;
	struct err why;
	int rc;

	run->iteration = number_of(d->s.path);
	if (!ckpt_join(path, d->s.path, "train_state.pt") || !io_exists(path))
		return 0;
	if (map_open(&file, path, e) < 0)
		return -1;
	z = torchzip_open(file.base, file.size, path, e);
	rc = z ? torchzip_verify(z, &file, &why) : -1;
	if (z && rc < 0)
		err_at(e, path, 0, "%s", why.msg);
	if (rc == 0) {
		run->iteration = count_of(z, "step");
		run->samples = count_of(z, "consumed_train_samples");
		run->valid_samples = count_of(z, "consumed_valid_samples");
	}
	torchzip_close(z);
	map_close(&file);
	return rc;
}

/* Whether the optimizer lies in flat buffers of several ranks, or of ranks that share experts:
 * which tensors one has is not known. */
static bool
has_divided_buffers(const struct dist_source *d)
{
	static const char *const parts[] = { "optimizer.distributed.dp_group_idx_1.",
		"chained_0.optimizer.distributed." };

	for (int i = 0; i < d->dir.d.num_tensors; i++)
		for (int k = 0; k < 2; k++)
			if (!strncmp(d->dir.d.tensor[i].name, parts[k], strlen(parts[k])))
				return true;
	return false;
}

/* Which implementation trained, by the name of the norm before all experts. */
static enum megatron_names
names_of(const struct dist_source *d)
{
	char engine[128], local[128];

	snprintf(engine, sizeof engine, "%sdecoder.layers.pre_mlp_layernorm.weight", d->prefix);
	snprintf(
	    local, sizeof local, "%sdecoder.layers.mlp.linear_fc1.layer_norm_weight", d->prefix);
	return d->args.config.num_experts && !distcp_tensor(&d->dir.d, engine) &&
		distcp_tensor(&d->dir.d, local)
	    ? MEGATRON_LOCAL
	    : MEGATRON_ENGINE;
}

/* How many layers after the head are stored, by the name of a norm of each. */
static int64_t
count_later(const struct dist_source *d)
{
	char name[128];
	int n = -1;

	do
		snprintf(name, sizeof name, "%smtp.layers.%d.enorm.weight", d->prefix, ++n);
	while (n < MODEL_MTP_MAX && distcp_tensor(&d->dir.d, name));
	return n;
}

int
dist_take_model(struct dist_source *d, const char *model, struct megatron_run *run, struct err *e)
{
	const struct megatron_args one = { .vocab_known = true,
		.tensor_ranks = 1,
		.stages = 1,
		.chunks = 1,
		.expert_ranks = 1,
		.slices = 1,
		.data_ranks = 1,
		.context_ranks = 1,
		.dtype = DTYPE_NONE };

	d->args = one;
	if (!family_read_config(model, &d->args.config, NULL, e))
		return -1;
	d->args.config.mtp_num_layers = count_later(d);
	d->args.padded_vocab_size = d->args.config.vocab_size;
	d->s.layout = (struct layout){ 1, 1, 1, 1 };
	d->names = names_of(d);
	d->said_by = "config.json";
	d->needs = "config.json needs";
	d->divided = has_divided_buffers(d);
	return take_progress(d, run, e);
}

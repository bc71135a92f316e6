/* plans.c - parameters and memory of a dozen runs equal those of tests/golden/plans.txt, to the
 * byte; with an argument they are printed, to update the file after a deliberate change */
#include "lib/base/mem.h"
#include "lib/model/family.h"
#include "lib/model/memory.h"
#include "tests/check.h"
#include "tests/sized_model.h"

#define ADAM &optim_rules[0]
#define SGD &optim_rules[1]

/* A Llama of four layers. */
static void
llama(struct model_config *c)
{
	c->normalization = NORMALIZATION_RMSNORM;
	c->activation = ACTIVATION_SWIGLU;
	c->position = POSITION_ROPE;
	c->num_query_groups = 2;
	c->untie_embeddings_and_output_weights = true;
}

/* A GPT-2 of four layers. */
static void
gpt2(struct model_config *c)
{
	c->normalization = NORMALIZATION_LAYERNORM;
	c->activation = ACTIVATION_GELU_TANH;
	c->position = POSITION_LEARNED;
	c->qkv_bias = c->proj_bias = c->mlp_bias = true;
	c->hidden_dropout = 0.1;
}

/* Gated, with the biases of the MLP alone; a LayerNorm, and one table. */
static void
mixed(struct model_config *c)
{
	llama(c);
	c->normalization = NORMALIZATION_LAYERNORM;
	c->activation = ACTIVATION_GEGLU_TANH;
	c->mlp_bias = true;
	c->untie_embeddings_and_output_weights = false;
}

/* Norms of the heads of q and k, which subtract the mean. */
static void
qk_norms(struct model_config *c)
{
	mixed(c);
	c->qk_layernorm = true;
}

static const struct run {
	const char *name;
	void (*model)(struct model_config *);
	struct layout layout;
	struct train_shape shape;
} runs[] = {
	{ "llama", llama, { 1, 1, 1, 1 }, { 32, 2, 1, DTYPE_BF16, SHARDING_OPTIM, ADAM, 0 } },
	{ "llama fp32 sgd", llama, { 1, 1, 1, 1 }, { 32, 2, 1, DTYPE_F32, SHARDING_NONE, SGD, 0 } },
	{ "llama tp4 dp2", llama, { 4, 1, 2, 1 },
	    { 32, 1, 2, DTYPE_BF16, SHARDING_OPTIM, ADAM, 0, .deterministic = true } },
	{ "llama pp4", llama, { 1, 1, 1, 4 }, { 32, 2, 8, DTYPE_BF16, SHARDING_OPTIM, ADAM, 0 } },
	{ "llama dp4 zero-2", llama, { 1, 1, 4, 1 },
	    { 32, 1, 1, DTYPE_BF16, SHARDING_GRADS, ADAM, 0, .bucket_size = 40000 } },
	{ "llama dp2 tp2 zero-3", llama, { 2, 1, 2, 1 },
	    { 32, 1, 1, DTYPE_F16, SHARDING_PARAMS, ADAM, 0, .bucket_size = 40000 } },
	{ "llama evaluation", llama, { 1, 1, 1, 1 },
	    { 32, 2, 1, DTYPE_BF16, SHARDING_OPTIM, ADAM, 1 } },
	{ "gpt2", gpt2, { 1, 1, 1, 1 }, { 32, 2, 1, DTYPE_F64, SHARDING_OPTIM, ADAM, 0 } },
	{ "gpt2 tp2 pp2 selective", gpt2, { 2, 1, 1, 2 },
	    { 32, 2, 4, DTYPE_BF16, SHARDING_OPTIM, ADAM, 0, { RECOMPUTE_SELECTIVE, 0, 1 } } },
	{ "gpt2 full by 3", gpt2, { 1, 1, 1, 1 },
	    { 32, 2, 1, DTYPE_BF16, SHARDING_OPTIM, ADAM, 0,
		{ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 3 } } },
	{ "mixed", mixed, { 1, 1, 1, 1 },
	    { 32, 2, 1, DTYPE_BF16, SHARDING_OPTIM, ADAM, 0, .reset_attention_mask = true } },
	{ "mixed tp2 pp2 blocks", mixed, { 2, 1, 1, 2 },
	    { 32, 2, 4, DTYPE_BF16, SHARDING_OPTIM, ADAM, 0,
		{ RECOMPUTE_FULL, RECOMPUTE_BLOCK, 1 } } },
	{ "llama tp4 sequence parallel", llama, { 4, 1, 1, 1, true },
	    { 32, 1, 2, DTYPE_BF16, SHARDING_OPTIM, ADAM, 0, { RECOMPUTE_SELECTIVE, 0, 1 } } },
	{ "gpt2 tp2 pp2 sequence parallel", gpt2, { 2, 1, 1, 2, true },
	    { 32, 2, 4, DTYPE_BF16, SHARDING_OPTIM, ADAM, 0, .tp_comm_overlap = true } },
	{ "qk norms tp4", qk_norms, { 4, 1, 1, 1 },
	    { 32, 2, 1, DTYPE_BF16, SHARDING_OPTIM, ADAM, 0, { RECOMPUTE_SELECTIVE, 0, 1 } } },
};

/* The model of a run. */
static struct model_config
model_of(const struct run *r)
{
	struct model_config c = sized_model((struct model_sizes){ 4, 64, 8, 8, 176, 32, 500 });
	struct err e;

	c.init_method_std = 0.02;
	r->model(&c);
	CHECK(model_check(&c, &e) == 0);
	return c;
}

/* The shards of a rank and their places: those of its first layer, which the others repeat, and
 * those outside the layers. */
static void
print_shards(FILE *f, const struct param *table, const struct memory_plan *m, int num_layers)
{
	int first_layer = num_layers;

	for (int i = m->num_blocks; i-- > 0;)
		if (m->block[i].layer >= 0)
			first_layer = m->block[i].layer;
	for (int i = 0; i < m->shards.count; i++) {
		const struct shard *s = &m->shards.item[i];
		const struct param *p = &table[s->param];

		if (p->layer > first_layer && p->layer < num_layers)
			continue;
		fprintf(f, "%s\t%lld %lld\t%d %d\t%u %u %u\t%.6g %g\t%lld\t%lld\n", p->name,
		    (long long)p->shape[0], (long long)p->shape[1], (int)p->shard, p->shard_dim,
		    p->flags, p->sums.plain, p->sums.with_sequence_parallel, p->init_std,
		    p->init_value, (long long)s->offset, (long long)s->count);
	}
}

/* The places of a rank's buffers. */
static void
print_buffers(FILE *f, const struct memory_plan *m)
{
	for (int i = 0; i < m->num_buffers; i++) {
		const struct buffer *b = &m->buffer[i];

		if (b->bytes)
			fprintf(f, "%s\t%s\t%lld %lld\t%d %d %d\t%llu\n", b->name,
			    dtype_name(b->dtype), (long long)b->shape[0], (long long)b->shape[1],
			    b->vector, (int)b->place, b->level == LAYER,
			    (unsigned long long)b->offset);
	}
	fprintf(f, "arenas\t%llu %llu %llu\tlayers\t%llu %llu %llu\n",
	    (unsigned long long)m->arena[0], (unsigned long long)m->arena[1],
	    (unsigned long long)m->arena[2], (unsigned long long)m->layer_bytes,
	    (unsigned long long)m->layer_base, (unsigned long long)m->recompute_base);
}

/* The first rank of each stage of a run. */
static void
print_run(FILE *f, const struct run *r)
{
	struct model_config c = model_of(r);
	struct param *table;
	struct err e;

	CHECK(layout_check(&r->layout, &c, &e) == 0);
	model_params(&c, &table);
	for (int stage = 0; stage < r->layout.pipeline_model_parallel_size; stage++) {
		int coord[AX_COUNT] = { [AX_PP] = stage };
		struct memory_plan m;

		memory_plan(&m, &c, &r->layout, &r->shape, coord);
		fprintf(f, "\n%s, stage %d\n", r->name, stage);
		print_shards(f, table, &m, (int)c.num_layers);
		print_buffers(f, &m);
		memory_release(&m);
	}
	free(table);
}

/* Line by line, so that a failure names the first difference. */
static void
compare(FILE *have, FILE *want)
{
	char a[256], b[256];
	int line = 0;
	const char *x, *y;

	do {
		x = fgets(a, sizeof a, have);
		y = fgets(b, sizeof b, want);
		line++;
		if (!x != !y || (x && strcmp(x, y))) {
			fprintf(stderr, "line %d: %shas to be: %s", line, x ? a : "end\n",
			    y ? b : "end\n");
			CHECK(!"the plan is that of tests/golden/plans.txt");
			return;
		}
	} while (x);
	CHECK(line > 100);
}

int
main(int argc, char **argv)
{
	FILE *have = argc > 1 ? stdout : tmpfile(), *want;

	(void)argv;
	for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
		print_run(have, &runs[i]);
	if (argc > 1)
		return 0;
	want = fopen("tests/golden/plans.txt", "r");
	if (!want) {
		perror("tests/golden/plans.txt");
		return 1;
	}
	rewind(have);
	compare(have, want);
	fclose(have);
	fclose(want);
	return check_done();
}

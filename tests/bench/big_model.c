/*
 * big_model.c DIR LAYERS [ROWS [SEED [states]]] - a Hugging Face directory of the widths of Llama 3
 * 8B, for benchmarks of checkpoints
 *
 * config.json and one file of BF16 weights, random bits below 2: nothing in it is sparse, and
 * nothing compresses. ROWS of the vocabulary are 128,256 unless given; another SEED gives other
 * weights. With `states` it is a checkpoint of normal numbers, masters in FP32 and both moments.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/rng.h"
#include "lib/ckpt/safetensors.h"
#include "lib/model/family.h"
#include "tests/made_checkpoint.h"

#include <stdlib.h>

enum { CHUNK = 1 << 20 }; /* elements written at once */

/* Ends the program unless rc is 0. */
static void
need(int rc, const struct err *e)
{
	if (rc == 0)
		return;
	fprintf(stderr, "%s\n", e->msg);
	exit(1);
}

static struct model_config
llama(int64_t layers, int64_t rows)
{
	struct model_config c;

	family_defaults(&c);
	c.num_layers = layers;
	c.hidden_size = 4096;
	c.ffn_hidden_size = 14336;
	c.num_attention_heads = 32;
	c.num_query_groups = 8;
	c.kv_channels = 128;
	c.max_position_embeddings = 8192;
	c.vocab_size = rows;
	c.normalization = NORMALIZATION_RMSNORM;
	c.norm_epsilon = 1e-5;
	c.activation = ACTIVATION_SWIGLU;
	c.position = POSITION_ROPE;
	c.rotary_base = 500000;
	c.untie_embeddings_and_output_weights = true;
	return c;
}

/* Finite numbers of both signs: the highest bit of the exponent stays 0. */
static void
draw(uint16_t *x, int64_t n, uint64_t *state)
{
	for (int64_t i = 0; i < n; i += 4) {
		uint64_t bits;

		*state ^= *state << 13;
		*state ^= *state >> 7;
		*state ^= *state << 17;
		bits = *state & 0xbfffbfffbfffbfff;
		memcpy(x + i, &bits, sizeof bits);
	}
}

static void
write_weights(
    const struct model_config *c, const struct family *f, const char *path, uint64_t state)
{
	uint16_t *x = mem_alloc(CHUNK, sizeof *x);
	struct safetensors_writer *w;
	struct param *p;
	struct err e;
	int n = model_params(c, &p);

	w = safetensors_writer_new(path, &e);
	need(w ? 0 : -1, &e);
	for (int i = 0; i < n; i++) {
		struct family_place at;

		need(family_place(f, c, &p[i], &at, &e), &e);
		safetensors_declare(w, at.name, DTYPE_BF16, at.ndim, at.shape);
	}
	for (int i = 0; i < n; i++)
		for (int64_t left = param_elements(&p[i]), k; left > 0; left -= k) {
			k = left < CHUNK ? left : CHUNK;
			draw(x, k, &state);
			need(safetensors_write(w, x, (size_t)k * sizeof *x, &e), &e);
		}
	need(safetensors_commit(w, &e), &e);
	free(x);
	free(p);
}

static void
write_directory(const struct model_config *c, const char *dir, uint64_t seed)
{
	const struct family *f = family_find("llama");
	struct str config = { 0 };
	char path[1100];
	struct err e;

	need(io_mkdir_p(dir, &e), &e);
	family_write_config(f, c, "bfloat16", &config);
	snprintf(path, sizeof path, "%s/config.json", dir);
	need(outfile_write(path, config.buf, config.len, &e), &e);
	str_release(&config);
	snprintf(path, sizeof path, "%s/model.safetensors", dir);
	write_weights(c, f, path, 20261123 + seed);
}

int
main(int argc, char **argv)
{
	struct model_config c = llama(argc > 2 ? strtoll(argv[2], NULL, 10) : 1,
	    argc > 3 ? strtoll(argv[3], NULL, 10) : 128256);
	uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
	struct made_checkpoint m = { .save = argv[1],
		.config = &c,
		.iteration = 7,
		.dtype = DTYPE_F32,
		.states = optim_num_states(optim_rules),
		.seed = seed };
	struct err e;

	if (argc < 3 || argc > 6 || (argc == 6 && strcmp(argv[5], "states"))) {
		fprintf(stderr, "usage: big_model DIR LAYERS [ROWS [SEED [states]]]\n");
		return 2;
	}
	if (argc == 6)
		need(made_write(&m, &e), &e);
	else
		write_directory(&c, argv[1], seed);
	return 0;
}

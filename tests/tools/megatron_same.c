/*
 * megatron_same.c - megatron_same EXPECTED.safetensors DIR: whether a model and its optimizer's
 * states are, bit for bit, those that Megatron-LM had
 *
 * EXPECTED has Megatron-LM's whole tensors: NAME, and with an optimizer fp32_param/NAME,
 * exp_avg/NAME and exp_avg_sq/NAME. The places of rows in them are computed here independently.
 * Prints how many tensors were equal; exit 1 with the first that is not.
 */
#include "lib/ckpt/megatron.h"
#include "lib/ckpt/safetensors.h"
#include "lib/ckpt/source.h"

#include <stdlib.h>
#include <string.h>

/* The row of Megatron-LM's tensor that holds row i of a parameter. */
static int64_t
row_of(const struct param *p, const struct model_config *c, int64_t i)
{
	int64_t d = c->kv_channels, rep = c->num_attention_heads / c->num_query_groups,
		group = (rep + 2) * d;

	if (strstr(p->in_layer, "linear_q."))
		return i / (rep * d) * group + i % (rep * d);
	if (strstr(p->in_layer, "linear_k."))
		return i / d * group + rep * d + i % d;
	if (strstr(p->in_layer, "linear_v."))
		return i / d * group + (rep + 1) * d + i % d;
	if (!strstr(p->in_layer, "linear_up.") || strstr(p->in_layer, "shared") || !model_gated(c))
		return i;
	return i + (p->expert < 0 ? c->ffn_hidden_size : c->moe_ffn_hidden_size);
}

/* Whether the source has the expected numbers of a parameter, in the expected type. */
static bool
same(struct source *s, const struct param *p, const char *state, const struct safetensors_entry *t)
{
	const struct source_part part = { p, state, 0, slice_whole(p->ndim, p->shape) };
	int64_t n = slice_elements(&part.slice), rows = p->shape[0];
	size_t width = (size_t)(n / rows) * dtype_size(t->dtype);
	char *bytes = malloc((size_t)rows * width);
	bool equal = source_dtype(s, p, state) == t->dtype;
	struct err e;

	if (equal && source_read(s, &part, t->dtype, bytes, &e) < 0) {
		fprintf(stderr, "megatron_same: %s\n", e.msg);
		equal = false;
	}
	for (int64_t i = 0; equal && i < rows; i++)
		equal = !memcmp(bytes + (size_t)i * width,
		    (const char *)t->data + (size_t)row_of(p, &s->config, i) * width, width);
	free(bytes);
	return equal;
}

/* A parameter is its master where there is one. Adds 1 to *count for a tensor that is equal. */
static bool
check(struct source *s, const struct safetensors *x, const char *key, int i, int *count)
{
	static const char *const states[] = { NULL, "exp_avg", "exp_avg_sq" };

	for (int k = 0; k < 3; k++) {
		const struct safetensors_entry *t;
		char name[200];

		snprintf(name, sizeof name, "%s/%s", k ? states[k] : "fp32_param", key);
		t = safetensors_find(x, name);
		if (!t && k == 0)
			t = safetensors_find(x, key);
		if (!t && k > 0)
			continue;
		if (!t || !same(s, &s->param[i], states[k], t)) {
			fprintf(stderr, "megatron_same: '%s' differs\n", name);
			return false;
		}
		++*count;
	}
	return true;
}

int
main(int argc, char **argv)
{
	struct megatron_map map = { 0 };
	struct safetensors *x;
	struct source *s;
	struct err e;
	int count = 0, equal = 1;

	if (argc != 3 || !(x = safetensors_open(argv[1], &e)) || !(s = source_open(argv[2], &e)) ||
	    source_require(s, &e) < 0 ||
	    megatron_map_init(&map,
		&(struct megatron_model){
		    &s->config, s->param, s->count, MEGATRON_ENGINE, s->config.vocab_size },
		&e) < 0) {
		fprintf(stderr, "megatron_same: %s\n", argc == 3 ? e.msg : "usage: A B");
		return 2;
	}
	for (int i = 0; i < s->count && equal; i++) {
		const struct megatron_tensor *t = &map.tensor[map.rows[i].tensor];
		char key[128];

		megatron_key(t, 0, 0, key);
		equal = check(s, x, key, i, &count);
	}
	if (equal)
		printf("%d equal\n", count);
	megatron_map_release(&map);
	source_close(s);
	safetensors_close(x);
	return !equal;
}

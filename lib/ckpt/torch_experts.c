/*
 * torch_experts.c - experts in the first form of --moe-grouped-gemm
 *
 *   decoder.layers.N.mlp.experts.weight1   [hidden, experts x 2 ffn] by its shape
 *   decoder.layers.N.mlp.experts.weight2   [experts x ffn, hidden]
 *
 * of the experts of a rank. Their bytes are [experts, hidden, 2 ffn] and [experts, ffn, hidden],
 * whatever the shapes say, and the matrix of an expert is the transpose of its slab. Source:
 * GroupedMLP of Megatron-LM core/transformer/moe/experts.py, up to core 0.14.
 */
#include "lib/ckpt/torch_impl.h"

#include <stdio.h>
#include <string.h>

#define GROUPED ".mlp.experts.weight"

bool
torch_is_grouped(const char *key)
{
	const char *at = strstr(key, GROUPED);

	return at && (!strcmp(at, GROUPED "1") || !strcmp(at, GROUPED "2"));
}

void
torch_grouped_name(const char *key, int64_t expert, char out[128])
{
	const char *at = strstr(key, GROUPED);

	snprintf(out, 128, "%.*s.mlp.experts.local_experts.%lld.linear_fc%s.weight",
	    (int)(at - key), key, (long long)expert, at + strlen(GROUPED));
}

int
torch_grouped_expert(
    const char *key, const struct torch_tensor *x, const int64_t which[2], struct torch_tensor *out)
{
	bool first = key[strlen(key) - 1] == '1';
	int64_t n = which[1], rows, columns; /* of a slab */

	if (x->ndim != 2 || x->stride[1] != 1 || x->stride[0] != x->shape[1] ||
	    x->shape[first] % n != 0)
		return -1;
	rows = first ? x->shape[0] : x->shape[0] / n;
	columns = first ? x->shape[1] / n : x->shape[1];
	*out = (struct torch_tensor){ .dtype = x->dtype,
		.ndim = 2,
		.shape = { columns, rows },
		.stride = { 1, columns },
		.data = x->data + (size_t)(which[0] * rows * columns) * dtype_size(x->dtype),
		.storage = x->storage };
	return 0;
}

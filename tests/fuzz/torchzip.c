/* torchzip.c - fuzz target: any bytes as a file of torch.save; of what is accepted every tensor is
 * read */
#include "lib/ckpt/torchzip.h"

#include <stdlib.h>

enum { DEPTH = 6 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_tensor(const struct torchzip *z, const struct pickle_value *v)
{
	struct torch_tensor t;
	struct slice box;
	struct err e;
	void *bytes;

	if (torchzip_tensor(z, v, &t, &e) < 0)
		return;
	box = slice_whole(t.ndim, t.shape);
	(void)torch_tensor_check(&t, &e);
	bytes = malloc((size_t)torch_tensor_elements(&t) * dtype_size(t.dtype) + 1);
	torch_tensor_read(&t, &box, bytes);
	free(bytes);
}

/* Visits at most `left` values: what a pickle shares is reached on many ways. */
static void
visit(const struct torchzip *z, const struct pickle_value *v, int depth, int *left)
{
	if (!v || depth > DEPTH || --*left < 0)
		return;
	torch_dtype(v);
	if (torch_is_tensor(v))
		read_tensor(z, v);
	for (uint32_t i = 0; pickle_item(v, i); i++)
		visit(z, pickle_item(v, i), depth + 1, left);
	for (uint32_t i = 0; v->type == PICKLE_DICT && i < v->len; i++)
		visit(z, v->pair[i].value, depth + 1, left);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e;
	struct torchzip *z = torchzip_open(data, size, "fuzz", &e);
	int left = 200;

	if (z) {
		visit(z, torchzip_root(z), 0, &left);
		torchzip_verify(z, NULL, &e);
	}
	torchzip_close(z);
	return 0;
}

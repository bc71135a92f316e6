/* distcp.c - fuzz target: any bytes as the metadata of torch.distributed.checkpoint */
#include "lib/ckpt/distcp.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was accepted is found by its name, and its files are in the table. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct distcp d;
	struct err e;

	if (distcp_parse(&d, data, size, "fuzz", &e) == 0) {
		for (int i = 0; i < d.num_tensors; i++) {
			const struct ckpt_tensor *t = &d.tensor[i];

			if (distcp_tensor(&d, t->name) != t)
				__builtin_trap();
			for (int k = 0; k < t->num_pieces; k++)
				if (t->piece[k].file < 0 || t->piece[k].file >= d.num_files)
					__builtin_trap();
		}
		for (int i = 0; i < d.num_objects; i++)
			if (distcp_object(&d, d.object[i].name) != &d.object[i])
				__builtin_trap();
	}
	distcp_release(&d);
	return 0;
}

/* hf_bin.c - fuzz target: any bytes as a pytorch_model.bin; of what is accepted every tensor is
 * read */
#include "lib/base/io.h"
#include "lib/ckpt/hf_bin.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("bin", 0);
	struct hf_bin *b;
	char path[64];
	struct err e;

	if (fd < 0 || io_write_all(fd, data, size) < 0)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	b = hf_bin_open(path, &e);
	close(fd);

	for (int i = 0; b && i < hf_bin_count(b) && i < 200; i++) {
		const struct hf_bin_entry *t = hf_bin_at(b, i);
		struct slice box = slice_whole(t->tensor.ndim, t->tensor.shape);
		void *bytes;

		if (t->why)
			continue;
		bytes = malloc(
		    (size_t)torch_tensor_elements(&t->tensor) * dtype_size(t->tensor.dtype) + 1);
		torch_tensor_read(&t->tensor, &box, bytes);
		free(bytes);
	}
	if (b)
		hf_bin_verify(b, &e);
	hf_bin_close(b);
	return 0;
}

/* npy.c - fuzz target of the .npy reader */
#include "lib/base/io.h"
#include "lib/format/npy.h"

#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[] = "/tmp/mikoshi-fuzz-XXXXXX";
	int fd = mkstemp(path);
	unsigned sum = 0;
	struct npy a;

	if (fd < 0 || io_write_all(fd, data, size) < 0)
		abort();
	close(fd);
	if (npy_open(&a, path, NULL) == 0) {
		const unsigned char *p = a.data;

		for (int64_t i = 0; i < a.count * (int64_t)dtype_size(a.dtype); i++)
			sum += p[i];
		npy_close(&a);
	}
	unlink(path);
	return sum == 1 && size == 0;
}

/* safetensors.c - fuzz target: any bytes as a safetensors file; what is accepted is read to its
 * last byte */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/format/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	char path[64];
	struct safetensors *s = NULL;
	struct err e;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fd >= 0 && io_write_all(fd, data, size) == 0)
		s = safetensors_open(path, &e);
	for (int i = 0; s && i < safetensors_count(s); i++) {
		const struct safetensors_entry *t = safetensors_at(s, i);

		hash_xxh3(t->data, t->bytes);
		if (safetensors_find(s, t->name) != t)
			__builtin_trap();
	}
	if (s)
		safetensors_metadata(s, "format");
	safetensors_close(s);
	close(fd);
	return 0;
}

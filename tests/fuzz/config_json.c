/* config_json.c - fuzz target: Hugging Face's config.json; an accepted config is written and read
 * back */
#include "lib/base/io.h"
#include "lib/model/family.h"
#include "lib/model/fields.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads the bytes as a config.json, through a file in memory. */
static const struct family *
read_bytes(const void *bytes, size_t size, struct model_config *c)
{
	int fd = memfd_create("config", 0);
	const struct family *f = NULL;
	char path[64];
	struct err e;

	if (fd < 0 || io_write_all(fd, bytes, size) < 0)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	f = family_read_config(path, c, NULL, &e);
	close(fd);
	return f;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model_config c, again;
	const struct family *f = read_bytes(data, size, &c);
	struct str s = { 0 }, first = { 0 }, second = { 0 };

	if (!f)
		return 0;
	family_write_config(f, &c, "bfloat16", &s);
	if (read_bytes(s.buf, s.len, &again) != f)
		abort();
	model_dump(&c, &first);
	model_dump(&again, &second);
	if (strcmp(first.buf, second.buf))
		abort();
	str_release(&s);
	str_release(&first);
	str_release(&second);
	return 0;
}

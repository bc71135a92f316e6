/* manifest.c - fuzz target: any bytes as a manifest, and with their checksum appended, which few
 * inputs would have right; an accepted manifest is printed and read back unchanged */
#include "lib/ckpt/manifest.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
round_trip(const char *data, size_t size)
{
	struct manifest m, again;
	struct str a = { 0 }, b = { 0 };
	struct err e;

	if (manifest_parse(&m, data, size, "fuzz", &e) < 0)
		return;
	manifest_print(&m, &a);
	if (manifest_parse(&again, a.buf, a.len, "fuzz", &e) < 0)
		__builtin_trap();
	manifest_print(&again, &b);
	if (strcmp(a.buf, b.buf))
		__builtin_trap();
	manifest_release(&m);
	manifest_release(&again);
	str_release(&a);
	str_release(&b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str sealed = { 0 };

	round_trip((const char *)data, size);
	str_add(&sealed, (const char *)data, size);
	manifest_print_end(&sealed, MANIFEST_VERSION);
	round_trip(sealed.buf, sealed.len);
	str_release(&sealed);
	return 0;
}

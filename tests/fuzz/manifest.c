/* manifest.c - fuzz target: any bytes as a manifest; what is accepted is printed and accepted
 * again, unchanged */
#include "lib/format/manifest.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct manifest m, again;
	struct str a = { 0 }, b = { 0 };
	struct err e;

	if (manifest_parse(&m, (const char *)data, size, "fuzz", &e) < 0)
		return 0;
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
	return 0;
}

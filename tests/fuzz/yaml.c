/* yaml.c - fuzz target: a YAML file with options */
#include "lib/script/script.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script_request r = { .name = "fuzz.yaml" };
	char *text = mem_strndup((const char *)data, size);
	struct script s;
	struct err e;

	if (script_read_text(&s, &r, text, &e) < 0 && strncmp(e.msg, "fuzz.yaml:", 10) != 0)
		abort();
	script_release(&s);
	free(text);
	return 0;
}

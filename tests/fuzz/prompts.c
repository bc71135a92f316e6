/* prompts.c - fuzz target: any bytes as prompts, each of which is whole or wrong */
#include "lib/data/prompts.h"
#include "lib/base/json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One of the two kinds, and its numbers in their ranges. */
static void
check(const struct prompt *p)
{
	struct err e;
	struct json *id = json_parse(p->id, strlen(p->id), "id", &e);

	if (!id)
		abort();
	json_free(id);
	if (!p->wrong && (!p->text == !p->ids || (p->ids && p->num_ids == 0)))
		abort();
	if (!p->wrong && (p->max_tokens < 0 || p->seed < -1 || p->seed > UINT32_MAX))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct prompts p;

	prompts_parse(&p, (const char *)data, size);
	for (int64_t i = 0; i < p.count; i++) {
		if (i > 0 && p.item[i].line <= p.item[i - 1].line)
			abort();
		check(&p.item[i]);
	}
	prompts_release(&p);
	return 0;
}

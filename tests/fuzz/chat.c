/* chat.c - fuzz target: any bytes as a chat format, or as a line of each form; ranges and marks of
 * a line that is read lie in it in order */
#include "lib/base/mem.h"
#include "tests/fuzz/input.h"
#include "tok/chat.h"

static const char format[] = "{\"start\": \"<s>\", \"strip\": true, \"roles\": {"
			     "\"user\": {\"before\": \"U\", \"after\": \"\\n\", \"train\": false}, "
			     "\"bot\": {\"before\": \"B\", \"after\": \"</s>\", \"train\": true}}}";

/* A line that is well-formed JSON, as chat_read asks for it. */
static void
read_line(const struct chat *c, const char *line, size_t len, struct chat_line *l)
{
	size_t last = 0;

	if (chat_read(c, line, len, l) != JSONL_OK)
		return;
	for (size_t i = 0; i < l->count; i++)
		if (l->mark[i] > 1)
			abort();
	for (size_t i = 0; i < l->ranges; i++) {
		if (l->range[i].begin < last || l->range[i].end <= l->range[i].begin ||
		    l->range[i].end > l->text.len)
			abort();
		last = l->range[i].end;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *names[] = { "text", "mask", "extra" };
	static struct input table;
	const char *path = input_file(&table, format, sizeof format - 1);
	struct chat_config forms[] = { { .mask_key = names[1] }, { .segments = true },
		{ .spans_key = names[1] },
		{ .format = path, .ignore = { 1, names + 2 }, .allow_control = true } };
	struct jsonl *j = jsonl_new(&(struct opt_list){ 0 }, INT64_MAX);
	bool whole = jsonl_parse(j, (const char *)data, size) == JSONL_OK;
	struct chat_line l = { 0 };
	struct err e;

	for (size_t i = 0; i < sizeof forms / sizeof *forms && whole; i++) {
		struct chat *c = chat_open(&forms[i], "text", NULL, &e);

		if (!c)
			abort();
		read_line(c, (const char *)data, size, &l);
		chat_close(c);
	}
	chat_line_release(&l);
	jsonl_free(j);
	chat_table_free(chat_table_parse((const char *)data, size, "table", &e));
	return 0;
}

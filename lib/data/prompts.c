/* prompts.c - prompts as JSON Lines */
#include "lib/data/prompts.h"
#include "lib/base/str.h"
#include "lib/data/json_lines.h"

#include <stdlib.h>

enum { MAX_TOKENS = 1 << 30 };

/* A list of whole numbers. */
static int
read_ids(struct prompts *p, const struct json_value *v, struct prompt *out, struct err *e)
{
	int64_t *ids = mem_pool_alloc(&p->pool, v->len + 1, sizeof *ids);

	for (size_t i = 0; i < v->len; i++) {
		if (v->item[i].type != JSON_INT)
			return err_set(e, "input_ids[%zu]: must be a token id", i);
		ids[i] = v->item[i].integer;
	}
	out->ids = ids;
	out->num_ids = v->len;
	return v->len ? 0 : err_set(e, "input_ids: must not be empty");
}

/* What is continued: the one of the two. */
static int
read_prompt(struct prompts *p, const struct json_value *line, struct prompt *out, struct err *e)
{
	const struct json_value *text = json_get(line, "prompt"),
				*ids = json_get(line, "input_ids");

	if (!text == !ids)
		return err_set(e, "needs one of \"prompt\" and \"input_ids\"");
	if (ids)
		return ids->type == JSON_ARRAY
		    ? read_ids(p, ids, out, e)
		    : err_set(e, "input_ids: must be a list of token ids");
	if (text->type != JSON_STRING)
		return err_set(e, "prompt: must be a string");
	out->text = mem_pool_strndup(&p->pool, text->string, text->len);
	out->len = text->len;
	return 0;
}

/* What a line may have. */
static const char *const members[] = { "prompt", "input_ids", "id", "max_tokens", "seed", NULL };

static int
read_line(struct prompts *p, const struct json_value *line, struct prompt *out, struct err *e)
{
	if (line->type != JSON_OBJECT)
		return err_set(e, "must be an object");
	if (json_lines_id(line, &p->pool, &out->id, e) < 0 ||
	    json_lines_members(line, members, "a prompt", e) < 0 ||
	    read_prompt(p, line, out, e) < 0 ||
	    json_int(line, "max_tokens", 0, &out->max_tokens, e) < 0 ||
	    json_int(line, "seed", -1, &out->seed, e) < 0)
		return -1;
	if (json_get(line, "max_tokens") && (out->max_tokens < 1 || out->max_tokens > MAX_TOKENS))
		return err_set(e, "max_tokens: must be from 1 to %d", MAX_TOKENS);
	return !json_get(line, "seed") || (out->seed >= 0 && out->seed <= UINT32_MAX)
	    ? 0
	    : err_set(e, "seed: must be from 0 to 4294967295");
}

/* What is wrong is told of the prompt, which keeps its place among the others. */
static void
add_line(struct prompts *p, const char *text, size_t len, int64_t number)
{
	struct prompt *out;
	struct str words = { 0 };
	struct err e;
	struct json *j;

	if (p->count % 64 == 0)
		p->item = mem_realloc(p->item, (size_t)p->count + 64, sizeof *p->item);
	out = &p->item[p->count];
	*out = (struct prompt){ .seed = -1, .line = number };
	str_addf(&words, "%lld", (long long)p->count++);
	out->id = mem_pool_strndup(&p->pool, words.buf, words.len);
	j = json_parse(text, len, NULL, &e);
	if (!j || read_line(p, json_root(j), out, &e) < 0)
		out->wrong = mem_pool_strndup(&p->pool, e.msg, strlen(e.msg));
	json_free(j);
	str_release(&words);
}

void
prompts_parse(struct prompts *p, const char *text, size_t len)
{
	struct json_lines l = { text, text + len, 0 };
	const char *line;
	size_t n;

	*p = (struct prompts){ 0 };
	while (json_lines_next(&l, &line, &n))
		add_line(p, line, n, l.number);
}

void
prompts_release(struct prompts *p)
{
	free(p->item);
	mem_pool_release(&p->pool);
	*p = (struct prompts){ 0 };
}

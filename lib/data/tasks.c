/* tasks.c - questions as JSON Lines */
#include "lib/data/tasks.h"
#include "lib/base/utf8.h"
#include "lib/data/json_lines.h"

#include <stdlib.h>

/* What a line of each type may have. */
static const char *const members[TASK_TYPES][9] = {
	{ "task", "id", "type", "context", "contexts", "continuations", "choices", "gold" },
	{ "task", "id", "type", "context", "continuation" },
	{ "task", "id", "type", "text", "bytes", "words" },
};

static const char *const type_names[TASK_TYPES] = { "multiple_choice", "loglikelihood",
	"loglikelihood_rolling" };

static struct task_text
keep(struct tasks *t, const struct json_value *v)
{
	return (struct task_text){ mem_pool_strndup(&t->pool, v->string, v->len), v->len };
}

static int
read_text(struct tasks *t, const struct json_value *line, const char *key, struct task_text *out,
    struct err *e)
{
	const struct json_value *v = json_get(line, key);

	if (!v || v->type != JSON_STRING)
		return err_set(e, "%s: must be a string", key);
	*out = keep(t, v);
	return 0;
}

/* A list of strings, `count` of them; -1: any number but 0. */
static const struct json_value *
text_list(const struct json_value *line, const char *key, int64_t count, struct err *e)
{
	const struct json_value *v = json_get(line, key);

	if (!v || v->type != JSON_ARRAY || v->len == 0) {
		err_set(e, "%s: must be a list of strings, not empty", key);
		return NULL;
	}
	for (size_t i = 0; i < v->len; i++)
		if (v->item[i].type != JSON_STRING) {
			err_set(e, "%s[%zu]: must be a string", key, i);
			return NULL;
		}
	if (count < 0 || (int64_t)v->len == count)
		return v;
	err_set(e, "%s: %zu strings: must be as many as the %lld continuations", key, v->len,
	    (long long)count);
	return NULL;
}

static int
add_gold(struct task_item *item, const struct json_value *v, struct err *e)
{
	if (v->type != JSON_INT || v->integer < 0 || v->integer >= item->num_pairs)
		return err_set(e, "gold: must be the number of a choice, from 0 to %lld",
		    (long long)item->num_pairs - 1);
	item->gold[item->num_gold++] = v->integer;
	return 0;
}

static int
read_gold(struct tasks *t, const struct json_value *line, struct task_item *item, struct err *e)
{
	const struct json_value *v = json_get(line, "gold");
	bool list = v && v->type == JSON_ARRAY;

	if (!v || (list && v->len == 0))
		return err_set(e, "gold: must be the number of a choice, or a list of them");
	item->gold = mem_pool_alloc(&t->pool, list ? v->len : 1, sizeof *item->gold);
	for (size_t i = 0; list && i < v->len; i++)
		if (add_gold(item, &v->item[i], e) < 0)
			return -1;
	return list ? 0 : add_gold(item, v, e);
}

static int
read_choices(struct tasks *t, const struct json_value *line, struct task_item *item, struct err *e)
{
	const struct json_value *one = json_get(line, "context"),
				*each = json_get(line, "contexts"),
				*continuations = text_list(line, "continuations", -1, e), *choices;

	if (!continuations)
		return -1;
	item->num_pairs = (int64_t)continuations->len;
	if (!one == !each)
		return err_set(e, "needs one of \"context\" and \"contexts\"");
	if (one && one->type != JSON_STRING)
		return err_set(e, "context: must be a string");
	if (each && !(each = text_list(line, "contexts", item->num_pairs, e)))
		return -1;
	choices = text_list(line, "choices", item->num_pairs, e);
	if (!choices)
		return -1;
	item->pair = mem_pool_alloc(&t->pool, continuations->len, sizeof *item->pair);
	item->choice = mem_pool_alloc(&t->pool, continuations->len, sizeof *item->choice);
	for (size_t i = 0; i < continuations->len; i++) {
		item->pair[i].context =
		    one && i ? item->pair[0].context : keep(t, one ? one : &each->item[i]);
		item->pair[i].continuation = keep(t, &continuations->item[i]);
		item->choice[i] = keep(t, &choices->item[i]);
	}
	return read_gold(t, line, item, e);
}

static int
read_pair(struct tasks *t, const struct json_value *line, struct task_item *item, struct err *e)
{
	item->num_pairs = 1;
	item->pair = mem_pool_alloc(&t->pool, 1, sizeof *item->pair);
	return read_text(t, line, "context", &item->pair->context, e) < 0
	    ? -1
	    : read_text(t, line, "continuation", &item->pair->continuation, e);
}

/* The pieces of a text between runs of white space; empty ones at its ends count. */
static int64_t
count_words(const struct task_text *s)
{
	int64_t words = 1;
	bool before = false;
	uint32_t cp;

	for (size_t at = 0; at < s->len;) {
		int n = utf8_decode((const unsigned char *)s->text + at, s->len - at, &cp);
		bool space = n > 0 && utf8_is_space(cp);

		words += space && !before;
		before = space;
		at += n > 0 ? (size_t)n : 1;
	}
	return words;
}

static int
read_rolling(struct tasks *t, const struct json_value *line, struct task_item *item, struct err *e)
{
	struct task_text *text;

	item->num_pairs = 1;
	item->pair = mem_pool_alloc(&t->pool, 1, sizeof *item->pair);
	text = &item->pair->continuation;
	if (read_text(t, line, "text", text, e) < 0 ||
	    json_int(line, "bytes", (int64_t)text->len, &item->bytes, e) < 0 ||
	    json_int(line, "words", count_words(text), &item->words, e) < 0)
		return -1;
	if (item->bytes < 0 || item->words < 0)
		return err_set(e, "bytes, words: must be at least 0");
	return 0;
}

static int (*const readers[TASK_TYPES])(struct tasks *, const struct json_value *,
    struct task_item *, struct err *) = { read_choices, read_pair, read_rolling };

/* The number of the task of this name, which may be new. */
static int
find_task(struct tasks *t, const struct task_text *name, enum task_type type)
{
	for (int i = 0; i < t->num_tasks; i++)
		if (!strcmp(t->task[i].name, name->text))
			return i;
	t->task = mem_realloc(t->task, (size_t)t->num_tasks + 1, sizeof *t->task);
	t->task[t->num_tasks] = (struct task){ name->text, type };
	return t->num_tasks++;
}

/* A name is a word of log lines and tags. */
static int
check_name(const struct task_text *name, struct err *e)
{
	bool word = name->len > 0;

	for (size_t i = 0; i < name->len; i++)
		word &= (unsigned char)name->text[i] > ' ' && name->text[i] != 0x7f;
	return word ? 0 : err_set(e, "task: must be a word without blanks");
}

static int
read_line(struct tasks *t, const struct json_value *line, struct task_item *item, struct err *e)
{
	struct task_text name = { "", 0 }, type = name;
	int k = 0;

	if (line->type != JSON_OBJECT)
		return err_set(e, "must be an object");
	if (read_text(t, line, "task", &name, e) < 0 || check_name(&name, e) < 0 ||
	    json_lines_id(line, &t->pool, &item->id, e) < 0 ||
	    read_text(t, line, "type", &type, e) < 0)
		return -1;
	if (!item->id)
		return err_set(e, "id: must be a string or a whole number");
	while (k < TASK_TYPES && strcmp(type_names[k], type.text) != 0)
		k++;
	if (k == TASK_TYPES)
		return err_set(
		    e, "type: must be multiple_choice, loglikelihood or loglikelihood_rolling");
	item->task = find_task(t, &name, (enum task_type)k);
	if (t->task[item->task].type != (enum task_type)k)
		return err_set(e, "type %s: the lines of task %s before it have another",
		    type_names[k], name.text);
	return json_lines_members(line, members[k], type_names[k], e) < 0
	    ? -1
	    : readers[k](t, line, item, e);
}

int
tasks_add(struct tasks *t, const char *path, const char *text, size_t len, struct err *e)
{
	struct json_lines l = { text, text + len, 0 };
	const char *line;
	size_t n;

	while (json_lines_next(&l, &line, &n)) {
		struct err why;
		struct json *j = json_parse(line, n, NULL, &why);
		struct task_item *item;
		int rc;

		if (t->count % 64 == 0)
			t->item = mem_realloc(t->item, (size_t)t->count + 64, sizeof *t->item);
		item = &t->item[t->count];
		*item = (struct task_item){
			.file = path, .line = l.number, .first_pair = t->num_pairs
		};
		rc = j ? read_line(t, json_root(j), item, &why) : -1;
		json_free(j);
		if (rc < 0)
			return err_at(e, path, l.number, "%s", why.msg);
		t->num_pairs += item->num_pairs;
		t->count++;
	}
	return 0;
}

int
tasks_check(const struct tasks *t, struct err *e)
{
	for (int k = 0; k < t->num_tasks; k++) {
		int64_t bytes = 0, words = 0;

		for (int64_t i = 0; i < t->count; i++)
			if (t->item[i].task == k) {
				bytes += t->item[i].bytes;
				words += t->item[i].words;
			}
		if (t->task[k].type == TASK_ROLLING && (bytes == 0 || words == 0))
			return err_set(e,
			    "task %s: its texts have no %s, by which its perplexities are divided",
			    t->task[k].name, bytes ? "word" : "byte");
	}
	return 0;
}

void
tasks_release(struct tasks *t)
{
	free(t->item);
	free(t->task);
	mem_pool_release(&t->pool);
	*t = (struct tasks){ 0 };
}

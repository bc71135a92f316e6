/* json_lines.c - the lines of a text that are not blank */
#include "lib/data/json_lines.h"
#include "lib/base/str.h"

/* Whether there is more than white space of JSON. */
static bool
has_text(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strchr(" \t\r", s[i]) || !s[i])
			return true;
	return false;
}

bool
json_lines_next(struct json_lines *l, const char **line, size_t *len)
{
	static const char bom[] = "\xef\xbb\xbf";

	if (l->number == 0 && l->end - l->text >= 3 && !memcmp(l->text, bom, 3))
		l->text += 3;
	while (l->text < l->end) {
		const char *feed = memchr(l->text, '\n', (size_t)(l->end - l->text));

		*line = l->text;
		*len = (size_t)((feed ? feed : l->end) - l->text);
		l->text += *len + (feed ? 1 : 0);
		l->number++;
		if (has_text(*line, *len))
			return true;
	}
	return false;
}

int
json_lines_members(
    const struct json_value *v, const char *const *known, const char *what, struct err *e)
{
	for (size_t i = 0; i < v->len; i++) {
		struct str all = { 0 };
		int k = 0;

		while (known[k] && strcmp(known[k], v->item[i].key) != 0)
			k++;
		if (known[k])
			continue;
		for (k = 0; known[k]; k++)
			str_addf(&all, "%s%s", k ? ", " : "", known[k]);
		err_set(e, "'%s': is no member of %s: %s", v->item[i].key, what, all.buf);
		str_release(&all);
		return -1;
	}
	return 0;
}

int
json_lines_id(const struct json_value *v, struct mem_pool *pool, const char **out, struct err *e)
{
	const struct json_value *id = json_get(v, "id");
	struct str text = { 0 };

	if (!id)
		return 0;
	if (id->type != JSON_STRING && id->type != JSON_INT)
		return err_set(e, "id: must be a string or a whole number");
	json_print(&text, id);
	*out = mem_pool_strndup(pool, text.buf, text.len);
	str_release(&text);
	return 0;
}

/*
 * component.c - walking the components of a tokenizer.json
 *
 * Source: the serialised forms in huggingface/tokenizers.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/hf/component.h"

#include <string.h>

/* Adds one step other than a Sequence. */
static int
parse_step(const struct component *c, void *owner, const char *type, const struct json_value *v,
    struct err *e)
{
	const char *row = c->kinds;
	struct err why;

	for (size_t k = 0; k < c->num_kinds; k++, row += c->kind_bytes) {
		if (strcmp(*(const char *const *)(const void *)row, type))
			continue;
		if (c->step(owner, row, v, &why) < 0)
			return err_set(e, "%s '%s': %s", c->name, type, why.msg);
		return 0;
	}
	return err_set(e, "%s '%s' is not supported", c->name, type);
}

/* steps counts them. The tree of a JSON text is not deeper than its reader allows. */
static int
parse(const struct component *c, void *owner, const struct json_value *v, int *steps, struct err *e)
{
	const struct json_value *list;
	const char *type;

	if (!v || v->type == JSON_NULL)
		return 0;
	if (json_string(v, "type", "", &type, e) < 0)
		return -1;
	if (strcmp(type, "Sequence") != 0)
		return (*steps)++ < c->max_steps
		    ? parse_step(c, owner, type, v, e)
		    : err_set(e, "%s: more than %d steps", c->name, c->max_steps);
	list = json_get(v, c->list);
	if (!list || list->type != JSON_ARRAY)
		return err_set(e, "%s 'Sequence': \"%s\" must be a list", c->name, c->list);
	for (size_t i = 0; i < list->len; i++)
		if (parse(c, owner, &list->item[i], steps, e) < 0)
			return -1;
	return 0;
}

/* Counts from none. */
int
component_parse(const struct component *c, void *owner, const struct json_value *v, struct err *e)
{
	int steps = 0;

	return parse(c, owner, v, &steps, e);
}

/* It may be empty, and hold NULs. */
int
component_string(
    const struct json_value *v, const char *key, char **text, size_t *len, struct err *e)
{
	const struct json_value *m = json_get(v, key);

	if (!m || m->type != JSON_STRING)
		return err_set(e, "\"%s\" must be a string", key);
	*text = mem_strndup(m->string, m->len);
	*len = m->len;
	return 0;
}

/* Longer ones would lengthen a text by as much at every place. */
int
component_character(
    const struct json_value *v, const char *key, char **text, size_t *len, struct err *e)
{
	const struct json_value *m = json_get(v, key);
	uint32_t cp;

	if (!m || m->type != JSON_STRING || m->len == 0 ||
	    utf8_decode((const unsigned char *)m->string, m->len, &cp) != (int)m->len)
		return err_set(e, "\"%s\" must be a character", key);
	return component_string(v, key, text, len, e);
}

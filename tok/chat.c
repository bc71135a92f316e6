/*
 * chat.c - lines of JSON Lines that say which of their tokens are trained
 *
 * Lines are read as trees: conversations are small, and every member of them counts. What does not
 * fit is refused with its class, never left out: a role or a member that is dropped would be
 * missing from the text without a sign.
 */
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "tok/chat.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_MAX = 1 << 20 };

struct words {
	const char *bytes;
	size_t len;
};

struct role {
	const char *name;
	struct words before, after;
	bool train;
};

struct chat_table {
	struct json *json; /* owns the strings */
	struct words start, end;
	struct role *role;
	size_t roles;
	bool strip;
};

struct chat {
	const struct chat_config *c;
	enum chat_kind kind;
	const char *key;
	struct chat_table *table;
	struct words *control; /* the strings of special tokens */
	size_t controls;
	bool begins[256]; /* some of them begins with this byte */
};

int
chat_check(const struct chat_config *c, enum chat_kind *kind, struct err *e)
{
	*kind = c->mask_key ? CHAT_IDS
	    : c->spans_key  ? CHAT_SPANS
	    : c->segments   ? CHAT_SEGMENTS
	    : c->format     ? CHAT_MESSAGES
			    : CHAT_NONE;
	if ((c->mask_key != NULL) + (c->spans_key != NULL) + c->segments + (c->format != NULL) > 1)
		return err_set(e,
		    "--mask-key, --spans-key, --segments and --chat-format exclude each other: "
		    "they are four forms of a line");
	if (!c->format && (c->ignore.count || c->allow_control))
		return err_set(e, "--%s needs --chat-format",
		    c->allow_control ? "allow-control" : "chat-ignore");
	return 0;
}

/* --- the table -------------------------------------------------------------------------------- */

/* A member that is a string; empty when it is missing and may be. */
static int
take_words(
    const struct json_value *v, const char *key, bool needed, struct words *out, struct err *e)
{
	const struct json_value *m = json_get(v, key);

	*out = (struct words){ "", 0 };
	if (!m && !needed)
		return 0;
	if (!m || m->type != JSON_STRING)
		return err_set(e, "'%s' must be a string%s", key, m ? "" : ", and is missing");
	*out = (struct words){ m->string, m->len };
	return 0;
}

static int
take_flag(const struct json_value *v, const char *key, bool needed, bool *out, struct err *e)
{
	const struct json_value *m = json_get(v, key);

	*out = m && m->type == JSON_BOOL && m->boolean;
	if ((!m && !needed) || (m && m->type == JSON_BOOL))
		return 0;
	return err_set(e, "'%s' must be true or false%s", key, m ? "" : ", and is missing");
}

/* A name that is misspelt or there twice would leave its text out. */
static int
only(const struct json_value *v, const char *const *names, struct err *e)
{
	for (size_t i = 0; i < v->len; i++) {
		int k = 0;

		if (json_get(v, v->item[i].key) != &v->item[i])
			return err_set(e, "'%.40s' is there twice", v->item[i].key);
		while (names[k] && strcmp(names[k], v->item[i].key))
			k++;
		if (!names[k])
			return err_set(e, "'%.40s' is no member of a chat format", v->item[i].key);
	}
	return 0;
}

static int
take_role(const struct json_value *v, struct role *r, struct err *e)
{
	static const char *const names[] = { "before", "after", "train", NULL };
	struct err why;

	r->name = v->key;
	if (v->type != JSON_OBJECT)
		return err_set(e, "role '%.40s' must be an object", v->key);
	if (only(v, names, &why) < 0 || take_words(v, "before", true, &r->before, &why) < 0 ||
	    take_words(v, "after", true, &r->after, &why) < 0 ||
	    take_flag(v, "train", true, &r->train, &why) < 0)
		return err_set(e, "role '%.40s': %s", v->key, why.msg);
	return 0;
}

static int
fill_table(struct chat_table *t, struct err *e)
{
	static const char *const names[] = { "start", "roles", "end", "strip", NULL };
	const struct json_value *root = json_root(t->json), *roles;
	int rc;

	if (root->type != JSON_OBJECT)
		return err_set(e, "a chat format is an object");
	roles = json_get(root, "roles");
	rc = only(root, names, e);
	if (rc == 0 && (!roles || roles->type != JSON_OBJECT || roles->len == 0))
		rc = err_set(e, "'roles' must be an object of one role or more");
	if (rc < 0 || take_words(root, "start", false, &t->start, e) < 0 ||
	    take_words(root, "end", false, &t->end, e) < 0 ||
	    take_flag(root, "strip", false, &t->strip, e) < 0)
		return -1;
	t->role = mem_zalloc(roles->len, sizeof *t->role);
	for (; t->roles < roles->len; t->roles++) {
		const struct json_value *role = &roles->item[t->roles];

		if (json_get(roles, role->key) != role)
			return err_set(e, "role '%.40s' is there twice", role->key);
		if (take_role(role, &t->role[t->roles], e) < 0)
			return -1;
	}
	return 0;
}

struct chat_table *
chat_table_parse(const char *text, size_t len, const char *name, struct err *e)
{
	struct chat_table *t = mem_zalloc(1, sizeof *t);
	struct err why;

	t->json = json_parse(text, len, name, e);
	if (t->json && fill_table(t, &why) == 0)
		return t;
	if (t->json)
		err_at(e, name, 0, "%s", why.msg);
	chat_table_free(t);
	return NULL;
}

static struct chat_table *
read_table(const char *path, struct err *e)
{
	struct chat_table *t;
	char *text;
	size_t len;

	if (io_read_regular(path, TABLE_MAX, &text, &len, e) < 0)
		return NULL;
	t = chat_table_parse(text, len, path, e);
	free(text);
	return t;
}

void
chat_table_free(struct chat_table *t)
{
	if (!t)
		return;
	json_free(t->json);
	free(t->role);
	free(t);
}

/* --- what lines have in common ---------------------------------------------------------------- */

static void
find_controls(struct chat *c, const struct tokenizer *t)
{
	int64_t n = tokenizer_has_text(t) ? tokenizer_vocab_size(t) : 0;

	for (int64_t id = 0; id < n; id++) {
		struct tokenizer_piece p = tokenizer_piece_at(t, id);

		if (p.type != PIECE_CONTROL || p.len == 0)
			continue;
		if ((c->controls & (c->controls - 1)) == 0)
			c->control =
			    mem_realloc(c->control, 2 * c->controls + 1, sizeof *c->control);
		c->control[c->controls++] = (struct words){ p.bytes, p.len };
		c->begins[(unsigned char)*p.bytes] = true;
	}
}

struct chat *
chat_open(
    const struct chat_config *config, const char *key, const struct tokenizer *t, struct err *e)
{
	struct chat *c = mem_zalloc(1, sizeof *c);

	c->c = config;
	c->key = key;
	if (chat_check(config, &c->kind, e) < 0) {
		chat_close(c);
		return NULL;
	}
	if (c->kind != CHAT_MESSAGES)
		return c;
	c->table = read_table(config->format, e);
	if (!c->table) {
		chat_close(c);
		return NULL;
	}
	if (!config->allow_control)
		find_controls(c, t);
	return c;
}

void
chat_close(struct chat *c)
{
	if (!c)
		return;
	chat_table_free(c->table);
	free(c->control);
	free(c);
}

/* --- lines ------------------------------------------------------------------------------------ */

static enum jsonl_class __attribute__((format(printf, 3, 4)))
bad(struct chat_line *l, enum jsonl_class class, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(l->why, sizeof l->why, fmt, ap);
	va_end(ap);
	return class;
}

/* Trains the bytes [begin, end) of the text, which come after all ranges before; an adjacent one
 * grows. */
static void
add_range(struct chat_line *l, size_t begin, size_t end)
{
	if (begin == end)
		return;
	if (l->ranges && l->range[l->ranges - 1].end == begin) {
		l->range[l->ranges - 1].end = end;
		return;
	}
	if (l->ranges == l->cap_ranges) {
		l->cap_ranges = 2 * l->cap_ranges + 16;
		l->range = mem_realloc(l->range, l->cap_ranges, sizeof *l->range);
	}
	l->range[l->ranges++] = (struct chat_range){ begin, end };
}

/* The integers of both lists. */
static enum jsonl_class
read_ids(const struct chat *c, const struct json_value *ids, const struct json_value *mask,
    struct chat_line *l)
{
	if (ids->type != JSON_ARRAY || mask->type != JSON_ARRAY)
		return bad(l, JSONL_WRONG_TYPE, "'%.60s' is not a list",
		    ids->type != JSON_ARRAY ? c->key : c->c->mask_key);
	if (ids->len != mask->len)
		return bad(l, JSONL_BAD_CHAT, "%zu numbers in '%.60s', but %zu in '%.60s'",
		    ids->len, c->key, mask->len, c->c->mask_key);
	if (l->cap_ids < ids->len) {
		l->cap_ids = ids->len + ids->len / 2;
		l->id = mem_realloc(l->id, l->cap_ids, sizeof *l->id);
		l->mark = mem_realloc(l->mark, l->cap_ids, 1);
	}
	for (size_t i = 0; i < ids->len; i++) {
		const struct json_value *m = &mask->item[i];

		if (ids->item[i].type != JSON_INT)
			return bad(l, JSONL_WRONG_TYPE, "item %zu of '%.60s' is not an integer", i,
			    c->key);
		if (m->type != JSON_INT || (m->integer != 0 && m->integer != 1))
			return bad(l, JSONL_BAD_CHAT, "item %zu of '%.60s' is neither 0 nor 1", i,
			    c->c->mask_key);
		l->id[i] = ids->item[i].integer;
		l->mark[i] = (uint8_t)m->integer;
	}
	l->count = ids->len;
	l->has_ids = true;
	return JSONL_OK;
}

static enum jsonl_class
read_segments(const struct chat *c, const struct json_value *list, struct chat_line *l)
{
	if (list->type != JSON_ARRAY)
		return bad(l, JSONL_WRONG_TYPE, "'%.60s' is not a list of segments", c->key);
	for (size_t i = 0; i < list->len; i++) {
		const struct json_value *s = &list->item[i], *text = json_get(s, "text"),
					*train = json_get(s, "train");
		size_t begin = l->text.len;

		if (!text || text->type != JSON_STRING || !train || train->type != JSON_BOOL ||
		    s->len != 2)
			return bad(l, JSONL_BAD_CHAT,
			    "segment %zu is not {\"text\": STRING, \"train\": BOOL}", i);
		str_add(&l->text, text->string, text->len);
		if (train->boolean)
			add_range(l, begin, l->text.len);
	}
	return JSONL_OK;
}

/* The byte where a code point begins, from *at on, the byte of code point *point; false when
 * the text has fewer. */
static bool
walk_to(const struct str *text, int64_t want, int64_t *point, size_t *at)
{
	while (*point < want && *at < text->len) {
		do
			++*at;
		while (*at < text->len && ((unsigned char)text->buf[*at] & 0xc0) == 0x80);
		++*point;
	}
	return *point == want;
}

static enum jsonl_class
read_spans(const struct chat *c, const struct json_value *text, const struct json_value *spans,
    struct chat_line *l)
{
	int64_t point = 0;
	size_t at = 0, begin;

	if (text->type != JSON_STRING)
		return bad(l, JSONL_WRONG_TYPE, "'%.60s' is not a string", c->key);
	if (spans->type != JSON_ARRAY)
		return bad(l, JSONL_WRONG_TYPE, "'%.60s' is not a list", c->c->spans_key);
	str_add(&l->text, text->string, text->len);
	for (size_t i = 0; i < spans->len; i++) {
		const struct json_value *s = &spans->item[i];

		if (s->type != JSON_ARRAY || s->len != 2 || s->item[0].type != JSON_INT ||
		    s->item[1].type != JSON_INT)
			return bad(l, JSONL_BAD_SPAN, "span %zu is not [BEGIN, END]", i);
		if (s->item[0].integer < point || s->item[1].integer < s->item[0].integer)
			return bad(l, JSONL_BAD_SPAN, "span %zu, [%lld, %lld], begins before %s%s",
			    i, (long long)s->item[0].integer, (long long)s->item[1].integer,
			    i ? "the end of the one before it" : "the text",
			    ", or ends before it begins");
		if (!walk_to(&l->text, s->item[0].integer, &point, &at))
			return bad(l, JSONL_BAD_SPAN, "span %zu begins after the %lld characters",
			    i, (long long)point);
		begin = at;
		if (!walk_to(&l->text, s->item[1].integer, &point, &at))
			return bad(l, JSONL_BAD_SPAN, "span %zu ends after the %lld characters", i,
			    (long long)point);
		add_range(l, begin, at);
	}
	return JSONL_OK;
}

/* White space as Python's str.strip has it. */
static bool
is_space(uint32_t c)
{
	return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
	    c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
	    c == 0x202f || c == 0x205f || c == 0x3000;
}

static void
strip(struct words *w)
{
	const unsigned char *p = (const unsigned char *)w->bytes, *last;
	uint32_t c;
	int n;

	while (w->len && (n = utf8_decode(p, w->len, &c)) > 0 && is_space(c)) {
		p += n;
		w->len -= (size_t)n;
	}
	w->bytes = (const char *)p;
	while (w->len) {
		last = p + w->len - 1;
		while (last > p && (*last & 0xc0) == 0x80)
			last--;
		n = utf8_decode(last, (size_t)(p + w->len - last), &c);
		if (n <= 0 || !is_space(c))
			return;
		w->len = (size_t)(last - p);
	}
}

/* The string of a special token in a content, or NULL. */
static const struct words *
find_control(const struct chat *c, const struct words *w)
{
	for (size_t at = 0; at < w->len && c->controls; at++) {
		if (!c->begins[(unsigned char)w->bytes[at]])
			continue;
		for (size_t i = 0; i < c->controls; i++)
			if (c->control[i].len <= w->len - at &&
			    !memcmp(c->control[i].bytes, w->bytes + at, c->control[i].len))
				return &c->control[i];
	}
	return NULL;
}

/* The role of message i, whose members are all known. */
static const struct role *
find_role(const struct chat *c, const struct json_value *m, size_t i, struct chat_line *l)
{
	const struct json_value *role = json_get(m, "role");

	for (size_t k = 0; m->type == JSON_OBJECT && k < m->len; k++) {
		const char *name = m->item[k].key;
		int known = !strcmp(name, "role") || !strcmp(name, "content");

		for (int n = 0; n < c->c->ignore.count && !known; n++)
			known = !strcmp(name, c->c->ignore.item[n]);
		if (!known) {
			bad(l, JSONL_BAD_CHAT,
			    "message %zu has a member '%.40s'; --chat-ignore leaves it out", i,
			    name);
			return NULL;
		}
	}
	if (!role || role->type != JSON_STRING) {
		bad(l, JSONL_BAD_CHAT, "message %zu%s", i,
		    m->type != JSON_OBJECT ? " is not an object"
			: role             ? ": its role is not a string"
					   : " has no role");
		return NULL;
	}
	for (size_t k = 0; k < c->table->roles; k++)
		if (!strcmp(c->table->role[k].name, role->string))
			return &c->table->role[k];
	bad(l, JSONL_BAD_CHAT, "message %zu: %.40s has no role '%.40s'", i, c->c->format,
	    role->string);
	return NULL;
}

static enum jsonl_class
add_message(const struct chat *c, const struct json_value *m, size_t i, struct chat_line *l)
{
	const struct role *r = find_role(c, m, i, l);
	const struct json_value *content = json_get(m, "content");
	const struct words *control;
	struct words w;
	size_t begin;

	if (!r)
		return JSONL_BAD_CHAT;
	if (!content || content->type != JSON_STRING)
		return bad(l, JSONL_BAD_CHAT, "message %zu: its content is not a string", i);
	w = (struct words){ content->string, content->len };
	control = find_control(c, &w);
	if (control)
		return bad(l, JSONL_CONTROL,
		    "message %zu: its content holds the special token '%.*s'; --allow-control "
		    "takes it as one",
		    i, control->len > 60 ? 60 : (int)control->len, control->bytes);
	if (c->table->strip)
		strip(&w);
	str_add(&l->text, r->before.bytes, r->before.len);
	begin = l->text.len;
	str_add(&l->text, w.bytes, w.len);
	str_add(&l->text, r->after.bytes, r->after.len);
	if (r->train)
		add_range(l, begin, l->text.len);
	return JSONL_OK;
}

static enum jsonl_class
read_messages(const struct chat *c, const struct json_value *list, struct chat_line *l)
{
	enum jsonl_class class = JSONL_OK;

	if (list->type != JSON_ARRAY)
		return bad(l, JSONL_WRONG_TYPE, "'%.60s' is not a list of messages", c->key);
	if (list->len == 0)
		return bad(l, JSONL_BAD_CHAT, "a conversation without a message");
	str_add(&l->text, c->table->start.bytes, c->table->start.len);
	for (size_t i = 0; i < list->len && class == JSONL_OK; i++)
		class = add_message(c, &list->item[i], i, l);
	str_add(&l->text, c->table->end.bytes, c->table->end.len);
	return class;
}

static enum jsonl_class
read_tree(const struct chat *c, const struct json_value *root, struct chat_line *l)
{
	const char *other = c->kind == CHAT_IDS ? c->c->mask_key
	    : c->kind == CHAT_SPANS             ? c->c->spans_key
						: c->key;
	const struct json_value *value = json_get(root, c->key), *second = json_get(root, other);

	if (root->type != JSON_OBJECT)
		return bad(l, JSONL_NOT_OBJECT, "the line is no object");
	if (!value || !second)
		return bad(l, JSONL_MISSING_KEY, "no member '%.60s'", value ? other : c->key);
	switch (c->kind) {
	case CHAT_IDS: return read_ids(c, value, second, l);
	case CHAT_SPANS: return read_spans(c, value, second, l);
	case CHAT_SEGMENTS: return read_segments(c, value, l);
	default: return read_messages(c, value, l);
	}
}

enum jsonl_class
chat_read(const struct chat *c, const char *line, size_t len, struct chat_line *l)
{
	enum jsonl_class class;
	struct json *j;
	struct err e;

	l->has_ids = false;
	l->count = l->ranges = 0;
	str_clear(&l->text);
	j = json_parse(line, len, NULL, &e);
	if (!j)
		return bad(l, JSONL_SYNTAX, "%s", e.msg);
	class = read_tree(c, json_root(j), l);
	json_free(j);
	return class;
}

void
chat_line_release(struct chat_line *l)
{
	free(l->id);
	free(l->mark);
	free(l->range);
	str_release(&l->text);
	*l = (struct chat_line){ 0 };
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* Where the text begins in the joined bytes of all tokens; -1: they are not the text. */
static int
text_start(const struct tokenizer *t, const struct chat_line *l, const struct token_ids *ids,
    struct str *room)
{
	str_clear(room);
	for (size_t k = 0; k < ids->count; k++)
		if (tokenizer_surface(t, ids->id[k], room) == SURFACE_NONE)
			return -1;
	if (room->len == l->text.len && !memcmp(room->buf, l->text.buf, room->len))
		return 0;
	return room->len == l->text.len + 1 && room->buf[0] == ' ' &&
		!memcmp(room->buf + 1, l->text.buf, l->text.len)
	    ? 1
	    : -1;
}

int
chat_mark(const struct tokenizer *t, const struct chat_line *l, const struct token_ids *ids,
    uint8_t *mark, struct str *room)
{
	size_t begin = 0, end = 0, r = 0;
	int start = text_start(t, l, ids, room);

	if (start < 0)
		return -1;
	str_clear(room);
	for (size_t k = 0; k < ids->count; k++) {
		(void)tokenizer_surface(t, ids->id[k], room);
		end = room->len > (size_t)start ? room->len - (size_t)start : 0;
		while (r < l->ranges && l->range[r].end <= begin)
			r++;
		mark[k] = r < l->ranges && end > l->range[r].begin;
		begin = end;
	}
	return 0;
}

/*
 * yaml.c - the options in MODEL_ARGS
 *
 * One mapping of scalars and lists of scalars, as Megatron-LM's functional tests write it: true is
 * a switch, false and null leave the option out, a list is its words. Anchors, maps inside it and
 * texts of several lines are refused with their line. The rest of the file is skipped.
 */
#include "lib/script/yaml.h"
#include "lib/script/impl.h"

#include <string.h>

struct yaml {
	struct shell *sh;
	long line;
	size_t indent;   /* of the keys; 0: none was seen */
	const char *key; /* whose list may follow */
	bool listed;     /* the key is among the words */
	struct words words;
};

static int
refuse(const struct yaml *y, const char *what)
{
	return err_at(y->sh->e, y->sh->name, y->line, "%s: this part of YAML is not read", what);
}

/* The length without a comment and blanks at the end. */
static size_t
bare(const char *s, size_t n)
{
	char quote = 0;

	for (size_t i = 0; i < n; i++) {
		if (quote ? s[i] == quote
			  : (s[i] == '"' || s[i] == '\'') && (!i || s[i - 1] == ' '))
			quote = quote ? 0 : s[i];
		if (s[i] == '#' && !quote && (!i || s[i - 1] == ' ' || s[i - 1] == '\t'))
			n = i;
	}
	while (n && strchr(" \t\r", s[n - 1]))
		n--;
	return n;
}

/* Adds the words of a scalar whose quotes are off. One with blanks is one word. */
static int
add_text(struct yaml *y, const char *s, size_t n)
{
	struct str raw = { 0 };
	bool blank = memchr(s, ' ', n) != NULL;
	const char *value = "";
	int rc;

	for (size_t i = 0; i < n; i++) {
		if (strchr("'\"\\`~", s[i]))
			str_addc(&raw, '\\');
		str_addc(&raw, s[i]);
	}
	y->sh->line = y->line;
	rc = blank ? expand_value(y->sh, raw.buf ? raw.buf : "", &value)
		   : expand_fields(y->sh, raw.buf ? raw.buf : "", &y->words);
	if (rc == 0 && blank)
		words_add(y->sh, &y->words, value);
	str_release(&raw);
	return rc;
}

/* The parts of "[a b]" and "[a, b]" are words. */
static int
add_list(struct yaml *y, const char *s, size_t n)
{
	size_t i = 0;

	while (i < n) {
		size_t end = i;

		while (end < n && !strchr(" ,", s[end]))
			end++;
		if (memchr(s + i, '[', end - i) || memchr(s + i, '{', end - i))
			return refuse(y, "a list inside a list");
		if (end > i && add_text(y, s + i, end - i) < 0)
			return -1;
		i = end + 1;
	}
	return 0;
}

static int
add_scalar(struct yaml *y, const char *s, size_t n)
{
	bool quoted = n > 1 && (*s == '"' || *s == '\'');

	if (quoted && s[n - 1] != *s)
		return refuse(y, "a quote that does not end in its line");
	if (!quoted && (*s == '&' || *s == '*'))
		return refuse(y, *s == '&' ? "an anchor" : "a reference to an anchor");
	if (!quoted && *s == '{')
		return refuse(y, "a map in braces");
	if (!quoted && (*s == '|' || *s == '>' || *s == '!'))
		return refuse(y, *s == '!' ? "a tag" : "a text of several lines");
	if (quoted) {
		s++;
		n -= 2;
	}
	if (n > 1 && *s == '[' && s[n - 1] == ']')
		return add_list(y, s + 1, n - 2);
	return *s == '[' && !quoted ? refuse(y, "a list that does not end in its line")
				    : add_text(y, s, n);
}

static bool
is(const char *s, size_t n, const char *word)
{
	return strlen(word) == n && !memcmp(s, word, n);
}

static void
add_key(struct yaml *y)
{
	words_add(y->sh, &y->words, y->key);
	y->listed = true;
}

/* "- value" below a key. */
static int
item(struct yaml *y, const char *s, size_t n)
{
	size_t skip = 1 + strspn(s + 1, " ");

	if (!y->key)
		return refuse(y, "a list without a key");
	if (!y->listed)
		add_key(y);
	if (skip >= n)
		return refuse(y, "a list inside a list");
	return add_scalar(y, s + skip, n - skip);
}

/* The ':' after a key; n: there is none. */
static size_t
find_colon(const char *s, size_t n)
{
	size_t end = 0;

	while (end < n && !(s[end] == ':' && (end + 1 == n || s[end + 1] == ' ')))
		end++;
	return end;
}

/* What stands after the ':', or on the next line. */
static int
value(struct yaml *y, const char *s, size_t n)
{
	if (is(s, n, "false") || is(s, n, "null") || is(s, n, "~"))
		return 0;
	add_key(y);
	return is(s, n, "true") ? 0 : add_scalar(y, s, n);
}

/* "key: value", with the name's dashes or without. */
static int
pair(struct yaml *y, const char *s, size_t n)
{
	size_t end = find_colon(s, n), skip;
	struct str key = { 0 };

	if (end == n || !end)
		return refuse(y, "a line that is not 'key: value'");
	if (is(s, end, "<<"))
		return refuse(y, "a reference to an anchor");
	str_addf(&key, "%s%.*s", *s == '-' ? "" : "--", (int)end, s);
	y->key = shell_keep(y->sh, key.buf, key.len);
	y->listed = false;
	str_release(&key);
	skip = end + 1;
	while (skip < n && s[skip] == ' ')
		skip++;
	return skip < n ? value(y, s + skip, n - skip) : 0;
}

/* A line inside the mapping, without its comment. */
static int
inside(struct yaml *y, const char *s, size_t indent, size_t n)
{
	bool dash = n > 1 && s[0] == '-' && s[1] == ' ';

	if (s[0] == '\t')
		return refuse(y, "a tab before a key");
	if (!y->indent)
		y->indent = indent;
	if (dash)
		return item(y, s, n);
	if (indent == y->indent)
		return pair(y, s, n);
	if (!y->key || y->listed || find_colon(s, n) < n)
		return refuse(y, "a map inside the map");
	return value(y, s, n);
}

static int
read_lines(struct yaml *y, const char *text, bool *found)
{
	bool in = false;

	*found = false;
	for (; *text; text += *text == '\n') {
		size_t len = strcspn(text, "\n"), indent = strspn(text, " "), n;

		y->line++;
		n = indent < len ? bare(text + indent, len - indent) : 0;
		if (n && !indent)
			in = !*found && is(text, n, "MODEL_ARGS:");
		if (n && !indent && !in && !*found && n > 11 && !memcmp(text, "MODEL_ARGS:", 11))
			return refuse(y, "MODEL_ARGS with a value in its line");
		*found |= in;
		if (n && indent && in && inside(y, text + indent, indent, n) < 0)
			return -1;
		if (shell_over(y->sh))
			return refuse(y, "a file that makes more than 8 MiB");
		text += len;
	}
	return 0;
}

int
yaml_arguments(struct shell *sh, const char *text)
{
	struct yaml y = { .sh = sh };
	bool found;

	if (read_lines(&y, text, &found) < 0)
		return -1;
	if (!found)
		return err_at(sh->e, sh->name, 0, "it has no mapping MODEL_ARGS");
	sh->out->program = "pretrain_gpt.py";
	sh->out->option = y.words.item;
	sh->out->options = y.words.count;
	return 0;
}

/* check.c - ids that another program gave to some texts: the first place where they differ is told
 */
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "tok/check.h"

#include <stdlib.h>
#include <string.h>

enum { CHECK_MAX = 1 << 26 };

/* The ids of a line; false with a reason. */
static bool
read_ids(const struct json_value *line, const struct json_value **ids, struct err *e)
{
	*ids = json_get(line, "ids");
	if (!json_get(line, "text") || json_get(line, "text")->type != JSON_STRING || !*ids ||
	    (*ids)->type != JSON_ARRAY)
		return err_set(e, "not an object with \"text\", a string, and \"ids\", a list") ==
		    0;
	for (size_t i = 0; i < (*ids)->len; i++)
		if ((*ids)->item[i].type != JSON_INT)
			return err_set(e, "id %zu of the list is not an integer", i) == 0;
	return true;
}

/* An id, or the end of the list. */
static void
add_id(struct str *out, int64_t id)
{
	if (id < 0)
		str_adds(out, "none");
	else
		str_addf(out, "%lld", (long long)id);
}

/* Compares the ids of one text. */
static int
compare(const struct token_ids *got, const struct json_value *want, struct err *e)
{
	struct str s = { 0 };
	size_t i = 0;

	while (i < got->count && i < want->len && want->item[i].integer == got->id[i])
		i++;
	if (i == got->count && i == want->len)
		return 0;
	str_addf(&s, "%zu ids, not %zu; place %zu has ", got->count, want->len, i);
	add_id(&s, i < got->count ? (int64_t)got->id[i] : -1);
	str_adds(&s, ", not ");
	add_id(&s, i < want->len ? want->item[i].integer : -1);
	err_set(e, "the ids differ from those in the file: %s", s.buf);
	str_release(&s);
	return -1;
}

/* A line of the file. */
static int
check_line(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *ids, struct err *e)
{
	struct json *j = json_parse(text, len, "the line", e);
	const struct json_value *want, *string;
	int rc = -1;

	if (!j)
		return -1;
	ids->count = 0;
	string = json_get(json_root(j), "text");
	if (read_ids(json_root(j), &want, e) &&
	    tokenizer_encode(w, string->string, string->len, ids, e) == 0)
		rc = compare(ids, want, e);
	json_free(j);
	return rc;
}

static bool
blank(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n && memchr(" \t\r", s[i], 3))
		i++;
	return i == n;
}

/* Blank lines are skipped. */
int64_t
check_lines(
    const struct tokenizer *t, const char *text, size_t len, const char *path, struct err *e)
{
	struct tokenizer_worker *w = tokenizer_worker_new(t);
	struct token_ids ids = { 0 };
	int64_t count = 0;
	long number = 1;

	for (size_t i = 0, n; i < len && count >= 0; i += n + 1, number++) {
		const char *end = memchr(text + i, '\n', len - i);
		struct err why;

		n = end ? (size_t)(end - text) - i : len - i;
		if (blank(text + i, n))
			continue;
		if (check_line(w, text + i, n, &ids, &why) < 0)
			count = err_at(e, path, number, "%s", why.msg);
		else
			count++;
	}
	token_ids_release(&ids);
	tokenizer_worker_free(w);
	return count ? count : err_set(e, "%s: no texts", path);
}

int64_t
check_ids(const struct tokenizer *t, const char *path, struct err *e)
{
	char *text;
	size_t len;
	int64_t count;

	if (io_read_file(path, CHECK_MAX, &text, &len, e) < 0)
		return -1;
	count = check_lines(t, text, len, path, e);
	free(text);
	return count;
}

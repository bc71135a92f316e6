/*
 * jsonl.c - one line of JSON Lines: a scanner that decodes the wanted members and checks the rest
 *
 * One pass over the line without a tree: strings are found eight bytes at a time, unwanted members
 * are stepped over with the same checks, wanted strings without escapes are handed out where they
 * stand. Decoding never makes a string longer (six bytes of escape give at most three), so a buffer
 * of the line's length holds everything that can come out of it.
 */
#include "tok/jsonl.h"
#include "lib/base/mem.h"
#include "lib/base/utf8.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 512, DETAIL_BYTES = 160 };

const char *const jsonl_class_name[JSONL_CLASSES] = {
	"ok", "blank", "syntax", "missing-key", "wrong-type", "not-object", "lone-surrogate", "bad-utf8", "bom", "refused",
};

/* What the last member of a wanted name held: strings text[first .. first + count). */
struct member {
	const char *name;
	size_t name_len, first, count;
	enum jsonl_class class;
	const char *found;              /* JSONL_WRONG_TYPE: what it is instead */
};

/* A parser and what the last line gave; all of it is used again for the next line. */
struct jsonl {
	struct member *member;
	int num_members;
	struct jsonl_text *text;
	size_t num_texts, cap_texts;
	char *scratch;                  /* decoded strings; never longer than the line, so it does not move during one */
	size_t used, cap;
	const char *line, *p, *end;
	char detail[DETAIL_BYTES];
};

static int skip_value(struct jsonl *j, int depth);

/* The names are borrowed for as long as the parser lives. */
struct jsonl *
jsonl_new(const struct opt_list *keys)
{
	struct jsonl *j = mem_zalloc(1, sizeof *j);

	j->num_members = keys->count;
	j->member = mem_zalloc((size_t)keys->count, sizeof *j->member);
	for (int i = 0; i < keys->count; i++) {
		j->member[i].name = keys->item[i];
		j->member[i].name_len = strlen(keys->item[i]);
	}
	return j;
}

/* NULL is freed already. Texts that were handed out are gone. */
void
jsonl_free(struct jsonl *j)
{
	if (!j)
		return;
	free(j->member);
	free(j->text);
	free(j->scratch);
	free(j);
}

/* What the class of the last line does not say: what and where. Valid until the next line. */
const char *
jsonl_detail(const struct jsonl *j)
{
	return j->detail;
}

/* Strings of the member with that number in the order of the keys; they point into the line or
 * into the parser's memory, and hold until the next line. Only after JSONL_OK. */
const struct jsonl_text *
jsonl_value(const struct jsonl *j, int key, size_t *count)
{
	*count = j->member[key].count;
	/* Before the first text there is no array to point into. */
	return j->text ? j->text + j->member[key].first : NULL;
}

/* A syntax error at the current byte. Returns -1. Byte numbers count from 1, as editors do. */
static int
fail(struct jsonl *j, const char *what)
{
	snprintf(j->detail, sizeof j->detail, "%s at byte %zu", what, (size_t)(j->p - j->line) + 1);
	return -1;
}

/* Sets the detail and returns the class. */
static enum jsonl_class __attribute__((format(printf, 3, 4)))
answer(struct jsonl *j, enum jsonl_class class, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(j->detail, sizeof j->detail, fmt, ap);
	va_end(ap);
	return class;
}

/* JSON's white space; a lone CR is one of it. */
static void
skip_space(struct jsonl *j)
{
	while (j->p < j->end && (*j->p == ' ' || *j->p == '\t' || *j->p == '\n' || *j->p == '\r'))
		j->p++;
}

/* Consumes c if it is next. */
static bool
next_is(struct jsonl *j, char c)
{
	if (j->p == j->end || *j->p != c)
		return false;
	j->p++;
	return true;
}

/* The first byte at or after p that is a quote, a backslash or a control character; eight bytes
 * at a time. A byte's top bit is set in the sum where the byte is zero after the exclusive or,
 * or below 0x20; a false hit can only follow a true one in a higher byte and costs nothing but
 * the slow loop. */
static const char *
plain_end(const char *p, const char *end)
{
	const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;

	for (; end - p >= 8; p += 8) {
		uint64_t v, quote, slash;

		memcpy(&v, p, 8);
		quote = v ^ ones * '"';
		slash = v ^ ones * '\\';
		if ((((quote - ones) & ~quote) | ((slash - ones) & ~slash) |
			((v - ones * 0x20) & ~v)) &
		    highs)
			break;
	}
	while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
		p++;
	return p;
}

/* The value of a digit, or -1. */
static int
hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0'
	    : c >= 'a' && c <= 'f'  ? c - 'a' + 10
	    : c >= 'A' && c <= 'F'  ? c - 'A' + 10
				    : -1;
}

/* Checks the escape that begins at the backslash p. After this unescape trusts what stands
 * behind a backslash. */
static int
skip_escape(struct jsonl *j)
{
	if (j->end - j->p < 2)
		return fail(j, "unterminated string");
	if (j->p[1] != 'u') {
		if (!memchr("\"\\/bfnrt", j->p[1], 8))
			return fail(j, "unknown escape");
		j->p += 2;
		return 0;
	}
	for (int i = 2; i < 6; i++)
		if (j->end - j->p <= i || hex_digit(j->p[i]) < 0)
			return fail(j, "\\u without four hexadecimal digits");
	j->p += 6;
	return 0;
}

/* Finds the end of the string whose opening quote is next; *raw is what stands between the quotes.
 */
static int
scan_string(struct jsonl *j, struct jsonl_text *raw, bool *escaped)
{
	const char *start;

	if (!next_is(j, '"'))
		return fail(j, "no string");
	start = j->p;
	*escaped = false;
	for (;;) {
		j->p = plain_end(j->p, j->end);
		if (j->p == j->end)
			return fail(j, "unterminated string");
		if (*j->p == '"')
			break;
		if (*j->p != '\\')
			return fail(j, "control character in a string");
		*escaped = true;
		if (skip_escape(j) < 0)
			return -1;
	}
	raw->bytes = start;
	raw->len = (size_t)(j->p++ - start);
	return 0;
}

/* Four hexadecimal digits that were checked before. */
static uint32_t
hex4(const char *s)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 4 | (uint32_t)hex_digit(s[i]);
	return v;
}

/* Decodes the \u escape at s into out; returns the bytes read, 0 for an unpaired surrogate. A
 * pair of surrogates is twelve bytes and gives four; the digits of both were checked by
 * skip_escape. */
static size_t
decode_unicode(const char *s, const char *end, unsigned char out[4], int *written)
{
	uint32_t cp = hex4(s + 2), low;

	if (cp < 0xd800 || cp > 0xdfff) {
		*written = utf8_encode(cp, out);
		return 6;
	}
	if (cp > 0xdbff || end - s < 12 || s[6] != '\\' || s[7] != 'u')
		return 0;
	low = hex4(s + 8);
	if (low < 0xdc00 || low > 0xdfff)
		return 0;
	*written = utf8_encode(0x10000 + ((cp - 0xd800) << 10 | (low - 0xdc00)), out);
	return 12;
}

/* Replaces a raw string by its decoded text in scratch. False: it has an unpaired surrogate.
 * Room was made for the whole line, so nothing is checked against the end of scratch. */
static bool
unescape(struct jsonl *j, struct jsonl_text *t)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *s = t->bytes, *end = s + t->len;
	char *out = j->scratch + j->used;

	t->bytes = out;
	while (s < end) {
		const char *stop = plain_end(s, end);
		int written = 0;
		size_t took;

		memcpy(out, s, (size_t)(stop - s));
		out += stop - s;
		s = stop;
		if (s == end)
			break;
		if (s[1] != 'u') {
			*out++ = to[strchr(from, s[1]) - from];
			s += 2;
			continue;
		}
		took = decode_unicode(s, end, (unsigned char *)out, &written);
		if (took == 0)
			return false;
		s += took;
		out += written;
	}
	t->len = (size_t)(out - t->bytes);
	j->used += t->len;
	return true;
}

/* Consumes the digits at p; returns how many. */
static size_t
digits(struct jsonl *j)
{
	const char *start = j->p;

	while (j->p < j->end && *j->p >= '0' && *j->p <= '9')
		j->p++;
	return (size_t)(j->p - start);
}

/* Any number of the grammar; its value does not matter here. Leading zeros end the number early,
 * and what follows them is then a syntax error at its place. */
static int
skip_number(struct jsonl *j)
{
	next_is(j, '-');
	if (!next_is(j, '0') && digits(j) == 0)
		return fail(j, "no value");
	if (next_is(j, '.') && digits(j) == 0)
		return fail(j, "no digit after the point");
	if (next_is(j, 'e') || next_is(j, 'E')) {
		if (!next_is(j, '+'))
			next_is(j, '-');
		if (digits(j) == 0)
			return fail(j, "no digit in the exponent");
	}
	return 0;
}

/* true, false, null, NaN, Infinity, -Infinity, or a number. The three words that JSON lacks are
 * Python's, whose json module writes and reads them. */
static int
skip_word(struct jsonl *j)
{
	static const char *const words[] = { "true", "false", "null", "NaN", "Infinity",
		"-Infinity" };

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(j->end - j->p) >= n && !memcmp(j->p, words[i], n)) {
			j->p += n;
			return 0;
		}
	}
	return skip_number(j);
}

/* After an item: 1 when another follows, 0 at the closing bracket, -1 on anything else. */
static int
another(struct jsonl *j, char close)
{
	skip_space(j);
	if (next_is(j, ',')) {
		skip_space(j);
		return 1;
	}
	if (next_is(j, close))
		return 0;
	return fail(j,
	    j->p == j->end     ? "the line ends too early"
		: close == '}' ? "no ',' or '}'"
			       : "no ',' or ']'");
}

/* A member's name and the colon; leaves p at the value. */
static int
scan_name(struct jsonl *j, struct jsonl_text *name, bool *escaped)
{
	if (j->p == j->end || *j->p != '"')
		return fail(j, "no member name");
	if (scan_string(j, name, escaped) < 0)
		return -1;
	skip_space(j);
	if (!next_is(j, ':'))
		return fail(j, "no ':'");
	skip_space(j);
	return 0;
}

/* Steps over [...]. */
static int
skip_array(struct jsonl *j, int depth)
{
	int more = 1;

	j->p++;
	skip_space(j);
	if (next_is(j, ']'))
		return 0;
	while (more > 0) {
		if (skip_value(j, depth + 1) < 0)
			return -1;
		more = another(j, ']');
	}
	return more;
}

/* Steps over {...}; names are checked as strings. */
static int
skip_object(struct jsonl *j, int depth)
{
	struct jsonl_text name;
	bool escaped;
	int more = 1;

	j->p++;
	skip_space(j);
	if (next_is(j, '}'))
		return 0;
	while (more > 0) {
		if (scan_name(j, &name, &escaped) < 0 || skip_value(j, depth + 1) < 0)
			return -1;
		more = another(j, '}');
	}
	return more;
}

/* Checks the value at p and steps over it. The bound on depth keeps a hostile line from using up
 * a thread's stack. */
static int
skip_value(struct jsonl *j, int depth)
{
	struct jsonl_text raw;
	bool escaped;

	if (depth > DEPTH_MAX)
		return fail(j, "more than 512 levels");
	switch (j->p < j->end ? *j->p : '\0') {
	case '"':
		return scan_string(j, &raw, &escaped);
	case '[':
		return skip_array(j, depth);
	case '{':
		return skip_object(j, depth);
	default:
		return skip_word(j);
	}
}

/* What a value is, judged by its first byte. */
static const char *
kind_of(char c)
{
	switch (c) {
	case '"':
		return "a string";
	case '[':
		return "an array";
	case '{':
		return "an object";
	case 'n':
		return "null";
	case 't':
	case 'f':
		return "a boolean";
	default:
		return "a number";
	}
}

/* Reads one wanted string and adds it to the texts. A lone surrogate makes the member bad but
 * not the syntax, so the rest of the line is still checked. */
static int
take_string(struct jsonl *j, struct member *m)
{
	struct jsonl_text t;
	bool escaped;

	if (scan_string(j, &t, &escaped) < 0)
		return -1;
	if (escaped && !unescape(j, &t)) {
		if (m->class == JSONL_OK)
			m->class = JSONL_LONE_SURROGATE;
		return 0;
	}
	if (j->num_texts == j->cap_texts) {
		j->cap_texts = 2 * j->cap_texts + 16;
		j->text = mem_realloc(j->text, j->cap_texts, sizeof *j->text);
	}
	j->text[j->num_texts++] = t;
	return 0;
}

/* Reads a list that ought to hold strings alone. Things other than strings are stepped over, so
 * that bad syntax behind them is found first. */
static int
take_list(struct jsonl *j, struct member *m)
{
	int more = 1;

	j->p++;
	skip_space(j);
	if (next_is(j, ']'))
		return 0;
	while (more > 0) {
		if (j->p < j->end && *j->p == '"') {
			if (take_string(j, m) < 0)
				return -1;
		} else if (skip_value(j, 2) < 0) {
			return -1;
		} else {
			m->class = JSONL_WRONG_TYPE;
			m->found = "a list with other things in it";
		}
		more = another(j, ']');
	}
	return more;
}

/* Reads the value of a wanted member; what an earlier one of that name held is forgotten. The
 * last of several members of one name counts, as in Python. */
static int
take_value(struct jsonl *j, struct member *m)
{
	int rc;

	m->class = JSONL_OK;
	m->first = j->num_texts;
	switch (j->p < j->end ? *j->p : '\0') {
	case '"':
		rc = take_string(j, m);
		break;
	case '[':
		rc = take_list(j, m);
		break;
	default:
		m->class = JSONL_WRONG_TYPE;
		m->found = j->p < j->end ? kind_of(*j->p) : "";
		rc = skip_value(j, 1);
	}
	m->count = j->num_texts - m->first;
	return rc;
}

/* The wanted member of that name, or NULL. Names are compared decoded: "te\u0078t" is "text". A
 * name with a lone surrogate is nobody's. */
static struct member *
wanted(struct jsonl *j, struct jsonl_text name, bool escaped)
{
	if (escaped && !unescape(j, &name))
		return NULL;
	for (int i = 0; i < j->num_members; i++)
		if (j->member[i].name_len == name.len &&
		    !memcmp(j->member[i].name, name.bytes, name.len))
			return &j->member[i];
	return NULL;
}

/* The outermost object. */
static int
take_object(struct jsonl *j)
{
	struct jsonl_text name;
	struct member *m;
	bool escaped;
	int more = 1;

	j->p++;
	skip_space(j);
	if (next_is(j, '}'))
		return 0;
	while (more > 0) {
		if (scan_name(j, &name, &escaped) < 0)
			return -1;
		m = wanted(j, name, escaped);
		if ((m ? take_value(j, m) : skip_value(j, 1)) < 0)
			return -1;
		more = another(j, '}');
	}
	return more;
}

/* What the wanted members say about the line. The first wanted member with a fault, in the order
 * of the keys, gives the class. */
static enum jsonl_class
judge(struct jsonl *j)
{
	for (int i = 0; i < j->num_members; i++) {
		const struct member *m = &j->member[i];

		if (m->class == JSONL_MISSING_KEY)
			return answer(j, m->class, "no member '%.60s'", m->name);
		if (m->class == JSONL_WRONG_TYPE)
			return answer(j, m->class,
			    "'%.60s' is %s, not a string or a list of strings", m->name, m->found);
		if (m->class == JSONL_LONE_SURROGATE)
			return answer(
			    j, m->class, "'%.60s' has an unpaired surrogate escape", m->name);
	}
	return JSONL_OK;
}

/* Makes room for what the line may decode to, and forgets the line before. The old contents are
 * not needed, hence free and alloc rather than realloc. */
static void
begin(struct jsonl *j, const char *line, size_t len)
{
	if (j->cap < len) {
		free(j->scratch);
		j->scratch = mem_alloc(len, 1);
		j->cap = len;
	}
	j->used = j->num_texts = 0;
	j->line = j->p = line;
	j->end = line + len;
	for (int i = 0; i < j->num_members; i++) {
		j->member[i].class = JSONL_MISSING_KEY;
		j->member[i].first = j->member[i].count = 0;
	}
}

/* Encoding comes before syntax, as it does for a reader that decodes the file first. line need
 * not end in NUL or a line feed and must stay until the values have been used. Bytes are counted
 * from the start of the line. */
enum jsonl_class
jsonl_parse(struct jsonl *j, const char *line, size_t len)
{
	size_t good;
	bool object;
	char first;

	begin(j, line, len);
	skip_space(j);
	if (j->p == j->end)
		return JSONL_BLANK;
	if (j->end - j->p >= 3 && !memcmp(j->p, "\xef\xbb\xbf", 3))
		return answer(j, JSONL_BOM, "byte order mark inside the file");
	good = utf8_check((const unsigned char *)line, len);
	if (good < len)
		return answer(j, JSONL_BAD_UTF8, "malformed UTF-8 at byte %zu", good + 1);
	first = *j->p;
	object = first == '{';
	if ((object ? take_object(j) : skip_value(j, 0)) < 0)
		return JSONL_SYNTAX;
	skip_space(j);
	if (j->p < j->end) {
		fail(j, "text after the value");
		return JSONL_SYNTAX;
	}
	if (!object)
		return answer(j, JSONL_NOT_OBJECT, "the line is %s", kind_of(first));
	return judge(j);
}

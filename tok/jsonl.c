/*
 * jsonl.c - one line of JSON Lines: a scanner that decodes the wanted members and checks the rest
 *
 * One pass over the line without a tree: strings are scanned a block at a time (scan.h), unwanted
 * members are skipped with the same checks, wanted strings without escapes are returned in place,
 * and those with escapes are copied while they are scanned. Decoding never makes a string longer
 * (six bytes of escape give at most three), so a buffer of the line's length holds all that can be
 * decoded from it.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "tok/jsonl.h"
#include "tok/scan.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 512, DETAIL_BYTES = 160, SCRATCH_LEAST = 1 << 12, SCRATCH_KEPT = 4 << 20 };

const char *const jsonl_class_name[JSONL_CLASSES] = {
	"ok",
	"blank",
	"syntax",
	"missing-key",
	"wrong-type",
	"not-object",
	"lone-surrogate",
	"bad-utf8",
	"bom",
	"too-long",
	"refused",
	"bad-chat",
	"bad-span",
	"control-in-content",
};

/* What the last member of a wanted name held. */
struct member {
	const char *name;
	size_t name_len;
	struct jsonl_text text; /* a string */
	const char *list;       /* a list: its bracket; NULL: a string */
	enum jsonl_class class;
	const char *found; /* JSONL_WRONG_TYPE: the type that was found */
	size_t at;         /* byte of the fault, from 1 */
};

/* A parser and the results of the last line; the next line reuses all of it. */
struct jsonl {
	struct member *member;
	int num_members;
	/* decoded strings; never longer than the line, so it does not move during one */
	char *scratch;
	size_t used, cap;
	const struct member *walk;
	int more;         /* strings of the walk, if above 0 */
	size_t max_bytes; /* of a line */
	const char *line, *p, *end;
	char detail[DETAIL_BYTES];
};

static int skip_value(struct jsonl *j, int depth);

/* The names are borrowed for as long as the parser lives. */
struct jsonl *
jsonl_new(const struct opt_list *keys, int64_t max_bytes)
{
	struct jsonl *j = mem_zalloc(1, sizeof *j);

	j->num_members = keys->count;
	j->max_bytes = (size_t)max_bytes;
	j->member = mem_zalloc((size_t)keys->count, sizeof *j->member);
	for (int i = 0; i < keys->count; i++) {
		j->member[i].name = keys->item[i];
		j->member[i].name_len = strlen(keys->item[i]);
	}
	return j;
}

/* NULL is allowed. Texts that were returned are no longer valid. */
void
jsonl_free(struct jsonl *j)
{
	if (!j)
		return;
	free(j->member);
	free(j->scratch);
	free(j);
}

/* What the class of the last line leaves open: what and where. Valid until the next line. */
const char *
jsonl_detail(const struct jsonl *j)
{
	return j->detail;
}

/* Strings that were not copied begin in the line; those of lists are copied one at a time. */
bool
jsonl_has_copied(const struct jsonl *j)
{
	for (int i = 0; i < j->num_members; i++) {
		const struct member *m = &j->member[i];

		if (m->list || (m->text.bytes >= j->line && m->text.bytes <= j->end))
			return false;
	}
	return true;
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

/* JSON's white space, which includes a lone CR. */
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

/* The byte that an escape stands for, by the byte after the backslash; 0 for 'u' and for what is
 * not an escape. */
static const char simple_escape[256] = {
	['"'] = '"',
	['\\'] = '\\',
	['/'] = '/',
	['b'] = '\b',
	['f'] = '\f',
	['n'] = '\n',
	['r'] = '\r',
	['t'] = '\t',
};

/* One more than the value of a hexadecimal digit; 0 for other bytes. */
static const signed char hex_digit[256] = {
	['0'] = 1,
	['1'] = 2,
	['2'] = 3,
	['3'] = 4,
	['4'] = 5,
	['5'] = 6,
	['6'] = 7,
	['7'] = 8,
	['8'] = 9,
	['9'] = 10,
	['a'] = 11,
	['b'] = 12,
	['c'] = 13,
	['d'] = 14,
	['e'] = 15,
	['f'] = 16,
	['A'] = 11,
	['B'] = 12,
	['C'] = 13,
	['D'] = 14,
	['E'] = 15,
	['F'] = 16,
};

/* Four hexadecimal digits, or -1. */
static int
hex4(const char *s)
{
	int v = 0;

	for (int i = 0; i < 4; i++) {
		int digit = hex_digit[(unsigned char)s[i]];

		if (!digit)
			return -1;
		v = v << 4 | (digit - 1);
	}
	return v;
}

/* Checks the escape that begins at the backslash p and skips it. */
static int
skip_escape(struct jsonl *j)
{
	if (j->end - j->p < 2)
		return fail(j, "unterminated string");
	if (simple_escape[(unsigned char)j->p[1]]) {
		j->p += 2;
		return 0;
	}
	if (j->p[1] != 'u')
		return fail(j, "unknown escape");
	if (j->end - j->p < 6 || hex4(j->p + 2) < 0)
		return fail(j, "\\u without four hexadecimal digits");
	j->p += 6;
	return 0;
}

/* Skips the string whose opening quote is next. */
static int
skip_string(struct jsonl *j)
{
	for (j->p++;;) {
		j->p = scan_text(j->p, j->end);
		if (j->p == j->end)
			return fail(j, "unterminated string");
		if (*j->p == '"')
			break;
		if (*j->p != '\\')
			return fail(j, "control character in a string");
		if (skip_escape(j) < 0)
			return -1;
	}
	j->p++;
	return 0;
}

/* The second half of a surrogate pair whose first half ends at s, or 0. */
static int
low_surrogate(const char *s, const char *end)
{
	int low = end - s >= 6 && s[0] == '\\' && s[1] == 'u' ? hex4(s + 2) : -1;

	return low >= 0xdc00 && low <= 0xdfff ? low : 0;
}

/* Decodes the escape at j->p to *out and skips it. The first unpaired surrogate of the string is
 * remembered in *lone; it decodes to nothing. A pair is twelve bytes and gives four. */
static int
decode_escape(struct jsonl *j, char **out, const char **lone)
{
	const char *s = j->p;
	int cp, low;

	if (skip_escape(j) < 0)
		return -1;
	if (s[1] != 'u') {
		*(*out)++ = simple_escape[(unsigned char)s[1]];
		return 0;
	}
	cp = hex4(s + 2);
	if (cp >= 0xd800 && cp <= 0xdfff) {
		low = cp <= 0xdbff ? low_surrogate(j->p, j->end) : 0;
		if (!low) {
			*lone = *lone ? *lone : s;
			return 0;
		}
		j->p += 6;
		cp = 0x10000 + ((cp - 0xd800) << 10 | (low - 0xdc00));
	}
	*out += utf8_encode((uint32_t)cp, (unsigned char *)*out);
	return 0;
}

/* Reads the string whose opening quote is next; *text is its value, in the line where nothing had
 * to be decoded, else in scratch, which has room for the whole line, so its end is not checked.
 * *lone: the first unpaired surrogate, or NULL. */
static int
read_string(struct jsonl *j, struct jsonl_text *text, const char **lone)
{
	const char *start = ++j->p;
	char *out = j->scratch + j->used;

	*lone = NULL;
	j->p = scan_text(start, j->end);
	text->bytes = start;
	text->len = (size_t)(j->p - start);
	if (j->p < j->end && *j->p == '"') {
		j->p++;
		return 0;
	}
	text->bytes = out;
	memcpy(out, start, text->len);
	out += text->len;
	for (;;) {
		j->p = scan_copy(j->p, j->end, &out, simple_escape);
		if (j->p == j->end || *j->p != '\\')
			break;
		do
			if (decode_escape(j, &out, lone) < 0)
				return -1;
		while (j->p < j->end && *j->p == '\\');
	}
	if (j->p == j->end)
		return fail(j, "unterminated string");
	if (*j->p != '"')
		return fail(j, "control character in a string");
	j->p++;
	text->len = (size_t)(out - text->bytes);
	j->used += text->len;
	return 0;
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

/* Skips the opening bracket that is next: 1 when an item follows, 0 at the closing one. */
static int
first(struct jsonl *j, char close)
{
	j->p++;
	skip_space(j);
	return !next_is(j, close);
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

/* The colon after a member's name; leaves p at the value. */
static int
skip_colon(struct jsonl *j)
{
	skip_space(j);
	if (!next_is(j, ':'))
		return fail(j, "no ':'");
	skip_space(j);
	return 0;
}

/* A member's name, which is read but not wanted, and the colon. */
static int
skip_name(struct jsonl *j)
{
	if (j->p == j->end || *j->p != '"')
		return fail(j, "no member name");
	return skip_string(j) < 0 ? -1 : skip_colon(j);
}

/* A member's name and the colon. Names are decoded: "te\u0078t" is "text"; one with a lone
 * surrogate matches no key, since keys hold only bytes of UTF-8. */
static int
take_name(struct jsonl *j, struct jsonl_text *name)
{
	const char *lone;

	if (j->p == j->end || *j->p != '"')
		return fail(j, "no member name");
	if (read_string(j, name, &lone) < 0)
		return -1;
	if (lone)
		*name = (struct jsonl_text){ "\xff", 1 };
	return skip_colon(j);
}

/* Steps over [...]. */
static int
skip_array(struct jsonl *j, int depth)
{
	int more = first(j, ']');

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
	int more = first(j, '}');

	while (more > 0) {
		if (skip_name(j) < 0 || skip_value(j, depth + 1) < 0)
			return -1;
		more = another(j, '}');
	}
	return more;
}

/* Checks the value at p and skips it. The bound on depth keeps a hostile line from exhausting a
 * thread's stack. */
static int
skip_value(struct jsonl *j, int depth)
{
	if (depth > DEPTH_MAX)
		return fail(j, "more than 512 levels");
	switch (j->p < j->end ? *j->p : '\0') {
	case '"': return skip_string(j);
	case '[': return skip_array(j, depth);
	case '{': return skip_object(j, depth);
	default: return skip_word(j);
	}
}

/* The type of a value, from its first byte. */
static const char *
kind_of(char c)
{
	switch (c) {
	case '"': return "a string";
	case '[': return "an array";
	case '{': return "an object";
	case 'n': return "null";
	case 't':
	case 'f': return "a boolean";
	default: return "a number";
	}
}

/* The first fault of a wanted member, and where it is. */
static void
blame(const struct jsonl *j, struct member *m, enum jsonl_class class, const char *found,
    const char *at)
{
	if (m->class != JSONL_OK)
		return;
	m->class = class;
	m->found = found;
	m->at = (size_t)(at - j->line) + 1;
}

/* Reads a wanted string. A lone surrogate makes the member bad but not the syntax, so the rest of
 * the line is still checked. */
static int
take_string(struct jsonl *j, struct member *m)
{
	const char *lone;

	if (read_string(j, &m->text, &lone) < 0)
		return -1;
	if (lone)
		blame(j, m, JSONL_LONE_SURROGATE, "", lone);
	return 0;
}

/* Checks a list that ought to hold strings alone; none of them is kept. Items that are not strings
 * are skipped, so that bad syntax after them is reported first. */
static int
take_list(struct jsonl *j, struct member *m)
{
	size_t used = j->used;
	int more;

	m->list = j->p;
	more = first(j, ']');
	while (more > 0) {
		if (j->p < j->end && *j->p == '"') {
			if (take_string(j, m) < 0)
				return -1;
			j->used = used;
		} else {
			blame(j, m, JSONL_WRONG_TYPE, "a list with other things in it", j->p);
			if (skip_value(j, 2) < 0)
				return -1;
		}
		more = another(j, ']');
	}
	return more;
}

/* Reads the value of a wanted member and forgets that of an earlier one of the same name: the last
 * one counts, as in Python. */
static int
take_value(struct jsonl *j, struct member *m)
{
	m->class = JSONL_OK;
	m->list = NULL;
	switch (j->p < j->end ? *j->p : '\0') {
	case '"': return take_string(j, m);
	case '[': return take_list(j, m);
	default:
		blame(j, m, JSONL_WRONG_TYPE, j->p < j->end ? kind_of(*j->p) : "", j->p);
		return skip_value(j, 1);
	}
}

void
jsonl_walk(struct jsonl *j, int key)
{
	j->walk = &j->member[key];
	j->more = 1;
	if (!j->walk->list)
		return;
	j->p = j->walk->list;
	j->more = first(j, ']');
}

/* All items of a list are known to be strings, so nothing fails. */
bool
jsonl_next(struct jsonl *j, struct jsonl_text *text)
{
	size_t used = j->used;
	const char *lone;

	if (j->more <= 0)
		return false;
	if (!j->walk->list) {
		*text = j->walk->text;
		j->more = 0;
		return true;
	}
	if (read_string(j, text, &lone) < 0)
		BUG("a list of strings cannot be read again: %s", j->detail);
	j->used = used;
	j->more = another(j, ']');
	return true;
}

/* The wanted member of that name, or NULL. */
static struct member *
wanted(struct jsonl *j, const struct jsonl_text *name)
{
	for (int i = 0; i < j->num_members; i++)
		if (j->member[i].name_len == name->len &&
		    !memcmp(j->member[i].name, name->bytes, name->len))
			return &j->member[i];
	return NULL;
}

/* Reads the outermost object. */
static int
take_object(struct jsonl *j)
{
	struct jsonl_text name;
	struct member *m;
	int more = first(j, '}');

	while (more > 0) {
		if (take_name(j, &name) < 0)
			return -1;
		m = wanted(j, &name);
		if ((m ? take_value(j, m) : skip_value(j, 1)) < 0)
			return -1;
		more = another(j, '}');
	}
	return more;
}

/* The class of the line, from its wanted members. The first wanted member with a fault, in the
 * order of the keys, gives the class. */
static enum jsonl_class
classify(struct jsonl *j, size_t object)
{
	for (int i = 0; i < j->num_members; i++) {
		const struct member *m = &j->member[i];

		if (m->class == JSONL_MISSING_KEY)
			return answer(j, m->class, "no member '%.60s' in the object at byte %zu",
			    m->name, object);
		if (m->class == JSONL_WRONG_TYPE)
			return answer(j, m->class,
			    "'%.60s' is %s, not a string or a list of strings, at byte %zu",
			    m->name, m->found, m->at);
		if (m->class == JSONL_LONE_SURROGATE)
			return answer(j, m->class,
			    "'%.60s' has an unpaired surrogate escape at byte %zu", m->name, m->at);
	}
	return JSONL_OK;
}

/* Makes room for what the line may decode to, and forgets the line before. The old contents are not
 * needed, hence free and alloc rather than realloc; the memory of a very long line is freed. */
static void
begin(struct jsonl *j, const char *line, size_t len)
{
	size_t need = len + SCAN_SLACK;

	if (j->cap < need || (j->cap > SCRATCH_KEPT && need <= SCRATCH_KEPT)) {
		free(j->scratch);
		j->cap = need > SCRATCH_LEAST ? need + need / 4 : SCRATCH_LEAST;
		j->scratch = mem_alloc(j->cap, 1);
	}
	j->used = 0;
	j->more = 0;
	j->line = j->p = line;
	j->end = line + len;
	for (int i = 0; i < j->num_members; i++)
		j->member[i].class = JSONL_MISSING_KEY;
}

static enum jsonl_class
too_long(struct jsonl *j)
{
	return answer(j, JSONL_TOO_LONG,
	    "more than %zu bytes, the most that --max-document-bytes allows", j->max_bytes);
}

static enum jsonl_class
malformed(struct jsonl *j, const char *line, size_t len)
{
	return answer(j, JSONL_BAD_UTF8, "malformed UTF-8 at byte %zu",
	    utf8_check((const unsigned char *)line, len) + 1);
}

enum jsonl_class
jsonl_take_text(struct jsonl *j, const char *text, size_t len)
{
	if (len > j->max_bytes)
		return too_long(j);
	begin(j, text, 0);
	j->end = text + len;
	skip_space(j);
	if (j->p == j->end)
		return JSONL_BLANK;
	if (!utf8_valid(text, len))
		return malformed(j, text, len);
	j->member[0].class = JSONL_OK;
	j->member[0].list = NULL;
	j->member[0].text = (struct jsonl_text){ text, len };
	return JSONL_OK;
}

/* Encoding comes before syntax, as it does for a reader that decodes the file first. line need
 * not end in NUL or a line feed and must stay until the values have been used. Bytes are counted
 * from the start of the line. */
enum jsonl_class
jsonl_parse(struct jsonl *j, const char *line, size_t len)
{
	size_t start;
	bool object;
	char byte;

	if (len > j->max_bytes)
		return too_long(j);
	begin(j, line, len);
	skip_space(j);
	if (j->p == j->end)
		return JSONL_BLANK;
	start = (size_t)(j->p - line) + 1;
	if (j->end - j->p >= 3 && !memcmp(j->p, "\xef\xbb\xbf", 3))
		return answer(j, JSONL_BOM, "byte order mark inside the file, at byte %zu", start);
	if (!utf8_valid(line, len))
		return malformed(j, line, len);
	byte = *j->p;
	object = byte == '{';
	if ((object ? take_object(j) : skip_value(j, 0)) < 0)
		return JSONL_SYNTAX;
	skip_space(j);
	if (j->p < j->end) {
		fail(j, "text after the value");
		return JSONL_SYNTAX;
	}
	if (!object)
		return answer(
		    j, JSONL_NOT_OBJECT, "the line is %s at byte %zu", kind_of(byte), start);
	return classify(j, start);
}

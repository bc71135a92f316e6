/*
 * regex.c - the patterns of tokenizer.json
 *
 * Source: Oniguruma's doc/RE (Ruby syntax) and pcre2pattern(3). ^ and $ mean lines; \s is the
 * property White_Space and \w letters, marks, numbers, connectors and Other_Alphabetic, for \b
 * too, whereas PCRE2's \s has U+180E and its \w lacks marks; \p{Script} is the
 * property Script and not Script_Extensions. Inverted sets inside sets, intersections, hexadecimal
 * \h and intervals with a plus, which mean something else there, are refused.
 * General categories are those of Unicode 16.0, as in Oniguruma: to PCRE2's own, of 14.0 or later,
 * a table adds what came since and takes what went. Inside a set nothing can be taken.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/token/regex.h"
#include "lib/token/unicode_recent_table.h"

#include <pcre2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	STEPS_MAX = 10000000,
	MEMORY_MAX = 1 << 16, /* KiB, of the interpreter */
	JIT_STACK_MIN = 1 << 15,
	JIT_STACK_MAX = 1 << 20,
};

#define SPACE \
	"\\t-\\r " \
	"\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
/* In these texts @ stands for the members of \w. Outside of a set Oniguruma asks another table
 * about Latin-1, where powers and fractions are of words. */
#define LONE_WORD "[@\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}]"
#define LONE_OTHER "[^@\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}]"
/* Between a character of a word and one that is none. */
#define EDGE "(?:(?<=" LONE_WORD ")(?!" LONE_WORD ")|(?<!" LONE_WORD ")(?=" LONE_WORD "))"

struct regex {
	pcre2_code *code; /* NULL: the string */
	char *string;
	size_t len;
};

struct regex_scratch {
	pcre2_match_data *data;
	pcre2_match_context *context;
	pcre2_jit_stack *stack;
};

/* A pattern while it is being translated. */
struct translation {
	const char *s;
	size_t n, pos;
	bool in_set;
	size_t set_start; /* where a ']' is an ordinary character */
	int depth;        /* of sets inside the set */
	struct str out;
};

/* Adds the code points that a category gained since 14.0, or those that it lost; returns how many
 * rows. */
static int
add_recent(struct str *out, const char *name, size_t len, bool lost)
{
	int rows = 0;

	for (size_t i = 0; i < sizeof unicode_recent / sizeof *unicode_recent; i++) {
		bool now = !strncmp(unicode_recent[i].category, name, len),
		     before = !strncmp(unicode_recent[i].before, name, len);

		if (now == before || before != lost)
			continue;
		str_addf(out, "\\x{%x}-\\x{%x}", (unsigned)unicode_recent[i].first,
		    (unsigned)unicode_recent[i].last);
		rows++;
	}
	return rows;
}

/* A general category, or what is not of it. */
static void
add_category(struct translation *t, const char *name, size_t len, bool negated)
{
	struct str lost = { 0 };
	bool loses = add_recent(&lost, name, len, true) > 0;

	if (t->in_set && negated)
		str_addf(&t->out, "\\P{%.*s}%s", (int)len, name, loses ? lost.buf : "");
	if (!t->in_set && loses)
		str_addf(&t->out, negated ? "(?:[%s]|" : "(?:(?![%s])", lost.buf);
	if (!t->in_set)
		str_adds(&t->out, negated ? "[^" : "[");
	if (!t->in_set || !negated) {
		str_addf(&t->out, "\\p{%.*s}", (int)len, name);
		add_recent(&t->out, name, len, false);
	}
	if (!t->in_set)
		str_adds(&t->out, loses ? "])" : "]");
	str_release(&lost);
}

/* A text in which @ stands for the members of \w. */
static void
add_text(struct translation *t, const char *text)
{
	static const char *const words[] = { "L", "M", "Nd", "Nl", "Pc" };

	for (; *text; text++) {
		if (*text != '@') {
			str_addc(&t->out, *text);
			continue;
		}
		for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
			str_addf(&t->out, "\\p{%s}", words[i]);
			add_recent(&t->out, words[i], strlen(words[i]), false);
		}
		str_adds(&t->out,
		    "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{"
		    "1f189}");
	}
}

/* \p{Name} or \p{^Name}: long names of the seven large categories become letters, other long names
 * are scripts. pos is after the p. */
static void
add_property(struct translation *t, char p)
{
	static const char *const large[][2] = { { "Letter", "L" }, { "Mark", "M" },
		{ "Number", "N" }, { "Punctuation", "P" }, { "Symbol", "S" }, { "Separator", "Z" },
		{ "Other", "C" } };
	const char *close =
	    t->pos < t->n && t->s[t->pos] == '{' ? memchr(t->s + t->pos, '}', t->n - t->pos) : NULL;
	const char *name = t->s + t->pos + 1;
	bool negated = p == 'P';
	size_t len;

	if (!close) {
		str_addf(&t->out, "\\%c", p);
		return;
	}
	if (*name == '^') {
		negated = !negated;
		name++;
	}
	len = (size_t)(close - name);
	t->pos = (size_t)(close + 1 - t->s);
	for (size_t i = 0; i < sizeof large / sizeof *large; i++)
		if (strlen(large[i][0]) == len && !memcmp(name, large[i][0], len)) {
			name = large[i][1];
			len = 1;
		}
	if (len > 0 && len <= 2)
		add_category(t, name, len, negated);
	else
		str_addf(&t->out, "\\%c{%s%.*s}", negated ? 'P' : 'p',
		    len && !memchr(name, '&', len) && !(len == 3 && !memcmp(name, "Any", 3)) ? "sc:"
											     : "",
		    (int)len, name);
}

/* What follows a backslash. */
static int
translate_escape(struct translation *t, struct err *e)
{
	static const struct {
		char letter;
		const char *inside, *outside;
	} classes[] = {
		{ 's', SPACE, "[" SPACE "]" },
		{ 'S', "\\S\\x{180e}", "[^" SPACE "]" },
		{ 'w', "@", LONE_WORD },
		{ 'W', NULL, LONE_OTHER },
		{ 'b', "\\b", EDGE },
		{ 'B', NULL, "(?!" EDGE ")" },
	};
	char c = t->pos < t->n ? t->s[t->pos++] : '\0';

	for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
		if (classes[i].letter == c && (classes[i].inside || !t->in_set)) {
			add_text(t, t->in_set ? classes[i].inside : classes[i].outside);
			return 0;
		}
	if (c == 'W' || c == 'h' || c == 'H') {
		return err_set(e, "'\\%c'%s is not supported", c, t->in_set ? " inside a set" : "");
	} else if (c == 'p' || c == 'P') {
		add_property(t, c);
	} else if (c == 'd' || c == 'D') {
		add_category(t, "Nd", 2, c == 'D');
	} else if (c) {
		str_addc(&t->out, '\\');
		str_addc(&t->out, c);
	} else {
		return err_set(e, "the pattern ends in a backslash or holds a NUL after one");
	}
	return 0;
}

/* [:name:] inside a set; pos is after its bracket. */
static void
translate_class(struct translation *t)
{
	const char *name = t->s + t->pos, *end = memmem(name, t->n - t->pos, ":]", 2);
	size_t len = end ? (size_t)(end + 2 - name) : 0;

	t->pos += len;
	if (len == 8 && !memcmp(name, ":space:]", len))
		str_adds(&t->out, SPACE);
	else if (len == 7 && !memcmp(name, ":word:]", len))
		add_text(t, "@");
	else
		str_addf(&t->out, "[%.*s", (int)len, name);
}

/* A bracket of a set inside a set: a plain one adds its members to the outer set, so the bracket
 * goes. That must not join what stands at either side of it to a range. */
static int
translate_inner(struct translation *t, char c, struct err *e)
{
	char next = t->pos < t->n ? t->s[t->pos] : '\0';

	if (next == '-' || t->s[t->pos - 2] == '-' || (c == '[' && (next == '^' || next == ']')))
		return err_set(e, "a set inside a set is supported only where it adds its members");
	t->depth += c == '[' ? 1 : -1;
	return 0;
}

/* A character inside [...]. */
static int
translate_member(struct translation *t, char c, struct err *e)
{
	char next = t->pos < t->n ? t->s[t->pos] : '\0';

	if (c == '[' && next == ':') {
		translate_class(t);
		return 0;
	}
	if (c == '&' && next == '&')
		return err_set(e, "an intersection of sets is not supported");
	if (c == '[' || (c == ']' && t->depth > 0))
		return translate_inner(t, c, e);
	if (c == ']' && t->pos - 1 > t->set_start)
		t->in_set = false;
	str_addc(&t->out, c);
	return 0;
}

/* Copies the pattern, changing what means something else to PCRE2. */
static int
translate(struct translation *t, struct err *e)
{
	while (t->pos < t->n) {
		char c = t->s[t->pos++];

		if (c == '\\') {
			if (translate_escape(t, e) < 0)
				return -1;
		} else if (t->in_set) {
			if (translate_member(t, c, e) < 0)
				return -1;
		} else if (c == '[') {
			t->in_set = true;
			t->set_start = t->pos + (t->pos < t->n && t->s[t->pos] == '^');
			str_add(&t->out, t->s + t->pos - 1, t->set_start - t->pos + 1);
			t->pos = t->set_start;
		} else {
			str_addc(&t->out, c);
			if (c == '}' && t->pos < t->n && t->s[t->pos] == '+')
				return err_set(e, "an interval followed by '+' is not supported");
		}
	}
	return 0;
}

/* The longer the pattern the better: NULL with PCRE2's own words and the place. */
static pcre2_code *
compile(const struct str *pattern, struct err *e)
{
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	unsigned char why[256];
	pcre2_code *code;
	PCRE2_SIZE at;
	int number;

	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	code = pcre2_compile((PCRE2_SPTR)(pattern->buf ? pattern->buf : ""), pattern->len,
	    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &number, &at, context);
	pcre2_compile_context_free(context);
	if (!code) {
		pcre2_get_error_message(number, why, sizeof why);
		err_set(e, "%s, at byte %zu of '%.200s'", (const char *)why, at, pattern->buf);
		return NULL;
	}
	/* Where there is no compiler for the machine the interpreter does the work. */
	pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
	return code;
}

/* The caller puts the place before the reason. */
struct regex *
regex_new(const char *pattern, size_t len, struct err *e)
{
	struct translation t = { .s = pattern, .n = len };
	struct regex *r = NULL;
	pcre2_code *code = translate(&t, e) < 0 ? NULL : compile(&t.out, e);

	if (code) {
		r = mem_zalloc(1, sizeof *r);
		r->code = code;
	}
	str_release(&t.out);
	return r;
}

/* No engine is needed for it. */
struct regex *
regex_new_string(const char *text, size_t len)
{
	struct regex *r = mem_zalloc(1, sizeof *r);

	r->string = mem_strndup(text, len);
	r->len = len;
	return r;
}

/* Matches nothing but itself. */
bool
regex_is_string(const struct regex *r)
{
	return r->code == NULL;
}

/* No thread may still search with it. */
void
regex_free(struct regex *r)
{
	if (!r)
		return;
	pcre2_code_free(r->code);
	free(r->string);
	free(r);
}

/* One pair of offsets is all that is asked for; groups are not. */
struct regex_scratch *
regex_scratch_new(void)
{
	struct regex_scratch *m = mem_zalloc(1, sizeof *m);

	m->data = pcre2_match_data_create(1, NULL);
	m->context = pcre2_match_context_create(NULL);
	m->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL);
	pcre2_set_match_limit(m->context, STEPS_MAX);
	pcre2_set_heap_limit(m->context, MEMORY_MAX);
	pcre2_jit_stack_assign(m->context, NULL, m->stack);
	return m;
}

/* NULL is fine. */
void
regex_scratch_free(struct regex_scratch *m)
{
	if (!m)
		return;
	pcre2_match_data_free(m->data);
	pcre2_match_context_free(m->context);
	pcre2_jit_stack_free(m->stack);
	free(m);
}

/* The next place of the string. */
static int
find_string(const struct regex *r, struct regex_walk *w)
{
	const char *hit = r->len == 1 ? memchr(w->s + w->pos, *r->string, w->n - w->pos)
				      : memmem(w->s + w->pos, w->n - w->pos, r->string, r->len);

	if (!hit)
		return 0;
	w->start = (size_t)(hit - w->s);
	w->end = w->start + r->len;
	return 1;
}

/* The interpreter takes over when the compiled code has used up its stack. */
static int
find_match(const struct regex *r, struct regex_scratch *m, struct regex_walk *w, struct err *e)
{
	PCRE2_SPTR s = (PCRE2_SPTR)w->s;
	unsigned char why[256];
	int rc;

	rc = pcre2_match(r->code, s, w->n, w->pos, PCRE2_NO_UTF_CHECK, m->data, m->context);
	if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
		rc = pcre2_match(r->code, s, w->n, w->pos, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
		    m->data, m->context);
	if (rc == PCRE2_ERROR_NOMATCH)
		return 0;
	if (rc < 0) {
		pcre2_get_error_message(rc, why, sizeof why);
		return err_set(e, "a regular expression gave up at byte %zu of the text: %s",
		    w->pos, (const char *)why);
	}
	w->start = pcre2_get_ovector_pointer(m->data)[0];
	w->end = pcre2_get_ovector_pointer(m->data)[1];
	return 1;
}

/* Bytes of the character at pos; 1 at the end. */
static size_t
step(const struct regex_walk *w)
{
	size_t i = w->pos + 1;

	while (i < w->n && ((unsigned char)w->s[i] & 0xc0) == 0x80)
		i++;
	return i - w->pos;
}

/* An empty match where the last one ended is passed over, else the walk would not end. \K can move
 * a start after the end; such a match counts as empty. */
int
regex_next(const struct regex *r, struct regex_scratch *m, struct regex_walk *w, struct err *e)
{
	while (w->pos <= w->n) {
		int rc = r->code ? find_match(r, m, w, e) : find_string(r, w);

		if (rc <= 0)
			return rc;
		if (w->start > w->end || w->start < w->pos)
			w->start = w->end;
		if (w->start < w->end || w->guard != w->end + 1) {
			w->pos = w->end;
			w->guard = w->end + 1;
			return 1;
		}
		w->pos = w->end;
		w->pos += step(w);
	}
	return 0;
}

/* The library adds its date, which is left out. */
void
regex_version(struct str *out)
{
	char text[64] = "";

	pcre2_config(PCRE2_CONFIG_VERSION, text);
	str_add(out, text, strcspn(text, " "));
}

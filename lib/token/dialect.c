/*
 * dialect.c - regular expressions as Oniguruma understands them, written for PCRE2
 *
 * A set is collected before it is written. Its members form one list; a member with exceptions,
 * such as a category that lost code points since PCRE2's tables were made, becomes a separate
 * alternative: [^\P{L}x] becomes (?:(?!(?:[x]|(?![NEW])\P{L}))(?s:.)).
 */
#include "lib/base/mem.h"
#include "lib/token/dialect.h"
#include "lib/token/unicode_recent_table.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { NAME_MAX_LEN = 32, GROUPS_MAX = 63 };

#define SPACE \
	"\\t-\\r " \
	"\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
/* In these texts @ stands for the members of \w. Outside a set, Oniguruma uses another table for
 * Latin-1, in which powers and fractions are word characters. */
#define LONE_WORD "[@\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}]"
#define LONE_OTHER "[^@\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}]"
/* Between a word character and another one. */
#define EDGE "(?:(?<=" LONE_WORD ")(?!" LONE_WORD ")|(?<!" LONE_WORD ")(?=" LONE_WORD "))"
#define HEX "0-9A-Fa-f"

struct translation {
	const char *s;
	size_t n, pos;
	struct str *out;
	uint64_t caseless; /* a bit for each open group, the innermost lowest */
	int groups;
	/* the set that is open */
	bool in_set, negated;
	size_t set_start;        /* where a ']' is an ordinary character */
	int depth;               /* of sets inside the set */
	struct str plain, apart; /* its members; its alternatives, each after a bar */
};

/* --- sets ------------------------------------------------------------------------------------- */

static void
begin_set(struct translation *t, bool negated)
{
	t->in_set = true;
	t->negated = negated;
	str_clear(&t->plain);
	str_clear(&t->apart);
}

/* A set without alternatives stays a set. */
static void
end_set(struct translation *t)
{
	struct str *out = t->out;
	const char *apart = t->apart.len ? t->apart.buf : "",
		   *plain = t->plain.len ? t->plain.buf : "";

	t->in_set = false;
	if (!*apart) {
		str_addf(out, "[%s%s]", t->negated ? "^" : "", plain);
		return;
	}
	str_adds(out, t->negated ? "(?:(?!" : "");
	if (*plain)
		str_addf(out, "(?:[%s]%s)", plain, apart);
	else
		str_addf(out, "(?:%s)", apart + 1);
	str_adds(out, t->negated ? ")(?s:.))" : "");
}

/* A text in which @ stands for the members of \w. */
static void
add_text(struct str *out, const char *text)
{
	static const char *const words[] = { "L", "M", "Nd", "Nl", "Pc" };

	for (; *text; text++) {
		if (*text != '@') {
			str_addc(out, *text);
			continue;
		}
		for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
			str_addf(out, "\\p{%s}", words[i]);
			for (size_t k = 0; k < UNICODE_RECENT; k++)
				if (!strncmp(
					unicode_recent[k].category, words[i], strlen(words[i])))
					str_addf(out, "\\x{%x}-\\x{%x}",
					    (unsigned)unicode_recent[k].first,
					    (unsigned)unicode_recent[k].last);
		}
		str_adds(out,
		    "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{"
		    "1f189}");
	}
}

/* --- properties ------------------------------------------------------------------------------- */

/* Long names of categories, as Oniguruma compares them: only small letters. Any other name is a
 * script's. "Assigned" is everything outside Cn. */
static const struct {
	const char *name, *category;
	bool negated;
} categories[] = {
	{ "letter", "L", false },
	{ "uppercaseletter", "Lu", false },
	{ "lowercaseletter", "Ll", false },
	{ "titlecaseletter", "Lt", false },
	{ "modifierletter", "Lm", false },
	{ "otherletter", "Lo", false },
	{ "mark", "M", false },
	{ "combiningmark", "M", false },
	{ "nonspacingmark", "Mn", false },
	{ "spacingmark", "Mc", false },
	{ "enclosingmark", "Me", false },
	{ "number", "N", false },
	{ "decimalnumber", "Nd", false },
	{ "letternumber", "Nl", false },
	{ "othernumber", "No", false },
	{ "punctuation", "P", false },
	{ "connectorpunctuation", "Pc", false },
	{ "dashpunctuation", "Pd", false },
	{ "openpunctuation", "Ps", false },
	{ "closepunctuation", "Pe", false },
	{ "initialpunctuation", "Pi", false },
	{ "finalpunctuation", "Pf", false },
	{ "otherpunctuation", "Po", false },
	{ "symbol", "S", false },
	{ "mathsymbol", "Sm", false },
	{ "currencysymbol", "Sc", false },
	{ "modifiersymbol", "Sk", false },
	{ "othersymbol", "So", false },
	{ "separator", "Z", false },
	{ "spaceseparator", "Zs", false },
	{ "lineseparator", "Zl", false },
	{ "paragraphseparator", "Zp", false },
	{ "other", "C", false },
	{ "control", "Cc", false },
	{ "format", "Cf", false },
	{ "privateuse", "Co", false },
	{ "surrogate", "Cs", false },
	{ "unassigned", "Cn", false },
	{ "assigned", "Cn", true },
};

/* A property as PCRE2 knows it, with the code points that its tables lack or have in excess. */
struct property {
	char name[NAME_MAX_LEN + 8];
	struct str gained, lost;
};

static void
add_range(struct str *out, unsigned first, unsigned last)
{
	str_addf(out, "\\x{%x}-\\x{%x}", first, last);
}

/* Adds a property or its complement to the set. Where PCRE2 has too many code points for it, it
 * becomes an alternative. */
static void
add_property(struct translation *t, const struct property *p, bool negated)
{
	const struct str *more = negated ? &p->lost : &p->gained,
			 *less = negated ? &p->gained : &p->lost;

	if (less->len)
		str_addf(&t->apart, "|(?![%s])\\%c{%s}", less->buf, negated ? 'P' : 'p', p->name);
	else
		str_addf(&t->plain, "\\%c{%s}", negated ? 'P' : 'p', p->name);
	str_add(&t->plain, more->buf ? more->buf : "", more->len);
}

/*
 * A category or script by its short name, in the open set or by itself, with the code points that
 * it gained and lost since 14.0; scripts, by either of their names after "sc:", lost none. Outside
 * a set, case is not ignored. In a set that ignores case Oniguruma takes the other cases of all
 * members, which PCRE2 does only for single characters; marks have them too, such as U+0345.
 */
static int
add_category(struct translation *t, const char *name, bool negated, struct err *e)
{
	struct property p = { { 0 }, { 0 }, { 0 } };
	const char *script = *name == 's' ? name + 3 : NULL;
	size_t len = strlen(name);

	if (t->in_set && t->caseless & 1 && strchr("LMs", *name))
		return err_set(e, "'\\p{%s}' in a set that ignores case is not supported", name);
	memcpy(p.name, name, len + 1);
	for (size_t i = 0; !script && i < UNICODE_RECENT; i++) {
		bool now = !strncmp(unicode_recent[i].category, name, len),
		     before = !strncmp(unicode_recent[i].before, name, len);

		if (now != before)
			add_range(now ? &p.gained : &p.lost, unicode_recent[i].first,
			    unicode_recent[i].last);
	}
	for (size_t i = 0; script && i < UNICODE_RECENT_SCRIPTS; i++)
		if (!strcmp(unicode_recent_scripts[i].name, script) ||
		    !strcmp(unicode_recent_scripts[i].alias, script))
			add_range(&p.gained, unicode_recent_scripts[i].first,
			    unicode_recent_scripts[i].last);
	if (t->in_set) {
		add_property(t, &p, negated);
	} else {
		begin_set(t, negated);
		str_adds(t->out, t->caseless & 1 ? "(?-i:" : "");
		add_property(t, &p, false);
		end_set(t);
		str_adds(t->out, t->caseless & 1 ? ")" : "");
	}
	str_release(&p.gained);
	str_release(&p.lost);
	return 0;
}

/* The name without blanks, hyphens and underscores, in small letters; room for NAME_MAX_LEN. */
static int
read_name(char *out, const char *s, size_t len, struct err *e)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = s[i];

		if (c == ' ' || c == '-' || c == '_')
			continue;
		c = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
		if (n == NAME_MAX_LEN || !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')))
			return err_set(e, "the property '%.*s' is not supported", (int)len, s);
		out[n++] = c;
	}
	out[n] = '\0';
	return 0;
}

/* \p{Name} or \p{^Name}; pos is after the p. */
static int
translate_property(struct translation *t, bool negated, struct err *e)
{
	const char *s = t->s + t->pos;
	const char *close = t->pos < t->n && *s == '{' ? memchr(s, '}', t->n - t->pos) : NULL;
	char name[NAME_MAX_LEN + 1], text[NAME_MAX_LEN + 8] = "sc:";

	if (!close)
		return err_set(
		    e, "'\\%c' without a name in braces is not supported", negated ? 'P' : 'p');
	t->pos = (size_t)(close + 1 - t->s);
	if (*++s == '^') {
		negated = !negated;
		s++;
	}
	if (read_name(name, s, (size_t)(close - s), e) < 0)
		return -1;
	if (!strcmp(name, "any")) {
		str_adds(t->in_set ? &t->plain : t->out, negated ? "\\P{Any}" : "\\p{Any}");
		return 0;
	}
	for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
		if (!strcmp(categories[i].name, name))
			return add_category(
			    t, categories[i].category, negated != categories[i].negated, e);
	if (strlen(name) > 2 || !strcmp(name, "lc")) {
		strcat(text, name);
		return add_category(t, text, negated, e);
	}
	*name = *name >= 'a' ? (char)(*name - 'a' + 'A') : *name;
	return add_category(t, name, negated, e);
}

/* --- the parts of a pattern -------------------------------------------------------------- */

/* What follows a backslash. */
static int
translate_escape(struct translation *t, struct err *e)
{
	/* members of a set, an alternative of one, or the text outside a set */
	static const struct {
		char letter;
		const char *plain, *apart, *outside;
	} classes[] = {
		{ 's', SPACE, "", "[" SPACE "]" },
		{ 'S', "\\S\\x{180e}", "", "[^" SPACE "]" },
		{ 'w', "@", "", LONE_WORD },
		{ 'W', "", "|[^@]", LONE_OTHER },
		{ 'h', HEX, "", "[" HEX "]" },
		{ 'H', "", "|[^" HEX "]", "[^" HEX "]" },
		{ 'b', "\\b", "", EDGE },
		{ 'B', NULL, NULL, "(?!" EDGE ")" },
	};
	char c = t->pos < t->n ? t->s[t->pos++] : '\0';

	if (c == 'p' || c == 'P')
		return translate_property(t, c == 'P', e);
	if (c == 'd' || c == 'D')
		return add_category(t, "Nd", c == 'D', e);
	if (!c)
		return err_set(e, "the pattern ends in a backslash or holds a NUL after one");
	for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
		if (classes[i].letter != c)
			continue;
		if (!t->in_set)
			add_text(t->out, classes[i].outside);
		else if (!classes[i].plain)
			return err_set(e, "'\\%c' inside a set is not supported", c);
		else {
			add_text(&t->plain, classes[i].plain);
			add_text(&t->apart, classes[i].apart);
		}
		return 0;
	}
	str_addf(t->in_set ? &t->plain : t->out, "\\%c", c);
	return 0;
}

/* [:name:] inside a set, or [:^name:]; pos is after its bracket. */
static int
translate_bracket(struct translation *t, struct err *e)
{
	/* those that PCRE2 defines differently */
	static const struct {
		const char *name, *text;
	} brackets[] = {
		{ "space", SPACE },
		{ "word", "@" },
		{ "xdigit", HEX },
		{ "cntrl", "\\p{Cc}" },
		{ "ascii", "\\x{0}-\\x{7f}" },
	};
	const char *name = t->s + t->pos + 1, *end = memmem(name, t->n - t->pos - 1, ":]", 2);
	bool negated = *name == '^';
	size_t len;

	if (!end)
		return err_set(e, "'[:' without ':]' is not supported");
	name += negated;
	len = (size_t)(end - name);
	t->pos = (size_t)(end + 2 - t->s);
	if (len == 5 && !memcmp(name, "digit", len))
		return add_category(t, "Nd", negated, e);
	for (size_t i = 0; i < sizeof brackets / sizeof *brackets; i++)
		if (strlen(brackets[i].name) == len && !memcmp(brackets[i].name, name, len)) {
			str_adds(negated ? &t->apart : &t->plain, negated ? "|[^" : "");
			add_text(negated ? &t->apart : &t->plain, brackets[i].text);
			str_adds(&t->apart, negated ? "]" : "");
			return 0;
		}
	return err_set(e, "'[:%.*s:]' is not supported", (int)len, name);
}

/*
 * A character or a class inside [...]. A class and its two neighbours must not become a range. A
 * plain set inside the set adds its members to the outer one, so its brackets are dropped, which
 * must not join their neighbours to a range. A character with a special meaning elsewhere in a set
 * is escaped.
 */
static int
translate_member(struct translation *t, char c, struct err *e)
{
	char next = t->pos < t->n ? t->s[t->pos] : '\0';
	size_t apart = t->apart.len;

	if (c == '\\' || (c == '[' && next == ':')) {
		if ((c == '\\' ? translate_escape(t, e) : translate_bracket(t, e)) < 0)
			return -1;
		if ((t->apart.len > apart || memchr("pPdDsSwWhH:", next, 11)) &&
		    t->pos + 1 < t->n && t->s[t->pos] == '-' && t->s[t->pos + 1] != ']')
			return err_set(e, "a class at the beginning of a range is not supported");
		return 0;
	}
	if (c == '&' && next == '&')
		return err_set(e, "an intersection of sets is not supported");
	if (c == '[' || (c == ']' && t->depth > 0)) {
		if (next == '-' || t->s[t->pos - 2] == '-' ||
		    (c == '[' && (next == '^' || next == ']')))
			return err_set(
			    e, "a set inside a set is supported only where it adds its members");
		t->depth += c == '[' ? 1 : -1;
		return 0;
	}
	if (c == ']' && t->pos - 1 > t->set_start) {
		end_set(t);
		return 0;
	}
	str_adds(&t->plain, strchr("^]", c) && c ? "\\" : "");
	str_addc(&t->plain, c);
	return 0;
}

/* A round bracket. Of a group's options after "(?", i and m matter; options for the rest of the
 * enclosing group end in a bracket. */
static int
translate_group(struct translation *t, char c, struct err *e)
{
	bool on = true, caseless = t->caseless & 1;
	size_t end;

	str_addc(t->out, c);
	if (c == ')') {
		t->caseless >>= 1;
		t->groups--;
		return 0;
	}
	if (++t->groups > GROUPS_MAX)
		return err_set(e, "more than %d nested groups", GROUPS_MAX);
	t->caseless = t->caseless << 1 | (t->caseless & 1);
	if (t->pos == t->n || t->s[t->pos] != '?')
		return 0;
	str_addc(t->out, t->s[t->pos++]);
	for (end = t->pos; end < t->n && strchr("imx-", t->s[end]) && t->s[end]; end++) {
		on = t->s[end] == '-' ? false : on;
		caseless = t->s[end] == 'i' ? on : caseless;
	}
	if (end == t->n || !strchr(":)", t->s[end]))
		return 0;
	for (; t->pos < end; t->pos++)
		str_addc(t->out, t->s[t->pos] == 'm' ? 's' : t->s[t->pos]);
	if (t->s[end] == ':')
		t->caseless = (t->caseless & ~1ULL) | caseless;
	else
		t->caseless = (t->caseless & ~2ULL) | (uint64_t)caseless << 1;
	return 0;
}

/* A character outside of a set. */
static int
translate_one(struct translation *t, char c, struct err *e)
{
	char next = t->pos < t->n ? t->s[t->pos] : '\0';

	if (c == '\\')
		return translate_escape(t, e);
	if (c == '(' || c == ')')
		return translate_group(t, c, e);
	if (c == '[') {
		begin_set(t, next == '^');
		t->pos += t->negated;
		t->set_start = t->pos;
		return 0;
	}
	str_addc(t->out, c);
	if (c == '}' && next == '+')
		return err_set(e, "an interval followed by '+' is not supported");
	return 0;
}

/* PCRE2 reports a set that is not closed. */
int
dialect_translate(const char *pattern, size_t len, struct str *out, struct err *e)
{
	struct translation t = { .s = pattern, .n = len, .out = out };
	int rc = 0;

	while (t.pos < t.n && rc == 0) {
		char c = t.s[t.pos++];

		rc = t.in_set ? translate_member(&t, c, e) : translate_one(&t, c, e);
	}
	if (rc == 0 && t.in_set)
		rc = err_set(e, "a set is not closed");
	str_release(&t.plain);
	str_release(&t.apart);
	return rc;
}

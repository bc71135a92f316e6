/*
 * expression.c - regular expressions that become scanners
 *
 * A parser by recursive descent. A possessive repetition of one set is written with a look at the
 * character after it: [a]++ is [a]+(?![a]).
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/expression.h"
#include "lib/token/unicode.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 2000, DEPTH_MAX = 50, TIMES_MAX = 100, NAME_LEN = 16 };

struct parser {
	struct expression *x;
	const char *s;
	size_t n, pos;
	bool caseless;
	int depth;
	struct err *e;
};

static int parse_either(struct parser *p);

/* The character at pos, or 0. */
static char
peek(const struct parser *p)
{
	return p->pos < p->n ? p->s[p->pos] : '\0';
}

static int
refuse(struct parser *p, const char *what)
{
	return err_set(p->e, "%s at byte %zu has no scanner", what, p->pos);
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* -1 when there are too many. */
static int
add_node(struct parser *p, struct expression_node node)
{
	struct expression *x = p->x;

	if (x->num_nodes == NODES_MAX)
		return refuse(p, "a part too many");
	if (x->num_nodes == x->cap) {
		x->cap = 2 * x->cap + 16;
		x->node = mem_realloc(x->node, (size_t)x->cap, sizeof *x->node);
	}
	node.next = -1;
	x->node[x->num_nodes] = node;
	return x->num_nodes++;
}

/* Takes the set over; returns its index, that of an equal one if there is one. */
static int
add_set(struct parser *p, struct points *set)
{
	struct expression *x = p->x;
	int i = 0;

	while (i < x->num_sets && !points_equal(&x->set[i], set))
		i++;
	if (i == x->num_sets && i < EXPRESSION_SETS) {
		x->set[x->num_sets++] = *set;
		memset(set, 0, sizeof *set);
	}
	points_release(set);
	return i < EXPRESSION_SETS ? i : refuse(p, "a set too many");
}

/* A node for a set, which is taken over. */
static int
add_set_node(struct parser *p, struct points *set)
{
	int i = add_set(p, set);

	return i < 0
	    ? -1
	    : add_node(p, (struct expression_node){ EXPRESSION_SET, .part = -1, .set = i });
}

static int
add_look(struct parser *p, struct points *set, bool at_end)
{
	int i = add_set(p, set);

	return i < 0 ? -1
		     : add_node(p,
			   (struct expression_node){
			       EXPRESSION_LOOK, .part = -1, .set = i, .at_end = at_end });
}

/* --- sets ------------------------------------------------------------------------------------- */

/* Decodes the character at pos and moves after it. */
static int
read_point(struct parser *p, uint32_t *cp)
{
	int len = utf8_decode((const unsigned char *)p->s + p->pos, p->n - p->pos, cp);

	if (len == 0)
		return refuse(p, "a byte that is not UTF-8");
	p->pos += (size_t)len;
	return 0;
}

/* A number of hexadecimal digits: exactly count, or up to a brace. */
static int
read_hex(struct parser *p, size_t count, uint32_t *cp)
{
	bool braces = peek(p) == '{';
	size_t start = p->pos + braces, i = start;

	*cp = 0;
	for (; i < p->n && i - start < (braces ? 6 : count); i++) {
		int digit = unicode_hex_digit(p->s[i]);

		if (digit < 0)
			break;
		*cp = *cp << 4 | (uint32_t)digit;
	}
	if (i == start || (braces ? i == p->n || p->s[i] != '}' : i - start != count) ||
	    *cp > POINTS_LAST || (*cp >= 0xd800 && *cp < 0xe000) ||
	    (count == 2 && !braces && *cp > 0x7f))
		return refuse(p, "this number of a character");
	p->pos = i + braces;
	return 0;
}

/* \p{name} or \p{^name}; pos is after the p. */
static int
read_property(struct parser *p, bool negated, struct points *out)
{
	char name[NAME_LEN + 1] = "";
	size_t n = 0;

	if (peek(p) != '{')
		return refuse(p, "a property without a name");
	p->pos++;
	if (peek(p) == '^') {
		negated = !negated;
		p->pos++;
	}
	for (; p->pos < p->n && p->s[p->pos] != '}' && n < NAME_LEN; p->pos++) {
		char c = p->s[p->pos];

		if (c != ' ' && c != '_' && c != '-')
			name[n++] = c >= 'A' && c <= 'Z' ? (char)(c + 0x20) : c;
	}
	if (peek(p) != '}' || !unicode_property(name, out))
		return refuse(p, "this property");
	p->pos++;
	if (negated)
		points_complement(out);
	return 0;
}

/* What follows a backslash: 1 for a class, which is added to out, 0 for a character, or -1. */
static int
read_escape(struct parser *p, struct points *out, uint32_t *cp)
{
	static const char letters[] = "ntrfae", codes[] = "\n\t\r\f\a\x1b";
	char c = peek(p);
	const char *letter = c ? strchr(letters, c) : NULL;

	p->pos++;
	switch (c) {
	case 'p':
	case 'P': return read_property(p, c == 'P', out) < 0 ? -1 : 1;
	case 's':
	case 'S': unicode_white(out); break;
	case 'd':
	case 'D': unicode_property("nd", out); break;
	case 'x': return read_hex(p, 2, cp);
	case 'u': return peek(p) == '{' ? refuse(p, "'\\u{'") : read_hex(p, 4, cp);
	default:
		if (letter) {
			*cp = (uint32_t)codes[letter - letters];
			return 0;
		}
		if (c <= ' ' || c > '~' || (c >= '0' && c <= '9') ||
		    ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'))
			return refuse(p, "this escape");
		*cp = (uint32_t)c;
		return 0;
	}
	if (c == 'S' || c == 'D')
		points_complement(out);
	return 1;
}

/* Adds the other case of ASCII letters, and the two other characters that fold to some. Other
 * characters have more cases than these tables know. */
static int
ignore_case(struct parser *p, struct points *set)
{
	struct points more = { 0 };

	if (!p->caseless)
		return 0;
	if (set->count && set->range[set->count - 1].last > 0x7f)
		return refuse(p, "a set that ignores case");
	for (uint32_t c = 'a'; c <= 'z'; c++) {
		if (!points_have(set, c) && !points_have(set, c - 0x20))
			continue;
		points_add(&more, c, c);
		points_add(&more, c - 0x20, c - 0x20);
		if (c == 's' || c == 'k')
			points_add(&more, c == 's' ? 0x17f : 0x212a, c == 's' ? 0x17f : 0x212a);
	}
	points_order(&more);
	points_unite(set, &more);
	points_release(&more);
	return 0;
}

static int read_set(struct parser *p, struct points *out);

/* A character, a range, a class or a set inside a set, added to out. */
static int
read_member(struct parser *p, struct points *out)
{
	struct points class = { 0 };
	uint32_t first, last;
	int rc = 0;

	if (peek(p) == '[') {
		p->pos++;
		rc = peek(p) == ':' ? refuse(p, "'[:'") : read_set(p, &class) < 0 ? -1 : 1;
	} else if (peek(p) == '\\') {
		p->pos++;
		rc = read_escape(p, &class, &first);
	} else if (read_point(p, &first) < 0) {
		return -1;
	}
	if (rc != 0) {
		points_unite(out, &class);
		points_release(&class);
		if (rc > 0 && peek(p) == '-' && p->pos + 1 < p->n && p->s[p->pos + 1] != ']')
			return refuse(p, "a class at the beginning of a range");
		return rc < 0 ? -1 : 0;
	}
	last = first;
	if (peek(p) == '-' && p->pos + 1 < p->n && p->s[p->pos + 1] != ']') {
		p->pos++;
		if (peek(p) == '[' || peek(p) == '-')
			return refuse(p, "this range");
		if (peek(p) == '\\') {
			p->pos++;
			rc = read_escape(p, &class, &last);
			points_release(&class);
		} else {
			rc = read_point(p, &last);
		}
		if (rc != 0 || last < first)
			return rc < 0 ? -1 : refuse(p, "this range");
	}
	points_add(out, first, last);
	points_order(out);
	return 0;
}

static bool
at_intersection(const struct parser *p)
{
	return p->n - p->pos >= 2 && !memcmp(p->s + p->pos, "&&", 2);
}

/* The rest of a set after its bracket. && intersects all before it with what follows. */
static int
read_set(struct parser *p, struct points *out)
{
	struct points part = { 0 };
	bool negated = peek(p) == '^', all = true;
	int rc = 0;

	if (++p->depth > DEPTH_MAX)
		return refuse(p, "a set too deep");
	p->pos += negated;
	if (peek(p) == ']')
		return refuse(p, "a bracket at the beginning of a set");
	while (rc == 0) {
		if (p->pos >= p->n) {
			rc = refuse(p, "a set that is not closed");
		} else if (peek(p) == ']' || at_intersection(p)) {
			if (all)
				points_unite(out, &part);
			else
				points_intersect(out, &part);
			all = false;
			points_release(&part);
			p->pos += peek(p) == ']' ? 1 : 2;
			if (p->s[p->pos - 1] == ']')
				break;
		} else {
			rc = read_member(p, &part);
		}
	}
	points_release(&part);
	if (negated)
		points_complement(out);
	p->depth--;
	return rc;
}

/* --- the parts of an expression ---------------------------------------------------------- */

/* [...], \x, a dot or a character. */
static int
parse_character(struct parser *p)
{
	struct points set = { 0 };
	char c = peek(p);
	uint32_t cp;
	int rc = 0;

	if (c == '[') {
		p->pos++;
		rc = read_set(p, &set) < 0 || ignore_case(p, &set) < 0 ? -1 : 1;
	} else if (c == '\\') {
		p->pos++;
		rc = read_escape(p, &set, &cp);
	} else if (c == '.') {
		p->pos++;
		points_add(&set, '\n', '\n');
		points_complement(&set);
		rc = 1;
	} else {
		rc = read_point(p, &cp);
	}
	if (rc == 0) {
		points_add(&set, cp, cp);
		rc = ignore_case(p, &set);
	}
	if (rc < 0) {
		points_release(&set);
		return -1;
	}
	return add_set_node(p, &set);
}

/* The node of a look ahead whose content is the given node: one set, or alternatives that are. */
static int
make_look(struct parser *p, int content, bool negated)
{
	struct expression *x = p->x;
	struct points set = { 0 };
	int i = x->node[content].kind == EXPRESSION_EITHER ? x->node[content].part : content;

	for (; i >= 0; i = i == content ? -1 : x->node[i].next) {
		if (x->node[i].kind != EXPRESSION_SET) {
			points_release(&set);
			return refuse(p, "this look ahead");
		}
		points_unite(&set, &x->set[x->node[i].set]);
	}
	if (negated)
		points_complement(&set);
	return add_look(p, &set, negated);
}

/* A group; pos is after its bracket. */
static int
parse_group(struct parser *p)
{
	bool caseless = p->caseless, look = false, negated = false;
	const char *s = p->s + p->pos;
	int node;

	if (p->n - p->pos >= 2 && s[0] == '?') {
		look = s[1] == '=' || s[1] == '!';
		negated = s[1] == '!';
		if (look || s[1] == ':')
			p->pos += 2;
		else if (p->n - p->pos >= 3 && s[1] == 'i' && s[2] == ':')
			p->pos += 3, p->caseless = true;
		else
			return refuse(p, "this group");
	} else if (p->pos < p->n && s[0] == '*') {
		return refuse(p, "this group");
	}
	if (++p->depth > DEPTH_MAX)
		return refuse(p, "a group too deep");
	node = parse_either(p);
	p->depth--;
	p->caseless = caseless;
	if (node < 0)
		return -1;
	if (peek(p) != ')')
		return refuse(p, "a group that is not closed");
	p->pos++;
	return look ? make_look(p, node, negated) : node;
}

/* One part without its repetition. */
static int
parse_atom(struct parser *p)
{
	struct points set = { 0 };
	char c = peek(p);

	switch (c) {
	case '(': p->pos++; return parse_group(p);
	case '$':
		p->pos++;
		points_add(&set, '\n', '\n');
		return add_look(p, &set, true);
	case '\\':
		if (p->n - p->pos < 2 || p->s[p->pos + 1] != 'z')
			return parse_character(p);
		p->pos += 2;
		return add_look(p, &set, true);
	case '^':
	case '{':
	case '?':
	case '*':
	case '+':
	case '\0': return refuse(p, "this character");
	default: return parse_character(p);
	}
}

/* The numbers of {min}, {min,} or {min,max}; pos is after the brace. */
static int
read_interval(struct parser *p, struct expression_node *r)
{
	int number[2] = { -1, -1 }, which = 0;

	for (; p->pos < p->n && p->s[p->pos] != '}'; p->pos++) {
		char c = p->s[p->pos];

		if (c == ',' && which == 0 && number[0] >= 0) {
			which = 1;
			continue;
		}
		if (c < '0' || c > '9' || number[which] > TIMES_MAX)
			return refuse(p, "this interval");
		number[which] = (number[which] < 0 ? 0 : 10 * number[which]) + c - '0';
	}
	if (p->pos == p->n || number[0] < 0 || number[0] > TIMES_MAX || number[1] > TIMES_MAX ||
	    (number[1] >= 0 && number[1] < number[0]) || (which == 0 && number[0] == 0) ||
	    number[1] == 0)
		return refuse(p, "this interval");
	p->pos++;
	r->min = number[0];
	r->max = which ? number[1] : number[0];
	return 0;
}

/* True when the node can match nothing. */
static bool
nullable(const struct expression *x, int i)
{
	const struct expression_node *node = &x->node[i];

	switch (node->kind) {
	case EXPRESSION_SET: return false;
	case EXPRESSION_LOOK: return true;
	case EXPRESSION_REPEAT: return node->min == 0 || nullable(x, node->part);
	default:
		for (int k = node->part; k >= 0; k = x->node[k].next)
			if (nullable(x, k) == (node->kind == EXPRESSION_EITHER))
				return node->kind == EXPRESSION_EITHER;
		return node->kind == EXPRESSION_JOIN;
	}
}

/* Writes a possessive ?, * or + of a set without giving back. */
static int
make_possessive(struct parser *p, int repeat)
{
	struct expression *x = p->x;
	int set = x->node[repeat].part, look, parent;
	struct points rest = { 0 };

	if (x->node[set].kind != EXPRESSION_SET)
		return refuse(p, "a possessive repetition of more than a set");
	points_unite(&rest, &x->set[x->node[set].set]);
	points_complement(&rest);
	look = add_look(p, &rest, true);
	parent = look < 0 ? -1 : add_node(p, (struct expression_node){ EXPRESSION_JOIN });
	if (parent < 0)
		return -1;
	if (x->node[repeat].max == 1) {
		x->node[parent].kind = EXPRESSION_EITHER;
		repeat = set;
	}
	x->node[parent].part = repeat;
	x->node[repeat].next = look;
	return parent;
}

/* A part with its repetition. */
static int
parse_repeat(struct parser *p)
{
	struct expression_node r = { EXPRESSION_REPEAT };
	bool interval;
	int node;
	char c;

	r.part = parse_atom(p);
	c = peek(p);
	if (r.part < 0 || p->pos >= p->n || !c || !strchr("?*+{", c))
		return r.part;
	if (p->x->node[r.part].kind == EXPRESSION_LOOK)
		return refuse(p, "a repeated look ahead");
	interval = c == '{';
	p->pos++;
	r.min = c == '+';
	r.max = c == '?' ? 1 : EXPRESSION_NO_END;
	if (interval && read_interval(p, &r) < 0)
		return -1;
	if (r.max != 1 && nullable(p->x, r.part))
		return refuse(p, "a repetition of nothing");
	c = peek(p);
	if ((c == '?' && r.min != r.max) || (c == '+' && !interval))
		p->pos++;
	r.lazy = c == '?';
	if (p->pos < p->n && peek(p) && strchr("?*+{", peek(p)))
		return refuse(p, "a repeated repetition");
	node = add_node(p, r);
	return node >= 0 && c == '+' ? make_possessive(p, node) : node;
}

/* Parts one after the other, up to a bar or a bracket. */
static int
parse_join(struct parser *p)
{
	int first = -1, last = -1, count = 0, join;

	while (p->pos < p->n && p->s[p->pos] != '|' && p->s[p->pos] != ')') {
		int node = parse_repeat(p);

		if (node < 0)
			return -1;
		if (last < 0)
			first = node;
		else
			p->x->node[last].next = node;
		last = node;
		count++;
	}
	if (count == 1)
		return first;
	join = add_node(p, (struct expression_node){ EXPRESSION_JOIN });
	if (join >= 0)
		p->x->node[join].part = first;
	return join;
}

/* Alternatives. */
static int
parse_either(struct parser *p)
{
	int first = parse_join(p), last = first, either;

	if (first < 0 || peek(p) != '|')
		return first;
	while (peek(p) == '|') {
		int node;

		p->pos++;
		node = parse_join(p);
		if (node < 0)
			return -1;
		last = p->x->node[last].next = node;
	}
	either = add_node(p, (struct expression_node){ EXPRESSION_EITHER });
	if (either >= 0)
		p->x->node[either].part = first;
	return either;
}

/* One that can match nothing is refused, because its matches do not cut a text into pieces. */
int
expression_parse(struct expression *x, const char *regex, size_t len, struct err *e)
{
	struct parser p = { .x = x, .s = regex, .n = len, .e = e };

	memset(x, 0, sizeof *x);
	x->root = parse_either(&p);
	if (x->root < 0)
		return -1;
	if (p.pos < len)
		return refuse(&p, "this character");
	return nullable(x, x->root) ? refuse(&p, "an expression that matches nothing") : 0;
}

/* The same nodes as of [set] or [set]+. */
void
expression_of_set(struct expression *x, const struct points *set, bool run)
{
	struct parser p = { .x = x };
	struct points copy = { 0 };

	memset(x, 0, sizeof *x);
	points_unite(&copy, set);
	x->root = add_set_node(&p, &copy);
	if (run)
		x->root = add_node(&p,
		    (struct expression_node){
			EXPRESSION_REPEAT, .part = x->root, .min = 1, .max = EXPRESSION_NO_END });
}

/* Also after a failed parse. */
void
expression_release(struct expression *x)
{
	for (int i = 0; i < x->num_sets; i++)
		points_release(&x->set[i]);
	free(x->node);
	memset(x, 0, sizeof *x);
}

/*
 * parse.c - from the text of a script to its tree
 *
 * A recursive descent over the characters: what a word means depends on where it stands, so there
 * is no list of tokens in between. Redirections and here-documents are skipped, since nothing is
 * read or written.
 */
#include "lib/base/str.h"
#include "lib/script/scan.h"
#include "lib/script/tree.h"

#include <ctype.h>
#include <string.h>

enum { DEEPEST = 48, HERES = 16 };

struct parser {
	struct mem_pool *pool;
	const char *name, *p;
	long line;
	int depth;
	/* here-documents whose text begins on the next line */
	const char *here[HERES];
	bool here_tabs[HERES];
	int heres;
	struct err *e;
};

static int parse_list(struct parser *P, struct node **out);

static int
refuse(const struct parser *P, const char *what)
{
	return err_at(P->e, P->name, P->line, "%s: this part of the shell is not read", what);
}

static int
missing(const struct parser *P, const char *what, long since)
{
	return err_at(P->e, P->name, P->line, "%s is missing for line %ld", what, since);
}

/* Moves on; to is not before P->p. */
static void
advance(struct parser *P, const char *to)
{
	for (; P->p < to; P->p++)
		P->line += *P->p == '\n';
}

/* Blanks, continued lines and a comment. */
static void
blanks(struct parser *P)
{
	for (;;) {
		if (*P->p == ' ' || *P->p == '\t' || *P->p == '\r')
			P->p++;
		else if (P->p[0] == '\\' && P->p[1] == '\n')
			advance(P, P->p + 2);
		else if (!strncmp(P->p, "\\\r\n", 3))
			advance(P, P->p + 3);
		else
			break;
	}
	if (*P->p == '#')
		P->p += strcspn(P->p, "\n");
}

/* The lines up to the delimiter of each here-document. */
static int
skip_heres(struct parser *P)
{
	for (int i = 0; i < P->heres; i++) {
		size_t n = strlen(P->here[i]);
		long since = P->line - 1;
		bool end = false;

		while (!end && *P->p) {
			const char *s = P->p + (P->here_tabs[i] ? strspn(P->p, "\t") : 0);
			size_t len = strcspn(s, "\n"), bare = len;

			if (bare && s[bare - 1] == '\r')
				bare--;
			end = bare == n && !memcmp(s, P->here[i], n);
			advance(P, s + len + (s[len] == '\n'));
		}
		if (!end)
			return missing(P, "the end of the here-document", since);
	}
	P->heres = 0;
	return 0;
}

/* Blanks, newlines and comments; and with them the here-documents of the lines. */
static int
newlines(struct parser *P)
{
	for (blanks(P); *P->p == '\n'; blanks(P)) {
		advance(P, P->p + 1);
		if (P->heres && skip_heres(P) < 0)
			return -1;
	}
	return 0;
}

/* The raw word at P->p. */
static int
raw_word(struct parser *P, const char **out)
{
	const char *end = scan_word(P->p);

	*out = NULL;
	if (!end)
		return refuse(P, "a quote or bracket that does not end");
	*out = mem_pool_strndup(P->pool, P->p, (size_t)(end - P->p));
	advance(P, end);
	return 0;
}

/* True when the word is next, as a word of its own. */
static bool
at(const struct parser *P, const char *keyword)
{
	size_t n = strlen(keyword);

	return !strncmp(P->p, keyword, n) && (!P->p[n] || strchr(" \t\r\n;&|<>()", P->p[n]));
}

static bool
take(struct parser *P, const char *keyword)
{
	if (!at(P, keyword))
		return false;
	P->p += strlen(keyword);
	return true;
}

static int
expect(struct parser *P, const char *keyword, long since)
{
	char text[32];

	if (newlines(P) < 0)
		return -1;
	if (take(P, keyword))
		return 0;
	snprintf(text, sizeof text, "'%s'", keyword);
	return missing(P, text, since);
}

static struct node *
node_new(struct parser *P, enum node_kind kind)
{
	struct node *n = mem_pool_alloc(P->pool, 1, sizeof *n);

	n->kind = kind;
	n->line = P->line;
	return n;
}

/* Adds at the end; *tail is where the next one goes. */
static void
add_word(struct parser *P, struct word ***tail, const char *text)
{
	struct word *w = mem_pool_alloc(P->pool, 1, sizeof *w);

	w->text = text;
	**tail = w;
	*tail = &w->next;
}

/* A here-document's delimiter, without its quotes. */
static int
here_document(struct parser *P)
{
	const char *raw;
	struct str s = { 0 };

	if (P->heres == HERES)
		return refuse(P, "more than 16 here-documents in a line");
	P->here_tabs[P->heres] = *P->p == '-';
	P->p += *P->p == '-';
	blanks(P);
	if (raw_word(P, &raw) < 0)
		return -1;
	for (const char *c = raw; *c; c++)
		if (!strchr("'\"\\", *c))
			str_addc(&s, *c);
	P->here[P->heres++] = mem_pool_strndup(P->pool, s.buf ? s.buf : "", s.len);
	str_release(&s);
	return 0;
}

/* True at "<", ">", "&>" and "2>", where what follows is no process substitution. */
static bool
at_redirection(const struct parser *P)
{
	size_t digits = strspn(P->p, "0123456789");
	const char *s = P->p + digits;

	return *s == '<' || *s == '>' || (digits == 0 && s[0] == '&' && s[1] == '>');
}

static int
redirection(struct parser *P)
{
	const char *raw;
	size_t n;

	P->p += strspn(P->p, "0123456789");
	if ((P->p[0] == '<' || P->p[0] == '>') && P->p[1] == '(')
		return refuse(P, "process substitution");
	if (!strncmp(P->p, "<<", 2) && P->p[2] != '<') {
		P->p += 2;
		return here_document(P);
	}
	n = strspn(P->p, "<>&|");
	P->p += n;
	blanks(P);
	if ((P->p[0] == '<' || P->p[0] == '>') && P->p[1] == '(')
		return refuse(P, "process substitution");
	if (scan_word(P->p) == P->p)
		return refuse(P, "a redirection without a file");
	return raw_word(P, &raw);
}

static int
redirections(struct parser *P)
{
	for (blanks(P); at_redirection(P); blanks(P))
		if (redirection(P) < 0)
			return -1;
	return 0;
}

/* The words between '(' and ')', on any number of lines. */
static int
array_words(struct parser *P, struct word **out)
{
	const char *raw;
	long since = P->line;

	for (P->p++;;) {
		if (newlines(P) < 0)
			return -1;
		if (*P->p == ')' || !*P->p)
			break;
		if (scan_word(P->p) == P->p)
			return refuse(P, "an operator in an array");
		if (raw_word(P, &raw) < 0)
			return -1;
		add_word(P, &out, raw);
	}
	if (!*P->p)
		return missing(P, "')'", since);
	P->p++;
	return 0;
}

/* NAME=, NAME+=, NAME[...]= or NAME[...]+=: the length up to the '=' in it; 0: no assignment. */
static size_t
assign_length(const char *s)
{
	size_t n = scan_name(s);

	if (n && s[n] == '[') {
		while (s[n] && s[n] != ']' && s[n] != '\n')
			n++;
		n += s[n] == ']';
	}
	if (n && s[n] == '+')
		n++;
	return n && s[n] == '=' ? n + 1 : 0;
}

/* "<path to the data>", which examples leave to the user, is a hole; 0: there is none. After
 * "<file" a redirection has a blank, or a number, before its ">", or a name after it. */
static size_t
placeholder(const char *s)
{
	size_t n = *s == '<' && isalpha((unsigned char)s[1]) ? strcspn(s, ">\n") : 0, last = n;

	if (n < 2 || s[n] != '>' || (s[n + 1] && !strchr(" \t\r\n\"';", s[n + 1])))
		return 0;
	while (last > 1 && isdigit((unsigned char)s[last - 1]))
		last--;
	return strchr(" \t", s[last - 1]) ? 0 : n + 1;
}

/* The n characters of one as a word. */
static const char *
hole_word(struct parser *P, size_t n)
{
	char *hole = mem_pool_strndup(P->pool, P->p, n);

	hole[0] = '\1';
	hole[n - 1] = '\2';
	P->p += n;
	return hole;
}

static int
assignment(struct parser *P, struct assign **out)
{
	struct assign *a = mem_pool_alloc(P->pool, 1, sizeof *a);
	size_t n = scan_name(P->p), all = assign_length(P->p);

	*out = a;
	a->name = mem_pool_strndup(P->pool, P->p, n);
	a->append = P->p[all - 2] == '+';
	if (P->p[n] == '[')
		a->subscript = mem_pool_strndup(P->pool, P->p + n + 1,
		    (size_t)((const char *)strchr(P->p + n, ']') - P->p) - n - 1);
	P->p += all;
	n = placeholder(P->p);
	if (n) {
		a->value = hole_word(P, n);
		return 0;
	}
	a->array = *P->p == '(' && !a->subscript;
	return a->array ? array_words(P, &a->element) : raw_word(P, &a->value);
}

/* Whether words of the command that look like assignments are some. */
static bool
declares(const struct word *command)
{
	static const char *const names[] = { "export", "local", "declare", "typeset", "readonly" };

	for (size_t i = 0; command && i < sizeof names / sizeof *names; i++)
		if (!strcmp(command->text, names[i]))
			return true;
	return !command;
}

static bool
ends_simple(const struct parser *P)
{
	return !*P->p || strchr("\n;|)", *P->p) || (*P->p == '&' && P->p[1] != '>');
}

static int
simple(struct parser *P, struct node *n)
{
	struct assign **assign = &n->assign;
	struct word **word = &n->word;
	const char *raw;

	for (blanks(P); !ends_simple(P); blanks(P)) {
		size_t hole = placeholder(P->p);

		if (hole) {
			add_word(P, &word, hole_word(P, hole));
			continue;
		}
		if (at_redirection(P)) {
			if (redirection(P) < 0)
				return -1;
			continue;
		}
		if (*P->p == '(')
			return refuse(P, "'(' after a word");
		if (declares(n->word) && assign_length(P->p)) {
			if (assignment(P, assign) < 0)
				return -1;
			assign = &(*assign)->next;
			continue;
		}
		if (raw_word(P, &raw) < 0)
			return -1;
		add_word(P, &word, raw);
	}
	return 0;
}

/* Up to "]]": the operators are words too. */
static int
double_brackets(struct parser *P, struct node *n)
{
	struct word **tail = &n->word;
	const char *raw;

	for (;;) {
		size_t length;

		if (newlines(P) < 0)
			return -1;
		if (take(P, "]]"))
			return 0;
		if (!*P->p)
			return missing(P, "']]'", n->line);
		length = !strncmp(P->p, "&&", 2) || !strncmp(P->p, "||", 2) ? 2
		    : strchr("<>();&|", *P->p)                              ? 1
									    : 0;
		if (length) {
			add_word(P, &tail, mem_pool_strndup(P->pool, P->p, length));
			P->p += length;
			continue;
		}
		if (raw_word(P, &raw) < 0)
			return -1;
		add_word(P, &tail, raw);
	}
}

/* From "((" to "))". */
static int
double_parentheses(struct parser *P, struct node *n)
{
	const char *s = P->p + 2;
	int open = 2;

	for (; *s && *s != '\n' && open; s++)
		open += (*s == '(') - (*s == ')');
	if (open || s[-2] != ')')
		return refuse(P, "'((' that does not end in its line");
	n->name = mem_pool_strndup(P->pool, P->p + 2, (size_t)(s - P->p) - 4);
	P->p = s;
	return 0;
}

/* After "if" or "elif". */
static int
conditional(struct parser *P, struct node *n)
{
	if (parse_list(P, &n->test) < 0 || expect(P, "then", n->line) < 0 ||
	    parse_list(P, &n->body) < 0 || newlines(P) < 0)
		return -1;
	if (take(P, "elif")) {
		n->other = node_new(P, NODE_IF);
		if (++P->depth > DEEPEST)
			return refuse(P, "commands inside more than 48 others");
		if (conditional(P, n->other) < 0)
			return -1;
		P->depth--;
		return 0;
	}
	if (take(P, "else") && parse_list(P, &n->other) < 0)
		return -1;
	return expect(P, "fi", n->line);
}

/* From the "do" of a loop to its "done". */
static int
loop_body(struct parser *P, struct node *n)
{
	return expect(P, "do", n->line) < 0 || parse_list(P, &n->body) < 0
	    ? -1
	    : expect(P, "done", n->line);
}

static int
loop(struct parser *P, struct node *n)
{
	return parse_list(P, &n->test) < 0 ? -1 : loop_body(P, n);
}

/* for ((first; test; step)) */
static int
counting_loop(struct parser *P, struct node *n)
{
	struct word **tail = &n->word;
	struct node header = { 0 };
	int parts = 0;

	if (P->p[1] != '(')
		return refuse(P, "'(' after 'for'");
	if (double_parentheses(P, &header) < 0)
		return -1;
	for (const char *s = header.name; parts < 3; parts++) {
		size_t len = strcspn(s, ";");

		add_word(P, &tail, mem_pool_strndup(P->pool, s, len));
		s += len + (s[len] == ';');
	}
	n->kind = NODE_COUNT;
	blanks(P);
	if (*P->p == ';')
		P->p++;
	return loop_body(P, n);
}

static int
for_loop(struct parser *P, struct node *n)
{
	struct word **tail = &n->word;
	const char *raw;

	blanks(P);
	if (*P->p == '(')
		return counting_loop(P, n);
	if (raw_word(P, &n->name) < 0 || newlines(P) < 0)
		return -1;
	if (take(P, "in")) {
		for (blanks(P); !ends_simple(P); blanks(P)) {
			if (strchr("<>(&", *P->p))
				return refuse(P, "an operator in the words of 'for'");
			if (raw_word(P, &raw) < 0)
				return -1;
			add_word(P, &tail, raw);
		}
	} else {
		add_word(P, &tail, "\"$@\"");
	}
	if (*P->p == ';')
		P->p++;
	return loop_body(P, n);
}

/* The patterns of an arm, up to its ')'. */
static int
patterns(struct parser *P, struct arm *a)
{
	struct word **tail = &a->pattern;
	const char *raw;

	P->p += *P->p == '(';
	for (;;) {
		blanks(P);
		if (scan_word(P->p) == P->p)
			return refuse(P, "a pattern of 'case'");
		if (raw_word(P, &raw) < 0)
			return -1;
		add_word(P, &tail, raw);
		blanks(P);
		if (*P->p != '|')
			break;
		P->p++;
	}
	if (*P->p != ')')
		return refuse(P, "a pattern of 'case'");
	P->p++;
	return 0;
}

static int
case_arms(struct parser *P, struct node *n)
{
	struct word **tail = &n->word;
	struct arm **arm = &n->arm;
	const char *raw;

	blanks(P);
	if (raw_word(P, &raw) < 0)
		return -1;
	add_word(P, &tail, raw);
	if (expect(P, "in", n->line) < 0)
		return -1;
	for (;;) {
		if (newlines(P) < 0)
			return -1;
		if (take(P, "esac"))
			return 0;
		*arm = mem_pool_alloc(P->pool, 1, sizeof **arm);
		if (patterns(P, *arm) < 0 || parse_list(P, &(*arm)->body) < 0)
			return -1;
		arm = &(*arm)->next;
		if (!strncmp(P->p, ";;&", 3) || !strncmp(P->p, ";&", 2))
			return refuse(P, "';&' in 'case'");
		if (!strncmp(P->p, ";;", 2))
			P->p += 2;
		else if (!at(P, "esac"))
			return missing(P, "'esac'", n->line);
	}
}

/* The body after the name of a function and its parentheses. */
static int
function(struct parser *P, struct node *n)
{
	if (newlines(P) < 0)
		return -1;
	if (!take(P, "{"))
		return refuse(P, "a function whose body is not in braces");
	return parse_list(P, &n->body) < 0 ? -1 : expect(P, "}", n->line);
}

/* After "function". */
static int
named_function(struct parser *P, struct node *n)
{
	blanks(P);
	if (raw_word(P, &n->name) < 0)
		return -1;
	blanks(P);
	if (P->p[0] == '(') {
		P->p++;
		blanks(P);
		if (*P->p != ')')
			return refuse(P, "parameters of a function");
		P->p++;
	}
	return function(P, n);
}

/* NAME ( ) at P->p: the place after it, or NULL. */
static const char *
function_head(const char *s, size_t *name)
{
	*name = strcspn(s, " \t\r\n;&|<>()$'\"`\\=#");
	if (!*name)
		return NULL;
	s += *name;
	s += strspn(s, " \t");
	if (*s != '(')
		return NULL;
	s++;
	s += strspn(s, " \t");
	return *s == ')' ? s + 1 : NULL;
}

static int
parentheses(struct parser *P, struct node **out)
{
	struct node *n = *out = node_new(P, NODE_SUBSHELL);

	if (P->p[1] == '(') {
		n->kind = NODE_ARITH;
		return double_parentheses(P, n);
	}
	P->p++;
	if (parse_list(P, &n->body) < 0)
		return -1;
	if (*P->p != ')')
		return missing(P, "')'", n->line);
	P->p++;
	return 0;
}

/* A command that begins with a word of the shell's own. 1: there is none. */
static int
compound(struct parser *P, struct node **out)
{
	static const struct {
		const char *word;
		enum node_kind kind;
		int (*rest)(struct parser *, struct node *);
	} keyword[] = {
		{ "if", NODE_IF, conditional },
		{ "while", NODE_WHILE, loop },
		{ "until", NODE_WHILE, loop },
		{ "for", NODE_FOR, for_loop },
		{ "case", NODE_CASE, case_arms },
		{ "function", NODE_FUNCTION, named_function },
		{ "[[", NODE_TEST, double_brackets },
	};

	if (at(P, "select") || at(P, "coproc"))
		return refuse(P, at(P, "select") ? "'select'" : "'coproc'");
	for (size_t i = 0; i < sizeof keyword / sizeof *keyword; i++) {
		bool until = at(P, "until");

		if (!take(P, keyword[i].word))
			continue;
		*out = node_new(P, keyword[i].kind);
		(*out)->negated = until;
		return keyword[i].rest(P, *out);
	}
	return 1;
}

static int
one_command(struct parser *P, struct node **out)
{
	const char *body;
	size_t name;
	int rc = compound(P, out);

	if (rc <= 0)
		return rc;
	if (*P->p == '(')
		return parentheses(P, out);
	if (take(P, "{")) {
		*out = node_new(P, NODE_GROUP);
		return parse_list(P, &(*out)->body) < 0 ? -1 : expect(P, "}", (*out)->line);
	}
	body = function_head(P->p, &name);
	*out = node_new(P, body ? NODE_FUNCTION : NODE_SIMPLE);
	if (!body)
		return simple(P, *out);
	(*out)->name = mem_pool_strndup(P->pool, P->p, name);
	advance(P, body);
	return function(P, *out);
}

/* With "!" and "time" before it, and redirections after it. */
static int
command(struct parser *P, struct node **out)
{
	const char *start = P->p;
	bool negated = false;

	while (at(P, "!") || at(P, "time")) {
		negated ^= *P->p == '!';
		P->p += *P->p == '!' ? 1 : 4;
		blanks(P);
	}
	if (++P->depth > DEEPEST)
		return refuse(P, "commands inside more than 48 others");
	if (one_command(P, out) < 0 || redirections(P) < 0)
		return -1;
	P->depth--;
	(*out)->negated ^= negated;
	return P->p > start ? 0 : refuse(P, "a character that starts no command");
}

/* Words that end a list where a command would begin. */
static bool
ends_list(const struct parser *P)
{
	static const char *const words[] = { "then", "else", "elif", "fi", "do", "done", "esac",
		"}" };

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (at(P, words[i]))
			return true;
	return !*P->p || *P->p == ')' || !strncmp(P->p, ";;", 2) || !strncmp(P->p, ";&", 2);
}

/* The operator after a command: how the next one follows. */
static int
joint(struct parser *P, enum node_join *join)
{
	blanks(P);
	*join = JOIN_NEXT;
	if (!strncmp(P->p, "&&", 2) || !strncmp(P->p, "||", 2)) {
		*join = *P->p == '&' ? JOIN_AND : JOIN_OR;
		P->p += 2;
	} else if (*P->p == '|') {
		*join = JOIN_PIPE;
		P->p += P->p[1] == '&' ? 2 : 1;
	} else if (*P->p == '&' || (*P->p == ';' && P->p[1] != ';' && P->p[1] != '&')) {
		P->p++;
	}
	return newlines(P);
}

static int
parse_list(struct parser *P, struct node **out)
{
	enum node_join join = JOIN_NEXT;

	if (newlines(P) < 0)
		return -1;
	while (!ends_list(P)) {
		if (command(P, out) < 0)
			return -1;
		(*out)->join = join;
		out = &(*out)->next;
		if (joint(P, &join) < 0)
			return -1;
	}
	return 0;
}

int
script_parse(struct mem_pool *pool, const struct script_text *t, struct node **out, struct err *e)
{
	struct parser P = { .pool = pool, .name = t->name, .p = t->text, .line = t->first, .e = e };
	char what[64];

	*out = NULL;
	if (parse_list(&P, out) < 0)
		return -1;
	if (!*P.p)
		return 0;
	snprintf(what, sizeof what, "'%.*s' without its beginning",
	    (int)(strcspn(P.p, " \t\r\n") + 1 < 20 ? strcspn(P.p, " \t\r\n") : 20), P.p);
	return refuse(&P, what);
}

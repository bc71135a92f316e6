/*
 * run.c - the control flow of a script
 *
 * Where a test is known its branch is followed. Otherwise the first branch is, unless it leaves the
 * script, and the other is read for variables that have no value yet; a note says so where it makes
 * a difference.
 */
#include "lib/script/impl.h"
#include "lib/script/scan.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 40, ROUNDS_MOST = 1000 };

static enum flow run_node(struct shell *sh, const struct node *n);
static enum flow run_list(struct shell *sh, const struct node *n);

/* Whether a list, or what is inside it, has a command of that name. */
static bool
has_command(const struct node *n, const char *name)
{
	for (; n; n = n->next) {
		if (n->kind == NODE_SIMPLE && n->word && !strcmp(n->word->text, name))
			return true;
		if (n->kind != NODE_FUNCTION &&
		    (has_command(n->body, name) || has_command(n->other, name)))
			return true;
	}
	return false;
}

static bool
leaves(const struct node *n)
{
	return has_command(n, "exit") || has_command(n, "return");
}

/* Whether reading the list can change what is found. */
static bool
matters(const struct node *n)
{
	static const char *const names[] = { "source", ".", "eval", "set", "shift", "unset",
		"export", "local", "declare" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (has_command(n, names[i]))
			return true;
	for (; n; n = n->next) {
		if (n->kind == NODE_SIMPLE && n->assign)
			return true;
		if (n->kind != NODE_FUNCTION && (matters(n->body) || matters(n->other)))
			return true;
	}
	return false;
}

static void
say(struct shell *sh, long line, const char *what)
{
	if (!sh->filling)
		str_addf(&sh->out->notes, "%s:%ld: %s\n", sh->name, line, what);
}

/* Only variables without a value take one from the list. */
static enum flow
fill(struct shell *sh, const struct node *n)
{
	bool before = sh->filling;
	enum flow f;

	sh->filling = true;
	f = run_list(sh, n);
	sh->filling = before;
	return f == FLOW_ERROR ? f : FLOW_NEXT;
}

static enum flow
run_if(struct shell *sh, const struct node *n)
{
	const struct node *first = n->body, *second = n->other;
	enum flow f = run_list(sh, n->test);

	if (f != FLOW_NEXT)
		return f;
	if (sh->answer != ANSWER_UNKNOWN)
		return run_list(sh, sh->answer == ANSWER_YES ? n->body : n->other);
	if (leaves(first) && !leaves(second)) {
		first = n->other;
		second = n->body;
	}
	if (matters(first) || matters(second))
		say(sh, n->line,
		    first == n->body ? "the test of 'if' is not known: its first branch is taken"
				     : "the test of 'if' is not known: the branch that does not "
				       "leave the script is taken");
	f = run_list(sh, first);
	return f == FLOW_NEXT ? fill(sh, second) : f;
}

/* What ends a round of a loop; true: the loop is over, with *f. */
static bool
round_ends(enum flow *f)
{
	bool over = *f != FLOW_NEXT && *f != FLOW_CONTINUE;

	if (*f == FLOW_BREAK || *f == FLOW_CONTINUE)
		*f = FLOW_NEXT;
	return over;
}

static enum flow
run_while(struct shell *sh, const struct node *n)
{
	for (int round = 0; round < ROUNDS_MOST; round++) {
		enum flow f = run_list(sh, n->test);
		bool known;

		if (f != FLOW_NEXT)
			return f;
		known = sh->answer != ANSWER_UNKNOWN;
		if (known && (sh->answer == ANSWER_YES) == n->negated)
			return FLOW_NEXT;
		if (!known && matters(n->body))
			say(sh, n->line, "the test of the loop is not known: it is read once");
		f = run_list(sh, n->body);
		if (round_ends(&f) || !known)
			return f;
	}
	say(sh, n->line, "the loop is left after 1000 rounds");
	return FLOW_NEXT;
}

static enum flow
run_for(struct shell *sh, const struct node *n)
{
	struct words w = { 0 };

	for (const struct word *p = n->word; p; p = p->next)
		if (expand_fields(sh, p->text, &w) < 0)
			return FLOW_ERROR;
	for (int i = 0; i < w.count; i++) {
		enum flow f;

		variable_set(sh, n->name, w.item[i]);
		f = run_list(sh, n->body);
		if (round_ends(&f))
			return f;
	}
	return FLOW_NEXT;
}

/* for ((first; test; step)). */
static enum flow
run_count(struct shell *sh, const struct node *n)
{
	const char *test = n->word->next->text, *step = n->word->next->next->text;
	bool known;
	int64_t v;

	if (expand_statement(sh, n->word->text, &known, &v) < 0)
		return FLOW_ERROR;
	for (int round = 0; round < ROUNDS_MOST; round++) {
		enum flow f;

		if (expand_statement(sh, test, &known, &v) < 0)
			return FLOW_ERROR;
		if (known && !v)
			return FLOW_NEXT;
		f = run_list(sh, n->body);
		if (round_ends(&f) || !known)
			return f;
		if (expand_statement(sh, step, &known, &v) < 0)
			return FLOW_ERROR;
	}
	say(sh, n->line, "the loop is left after 1000 rounds");
	return FLOW_NEXT;
}

/* 1: a pattern of the arm matches; -1 with the reason. */
static int
arm_matches(struct shell *sh, const struct arm *a, const char *subject)
{
	for (const struct word *w = a->pattern; w; w = w->next) {
		const char *pattern;

		if (expand_pattern(sh, w->text, &pattern) < 0)
			return -1;
		if (!is_hole(pattern) && scan_match(pattern, subject, strlen(subject)))
			return 1;
	}
	return 0;
}

/* The first arm that does not leave the script; the others are read for variables. */
static enum flow
run_any_arm(struct shell *sh, const struct node *n)
{
	const struct arm *taken = n->arm;
	enum flow f;

	while (taken && leaves(taken->body))
		taken = taken->next;
	if (!taken)
		return FLOW_NEXT;
	if (matters(taken->body))
		say(sh, n->line, "what 'case' looks at is not known: its first branch is taken");
	f = run_list(sh, taken->body);
	for (const struct arm *a = n->arm; f == FLOW_NEXT && a; a = a->next)
		if (a != taken)
			f = fill(sh, a->body);
	return f;
}

static enum flow
run_case(struct shell *sh, const struct node *n)
{
	const char *subject;

	if (expand_value(sh, n->word->text, &subject) < 0)
		return FLOW_ERROR;
	if (is_hole(subject))
		return run_any_arm(sh, n);
	for (const struct arm *a = n->arm; a; a = a->next) {
		int matches = arm_matches(sh, a, subject);

		if (matches)
			return matches < 0 ? FLOW_ERROR : run_list(sh, a->body);
	}
	return FLOW_NEXT;
}

/* The variables as they are; free() it. */
static struct variable *
copy_variables(struct shell *sh)
{
	struct variable *copy = mem_alloc((size_t)sh->variables + 1, sizeof *copy);

	sh->steps += sh->variables;
	if (sh->variables)
		memcpy(copy, sh->variable, (size_t)sh->variables * sizeof *copy);
	return copy;
}

/* Puts a variable back to what it was in the first `count` ones. */
static void
put_back(struct shell *sh, const char *name, const struct variable *copy, int count)
{
	struct variable *v = variable_find(sh, name);

	if (v && v - sh->variable < count)
		*v = copy[v - sh->variable];
	else if (v)
		v->set = false;
}

/* Variables are those from before when it ends. */
static enum flow
run_subshell(struct shell *sh, const struct node *n)
{
	struct variable *before = copy_variables(sh);
	int count = sh->variables;
	enum flow f = run_list(sh, n->body);

	if (count)
		memcpy(sh->variable, before, (size_t)count * sizeof *before);
	sh->variables = count;
	free(before);
	return f == FLOW_EXIT ? FLOW_NEXT : f;
}

static enum flow
run_arithmetic(struct shell *sh, const struct node *n)
{
	bool known;
	int64_t v;

	if (expand_statement(sh, n->name, &known, &v) < 0)
		return FLOW_ERROR;
	sh->answer = !known ? ANSWER_UNKNOWN : v ? ANSWER_YES : ANSWER_NO;
	return FLOW_NEXT;
}

static const struct node *
find_function(const struct shell *sh, const char *name)
{
	for (int i = sh->functions - 1; i >= 0; i--)
		if (!strcmp(sh->function[i]->name, name))
			return sh->function[i];
	return NULL;
}

static enum flow
define(struct shell *sh, const struct node *n)
{
	if (sh->functions == sh->function_cap) {
		sh->function_cap = sh->function_cap ? 2 * sh->function_cap : 16;
		sh->function =
		    mem_realloc(sh->function, (size_t)sh->function_cap, sizeof *sh->function);
	}
	sh->function[sh->functions++] = (struct node *)n;
	return FLOW_NEXT;
}

/* Variables that were declared local get back what they had. */
static enum flow
call(struct shell *sh, const struct node *function, const struct words *w)
{
	struct frame f = { .name = sh->frame->name, .argument = { w->count - 1, 0, w->item + 1 } };
	struct frame *before = sh->frame;
	struct variable *saved = copy_variables(sh);
	int count = sh->variables;
	enum flow flow;

	sh->frame = &f;
	flow = run_list(sh, function->body);
	sh->frame = before;
	for (int i = 0; i < f.local.count; i++)
		put_back(sh, f.local.item[i], saved, count);
	free(saved);
	return flow == FLOW_RETURN ? FLOW_NEXT : flow;
}

static bool
is_declaration(const struct word *w)
{
	return w &&
	    (!strcmp(w->text, "export") || !strcmp(w->text, "local") ||
		!strcmp(w->text, "declare") || !strcmp(w->text, "typeset") ||
		!strcmp(w->text, "readonly"));
}

/* "A=1 command": A has that value for the command alone. */
static enum flow
with_environment(struct shell *sh, const struct node *n, const struct words *w)
{
	const struct node body = { .kind = NODE_SIMPLE, .line = n->line, .word = n->word };
	struct variable *before = copy_variables(sh);
	int count = sh->variables;
	enum flow f = FLOW_ERROR;

	if (shell_assign(sh, n->assign) == 0)
		f = run_command(sh, &body, w);
	for (const struct assign *a = n->assign; a; a = a->next)
		put_back(sh, a->name, before, count);
	free(before);
	return f;
}

static enum flow
run_simple(struct shell *sh, const struct node *n)
{
	const struct node *function;
	struct words w = { 0 };

	sh->answer = ANSWER_YES;
	for (const struct word *p = n->word; p; p = p->next)
		if (expand_fields(sh, p->text, &w) < 0)
			return FLOW_ERROR;
	if (!w.count)
		return shell_assign(sh, n->assign) < 0 ? FLOW_ERROR : FLOW_NEXT;
	function = sh->filling ? NULL : find_function(sh, w.item[0]);
	if (function)
		return call(sh, function, &w);
	if (n->assign && !is_declaration(n->word))
		return sh->filling ? FLOW_NEXT : with_environment(sh, n, &w);
	return run_command(sh, n, &w);
}

static enum flow
run_kind(struct shell *sh, const struct node *n)
{
	switch (n->kind) {
	case NODE_SIMPLE: return run_simple(sh, n);
	case NODE_TEST: return test_double(sh, n->word, &sh->answer) < 0 ? FLOW_ERROR : FLOW_NEXT;
	case NODE_ARITH: return run_arithmetic(sh, n);
	case NODE_IF: return run_if(sh, n);
	case NODE_WHILE: return run_while(sh, n);
	case NODE_FOR: return run_for(sh, n);
	case NODE_COUNT: return run_count(sh, n);
	case NODE_CASE: return run_case(sh, n);
	case NODE_GROUP: return run_list(sh, n->body);
	case NODE_SUBSHELL: return run_subshell(sh, n);
	case NODE_FUNCTION: return define(sh, n);
	}
	BUG("node of kind %d", (int)n->kind);
}

static enum flow
run_node(struct shell *sh, const struct node *n)
{
	enum flow f;

	sh->line = n->line;
	sh->steps++;
	if (++sh->depth > DEEPEST || shell_over(sh)) {
		err_at(sh->e, sh->name, n->line,
		    "commands inside more than 40 others, or more work than a launch script does");
		return FLOW_ERROR;
	}
	f = run_kind(sh, n);
	sh->depth--;
	if (n->negated && n->kind != NODE_WHILE && sh->answer != ANSWER_UNKNOWN)
		sh->answer = sh->answer == ANSWER_YES ? ANSWER_NO : ANSWER_YES;
	return f;
}

/* Whether the command is left out after what the one before it answered. What follows '||' is read
 * for variables where that is not known, and what follows '&&' is run unless it leaves. */
static enum flow
joined(struct shell *sh, const struct node *n, bool *left_out)
{
	struct node alone = *n;
	enum answer a = sh->answer;
	enum flow f;

	alone.next = NULL;
	alone.join = JOIN_NEXT;
	if (n->join == JOIN_NEXT)
		*left_out = false;
	if (n->join == JOIN_AND)
		*left_out = a == ANSWER_NO || (a == ANSWER_UNKNOWN && leaves(&alone));
	if (n->join == JOIN_OR)
		*left_out = a != ANSWER_NO;
	if (n->join == JOIN_AND && a == ANSWER_UNKNOWN && !*left_out && matters(&alone))
		say(sh, n->line, "what stands before '&&' is not known: what follows is taken");
	if (n->join != JOIN_OR || a != ANSWER_UNKNOWN)
		return FLOW_NEXT;
	f = fill(sh, &alone);
	sh->answer = ANSWER_UNKNOWN;
	return f;
}

static enum flow
run_list(struct shell *sh, const struct node *n)
{
	bool left_out = false;
	enum flow f = FLOW_NEXT;

	for (; n && f == FLOW_NEXT; n = n->next) {
		f = joined(sh, n, &left_out);
		if (f == FLOW_NEXT && !left_out)
			f = run_node(sh, n);
	}
	return f;
}

enum flow
run_text(struct shell *sh, const struct script_text *t)
{
	const char *before = sh->name;
	enum flow f = FLOW_ERROR;
	struct node *list;

	sh->bytes += 16 * strlen(t->text);
	if (++sh->depth > DEEPEST || shell_over(sh)) {
		shell_refuse(sh, "texts inside more than 40 others");
		return f;
	}
	sh->name = t->name;
	if (script_parse(&sh->pool, t, &list, sh->e) == 0)
		f = run_list(sh, list);
	sh->name = before;
	sh->depth--;
	return f;
}

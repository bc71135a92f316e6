/*
 * command.c - the commands of the shell itself that change what follows
 */
#include "lib/base/io.h"
#include "lib/script/impl.h"
#include "lib/script/scan.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 20, SOURCES_MOST = 64 };

struct builtin {
	const char *name;
	bool fills; /* it is read too where only variables are filled */
	enum flow (*run)(struct shell *sh, const struct node *n, const struct words *w);
};

static enum flow
do_nothing(struct shell *sh, const struct node *n, const struct words *w)
{
	(void)n;
	sh->answer = strcmp(w->item[0], "false") ? ANSWER_YES : ANSWER_NO;
	return FLOW_NEXT;
}

static enum flow
do_exit(struct shell *sh, const struct node *n, const struct words *w)
{
	(void)w;
	str_addf(&sh->out->notes, "%s:%ld: the script ends here: 'exit'\n", sh->name, n->line);
	return FLOW_EXIT;
}

static enum flow
do_return(struct shell *sh, const struct node *n, const struct words *w)
{
	(void)n;
	sh->answer = w->count > 1 && strcmp(w->item[1], "0") ? ANSWER_NO : ANSWER_YES;
	return FLOW_RETURN;
}

static enum flow
do_break(struct shell *sh, const struct node *n, const struct words *w)
{
	(void)sh;
	(void)n;
	return !strcmp(w->item[0], "break") ? FLOW_BREAK : FLOW_CONTINUE;
}

static enum flow
do_shift(struct shell *sh, const struct node *n, const struct words *w)
{
	struct words *a = &sh->frame->argument;
	int by = w->count > 1 ? atoi(w->item[1]) : 1;

	(void)n;
	sh->answer = by >= 0 && by <= a->count ? ANSWER_YES : ANSWER_NO;
	if (sh->answer == ANSWER_YES) {
		a->item += by;
		a->count -= by;
		a->cap = 0;
	}
	return FLOW_NEXT;
}

/* Only "set -- WORDS" changes the arguments. */
static enum flow
do_set(struct shell *sh, const struct node *n, const struct words *w)
{
	(void)n;
	for (int i = 1; i < w->count; i++) {
		if (strcmp(w->item[i], "--") != 0 && (*w->item[i] == '-' || *w->item[i] == '+'))
			continue;
		i += !strcmp(w->item[i], "--");
		/* The word after -o is its value. */
		if (i > 1 && !strcmp(w->item[i - 1], "-o"))
			continue;
		sh->frame->argument = (struct words){ w->count - i, 0, w->item + i };
		break;
	}
	return FLOW_NEXT;
}

/* Variables that the script reads from a file, a user or a program are those of a run. */
static enum flow
do_forget(struct shell *sh, const struct node *n, const struct words *w)
{
	(void)n;
	for (int i = 1; i < w->count; i++) {
		struct variable *v = variable_find(sh, w->item[i]);

		if (v)
			v->set = false;
	}
	return FLOW_NEXT;
}

/* "local" and "declare" hide what the name was outside the function until it ends. */
static enum flow
do_declare(struct shell *sh, const struct node *n, const struct words *w)
{
	bool global = !strcmp(w->item[0], "export") || !strcmp(w->item[0], "readonly");

	for (int i = 1; i < w->count; i++) {
		if (*w->item[i] == '-' && strchr(w->item[i], 'A')) {
			shell_refuse(sh, "an array with names");
			return FLOW_ERROR;
		}
		if (!global && scan_name(w->item[i]))
			words_add(sh, &sh->frame->local, w->item[i]);
	}
	for (const struct assign *a = n->assign; !global && a; a = a->next)
		words_add(sh, &sh->frame->local, a->name);
	return shell_assign(sh, n->assign) < 0 ? FLOW_ERROR : FLOW_NEXT;
}

static enum flow
do_refuse(struct shell *sh, const struct node *n, const struct words *w)
{
	char what[64];

	(void)n;
	snprintf(what, sizeof what, "'%.40s'", w->item[0]);
	shell_refuse(sh, what);
	return FLOW_ERROR;
}

static enum flow
do_eval(struct shell *sh, const struct node *n, const struct words *w)
{
	struct words rest = { w->count - 1, 0, w->item + 1 };
	struct script_text t = { sh->name, words_join(sh, &rest), n->line };

	return run_text(sh, &t);
}

static enum flow
do_test(struct shell *sh, const struct node *n, const struct words *w)
{
	struct words inside = { w->count - 1, 0, w->item + 1 };

	(void)n;
	if (*w->item[0] == '[' && inside.count && !strcmp(inside.item[inside.count - 1], "]"))
		inside.count--;
	sh->answer = test_words(sh, &inside);
	return FLOW_NEXT;
}

/* The path as it is, or beside the script. free() it; NULL: there is none. */
static char *
resolve(const struct shell *sh, const char *path)
{
	const char *slash = strrchr(sh->path, '/');
	struct str beside = { 0 };

	if (io_exists(path))
		return mem_strdup(path);
	if (*path == '/' || !slash)
		return NULL;
	str_addf(&beside, "%.*s/%s", (int)(slash - sh->path), sh->path, path);
	if (io_exists(beside.buf))
		return str_detach(&beside);
	str_release(&beside);
	return NULL;
}

/* Reads a file in the place of its name. */
static enum flow
read_file(struct shell *sh, char *path)
{
	const char *before = sh->path;
	enum flow f = FLOW_ERROR;
	char *text;
	size_t len;

	if (io_read_regular(path, FILE_MOST, &text, &len, sh->e) < 0)
		return FLOW_ERROR;
	if (strpbrk(text, "\1\2") || strlen(text) != len) {
		err_at(sh->e, path, 0, "not a script: it has control characters");
	} else {
		sh->path = shell_keep(sh, path, strlen(path));
		f = run_text(sh, &(struct script_text){ sh->path, text, 1 });
		sh->path = before;
	}
	free(text);
	return f == FLOW_RETURN ? FLOW_NEXT : f;
}

/* Arguments after the file are those of its commands. */
static enum flow
do_source(struct shell *sh, const struct node *n, const struct words *w)
{
	struct words before = sh->frame->argument;
	char *path = NULL;
	enum flow f = FLOW_NEXT;

	if (w->count < 2)
		return FLOW_NEXT;
	if (sh->follow && !is_hole(w->item[1]))
		path = resolve(sh, w->item[1]);
	if (!path) {
		str_addf(&sh->out->notes, "%s:%ld: '", sh->name, n->line);
		script_show(&sh->out->notes, w->item[1]);
		str_adds(&sh->out->notes, "' is not there and is not read\n");
		return FLOW_NEXT;
	}
	if (w->count > 2)
		sh->frame->argument = (struct words){ w->count - 2, 0, w->item + 2 };
	f = read_file(sh, path);
	if (w->count > 2)
		sh->frame->argument = before;
	free(path);
	return f;
}

static const struct builtin builtins[] = {
	{ ":", false, do_nothing },
	{ "true", false, do_nothing },
	{ "false", false, do_nothing },
	{ "trap", false, do_nothing },
	{ "exit", false, do_exit },
	{ "return", false, do_return },
	{ "break", false, do_break },
	{ "continue", false, do_break },
	{ "shift", false, do_shift },
	{ "set", false, do_set },
	{ "unset", false, do_forget },
	{ "read", false, do_forget },
	{ "mapfile", false, do_forget },
	{ "readarray", false, do_forget },
	{ "export", true, do_declare },
	{ "local", true, do_declare },
	{ "declare", true, do_declare },
	{ "typeset", true, do_declare },
	{ "readonly", true, do_declare },
	{ "let", false, do_refuse },
	{ "getopts", false, do_refuse },
	{ "eval", false, do_eval },
	{ "[", true, do_test },
	{ "test", true, do_test },
	{ "source", false, do_source },
	{ ".", false, do_source },
};

enum flow
run_command(struct shell *sh, const struct node *n, const struct words *w)
{
	for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
		if (!strcmp(w->item[0], builtins[i].name))
			return sh->filling && !builtins[i].fills ? FLOW_NEXT
								 : builtins[i].run(sh, n, w);
	sh->answer = ANSWER_UNKNOWN;
	return sh->filling ? FLOW_NEXT : find_launch(sh, w);
}

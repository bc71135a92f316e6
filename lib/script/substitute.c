/*
 * substitute.c - $(...) whose output follows from its words
 *
 * Scripts find their own directory with dirname, basename, `cd D && pwd`; these and echo need no
 * program. Every other command is a hole.
 */
#include "lib/script/impl.h"

#include <string.h>

/* A path without the slashes at its end. */
static size_t
path_length(const char *s)
{
	size_t n = strlen(s);

	while (n > 1 && s[n - 1] == '/')
		n--;
	return n;
}

static const char *
directory(struct shell *sh, const char *path)
{
	size_t n = path_length(path);

	while (n > 0 && path[n - 1] != '/')
		n--;
	while (n > 1 && path[n - 1] == '/')
		n--;
	return n ? shell_keep(sh, path, n) : ".";
}

/* suffix: NULL, or what is taken off the end. */
static const char *
base(struct shell *sh, const char *path, const char *suffix)
{
	size_t n = path_length(path), start = n, end = suffix ? strlen(suffix) : 0;

	while (start > 0 && path[start - 1] != '/')
		start--;
	if (n > 1 && start == n)
		start = 0;
	if (end && n - start > end && !memcmp(path + n - end, suffix, end))
		n -= end;
	return shell_keep(sh, path + start, n - start);
}

/* The output of one command; NULL: only a run knows. */
static const char *
output(struct shell *sh, const struct words *w)
{
	const char *name = w->item[0], *last = w->item[w->count - 1];
	struct words rest = { w->count - 1, 0, w->item + 1 };

	if (!strcmp(name, "echo"))
		return w->count > 1 && *w->item[1] == '-' ? NULL : words_join(sh, &rest);
	for (int i = 0; i < w->count; i++)
		if (is_hole(w->item[i]))
			return NULL;
	if (!strcmp(name, "dirname") && w->count == 2)
		return directory(sh, last);
	if (!strcmp(name, "basename") && (w->count == 2 || w->count == 3))
		return base(sh, w->item[1], w->count == 3 ? last : NULL);
	if ((!strcmp(name, "realpath") && w->count == 2) ||
	    (!strcmp(name, "readlink") && w->count == 3 && !strcmp(w->item[1], "-f")))
		return last;
	return NULL;
}

/* `cd D` followed by `pwd`: D, if it is known. */
static const char *
directory_of(const struct words *cd, const struct node *next)
{
	bool plain = next && !next->next && next->kind == NODE_SIMPLE &&
	    (next->join == JOIN_AND || next->join == JOIN_NEXT) && next->word &&
	    !strcmp(next->word->text, "pwd");

	return plain && cd->count == 2 && !strcmp(cd->item[0], "cd") && !is_hole(cd->item[1])
	    ? cd->item[1]
	    : NULL;
}

const char *
substitute(struct shell *sh, const char *source, size_t n, const char *text)
{
	struct err *keep = sh->e, ignored;
	struct script_text t = { sh->name, text, sh->line };
	struct words w = { 0 };
	const char *value = NULL;
	struct node *list;
	bool read;

	sh->bytes += 16 * n;
	sh->e = &ignored;
	read = !shell_over(sh) && script_parse(&sh->pool, &t, &list, &ignored) == 0 && list &&
	    list->kind == NODE_SIMPLE && !list->assign;
	for (const struct word *p = read ? list->word : NULL; read && p; p = p->next)
		read = expand_fields(sh, p->text, &w) == 0;
	if (read && w.count)
		value = list->next ? directory_of(&w, list->next) : output(sh, &w);
	sh->e = keep;
	return value ? value : hole_of(sh, source, n);
}

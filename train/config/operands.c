/*
 * operands.c - which words of a command line with --explain are the script's
 */
#include "train/config/operands.h"

#include <string.h>

bool
operands_explain(int argc, char **argv)
{
	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], "--explain"))
			return true;
	return false;
}

/* Whether the word is an option of --explain itself. */
static bool
is_own(const char *word)
{
	static const char *const names[] = { "--explain", "--json", "-o", "--output", "-v",
		"--verbose", "-q", "--quiet", "-h", "--help", "--version" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(word, names[i]))
			return true;
	return !strncmp(word, "--output=", 9) || (!strncmp(word, "-o", 2) && word[2]);
}

static bool
takes_file(const char *word)
{
	return !strcmp(word, "-o") || !strcmp(word, "--output");
}

void
operands_split(struct mem_pool *pool, int argc, char **argv, struct operands *out)
{
	bool script = false;
	int i = 0;

	out->option = mem_pool_alloc(pool, (size_t)argc + 1, sizeof *out->option);
	out->word = mem_pool_alloc(pool, (size_t)argc + 1, sizeof *out->word);
	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		script |= argv[i][0] != '-';
		if (argv[i][0] != '-' || (script && !is_own(argv[i]))) {
			out->word[out->count++] = argv[i];
			continue;
		}
		out->option[out->own++] = argv[i];
		if (takes_file(argv[i]) && i + 1 < argc)
			out->option[out->own++] = argv[++i];
	}
	for (i++; i < argc; i++)
		out->word[out->count++] = argv[i];
}

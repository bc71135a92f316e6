/* command.c - the command line as a shell takes it */
#include "train/config/command.h"

#include <stdlib.h>
#include <string.h>

/* A word for a shell, in quotes where it needs them. */
static void
add_quoted(const char *word, struct str *out)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-_./=,:+@%^";

	if (*word && word[strspn(word, plain)] == '\0') {
		str_adds(out, word);
		return;
	}
	str_addc(out, '\'');
	for (; *word; word++)
		if (*word == '\'')
			str_adds(out, "'\\''");
		else
			str_addc(out, *word);
	str_addc(out, '\'');
}

void
command_text(int argc, char *const *words, struct str *out)
{
	char *here = realpath(".", NULL);

	str_adds(out, "cd ");
	add_quoted(here ? here : ".", out);
	str_adds(out, " &&");
	for (int i = 0; i < argc; i++) {
		str_addc(out, ' ');
		add_quoted(words[i], out);
	}
	free(here);
}

/*
 * cli.h - a tool as a table of verbs
 *
 * cli_main parses, prints --help and --version, runs the verb and turns its answer into an exit
 * status. A verb returns an exit status, or CLI_FAILED / CLI_USAGE with the reason in the struct
 * err. `--mdoc` prints the option lists for the manual.
 */
#ifndef BASE_CLI_H
#define BASE_CLI_H

#include "lib/base/opt.h"
#include "lib/base/str.h"

enum { CLI_FAILED = -1, CLI_USAGE = -2, CLI_DONE = 0, CLI_NO = 1 };

struct verb {
	const char *name, *operands, *summary;
	const struct opt *opts;
	size_t cfg_size;
	int (*run)(const void *cfg, int argc, char **argv, struct err *e);
	/* Replaces run for a verb that needs to know which options were given; p->cfg is the
	 * config. */
	int (*run_given)(const struct opt_parse *p, int argc, char **argv, struct err *e);
	/* names of the options that most runs have, for a --help that cannot show all on a screen,
	 * with blanks between them; may be NULL */
	const char *common;
};

struct tool {
	const char *name, *summary;
	const char *built_in; /* what --version says was built in */
	/* run when the first word is not a verb; NULL: a verb is required */
	const char *default_verb;
	/* ended by NULL; a tool without verbs has one whose name is "" */
	const struct verb *const *verbs;
	/* options of other programs, which no verb has; may be NULL */
	const struct opt_foreigners *foreign;
	/* appends versions of libraries to what was built in; may be NULL */
	void (*libraries)(struct str *out);
};

int cli_main(const struct tool *t, int argc, char **argv);

/* Returns 0 when exactly n operands were given, else CLI_USAGE; what names the operands needed. */
int cli_operands(int argc, int n, const char *what, struct err *e);
/* Prints each line of text through note or warn, releases the text, and returns the number of
 * lines. */
int cli_say(struct str *text, void (*how)(const char *fmt, ...));

/* The same for verbs, which do not print otherwise: notes and warnings; returns the number of
 * lines. */
int cli_notes(struct str *text);
int cli_warnings(struct str *text);
/* One note, at once. */
void cli_note(const char *line);
/* "mikoshi 0.1.0", for files that record which release wrote them. */
const char *cli_release(void);

/* What was asked with --help, or how to use the verb, on stdout. -1: a word after --help means
 * nothing. */
int cli_help(const struct tool *t, const struct verb *v, const struct opt_parse *p, struct err *e);
/* A file for a shell, "bash" or "zsh", which completes verbs, options, their values and files. */
void cli_completion(const struct tool *t, const char *shell, struct str *out);
/* True for a tool without verbs. */
bool cli_is_plain(const struct tool *t);

#endif

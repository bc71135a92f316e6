/*
 * cli.c - a tool as a table of verbs
 *
 * Every tool runs through here, so that help, version, the option table, the notes about options
 * without effect and the exit status are the same everywhere. A tool without verbs is a table of
 * one row with an empty name. With prog.c this is the part of lib/ that may print and exit.
 */
#include "lib/base/cli.h"
#include "lib/base/io.h"
#include "lib/base/prog.h"

#include <stdlib.h>
#include <string.h>

bool
cli_is_plain(const struct tool *t)
{
	return !*t->verbs[0]->name;
}

/*
 * On stdout, because the user asked for it; a wrong command line gets one line on stderr instead.
 */
int
cli_help(const struct tool *t, const struct verb *v, const struct opt_parse *p, struct err *e)
{
	struct str out = { 0 };
	int rc = opt_help_asked(p, &out, e);

	if (rc == 0) {
		str_addf(&out, "usage: %s%s%s [options]%s%s\n", t->name, *v->name ? " " : "",
		    v->name, *v->operands ? " " : "", v->operands);
		str_add_wrapped(&out, v->summary, 0, 0);
		str_adds(&out, ".\n");
		opt_help(v->opts, v->common, 2, &out);
	}
	if (rc >= 0)
		str_put(&out, stdout);
	str_release(&out);
	return rc < 0 ? CLI_USAGE : CLI_DONE;
}

/* The list of verbs. Each verb's own --help lists its options, which is shorter to read. */
static void
add_verbs(const struct tool *t, struct str *out)
{
	enum { TEXT = 13 };

	str_addf(out, "usage: %s VERB [options] [operands]\n", t->name);
	str_add_wrapped(out, t->summary, 0, 0);
	str_adds(out, ".\n\nVerbs:\n");
	for (const struct verb *const *v = t->verbs; *v; v++) {
		struct str text = { 0 };

		str_addf(&text, "%s%s", (*v)->summary,
		    t->default_verb && !strcmp((*v)->name, t->default_verb) ? " (the default)"
									    : "");
		str_addf(out, "  %-10s ", (*v)->name);
		str_add_wrapped(out, text.buf, TEXT, TEXT);
		str_addc(out, '\n');
		str_release(&text);
	}
	str_addf(out,
	    "\n%s VERB --help lists a verb's options, %s --help OPTION explains one;\n"
	    "man %s has the whole manual.\n",
	    t->name, t->name, t->name);
}

/* What a word after the tool's --help means to each verb that has it. */
static bool
add_word(const struct tool *t, const char *word, struct str *out)
{
	size_t before = out->len;

	for (const struct verb *const *v = t->verbs; *v; v++) {
		struct str text = { 0 };

		if (!strcmp((*v)->name, word))
			opt_help((*v)->opts, (*v)->common, 2, &text);
		else
			opt_help_word((*v)->opts, NULL, word, &text);
		if (text.len)
			str_addf(out, "%s%s %s:\n%s", out->len ? "\n" : "", t->name, (*v)->name,
			    text.buf);
		str_release(&text);
	}
	return out->len > before;
}

/* argv: the words after --help, with or without dashes. */
static int
tool_help(const struct tool *t, int argc, char **argv)
{
	struct str out = { 0 };

	if (argc == 0)
		add_verbs(t, &out);
	for (int i = 0; i < argc; i++)
		if (!add_word(t, argv[i] + strspn(argv[i], "-"), &out))
			die_usage(
			    "--help %s: no verb, no option and no group is called so", argv[i]);
	str_put(&out, stdout);
	return prog_end(EXIT_DONE);
}

static void
say_completion(const struct tool *t, const char *shell)
{
	struct str out = { 0 };

	cli_completion(t, shell, &out);
	str_put(&out, stdout);
}

/*
 * The text between the marker comments of the manual page. A test compares the two, so the page
 * cannot drift from the table.
 */
static void
tool_mdoc(const struct tool *t)
{
	if (cli_is_plain(t)) {
		opt_mdoc(t->verbs[0]->opts, stdout);
		return;
	}
	for (const struct verb *const *v = t->verbs; *v; v++) {
		printf(".Ss %s\n.Nm %s Cm %s\n.Op options\n", (*v)->name, t->name, (*v)->name);
		if (*(*v)->operands)
			printf(".Ar %s\n", (*v)->operands);
		printf(".Pp\n%s.\n", (*v)->summary);
		opt_mdoc((*v)->opts, stdout);
	}
}

/*
 * Verbs have no abbreviations: a script must mean the same after a verb is added. NULL when no verb
 * has this name.
 */
static const struct verb *
find_verb(const struct tool *t, const char *name)
{
	for (const struct verb *const *v = t->verbs; *v; v++)
		if (!strcmp((*v)->name, name))
			return *v;
	return NULL;
}

/*
 * For verbs with a fixed number of operands. The verb returns the value as it is: CLI_USAGE ends
 * the program with the status of a wrong command line, unlike -1.
 */
int
cli_operands(int argc, int n, const char *what, struct err *e)
{
	if (argc == n)
		return 0;
	err_set(e, "operands needed: %s; %d given", what, argc);
	return CLI_USAGE;
}

/*
 * Libraries collect their messages as lines and do not print. Each line becomes one call of how, so
 * that every line carries the program's name. Empty lines are dropped, and the text is empty
 * afterwards. Returns the number of lines.
 */
int
cli_say(struct str *text, void (*how)(const char *fmt, ...))
{
	int n = 0;

	for (char *line = text->buf ? strtok(text->buf, "\n") : NULL; line;
	     line = strtok(NULL, "\n"), n++)
		how("%s", line);
	str_release(text);
	return n;
}

int
cli_notes(struct str *text)
{
	return cli_say(text, note);
}

void
cli_note(const char *line)
{
	note("%s", line);
}

int
cli_warnings(struct str *text)
{
	return cli_say(text, warn);
}

const char *
cli_release(void)
{
	return prog_release();
}

/* What was built in, and the versions of libraries that results depend on. */
static void
say_version(const struct tool *t)
{
	struct str text = { 0 };

	str_adds(&text, t->built_in);
	if (t->libraries)
		t->libraries(&text);
	prog_version(text.buf);
	str_release(&text);
}

/*
 * The quiet level is set before the first note, and --help wins over a mistake in the operands. A
 * verb returns a status, -1 with a reason, or CLI_USAGE with one; an empty reason means that it has
 * already reported the failure. stdout is checked last, whatever the verb returned.
 */
static int
run_verb(const struct tool *t, const struct verb *v, int argc, char **argv)
{
	struct opt_parse p;
	struct err e = { "" };
	void *cfg = mem_zalloc(1, v->cfg_size);
	int rc;

	opt_begin(&p, v->opts, cfg);
	p.foreign = t->foreign;
	if (opt_argv(&p, &argc, &argv, &e) < 0)
		die_usage("%s", e.msg);
	if (p.want_help && cli_help(t, v, &p, &e) < 0)
		die_usage("%s", e.msg);
	if (!p.want_help && p.want_version)
		say_version(t);
	if (!p.want_help && p.shell)
		say_completion(t, p.shell);
	if (p.want_help || p.want_version || p.shell) {
		rc = EXIT_DONE;
	} else {
		prog_quiet(p.level);
		cli_say(&p.notes, note);
		rc = v->run_given ? v->run_given(&p, argc, argv, &e) : v->run(cfg, argc, argv, &e);
		prog_progress_end();
		if (rc < 0 && e.msg[0])
			warn("%s", e.msg);
		rc = rc == CLI_USAGE ? EXIT_USAGE : rc < 0 ? EXIT_FAILED : rc;
	}
	opt_release(&p);
	free(cfg);
	return prog_end(rc);
}

/* A first word that the default verb cannot use, such as a mistyped verb: it is not an option, does
 * not look like a file name, and no file has that name. */
static bool
is_stray(const char *word)
{
	return *word != '-' && !strpbrk(word, "./") && !io_exists(word);
}

/*
 * The verb is looked for first: "tool verb --help" is the verb's, "tool --help" the tool's. Without
 * a verb the default verb gets all the words; without a default a usage error points to --help.
 * --mdoc is in no table because users do not need it.
 */
int
cli_main(const struct tool *t, int argc, char **argv)
{
	const struct verb *v = argc > 1 ? find_verb(t, argv[1]) : NULL;
	bool plain = cli_is_plain(t);

	prog_begin(argv[0]);
	if (v && !plain)
		return run_verb(t, v, argc - 2, argv + 2);
	if (argc > 1 && !plain && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		return tool_help(t, argc - 2, argv + 2);
	if (argc > 1 && !strncmp(argv[1], "--completion", 12))
		return run_verb(t, t->verbs[0], argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "--version")) {
		say_version(t);
		return prog_end(EXIT_DONE);
	}
	if (argc > 1 && !strcmp(argv[1], "--mdoc")) {
		tool_mdoc(t);
		return prog_end(EXIT_DONE);
	}
	if (plain)
		return run_verb(t, t->verbs[0], argc - 1, argv + 1);
	if (t->default_verb && argc > 1 && is_stray(argv[1]))
		die_usage("'%s' is neither a verb nor a file; --help lists the verbs", argv[1]);
	if (t->default_verb)
		return run_verb(t, find_verb(t, t->default_verb), argc - 1, argv + 1);
	if (argc > 1)
		die_usage("unknown verb '%s'; --help lists the verbs", argv[1]);
	die_usage("no verb given; --help lists the verbs");
}

/*
 * opt.h - the option table: one row gives parsing, range check, --help, option file, manual and
 * dump
 *
 * A table is an array of rows ended by OPT_END; off is the field's offset in the caller's config
 * struct. Long options are written --name value or --name=value; in names '_' equals '-', and words
 * that begin with two dashes are no values. An option file holds one option per line without the
 * dashes (which are accepted), '#' starts a comment, values with blanks are quoted with '"'. The
 * command line wins over files. A number may have '_' between digits, as in Python; a word of
 * numbers with blanks is a list of them.
 *
 * Everything that is wrong with a command line is collected and told in one answer (opt_answer).
 *
 *   OPT_FLAG    bool field: true when given
 *   OPT_UNFLAG  bool field: true until given ("no-bias-gelu-fusion")
 *   OPT_INT     int64_t field, checked against min..max unless min == max
 *   OPT_NUMBER  double field, checked likewise
 *   OPT_STRING  const char * field
 *   OPT_CHOICE  int field, index into choices
 *   OPT_LIST    struct opt_list field: every word up to the next option
 *   OPT_NOTE    accepted, changes nothing here; `help` says why to the user. max is the number of
 *               words that it takes, 2 for all up to the next option. With def it takes this one
 *               value, without a word; with another it is the option of this name among those of
 *               other programs
 *   OPT_GROUP   a heading for --help and the manual
 */
#ifndef BASE_OPT_H
#define BASE_OPT_H

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum opt_type {
	OPT_END_TYPE,
	OPT_GROUP,
	OPT_FLAG,
	OPT_UNFLAG,
	OPT_INT,
	OPT_NUMBER,
	OPT_STRING,
	OPT_CHOICE,
	OPT_LIST,
	OPT_NOTE,
	OPT_HELP,
	OPT_VERSION,
	OPT_COMPLETION,
	OPT_CONFIG,
	OPT_QUIET,
	OPT_VERBOSE,
};

struct opt {
	const char *name;
	char letter;
	enum opt_type type;
	size_t off;
	double min, max;
	const char *const *choices; /* upper and lower case are the same */
	/* other programs' words for values of a choice or a string, each followed by ours; ended by
	 * NULL; may be NULL */
	const char *const *alias;
	const char *def;  /* default, as it would be typed; NULL: zero, or not given */
	const char *unit; /* what the value is: "tokens", "FILE" */
	const char *help;
	/* options without which nothing reads this one: "a", "a=value" (a choice) or "a>number",
	 * alternatives joined by '|' and all that are needed by '&'; NULL: it is always read */
	const char *needs;
	unsigned tag; /* for the owner of the table; not read here */
};

struct opt_list {
	int count;
	const char **item;
};

/* Rows that every table ends with: --config, -q, -v, --help, --version, --completion. */
extern const char *const opt_shells[];

/* clang-format off */
#define OPT_END \
	{ .type = OPT_GROUP, .help = "Common options" }, \
	{ .name = "config", .type = OPT_CONFIG, .unit = "FILE", \
	  .help = "read options from FILE, one per line; may be repeated" }, \
	{ .name = "quiet", .letter = 'q', .type = OPT_QUIET, .help = "no notes and no progress" }, \
	{ .name = "verbose", .letter = 'v', .type = OPT_VERBOSE, .help = "print more" }, \
	{ .name = "help", .letter = 'h', .type = OPT_HELP, .unit = "WORD", \
	  .help = "print help: on one screen, or of each WORD, a group or an option; all: of all " \
	          "options" }, \
	{ .name = "version", .type = OPT_VERSION, \
	  .help = "print version, commit and what was built in" }, \
	{ .name = "completion", .type = OPT_COMPLETION, .choices = opt_shells, \
	  .help = "print the file that completes options and their values in a shell" }, \
	{ .type = OPT_END_TYPE }
/* clang-format on */

/* What becomes of an option of another program. */
enum foreign {
	FOREIGN_NOTE,  /* a run with it computes the same: a note */
	FOREIGN_ALIAS, /* the same as `to`: a note, and these options */
	FOREIGN_SAME,  /* depends on the value: `values`; refused with any other */
	FOREIGN_MATHS, /* would change what is computed: refused */
	FOREIGN_LACKS, /* asks for a function that `why` has another way to: refused */
	FOREIGN_SCOPE, /* is of a program for something else: refused */
};

/*
 * In `to`, which is options as they are typed, $ stands for what was given. `values` are separated
 * by "; ": a value, where * stands for any text and @x for the value of option x, is a note, and
 * "value=to" an alias.
 */
enum { OPT_MAYBE = -1, /* 0 or 1 */ OPT_MANY = -2 /* all up to the next option */ };

struct opt_foreign {
	const char *name;
	enum foreign kind;
	int words; /* that its program takes after the name: 0, 1, or one of below */
	const char *to, *values;
	const char *why; /* without effect, or refused: a short statement */
};

/* A word of other programs for an option of ours, for suggestions alone. */
struct opt_word {
	const char *word, *ours;
};

struct opt_foreigners {
	const struct opt_foreign *row; /* sorted by name */
	int count;
	const struct opt_word *words; /* ended by a NULL word; may be NULL */
};

/* A line of the answer. */
struct opt_error {
	int place;        /* of the word on the command line; those of files come first */
	const char *why;  /* of a refused option: lines of the same reason are one; else NULL */
	const char *text; /* the line, or the name of a refused option; in the pool */
	bool needed;      /* text is an option that is missing, and `other` what may replace it */
	const char *other;
	const struct opt *range; /* of a value out of range, which a later value replaces */
};

struct opt_errors {
	struct opt_error *item;
	int count;
	bool *bad;           /* one per row: an error concerns it; the value is the default */
	const char **unread; /* one per row: why nothing reads it; NULL before opt_unread */
	struct mem_pool pool;
};

struct opt_parse {
	const struct opt *table;
	void *cfg;
	const struct opt_foreigners *foreign; /* may be NULL */
	const char *no_operands; /* "mtrain takes no operands"; NULL: operands are left in argv */
	bool *given;             /* one per row: given in a file or on the command line */
	int *place;              /* one per row: where it was given last */
	int level;               /* -1 quiet, 0, 1 verbose */
	bool want_help, want_version;
	struct opt_list topic; /* words after --help */
	const char *shell;     /* of --completion; NULL: not given */
	bool unread;           /* a file of options could not be read */
	/* for opt_text: called with an option that is not in the table and the first word after it
	 * or NULL; 0 skips the option. NULL: every such option is an error */
	int (*unknown)(const char *name, const char *value, struct err *e);
	struct str notes; /* what has no effect, and what is called otherwise here, a line each */
	struct opt_errors *errors; /* also of a parse that is not changed any more */
	struct opt_met *met; /* options without effect and of other programs, as they were given */
	int met_count, met_noted;
	int at;               /* the place of the word that is read; below 0 in a file */
	const char *where;    /* "FILE:LINE: " in a file, else "" */
	struct mem_pool pool; /* owns the strings that came from files */
};

/* Sets every field to its default. cfg keeps borrowed pointers into p until opt_release. */
void opt_begin(struct opt_parse *p, const struct opt *table, void *cfg);
/* Parses and removes the options; operands stay in *argv ("--" ends the options). -1 with the
 * answer after errors, unless --help is given. */
int opt_argv(struct opt_parse *p, int *argc, char ***argv, struct err *e);
/* Reads the options of a text in the format of option files; name is for messages. With keep,
 * options already given stay. */
int opt_text(struct opt_parse *p, const char *name, const char *text, bool keep, struct err *e);
/* Appends the lines of such a text whose option is not in the table, unchanged. */
void opt_text_without(const struct opt *table, const char *text, struct str *out);
bool opt_given(const struct opt_parse *p, const char *name);
/* Reads a list of whole numbers from least to 1e15 into out [l->count]. -1 with the option's name
 * and the rule. */
int opt_numbers(
    const char *name, const struct opt_list *l, int64_t least, int64_t *out, struct err *e);
void opt_release(struct opt_parse *p);

/* The row of a name; NULL when none matches. */
const struct opt *opt_find(const struct opt *table, const char *name);
/* True for an option, false for a value; "-5" and "-" are values. */
bool opt_is_option(const char *word);
/* NULL: not known. '_' equals '-'. */
const struct opt_foreign *opt_foreign_find(const struct opt_foreigners *f, const char *name);
/* True when the option of another program was given. */
bool opt_foreign_given(const struct opt_parse *p, const char *name);

/* What became of one option of the command line. */
enum opt_fate {
	OPT_KEPT,    /* a row of the table */
	OPT_RENAMED, /* to */
	OPT_SAME,    /* another program's, without effect for its value */
	OPT_NOTHING, /* without effect: why */
	OPT_UNREAD,  /* read by nothing in this run, as opt_unread found: why */
	OPT_WRONG,   /* an error: why; row where it is refused */
};
struct opt_outcome {
	enum opt_fate fate;
	const char *to, *why;
	const struct opt_foreign *row; /* NULL: no other program's */
};

/* After opt_argv: of the option whose name is at this place, counted from 1. */
struct opt_outcome opt_outcome(const struct opt_parse *p, int place);

/* After parsing, for rules between options. rc is what a check returned: below 0, its reason joins
 * the answer at the place of the first option that it names, unless an error concerns one of the
 * options that it names already. Returns rc. */
int opt_rule(const struct opt_parse *p, int rc, const struct err *e);
/* An option that is missing; other: "or --x", which may be given instead, or NULL. Nothing when an
 * error concerns it already. */
void opt_needed(const struct opt_parse *p, const char *name, const char *other);
/* True when an error concerns the option. */
bool opt_bad(const struct opt_parse *p, const char *name);
/* The same for one of the options from this heading to the next. */
bool opt_bad_group(const struct opt_parse *p, const char *heading);
/* In place of what the caller's struct has in `size` bytes from `off` on. */
struct opt_overlay {
	size_t off, size;
	const void *at;
};

/* Appends one line of the options that were given, not with their defaults, and that nothing
 * reads. over: values that were resolved since; may be NULL. */
void opt_unread(const struct opt_parse *p, const struct opt_overlay *over, struct str *notes);
/* "needs --a or --b" of a row; nothing without. */
void opt_needs_text(const struct opt *o, struct str *out);

/* -1 with all errors, in the order of the command line: the one there is, or a line of how many
 * there are and a line of each; 0 without errors. */
int opt_answer(const struct opt_parse *p, struct err *e);
/* Begins anew without errors. */
void opt_forget(const struct opt_parse *p);

/* Appends the whole table where it fits on a screen of 40 lines with `before` lines above; else the
 * common options (names with blanks between them; may be NULL) and the groups. */
void opt_help(const struct opt *table, const char *common, int before, struct str *out);
/* Appends what a word after --help means: an option, groups by the beginning of their headings,
 * options that contain it, or "all". False: nothing. */
bool opt_help_word(
    const struct opt *table, const struct opt_foreigners *f, const char *word, struct str *out);
/* Appends what is known of the options that were given beside --help, of other programs too, and of
 * the words after it. 0: there are none; -1: a word means nothing. */
int opt_help_asked(const struct opt_parse *p, struct str *out, struct err *e);
/* How many words an option takes: 0, 1, or 2 for any number. */
int opt_takes(const struct opt *o);
/* What its value is called. */
const char *opt_unit(const struct opt *o);
void opt_mdoc(const struct opt *table, FILE *f);
/* Writes all values as an option file that reads back to the same values. only_given leaves
 * defaults out. */
void opt_dump(const struct opt_parse *p, bool only_given, struct str *out);
/* Writes the line of one row; nothing for a switch at its default, a NULL string or an empty
 * list. */
void opt_dump_row(const struct opt *row, const void *cfg, struct str *out);

#endif

/*
 * opt.h - the option table: one row gives parsing, range check, --help, option file, manual and
 * dump
 *
 * A table is an array of rows ended by OPT_END; off is the field's offset in the caller's config
 * struct. Long options are written --name value or --name=value; in names '_' equals '-'. An option
 * file holds one option per line without the dashes (which are accepted), '#' starts a comment,
 * values with blanks are quoted with '"'. The command line wins over files.
 *
 *   OPT_FLAG    bool field: true when given
 *   OPT_UNFLAG  bool field: true until given ("no-bias-gelu-fusion")
 *   OPT_INT     int64_t field, checked against min..max unless min == max
 *   OPT_NUMBER  double field, checked likewise
 *   OPT_STRING  const char * field
 *   OPT_CHOICE  int field, index into choices
 *   OPT_LIST    struct opt_list field: every word up to the next option
 *   OPT_NOTE    accepted, takes any words, changes nothing here; `help` says why to the user. With
 *               def it takes this one value, without a word; any other is refused by the table of
 *               refused options, which has its name too
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
	const char *const *choices;
	const char *def;  /* default, as it would be typed; NULL: zero, or not given */
	const char *unit; /* what the value is: "tokens", "FILE" */
	const char *help;
	unsigned tag; /* for the owner of the table; not read here */
};

struct opt_list {
	int count;
	const char **item;
};

/* Rows that every table ends with: --config, -q, -v, --help, --version. */
/* clang-format off */
#define OPT_END \
	{ .type = OPT_GROUP, .help = "Common options" }, \
	{ .name = "config", .type = OPT_CONFIG, .unit = "FILE", \
	  .help = "read options from FILE, one per line; may be repeated" }, \
	{ .name = "quiet", .letter = 'q', .type = OPT_QUIET, .help = "no notes and no progress" }, \
	{ .name = "verbose", .letter = 'v', .type = OPT_VERBOSE, .help = "print more" }, \
	{ .name = "help", .letter = 'h', .type = OPT_HELP, .help = "print this help" }, \
	{ .name = "version", .type = OPT_VERSION, \
	  .help = "print version, commit and what was built in" }, \
	{ .type = OPT_END_TYPE }
/* clang-format on */

/*
 * An option of another program that is known but not supported; `why` is one of a few short
 * reasons. A reason that ends in OPT_HARMLESS says that the result is the same without it.
 */
#define OPT_HARMLESS "; leave it out"
struct opt_refused {
	const char *name, *why;
};

struct opt_parse {
	const struct opt *table;
	void *cfg;
	const struct opt_refused *refused; /* ended by a NULL name; may be NULL */
	bool *given;                       /* one per row: given in a file or on the command line */
	int level;                         /* -1 quiet, 0, 1 verbose */
	bool want_help, want_version;
	/* for opt_text: called with an option that is not in the table and the first word after it
	 * or NULL; 0 skips the option. NULL: every such option is an error */
	int (*unknown)(const char *name, const char *value, struct err *e);
	struct str notes;     /* options accepted without effect, one line each */
	bool *met;            /* one per row of refused: given so far; NULL until the first */
	struct mem_pool pool; /* owns the strings that came from files */
};

/* Sets every field to its default. cfg keeps borrowed pointers into p until opt_release. */
void opt_begin(struct opt_parse *p, const struct opt *table, void *cfg);
/* Parses and removes the options; operands stay in *argv ("--" ends the options). */
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

void opt_help(const struct opt *table, FILE *f);
void opt_mdoc(const struct opt *table, FILE *f);
/* Writes all values as an option file that reads back to the same values. only_given leaves
 * defaults out. */
void opt_dump(const struct opt_parse *p, bool only_given, struct str *out);
/* Writes the line of one row; nothing for a switch at its default, a NULL string or an empty
 * list. */
void opt_dump_row(const struct opt *row, const void *cfg, struct str *out);

#endif

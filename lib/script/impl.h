/*
 * impl.h - the state of reading a script
 *
 * A value may hold holes: text that only a run can give, between HOLE_OPEN and HOLE_CLOSE, such as
 * "$(date +%s)". Scripts with these two characters are refused, so that they are never input.
 */
#ifndef SCRIPT_IMPL_H
#define SCRIPT_IMPL_H

#include "lib/base/str.h"
#include "lib/script/script.h"
#include "lib/script/tree.h"

#include <stdbool.h>
#include <stdint.h>

#define HOLE_OPEN '\1'
#define HOLE_CLOSE '\2'

/* Words in order; the array and the strings belong to the pool. */
struct words {
	int count, cap;
	const char **item;
};

struct variable {
	const char *name;
	bool set, array; /* declared and without a value: not set */
	struct words value;
};

/* The positional parameters of the script, of a function or of a text given to a shell. */
struct frame {
	const char *name; /* $0 */
	struct words argument;
	struct words local; /* names to forget at the end */
};

enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_RETURN, FLOW_EXIT, FLOW_FOUND, FLOW_ERROR };

/* What a command answers; a test that depends on a hole, and every program, is not known. */
enum answer { ANSWER_NO, ANSWER_YES, ANSWER_UNKNOWN };

struct shell {
	struct mem_pool pool;
	struct variable *variable;
	int variables, variable_cap;
	struct node **function;
	int functions, function_cap;
	struct frame *frame;
	const char *name, *path; /* of the text that is read, for messages; of the file */
	struct words given;      /* NAME=VALUE of the user */
	bool *given_used;        /* one for each */
	bool filling;            /* only variables without a value are assigned */
	bool follow;             /* files that are sourced are read */
	const char *other;       /* a script that this one starts, and its line; or NULL */
	long other_line;
	struct words prefix; /* the launcher before a text that is given to a shell */
	int depth;
	int64_t steps;
	size_t bytes;
	enum answer answer; /* of the last command */
	long line;
	struct script *out;
	struct err *e;
};

/* --- values ----------------------------------------------------------------------------------- */

/* A copy in the pool; bounded, see shell_over. */
const char *shell_keep(struct shell *sh, const char *s, size_t n);
void words_add(struct shell *sh, struct words *w, const char *s);
/* The words with blanks between, in the pool. */
const char *words_join(struct shell *sh, const struct words *w);
bool is_hole(const char *value);
/* A hole whose text is the n characters of the script. */
const char *hole_of(struct shell *sh, const char *text, size_t n);
/* FLOW_ERROR with the reason, after more work or bytes than a script needs. */
bool shell_over(struct shell *sh);
int shell_refuse(struct shell *sh, const char *what);

/* --- variables -------------------------------------------------------------------------------- */

struct variable *variable_find(const struct shell *sh, const char *name);
void variable_set(struct shell *sh, const char *name, const char *value);
/* What the user gave for a name after the script; NULL: nothing. */
const char *given_value(struct shell *sh, const char *name);
int shell_assign(struct shell *sh, const struct assign *a);

/* --- expansion -------------------------------------------------------------------------------- */

/* Adds the fields that the word becomes. -1 with the reason. */
int expand_fields(struct shell *sh, const char *raw, struct words *out);
/* The word as one value: of an assignment, a subject. */
int expand_value(struct shell *sh, const char *raw, const char **out);
/* The same where quoted characters are escaped, for scan_match. */
int expand_pattern(struct shell *sh, const char *raw, const char **out);
/* "${...}" or "$NAME" whose text after the '$' is s..end: its values; several for [@]. */
struct parameter {
	struct words value;
	bool set, many; /* many: "$@" and "${A[@]}", which stay apart in quotes */
};
int expand_parameter(struct shell *sh, const char *s, size_t n, struct parameter *out);
/* The value of "$(...)" that needs no program, else a hole of the n characters of source. */
const char *substitute(struct shell *sh, const char *source, size_t n, const char *text);
/* The value of an expression without '$'. False: it holds what is not known. */
bool arithmetic(struct shell *sh, const char *text, int64_t *out);
int expand_arithmetic(struct shell *sh, const char *text, bool *known, int64_t *out);
/* The same for what may change a variable: A = 1, A += 1, A++. An empty text is 1. */
int expand_statement(struct shell *sh, const char *text, bool *known, int64_t *out);

/* --- commands --------------------------------------------------------------------------------- */

enum answer test_words(struct shell *sh, const struct words *w);
int test_double(struct shell *sh, const struct word *w, enum answer *out);
enum flow run_text(struct shell *sh, const struct script_text *t);
/* Programs and commands of the shell that are no function. */
enum flow run_command(struct shell *sh, const struct node *n, const struct words *w);
/* Whether the words start the training program; 1: *sh->out has it. */
enum flow find_launch(struct shell *sh, const struct words *w);

#endif

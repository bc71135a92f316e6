/*
 * opt_impl.h - what the files of the option parser share
 *
 * opt.c reads words, optforeign.c knows what to make of other programs' options, opterror.c
 * collects what is wrong.
 */
#ifndef BASE_OPT_IMPL_H
#define BASE_OPT_IMPL_H

#include "lib/base/opt.h"

/* An option without effect or of another program, as it was given. */
struct opt_met {
	const struct opt_foreign *row;  /* NULL: a row of the table that changes nothing */
	const char *to;                 /* the options that an alias stands for */
	const char *name, *why, *value; /* why NULL: a note of its own, or none */
	const char *same; /* the option whose value it must have, to be seen at the end; or NULL */
	int place;
};

/* '_' equals '-', and with fold upper case equals lower case. */
bool opt_same_name(const char *a, const char *b, bool fold);
/* False for what a value cannot be: two dashes and more, or the letter of an option. */
bool opt_is_value(const struct opt_parse *p, const char *word);
/* The number of words before the next option. */
int opt_values(int count, char *const *word);
/* A finite number, with '_' between digits as Python has it. */
bool opt_read_number(const char *text, double *out);
/* Applies one option with its values; returns the number of words used. */
int opt_apply(
    struct opt_parse *p, const struct opt *o, const char *inline_value, int count, char **word);

/* An error of the row o, or of no row (NULL). */
void opt_fail(struct opt_parse *p, const struct opt *o, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* No table has the name: an error with what is near. */
void opt_unknown(struct opt_parse *p, const char *name);
/* A refused option, reported together with others of its reason. */
void opt_refuse(struct opt_parse *p, const struct opt_foreign *f);

void opt_meet(struct opt_parse *p, const struct opt_met *m);
/* Appends "--a, --b (why), --c (why)" of what was met from this number on, without what was told
 * before. */
void opt_list_met(const struct opt_parse *p, int from, struct str *out);
/* The same as opt_apply for an option of another program. */
int opt_foreign_apply(struct opt_parse *p, const struct opt_foreign *f, const char *inline_value,
    int count, char **word);
/* Once all words are read: values that must equal others, and the notes. */
void opt_foreign_end(struct opt_parse *p);

/* Appends the text of a row, without a full stop. */
void opt_text_of(const struct opt *o, struct str *out);
/* Appends sentences: range, other programs' words for values, default and needs. */
void opt_facts(const struct opt *o, struct str *out);

#endif

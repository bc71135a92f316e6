/*
 * tree.h - a script in the subset of the shell that is read, as a tree
 *
 * Words keep their quotes and expansions. Commands of a list are linked by next, and join says how
 * one follows the command before it.
 */
#ifndef SCRIPT_TREE_H
#define SCRIPT_TREE_H

#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <stdbool.h>

enum node_kind {
	NODE_SIMPLE,   /* assign, word */
	NODE_TEST,     /* word: between [[ and ]] */
	NODE_ARITH,    /* name: between (( and )) */
	NODE_IF,       /* test, body, other */
	NODE_WHILE,    /* test, body; negated: until */
	NODE_FOR,      /* name, word, body */
	NODE_COUNT,    /* word: first, test and step of for ((...)); body */
	NODE_CASE,     /* word: one; arm */
	NODE_GROUP,    /* body */
	NODE_SUBSHELL, /* body */
	NODE_FUNCTION, /* name, body */
};

enum node_join { JOIN_NEXT, JOIN_AND, JOIN_OR, JOIN_PIPE };

struct word {
	const char *text;
	struct word *next;
};

struct assign {
	const char *name, *subscript; /* subscript: NULL, or the text between [ and ] */
	const char *value;            /* of no array */
	bool append, array;
	struct word *element;
	struct assign *next;
};

struct arm {
	struct word *pattern;
	struct node *body;
	struct arm *next;
};

struct node {
	enum node_kind kind;
	enum node_join join;
	bool negated;
	long line;
	const char *name;
	struct assign *assign;
	struct word *word;
	struct node *test, *body, *other;
	struct arm *arm;
	struct node *next;
};

/* A text of a script, for messages: the line of its first character is first. */
struct script_text {
	const char *name, *text;
	long first;
};

/* The first command in *out, NULL for none. -1: what is outside the subset, with its line. */
int script_parse(
    struct mem_pool *pool, const struct script_text *t, struct node **out, struct err *e);

#endif

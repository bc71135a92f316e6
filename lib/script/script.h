/*
 * script.h - what a launch script of Megatron-LM starts, found by reading it
 *
 * No command of the script is run. A part of the POSIX shell and of bash is read: words and quotes,
 * variables, arrays, the common expansions, arithmetic, if, case, for and while, functions, sourced
 * files, texts for eval and `sh -c`. The first command that starts a training program (launch.c) is
 * the launch; its words are the options. What only a run can know, the output of a program or a
 * variable that the script does not set, stays visible as <$(date +%s)>.
 *
 * A YAML file with a mapping MODEL_ARGS, as the functional tests of Megatron-LM have, is read by
 * the same call.
 */
#ifndef SCRIPT_SCRIPT_H
#define SCRIPT_SCRIPT_H

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct script_request {
	const char *name;  /* of the script, for messages and $0 */
	const char **word; /* after it: arguments of the script, and NAME=VALUE that fill holes */
	int words;
	bool follow; /* files that it sources are read; else nothing but the text is */
};

struct script {
	const char **option; /* the words after the program */
	int options;
	const char *program; /* as the script names it */
	long line;           /* of the launch */
	const char *world;   /* number of ranks: digits, or text with holes */
	const char *world_from;
	struct str notes; /* a line each: what was taken where two ways were open, what was not
			   * read */
	struct mem_pool pool, pool_of_shell; /* own all strings */
	/* of the batch system's lines in the script; 0: not said */
	int64_t nodes, tasks, tasks_per_node, gpus_per_node;
};

/* Reads a text. -1 with "name:line: why". Allowed either way: script_release. */
int script_read_text(
    struct script *s, const struct script_request *r, const char *text, struct err *e);
/* Reads the file of that name. */
int script_read(struct script *s, const struct script_request *r, struct err *e);
void script_release(struct script *s);
/* Appends a value as people see it: holes between '<' and '>'. */
void script_show(struct str *out, const char *value);
/* True when some of the value is known to a run alone. */
bool script_has_hole(const char *value);
/* Appends the names of variables in the holes of a value, each once in *names: " A B". */
void script_names(struct str *names, const char *value);

#endif

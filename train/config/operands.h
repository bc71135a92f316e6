/*
 * operands.h - the words of a command line with --explain: its options, and the script with its own
 */
#ifndef TRAIN_CONFIG_OPERANDS_H
#define TRAIN_CONFIG_OPERANDS_H

#include "lib/base/mem.h"

#include <stdbool.h>

struct operands {
	char **option; /* the options of --explain, in their order */
	int own;       /* how many these are */
	char **word;   /* the script and all words that are its own, or options after "--" */
	int count;
};

/* Whether the words before "--" ask for --explain, which alone takes operands. */
bool operands_explain(int argc, char **argv);
/* Options after the script are the script's unless --explain has them too; all words after "--"
 * are. The arrays belong to the pool, the words stay those of argv. */
void operands_split(struct mem_pool *pool, int argc, char **argv, struct operands *out);

#endif

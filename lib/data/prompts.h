/*
 * prompts.h - prompts as JSON Lines
 *
 * A line is an object with "prompt", a string, or "input_ids", a list of token ids, and perhaps
 * "id", a string or a whole number, "max_tokens" and "seed". Another member, which may be a
 * misspelt one, is an error of its line.
 */
#ifndef DATA_PROMPTS_H
#define DATA_PROMPTS_H

#include "lib/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prompt {
	const char *id;   /* as JSON; the number of the prompt, from 0, where the line has none */
	const char *text; /* of len bytes, UTF-8; NULL: the prompt is its ids */
	size_t len;
	const int64_t *ids; /* not looked at but for being whole numbers */
	size_t num_ids;
	int64_t max_tokens; /* 0: the line does not say */
	int64_t seed;       /* -1: the line does not say */
	int64_t line;       /* its number, from 1 */
	const char *wrong;  /* what is wrong with the line; NULL: nothing */
};

struct prompts {
	struct prompt *item;
	int64_t count;
	struct mem_pool pool; /* holds all that they point to */
};

/* A prompt for each line that is not blank; released by prompts_release. */
void prompts_parse(struct prompts *p, const char *text, size_t len);
void prompts_release(struct prompts *p);

#endif

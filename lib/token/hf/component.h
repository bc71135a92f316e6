/*
 * component.h - a component of a tokenizer.json: null, one step, or a Sequence of components
 *
 * Normalizer, pre-tokenizer, post-processor and decoder have this form. The kinds of steps are rows
 * of a table of the component's; an unknown kind is refused by name.
 */
#ifndef TOKEN_HF_COMPONENT_H
#define TOKEN_HF_COMPONENT_H

#include "lib/base/err.h"
#include "lib/base/json.h"

#include <stddef.h>

/* A bound for hostile files: published components have up to some tens of steps. */
enum { COMPONENT_STEPS = 128 };

struct component {
	/* its member in the file, and the member of a Sequence with the parts */
	const char *name, *list;
	int max_steps;
	const void *kinds; /* rows whose first member is their name, a const char * */
	size_t kind_bytes, num_kinds;
	/* One step of the kind whose row is given; owner is component_parse's. */
	int (*step)(void *owner, const void *kind, const struct json_value *v, struct err *e);
};

/* Adds the steps of v, which may be NULL or null, in order and at any depth: -1 with the component
 * and the step in the message when one fails, is of an unknown kind, or exceeds the limit. */
int component_parse(
    const struct component *c, void *owner, const struct json_value *v, struct err *e);

/* Members of a step: a string, and a string of exactly one character. *text is for the caller to
 * free(). */
int component_string(
    const struct json_value *v, const char *key, char **text, size_t *len, struct err *e);
int component_character(
    const struct json_value *v, const char *key, char **text, size_t *len, struct err *e);

#endif

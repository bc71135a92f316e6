/*
 * keys.h - members of a config.json as rows: how a field of the model is named, read and written
 *
 * A row is read and written by its type. The family's code handles what a row cannot express, such
 * as a rule between two members.
 */
#ifndef MODEL_KEYS_H
#define MODEL_KEYS_H

#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/model/config.h"

#include <stddef.h>

/* A KEY_COUNT is an integer from 1 to 2^30, or null for 0, and a KEY_BOUND a number above 0, or
 * null for 0; there def is for an absent member alone. A KEY_NOT is true where its field is false.
 */
enum key_type { KEY_INT, KEY_COUNT, KEY_NUMBER, KEY_BOUND, KEY_BOOL, KEY_NOT, KEY_WORD, KEY_FIXED };

/* A word and the value of the field that it stands for. */
struct key_word {
	const char *word;
	int value;
};

struct key {
	const char *name;
	enum key_type type;
	size_t off; /* in struct model_config; unused by KEY_FIXED */
	/* what an absent member or null means: a number, a value derived from earlier keys, or that
	 * the field stays as it is; for KEY_FIXED the only legal value */
	double def;
	int64_t (*derive)(const struct model_config *c);
	/* what null means, where that is something else; NULL: the same */
	int64_t (*null)(const struct model_config *c);
	bool stays;
	/* ended by NULL; the first is the default, and the first with a value is the one written */
	const struct key_word *words;
	const char *why; /* ends the message about any other word or fixed value */
	bool written_only, read_only;
};

#define KEY_OFF(f) offsetof(struct model_config, f)

/* Reads the members that the rows name into c, in that order; an error names the member. */
int keys_read(const struct key *keys, int count, const struct json_value *from,
    struct model_config *c, struct err *e);
/* An integer of these, which may be written with a fraction of 0. */
int keys_int(
    const struct json_value *from, const char *name, int64_t def, int64_t *n, struct err *e);
/* Writes them, each as ",\n" INDENT "\"name\": value". */
void keys_write(const struct key *keys, int count, const struct model_config *c, const char *indent,
    struct str *out);

#endif

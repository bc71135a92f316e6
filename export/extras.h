/*
 * extras.h - the files that belong to a tokenizer.json and lie in its directory
 *
 * Templates of chats, tokens that were added, and the files that the tokenizer was made of go to
 * the export unchanged; of generation_config.json the members do, with the ids of the model. They
 * are read before anything is written.
 */
#ifndef EXPORT_EXTRAS_H
#define EXPORT_EXTRAS_H

#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/model/config.h"

#define GENERATION_CONFIG "generation_config.json"

struct extra_file {
	char *name; /* below the directory */
	struct str bytes;
};

/* Zero-initialise; extras_release. */
struct extras {
	int count;
	struct extra_file *file;
	struct json *generation; /* generation_config.json; NULL: there is none */
};

/* Reads one file of the directory that a tokenizer.json lies in into *out, if it exists: 1 if it
 * does, else 0. */
int extras_read_file(const char *json, const char *name, struct str *out, struct err *e);
int extras_read(struct extras *x, const char *json, struct err *e);
/* Adds a file of a directory, if it exists and there is none of this name yet. */
int extras_take(struct extras *x, const char *dir, const char *name, struct err *e);
/* Writes the files, generation_config.json excepted. */
int extras_write(const struct extras *x, const char *dir, struct err *e);
/* The text of generation_config.json: that of the directory, where the ids that the model has take
 * the place of others; without one the ids alone. notes names those that were others. */
void extras_generation(
    const struct extras *x, const struct model_config *c, struct str *out, struct str *notes);
void extras_release(struct extras *x);

#endif

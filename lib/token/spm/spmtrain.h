/*
 * spmtrain.h - libsentencepiece's trainer as a C function
 *
 * Lengths are passed everywhere, so texts may hold NULs. Messages of the library are reduced to
 * their reason.
 */
#ifndef TOKEN_SPM_SPMTRAIN_H
#define TOKEN_SPM_SPMTRAIN_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* Settings carry spm_train's names ("vocab_size") and values as text. */
struct spm_setting {
	const char *name, *value;
};

struct spm_training {
	const struct spm_setting *setting;
	int num_settings;
	bool verbose; /* the library's log goes to standard error */
	/* Gives the next sentence, borrowed until the next call: 1, 0 at the end, -1 to stop
	 * (reason in e). */
	int (*next)(void *ctx, const char **text, size_t *len, struct err *e);
	void *ctx;
};

/* Appends the trained model to *model. */
int spm_train(const struct spm_training *t, struct str *model, struct err *e);

#endif

/*
 * spm.h - libsentencepiece behind a C interface
 *
 * Lengths are passed everywhere, so texts may hold NULs. A loaded model is read-only and shared by
 * threads; a struct spm_buffer is one thread's scratch. Messages of the library are cut down to
 * their reason.
 */
#ifndef TOKEN_SPM_H
#define TOKEN_SPM_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/token/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spm;
struct spm_buffer;

struct spm *spm_load(const void *model, size_t len, struct err *e);     /* the bytes are copied */
void    spm_free(struct spm *m);
int     spm_size(const struct spm *m);
int     spm_special(const struct spm *m, enum tokenizer_special which); /* -1: the model has none */
struct tokenizer_piece spm_piece(const struct spm *m, int id);          /* 0 <= id < size */

struct spm_buffer *spm_buffer_new(void);
void    spm_buffer_free(struct spm_buffer *b);
int spm_encode(
    const struct spm *m, struct spm_buffer *b, const char *text, size_t len, struct token_ids *out);
void spm_decode(
    const struct spm *m, struct spm_buffer *b, const uint32_t *ids, size_t count, struct str *out);

/* Training. Settings carry spm_train's names ("vocab_size") and values as text. */
struct spm_setting {
	const char *name, *value;
};

struct spm_training {
	const struct spm_setting *setting;
	int num_settings;
	bool verbose;                   /* the library's log goes to standard error */
	/* Gives the next sentence, borrowed until the next call: 1, 0 at the end, -1 to stop
	 * (reason in e). */
	int (*next)(void *ctx, const char **text, size_t *len, struct err *e);
	void *ctx;
};

/* Appends the trained model to *model. */
int     spm_train(const struct spm_training *t, struct str *model, struct err *e);

#endif

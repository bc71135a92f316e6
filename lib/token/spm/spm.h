/*
 * spm.h - SentencePiece models: text to ids as libsentencepiece does it, and back
 *
 * All four kinds of model: unigram, BPE, word, char. Ids are those of libsentencepiece 0.1.97 for
 * every text, and with the newer rule of ties those of 0.2.3, with one exception: for a word, or a
 * character of a BPE or char model, that is spelled like a control piece, the library fails; here
 * it is unknown. A loaded model is read-only and shared by threads; a struct spm_worker is one
 * thread's scratch. Lengths are passed everywhere, so texts may hold NULs.
 */
#ifndef TOKEN_SPM_SPM_H
#define TOKEN_SPM_SPM_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/token/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

struct spm;
struct spm_worker;

/* Takes ownership of the bytes, even on failure; name is for messages. */
struct spm *spm_new(
    char *bytes, size_t len, enum unigram_ties ties, const char *name, struct err *e);
void spm_free(struct spm *m);
int spm_size(const struct spm *m);
bool spm_is_unigram(const struct spm *m);                           /* ties matter */
int spm_special(const struct spm *m, enum tokenizer_special which); /* -1: the model has none */
struct tokenizer_piece spm_piece(const struct spm *m, int id);      /* 0 <= id < size */

struct spm_worker *spm_worker_new(const struct spm *m);
void spm_worker_free(struct spm_worker *w);

/*
 * Appends the ids of len bytes. Between texts the worker keeps a 4 MB cache of units; memory for a
 * long text is freed after it. During the call, a text that can be cut (blanks, punctuation) needs
 * some 100 kB besides its ids; one that cannot needs about 20 bytes per character in unigram models
 * and 40 in BPE models.
 */
int spm_encode(const struct spm *m, struct spm_worker *w, const char *text, size_t len,
    struct token_ids *out, struct err *e);

/* The same of text that is normalised already, with nothing put before it; it may have blanks. -1:
 * it is not UTF-8. */
int spm_encode_exact(const struct spm *m, struct spm_worker *w, const char *text, size_t len,
    struct token_ids *out, struct err *e);

/* Appends the text of ids, all below the size. */
void spm_decode(const struct spm *m, const uint32_t *ids, size_t count, struct str *out);

#endif

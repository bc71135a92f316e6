/*
 * form.h - the normal forms of Unicode (UAX 15), by the tables of huggingface/tokenizers
 *
 * Text is nearly always in normal form already, so the main work is to verify that quickly.
 */
#ifndef TOKEN_HF_FORM_H
#define TOKEN_HF_FORM_H

#include "lib/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum form_kind { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD, FORM_KINDS };

struct form; /* read-only, shared by threads */

struct form_scratch { /* zero-initialise */
	uint32_t *cp; /* with their classes */
	uint64_t *sort;
	size_t cap, sort_cap;
};

struct form *form_new(enum form_kind kind);
void form_free(struct form *f); /* NULL is fine */
void form_scratch_release(struct form_scratch *x);

/* Appends the normal form of n bytes of well-formed UTF-8 and returns true; or appends nothing and
 * returns false when the text is in that form already. */
bool form_apply(
    const struct form *f, struct form_scratch *x, const char *s, size_t n, struct str *out);
/* The leading bytes of that form that come from the first `first` bytes of the text, a whole number
 * of characters, by the offsets that the reference keeps. */
size_t form_first(
    const struct form *f, struct form_scratch *x, const char *s, size_t n, size_t first);

#endif

/* unicode_forms.h - decompositions, compositions and classes of marks, as huggingface/tokenizers
 * has them */
#ifndef TOKEN_UNICODE_FORMS_H
#define TOKEN_UNICODE_FORMS_H

#include <stdbool.h>
#include <stdint.h>

enum {
	FORMS_CODE_POINTS = 0x30000, /* all code points above are unchanged in every form */
	FORMS_PARTS = 32,            /* the longest decomposition has 18: U+FDFA */
};

/* The combining class: 0 for characters that are not marks; cp may be any number. */
unsigned unicode_mark_class(uint32_t cp);

/* Writes the full decomposition, of compatibility if compat; returns its length, 1 for an unchanged
 * code point. */
int unicode_decompose(uint32_t cp, bool compat, uint32_t out[FORMS_PARTS]);

/* The composition of two code points, or 0. */
uint32_t unicode_compose(uint32_t a, uint32_t b);

/* Sets the bits of all code points that have a class or a decomposition of either kind. */
void unicode_mark_special(unsigned char bits[FORMS_CODE_POINTS / 8]);

#endif

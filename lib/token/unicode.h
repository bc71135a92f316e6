/* unicode.h - the classes of code points that pre-tokenizers tell apart */
#ifndef TOKEN_UNICODE_H
#define TOKEN_UNICODE_H

#include <stddef.h>
#include <stdint.h>

enum { UNICODE_CODE_POINTS = 0x110000 };

/* UPPER is Lu and Lt, LOWER Ll, LETTER the letters without case (Lm, Lo); SPACE is the property
 * White_Space. */
enum unicode_class {
	CLASS_OTHER,
	CLASS_UPPER,
	CLASS_LOWER,
	CLASS_LETTER,
	CLASS_MARK,
	CLASS_NUMBER,
	CLASS_SPACE,
	UNICODE_CLASSES
};

/* The class of a code point, by binary search; any number may be asked for. */
enum unicode_class unicode_class(uint32_t cp);

/* table[cp] becomes the class of cp; table must be zeroed. */
void unicode_spread(unsigned char table[UNICODE_CODE_POINTS]);

#endif

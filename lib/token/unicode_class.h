/* unicode_class.h - the classes of code points that pre-tokenizers distinguish */
#ifndef TOKEN_UNICODE_CLASS_H
#define TOKEN_UNICODE_CLASS_H

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

#endif

/* pretok_impl.h - shared by the two files of the pre-tokenizer */
#ifndef TOKEN_PRETOK_IMPL_H
#define TOKEN_PRETOK_IMPL_H

#include "lib/token/pretok.h"
#include "lib/token/unicode.h"

#include <stdbool.h>

/* A line end is white space that some rules treat separately. */
enum { CLASS_NEWLINE = UNICODE_CLASSES, NUM_CLASSES };

/* Sets of classes are masks. */
#define BIT(class) (1u << (class))
#define WHITES (BIT(CLASS_SPACE) | BIT(CLASS_NEWLINE))
/* o200k's capitals and small letters. */
#define UPPERS (BIT(CLASS_UPPER) | BIT(CLASS_LETTER) | BIT(CLASS_MARK))
#define LOWERS (BIT(CLASS_LOWER) | BIT(CLASS_LETTER) | BIT(CLASS_MARK))

enum pretok_contraction { CONTRACTION_NONE, CONTRACTION_LOWER, CONTRACTION_ANY };

struct pretok_rules {
	enum pretok_contraction contraction;
	unsigned letters; /* classes of a word */
	unsigned others;  /* neither letter, number nor white space; derived */
	size_t digits;    /* most numbers in a piece */
	bool newlines;    /* the newer form: words with prefixes, separate line ends */
	bool cased;       /* o200k's words */
	bool tail;        /* white space up to the end of the text is one piece */
};

struct pretok {
	unsigned char class[UNICODE_CODE_POINTS];
	struct pretok_rules rules;
};

#endif

/*
 * lr_list.h - the registries of learning-rate styles, of the tails of WSD, and of the styles of
 * weight decay
 *
 * To add one, write its function (lr.h) in lib/model/lr/NAME.c, a file of each name, and add its
 * line here. Its word is what options, options.conf and state.conf hold: it never changes, has no
 * blanks and is not a number. The order of lines is that of --help alone.
 */
#ifndef MODEL_LR_LIST_H
#define MODEL_LR_LIST_H

/* A style's name and word, and whether it is more than a curve from --lr to --min-lr (lr.h). */
#define LR_STYLES(DO) \
	DO(constant, "constant", LR_ENDLESS) \
	DO(linear, "linear", 0) \
	DO(cosine, "cosine", 0) \
	DO(inverse_square_root, "inverse-square-root", 0) \
	DO(wsd, "WSD", LR_HAS_TAIL)

/* The curves of the tail of WSD. */
#define LR_TAILS(DO) \
	DO(exponential, "exponential") \
	DO(linear, "linear") \
	DO(cosine, "cosine") \
	DO(minus_sqrt, "minus_sqrt")

/* How weight decay grows over a run, and whether it does. */
#define WD_STYLES(DO) \
	DO(constant, "constant", WD_STEADY) \
	DO(linear, "linear", 0) \
	DO(cosine, "cosine", 0)

#endif

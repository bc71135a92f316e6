/*
 * normalize.h - the normalizer of a tokenizer.json: steps that change the text before it is cut
 *
 * Kinds of steps are rows of a table; an unknown kind is refused by name.
 */
#ifndef TOKEN_HF_NORMALIZE_H
#define TOKEN_HF_NORMALIZE_H

#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/token/hf/form.h"
#include "lib/token/regex.h"

#include <stdbool.h>
#include <stddef.h>

/* A part of a text that is on its way to the model. */
struct span {
	const char *s; /* borrowed */
	size_t n;
	/* Leading bytes that come from the first character of the whole text, by the offsets that
	 * the reference keeps; 0 also where no step asks for them. */
	size_t first;
};

struct normal_step;

struct normalizer { /* read-only, shared by threads; zero-initialise */
	struct normal_step *step;
	int count;
	struct form *form[FORM_KINDS]; /* the forms that steps use */
};

struct normal_scratch {     /* of one thread; zero-initialise */
	struct str text[2]; /* input and output of a step, alternating */
	size_t limit;       /* most bytes that a step may output */
	bool inserted;      /* a step put something before the first character */
	bool origin;        /* the text is the beginning of the whole one, and a step asks */
	struct form_scratch form;
	struct regex_scratch *regex; /* lent by the owner */
};

/* From the member "normalizer", which may be NULL or null. normalizer_release in every case. */
int normalizer_parse(struct normalizer *z, const struct json_value *v, struct err *e);
void normalizer_release(struct normalizer *z);
void normal_scratch_release(struct normal_scratch *x);
/* Frees what only a long text needed, after its normal form was used. */
void normal_scratch_trim(struct normal_scratch *x);

/* Changes *text, well-formed UTF-8, to its normalised form, in the scratch, or the text itself if
 * unchanged. Fails when a regular expression reaches its limit, and when the steps make the text
 * many times longer. */
int normalizer_run(
    const struct normalizer *z, struct normal_scratch *x, struct span *text, struct err *e);

/* A pattern as normalizers, pre-tokenizers and decoders write it: {"String": s} or {"Regex": s}. */
struct regex *pattern_parse(const struct json_value *v, struct err *e);

#endif

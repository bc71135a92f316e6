/*
 * retold.h - the tensors of a model with other options, or with its tables tied or untied, as a
 * source (derived.h)
 */
#ifndef CKPT_RETOLD_H
#define CKPT_RETOLD_H

#include "ckpt/derived.h"

/* What becomes of the tables of the vocabulary. To untie writes the output table as a copy of the
 * embedding; to tie keeps one of the two, or their mean, and with TIE_EQUAL they must be equal. */
enum tie { TIE_NONE, TIE_EQUAL, TIE_EMBEDDING, TIE_OUTPUT, TIE_MEAN, TIE_UNTIE };

struct retold_rule {
	const char *lines; /* of options that replace the model's */
	enum tie tie;
};

/* derived_job.rule is a struct retold_rule. States of a table that was another are 0, and all else
 * is kept. */
extern const struct derived_kind derived_retold;

#endif

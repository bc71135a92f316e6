/*
 * layout_text.h - the layout in the options that a checkpoint records, and in words
 */
#ifndef MODEL_LAYOUT_TEXT_H
#define MODEL_LAYOUT_TEXT_H

#include "lib/model/split.h"

/* An option file, readable by mtrain --config, with these sizes and this split, as it is typed, in
 * place of its own. */
void layout_replace(
    const char *text, const struct layout *l, const struct split_options *split, struct str *out);
/* For opt_parse.unknown: options that are not of a layout are passed over. A size that has no row,
 * by its name, is of a newer version, and can only be 1. */
int layout_unknown(const char *name, const char *value, struct err *e);
/* "tensor 2, pipeline 4, data 1", with the context ranks where there are several. */
void layout_words(const struct layout *l, struct str *out);

#endif

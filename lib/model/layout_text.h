/*
 * layout_text.h - the layout in the options that a checkpoint records, and in words
 */
#ifndef MODEL_LAYOUT_TEXT_H
#define MODEL_LAYOUT_TEXT_H

#include "lib/model/split.h"

/* Appends an option file for mtrain --config in which these sizes and this split replace the file's
 * own. */
void layout_replace(
    const char *text, const struct layout *l, const struct split_options *split, struct str *out);
/* For opt_parse.unknown: options that do not belong to a layout are ignored. An option whose name
 * says that it is a size but that has no row comes from a newer version, and may only be 1. */
int layout_unknown(const char *name, const char *value, struct err *e);
/* "tensor 2, pipeline 4, data 1", with the context ranks and those that share the experts of a
 * layer where there are several, and those that share each expert where they are not the tensor
 * ranks. */
void layout_words(const struct layout *l, struct str *out);

#endif

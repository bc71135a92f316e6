/* symbols.h - the functions of a library that is opened at run time */
#ifndef TRAIN_CUDA_SYMBOLS_H
#define TRAIN_CUDA_SYMBOLS_H

#include <stddef.h>

/* A function and its place, by offsetof, in a struct of pointers; the last row has no name. */
struct symbol {
	const char *name;
	size_t at;
};

/* Fills the struct from a library that dlopen returned. Returns NULL, or the name of the first
 * function that the library does not have. */
const char *symbols_find(void *library, const struct symbol *rows, void *table);

#endif

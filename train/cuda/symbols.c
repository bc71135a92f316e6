/* symbols.c - functions of a library by their names */
#include "train/cuda/symbols.h"

#include <dlfcn.h>
#include <string.h>

/* ISO C has no cast from an object pointer to a function pointer; POSIX gives both one
 * representation. */
_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "pointers of one size");

const char *
symbols_find(void *library, const struct symbol *rows, void *table)
{
	for (const struct symbol *s = rows; s->name; s++) {
		void *function = dlsym(library, s->name);

		if (!function)
			return s->name;
		memcpy((char *)table + s->at, &function, sizeof function);
	}
	return NULL;
}

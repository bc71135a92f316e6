/*
 * uses.c - the operations by their numbers
 */
#include "train/uses.h"

#include <stddef.h>
#include <string.h>

#define ROW(name, type) { #name, offsetof(struct ops, name) },

static const struct {
	const char *name;
	size_t place;
} row[] = { OPS(ROW, ROW) };

const char *
ops_lack(const struct ops *have, const enum op_number *uses)
{
	for (; uses && *uses != OP_END; uses++) {
		void (*call)(void);

		memcpy(&call, (const char *)have + row[*uses].place, sizeof call);
		if (!call)
			return row[*uses].name;
	}
	return NULL;
}

/*
 * uses.c - operations and calls by their numbers
 */
#include "train/uses.h"

#include <string.h>

/* offset: in the table of operations, or in that of calls. */
static const struct {
	const char *name;
	size_t offset;
} row[] = {
#define OPERATION(name, type) [OP_##name] = { #name, offsetof(struct ops, name) },
#include "train/ops_list.h"
#define CALL(name, type) [CALL_##name] = { #name, offsetof(struct comm_ops, name) },
#include "train/comm_list.h"
};

/* Memory of the host is train/mpi's, whose table is complete. */
static bool
has(const struct backend *b, enum use use)
{
	const char *table = use > USES_CALLS ? (const char *)b->comm_ops : (const char *)b->ops;
	void (*call)(void);

	if (!table)
		return true;
	memcpy(&call, table + row[use].offset, sizeof call);
	return call;
}

int
uses_check(const enum use *uses, const struct backend *b, const char *who, struct err *e)
{
	for (; uses && *uses != USES_END; uses++)
		if (!has(b, *uses))
			return err_set(e, "%s: %s '%s' is not built for %s", who,
			    *uses > USES_CALLS ? "collective" : "operation", row[*uses].name,
			    b->name);
	return 0;
}

/* oplog.h - the log of the shim, read */
#ifndef FAULTS_OPLOG_H
#define FAULTS_OPLOG_H

#include "lib/base/err.h"
#include "tests/faults/call.h"

#include <stddef.h>

/* A call that was made; call.h says what its argument is. Strings and bytes belong to the log. */
struct oplog_record {
	int rank;
	enum call call;
	long long argument;
	const char *path, *path2, *bytes;
	size_t len;
};

struct oplog {
	char *text;
	struct oplog_record *record;
	int count;
};

/* -1 with a reason when the file cannot be read or is not such a log. */
int oplog_read(struct oplog *l, const char *path, struct err *e);
void oplog_release(struct oplog *l);

#endif

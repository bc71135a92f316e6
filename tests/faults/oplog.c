/* oplog.c - the log of the shim, read: lines are cut in place */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "tests/faults/oplog.h"

#include <stdio.h>
#include <stdlib.h>

/* Cuts a line off at *at. NULL at the end of the text. */
static char *
next_line(char **at, const char *end)
{
	char *line = *at, *newline = memchr(line, '\n', (size_t)(end - line));

	if (!newline)
		return NULL;
	*newline = '\0';
	*at = newline + 1;
	return line;
}

/* The number of calls that have the name, or CALL_COUNT. */
static enum call
call_named(const char *name)
{
	enum call c = 0;

	while (c < CALL_COUNT && strcmp(call_names[c], name))
		c++;
	return c;
}

/* False when the log is cut off or something else. */
static bool
read_record(struct oplog_record *r, char **at, const char *end)
{
	char call[16], *head = next_line(at, end);

	if (!head || sscanf(head, "%d %15s %lld %zu", &r->rank, call, &r->argument, &r->len) != 4)
		return false;
	r->call = call_named(call);
	r->path = next_line(at, end);
	r->path2 = r->path ? next_line(at, end) : NULL;
	if (!r->path2 || r->call == CALL_COUNT || r->len > (size_t)(end - *at))
		return false;
	r->bytes = *at;
	*at += r->len;
	return true;
}

int
oplog_read(struct oplog *l, const char *path, struct err *e)
{
	size_t len;
	char *at;

	*l = (struct oplog){ 0 };
	if (io_read_file(path, 0, &l->text, &len, e) < 0)
		return -1;
	for (at = l->text; at < l->text + len; l->count++) {
		if (!(l->count & (l->count - 1)))
			l->record = mem_realloc(
			    l->record, (size_t)(l->count ? 2 * l->count : 1), sizeof *l->record);
		if (!read_record(&l->record[l->count], &at, l->text + len)) {
			oplog_release(l);
			return err_set(
			    e, "%s: record %d is not a record of the shim", path, l->count);
		}
	}
	return 0;
}

void
oplog_release(struct oplog *l)
{
	free(l->text);
	free(l->record);
	l->text = NULL;
	l->record = NULL;
}

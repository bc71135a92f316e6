/*
 * errors.c - the list of bad lines that were skipped
 *
 * Written as it goes, since there may be as many bad lines as lines; it appears whole at the end,
 * as the datasets do.
 */
#include "tok/errors.h"

#include <string.h>

/* A file of no bytes has only its header, so that a script can tell "none" from "not looked". */
int
errors_open(struct outfile *o, const char *path, bool resume, int64_t keep, struct err *e)
{
	if ((resume ? outfile_resume(o, path, keep, e) : outfile_open(o, path, e)) < 0)
		return -1;
	if (!keep)
		fputs("file\tline\toffset\tclass\treason\n", o->f);
	return 0;
}

/* A text as one column. */
static void
put_column(const char *s, FILE *f)
{
	for (; *s; s++)
		putc((unsigned char)*s < 0x20 || *s == 0x7f ? '?' : *s, f);
}

/* One row; the columns are those of the header. */
void
errors_add(struct outfile *o, const struct error_row *row)
{
	put_column(row->file, o->f);
	fprintf(o->f, "\t%lld\t%lld\t%s\t", (long long)row->line, (long long)row->offset,
	    jsonl_class_name[row->class]);
	put_column(row->why, o->f);
	putc('\n', o->f);
}

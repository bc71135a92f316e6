/*
 * errors.c - the list of bad lines that were skipped
 *
 * Written during the run, since every line may be bad; it appears whole at the end, as the datasets
 * do.
 */
#include "tok/errors.h"

#include <string.h>

/* Without a bad line the file has only its header, so that a script can tell "none" from "not
 * looked for". */
int
errors_open(struct outfile *o, const char *path, bool resume, int64_t keep, struct err *e)
{
	if ((resume ? outfile_resume(o, path, keep, e) : outfile_open(o, path, e)) < 0)
		return -1;
	if (!keep)
		fputs("file\tline\toffset\tclass\treason\n", o->f);
	return 0;
}

/* Writes a text as one column. */
static void
put_column(const char *s, FILE *f)
{
	for (; *s; s++)
		putc((unsigned char)*s < 0x20 || *s == 0x7f ? '?' : *s, f);
}

/* Writes one row, with the columns of the header. */
void
errors_add(struct outfile *o, const struct error_row *row)
{
	put_column(row->file, o->f);
	fprintf(o->f, "\t%lld\t%lld\t%s\t", (long long)row->line, (long long)row->offset,
	    jsonl_class_name[row->class]);
	put_column(row->why, o->f);
	putc('\n', o->f);
}

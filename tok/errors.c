/*
 * errors.c - the list of bad lines that were skipped
 *
 * Written during the run, since every line may be bad; it appears whole at the end, as the datasets
 * do.
 */
#include "lib/base/outfile.h"
#include "lib/base/target.h"
#include "tok/errors.h"

#include <string.h>

static const char header[] = "file\tline\toffset\tclass\treason\n";

/* Without a bad line the file has only its header, so that a script can tell "none" from "not
 * looked for". */
int
errors_open(struct outfile *o, const char *path, const struct error_start *from, struct err *e)
{
	int rc = from->resume
	    ? outfile_resume(o, path, from->keep, lock_taken_over(from->lock), from->lock, e)
	    : outfile_open(o, path, e);

	o->lock = from->lock;
	if (rc == 0 && !from->keep)
		fputs(header, o->f);
	return rc;
}

int
errors_check_target(const char *path, bool replace, struct err *e)
{
	static const struct target_kind list = { "a list of bad lines", header, sizeof header - 1 };

	return target_check_kind(path, &list, replace, e);
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

const char *
errors_advice(enum jsonl_class class, bool plain, const char *line)
{
	if (plain)
		return class == JSONL_REFUSED
		    ? "; read as plain text: --format jsonl is for JSON Lines"
		    : "";
	return (class == JSONL_SYNTAX || class == JSONL_NOT_OBJECT) && *line != '{'
	    ? "; --format text is for plain text"
	    : "";
}

/*
 * files.h - which files, and which part of them, a run reads
 *
 * The rule of --part I/N: all files are laid end to end in their order, as stored, and cut into N
 * stretches of equal size. A line of a plain file belongs to the stretch in which its first byte
 * lies; a compressed file cannot be cut and belongs whole to the stretch in which its own first
 * byte lies, as does a file of text whose documents are not lines. So every line belongs to one
 * part, and the parts in their order are the whole.
 */
#ifndef TOK_FILES_H
#define TOK_FILES_H

#include "lib/base/mem.h"
#include "lib/base/opt.h"
#include "tok/input.h"

/* How the documents of a file are written; auto is by its name: text for .txt and .md, with .gz or
 * .zst after it or not, else JSON Lines. */
enum files_format { FORMAT_AUTO, FORMAT_JSONL, FORMAT_TEXT };
extern const char *const files_format_names[]; /* for options; ended by NULL */
/* Names of enum document_by, without the last, which an option of its own gives. */
extern const char *const files_document_by_names[];

/* I/N, both from 1; 0/0: everything. */
struct part_spec {
	int64_t index, count;
};

int part_parse(const char *text, struct part_spec *p, struct err *e);

/* The names of a list file (one a line, or ended by NULs as find -print0 writes them), "-" is
 * standard input. They are added after those in *names; the pool owns the memory. */
int files_from(const char *list, struct opt_list *names, struct mem_pool *pool, struct err *e);

/* What is asked for. */
struct files_request {
	const struct opt_list *names; /* files, patterns and directories */
	struct part_spec part;
	enum files_format format;
	enum document_by document_by; /* of text */
	const char *separator;        /* of documents of text; NULL: none */
};

/* Examines the files and takes the part's share. A directory stands for the files in it and in its
 * directories, sorted by their names' bytes; names that begin with a dot are left out. Without any
 * name, standard input is the only file. Files that a part does not need are left out. The pool
 * owns the items. */
int files_open(
    const struct files_request *r, struct input_list *out, struct mem_pool *pool, struct err *e);

#endif

/*
 * files.c - which files, and which part of them, a run reads
 *
 * Only sizes, and the first bytes of files that a cut goes through, decide; so every job of an
 * array computes its own share, and all agree as long as the files are the same.
 */
#include "lib/base/io.h"
#include "tok/files.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_MAX = 1 << 28, PARTS_MAX = 1000000, DEPTH_MAX = 64 };

const char *const files_format_names[] = { "auto", "jsonl", "text", NULL };
const char *const files_document_by_names[] = { "file", "blank-line", "line", NULL };

/* "3/8": the third of eight. */
int
part_parse(const char *text, struct part_spec *p, struct err *e)
{
	char *end = NULL;

	*p = (struct part_spec){ 0, 0 };
	if (!text)
		return 0;
	errno = 0;
	p->index = strtoll(text, &end, 10);
	if (end != text && *end == '/') {
		const char *count = end + 1;

		p->count = strtoll(count, &end, 10);
		if (end != count && *end == '\0' && !errno && p->count >= 1 &&
		    p->count <= PARTS_MAX && p->index >= 1 && p->index <= p->count)
			return 0;
	}
	return err_set(
	    e, "--part %s: must be I/N with I from 1 to N and N at most %d", text, PARTS_MAX);
}

/* Reads all of a file, which may be a pipe. */
static int
read_list(const char *path, struct str *out, struct err *e)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
	char buf[65536];
	size_t n;
	int rc = 0;

	if (!f)
		return err_sys(e, "open", path);
	while ((n = fread(buf, 1, sizeof buf, f)) > 0 && out->len < LIST_MAX)
		str_add(out, buf, n);
	if (ferror(f))
		rc = err_sys(e, "read", path);
	else if (out->len >= LIST_MAX)
		rc = err_set(
		    e, "%s: a list of file names of more than %d MiB", path, LIST_MAX >> 20);
	if (f != stdin)
		fclose(f);
	return rc;
}

/* Blank lines are ignored. A list without any name is an error: reading standard input instead
 * would be a surprise. */
int
files_from(const char *list, struct opt_list *names, struct mem_pool *pool, struct err *e)
{
	struct str text = { 0 };
	const char **all;
	int count = names->count, room = names->count + 1;
	char separator;

	if (read_list(list, &text, e) < 0) {
		str_release(&text);
		return -1;
	}
	separator = text.len && memchr(text.buf, '\0', text.len) ? '\0' : '\n';
	for (size_t i = 0; i < text.len; i++)
		room += text.buf[i] == separator;
	all = mem_pool_alloc(pool, (size_t)room + 1, sizeof *all);
	if (names->count)
		memcpy(all, names->item, (size_t)names->count * sizeof *all);
	for (size_t i = 0, n; i < text.len; i += n + 1) {
		const char *end = memchr(text.buf + i, separator, text.len - i);

		n = end ? (size_t)(end - (text.buf + i)) : text.len - i;
		if (n - (n && text.buf[i + n - 1] == '\r') > 0)
			all[count++] =
			    mem_pool_strndup(pool, text.buf + i, n - (text.buf[i + n - 1] == '\r'));
	}
	str_release(&text);
	if (count == names->count)
		return err_set(e, "%s: no file names", list);
	names->item = all;
	names->count = count;
	return 0;
}

/* total * i / count, rounded down, without overflow of 64 bits. */
static int64_t
part_begin(int64_t total, struct part_spec part, int64_t i)
{
	return total / part.count * i + total % part.count * i / part.count;
}

/* Finds the part of a file that lies in [begin, end) when its bytes begin at `at`, all counted over
 * all files. 1 when the file is needed, 0 when not, -1. */
static int
take_share(struct input_file *f, int64_t at, int64_t begin, int64_t end, struct err *e)
{
	int whole;

	if (at >= end || at + f->size <= begin || f->size == 0)
		return 0;
	if (at >= begin && at + f->size <= end)
		return 1;
	whole = f->lines ? input_is_compressed(f->name, e) : 1;
	if (whole < 0)
		return -1;
	if (whole)
		return at >= begin;
	f->begin = begin > at ? begin - at : 0;
	f->end = end < at + f->size ? end - at : -1;
	return 1;
}

/* Keeps the files of the part, each with its range. */
static int
take_part(struct input_list *files, struct part_spec part, struct err *e)
{
	int64_t total = 0, at = 0, begin, end;
	int kept = 0;

	for (int i = 0; i < files->count; i++) {
		if (files->item[i].size < 0)
			return err_set(e, "--part: '%s' has no size; only files can be shared out",
			    files->item[i].name);
		total += files->item[i].size;
	}
	begin = part_begin(total, part, part.index - 1);
	end = part_begin(total, part, part.index);
	for (int i = 0; i < files->count; i++) {
		int64_t size = files->item[i].size;
		int rc = take_share(&files->item[i], at, begin, end, e);

		if (rc < 0)
			return -1;
		if (rc)
			files->item[kept++] = files->item[i];
		at += size;
	}
	files->count = kept;
	return 0;
}

/* True for a name that is a pattern and no file: a quoted one, which preprocess_data.py expands. */
static bool
is_pattern(const char *name)
{
	return strpbrk(name, "*?[") && !io_exists(name);
}

/* A list that grows; the names are the pool's or borrowed. */
struct names {
	struct input_file *item;
	size_t count, cap;
	struct mem_pool *pool;
};

static void
add_name(struct names *n, const char *name)
{
	if (n->count == n->cap) {
		n->cap = 2 * n->cap + 8;
		n->item = mem_realloc(n->item, n->cap, sizeof *n->item);
	}
	n->item[n->count++] = (struct input_file){ .name = name };
}

static int
by_bytes(const void *a, const void *b)
{
	return strcmp(((const struct input_file *)a)->name, ((const struct input_file *)b)->name);
}

/* Appends the paths of what is in a directory, sorted. */
static int
list_directory(struct names *n, const char *name, struct err *e)
{
	size_t first = n->count;
	const struct dirent *entry;
	DIR *d = opendir(name);

	if (!d)
		return err_sys(e, "read", name);
	while ((entry = readdir(d)) != NULL) {
		struct str path = { 0 };

		if (entry->d_name[0] == '.')
			continue;
		str_addf(
		    &path, "%s%s%s", name, name[strlen(name) - 1] == '/' ? "" : "/", entry->d_name);
		add_name(n, mem_pool_strndup(n->pool, path.buf, path.len));
		str_release(&path);
	}
	closedir(d);
	if (n->count > first)
		qsort(n->item + first, n->count - first, sizeof *n->item, by_bytes);
	return 0;
}

/* Appends a name, or the files below it when it is a directory. A link to a directory may lead in
 * circles, which the depth ends. */
static int
add_path(struct names *n, const char *name, int depth, struct err *e)
{
	struct names in = { .pool = n->pool };
	int rc = 0;

	if (!io_is_dir(name)) {
		add_name(n, name);
		return 0;
	}
	if (depth > DEPTH_MAX)
		return err_set(e, "'%s': more than %d directories in one another", name, DEPTH_MAX);
	rc = list_directory(&in, name, e);
	for (size_t i = 0; i < in.count && rc == 0; i++)
		rc = add_path(n, in.item[i].name, depth + 1, e);
	free(in.item);
	return rc;
}

/* The files of a pattern in their order; or the name itself, which is then reported as a file that
 * cannot be opened. */
static int
add_names(struct names *n, const char *name, struct err *e)
{
	size_t before = n->count;
	glob_t found;
	int rc = 0;

	if (is_pattern(name) && glob(name, 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc && rc == 0; i++) {
			const char *one = found.gl_pathv[i];

			rc = add_path(n, mem_pool_strndup(n->pool, one, strlen(one)), 0, e);
		}
		globfree(&found);
	} else {
		rc = add_path(n, name, 0, e);
	}
	if (rc == 0 && n->count == before)
		rc = err_set(e, "'%s': a directory without files", name);
	return rc;
}

/* What the name says of a file's format. */
static bool
is_text(const char *name)
{
	static const char *const packed[] = { ".gz", ".zst", "" },
				 *const text[] = { ".txt", ".md" };
	size_t len = strlen(name);

	for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
		for (size_t k = 0; k < sizeof text / sizeof *text; k++) {
			size_t p = strlen(packed[i]), t = strlen(text[k]);

			if (len > p + t && !strcmp(name + len - p, packed[i]) &&
			    !strncmp(name + len - p - t, text[k], t))
				return true;
		}
	return false;
}

/* Decides which files are text, and how their documents end. */
static int
settle_text(const struct files_request *r, struct input_list *files, struct err *e)
{
	bool text = false;

	files->ends = (struct ends){ .by = r->separator ? BY_SEPARATOR : r->document_by,
		.separator = r->separator };
	for (int i = 0; i < files->count; i++) {
		struct input_file *f = &files->item[i];

		f->text =
		    r->format == FORMAT_TEXT || (r->format == FORMAT_AUTO && is_text(f->name));
		f->lines = !f->text || files->ends.by == BY_LINE;
		text |= f->text;
	}
	if (r->separator && r->document_by != BY_FILE)
		return err_set(e,
		    "--document-separator and --document-by %s exclude each other: a separator "
		    "cuts files",
		    files_document_by_names[r->document_by]);
	if (files->ends.by != BY_FILE && !text)
		return err_set(e,
		    "--document-%s: none of the files is plain text: give --format "
		    "text",
		    r->separator ? "separator" : "by");
	return 0;
}

/* Every file is examined before any is read. */
int
files_open(
    const struct files_request *r, struct input_list *out, struct mem_pool *pool, struct err *e)
{
	struct names all = { .pool = pool };
	int rc = 0;

	for (int i = 0; i < r->names->count && rc == 0; i++)
		rc = add_names(&all, r->names->item[i], e);
	if (!r->names->count)
		add_name(&all, "-");
	out->item = mem_pool_alloc(pool, all.count + 1, sizeof *out->item);
	if (all.count)
		memcpy(out->item, all.item, all.count * sizeof *out->item);
	out->count = (int)all.count;
	free(all.item);
	if (rc < 0 || input_examine(out, e) < 0 || settle_text(r, out, e) < 0)
		return -1;
	return r->part.count ? take_part(out, r->part, e) : 0;
}

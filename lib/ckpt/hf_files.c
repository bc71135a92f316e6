/* hf_files.c - the files of a Hugging Face directory beside its weights and config.json */
#include "lib/ckpt/hf_files.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = { HF_FILES };

/* The further templates of chats are a file each in a directory of their own. */
static const char templates[] = CHAT_TEMPLATES "/", template[] = ".jinja";

static const size_t file_max = (size_t)1 << 30;

bool
hf_files_is_template(const char *name)
{
	size_t n = strlen(name), end = sizeof template - 1;

	return *name != '.' && n > end && !strcmp(name + n - end, template);
}

bool
hf_files_is(const char *name)
{
	size_t n = sizeof templates - 1;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(name, names[i]))
			return true;
	return !strncmp(name, templates, n) && !strchr(name + n, '/') &&
	    hf_files_is_template(name + n);
}

static void
add(struct hf_files *f, const char *parent, const char *name)
{
	struct str path = { 0 };

	str_addf(&path, "%s%s", parent, name);
	f->name = mem_realloc(f->name, (size_t)f->count + 1, sizeof *f->name);
	f->name[f->count++] = path.buf;
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted, since a directory has them in any order. */
static int
list_templates(struct hf_files *f, const char *dir, struct err *e)
{
	struct str path = { 0 };
	int before = f->count, rc;
	struct dirent *entry;
	DIR *d;

	str_addf(&path, "%s/%s", dir, templates);
	d = opendir(path.buf);
	rc = d || errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, "open directory", path.buf);
	while (d && (entry = readdir(d)))
		if (hf_files_is_template(entry->d_name))
			add(f, templates, entry->d_name);
	if (f->count > before)
		qsort(
		    f->name + before, (size_t)(f->count - before), sizeof *f->name, compare_names);
	if (d)
		closedir(d);
	str_release(&path);
	return rc;
}

int
hf_files_list(struct hf_files *f, const char *dir, struct err *e)
{
	int there = 0;

	for (size_t i = 0; there >= 0 && i < sizeof names / sizeof *names; i++) {
		struct str path = { 0 };

		str_addf(&path, "%s/%s", dir, names[i]);
		there = io_there(path.buf, e);
		if (there > 0)
			add(f, "", names[i]);
		str_release(&path);
	}
	return there < 0 ? -1 : list_templates(f, dir, e);
}

void
hf_files_release(struct hf_files *f)
{
	for (int i = 0; i < f->count; i++)
		free(f->name[i]);
	free(f->name);
	*f = (struct hf_files){ 0 };
}

int
hf_files_sum(const char *path, uint64_t *sum, struct err *e)
{
	char *text;
	size_t len;

	if (io_read_regular(path, file_max, &text, &len, e) < 0)
		return -1;
	*sum = hash_xxh3(text, len);
	free(text);
	return 0;
}

/* A line of each file. */
static int
record(const struct hf_files *f, const char *dir, struct str *state, struct err *e)
{
	int rc = 0;

	str_addf(state, "origin %s\norigin_files %d\n", dir, f->count);
	for (int i = 0; rc == 0 && i < f->count; i++) {
		struct str path = { 0 };
		uint64_t sum;
		char text[17];

		str_addf(&path, "%s/%s", dir, f->name[i]);
		rc = hf_files_sum(path.buf, &sum, e);
		if (rc == 0)
			str_addf(
			    state, "origin_file_%d %s %s\n", i, hash_text(sum, text), f->name[i]);
		str_release(&path);
	}
	return rc;
}

/* A line of the state ends where a name has a line break, so such a directory has no record. */
int
hf_files_record(const char *dir, struct str *state, struct err *e)
{
	char *path = realpath(dir, NULL);
	struct hf_files f = { 0 };
	struct str lines = { 0 };
	int rc = path ? hf_files_list(&f, path, e) : err_sys(e, "find", dir);

	for (int i = 0; rc == 0 && i < f.count; i++)
		if (strpbrk(f.name[i], "\r\n"))
			rc = err_at(e, path, 0, "a name in %s has a line break", templates);
	if (rc == 0 && strpbrk(path, "\r\n"))
		rc = err_set(e, "'%s' has a line break in its name", path);
	if (rc == 0 && f.count)
		rc = record(&f, path, &lines, e);
	if (rc == 0)
		str_add(state, lines.buf, lines.len);
	str_release(&lines);
	hf_files_release(&f);
	free(path);
	return rc;
}

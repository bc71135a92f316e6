/* meta_dir.c - the weights of a model in the form of Meta and Mistral */
#include "lib/base/hub.h"
#include "lib/base/mem.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/hf_bin.h"
#include "lib/ckpt/meta_dir.h"
#include "lib/ckpt/safetensors.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 1000 };

/* A file of either kind. */
struct meta_file {
	char path[CKPT_PATH_BYTES];
	struct hf_bin *bin;
	struct safetensors *tensors;
};

static const char begin[] = "consolidated", whole[] = "consolidated.safetensors";

bool
meta_dir_is(const char *dir)
{
	return ckpt_has_entry(dir, begin, ".safetensors") || ckpt_has_entry(dir, begin, ".pth");
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of the files that begin and end so, sorted; the caller frees each and the array. */
static char **
list(const char *dir, const char *suffix, int *count)
{
	char **name = mem_zalloc(FILES_MAX, sizeof *name);
	size_t s = strlen(suffix);
	struct dirent *de;
	DIR *d = opendir(dir);
	int n = 0;

	while (d && n < FILES_MAX && (de = readdir(d))) {
		size_t len = strlen(de->d_name);

		if (len >= s + strlen(begin) && !strncmp(de->d_name, begin, strlen(begin)) &&
		    !strcmp(de->d_name + len - s, suffix))
			name[n++] = mem_strndup(de->d_name, len);
	}
	if (d)
		closedir(d);
	qsort(name, (size_t)n, sizeof *name, compare_names);
	*count = n;
	return name;
}

static void
free_names(char **name, int count)
{
	for (int i = 0; i < count; i++)
		free(name[i]);
	free(name);
}

static int
compare_tensors(const void *a, const void *b)
{
	return strcmp(((const struct meta_tensor *)a)->name, ((const struct meta_tensor *)b)->name);
}

static void
take_bin(struct meta_rank *r, const struct hf_bin *b)
{
	r->tensor = mem_zalloc((size_t)hf_bin_count(b) + 1, sizeof *r->tensor);
	for (int i = 0; i < hf_bin_count(b); i++) {
		const struct hf_bin_entry *t = hf_bin_at(b, i);

		r->tensor[r->count++] = (struct meta_tensor){ t->name, t->why, t->tensor };
	}
}

static void
take_safetensors(struct meta_rank *r, const struct safetensors *s)
{
	size_t n = (size_t)(r->count + safetensors_count(s));

	r->tensor = mem_realloc(r->tensor, n + 1, sizeof *r->tensor);
	for (int i = 0; i < safetensors_count(s); i++) {
		const struct safetensors_entry *t = safetensors_at(s, i);
		struct meta_tensor *m = &r->tensor[r->count++];

		*m = (struct meta_tensor){ .name = t->name };
		safetensors_view(t, &m->x);
	}
}

/* Opens the next file. The ranks' files hold parts, those of safetensors whole tensors of one. */
static int
open_file(struct meta_dir *m, const char *dir, const char *name, bool is_bin, struct err *e)
{
	struct meta_file *f = &m->file[m->num_files];

	if (!ckpt_join(f->path, dir, name))
		return err_set(e, "path too long: '%.60s...'", dir);
	if (hub_check_pointer(f->path, e) < 0)
		return -1;
	if (is_bin)
		f->bin = hf_bin_open(f->path, e);
	else
		f->tensors = safetensors_open(f->path, e);
	if (!f->bin && !f->tensors)
		return -1;
	if (is_bin)
		take_bin(&m->rank[m->num_ranks++], f->bin);
	else
		take_safetensors(&m->rank[0], f->tensors);
	m->num_ranks = is_bin ? m->num_ranks : 1;
	m->num_files++;
	return 0;
}

/* Files of ranks are numbered from 0 on. */
static int
check_number(const char *dir, const char *name, int i, struct err *e)
{
	char want[64];

	snprintf(want, sizeof want, "%s.%02d.pth", begin, i);
	return strcmp(name, want)
	    ? err_at(e, dir, 0, "'%s' is missing: '%.200s' is there", want, name)
	    : 0;
}

static int
check_twice(const struct meta_dir *m, const char *dir, struct err *e)
{
	for (int r = 0; r < m->num_ranks; r++)
		for (int i = 1; i < m->rank[r].count; i++)
			if (!strcmp(m->rank[r].tensor[i - 1].name, m->rank[r].tensor[i].name))
				return err_at(e, dir, 0, "tensor '%s' is in two files",
				    m->rank[r].tensor[i].name);
	return 0;
}

int
meta_dir_open(struct meta_dir *m, const char *dir, struct err *e)
{
	bool is_bin = !ckpt_has_entry(dir, begin, ".safetensors");
	int count, rc = 0;
	char **name = list(dir, is_bin ? ".pth" : ".safetensors", &count);

	memset(m, 0, sizeof *m);
	m->file = mem_zalloc((size_t)count + 1, sizeof *m->file);
	m->rank = mem_zalloc((size_t)count + 1, sizeof *m->rank);
	for (int i = 0; i < count && rc == 0; i++) {
		/* one file of all tensors is read alone */
		if (!is_bin && strcmp(name[i], whole) && ckpt_has_entry(dir, whole, ""))
			continue;
		rc = is_bin ? check_number(dir, name[i], i, e) : 0;
		if (rc == 0)
			rc = open_file(m, dir, name[i], is_bin, e);
	}
	for (int r = 0; r < m->num_ranks; r++)
		if (m->rank[r].count)
			qsort(m->rank[r].tensor, (size_t)m->rank[r].count,
			    sizeof *m->rank[r].tensor, compare_tensors);
	free_names(name, count);
	if (rc == 0 && m->num_ranks == 0)
		rc = err_set(e, "'%s' changed while it was opened", dir);
	return rc == 0 ? check_twice(m, dir, e) : rc;
}

void
meta_dir_close(struct meta_dir *m)
{
	for (int r = 0; r < m->num_ranks; r++)
		free(m->rank[r].tensor);
	for (int i = 0; i < m->num_files; i++) {
		hf_bin_close(m->file[i].bin);
		safetensors_close(m->file[i].tensors);
	}
	free(m->file);
	free(m->rank);
	memset(m, 0, sizeof *m);
}

const struct meta_tensor *
meta_dir_find(const struct meta_dir *m, int rank, const char *name)
{
	const struct meta_rank *r = &m->rank[rank];
	const struct meta_tensor key = { .name = name };

	return r->count
	    ? bsearch(&key, r->tensor, (size_t)r->count, sizeof *r->tensor, compare_tensors)
	    : NULL;
}

int
meta_dir_verify(const struct meta_dir *m, struct str *problems)
{
	int n = 0;
	struct err e;

	for (int i = 0; i < m->num_files; i++)
		if (m->file[i].bin && hf_bin_verify(m->file[i].bin, &e) < 0) {
			str_addf(problems, "%s: %s\n", m->file[i].path, e.msg);
			n++;
		}
	return n;
}

/*
 * open.c - opening the datasets that the verbs read, and checking the names of those that they make
 */
#include "lib/base/cli.h"
#include "lib/base/io.h"
#include "lib/base/target.h"
#include "shard/shard.h"

#include <string.h>

enum { STEP = 1 << 27 }; /* bytes copied between two updates of the meter */

/* The caller decides how often it is shown. */
void
shard_tell(struct shard_meter *m, uint64_t bytes)
{
	m->done += bytes;
	if (m->tell)
		m->tell(m->done, m->total);
}

/* The byte of the .bin where a document begins. */
static uint64_t
document_byte(const struct dataset *d, int64_t document)
{
	int64_t token = dataset_sequence_start(d, dataset_document_start(d, document));

	return (uint64_t)token * dtype_size(dataset_dtype(d));
}

/* The range is of documents and may be empty. A step has as many of them as have at most STEP bytes
 * together; at least one. */
int
shard_add_documents(struct dataset_writer *w, const struct dataset *d, const int64_t range[2],
    struct shard_meter *m, struct err *e)
{
	int64_t step = (int64_t)(STEP / dtype_size(dataset_dtype(d))), begin = range[0], end;

	for (; begin < range[1]; begin = end) {
		int64_t token = dataset_sequence_start(d, dataset_document_start(d, begin)) + step;

		end = dataset_document_at(d, dataset_sequence_at(d, token));
		if (end < 0 || end > range[1])
			end = range[1];
		else if (end <= begin)
			end = begin + 1;
		if (dataset_add_documents(w, d, begin, end, e) < 0)
			return -1;
		dataset_forget(d);
		shard_tell(m, document_byte(d, end) - document_byte(d, begin));
	}
	return 0;
}

/* True when a name ends in .bin or .idx. */
static bool
ends_like_a_file(const char *name)
{
	size_t n = strlen(name);

	return n > 4 && (!strcmp(name + n - 4, ".idx") || !strcmp(name + n - 4, ".bin"));
}

/* Shells complete file names, and data/a*.idx names all datasets of a directory. A dataset whose
 * own prefix ends so has an index of that name too. */
char *
shard_prefix(char *name)
{
	struct str idx = { 0 };

	str_addf(&idx, "%s.idx", name);
	if (ends_like_a_file(name) && !io_exists(idx.buf))
		name[strlen(name) - 4] = '\0';
	str_release(&idx);
	return name;
}

/* Files in /dev would be useless, and its names usually mean streams. */
int
shard_check_output(const char *prefix, struct err *e)
{
	const char *device = !strncmp(prefix, "/dev/", 5) ? prefix + 5 : NULL;

	if (!strcmp(prefix, "-") ||
	    (device && (!strchr(device, '/') || !strncmp(device, "fd/", 3))))
		return err_set(e,
		    "--output %s: must be a prefix: a dataset is the files PREFIX.bin and "
		    "PREFIX.idx, not a stream",
		    prefix);
	return ends_like_a_file(prefix)
	    ? err_set(e, "--output %s: must be the prefix without .bin or .idx", prefix)
	    : 0;
}

/* With training's bound on the number of sequences, so that both refuse the same datasets. */
struct dataset *
shard_open(const char *prefix, struct err *e)
{
	return dataset_open_with(
	    prefix, &(struct dataset_options){ .no_mmap_bin = true, .mask = true }, e);
}

const struct lock_terms shard_lock = { .say = cli_note };

bool
shard_same(const char *prefix, const char *other)
{
	struct str a = { 0 }, b = { 0 };
	bool same;

	str_addf(&a, "%s.idx", prefix);
	str_addf(&b, "%s.idx", other);
	same = target_is(a.buf, b.buf);
	str_release(&a);
	str_release(&b);
	return same;
}

/*
 * open.c - the datasets that the verbs read, and the room for those that they make
 */
#include "lib/base/io.h"
#include "shard/shard.h"

/* With the bound on the number of sequences: what training would refuse is refused here. */
struct dataset *
shard_open(const char *prefix, struct err *e)
{
	return dataset_open_with(prefix, &(struct dataset_options){ .no_mmap_bin = true }, e);
}

/* The writer itself replaces files, so this is asked before it starts. */
int
shard_check_target(const char *prefix, struct err *e)
{
	static const char *const suffix[] = { ".idx", ".bin" };
	struct str path = { 0 };
	int rc = 0;

	for (int i = 0; i < 2 && rc == 0; i++) {
		str_clear(&path);
		str_addf(&path, "%s%s", prefix, suffix[i]);
		if (io_exists(path.buf))
			rc = err_at(e, path.buf, 0, "exists already; --force replaces it");
	}
	str_release(&path);
	return rc;
}

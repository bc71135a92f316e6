/* notes.c - fuzz target of a dataset's notes: the bytes are PREFIX.json, then PREFIX.xxh */
#include "lib/base/outfile.h"
#include "shard/shard.h"
#include "tests/fuzz/input.h"

/* Notes that were read are written and read back unchanged. */
static void
use(const char *prefix, const char *path)
{
	struct notes n, again;
	struct str out = { 0 };
	struct err e;

	if (notes_read(prefix, &n, &e) == 1) {
		str_adds(&out, "{");
		notes_add_members(&n, &out);
		str_adds(&out, "\"end\": 1}");
		unlink(path);
		if (outfile_write(path, out.buf, out.len, &e) < 0 ||
		    notes_read(prefix, &again, &e) != 1)
			BUG("notes do not read back: %s", e.msg);
		if (!n.type != !again.type || strcmp(n.hash, again.hash) ||
		    n.eod_id != again.eod_id)
			BUG("notes read back otherwise");
		notes_release(&again);
	}
	notes_release(&n);
	str_release(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char dir[INPUT_DIR], prefix[64], path[80];
	struct checksums sums;
	FILE *f;

	input_dir(dir);
	snprintf(prefix, sizeof prefix, "%s/x", dir);
	snprintf(path, sizeof path, "%s.xxh", prefix);
	f = fopen(path, "wb");
	if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
		abort();
	checksums_read(prefix, &sums, NULL);
	unlink(path);
	snprintf(path, sizeof path, "%s.json", prefix);
	f = fopen(path, "wb");
	if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
		abort();
	use(prefix, path);
	io_remove_tree(dir, NULL);
	return 0;
}

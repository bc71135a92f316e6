/* dataset.c - fuzz target of the .idx reader; input: the size of the .bin in 4 bytes, then the .idx
 */
#include "lib/base/err.h"
#include "lib/data/dataset_repair.h"
#include "tests/fuzz/input.h"
#include "tests/one_corpus.h"

#include <fcntl.h>

/* Calls every accessor of an accepted dataset. */
static void
use(const struct dataset *d)
{
	struct samples_config c = {
		.split = "8,1,1", .num_samples = 3, .seq_length = 4, .add_extra_token = true
	};
	struct samples *s;
	int64_t ids[64];

	for (int64_t i = 0; i < dataset_num_sequences(d); i++)
		dataset_tokens(
		    d, i, 0, dataset_length(d, i) < 64 ? dataset_length(d, i) : 64, ids, NULL);
	for (int64_t i = 0; i < dataset_num_documents(d); i++)
		if (dataset_document_start(d, i) > dataset_document_start(d, i + 1))
			BUG("documents out of order");
	s = samples_open(d, &c, NULL);
	for (int64_t i = 0; s && i < samples_count(s) && i < 8; i++)
		samples_tokens(s, i, ids, NULL);
	samples_close(s);
}

/* Repair must find no fault in an accepted dataset, and at least one in a refused one. */
static void
repair(const char *prefix, bool accepted)
{
	struct str found = { 0 };
	struct dataset_repair *r = dataset_repair_open(prefix, &found, NULL);

	if (accepted != (r && found.len == 0))
		BUG("opening and repair do not agree: %s", found.buf ? found.buf : "nothing found");
	dataset_repair_close(r);
	str_release(&found);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char dir[INPUT_DIR], prefix[64], path[80];
	uint32_t bin_bytes;
	struct dataset *d;
	bool accepted = false;
	int fd;

	if (size < 4)
		return 0;
	input_dir(dir);
	memcpy(&bin_bytes, data, 4);
	snprintf(prefix, sizeof prefix, "%s/x", dir);
	snprintf(path, sizeof path, "%s.bin", prefix);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	if (ftruncate(fd, bin_bytes % (1 << 20)) < 0)
		abort();
	close(fd);
	snprintf(path, sizeof path, "%s.idx", prefix);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	if (io_write_all(fd, data + 4, size - 4) < 0)
		abort();
	close(fd);
	for (int k = 0; k < 2; k++) {
		struct dataset_options o = { .no_mmap_bin = k };

		d = dataset_open_with(prefix, &o, NULL);
		accepted = d != NULL;
		if (d)
			use(d);
		dataset_close(d);
	}
	repair(prefix, accepted);
	io_remove_tree(dir, NULL);
	return 0;
}

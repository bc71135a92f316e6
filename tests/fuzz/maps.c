/* maps.c - fuzz target: any bytes as one of the maps in a cache without a key; the samples must be
 * those of valid maps */
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "tests/fuzz/input.h"
#include "tests/map_keys.h"
#include "tests/one_corpus.h"
#include "tests/one_document.h"

enum { S = 4 };

/* Eight sequences of 1 to 8 tokens. */
static void
write_dataset(const char *prefix)
{
	struct dataset_writer *w = dataset_writer_new(prefix, DTYPE_U16, NULL);
	int64_t ids[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

	for (int i = 1; i <= 8; i++)
		if (!w || add_ids(w, DTYPE_U16, ids, i, NULL) < 0)
			abort();
	if (dataset_commit(w, NULL) < 0)
		abort();
}

/* The first byte chooses the map; the others are its contents. Removes the key. */
static void
replace_map(const char *dir, const char *hash, const uint8_t *data, size_t size)
{
	static const char *const name[] = { "document_index", "sample_index", "shuffle_index" };
	char path[200];

	snprintf(path, sizeof path, "%s/%s-GPTDataset-train-%s.npy", dir, hash, name[data[0] % 3]);
	if (outfile_write(path, data + 1, size - 1, NULL) < 0)
		abort();
	remove_keys(dir);
}

/* Every token of every sample must lie in the dataset: a read outside is a BUG or a crash. */
static void
read_samples(const struct samples *s)
{
	for (int64_t i = 0; i < samples_count(s); i++) {
		int64_t ids[S + 1];

		if (samples_tokens(s, i, ids, NULL) != S + 1)
			__builtin_trap();
		for (int k = 0; k <= S; k++)
			if (ids[k] < 1 || ids[k] > 8)
				__builtin_trap();
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char dir[INPUT_DIR], prefix[64];
	struct samples_config c = { .num_samples = 12,
		.seq_length = S,
		.seed = 3,
		.add_extra_token = true,
		.drop_last_partial = true,
		.cache_dir = dir,
		.write_cache = true };
	struct dataset *d;
	struct samples *s;

	if (size == 0)
		return 0;
	input_dir(dir);
	snprintf(prefix, sizeof prefix, "%s/x", dir);
	write_dataset(prefix);
	d = dataset_open(prefix, NULL);
	s = d ? samples_open(d, &c, NULL) : NULL;
	if (!s)
		abort();
	replace_map(dir, samples_hash(s), data, size);
	samples_close(s);
	c.write_cache = false; /* another sync would take most of the time */
	s = samples_open(d, &c, NULL);
	if (!s)
		abort();
	read_samples(s);
	samples_close(s);
	dataset_close(d);
	io_remove_tree(dir, NULL);
	return 0;
}

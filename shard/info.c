/*
 * info.c - the counts of a dataset
 *
 * The rows are long rather than wide, one item each, so that items can be added without moving a
 * column.
 */
#include "lib/base/str.h"
#include "shard/shard.h"

#include <stdlib.h>
#include <string.h>

enum { BINS = 33 }; /* lengths 0, 1, 2-3, 4-7, ... */

/* The findings of one pass over the index. */
struct summary {
	const struct dataset *d;
	int64_t shortest, longest, empty_documents;
	int64_t sequences[BINS];
	struct notes notes;
	char fingerprint[64];
};

/* The bin of a length: 0, or its number of binary digits. Lengths are 32 bits in the index, so
 * 33 bins hold them. */
static int
bin_of(int64_t length)
{
	return length ? 64 - __builtin_clzll((unsigned long long)length) : 0;
}

/* The shortest length of a bin. */
static int64_t
bin_first(int bin)
{
	return bin ? (int64_t)1 << (bin - 1) : 0;
}

/* The longest length of a bin. */
static int64_t
bin_last(int bin)
{
	return bin ? ((int64_t)1 << bin) - 1 : 0;
}

/* One row of dataset, item and number. */
static void
print_row(FILE *out, const char *prefix, const char *item, int64_t value)
{
	fprintf(out, "%s\t%s\t%lld\n", prefix, item, (long long)value);
}

/* All items as rows; empty bins are left out. */
static void
print_rows(const struct summary *s, FILE *out)
{
	const char *prefix = dataset_prefix(s->d);
	char item[64];

	print_row(out, prefix, "documents", dataset_num_documents(s->d));
	print_row(out, prefix, "empty_documents", s->empty_documents);
	print_row(out, prefix, "sequences", dataset_num_sequences(s->d));
	print_row(out, prefix, "tokens", dataset_num_tokens(s->d));
	fprintf(out, "%s\tdtype\t%s\n", prefix, dtype_torch_name(dataset_dtype(s->d)));
	print_row(out, prefix, "bin_bytes", (int64_t)dataset_bin_bytes(s->d));
	fprintf(out, "%s\tmodes\t%s\n", prefix, dataset_has_modes(s->d) ? "yes" : "no");
	fprintf(out, "%s\tfingerprint\t%s\n", prefix, s->fingerprint);
	if (dataset_mask(s->d))
		fprintf(out, "%s\tmask\t%s\n", prefix, dataset_prefix(dataset_mask(s->d)));
	if (s->notes.type)
		fprintf(out, "%s\ttokenizer\t%s\n%s\ttokenizer_hash\t%s\n", prefix, s->notes.type,
		    prefix, s->notes.hash);
	print_row(out, prefix, "shortest", s->shortest);
	print_row(out, prefix, "longest", s->longest);
	for (int i = 0; i < BINS; i++) {
		if (s->sequences[i] == 0)
			continue;
		snprintf(item, sizeof item, "length %lld-%lld", (long long)bin_first(i),
		    (long long)bin_last(i));
		print_row(out, prefix, item, s->sequences[i]);
	}
}

/* The same items as members of one object. */
static void
print_json(const struct summary *s, FILE *out)
{
	struct str j = { 0 };
	const char *prefix = dataset_prefix(s->d), *comma = "";

	str_adds(&j, "{\"dataset\": ");
	str_add_json(&j, prefix, strlen(prefix));
	str_addf(&j,
	    ", \"documents\": %lld, \"empty_documents\": %lld, \"sequences\": %lld, \"tokens\": "
	    "%lld",
	    (long long)dataset_num_documents(s->d), (long long)s->empty_documents,
	    (long long)dataset_num_sequences(s->d), (long long)dataset_num_tokens(s->d));
	str_addf(&j,
	    ", \"dtype\": \"%s\", \"bin_bytes\": %llu, \"modes\": %s, \"fingerprint\": \"%s\"",
	    dtype_torch_name(dataset_dtype(s->d)), (unsigned long long)dataset_bin_bytes(s->d),
	    dataset_has_modes(s->d) ? "true" : "false", s->fingerprint);
	if (dataset_mask(s->d)) {
		const char *mask = dataset_prefix(dataset_mask(s->d));

		str_adds(&j, ", \"mask\": ");
		str_add_json(&j, mask, strlen(mask));
	}
	if (s->notes.type) {
		str_adds(&j, ", \"tokenizer\": ");
		str_add_json(&j, s->notes.type, strlen(s->notes.type));
		str_addf(&j, ", \"tokenizer_hash\": \"%s\"", s->notes.hash);
	}
	str_addf(&j, ", \"shortest\": %lld, \"longest\": %lld, \"lengths\": [",
	    (long long)s->shortest, (long long)s->longest);
	for (int i = 0; i < BINS; i++) {
		if (s->sequences[i] == 0)
			continue;
		str_addf(&j, "%s{\"from\": %lld, \"to\": %lld, \"sequences\": %lld}", comma,
		    (long long)bin_first(i), (long long)bin_last(i), (long long)s->sequences[i]);
		comma = ", ";
	}
	str_adds(&j, "]}\n");
	str_put(&j, out);
	str_release(&j);
}

/* Reads the index, in one pass, and the notes, not the tokens, and prints nothing before that
 * succeeds. A dataset with too many sequences for training can be inspected. -1 with a reason when
 * it cannot be opened, which checks the index against the sizes of both files. */
int
shard_info(const char *prefix, enum info_form form, FILE *out, struct err *e)
{
	struct dataset_options o = { .no_mmap_bin = true, .any_count = true, .mask = true };
	struct dataset *d = dataset_open_with(prefix, &o, e);
	struct summary s = { .d = d };
	int rc;

	if (!d)
		return -1;
	for (int64_t i = 0; i < dataset_num_sequences(d); i++) {
		int64_t n = dataset_length(d, i);

		s.sequences[bin_of(n)]++;
		if (i == 0 || n < s.shortest)
			s.shortest = n;
		if (n > s.longest)
			s.longest = n;
	}
	for (int64_t i = 0; i < dataset_num_documents(d); i++)
		s.empty_documents +=
		    dataset_document_start(d, i) == dataset_document_start(d, i + 1);
	dataset_fingerprint(d, dataset_index_hash(d), s.fingerprint);
	rc = notes_read(prefix, &s.notes, e) < 0 ? -1 : 0;
	if (rc == 0 && form == INFO_HEAD)
		fputs("dataset\titem\tvalue\n", out);
	if (rc == 0 && form == INFO_JSON)
		print_json(&s, out);
	else if (rc == 0)
		print_rows(&s, out);
	notes_release(&s.notes);
	dataset_close(d);
	return rc;
}

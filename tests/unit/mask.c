/* mask.c - masks beside datasets: writing, copying, opening, the weights of a sample, and what is
 * wrong with one */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/data/dataset_impl.h"
#include "lib/data/notes.h"
#include "lib/data/samples_impl.h"
#include "tests/check.h"

#include <unistd.h>

static struct err e;
static char dir[] = "/tmp/mikoshi-mask-XXXXXX";
static const struct dataset_options with_mask = { .mask = true };

/* A path in the scratch directory; the last two results stay valid. */
static const char *
scratch(const char *name)
{
	static char path[2][256];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
	return path[turn];
}

/* Documents of 3, 1 and 2 tokens, numbered from 10 on. */
static const int32_t lengths[] = { 3, 1, 2 }, ones[] = { 1, 1, 1 };
static const uint16_t tokens[] = { 10, 11, 12, 13, 14, 15 };
static const uint8_t mask[] = { 0, 1, 1, 0, 1, 0 };

/* Writes them, with or without the mask; named: the notes say so. */
static void
write_corpus(const char *name, bool masked, bool named)
{
	struct dataset_batch b = { .tokens = tokens,
		.lengths = lengths,
		.per_document = ones,
		.sequences = 3,
		.documents = 3,
		.mask = mask };
	struct dataset_writer *w = dataset_writer_new(scratch(name), DTYPE_U16, &e);
	struct notes_origin made = { .made_by = "test" };
	struct notes n;

	notes_init(&n);
	CHECK(w && (!masked || dataset_writer_add_mask(w, NULL, &e) == 0));
	CHECK(dataset_add_batch(w, &b, &e) == 0);
	if (named)
		notes_describe(w, &n, &made);
	CHECK(dataset_commit(w, &e) == 0);
}

/* A dataset of bytes by itself. */
static void
write_bytes(const char *name, enum dtype t, const int32_t *len, int count, const void *bytes)
{
	struct dataset_batch b = { .tokens = bytes,
		.lengths = len,
		.per_document = ones,
		.sequences = count,
		.documents = count };
	struct dataset_writer *w = dataset_writer_new(scratch(name), t, &e);

	CHECK(w && dataset_add_batch(w, &b, &e) == 0 && dataset_commit(w, &e) == 0);
}

static void
test_weights(void)
{
	struct dataset *d;
	uint8_t out[6];

	write_corpus("a", true, true);
	d = dataset_open(scratch("a"), &e);
	CHECK(d && !dataset_mask(d) && dataset_weights(d, 0, 1, 2, out, &e) == 0);
	CHECK(out[0] == 1 && out[1] == 1);
	dataset_close(d);
	for (int map = 0; map < 2; map++) {
		struct dataset_options o = { .no_mmap_bin = map, .mask = true };

		d = dataset_open_with(scratch("a"), &o, &e);
		CHECK(d && dataset_mask(d) && dataset_mask_named(d));
		CHECK(dataset_weights(d, 0, 0, 3, out, &e) == 0 && !memcmp(out, mask, 3));
		CHECK(dataset_weights(d, 2, 0, 2, out, &e) == 0 && !memcmp(out, mask + 4, 2));
		dataset_close(d);
	}
	write_corpus("plain", false, true);
	d = dataset_open_with(scratch("plain"), &with_mask, &e);
	CHECK(d && !dataset_mask(d));
	dataset_close(d);
}

/* Documents with and without a mask become one dataset; what replaces it without one takes the mask
 * away. */
static void
test_copy(void)
{
	static const uint8_t both[] = { 0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1 };
	const char *from[] = { "a", "plain" };
	struct dataset_writer *w = dataset_writer_new(scratch("both"), DTYPE_I32, &e);
	struct dataset *d;
	uint8_t out[3];
	int64_t at = 0;

	CHECK(w && dataset_writer_add_mask(w, NULL, &e) == 0);
	CHECK_STR(dataset_writer_mask_name(w), "both_mask");
	for (int i = 0; i < 2; i++) {
		d = dataset_open_with(scratch(from[i]), &with_mask, &e);
		CHECK(d && dataset_add_documents(w, d, 0, 3, &e) == 0);
		dataset_close(d);
	}
	CHECK(dataset_commit(w, &e) == 0);
	d = dataset_open_with(scratch("both"), &with_mask, &e);
	CHECK(d && !dataset_mask_named(d) && dataset_num_sequences(dataset_mask(d)) == 6);
	for (int64_t s = 0; s < 6; s++) {
		int64_t n = dataset_length(d, s);

		CHECK(dataset_weights(d, s, 0, n, out, &e) == 0);
		CHECK(!memcmp(out, both + at, (size_t)n));
		at += n;
	}
	dataset_close(d);
	CHECK(dataset_check_target(scratch("both"), true, &e) == 0);
	CHECK(dataset_check_target(scratch("both"), false, &e) < 0);
	write_corpus("both", false, false);
	CHECK(!io_exists(scratch("both_mask.idx")) && !io_exists(scratch("both_mask.bin")) &&
	    !io_exists(scratch("both_mask.sum")));
	/* Another dataset under the name of a mask is not replaced. */
	write_bytes("both_mask", DTYPE_U16, lengths, 3, tokens);
	CHECK(dataset_check_target(scratch("both"), true, &e) < 0);
	CHECK(strstr(e.msg, "both_mask.bin' has no index of a mask beside it: it is not replaced"));
}

/* A writer that another one continues, after what it had synced, gives the same mask. */
static void
test_resume(void)
{
	struct dataset_batch b = { .tokens = tokens,
		.lengths = lengths,
		.per_document = ones,
		.sequences = 3,
		.documents = 3,
		.mask = mask };
	struct lock_terms how = { 0 };
	struct lock *lock = dataset_claim(scratch("r"), &how, &e);
	struct dataset_mark mark;
	struct dataset_writer *w = dataset_writer_resume(scratch("r"), DTYPE_U16, NULL, lock, &e);
	char *a, *r;
	size_t bytes, again;

	CHECK(w && dataset_writer_add_mask(w, lock, &e) == 0);
	b.sequences = b.documents = 1;
	CHECK(dataset_add_batch(w, &b, &e) == 0 && dataset_sync(w, &mark, &e) == 0);
	b.sequences = b.documents = 2; /* lost */
	CHECK(dataset_add_batch(w, &b, &e) == 0);
	dataset_abort(w);
	CHECK(io_exists(scratch("r_mask.bin.part")));
	w = dataset_writer_resume(scratch("r"), DTYPE_U16, &mark, lock, &e);
	CHECK(w && dataset_writer_add_mask(w, lock, &e) == 0);
	b.tokens = tokens + 3;
	b.mask = mask + 3;
	b.lengths = lengths + 1;
	CHECK(dataset_add_batch(w, &b, &e) == 0 && dataset_commit(w, &e) == 0);
	CHECK(io_read_file(scratch("a_mask.bin"), 99, &a, &bytes, &e) == 0);
	CHECK(io_read_file(scratch("r_mask.bin"), 99, &r, &again, &e) == 0);
	CHECK(bytes == again && !memcmp(a, r, bytes));
	free(a);
	free(r);
	CHECK(dataset_drop_parts(scratch("r"), NULL, &e) == 0);
	CHECK(!io_exists(scratch("r_mask.bin.part")) && !io_exists(scratch("r_mask.lengths.part")));
	lock_release(lock);
}

static void
refused(const char *name, const char *why)
{
	CHECK(!dataset_open_with(scratch(name), &with_mask, &e));
	if (!strstr(e.msg, why))
		fprintf(stderr, "%s\n", e.msg);
	CHECK(strstr(e.msg, why) != NULL);
}

static void
test_wrong(void)
{
	static const int32_t other[] = { 3, 2, 1 };
	static const uint8_t odd[] = { 0, 1, 1, 0, 3, 0 };
	struct dataset *d;

	write_corpus("n", true, true);
	unlink(scratch("n_mask.idx"));
	refused("n", "n: its mask, which ");
	refused("n", "n.json names: cannot open '");
	unlink(scratch("n_mask.bin"));
	write_bytes("n_mask", DTYPE_U8, lengths, 2, mask);
	refused("n", "n_mask.idx: a mask of 2 sequences, but ");
	write_bytes("n_mask", DTYPE_U8, other, 3, mask);
	refused("n", "n_mask.idx: sequence 1 has 2 bytes of a mask, but 1 tokens in ");
	write_bytes("n_mask", DTYPE_U16, lengths, 3, tokens);
	refused("n", "n_mask.idx: a mask has tokens of uint8, not of uint16");
	write_bytes("n_mask", DTYPE_U8, lengths, 3, odd);
	d = dataset_open_with(scratch("n"), &with_mask, &e);
	CHECK(d && dataset_mask_values(dataset_mask(d), odd, 0, 4, &e) == 0);
	CHECK(dataset_mask_values(dataset_mask(d), odd, 0, 6, &e) < 0);
	CHECK(strstr(e.msg, "token 0 of sequence 2 has the value 3: a mask has only 0 and 1"));
	dataset_close(d);
	CHECK(outfile_write(scratch("n.json"), "{\"mask\": \"../x\"}", 16, &e) == 0);
	refused("n", "n.json: the mask '../x' is not a name in the same directory");
}

/* The mask belongs to a token where it is the label, not where it is read. */
static void
test_sample(void)
{
	static const int64_t ids[] = { 10, 11, 12, 13, 14 };
	static const uint8_t counted[] = { 1, 0, 1, 0, 1 };
	static const float want[] = { 0, 1, 0, 1, 0, 0 };
	struct sample_options o = { .eod = -1, .pad = -1, .add_extra_token = true };
	int32_t in[6], labels[6], positions[6];
	float loss[6];
	struct sample s = { in, labels, positions, loss, NULL };

	sample_assemble(&o, &(struct sample_tokens){ ids, 5, counted }, 6, &s);
	CHECK(!memcmp(loss, want, sizeof want));
	o.eod_mask_loss = true;
	o.eod = 13;
	sample_assemble(&o, &(struct sample_tokens){ ids, 5, counted }, 6, &s);
	CHECK(loss[1] == 1 && loss[3] == 0);
	sample_assemble(&o, &(struct sample_tokens){ ids, 5, NULL }, 6, &s);
	CHECK(loss[0] == 1 && loss[2] == 1 && loss[3] == 0 && loss[4] == 0);
}

/* The bytes of a sample come in the order of its tokens. */
static void
test_samples(void)
{
	struct dataset *d = dataset_open_with(scratch("a"), &with_mask, &e);
	struct samples_config c = { .which = SPLIT_TRAIN,
		.num_samples = 2,
		.seq_length = 3,
		.seed = 5,
		.add_extra_token = true,
		.drop_last_partial = true };
	struct samples *s = d ? samples_plan(d, &c, &e) : NULL;

	CHECK(s && samples_fill(s, &c, NULL, &e) == 0);
	for (int64_t i = 0; s && i < samples_count(s); i++) {
		int64_t id[4], n = samples_tokens(s, i, id, &e);
		uint8_t m[4];

		CHECK(n == 4 && samples_weights(s, i, m, &e) == 4);
		for (int k = 0; k < 4; k++)
			CHECK(m[k] == mask[id[k] - 10]);
	}
	samples_close(s);
	dataset_close(d);
}

int
main(void)
{
	if (!mkdtemp(dir))
		return 1;
	test_weights();
	test_copy();
	test_resume();
	test_wrong();
	test_sample();
	test_samples();
	io_remove_tree(dir, &e);
	return check_done();
}

/* dataset.c - the .bin/.idx reader against valid and damaged files, and the writer against the
 * reader */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/data/dataset_impl.h"
#include "lib/data/notes.h"
#include "tests/check.h"
#include "tests/one_document.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static struct err e;
static char dir[] = "/tmp/mikoshi-dataset-XXXXXX";

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

/* The reason for refusing each pair of tests/golden/data/malformed; NULL: it is valid. */
static const struct {
	const char *name, *reason;
} malformed[] = {
	{ "ok", NULL },
	{ "trailing_modes", NULL },
	{ "magic", "magic.idx: not a dataset index: it does not begin with MMIDIDX" },
	{ "tntidx", "tntidx.idx: the obsolete TNTIDX layout; only MMIDIDX is read" },
	{ "version", "version.idx: version 2; only version 1 is known" },
	{ "dtype9", "dtype9.idx: unknown token type code 9" },
	{ "dtype_float", "dtype_float.idx: token type code 6 is float64; tokens are integers" },
	{ "header_short", "header_short.idx: the file ends inside its header: 20 bytes of 34" },
	{ "empty", "empty.idx: not a dataset index: it does not begin with MMIDIDX" },
	{ "arrays_short",
	    "arrays_short.idx: the file ends inside its arrays: "
	    "5 sequences and 4 document boundaries do not fit 119 bytes" },
	{ "lengths_short",
	    "lengths_short.idx: the file ends inside its arrays: "
	    "5 sequences and 4 document boundaries do not fit 40 bytes" },
	{ "count_huge",
	    "count_huge.idx: the file ends inside its arrays: "
	    "2305843009213693952 sequences and 4 document boundaries do not fit 126 bytes" },
	{ "doc_zero", "doc_zero.idx: the document index is empty; it must hold at least its 0" },
	{ "len_negative", "len_negative.idx: sequence 0 has the negative length -3" },
	{ "pointer_wrong",
	    "pointer_wrong.idx: sequence 1 starts at byte 2, but the lengths before it add up to "
	    "10" },
	{ "pointer_neg",
	    "pointer_neg.idx: sequence 1 starts at byte -8, but the lengths before it add up to "
	    "10" },
	{ "doc_last", "doc_last.idx: the document index ends with 4, not with the 5 sequences" },
	{ "doc_order", "doc_order.idx: the document index decreases from 4 to 2 at entry 2" },
	{ "doc_first", "doc_first.idx: the document index begins with 1, not 0" },
	{ "bin_short",
	    "bin_short.bin: 58 bytes, but the index requires 62 (31 tokens of uint16): it is "
	    "truncated, or belongs to another dataset" },
	{ "bin_long",
	    "bin_long.bin: 64 bytes, but the index requires 62 (31 tokens of uint16): it continues "
	    "after the last sequence, or belongs to another dataset" },
	{ "bin_odd",
	    "bin_odd.bin: 63 bytes, but the index requires 62 (31 tokens of uint16): it continues "
	    "after the last sequence, or belongs to another dataset" },
	{ "bin_empty",
	    "bin_empty.bin: 0 bytes, but the index requires 62 (31 tokens of uint16): it is "
	    "truncated, or belongs to another dataset" },
	{ "trailing_junk", "trailing_junk.idx: 3 bytes follow the arrays; only 5 modes could" },
};

static void
test_malformed(void)
{
	int rows = (int)(sizeof malformed / sizeof *malformed), files = 0;
	DIR *d = opendir("tests/golden/data/malformed");
	struct dirent *de;

	while (d && (de = readdir(d)))
		files += strstr(de->d_name, ".idx") != NULL;
	if (d)
		closedir(d);
	CHECK(files == rows);
	for (int i = 0; i < rows; i++) {
		char prefix[256];
		struct dataset *ds;

		snprintf(
		    prefix, sizeof prefix, "tests/golden/data/malformed/%s", malformed[i].name);
		e.msg[0] = '\0';
		ds = dataset_open(prefix, &e);
		CHECK((ds != NULL) == !malformed[i].reason);
		if (malformed[i].reason)
			CHECK_STR(e.msg + (strlen(e.msg) > 28 ? 28 : 0), malformed[i].reason);
		else
			CHECK(ds &&
			    dataset_has_modes(ds) == !strcmp(malformed[i].name, "trailing_modes"));
		dataset_close(ds);
	}
}

static void
test_accessors(void)
{
	struct dataset *d = dataset_open("tests/golden/data/malformed/ok", &e);
	int64_t t[8], n;
	const void *bin;
	char print[64];

	CHECK(d && dataset_num_sequences(d) == 5 && dataset_num_documents(d) == 3 &&
	    dataset_num_tokens(d) == 31);
	if (!d)
		return;
	CHECK(dataset_dtype(d) == DTYPE_U16 && dataset_length(d, 2) == 7 &&
	    dataset_document_start(d, 3) == 5);
	CHECK_STR(dataset_prefix(d), "tests/golden/data/malformed/ok");
	CHECK(dataset_bin_bytes(d) == 62);
	bin = dataset_bytes(d, 0, 62, NULL, &e);
	CHECK(bin != NULL);
	n = dataset_length(d, 3);
	CHECK(dataset_tokens(d, 3, 0, n, t, &e) == 0);
	for (int64_t i = 0; i < n; i++) {
		uint16_t v;

		memcpy(&v, (const char *)bin + 2 * (5 + 6 + 7 + i), 2);
		CHECK(t[i] == v);
	}
	dataset_fingerprint(d, dataset_index_hash(d), print);
	CHECK(strlen(print) == 19 && !strcmp(print + 16, "-62"));
	dataset_close(d);
	CHECK(dataset_dtype_for(65499) == DTYPE_U16 && dataset_dtype_for(65500) == DTYPE_I32);
	CHECK(!dataset_open("no/such", &e));
	CHECK_STR(e.msg, "cannot open 'no/such.idx': No such file or directory");
}

static void
check_same_file(const char *a, const char *b)
{
	char *x = NULL, *y = NULL;
	size_t n = 0, m = 0;

	CHECK(io_read_file(a, 0, &x, &n, &e) == 0);
	CHECK(io_read_file(b, 0, &y, &m, &e) == 0);
	CHECK(n == m && x && y && !memcmp(x, y, n));
	free(x);
	free(y);
}

/* Rewrites a corpus and compares the bytes of both files. */
static void
rewrite(const char *name)
{
	char prefix[256], path[270];
	struct dataset *d;
	struct dataset_writer *w;

	snprintf(prefix, sizeof prefix, "tests/golden/data/corpora/%s", name);
	d = dataset_open(prefix, &e);
	w = d ? dataset_writer_new(scratch(name), dataset_dtype(d), &e) : NULL;
	CHECK(w != NULL);
	if (!w)
		return;
	for (int64_t doc = 0, at = 0; doc < dataset_num_documents(d); doc++) {
		int64_t first = dataset_document_start(d, doc),
			n = dataset_document_start(d, doc + 1) - first;
		int32_t *length = mem_alloc((size_t)n + 1, sizeof *length);
		size_t size = 0;

		for (int64_t i = 0; i < n; i++) {
			length[i] = (int32_t)dataset_length(d, first + i);
			size += (size_t)length[i] * dtype_size(dataset_dtype(d));
		}
		CHECK(add_document(w, size ? dataset_bytes(d, (uint64_t)at, size, NULL, &e) : NULL,
			  length, (int32_t)n, &e) == 0);
		at += (int64_t)size;
		free(length);
	}
	CHECK(dataset_commit(w, &e) == 0);
	snprintf(path, sizeof path, "%s.idx", prefix);
	strcat(strcpy(prefix, scratch(name)), ".idx");
	check_same_file(path, prefix);
	memcpy(strrchr(path, '.'), ".bin", 4);
	memcpy(strrchr(prefix, '.'), ".bin", 4);
	check_same_file(path, prefix);
	dataset_close(d);
}

/* The least and greatest ids of every type are read back; ids beyond them are refused. */
static void
test_types(void)
{
	static const struct {
		enum dtype type;
		int64_t min, max;
		const char *reason;
	} row[] = {
		{ DTYPE_U8, 0, 255, "token id 256 does not fit uint8 (0 to 255)" },
		{ DTYPE_I8, -128, 127, "token id 128 does not fit int8 (-128 to 127)" },
		{ DTYPE_I16, -32768, 32767, "token id 32768 does not fit int16 (-32768 to 32767)" },
		{ DTYPE_U16, 0, 65535, "token id 65536 does not fit uint16 (0 to 65535)" },
		{ DTYPE_I32, INT32_MIN, INT32_MAX,
		    "token id 2147483648 does not fit int32 (-2147483648 to 2147483647)" },
		{ DTYPE_I64, INT64_MIN, INT64_MAX, NULL },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		int64_t ids[2] = { row[i].min, row[i].max }, back[2], over = row[i].max;
		struct dataset_writer *w = dataset_writer_new(scratch("wide"), DTYPE_I64, &e);
		struct dataset *d;

		over += row[i].reason != NULL;
		CHECK(add_ids(w, DTYPE_I64, ids, 2, &e) == 0 &&
		    add_ids(w, DTYPE_I64, &over, 1, &e) == 0 && dataset_commit(w, &e) == 0);
		d = dataset_open(scratch("wide"), &e);
		w = dataset_writer_new(scratch("types"), row[i].type, &e);
		if (row[i].reason)
			CHECK(dataset_add_documents(w, d, 1, 2, &e) < 0 &&
			    strstr(e.msg, row[i].reason));
		dataset_abort(w);
		w = dataset_writer_new(scratch("types"), row[i].type, &e);
		CHECK(dataset_add_documents(w, d, 0, 1, &e) == 0 && dataset_commit(w, &e) == 0);
		dataset_close(d);
		d = dataset_open(scratch("types"), &e);
		CHECK(d && dataset_dtype(d) == row[i].type && dataset_num_tokens(d) == 2);
		CHECK(dataset_tokens(d, 0, 0, 2, back, &e) == 0);
		CHECK(back[0] == ids[0] && back[1] == ids[1]);
		dataset_close(d);
	}
}

/* An empty dataset, empty documents, and the files after an abort. */
static void
test_edges(void)
{
	struct dataset_writer *w = dataset_writer_new(scratch("none"), DTYPE_U16, &e);
	struct dataset *d;
	struct stat st;
	struct dirent *de;
	DIR *open;
	int32_t none = 0;
	int files = 0;

	CHECK(
	    dataset_commit(w, &e) == 0 && stat(scratch("none.idx"), &st) == 0 && st.st_size == 42);
	d = dataset_open(scratch("none"), &e);
	CHECK(d && dataset_num_sequences(d) == 0 && dataset_num_documents(d) == 0 &&
	    !dataset_has_modes(d) && dataset_sequence_at(d, 0) == -1 &&
	    dataset_document_at(d, 0) == -1);
	dataset_close(d);
	w = dataset_writer_new(scratch("none"), DTYPE_I32, &e);
	CHECK(add_document(w, NULL, NULL, 0, &e) == 0 && add_document(w, NULL, &none, 1, &e) == 0 &&
	    dataset_commit(w, &e) == 0);
	d = dataset_open(scratch("none"), &e);
	CHECK(d && dataset_num_sequences(d) == 1 && dataset_num_documents(d) == 2 &&
	    dataset_num_tokens(d) == 0);
	dataset_close(d);
	w = dataset_writer_new(scratch("aborted"), DTYPE_I32, &e);
	dataset_abort(w);
	open = opendir(dir);
	while (open && (de = readdir(open)))
		files += strstr(de->d_name, "aborted") != NULL || strstr(de->d_name, "tmp") != NULL;
	closedir(open);
	CHECK(files == 0);
	CHECK(!dataset_writer_new(scratch("no/such/place"), DTYPE_I32, &e));
}

/* The sequence of a token and the document of a sequence; empty ones are never the answer. */
static void
test_places(void)
{
	static const int32_t length[] = { 0, 2, 0, 0, 3, 1, 0 };
	static const int32_t per_document[] = { 0, 2, 0, 3, 0, 0, 2, 0 };
	static const int64_t of_token[] = { -1, 1, 1, 4, 4, 4, 5, -1, -1 },
			     of_sequence[] = { -1, 1, 1, 3, 3, 3, 6, 6, -1, -1 };
	struct dataset_writer *w = dataset_writer_new(scratch("places"), DTYPE_U8, &e);
	struct dataset *d;
	int64_t s = 0;

	for (size_t k = 0; k < sizeof per_document / sizeof *per_document; k++) {
		CHECK(add_document(w, "abc", length + s, per_document[k], &e) == 0);
		s += per_document[k];
	}
	CHECK(dataset_commit(w, &e) == 0);
	d = dataset_open(scratch("places"), &e);
	CHECK(d != NULL);
	for (int64_t token = -1; d && token < 8; token++)
		CHECK(dataset_sequence_at(d, token) == of_token[token + 1]);
	for (s = -1; d && s < 9; s++)
		CHECK(dataset_document_at(d, s) == of_sequence[s + 1]);
	dataset_close(d);
	d = dataset_open(scratch("none"), &e);
	CHECK(d && dataset_sequence_at(d, 0) == -1 && dataset_document_at(d, 0) == 1 &&
	    dataset_document_at(d, 1) == -1);
	dataset_close(d);
}

/* Counts that index maps cannot number are refused before anything is written. */
static void
test_limits(void)
{
	struct dataset_writer *w = dataset_writer_new(scratch("limits"), DTYPE_U16, &e);
	int32_t one = 1;

	CHECK(dataset_write_lengths(w, NULL, (int64_t)INT32_MAX + 1, &e) < 0);
	CHECK(strstr(e.msg, "limits: more than 2147483647 sequences") != NULL);
	CHECK(add_document(w, "ab", &one, 1, &e) == 0);
	CHECK(dataset_write_lengths(w, NULL, INT32_MAX, &e) < 0);
	CHECK(dataset_write_boundaries(w, NULL, (int64_t)INT32_MAX + 1, &e) < 0);
	CHECK(strstr(e.msg, "limits: more than 2147483647 documents") != NULL);
	dataset_abort(w);
}

/* Writes PREFIX.json, reads it, and compares the result. */
static int
read_notes(const char *text, struct notes *n)
{
	CHECK(outfile_write(scratch("notes.json"), text, strlen(text), &e) == 0);
	return notes_read(scratch("notes"), n, &e);
}

/* Present members are read, missing and null ones are unknown, those of another type are refused.
 */
static void
test_notes(void)
{
	static const char *const bad[] = { "[]", "{", "{\"append_eod\": 1}", "{\"eod_id\": \"x\"}",
		"{\"tokenizer\": {\"type\": 1}}",
		"{\"tokenizer\": {\"type\": \"A\", \"hash\": \"0123456789abcdeF\"}}" };
	const char *full =
	    "{\"tokenizer\": {\"type\": \"A\", \"hash\": \"0123456789abcdef\", \"vocab_size\": 9, "
	    "\"files\": [\"x\", 3, \"y\"]}, \"append_eod\": true, \"eod_id\": -1, "
	    "\"bos_id\": 1}";
	struct notes n, m;
	struct str out = { 0 };

	CHECK(notes_read(scratch("nothing"), &n, &e) == 0 && !n.type && n.eod_id == NOTES_UNKNOWN);
	notes_release(&n);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(read_notes(bad[i], &n) == -1 && strstr(e.msg, "notes.json"));
		notes_release(&n);
	}
	CHECK(read_notes("{\"tokenizer\": null, \"other\": 1}", &m) == 1 && !m.type);
	CHECK(read_notes(full, &n) == 1 && n.type && n.vocab_size == 9 && n.num_files == 2 &&
	    n.append_eod == 1 && n.eod_id == -1 && n.special_as_text == NOTES_UNKNOWN);
	CHECK_STR(n.hash, "0123456789abcdef");
	CHECK_STR(n.file[1], "y");
	CHECK(notes_agree(&n, &m) && notes_agree(&m, &n));
	notes_add_members(&n, &out);
	CHECK_STR(out.buf,
	    "  \"tokenizer\": {\n    \"type\": \"A\",\n    \"hash\": \"0123456789abcdef\",\n"
	    "    \"vocab_size\": 9,\n    \"files\": [\"x\", \"y\"]\n  },\n  \"append_eod\": true,\n"
	    "  \"eod_id\": -1,\n  \"special_as_text\": null,\n  \"bos_id\": 1,\n");
	n.unigram_ties = m.unigram_ties = "0.2.2";
	n.tokenizer_like = "transformers-5.23";
	notes_merge(&n, &n);
	CHECK_STR(n.unigram_ties, "0.2.2");
	CHECK_STR(n.tokenizer_like, "transformers-5.23");
	str_clear(&out);
	notes_add_members(&n, &out);
	CHECK(strstr(out.buf, "\"tokenizer_like\": \"transformers-5.23\"\n  },"));
	notes_merge(&n, &m);
	CHECK(!n.unigram_ties && !n.tokenizer_like);
	CHECK(!n.type && n.vocab_size == NOTES_UNKNOWN && n.append_eod == NOTES_UNKNOWN &&
	    n.eod_id == NOTES_UNKNOWN && n.bos_id == NOTES_UNKNOWN);
	notes_release(&n);
	notes_release(&m);
	str_release(&out);
}

/* A copy fails on a file that ends early and on a directory; a copy of a range is exact. */
static void
test_copies(void)
{
	char text[] = "0123456789", *back;
	struct outfile o;
	struct stat st;
	size_t len;
	int fd;

	CHECK(outfile_write(scratch("range"), text, 10, &e) == 0);
	fd = io_open_regular(scratch("range"), &st, &e);
	CHECK(fd >= 0 && st.st_size == 10 && outfile_open(&o, scratch("copied"), &e) == 0);
	CHECK(
	    io_copy_range(fd, 3, fileno(o.f), 4) == 0 && io_copy_range(fd, 0, fileno(o.f), 2) == 0);
	CHECK(io_copy_range(fd, 5, fileno(o.f), 6) < 0);
	CHECK(ftruncate(fileno(o.f), 6) == 0 && outfile_commit(&o, &e) == 0);
	CHECK(io_read_file(scratch("copied"), 0, &back, &len, &e) == 0 && len == 6 &&
	    !memcmp(back, "345601", 6));
	free(back);
	close(fd);
	CHECK(io_open_regular(dir, &st, &e) < 0 && strstr(e.msg, "not a regular file"));
}

int
main(void)
{
	static const char *const corpora[] = { "a_u16", "b_i32", "c_u16", "d_sent_u16",
		"e_tiny_i32", "f_u16edge" };

	CHECK(mkdtemp(dir) != NULL);
	test_malformed();
	test_accessors();
	for (size_t i = 0; i < sizeof corpora / sizeof *corpora; i++)
		rewrite(corpora[i]);
	test_types();
	test_edges();
	test_places();
	test_limits();
	test_notes();
	test_copies();
	io_remove_tree(dir, &e);
	return check_done();
}

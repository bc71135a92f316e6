/* distcp.c - the metadata of torch.distributed.checkpoint: what it lists, and what is refused */
#include "lib/ckpt/distcp.h"
#include "lib/ckpt/pickle_write.h"
#include "tests/check.h"

/* A tensor "w" of 4 rows of 3 in two chunks of two rows, a scalar "s" and an object "o"; a case
 * differs in one thing. */
struct variant {
	const char *said;       /* the reason; NULL: accepted */
	int64_t start, rows;    /* of the second chunk */
	int64_t stored_start;   /* of the second chunk, as it is stored */
	const char *path;       /* of the file */
	bool transformed, same; /* the last entry is that of the object once more */
};

/* The metadata module's classes are the last word of their names alone. */
static void
open_object(struct str *s, const char *name)
{
	pickle_open_object(s, "torch.distributed.checkpoint.metadata", name);
}

static void
put_size(struct str *s, const char *key, int n, int64_t a, int64_t b)
{
	pickle_put_text(s, key);
	pickle_put_size(s, n, (int64_t[]){ a, b });
}

static void
put_chunk(struct str *s, int n, int64_t start, int64_t rows)
{
	open_object(s, "ChunkStorageMetadata");
	put_size(s, "offsets", n, start, 0);
	put_size(s, "sizes", n, rows, 3);
	pickle_close_object(s);
}

/* Its properties are not a dict, but pickle_write.h has no other objects: the dtype is unknown. */
static void
put_tensor(struct str *s, const char *name, int n, const struct variant *v)
{
	pickle_put_text(s, name);
	open_object(s, "TensorStorageMetadata");
	put_size(s, "size", n, 4, 3);
	pickle_put_text(s, "chunks");
	pickle_open_list(s);
	put_chunk(s, n, 0, 2);
	if (n)
		put_chunk(s, n, v->start, v->rows);
	pickle_close_list(s);
	pickle_close_object(s);
}

/* n -1: an object. */
static void
put_stored(struct str *s, const char *name, int n, int64_t start, const struct variant *v)
{
	open_object(s, "MetadataIndex");
	pickle_put_text(s, "fqn");
	pickle_put_text(s, name);
	if (n >= 0)
		put_size(s, "offset", n, start, 0);
	pickle_close_object(s);
	open_object(s, "_StorageInfo");
	pickle_put_text(s, "relative_path");
	pickle_put_text(s, start ? "__1_0.distcp" : v->path);
	pickle_put_text(s, "offset");
	pickle_put_int(s, start * 100);
	pickle_put_text(s, "length");
	pickle_put_int(s, 70);
	if (v->transformed) {
		pickle_put_text(s, "transform_descriptors");
		pickle_open_list(s);
		pickle_put_text(s, "zstd");
		pickle_close_list(s);
	}
	pickle_close_object(s);
}

static void
put_metadata(struct str *s, const struct variant *v)
{
	pickle_begin(s);
	open_object(s, "Metadata");
	pickle_put_text(s, "state_dict_metadata");
	pickle_open_dict(s);
	put_tensor(s, "w", 2, v);
	put_tensor(s, "s", 0, v);
	pickle_put_text(s, "o");
	open_object(s, "BytesStorageMetadata");
	pickle_close_object(s);
	pickle_close_dict(s);
	pickle_put_text(s, "storage_data");
	pickle_open_dict(s);
	put_stored(s, "w", 2, 0, v);
	put_stored(s, "w", 2, v->stored_start, v);
	put_stored(s, "s", 0, 0, v);
	put_stored(s, "o", -1, 0, v);
	if (v->same)
		put_stored(s, "o", -1, 0, v);
	pickle_close_dict(s);
	pickle_close_object(s);
	pickle_end(s);
}

static const struct variant
    good = { NULL, 2, 2, 2, "__0_0.distcp", false, false },
    bad[] = {
	    { "m: tensor 'w': a hole: 3 elements are in no piece", 2, 1, 2, "a" },
	    { "m: tensor 'w': pieces overlap, and leave a hole elsewhere", 1, 2, 1, "a" },
	    { "m: tensor 'w': a chunk lies outside of it", 2, 3, 2, "a" },
	    { "m: tensor 'w': a chunk is in no file", 2, 2, 3, "a" },
	    { "m: 'w': not a plain file name: '../a'", 2, 2, 2, "../a" },
	    { "m: 'w' is compressed or transformed; only plain chunks are read", 2, 2, 2, "a",
		true },
	    { "m: 'o': a place is stored twice", 2, 2, 2, "a", false, true },
    };

static void
test_good(void)
{
	struct str s = { 0 };
	struct distcp d;
	struct err e;
	const struct ckpt_tensor *w;
	const struct distcp_object *o;

	put_metadata(&s, &good);
	CHECK(distcp_parse(&d, s.buf, s.len, "m", &e) == 0);
	w = distcp_tensor(&d, "w");
	o = distcp_object(&d, "o");
	CHECK(d.num_tensors == 2 && d.num_objects == 1 && d.num_files == 2);
	CHECK(w && w->ndim == 2 && w->shape[0] == 4 && w->shape[1] == 3 && w->num_pieces == 2);
	CHECK(w->piece[1].slice.start[0] == 2 && w->piece[1].offset == 200);
	CHECK(w->piece[1].file == 1 && w->piece[0].file == 0 && w->piece[1].bytes == 70);
	CHECK(distcp_tensor(&d, "s")->ndim == 1 && distcp_tensor(&d, "s")->shape[0] == 1);
	CHECK(o && o->file == 0 && o->bytes == 70);
	CHECK(!distcp_tensor(&d, "o") && !distcp_object(&d, "w"));
	distcp_release(&d);
	str_release(&s);
}

static void
test_bad(void)
{
	struct str s = { 0 };
	struct distcp d;
	struct err e;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		put_metadata(&s, &bad[i]);
		CHECK(distcp_parse(&d, s.buf, s.len, "m", &e) < 0);
		CHECK_STR(e.msg, bad[i].said);
		distcp_release(&d);
		str_clear(&s);
	}
	pickle_begin(&s);
	pickle_put_none(&s);
	pickle_end(&s);
	CHECK(distcp_parse(&d, s.buf, s.len, "m", &e) < 0);
	CHECK_STR(e.msg, "m: no dict storage_data");
	distcp_release(&d);
	str_release(&s);
}

int
main(void)
{
	test_good();
	test_bad();
	return check_done();
}

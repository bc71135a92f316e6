/* samples_impl.h - shared by the files about samples: planning and reading (samples.c), building
 * (samples_build.c), cache files (samples_cache.c), names (description.c), and blends */
#ifndef DATA_SAMPLES_IMPL_H
#define DATA_SAMPLES_IMPL_H

#include "lib/base/rng.h"
#include "lib/data/map_cache.h"
#include "lib/data/npy.h"
#include "lib/data/samples.h"

/* An integer array, owned or in a mapped file. */
struct index_map {
	enum dtype dtype; /* I16, I32, U32 or I64 */
	const void *data;
	void *own; /* free() it; NULL when the data is in the file */
	/* own is a whole file whose header has this many bytes; 0: only elements */
	size_t header;
	struct npy file;
};

struct samples {
	const struct dataset *d;
	enum split which;
	struct split_matrix matrix;
	int64_t begin, end;        /* the split's sequences */
	int64_t num_samples;       /* requested; -1: one epoch */
	int64_t seq_length, extra; /* tokens per sample: seq_length + extra */
	enum sample_packing packing;
	enum long_documents long_documents;
	int64_t bins, items; /* of an epoch, with best-fit */
	bool numbers_items;  /* the document index numbers items, by the item index */
	bool drop;
	uint32_t seed;
	int64_t tokens_per_epoch, num_epochs;
	bool separate;             /* the last epoch is shuffled separately */
	int64_t before;            /* samples complete before the last epoch; only with separate */
	int64_t count;             /* samples */
	int64_t num_positions;     /* entries of the document index */
	struct index_map document; /* [num_positions], sequence numbers */
	/* [count + 1][2]: position in the document index, token offset there */
	struct index_map row;
	struct index_map shuffle; /* [count] */
	/* [items][2]: sequence, first token; only where numbers_items */
	struct index_map item;
	bool from_cache;
	char hash[33];
	char *note; /* why cached maps were not taken; may be NULL */
};

/* Element i of a map; elements in a file may be unaligned. */
int64_t index_map_get(const struct index_map *m, int64_t i);
/* Elements [from, from + n). */
void index_map_copy(const struct index_map *m, int64_t from, int64_t n, int64_t *out);
void index_map_release(struct index_map *m);
/* Allocates count elements, on large pages when there are many, because the shuffles access them at
 * random. */
void *index_map_alloc(struct index_map *m, enum dtype t, int64_t count);

/* samples_walk.c: the rows of the sample index for a document index over the split's sequences; row
 * 0 is (0, 0). */
struct row_walk;
struct row_walk *row_walk_new(const struct samples *s);
void row_walk_free(struct row_walk *w);
/* The next row; -1 when the document index ends before the sample is full (never with maps of the
 * same set). */
int row_walk_next(struct row_walk *w, int64_t *position, int64_t *offset);
/* I32 unless positions or offsets need more. */
enum dtype samples_row_type(int64_t num_positions);

/* Computes and checks everything that needs no maps; NULL with the reason. */
struct samples *samples_plan(
    const struct dataset *d, const struct samples_config *c, struct err *e);
/* Takes the maps from the cache or builds them; with write_cache, maps that were built, and the key
 * of validated ones, are added to it. */
int samples_fill(
    struct samples *s, const struct samples_config *c, struct map_cache *cache, struct err *e);
/* samples_build.c: the three maps of a plan. */
void samples_build(struct samples *s);
/* numpy's shuffle of n elements. */
void samples_shuffle(struct mt19937 *rng, uint32_t *a, int64_t n);
/* samples_pack.c: the same of a plan with best-fit packing, whose sizes samples_plan_bins sets. */
int samples_plan_bins(struct samples *s, struct err *e);
void samples_build_bins(struct samples *s);
/* The part of a sample at a position of the document index. */
struct sample_part samples_packed_part(const struct samples *s, int64_t position);

enum { CACHE_DESCRIPTION_MAX = 64 << 20 }; /* bytes */

/* The state of the maps on disk. */
enum cache_state {
	CACHE_NONE,   /* incomplete */
	CACHE_STALE,  /* complete, and damaged or made from other data */
	CACHE_OTHERS, /* complete, of no use here, and perhaps of use to others */
	CACHE_PROVED, /* complete and validated without a key: loaded */
	CACHE_KEYED,  /* complete, with a matching key: loaded */
};
/* Names the maps after the description, and loads them when they are taken. When the name belongs
 * to maps that must not be overwritten, the options that it does not cover are added to the
 * description, which changes the name. */
enum cache_state samples_load(struct samples *s, const struct samples_config *c,
    struct map_cache *cache, struct str *description);
/* Adds the maps that were built, the description, and the key. */
int samples_store(const struct samples *s, const struct samples_config *c,
    const struct str *description, struct map_cache *cache, struct err *e);
/* Adds only the key, for validated maps of Megatron-LM's. */
void samples_store_key(
    const struct samples *s, const struct samples_config *c, struct map_cache *cache);

/* Adds a line when the directory has the same maps under the name of another tokenizer; reads the
 * descriptions in it. */
void samples_note_other_tokenizer(
    const struct samples *s, const struct samples_config *c, struct str *out);

/* One array of the cache: the name of its file, and its shape. */
struct cache_array {
	const char *name; /* "document_index" */
	struct index_map *map;
	int64_t count;
	bool rows; /* [count][2] instead of [count] */
};
/* The files of one split: DIR/HASH-CLASS-SPLIT-NAME. */
struct cache_place {
	struct map_cache *cache;
	bool trust; /* the sums of a key are not compared */
	const char *dir, *hash, *class_name;
	enum split which;
	char data[128], options[8]; /* of its map_key */
	int count;                  /* arrays */
	struct cache_array array[4];
};
/* Maps all arrays or none: the description must be this text, and the files must be integers of
 * these shapes. CACHE_UNFIT: all files exist, and some is not so. Small arrays are copied, because
 * the kernel limits the number of maps. */
enum cache_found { CACHE_ABSENT, CACHE_LOADED, CACHE_UNFIT };
enum cache_found cache_load(const struct cache_place *p, const struct str *description);
/* Leaves the arrays empty. */
void cache_release(const struct cache_place *p);
/* What the keys in the directory say of the arrays, or, where these are empty, of the files. */
enum key_verdict cache_verdict(const struct cache_place *p);
/* Adds the arrays in order, then the description: Megatron-LM takes existing files for complete, so
 * the text comes last. Then the key. */
int cache_store(const struct cache_place *p, const struct str *description, struct err *e);
void cache_store_key(const struct cache_place *p);

/* description.c */
void description_double(struct str *out, double x); /* as repr() */
/* Appends text, a JSON value, with its lines after the first indented by eight blanks. */
void description_nest(struct str *out, const struct str *text);

#endif

/*
 * blend_cache.c - the two arrays of a blend as files, and the text whose hash is their name
 *
 * Source of the text: Megatron-LM core/datasets/blended_dataset.py, unique_description.
 */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/data/blend_impl.h"

#include <stdlib.h>
#include <string.h>

/* The text of every corpus is in it, as a nested list. An exhaustive blend's weights are the
 * numbers of samples, and its size is null. */
static void
describe(const struct blend *b, const struct samples_config *c, struct str *out)
{
	str_adds(out, "{\n    \"class\": \"BlendedDataset\",\n    \"datasets\": [");
	for (int k = 0; k < b->num_parts; k++) {
		struct samples_config one = *c;
		struct str text = { 0 };

		one.num_samples = b->part[k].num_samples;
		samples_description(corpora_dataset(b->corpora, b->part[k].dataset), &one, &text);
		str_adds(out, k ? ",\n        " : "\n        ");
		description_nest(out, &text);
		str_release(&text);
	}
	str_addf(out, "\n    ],\n    \"split\": \"%s\",\n    \"weights\": [", split_name[b->which]);
	for (int k = 0; k < b->num_parts; k++) {
		str_adds(out, k ? ",\n        " : "\n        ");
		if (b->exhaustive)
			str_addf(out, "%lld", (long long)samples_count(b->part[k].samples));
		else
			description_double(out, b->part[k].weight);
	}
	str_adds(out, "\n    ],\n    \"size\": ");
	if (b->exhaustive)
		str_adds(out, "null");
	else
		str_addf(out, "%lld", (long long)b->count);
	str_adds(out, "\n}");
}

/* The two arrays as files, in Megatron-LM's order. They follow from their name, so their key is
 * only of sums. */
static struct cache_place
place(const struct blend *b, const struct samples_config *c, struct map_cache *cache)
{
	struct blend *w = (struct blend *)(uintptr_t)b;

	return (struct cache_place){
		.cache = cache,
		.trust = c->trust_cache,
		.dir = c->cache_dir,
		.hash = b->hash,
		.class_name = "BlendedDataset",
		.which = b->which,
		.count = 2,
		.array = { { "dataset_index", &w->dataset, b->count, false },
		    { "dataset_sample_index", &w->dataset_sample, b->count, false } },
	};
}

/*
 * Arrays without a key must name existing corpora, the samples of each in order, and all samples of
 * an exhaustive blend. That the greedy choice made them follows from the name, the hash of weights
 * and size.
 */
static bool
arrays_fit(const struct blend *b)
{
	int64_t *drawn = mem_zalloc((size_t)b->num_parts, sizeof *drawn);
	bool fits = true;

	for (int64_t i = 0; i < b->count && fits; i++) {
		int64_t k = index_map_get(&b->dataset, i);

		fits = k >= 0 && k < b->num_parts &&
		    index_map_get(&b->dataset_sample, i) == drawn[k]++;
	}
	for (int k = 0; k < b->num_parts && fits && b->exhaustive; k++)
		fits = drawn[k] == samples_count(b->part[k].samples);
	free(drawn);
	return fits;
}

/* True when the arrays were loaded. */
static bool
load_set(const struct blend *b, const struct cache_place *p, const struct str *text, bool *damaged)
{
	enum cache_found found = cache_load(p, text);
	enum key_verdict key = found == CACHE_LOADED ? cache_verdict(p) : KEY_STALE;

	if (key == KEY_FITS || (key == KEY_NONE && arrays_fit(b)))
		return true;
	*damaged = found != CACHE_ABSENT;
	cache_release(p);
	return false;
}

/* The hash is set in any case. */
bool
blend_load(struct blend *b, const struct samples_config *c, struct map_cache *cache)
{
	struct cache_place p;
	struct str text = { 0 };
	bool damaged = false, loaded;

	describe(b, c, &text);
	hash_md5_hex(text.buf, text.len, b->hash);
	p = place(b, c, cache);
	loaded = c->cache_dir && load_set(b, &p, &text, &damaged);
	if (damaged)
		str_addf(&b->notes, "the %s blend %s in '%s' is damaged: it was rebuilt\n",
		    split_name[b->which], b->hash, c->cache_dir);
	str_release(&text);
	return loaded;
}

/* Without a cache directory a blend is not stored, because it belongs to none of its corpora. */
int
blend_store(
    const struct blend *b, const struct samples_config *c, struct map_cache *cache, struct err *e)
{
	struct cache_place p = place(b, c, cache);
	struct str text = { 0 };
	int rc;

	if (!c->cache_dir)
		return 0;
	describe(b, c, &text);
	rc = cache_store(&p, &text, e);
	str_release(&text);
	return rc;
}

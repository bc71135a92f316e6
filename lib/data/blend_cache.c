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
 * numbers of samples, and its size is null. A stage of a schedule has its number and what was drawn
 * of its corpora before it too. */
static void
describe(const struct blend *b, int k, const struct samples_config *c, struct str *out)
{
	const struct stage *s = &b->stage[k];

	str_adds(out, "{\n    \"class\": \"BlendedDataset\",\n    \"datasets\": [");
	for (int i = 0; i < s->num_parts; i++) {
		const struct part *p = &b->part[s->part[i]];
		struct samples_config one = *c;
		struct str text = { 0 };

		one.num_samples = p->num_samples;
		samples_description(corpora_dataset(b->corpora, p->dataset), &one, &text);
		str_adds(out, i ? ",\n        " : "\n        ");
		description_nest(out, &text);
		str_release(&text);
	}
	str_addf(out, "\n    ],\n    \"split\": \"%s\",\n    \"weights\": [", split_name[b->which]);
	for (int i = 0; i < s->num_parts; i++) {
		str_adds(out, i ? ",\n        " : "\n        ");
		if (b->exhaustive)
			str_addf(out, "%lld", (long long)samples_count(b->part[i].samples));
		else
			description_double(out, s->weight[i]);
	}
	str_adds(out, "\n    ],\n    \"size\": ");
	if (b->exhaustive)
		str_adds(out, "null");
	else
		str_addf(out, "%lld", (long long)s->count);
	if (b->scheduled) {
		str_addf(out, ",\n    \"stage\": %d,\n    \"drawn_before\": [", k);
		for (int i = 0; i < s->num_parts; i++)
			str_addf(out, "%s\n        %lld", i ? "," : "", (long long)s->before[i]);
		str_adds(out, "\n    ]");
	}
	str_adds(out, "\n}");
}

/* The two arrays as files, in Megatron-LM's order. They follow from their name, so their key is
 * only of sums. */
static struct cache_place
place(const struct blend *b, int k, const struct samples_config *c, struct map_cache *cache)
{
	struct stage *s = &((struct blend *)(uintptr_t)b)->stage[k];

	return (struct cache_place){
		.cache = cache,
		.trust = c->trust_cache,
		.dir = c->cache_dir,
		.hash = s->hash,
		.class_name = "BlendedDataset",
		.which = b->which,
		.count = 2,
		.array = { { "dataset_index", &s->dataset, s->count, false },
		    { "dataset_sample_index", &s->dataset_sample, s->count, false } },
	};
}

/*
 * Arrays without a key must name existing corpora, the samples of each in order, and all samples of
 * an exhaustive blend. That the greedy choice made them follows from the name, the hash of weights
 * and size.
 */
static bool
arrays_fit(const struct blend *b, const struct stage *s)
{
	int64_t *drawn = mem_zalloc((size_t)s->num_parts, sizeof *drawn);
	bool fits = true;

	for (int64_t i = 0; i < s->count && fits; i++) {
		int64_t k = index_map_get(&s->dataset, i);

		fits = k >= 0 && k < s->num_parts &&
		    index_map_get(&s->dataset_sample, i) == drawn[k]++;
	}
	for (int k = 0; k < b->num_parts && fits && b->exhaustive; k++)
		fits = drawn[k] == samples_count(b->part[k].samples);
	free(drawn);
	return fits;
}

/* True when the arrays were loaded. */
static bool
load_set(const struct blend *b, const struct stage *s, const struct cache_place *p,
    const struct str *text, bool *damaged)
{
	enum cache_found found = cache_load(p, text);
	enum key_verdict key = found == CACHE_LOADED ? cache_verdict(p) : KEY_STALE;

	if (key == KEY_FITS || (key == KEY_NONE && arrays_fit(b, s)))
		return true;
	*damaged = found != CACHE_ABSENT;
	cache_release(p);
	return false;
}

/* The hash is set in any case. */
bool
blend_load(struct blend *b, int k, const struct samples_config *c, struct map_cache *cache)
{
	struct stage *s = &b->stage[k];
	struct cache_place p;
	struct str text = { 0 };
	bool damaged = false, loaded;

	describe(b, k, c, &text);
	hash_md5_hex(text.buf, text.len, s->hash);
	p = place(b, k, c, cache);
	loaded = c->cache_dir && load_set(b, s, &p, &text, &damaged);
	if (damaged)
		str_addf(&b->notes, "the %s blend %s in '%s' is damaged: it was rebuilt\n",
		    split_name[b->which], s->hash, c->cache_dir);
	str_release(&text);
	return loaded;
}

/* Without a cache directory a blend is not stored, because it belongs to none of its corpora. */
int
blend_store(const struct blend *b, int k, const struct samples_config *c, struct map_cache *cache,
    struct err *e)
{
	struct cache_place p = place(b, k, c, cache);
	struct str text = { 0 };
	int rc;

	if (!c->cache_dir)
		return 0;
	describe(b, k, c, &text);
	rc = cache_store(&p, &text, e);
	str_release(&text);
	return rc;
}

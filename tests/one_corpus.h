/* one_corpus.h - samples of one corpus without a blend */
#ifndef TESTS_ONE_CORPUS_H
#define TESTS_ONE_CORPUS_H

#include "lib/data/samples_impl.h"

/* The maps of one corpus by itself; samples_close them. */
static inline struct samples *
samples_open(const struct dataset *d, const struct samples_config *c, struct err *err)
{
	struct samples *s = samples_plan(d, c, err);
	struct map_cache *cache = map_cache_new();

	if (s && samples_fill(s, c, cache, err) == 0) {
		if (map_cache_commit(cache, err) == 0)
			return s;
	} else {
		map_cache_abort(cache);
	}
	samples_close(s);
	return NULL;
}

/* The sequence at position i of the shuffled epochs. */
static inline int64_t
samples_document_index(const struct samples *s, int64_t i)
{
	return index_map_get(&s->document, i);
}

#endif

/*
 * samples_cache.c - the index maps of one split as files: when they are taken, and their key
 *
 * A damaged or stale set is not an error: it counts as missing, and a note says so. A set of the
 * same name that serves other options or another program stays unchanged, and these maps get their
 * own name.
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/data/samples_impl.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* The directory of the maps; free() it. */
static char *
cache_dir(const struct samples *s, const struct samples_config *c)
{
	struct str path = { 0 };

	if (c->cache_dir)
		str_adds(&path, c->cache_dir);
	else
		str_addf(&path, "%s/cache/GPTDataset_indices", dataset_prefix(s->d));
	return str_detach(&path);
}

/* Size and modification time of a file, after a blank each. */
static int
add_file(char *out, size_t room, const struct dataset_file *f)
{
	return snprintf(out, room, " %llu %lld.%09ld", (unsigned long long)f->bytes,
	    (long long)f->modified.tv_sec, f->modified.tv_nsec);
}

/* The key holds what Megatron-LM's names do not cover: the state of the files that the maps are
 * made from, which may have been replaced by now, and two options. */
static void
set_key(struct cache_place *p, const struct samples *s)
{
	struct dataset_file bin, idx;
	int n;

	dataset_files(s->d, &bin, &idx);
	n = add_file(p->data, sizeof p->data, &bin);
	add_file(p->data + n, sizeof p->data - (size_t)n, &idx);
	snprintf(p->options, sizeof p->options, " %d %d", s->extra != 0, s->drop);
}

/* The arrays as files, in Megatron-LM's order, and then our own; dir is cache_dir()'s. */
static struct cache_place
place(const struct samples *s, const struct samples_config *c, struct map_cache *cache,
    const char *dir)
{
	struct samples *w = (struct samples *)(uintptr_t)s;

	struct cache_place p = {
		.cache = cache,
		.trust = c->trust_cache,
		.dir = dir,
		.hash = s->hash,
		.class_name = "GPTDataset",
		.which = s->which,
		.count = s->numbers_items ? 4 : 3,
		.array = { { "document_index", &w->document, s->num_positions, false },
		    { "sample_index", &w->row, s->count + 1, true },
		    { "shuffle_index", &w->shuffle, s->count, false },
		    { "item_index", &w->item, s->items, true } },
	};

	set_key(&p, s);
	return p;
}

/* Well-mixed bits of a number: their sums are equal for equal multisets, and almost never for
 * different ones. */
static uint64_t
mix(uint64_t x)
{
	x = (x + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 32) * 0x94d049bb133111ebull;
	return x ^ x >> 29;
}

/* True when elements [from, to) of the map are the numbers [low, high), each equally often. */
static bool
covers(const struct index_map *m, int64_t from, int64_t to, int64_t low, int64_t high)
{
	uint64_t have = 0, want = 0;
	int64_t times = high > low ? (to - from) / (high - low) : 0;

	for (int64_t i = from; i < to; i++) {
		int64_t v = index_map_get(m, i);

		if (v < low || v >= high)
			return false;
		have += mix((uint64_t)v);
	}
	for (int64_t v = low; v < high; v++)
		want += mix((uint64_t)v);
	return times * (high - low) == to - from && have == want * (uint64_t)times;
}

/* Every epoch has each sequence of the split once; a separate last epoch is checked by itself. */
static bool
document_index_fits(const struct samples *s)
{
	int64_t last = s->separate ? s->num_positions - (s->end - s->begin) : s->num_positions;

	return covers(&s->document, 0, last, s->begin, s->end) &&
	    (!s->separate || covers(&s->document, last, s->num_positions, s->begin, s->end));
}

/* Every row must be where the walk over the document index puts it, which also validates lengths,
 * extra token and partial sample. */
static bool
sample_index_fits(const struct samples *s)
{
	struct row_walk *w = row_walk_new(s);
	bool fits = true;

	for (int64_t i = 0; i <= s->count && fits; i++) {
		int64_t position, offset, want_position, want_offset;

		samples_sample_index(s, i, &position, &offset);
		fits = row_walk_next(w, &want_position, &want_offset) == 0 &&
		    position == want_position && offset == want_offset;
	}
	row_walk_free(w);
	return fits;
}

/* A permutation of the samples; those before a separate last epoch are permuted among
 * themselves. */
static bool
shuffle_index_fits(const struct samples *s)
{
	int64_t first = s->separate ? s->before : s->count;

	return covers(&s->shuffle, 0, first, 0, first) &&
	    covers(&s->shuffle, first, s->count, first, s->count);
}

/* Keeps the reason why a complete set of the name was not taken, and what happens to it. */
static void
set_note(struct samples *s, const char *hash, const char *dir, const char *why)
{
	struct str note = { 0 };

	str_addf(&note, "%s: the %s maps %s in '%s' %s; ", dataset_prefix(s->d),
	    split_name[s->which], hash, dir, why);
	if (!strcmp(hash, s->hash))
		str_adds(&note, "rebuilt");
	else
		str_addf(&note, "they are kept, and the maps of this run are %s", s->hash);
	free(s->note);
	s->note = str_detach(&note);
}

/* Loads the set of one name; the arrays stay empty when it is not taken, and *why is the reason
 * against a complete one. */
static enum cache_state
load_set(const struct samples *s, const struct cache_place *p, const struct str *description,
    const char **why)
{
	enum cache_found found = cache_load(p, description);
	enum key_verdict key;

	if (found == CACHE_ABSENT)
		return CACHE_NONE;
	key = cache_verdict(p);
	if (found == CACHE_UNFIT) {
		*why = "are damaged, or have other lengths";
		return key == KEY_NONE ? CACHE_OTHERS : CACHE_STALE;
	}
	if (key == KEY_FITS)
		return CACHE_KEYED;
	if (key == KEY_NONE && s->packing == PACKING_CUT && document_index_fits(s) &&
	    sample_index_fits(s) && shuffle_index_fits(s))
		return CACHE_PROVED;
	cache_release(p);
	*why = key == KEY_NONE
	    ? "do not fit the dataset, and their key is missing or of other options"
	    : "are damaged, or their key is that of other data";
	return key == KEY_NONE ? CACHE_OTHERS : CACHE_STALE;
}

/* Tries Megatron-LM's name first, and another, which also covers the options, only while maps for
 * another user have that name. */
enum cache_state
samples_load(struct samples *s, const struct samples_config *c, struct map_cache *cache,
    struct str *description)
{
	char *dir = cache_dir(s, c), hash[33];
	struct cache_place p = place(s, c, cache, dir);
	const char *why = NULL, *ignored;
	enum cache_state state;

	hash_md5_hex(description->buf, description->len, s->hash);
	memcpy(hash, s->hash, sizeof hash);
	state = load_set(s, &p, description, &why);
	if (state == CACHE_OTHERS) {
		str_addf(description, "\nadd_extra_token %d\ndrop_last_partial %d\n", s->extra != 0,
		    s->drop);
		hash_md5_hex(description->buf, description->len, s->hash);
		state = load_set(s, &p, description, &ignored);
	}
	if (why && state != CACHE_PROVED && state != CACHE_KEYED)
		set_note(s, hash, dir, why);
	free(dir);
	return state;
}

int
samples_store(const struct samples *s, const struct samples_config *c,
    const struct str *description, struct map_cache *cache, struct err *e)
{
	char *dir = cache_dir(s, c);
	struct cache_place p = place(s, c, cache, dir);
	int rc = cache_store(&p, description, e);

	free(dir);
	return rc;
}

/* The key of the arrays that s holds. */
void
samples_store_key(const struct samples *s, const struct samples_config *c, struct map_cache *cache)
{
	char *dir = cache_dir(s, c);
	struct cache_place p = place(s, c, cache, dir);

	cache_store_key(&p);
	free(dir);
}

/* True when a file is the description of these maps except for the tokenizer, its last key: then
 * its maps are equal too. */
static bool
differs_in_tokenizer(const char *path, const struct str *want)
{
	static const char key[] = "\n    \"tokenizer\": ";
	size_t same = (size_t)(strstr(want->buf, key) - want->buf) + sizeof key - 1, len;
	char *text;
	bool differs = false;

	if (io_read_file(path, CACHE_DESCRIPTION_MAX, &text, &len, NULL) < 0)
		return false;
	differs = len > same && !memcmp(text, want->buf, same);
	free(text);
	return differs;
}

/* Reads the descriptions of the split up to the first that fits. Another process may meanwhile have
 * made the name of s itself. */
static bool
find_other_tokenizer(
    const struct samples *s, const char *dir, const struct str *want, char hash[33])
{
	char suffix[64];
	DIR *d = opendir(dir);
	const struct dirent *entry;
	bool found = false;

	snprintf(suffix, sizeof suffix, "-GPTDataset-%s-description.txt", split_name[s->which]);
	while (d && !found && (entry = readdir(d))) {
		struct str path = { 0 };

		if (strlen(entry->d_name) != 32 + strlen(suffix) ||
		    strcmp(entry->d_name + 32, suffix) || !strncmp(entry->d_name, s->hash, 32))
			continue;
		str_addf(&path, "%s/%s", dir, entry->d_name);
		found = differs_in_tokenizer(path.buf, want);
		if (found)
			snprintf(hash, 33, "%.32s", entry->d_name);
		str_release(&path);
	}
	if (d)
		closedir(d);
	return found;
}

/* For maps that were built because none of their name existed. */
void
samples_note_other_tokenizer(
    const struct samples *s, const struct samples_config *c, struct str *out)
{
	char *dir = cache_dir(s, c), hash[33];
	struct str want = { 0 };

	samples_description(s->d, c, &want);
	if (find_other_tokenizer(s, dir, &want, hash))
		str_addf(out,
		    "%s: the %s maps %s in '%s' belong to another tokenizer, or to another "
		    "spelling of its options: built as %s\n",
		    dataset_prefix(s->d), split_name[s->which], hash, dir, s->hash);
	str_release(&want);
	free(dir);
}

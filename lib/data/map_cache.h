/*
 * map_cache.h - what one run reads and writes in the directories of index maps
 *
 * New maps and their keys appear together on commit, after one sync of their file system, with one
 * file of keys in each directory: HASH-keys.txt, HASH the MD5 of its contents. After a first line
 * "mikoshi_keys 1" it has a line for each set of maps, in the order of strcmp, and one blank
 * between two values:
 *
 *   HASH-GPTDataset-SPLIT BIN_BYTES BIN_MODIFIED IDX_BYTES IDX_MODIFIED EXTRA DROP SUM SUM SUM
 *   HASH-BlendedDataset-SPLIT SUM SUM
 *
 * A SUM is the XXH3-64 of an array's file. The keys of a directory are those of all such files in
 * it; they are read when its first complete set is found. Of several keys of one set, that with the
 * sums of its files counts. Any thread may use a cache, between its beginning and its commit.
 */
#ifndef DATA_MAP_CACHE_H
#define DATA_MAP_CACHE_H

#include "lib/base/file_set.h"

struct map_cache;

struct map_cache *map_cache_new(void);
/* Frees c in every case. The keys get their names first: maps that were being replaced when the
 * program died are then known as those of their key, and damaged. */
int map_cache_commit(struct map_cache *c, struct err *e);
/* Leaves the directories as they were; frees c, NULL is allowed. */
void map_cache_abort(struct map_cache *c);

/* --- for the readers and writers of maps ------------------------------------------------------ */

/* The files to come, besides the keys. */
struct file_set *map_cache_files(struct map_cache *c);

/* The key of a set but for its sums; each value of the last two comes after a blank. */
struct map_key {
	const char *set;     /* HASH-CLASS-SPLIT */
	const char *data;    /* what the maps are made from */
	const char *options; /* how; neither changes the name of the set */
};
enum key_verdict {
	KEY_NONE,  /* nothing of use: another program made them, or they are of other options */
	KEY_STALE, /* ours, and damaged or of other data: of no use to anybody */
	KEY_FITS,
};
/* What the keys in dir say of files with these sums, a blank before each; "": any sums fit. */
enum key_verdict map_cache_verdict(
    struct map_cache *c, const char *dir, const struct map_key *key, const char *sums);
/* Of a set that was added to the files, or was validated. */
void map_cache_add(
    struct map_cache *c, const char *dir, const struct map_key *key, const char *sums);

#endif

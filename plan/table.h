/*
 * table.h - records by keys of a few numbers: a hash table that grows
 */
#ifndef PLAN_TABLE_H
#define PLAN_TABLE_H

#include <stddef.h>

enum { TABLE_KEY = 10 };

/* A record begins with its key, an array of ints. Zero-initialise but for the size. */
struct table {
	size_t size; /* of a record */
	void **slot; /* owned, as the records are */
	int num_slots, count;
};

/* The record of a key, with zeros after the key where there was none. It stays where it is. */
void *table_get(struct table *t, const int key[TABLE_KEY]);
void table_release(struct table *t);

#endif

/* one_document.h - datasets that are written document by document */
#ifndef TESTS_ONE_DOCUMENT_H
#define TESTS_ONE_DOCUMENT_H

#include "lib/base/mem.h"
#include "lib/data/dataset.h"

#include <stdlib.h>

/* Appends a document of so many sequences; tokens are in the file's type. */
static inline int
add_document(struct dataset_writer *w, const void *tokens, const int32_t *lengths,
    int32_t sequences, struct err *err)
{
	const struct dataset_batch b = { .tokens = tokens,
		.lengths = lengths,
		.per_document = &sequences,
		.sequences = sequences,
		.documents = 1 };

	return dataset_add_batch(w, &b, err);
}

/* Appends a document of one sequence of ids that type, the file's, holds; they are not checked. */
static inline int
add_ids(
    struct dataset_writer *w, enum dtype type, const int64_t *ids, int32_t count, struct err *err)
{
	size_t size = dtype_size(type);
	char *tokens = mem_alloc((size_t)count + 1, size);
	int rc;

	for (int32_t i = 0; i < count; i++)
		memcpy(tokens + (size_t)i * size, &ids[i], size);
	rc = add_document(w, tokens, &count, 1, err);
	free(tokens);
	return rc;
}

#endif

/* dataset_impl.h - shared by dataset.c (reading), dataset_check.c (rules), dataset_write.c,
 * dataset_publish.c, dataset_copy.c, dataset_resume.c, dataset_repair.c and mask.c */
#ifndef DATA_DATASET_IMPL_H
#define DATA_DATASET_IMPL_H

#include "lib/base/map.h"
#include "lib/base/outfile.h"
#include "lib/data/dataset.h"
#include "lib/data/sums_write.h"

#include <string.h>

/* Bytes; values moved at a time; entries checked before their pages are released. */
enum { DATASET_HEADER = 34, DATASET_CHUNK = 8192, DATASET_FORGET = 2 << 20 };

struct dataset {
	char *prefix, *idx_path, *bin_path;
	struct map idx, bin; /* bin is empty when the tokens are read with pread */
	int bin_fd;          /* -1 when they are mapped */
	uint64_t bin_bytes;
	struct timespec bin_modified;
	enum dtype type;
	int64_t sequences, documents, tokens;
	const unsigned char *length;   /* i32[sequences] */
	const unsigned char *offset;   /* i64[sequences], bytes into the .bin */
	const unsigned char *document; /* i64[documents + 1] */
	bool modes;                    /* i8[sequences] follow the documents */
	struct dataset *mask;          /* NULL: none */
	bool mask_named;
};

struct dataset_writer {
	struct outfile bin;        /* bin.f is NULL when only the index is written */
	char *buffer;              /* of bin.f */
	uint64_t unwritten;        /* bytes of bin whose write-back was not started */
	FILE *lengths, *documents; /* i32 and i64 values; unnamed, gone when closed */
	FILE *modes;               /* i8, the same; NULL: none so far */
	struct sums_writer sums;   /* of bin; its file is unnamed too */
	char *prefix, *notes;      /* notes: the text of PREFIX.json; NULL: not written */
	enum dtype type;
	int64_t min, max; /* the range of the type */
	int64_t sequences, boundaries;
	bool keep;         /* the temporary files have names, so that another run can continue */
	struct lock *lock; /* of the prefix, the caller's; NULL: none is checked */
	bool fresh;        /* no file of an older dataset may be there */
	/* of PREFIX_mask, under the lock of the tokens; NULL: none */
	struct dataset_writer *mask;
};

/* Element i of an unaligned array of 32-bit integers. */
static inline int32_t
load32(const unsigned char *p, int64_t i)
{
	int32_t v;

	memcpy(&v, p + 4 * i, 4);
	return v;
}

/* Element i of an unaligned array of 64-bit integers. */
static inline int64_t
load64(const unsigned char *p, int64_t i)
{
	int64_t v;

	memcpy(&v, p + 8 * i, 8);
	return v;
}

/* PREFIX followed by a suffix; free() it. */
char *dataset_path(const char *prefix, const char *suffix);

/* The rules, each relying on those before it; -1 with the first that is violated. */
int dataset_check_head(struct dataset *d, struct err *e);      /* magic, version, type: sets type */
int dataset_check_arrays(struct dataset *d, struct err *e);    /* sets the counts and the arrays */
int dataset_check_sequences(struct dataset *d, struct err *e); /* sets tokens */
int dataset_check_documents(const struct dataset *d, struct err *e);
int dataset_check_bin(const struct dataset *d, struct err *e);

/* Opens both files without checks; call dataset_close_files whatever it returns. */
int dataset_open_files(struct dataset *d, const char *prefix, bool no_mmap_bin, struct err *e);
void dataset_close_files(struct dataset *d);

/* mask.c: the prefix of the mask that the notes of a dataset name, or, when there is such an index,
 * PREFIX_mask; NULL: no mask. free() it. */
int dataset_find_mask(struct dataset *d, char **out, struct err *e);
/* Opens the mask of a dataset that is open, if it has one. */
int dataset_open_mask(struct dataset *d, const struct dataset_options *o, struct err *e);

/* A writer without files. */
struct dataset_writer *dataset_writer_bare(const char *prefix, enum dtype t);
/* A writer of only PREFIX.idx, for an existing PREFIX.bin. */
struct dataset_writer *dataset_writer_index(const char *prefix, enum dtype t, struct err *e);
/* Gives the files of a writer their names: all that has been written, and its complete index, and
 * that of its mask, if it has one. */
int dataset_publish(
    struct dataset_writer *w, struct outfile *idx, struct outfile *mask_idx, struct err *e);
/* True when that was cut short, and no index has the final name. */
bool dataset_is_unfinished(const char *prefix);
/* Writes `count` tokens given as int64, each checked against the type. */
int dataset_write_ids(struct dataset_writer *w, const int64_t *ids, size_t count, struct err *e);
/* Writes lengths as the format stores them. */
int dataset_write_lengths(
    struct dataset_writer *w, const void *lengths, int64_t count, struct err *e);
/* Writes document ends, as numbers of sequences in the new dataset. */
int dataset_write_boundaries(
    struct dataset_writer *w, const int64_t *ends, int64_t count, struct err *e);
/* Tokens as they are stored: every byte of the .bin comes here. -1 with errno. */
int dataset_put(struct dataset_writer *w, const void *bytes, size_t len);
/* The same from a file; EIO when it ends too early. */
int dataset_put_from(struct dataset_writer *w, int fd, uint64_t at, uint64_t bytes);
/* Copies bytes [at, at + bytes) of an open dataset's .bin unchanged. */
int dataset_write_bin(
    struct dataset_writer *w, const struct dataset *d, uint64_t at, uint64_t bytes, struct err *e);

#endif

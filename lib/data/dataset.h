/*
 * dataset.h - Megatron-LM's PREFIX.bin and PREFIX.idx: one reader, one writer
 *
 * A sequence is one entry of the length array; a document is a run of sequences. The reader maps
 * the index, maps the tokens or reads them with pread, and checks the whole index on opening
 * (magic, version, type, sizes against the file, lengths, offsets, document index, size of the
 * .bin), so that later code needs no checks. Source: Megatron-LM core/datasets/indexed_dataset.py.
 */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include "lib/base/dtype.h"
#include "lib/base/err.h"
#include "lib/base/lock.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

struct dataset;

/* The most that the 32-bit index maps of training can number; a dataset with more is refused. */
#define DATASET_MAX_SEQUENCES INT32_MAX

struct dataset_options {
	/* read tokens with pread: one descriptor each, for file systems that handle maps badly */
	bool no_mmap_bin;
	/* accept more than DATASET_MAX_SEQUENCES, to inspect or to divide them */
	bool any_count;
	bool mask; /* open its mask too, if it has one */
};

struct dataset *dataset_open(const char *prefix, struct err *e); /* without options */
struct dataset *dataset_open_with(
    const char *prefix, const struct dataset_options *o, struct err *e);
void dataset_close(struct dataset *d);
const char *dataset_prefix(const struct dataset *d);
enum dtype dataset_dtype(const struct dataset *d); /* usually U16 or I32; also U8 I8 I16 I64 */
int64_t dataset_num_sequences(const struct dataset *d);
int64_t dataset_num_documents(const struct dataset *d); /* entries of the document index less one */
int64_t dataset_num_tokens(const struct dataset *d);
int64_t dataset_length(const struct dataset *d, int64_t sequence); /* tokens of one sequence */
int64_t dataset_document_start(
    const struct dataset *d, int64_t document); /* first sequence; document may be the count */
bool dataset_has_modes(const struct dataset *d);
/* Drops the pages of the index that were read from this process's memory; for passes over all of
 * it. */
void dataset_forget(const struct dataset *d);
/* Copies tokens [first, first + count) of a sequence as int64; the range must lie inside it. -1
 * only when a file that is not mapped cannot be read, or has become shorter. */
int dataset_tokens(const struct dataset *d, int64_t sequence, int64_t first, int64_t count,
    int64_t *out, struct err *e);
/*
 * A dataset may have a mask: PREFIX_mask, a dataset of bytes with the same lengths and documents,
 * where 1 says that the loss counts the token where it is the label, and 0 that it does not.
 * Megatron-LM reads PREFIX as before. PREFIX.json names it; a pair of that name which the notes do
 * not name is the mask too. Opened with the tokens on request; NULL: it has none, or was not asked
 * for.
 */
const struct dataset *dataset_mask(const struct dataset *d);
bool dataset_mask_named(const struct dataset *d); /* PREFIX.json names it */
/* Bytes of the mask, like dataset_tokens; 1 where there is no mask. */
int dataset_weights(const struct dataset *d, int64_t sequence, int64_t first, int64_t count,
    uint8_t *out, struct err *e);
/* 0 when bytes of the mask are 0 or 1; -1 with the place of one that is not. first: of the .bin. */
int dataset_mask_values(
    const struct dataset *mask, const uint8_t *bytes, int64_t first, int64_t count, struct err *e);
/* Announces that the tokens will be read soon: the kernel may start fetching them from disk. */
void dataset_will_need(const struct dataset *d, int64_t sequence, int64_t first, int64_t count);
/* The position of a sequence's first token in the .bin; sequence may be the count. */
int64_t dataset_sequence_start(const struct dataset *d, int64_t sequence);
/* The sequence that holds a token of the .bin, and the document that holds a sequence: never an
 * empty one; -1 outside the dataset. */
int64_t dataset_sequence_at(const struct dataset *d, int64_t token);
int64_t dataset_document_at(const struct dataset *d, int64_t sequence);
/* The bytes [at, at + bytes) of the .bin as stored, at least one: borrowed from the map, or read
 * into room. NULL when they cannot be read. */
const void *dataset_bytes(
    const struct dataset *d, uint64_t at, size_t bytes, void *room, struct err *e);
/* Converts stored tokens to int64. */
void dataset_widen(enum dtype t, const void *stored, int64_t count, int64_t *out);
uint64_t dataset_bin_bytes(const struct dataset *d);

/* A file as it was when it was opened. */
struct dataset_file {
	uint64_t bytes;
	struct timespec modified;
};
void dataset_files(const struct dataset *d, struct dataset_file *bin, struct dataset_file *idx);
uint64_t dataset_index_hash(const struct dataset *d); /* XXH3-64 of the .idx */
/* That hash and the size of the .bin as text: sums.h tells what a checkpoint records after them. */
void dataset_fingerprint(const struct dataset *d, uint64_t index, char out[64]);

/* U16 when vocab_size < 65500, else I32. Source: DType.optimal_dtype. */
enum dtype dataset_dtype_for(int64_t vocab_size);
/* The narrowest type that holds the ids of both. */
enum dtype dataset_common_type(enum dtype a, enum dtype b);

/*
 * The one writer of a dataset holds PREFIX.lock from before it examines the target until it has
 * committed. dataset_claim takes it, and first finishes what a writer that was killed has complete
 * under the names PREFIX.bin.new, PREFIX.json.new and PREFIX.idx.new. Of the terms only say and
 * give_up count.
 */
struct lock *dataset_claim(const char *prefix, const struct lock_terms *how, struct err *e);
/* 0 when a dataset may be written under this prefix: no file has one of its names or, if replace,
 * they are those of a whole dataset, and none is a link. The reason names the file. */
int dataset_check_target(const char *prefix, bool replace, struct err *e);

/*
 * The writer streams the .bin under a temporary name; lengths spill to a temporary file, so memory
 * does not grow with the input. commit writes the .idx last, after the checksums of the tokens
 * (sums.h): a .idx that exists is complete.
 */
struct dataset_writer;

struct dataset_writer *dataset_writer_new(const char *prefix, enum dtype t, struct err *e);
/* Gives a writer a mask, before anything is added by this process: it appears together with the
 * tokens, as PREFIX_mask, and the notes are to name it. Documents of a dataset without a mask count
 * whole. The prefix is valid as long as the writer. */
int dataset_writer_add_mask(struct dataset_writer *w, struct lock *lock, struct err *e);
const char *dataset_writer_mask_name(const struct dataset_writer *w); /* last part; NULL: none */
/* An unnamed file in the directory of the prefix, so that it fills that disk and not /tmp. */
FILE *dataset_spill(const char *prefix, struct err *e);
/* Whole documents: tokens in the file's type, the lengths of all sequences, and the number of
 * sequences of each document. */
struct dataset_batch {
	const void *tokens; /* in memory */
	const int32_t *lengths, *per_document;
	int64_t sequences, documents;
	uint64_t stored_bytes; /* of the tokens that come before them, at the beginning of a file */
	int stored;            /* that file, if there are any */
	/* of a writer with a mask: its byte of every token, the same way */
	const void *mask;
	uint64_t mask_stored_bytes;
	int mask_stored;
};
int dataset_add_batch(struct dataset_writer *w, const struct dataset_batch *b, struct err *e);
/* Appends the documents [begin, end) of an open dataset, empty ones too, in constant memory. Tokens
 * of the writer's type are copied from file to file; others are converted, and each is checked.
 * Modes are copied too: either everything that is added has modes, or nothing. */
int dataset_add_documents(
    struct dataset_writer *w, const struct dataset *d, int64_t begin, int64_t end, struct err *e);
/* dataset_written: what was added so far. dataset_writer_describe: the text of PREFIX.json, which
 * is copied; commit renames it into place before the .idx. */
struct dataset_counts {
	int64_t documents, sequences, tokens;
};
struct dataset_counts dataset_writer_counts(const struct dataset_writer *w);
void dataset_writer_describe(struct dataset_writer *w, const char *json);
/* The lock of dataset_claim, which commit checks, and whether an older dataset may be replaced;
 * without this call no lock is checked, and it may. */
void dataset_writer_guard(struct dataset_writer *w, struct lock *lock, bool replace);
int dataset_commit(struct dataset_writer *w, struct err *e); /* frees w in every case */
void dataset_abort(struct dataset_writer *w);

/*
 * A writer that another run can continue: its temporary files are PREFIX.bin.part,
 * PREFIX.lengths.part, PREFIX.documents.part and PREFIX.sums.part, and stay when it is aborted or
 * fails to commit.
 */
struct dataset_mark {
	int64_t bin_bytes, sequences, documents;
};

/* from: the mark of dataset_sync; everything after it is cut off. NULL starts over. lock: of
 * dataset_claim, an error if it is lost; files that its former holder may still have open are
 * copied. */
struct dataset_writer *dataset_writer_resume(const char *prefix, enum dtype t,
    const struct dataset_mark *from, struct lock *lock, struct err *e);
/* Syncs everything that was added; *mark is its size. */
int dataset_sync(struct dataset_writer *w, struct dataset_mark *mark, struct err *e);
/* 1 when the commit of such a writer, after this mark, was completed, else 0; -1 with the reason
 * when its files cannot be looked at. */
int dataset_was_committed(const char *prefix, const struct dataset_mark *mark, struct err *e);
/* Removes the temporary files, which may be missing; lock: as of dataset_writer_resume. */
int dataset_drop_parts(const char *prefix, struct lock *lock, struct err *e);

#endif

/*
 * document.h - what a worker does: from a batch of lines to the ids and lengths of their documents
 *
 * A job is a batch and its results for every tokenizer and every key; ids are in the dataset's type
 * already, so that the writer only copies bytes. Bad lines are kept with their number within the
 * batch; the writer decides what to do about them.
 */
#ifndef TOK_DOCUMENT_H
#define TOK_DOCUMENT_H

#include "lib/base/dtype.h"
#include "lib/token/tokenizer.h"
#include "tok/chat.h"
#include "tok/input.h"
#include "tok/jsonl.h"
#include "tok/spool.h"

#include <stdbool.h>
#include <stdint.h>

/* Documents of 0, 1, 2 to 3, 4 to 7, ... tokens. */
enum { LENGTH_BUCKETS = 42 };

struct key_counts {
	int64_t sequences, tokens, bytes; /* bytes of text, decoded */
	int64_t longest;                  /* document, in tokens */
	int64_t trained;                  /* tokens that a mask counts */
	int64_t bucket[LENGTH_BUCKETS];   /* documents by length */
};

/* What all workers have in common. */
struct document_plan {
	const struct opt_list *keys;
	struct tokenizer *const *tokenizer;
	int num_tokenizers;
	enum dtype dtype;
	int64_t bos, eod;  /* -1: none is added */
	int64_t max_bytes; /* of a line */
	bool discard;      /* only count */
	bool stop_at_bad;  /* the job ends at its first bad line */
	bool split_sentences, keep_newlines;
	const struct chat *chat; /* lines that say what is trained; NULL: texts */
	const char *prefix; /* tokens of long documents are stored beside it; NULL with discard */
};

/* The results of a batch for one tokenizer and key: documents as runs of sequences. */
struct part {
	struct spool tokens;           /* of the dtype */
	struct spool mask;             /* with chat: a byte for each of them */
	struct str lengths, sequences; /* one int32 per sequence; one int32 per document */
	struct key_counts counts;
};

struct bad_line {
	int64_t line;  /* within the batch, from 0 */
	size_t offset; /* of the line in the batch */
	enum jsonl_class class;
	size_t why; /* where its reason begins in the job's words; ended by a NUL */
};

struct job {
	struct batch batch;
	struct part *part; /* num_tokenizers times the keys */
	int64_t documents, blank, lines;
	struct bad_line *bad;
	size_t num_bad, cap_bad;
	struct str words;
	bool failed; /* none of it is to be written */
	struct err why;
};

struct scratch;

void job_init(struct job *j, const struct document_plan *p);
void job_release(struct job *j, const struct document_plan *p);

/* One per worker; the plan and its tokenizers must outlive it. */
struct scratch *scratch_new(const struct document_plan *p);
void scratch_free(struct scratch *s);

/* Fills the job from its batch. The text of a large batch is freed; its place and size stay. */
void job_work(struct job *j, struct scratch *s);

#endif

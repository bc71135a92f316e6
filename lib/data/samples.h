/*
 * samples.h - which tokens make sample i of one corpus: Megatron-LM's document, sample and shuffle
 * index
 *
 * Bit-identical to Megatron-LM's GPTDataset; lib/data/blend.h combines corpora. The three maps are
 * taken from the cache directory when they fit, otherwise built and, if the caller wants it,
 * written there under Megatron-LM's names. Source: Megatron-LM core/datasets/gpt_dataset.py and
 * helpers.cpp; numpy's legacy shuffle.
 *
 * The cache. Megatron-LM's name of a map covers neither the content of the corpus nor the extra
 * token nor the last partial sample. The key of a set of maps, a line of a file that lists those of
 * a whole run (map_cache.h), therefore holds the sizes and modification times of the corpus, those
 * two options, and the checksum of each map. Maps are taken when a key has this dataset, these
 * options and their checksums; else, like those that Megatron-LM made, when they are validated:
 * each sequence of the split occurs once per epoch; the rows are where the walk over the lengths
 * puts them; the shuffle is a permutation of the samples. Otherwise the maps are rebuilt. They
 * replace maps whose key shows that the corpus has changed or that they are damaged; all others
 * stay, and the new ones are named by the MD5 of the description with the two options added. Files
 * appear whole, so any number of processes may build the same maps at once.
 *
 * Best-fit packing (packing.h) keeps sequences whole: a sample is a bin of seq_length + 1 tokens at
 * most. The sequences of each epoch are shuffled, packed, and the bins are shuffled, so that a
 * longer run reads the same samples first. The maps have the same form: the document index lists
 * the sequences bin by bin, the sample index the position where each bin begins. Where a sequence
 * has more tokens than a bin, it lists items, and a fourth map, the item index, has the sequence
 * and the first token of each. These maps are only taken with their key.
 */
#ifndef DATA_SAMPLES_H
#define DATA_SAMPLES_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/data/dataset.h"
#include "lib/data/packing.h"
#include "lib/data/paths.h"

/* --split as Megatron-LM reads it: bookends of each split as fractions; begin == end when the split
 * is absent. */
struct split_matrix {
	bool present[SPLIT_COUNT];
	double begin[SPLIT_COUNT], end[SPLIT_COUNT];
};

int split_parse(const char *text, struct split_matrix *out, struct err *e);
/* Sequences [*begin, *end) of a corpus with num_sequences. */
void split_range(const struct split_matrix *m, enum split which, int64_t num_sequences,
    int64_t *begin, int64_t *end);

struct samples_config {
	enum split which;
	const char *split;   /* the text, for the name of the maps; NULL: the whole corpus */
	int64_t num_samples; /* requested; -1: one epoch */
	int64_t seq_length;
	int64_t seed;
	bool add_extra_token; /* samples carry seq_length + 1 tokens (the default) */
	/* the default; Megatron-LM keeps it only in the valid split, and only on request */
	bool drop_last_partial;
	enum sample_packing packing;        /* how sequences become samples */
	enum long_documents long_documents; /* of best-fit */
	/* "tokenizer" of the description, indented by 4; NULL: a null tokenizer of size 0 */
	const char *tokenizer_json;
	/* NULL: PREFIX/cache/GPTDataset_indices, and blends are not cached */
	const char *cache_dir;
	bool write_cache; /* write missing maps; a failed write is an error */
	/* accept maps with a key without reading them: another process has just checked them */
	bool trust_cache;
};

struct samples;

void samples_close(struct samples *s);
int64_t samples_count(const struct samples *s); /* at least num_samples */
int64_t samples_num_epochs(const struct samples *s);
int64_t samples_tokens_per_epoch(const struct samples *s);
bool samples_separate_final_epoch(const struct samples *s);
int64_t samples_num_samples(const struct samples *s); /* the request; -1: one epoch */
/* The passes over the corpus that so many samples make. */
double samples_epochs(const struct samples *s, int64_t samples);
/* The share of the tokens of an epoch's bins that are not padding; 1 without packing. */
double samples_fullness(const struct samples *s);
bool samples_from_cache(const struct samples *s);
/* One line with the reason why existing maps were not taken; NULL when there is none. */
const char *samples_note(const struct samples *s);
/* 32 hexadecimal digits: MD5 of the description. */
const char *samples_hash(const struct samples *s);
void samples_description(const struct dataset *d, const struct samples_config *c, struct str *out);
/*
 * The tokenizer object for samples_config: class_name NULL is Megatron-LM's MegatronTokenizerText,
 * path NULL is null; each option is "key=value", in the order of the constructor's call ("key"
 * alone: None). All NULL: the null tokenizer of size 0.
 */
void samples_tokenizer(const char *class_name, const char *path, const char *const *option,
    int count, struct str *out);

/* Where a sample's tokens come from; the parts are in order. Used for tokens, document boundaries
 * and error messages. */
struct sample_part {
	int64_t sequence, first, count;
};
/* Writes at most cap parts; returns the number that the sample has (call again with more room when
 * it is larger). */
int64_t samples_parts(
    const struct samples *s, int64_t sample, struct sample_part *out, int64_t cap);
/* The seq_length + 1 tokens of a sample (fewer for a kept partial last one); returns their number,
 * or -1 when they cannot be read. out holds seq_length + 1. */
int64_t samples_tokens(const struct samples *s, int64_t sample, int64_t *out, struct err *e);
/* The bytes of the mask that belong to these tokens, 1 where there is no mask; as many. */
int64_t samples_weights(const struct samples *s, int64_t sample, uint8_t *out, struct err *e);

/* The samples, in order, that read a sequence of [first, end): their number, and free() *out. */
int64_t samples_reading(const struct samples *s, int64_t first, int64_t end, int64_t **out);

/* Entry i of the maps. */
void samples_sample_index(const struct samples *s, int64_t i, int64_t *position, int64_t *offset);
int64_t samples_shuffle_index(const struct samples *s, int64_t i);

/*
 * From tokens to a training sample (gpt_dataset.py, _get_ltor_masks_and_position_ids). Missing ids
 * are padding. eod or pad -1: none. A label counts where its byte of the mask is 1.
 */
struct sample_tokens {
	const int64_t *id; /* [count], at most seq_length + 1 */
	int64_t count;
	const uint8_t *mask; /* [count]; NULL: all 1 */
	/* [count]: where the document of each begins, of documents that are apart whatever their
	 * tokens are; the first token of one is no label. NULL: documents end at eod */
	const int32_t *begin;
};
struct sample_options {
	int64_t eod, pad;
	bool add_extra_token, eod_mask_loss, reset_position_ids;
};
struct sample {
	int32_t *tokens, *labels, *position_ids; /* [seq_length], the caller's memory */
	float *loss_mask;                        /* [seq_length] */
	/* [seq_length], or NULL: the first position that a token sees, after the last eod before
	 * it. */
	int32_t *documents;
};
void sample_assemble(const struct sample_options *o, const struct sample_tokens *t,
    int64_t seq_length, struct sample *out);

#endif

/*
 * bpe.h - byte-pair merging of one piece
 *
 * The rule: start with one symbol a byte; among neighbouring pairs that may merge join the one of
 * lowest rank, leftmost on a tie; stop when none is left. Short pieces search the minimum, long
 * ones keep a heap (n log n, so that a run of a million equal letters is no trap), and short pieces
 * are remembered in a bounded cache. All three give the same ids.
 */
#ifndef TOKEN_BPE_H
#define TOKEN_BPE_H

#include "lib/token/tokenizer.h"

#include <stdint.h>

enum { BPE_LINEAR_MAX = 32 };           /* bytes; longer pieces use the heap */

struct bpe;
struct bpe_worker;

/* byte_id[b] is the id of byte b; capacity is the number of merges that will be added. */
struct bpe *bpe_new(const uint32_t byte_id[256], size_t capacity);
void bpe_free(struct bpe *b);
/* Says that left and right may merge into joined; ranks are below 2^32 - 1. False when the pair has
 * a rank already. */
bool bpe_add(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t joined);

struct bpe_worker *bpe_worker_new(void);
void bpe_worker_free(struct bpe_worker *w);

/* Appends the ids of a piece of at most 2^31 bytes. */
void bpe_encode(const struct bpe *b, struct bpe_worker *w, const unsigned char *piece, size_t len,
    struct token_ids *out);

/* The two methods by themselves, for tests: linear needs len <= BPE_LINEAR_MAX. Each returns the
 * number of ids written to out, which holds len. */
size_t bpe_merge_linear(const struct bpe *b, const unsigned char *piece, size_t len, uint32_t *out);
size_t bpe_merge_heap(const struct bpe *b, struct bpe_worker *w, const unsigned char *piece,
    size_t len, uint32_t *out);

#endif

/*
 * ids.h - a growing array of token ids: what every model of a tokenizer appends to
 *
 * A text may have more ids than memory should hold: a list with a `pass` hands them on while they
 * are made. The model decides where: token_ids_add may hand all of them on, and code that writes
 * without it calls token_ids_pass where only the last few ids are still needed.
 */
#ifndef TOKEN_IDS_H
#define TOKEN_IDS_H

#include <stddef.h>
#include <stdint.h>

/* The number of ids from which a list is handed on. */
enum { TOKEN_IDS_PART = 1 << 16 };

/* Zero-initialise, token_ids_release. */
struct token_ids {
	uint32_t *id;
	size_t count, cap; /* count: ids not yet handed on */
	/* Takes the next n > 0 ids of the text; NULL: all of them stay. */
	void (*pass)(void *ctx, const uint32_t *id, size_t n);
	void *ctx;
};

/* Room for that many more; running out of memory ends the program. */
void token_ids_reserve(struct token_ids *l, size_t extra);
void token_ids_add(struct token_ids *l, uint32_t id);
/* Hands on all but the last `keep` ids if there are TOKEN_IDS_PART or more and `pass` is set. */
void token_ids_pass(struct token_ids *l, size_t keep);
void token_ids_release(struct token_ids *l);

#endif

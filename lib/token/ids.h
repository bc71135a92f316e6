/* ids.h - a growing array of token ids: what every model of a tokenizer appends to */
#ifndef TOKEN_IDS_H
#define TOKEN_IDS_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialise, token_ids_release. */
struct token_ids {
	uint32_t *id;
	size_t count, cap;
};

/* Room for that many more; running out of memory ends the program. */
void token_ids_reserve(struct token_ids *l, size_t extra);
void token_ids_add(struct token_ids *l, uint32_t id);
void token_ids_release(struct token_ids *l);

#endif

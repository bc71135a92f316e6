/*
 * chat.h - lines of JSON Lines that say which of their tokens are trained
 *
 *   ids       KEY is a list of ids, and another member a list of as many 0 and 1
 *   segments  KEY is a list of {"text": STRING, "train": BOOL}
 *   spans     KEY is a text, and another member a list of [begin, end) in code points
 *   messages  KEY is a list of {"role", "content"}, and a table says what stands before and after
 *             a content of each role
 *
 * All but ids become one text with the ranges of its bytes that are trained. The text is encoded
 * once, as transformers' apply_chat_template does: pieces that are encoded one by one have other
 * ids.
 */
#ifndef TOK_CHAT_H
#define TOK_CHAT_H

#include "lib/base/opt.h"
#include "lib/base/str.h"
#include "lib/token/tokenizer.h"
#include "tok/jsonl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum chat_kind { CHAT_NONE, CHAT_IDS, CHAT_SEGMENTS, CHAT_SPANS, CHAT_MESSAGES };

/* What the options say. */
struct chat_config {
	const char *mask_key, *spans_key, *format; /* NULL: not given */
	struct opt_list ignore;                    /* further members of a message */
	bool segments, allow_control;
};
/* -1: options that exclude each other, or need another one. */
int chat_check(const struct chat_config *c, enum chat_kind *kind, struct err *e);

/* The table of --chat-format. */
struct chat_table;
struct chat_table *chat_table_parse(const char *text, size_t len, const char *name, struct err *e);
void chat_table_free(struct chat_table *t); /* NULL is allowed */

/* What all lines have in common; read-only, so workers share it. The config outlives it. */
struct chat;
/* key: of --json-keys. t: its special tokens are refused in contents. NULL with the reason when the
 * table cannot be read. */
struct chat *chat_open(
    const struct chat_config *c, const char *key, const struct tokenizer *t, struct err *e);
void chat_close(struct chat *c); /* NULL is allowed */

struct chat_range {
	size_t begin, end; /* bytes of the text */
};
/* One line. Zero-initialise, chat_line_release. */
struct chat_line {
	bool has_ids;
	int64_t *id; /* [count] */
	uint8_t *mark;
	size_t count, cap_ids;
	struct str text;
	struct chat_range *range; /* in order, apart */
	size_t ranges, cap_ranges;
	char why[256]; /* of a line that is not JSONL_OK */
};
/* Reads a line that is well-formed UTF-8 and JSON. */
enum jsonl_class chat_read(const struct chat *c, const char *line, size_t len, struct chat_line *l);
void chat_line_release(struct chat_line *l);

/*
 * Marks the tokens of a text: mark[k] is 1 when bytes of token k are in a range. The place of a
 * token is that of its bytes in the joined bytes of all, of which a blank at the start may not be
 * in the text. -1 when the tokens do not give the text back. room: memory to reuse.
 */
int chat_mark(const struct tokenizer *t, const struct chat_line *l, const struct token_ids *ids,
    uint8_t *mark, struct str *room);

#endif

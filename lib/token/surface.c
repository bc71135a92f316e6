/*
 * surface.c - what tokens stand for in a document, in one form for all kinds of tokenizers
 *
 * For comparing the vocabularies of two tokenizers, and for what one makes of a piece of the other.
 */
#include "lib/base/utf8.h"
#include "lib/token/byte_piece.h"
#include "lib/token/tokenizer_impl.h"

#include <string.h>

static const char mark[] = "\xe2\x96\x81"; /* U+2581 */

/* Appends a text with blanks for their marks. */
static void
add_unescaped(struct str *out, const char *s, size_t n)
{
	const char *end = s + n;

	while (s < end) {
		const char *next = memmem(s, (size_t)(end - s), mark, 3);

		str_add(out, s, (size_t)((next ? next : end) - s));
		if (next)
			str_addc(out, ' ');
		s = next ? next + 3 : end;
	}
}

enum surface
tokenizer_surface(const struct tokenizer *t, int64_t id, struct str *out)
{
	struct tokenizer_piece p = tokenizer_piece_at(t, id);
	bool text = p.type == PIECE_NORMAL || p.type == PIECE_BYTE;
	int byte = t->escaped && text ? byte_piece(p.bytes, p.len) : -1;

	if (byte >= 0) {
		str_addc(out, (char)byte);
		return SURFACE_BYTE;
	}
	if (t->escaped && text)
		add_unescaped(out, p.bytes, p.len);
	else
		str_add(out, p.bytes, p.len);
	if (!text)
		return p.type == PIECE_UNUSED ? SURFACE_NONE : SURFACE_CONTROL;
	if (p.len == 1 && !utf8_valid(p.bytes, 1))
		return SURFACE_BYTE;
	return p.len ? SURFACE_TEXT : SURFACE_NONE;
}

bool
tokenizer_has_text(const struct tokenizer *t)
{
	return t->kind->encode_piece;
}

int
tokenizer_encode_piece(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *out, struct err *e)
{
	if (!tokenizer_has_text(w->tokenizer))
		return err_set(e, "tokens of a NullTokenizer have no text");
	return w->tokenizer->kind->encode_piece(w, text, len, out, e);
}

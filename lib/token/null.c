/*
 * null.c - NullTokenizer: the text consists of token ids, decimal numbers separated by single
 * spaces
 *
 * For corpora that another program has tokenised, and for tests: there are no files to read and
 * every id is its own text. The last id is the end of a document.
 */
#include "lib/token/tokenizer_impl.h"

#include <string.h>

static const char *const types[] = { "NullTokenizer", NULL };

/* Only the type's name selects it. */
static bool
null_detect(const struct tokenizer_spec *spec, const unsigned char *head, size_t n)
{
	(void)spec, (void)head, (void)n;
	return false;
}

/* There are no files; the hash is the size. */
static int
null_open(struct tokenizer *t, const struct tokenizer_spec *spec, struct err *e)
{
	if (spec->vocab_size < 1)
		return err_set(e, "NullTokenizer needs --vocab-size of at least 1");
	if (spec->vocab_size > INT32_MAX)
		return err_set(e, "NullTokenizer: --vocab-size %lld is above 2147483647",
		    (long long)spec->vocab_size);
	t->vocab_size = spec->vocab_size;
	t->special[TOKENIZER_EOS] = spec->vocab_size - 1;
	t->hash = (uint64_t)spec->vocab_size;
	return 0;
}

/* open leaves nothing to free. */
static void
null_close(struct tokenizer *t)
{
	(void)t;
}

/*
 * Reads one number that ends at `end`; -1 when it is not a number below limit. Checked digit by
 * digit, so the product cannot overflow.
 */
static int64_t
number(const char *s, const char *end, int64_t limit)
{
	int64_t v = 0;

	if (s == end)
		return -1;
	for (; s < end; s++) {
		if (*s < '0' || *s > '9')
			return -1;
		v = v * 10 + (*s - '0');
		if (v >= limit)
			return -1;
	}
	return v;
}

/* Python's text.split(' '): two spaces in a row, or an empty text, are an error. */
static int
null_encode(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *out, struct err *e)
{
	int64_t limit = w->tokenizer->vocab_size;
	const char *end = text + len, *stop;

	for (const char *s = text;; s = stop + 1) {
		int64_t v;

		stop = s < end ? memchr(s, ' ', (size_t)(end - s)) : NULL;
		if (!stop)
			stop = end;
		v = number(s, stop, limit);
		if (v < 0)
			return err_set(e,
			    "'%.*s' at byte %lld of the text: must be an id below %lld",
			    (int)(stop - s < 40 ? stop - s : 40), s, (long long)(s - text) + 1,
			    (long long)limit);
		token_ids_add(out, (uint32_t)v);
		if (stop == end)
			return 0;
	}
}

/* Writes the numbers. */
static void
null_decode(struct tokenizer_worker *w, const uint32_t *ids, size_t count, struct str *out)
{
	(void)w;
	for (size_t i = 0; i < count; i++)
		str_addf(out, "%s%u", i ? " " : "", ids[i]);
}

/* Ids have no text; the end-of-document id counts as control. */
static struct tokenizer_piece
null_piece(const struct tokenizer *t, int64_t id)
{
	return (struct tokenizer_piece){ "", 0, 0,
		id == t->special[TOKENIZER_EOS] ? PIECE_CONTROL : PIECE_NORMAL };
}

const struct tokenizer_kind tokenizer_null = {
	.types = types,
	.detect = null_detect,
	.open = null_open,
	.close = null_close,
	.encode = null_encode,
	.decode = null_decode,
	.piece = null_piece,
};

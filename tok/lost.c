/*
 * lost.c - what of a text does not come back from a SentencePiece model
 *
 * The library's defaults are made for translation: they drop line feeds, tabs and runs of blanks,
 * and replace characters by others. Bytes are counted by kind in the text and in what comes back.
 */
#include "tok/lost.h"

#include <string.h>

void
lost_keep(struct lost *l, const char *text, size_t len)
{
	size_t room = LOST_BYTES - l->text.len;

	if (l->full)
		return;
	l->full = len >= room;
	/* not within a character */
	if (len > room)
		for (len = room; len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80; len--)
			;
	str_add(&l->text, text, len);
	str_add(&l->lengths, &len, sizeof len);
}

void
lost_release(struct lost *l)
{
	str_release(&l->text);
	str_release(&l->lengths);
}

/* What is missing of all texts, in bytes by their values, and in how many of them. */
struct missing {
	int64_t byte[256], texts;
};

static int
compare(const struct spm *m, struct spm_worker *w, const char *text, size_t len,
    struct missing *out, struct err *e)
{
	struct token_ids ids = { 0 };
	struct str back = { 0 };
	int64_t count[256] = { 0 };
	int rc = spm_encode(m, w, text, len, &ids, e);

	if (rc == 0) {
		spm_decode(m, ids.id, ids.count, &back);
		for (size_t i = 0; i < len; i++)
			count[(unsigned char)text[i]]++;
		for (size_t i = 0; i < back.len; i++)
			count[(unsigned char)back.buf[i]]--;
		for (int b = 0; b < 256; b++)
			out->byte[b] += count[b] > 0 ? count[b] : 0;
		out->texts += back.len != len || (len && memcmp(back.buf, text, len));
	}
	token_ids_release(&ids);
	str_release(&back);
	return rc;
}

int
lost_tell(const struct lost *l, const struct spm *m, struct str *out, struct err *e)
{
	struct spm_worker *w = spm_worker_new(m);
	struct missing missing = { 0 };
	const char *at = l->text.buf;
	size_t texts = l->lengths.len / sizeof(size_t), len;
	int64_t others = 0;
	int rc = 0;

	for (size_t i = 0; i < texts && rc == 0; i++, at += len) {
		memcpy(&len, l->lengths.buf + i * sizeof len, sizeof len);
		rc = compare(m, w, at, len, &missing, e);
	}
	spm_worker_free(w);
	if (rc < 0 || missing.texts == 0)
		return rc;
	for (int b = 0; b < 256; b++)
		others += b == '\n' || b == '\t' || b == ' ' ? 0 : missing.byte[b];
	str_addf(out,
	    "%lld of the first %zu texts do not come back from this model: %lld line feeds, %lld "
	    "tabs, %lld blanks and %lld other bytes are missing",
	    (long long)missing.texts, texts, (long long)missing.byte['\n'],
	    (long long)missing.byte['\t'], (long long)missing.byte[' '], (long long)others);
	return 0;
}

/*
 * spm.c - loading SentencePiece models and decoding by them
 *
 * A vocabulary must satisfy the library's rules: one unknown piece, and 256 byte pieces if and only
 * if there is byte fallback.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/byte_piece.h"
#include "lib/token/spm/spm_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char mark[] = "\xe2\x96\x81", replacement[] = "\xef\xbf\xbd"; /* U+2581, U+FFFD */

/* --- loading --- */

/* Maps byte pieces to bytes and back. */
static int
check_bytes(struct spm *m, const char *name, struct err *e)
{
	const struct spmodel *s = &m->model;
	bool seen[256] = { false };

	for (int i = 0; i < s->count; i++) {
		int byte = s->piece[i].type == SP_BYTE
		    ? byte_piece(s->piece[i].text, s->piece[i].len)
		    : -1;

		m->byte[i] = (int16_t)byte;
		if (s->piece[i].type != SP_BYTE)
			continue;
		if (byte < 0 || !s->byte_fallback)
			return err_at(e, name, 0, "byte piece %d %s", i,
			    byte < 0 ? "is not <0x00> to <0xFF>"
				     : "in a model without byte fallback");
		m->unknown.byte[byte] = (uint32_t)i;
		seen[byte] = true;
	}
	for (int b = 0; b < 256 && s->byte_fallback; b++)
		if (!seen[b])
			return err_at(e, name, 0, "byte fallback, but no piece <0x%02X>", b);
	return 0;
}

/* Also finds the unknown piece, whose text may be anything. */
static int
check_vocabulary(struct spm *m, const char *name, struct err *e)
{
	int unk = -1;

	for (int i = 0; i < m->model.count; i++)
		if (m->model.piece[i].type == SP_UNKNOWN) {
			if (unk >= 0)
				return err_at(e, name, 0,
				    "pieces %d and %d are both of type unknown: exactly one must "
				    "be",
				    unk, i);
			unk = i;
		}
	if (unk < 0)
		return err_at(e, name, 0, "no piece is of type unknown: exactly one must be");
	m->byte = mem_alloc((size_t)m->model.count, sizeof *m->byte);
	m->unknown.unk = (uint32_t)unk;
	m->unknown.bytes = m->model.byte_fallback;
	m->unknown.marks = m->model.normalizer.escape_whitespaces;
	return check_bytes(m, name, e);
}

/* NULL with a reason, which has the path, those of the normaliser too. */
struct spm *
spm_new(char *bytes, size_t len, enum unigram_ties ties, const char *name, struct err *e)
{
	struct spm *m = mem_zalloc(1, sizeof *m);
	struct spmodel *s = &m->model;
	struct err why;
	int rc;

	m->bytes = bytes;
	rc = spmodel_parse(s, bytes, len, name, e);
	if (rc == 0)
		rc = check_vocabulary(m, name, e);
	if (rc == 0 &&
	    (spmnorm_init(&m->normalizer, s, &s->normalizer, &why) < 0 ||
		spmnorm_init(&m->denormalizer, NULL, &s->denormalizer, &why) < 0))
		rc = err_at(e, name, 0, "%s", why.msg);
	if (rc < 0) {
		spm_free(m);
		return NULL;
	}
	spmcut_init(&m->cut, s);
	if (s->model == SP_BPE || s->model == SP_CHAR)
		spmbpe_init(&m->bpe, s);
	else
		spmuni_init(&m->uni, s, ties, &m->unknown);
	return m;
}

/* Also for a partly loaded model; NULL is allowed. */
void
spm_free(struct spm *m)
{
	if (!m)
		return;
	spmuni_release(&m->uni);
	spmbpe_release(&m->bpe);
	spmcut_release(&m->cut);
	spmnorm_release(&m->normalizer);
	spmnorm_release(&m->denormalizer);
	spmodel_release(&m->model);
	free(m->byte);
	free(m->bytes);
	free(m);
}

/* Ids are below this. */
int
spm_size(const struct spm *m)
{
	return m->model.count;
}

/* Word models search no path. */
bool
spm_is_unigram(const struct spm *m)
{
	return m->model.model == SP_UNIGRAM;
}

/* Found by the texts in the trainer's settings. */
int
spm_special(const struct spm *m, enum tokenizer_special which)
{
	switch (which) {
	case TOKENIZER_UNK: return m->model.unk;
	case TOKENIZER_BOS: return m->model.bos;
	case TOKENIZER_EOS: return m->model.eos;
	default: return m->model.pad;
	}
}

/* User-defined pieces count as normal. */
struct tokenizer_piece
spm_piece(const struct spm *m, int id)
{
	static const enum piece_type types[] = { [SP_NORMAL] = PIECE_NORMAL,
		[SP_UNKNOWN] = PIECE_UNKNOWN,
		[SP_CONTROL] = PIECE_CONTROL,
		[SP_USER_DEFINED] = PIECE_NORMAL,
		[SP_UNUSED] = PIECE_UNUSED,
		[SP_BYTE] = PIECE_BYTE };
	const struct sp_piece *p = &m->model.piece[id];

	return (struct tokenizer_piece){ p->text, p->len, p->score, types[p->type] };
}

/* --- decoding --- */

/* Appends the bytes of a run of byte pieces; malformed UTF-8 among them is replaced byte by
 * byte. */
static void
add_bytes(const struct spm *m, const uint32_t *ids, size_t count, struct str *out)
{
	for (size_t i = 0; i < count;) {
		unsigned char bytes[4];
		size_t have = 0;
		uint32_t cp;
		int len;

		while (have < 4 && i + have < count) {
			bytes[have] = (unsigned char)m->byte[ids[i + have]];
			have++;
		}
		len = utf8_decode(bytes, have, &cp);
		str_add(out, len ? (const char *)bytes : replacement, len ? (size_t)len : 3);
		i += len ? (size_t)len : 1;
	}
}

/*
 * Appends a piece that is not a byte. At the beginning one mark is the dummy blank and is dropped,
 * or all of them if leading blanks are dropped; returns true when the dummy blank was dropped.
 */
static bool
add_piece(const struct spm *m, const struct sp_piece *p, bool beginning, struct str *out)
{
	const struct sp_normalizer *n = &m->model.normalizer;
	const char *s = p->text, *end = s + p->len;
	bool dropped;

	if (p->type == SP_CONTROL)
		return false;
	if (p->type == SP_UNKNOWN) {
		str_add(out, m->model.unk_surface.bytes, m->model.unk_surface.len);
		return false;
	}
	dropped = beginning && (n->add_dummy_prefix || n->remove_extra_whitespaces) &&
	    end - s >= 3 && !memcmp(s, mark, 3);
	if (dropped)
		s += 3;
	while (s < end) {
		const char *next = memmem(s, (size_t)(end - s), mark, 3);

		str_add(out, s, (size_t)((next ? next : end) - s));
		if (next)
			str_addc(out, ' ');
		s = next ? next + 3 : end;
	}
	return dropped && !n->remove_extra_whitespaces;
}

/* Applies the denormaliser's rules to the text from `start` on. */
static void
denormalize(const struct spm *m, struct str *out, size_t start)
{
	struct spm_buffer b = { 0 };
	struct norm_text t;

	if (out->len > start &&
	    spmnorm_begin(&m->denormalizer, &t, out->buf + start, out->len - start, &b)) {
		while (spmnorm_next(&m->denormalizer, &t, 1 << 16, &b))
			;
		spmnorm_end(&m->denormalizer, &b);
	}
	if (out->len > start)
		out->buf[out->len = start] = 0;
	for (size_t i = 0; i < b.len; i++)
		if (m->model.denormalizer.escape_whitespaces && b.bytes[i] == SPM_BLANK)
			str_adds(out, mark);
		else
			str_addc(out, (char)b.bytes[i]);
	free(b.bytes);
}

/* Source: google/sentencepiece src/sentencepiece_processor.cc (Decode), version 0.1.97. */
void
spm_decode(const struct spm *m, const uint32_t *ids, size_t count, struct str *out)
{
	size_t start = out->len;
	bool beginning = true, dropped = false;

	for (size_t i = 0; i < count;) {
		size_t run = i;

		while (run < count && m->byte[ids[run]] >= 0)
			run++;
		add_bytes(m, ids + i, run - i, out);
		if (run == count)
			break;
		beginning = beginning && !dropped && out->len == start;
		dropped = add_piece(m, &m->model.piece[ids[run]], beginning, out);
		i = run + 1;
	}
	if (m->model.denormalizer.charsmap_len)
		denormalize(m, out, start);
}

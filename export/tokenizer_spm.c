/*
 * tokenizer_spm.c - tokenizer.json of a SentencePiece model
 *
 * BPE models hold no list of merges: a pair (a, b) may merge for every piece p = a + b, and p's
 * score is its rank. Unigram scores are printed so that they read back as the same doubles. Text is
 * prepared as SentencePiece does it: its compiled normalisation, blanks collapsed and stripped from
 * the ends if the model says so, a blank put first, and blanks replaced by U+2581.
 */
#include "export/tokenizer.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/token/spm/spmodel.h"

#include <stdlib.h>
#include <string.h>

#define SPACE "\xe2\x96\x81" /* U+2581 */

/* One possible merge. */
struct merge {
	int piece, left, right;
};

/* Appends bytes in base 64, padded (RFC 4648, section 4). */
static void
add_base64(struct str *out, const unsigned char *p, size_t n)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < n; i += 3) {
		unsigned v = (unsigned)p[i] << 16 | (i + 1 < n ? (unsigned)p[i + 1] << 8 : 0) |
		    (i + 2 < n ? p[i + 2] : 0u);

		str_addc(out, digits[v >> 18]);
		str_addc(out, digits[v >> 12 & 63]);
		str_addc(out, i + 1 < n ? digits[v >> 6 & 63] : '=');
		str_addc(out, i + 2 < n ? digits[v & 63] : '=');
	}
}

/* Control pieces and the unknown are special; user-defined pieces are not, but are matched
 * first. */
static void
add_added_tokens(const struct spmodel *m, struct str *out)
{
	int n = 0;

	str_adds(out, "\"added_tokens\":[");
	for (int i = 0; i < m->count; i++) {
		const struct sp_piece *p = &m->piece[i];

		if (p->type != SP_UNKNOWN && p->type != SP_CONTROL && p->type != SP_USER_DEFINED)
			continue;
		str_adds(out, n++ ? "," : "");
		tokenizer_added(out, i, p->text, p->len, p->type != SP_USER_DEFINED, false);
	}
	str_adds(out, "],");
}

/* Whether the pre-tokenizer, rather than the normalizer, replaces blanks by U+2581 for this kind of
 * model. */
static bool
uses_metaspace(const struct spmodel *m)
{
	return m->model == SP_UNIGRAM && !m->byte_fallback;
}

/* The steps in SentencePiece's order. */
static void
add_normalizer(const struct spmodel *m, struct str *out)
{
	size_t start;

	str_adds(out, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
	start = out->len;
	if (m->normalizer.charsmap_len) {
		str_adds(out, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
		add_base64(out, m->normalizer.charsmap, m->normalizer.charsmap_len);
		str_adds(out, "\"},");
	}
	if (m->normalizer.remove_extra_whitespaces)
		str_adds(out,
		    "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true},"
		    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"},");
	if (!uses_metaspace(m)) {
		if (m->normalizer.add_dummy_prefix)
			str_adds(out, "{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"},");
		str_adds(out,
		    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE
		    "\"},");
	}
	if (out->len > start)
		out->len--;
	str_adds(out, "]},");
}

/* The same members serve for the pre-tokenizer and the decoder. */
static void
add_metaspace(const struct spmodel *m, const char *key, struct str *out)
{
	str_addf(out,
	    "\"%s\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE
	    "\",\"prepend_scheme\":\"%s\",\"split\":%s},",
	    key, m->normalizer.add_dummy_prefix ? "always" : "never",
	    m->split_by_whitespace ? "true" : "false");
}

/* BOS before each text, if it is to be. */
static void
add_template(const struct spmodel *m, const struct tokenizer_files *t, struct str *out)
{
	struct str bos = { 0 };

	if (!t->adds_bos) {
		str_adds(out, "\"post_processor\":null,");
		return;
	}
	str_add_json(&bos, t->text[SPECIAL_BOS], strlen(t->text[SPECIAL_BOS]));
	str_addf(out,
	    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
	    "{\"SpecialToken\":{\"id\":%s,\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":"
	    "0}}],",
	    bos.buf);
	str_addf(out,
	    "\"pair\":[{\"SpecialToken\":{\"id\":%s,\"type_id\":0}},{\"Sequence\":{\"id\":\"A\","
	    "\"type_id\":0}},"
	    "{\"SpecialToken\":{\"id\":%s,\"type_id\":1}},{\"Sequence\":{\"id\":\"B\",\"type_id\":"
	    "1}}],",
	    bos.buf, bos.buf);
	str_addf(out, "\"special_tokens\":{%s:{\"id\":%s,\"ids\":[%d],\"tokens\":[%s]}}},", bos.buf,
	    bos.buf, m->bos, bos.buf);
	str_release(&bos);
}

/* The way back from pieces to text. */
static void
add_decoder(const struct spmodel *m, struct str *out)
{
	if (uses_metaspace(m)) {
		add_metaspace(m, "decoder", out);
		return;
	}
	str_adds(out,
	    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
	    "\"String\":\"" SPACE
	    "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}");
	if (m->normalizer.add_dummy_prefix)
		str_adds(out, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
	str_adds(out, "]},");
}

/* By the rank of the merged piece, then the ids of its parts. */
static int
compare_merges(const void *a, const void *b, void *model)
{
	const struct merge *x = a, *y = b;
	const struct spmodel *m = model;
	float sx = m->piece[x->piece].score, sy = m->piece[y->piece].score;

	if (sx != sy)
		return sx > sy ? -1 : 1;
	if (x->piece != y->piece)
		return x->piece < y->piece ? -1 : 1;
	if (x->left != y->left)
		return x->left < y->left ? -1 : 1;
	return (x->right > y->right) - (x->right < y->right);
}

/* The id of an ordinary piece of this text, or -1. */
static int
ordinary(const struct spmodel *m, const char *text, size_t len)
{
	int id = spmodel_find(m, text, len);

	return id >= 0 && m->piece[id].type == SP_NORMAL ? id : -1;
}

/* Every split of every piece into two pieces, sorted; the caller frees them. */
static size_t
find_merges(const struct spmodel *m, struct merge **out)
{
	size_t n = 0, cap = 0;

	*out = NULL;
	for (int i = 0; i < m->count; i++) {
		const struct sp_piece *p = &m->piece[i];

		for (size_t cut = 1; p->type == SP_NORMAL && cut < p->len; cut++) {
			int left = (p->text[cut] & 0xc0) == 0x80 ? -1 : ordinary(m, p->text, cut);
			int right = left < 0 ? -1 : ordinary(m, p->text + cut, p->len - cut);

			if (right < 0)
				continue;
			if (n == cap) {
				cap = cap ? 2 * cap : 1024;
				*out = mem_realloc(*out, cap, sizeof **out);
			}
			(*out)[n++] = (struct merge){ i, left, right };
		}
	}
	if (n)
		qsort_r(*out, n, sizeof **out, compare_merges, (void *)m);
	return n;
}

/* Vocabulary by id, merges by rank. */
static void
add_bpe(const struct spmodel *m, struct str *out)
{
	struct merge *merge;
	size_t n = find_merges(m, &merge);

	str_adds(out, "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
	if (m->unk >= 0)
		str_add_json(out, m->piece[m->unk].text, m->piece[m->unk].len);
	else
		str_adds(out, "null");
	str_addf(out,
	    ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":true,"
	    "\"byte_fallback\":%s,"
	    "\"ignore_merges\":false,\"vocab\":{",
	    m->byte_fallback ? "true" : "false");
	for (int i = 0; i < m->count; i++) {
		str_adds(out, i ? "," : "");
		str_add_json(out, m->piece[i].text, m->piece[i].len);
		str_addf(out, ":%d", i);
	}
	str_adds(out, "},\"merges\":[");
	for (size_t i = 0; i < n; i++) {
		const struct sp_piece *a = &m->piece[merge[i].left], *b = &m->piece[merge[i].right];
		struct str pair = { 0 };

		str_add(&pair, a->text, a->len);
		str_addc(&pair, ' ');
		str_add(&pair, b->text, b->len);
		str_adds(out, i ? "," : "");
		str_add_json(out, pair.buf, pair.len);
		str_release(&pair);
	}
	str_adds(out, "]}}\n");
	free(merge);
}

/* Scores are floats; as doubles they print more digits but read back exactly. */
static void
add_unigram(const struct spmodel *m, struct str *out)
{
	str_adds(out, "\"model\":{\"type\":\"Unigram\",\"unk_id\":");
	if (m->unk >= 0)
		str_addf(out, "%d", m->unk);
	else
		str_adds(out, "null");
	str_adds(out, ",\"vocab\":[");
	for (int i = 0; i < m->count; i++) {
		str_adds(out, i ? ",[" : "[");
		str_add_json(out, m->piece[i].text, m->piece[i].len);
		str_addc(out, ',');
		str_add_double(out, m->piece[i].score);
		str_addc(out, ']');
	}
	str_addf(out, "],\"byte_fallback\":%s}}\n", m->byte_fallback ? "true" : "false");
}

/* Refuses kinds that tokenizer.json cannot express exactly. */
static int
check_model(const struct spmodel *m, const char *path, struct err *e)
{
	if (m->model != SP_UNIGRAM && m->model != SP_BPE)
		return err_at(e, path, 0,
		    "a model of words or characters has no exact tokenizer.json; BPE and unigram "
		    "have");
	if (!m->normalizer.escape_whitespaces)
		return err_at(e, path, 0,
		    "a model that keeps blanks (escape_whitespaces off) has no exact "
		    "tokenizer.json");
	return 0;
}

/* The members in the order of the reference. */
static void
write_json(const struct spmodel *m, struct tokenizer_files *t)
{
	struct str *out = &t->json;

	str_adds(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,");
	add_added_tokens(m, out);
	add_normalizer(m, out);
	if (uses_metaspace(m))
		add_metaspace(m, "pre_tokenizer", out);
	else
		str_adds(out, "\"pre_tokenizer\":null,");
	add_template(m, t, out);
	add_decoder(m, out);
	if (m->model == SP_BPE)
		add_bpe(m, out);
	else
		add_unigram(m, out);
}

/* The special tokens are those whose ids the trainer recorded. */
int
export_sentencepiece(struct tokenizer_files *t, const char *model, int64_t bos, struct err *e)
{
	struct spmodel m = { 0 };
	char *bytes = NULL;
	size_t len;
	int rc = -1;

	memset(t, 0, sizeof *t);
	if (io_read_regular(model, (size_t)1 << 30, &bytes, &len, e) == 0 &&
	    spmodel_parse(&m, bytes, len, model, e) == 0 && check_model(&m, model, e) == 0) {
		const int ids[SPECIAL_COUNT] = { m.bos, m.eos, m.unk, m.pad };

		for (int i = 0; i < SPECIAL_COUNT; i++) {
			t->id[i] = ids[i];
			if (ids[i] >= 0)
				t->text[i] = mem_strndup(m.piece[ids[i]].text, m.piece[ids[i]].len);
		}
		t->tokens = m.count;
		t->adds_bos = bos < 0 ? m.bos >= 0 : bos > 0;
		rc = t->adds_bos && m.bos < 0
		    ? err_set(e, "--add-bos-token true: '%s' has no bos", model)
		    : 0;
		if (rc == 0)
			write_json(&m, t);
	}
	spmodel_release(&m);
	free(bytes);
	return rc;
}

/*
 * sentencepiece.c - SentencePiece models as a kind of tokenizer
 *
 * What Megatron-LM's wrappers do by default: EncodeAsIds(text), no bos, eod is the model's eos,
 * control pieces never match text.
 *
 * JapaneseSentencePiece is the wrapper of kojimano/Megatron-DeepSpeed-ABCI
 * (megatron/tokenizer/tokenizer.py): the model is --vocab-file, a line ends in the piece
 * <|endofline|>, eod is <|endoftext|> and pad <|padding|>.
 */
#include "lib/token/spm/spm.h"
#include "lib/token/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

enum { PROTOBUF_FIRST_BYTE = 0x0a }; /* field 1, length-delimited: the first piece */

static const char *const types[] = { "SentencePieceTokenizer", "GPTSentencePieceTokenizer",
	"Llama2Tokenizer", "JapaneseSentencePiece", NULL };

static const char end_of_line[] = "<|endofline|>";

static bool
is_japanese(const struct tokenizer *t)
{
	return t->type == types[3];
}

/* Recognised by the first byte: a rank file of the same name would be text. */
static bool
sentencepiece_detect(const struct tokenizer_spec *spec, const unsigned char *head, size_t n)
{
	return spec->model && n > 0 && head[0] == PROTOBUF_FIRST_BYTE;
}

/* Ids that the wrapper takes from pieces of the model; other ids for the same files. */
static void
set_japanese(struct tokenizer *t)
{
	static const char eod[] = "<|endoftext|>", pad[] = "<|padding|>";

	t->special[TOKENIZER_EOS] = tokenizer_find_piece(t, eod, sizeof eod - 1);
	t->special[TOKENIZER_PAD] = tokenizer_find_piece(t, pad, sizeof pad - 1);
	t->release = t->type;
}

/* Checks the first byte, so that the reason is clear for other files. The model keeps the whole
 * file in memory: its texts are not copied. */
static int
sentencepiece_open(struct tokenizer *t, const struct tokenizer_spec *spec, struct err *e)
{
	enum unigram_ties ties = (enum unigram_ties)spec->unigram_ties;
	const char *path = spec->vocab && is_japanese(t) ? spec->vocab : spec->model;
	char *bytes;
	size_t len;

	if (!path)
		return err_set(
		    e, "%s needs --%s", t->type, is_japanese(t) ? "vocab-file" : "tokenizer-model");
	if (tokenizer_read_file(t, path, &bytes, &len, e) < 0)
		return -1;
	if (len == 0 || bytes[0] != PROTOBUF_FIRST_BYTE) {
		free(bytes);
		return err_set(
		    e, "%s: not a SentencePiece model: it does not begin with byte 0x0a", path);
	}
	t->impl = spm_new(bytes, len, ties, path, e);
	if (!t->impl)
		return -1;
	t->unigram_ties = spm_is_unigram(t->impl) ? unigram_ties_names[ties] : NULL;
	t->escaped = true;
	t->vocab_size = spm_size(t->impl);
	for (int i = 0; i < TOKENIZER_SPECIALS; i++)
		t->special[i] = spm_special(t->impl, (enum tokenizer_special)i);
	if (is_japanese(t))
		set_japanese(t);
	return 0;
}

/* impl is NULL when opening failed before the model was made. */
static void
sentencepiece_close(struct tokenizer *t)
{
	spm_free(t->impl);
}

/* One thread's scratch. The model itself is read-only and shared. */
static void *
sentencepiece_worker_new(const struct tokenizer *t)
{
	return spm_worker_new(t->impl);
}

/* With the worker's cache of units. */
static void
sentencepiece_worker_free(void *scratch)
{
	spm_worker_free(scratch);
}

/* Appends a text with the one string in the place of the other. */
static void
replace(struct str *out, const char *text, size_t len, const char *from, const char *to)
{
	size_t n = strlen(from);

	for (size_t i = 0; i < len;)
		if (len - i >= n && !memcmp(text + i, from, n)) {
			str_adds(out, to);
			i += n;
		} else {
			str_addc(out, text[i++]);
		}
}

/* Empty text gives no id, not even the dummy prefix. */
static int
sentencepiece_encode(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *out, struct err *e)
{
	struct str lines = { 0 };
	int rc;

	if (!is_japanese(w->tokenizer))
		return spm_encode(w->tokenizer->impl, w->impl, text, len, out, e);
	replace(&lines, text, len, "\n", end_of_line);
	rc = spm_encode(w->tokenizer->impl, w->impl, lines.buf, lines.len, out, e);
	str_release(&lines);
	return rc;
}

/* A line's end is no piece's text, so that of JapaneseSentencePiece is not looked for. */
static int
sentencepiece_encode_piece(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *out, struct err *e)
{
	return spm_encode_exact(w->tokenizer->impl, w->impl, text, len, out, e);
}

/* Cannot fail: tokenizer_decode has checked that the ids are in range. */
static void
sentencepiece_decode(struct tokenizer_worker *w, const uint32_t *ids, size_t count, struct str *out)
{
	struct str lines = { 0 };

	if (!is_japanese(w->tokenizer)) {
		spm_decode(w->tokenizer->impl, ids, count, out);
		return;
	}
	spm_decode(w->tokenizer->impl, ids, count, &lines);
	replace(out, lines.buf, lines.len, end_of_line, "\n");
	str_release(&lines);
}

/* The cast is safe: a model has fewer than 2^31 pieces. */
static struct tokenizer_piece
sentencepiece_piece(const struct tokenizer *t, int64_t id)
{
	return spm_piece(t->impl, (int)id);
}

const struct tokenizer_kind tokenizer_sentencepiece = {
	.types = types,
	.detect = sentencepiece_detect,
	.open = sentencepiece_open,
	.close = sentencepiece_close,
	.worker_new = sentencepiece_worker_new,
	.worker_free = sentencepiece_worker_free,
	.encode = sentencepiece_encode,
	.encode_piece = sentencepiece_encode_piece,
	.decode = sentencepiece_decode,
	.piece = sentencepiece_piece,
};

/*
 * sentencepiece.c - SentencePiece models as a kind of tokenizer
 *
 * What Megatron-LM's wrappers do by default: EncodeAsIds(text), no bos, eod is the model's eos,
 * control pieces never match text.
 */
#include "lib/token/spm/spm.h"
#include "lib/token/tokenizer_impl.h"

#include <stdlib.h>

enum { PROTOBUF_FIRST_BYTE = 0x0a }; /* field 1, length-delimited: the first piece */

static const char *const types[] = { "SentencePieceTokenizer", "GPTSentencePieceTokenizer",
	"Llama2Tokenizer", NULL };

/* Recognised by the first byte: a rank file of the same name would be text. */
static bool
sentencepiece_detect(const struct tokenizer_spec *spec, const unsigned char *head, size_t n)
{
	return spec->model && n > 0 && head[0] == PROTOBUF_FIRST_BYTE;
}

/* Checks the first byte, so that the reason is clear for other files. The model keeps the whole
 * file in memory: its texts are not copied. */
static int
sentencepiece_open(struct tokenizer *t, const struct tokenizer_spec *spec, struct err *e)
{
	enum unigram_ties ties = (enum unigram_ties)spec->unigram_ties;
	char *bytes;
	size_t len;

	if (!spec->model)
		return err_set(e, "%s needs --tokenizer-model", t->type);
	if (tokenizer_read_file(t, spec->model, &bytes, &len, e) < 0)
		return -1;
	if (len == 0 || bytes[0] != PROTOBUF_FIRST_BYTE) {
		free(bytes);
		return err_set(e, "%s: not a SentencePiece model: it does not begin with byte 0x0a",
		    spec->model);
	}
	t->impl = spm_new(bytes, len, ties, spec->model, e);
	if (!t->impl)
		return -1;
	t->unigram_ties = spm_is_unigram(t->impl) ? unigram_ties_names[ties] : NULL;
	t->vocab_size = spm_size(t->impl);
	for (int i = 0; i < TOKENIZER_SPECIALS; i++)
		t->special[i] = spm_special(t->impl, (enum tokenizer_special)i);
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

/* Empty text gives no id, not even the dummy prefix. */
static int
sentencepiece_encode(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *out, struct err *e)
{
	return spm_encode(w->tokenizer->impl, w->impl, text, len, out, e);
}

/* Cannot fail: tokenizer_decode has checked that the ids are in range. */
static void
sentencepiece_decode(struct tokenizer_worker *w, const uint32_t *ids, size_t count, struct str *out)
{
	spm_decode(w->tokenizer->impl, ids, count, out);
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
	.decode = sentencepiece_decode,
	.piece = sentencepiece_piece,
};

/*
 * spm_text.c - fuzz target: any bytes as text for small SentencePiece models that are trained at
 * the start; ids and decoded text are libsentencepiece's
 *
 * One worker per model encodes all inputs, each of them twice: its cache must not change the
 * result.
 */
#include "lib/token/spm/spm.h"
#include "lib/token/spm/spmtrain.h"
#include "tests/fuzz/input.h"
#include "tests/spm_oracle.h"

enum { MODELS = 2, SETTINGS = 6 };

/* The same model twice. */
struct pair {
	struct spm *ours;
	struct spm_worker *w;
	struct oracle *theirs;
};

/* The next line of the training text. */
static int
sentence(void *ctx, const char **text, size_t *len, struct err *e)
{
	static const char *const lines[] = { "the quick brown fox jumps over the lazy dog",
		"the dog sleeps, the fox runs",
		"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe3\x81\xae\xe6\x96\x87\xe7\xab\xa0" };
	int *next = ctx;

	(void)e;
	if (*next == 3)
		return 0;
	*text = lines[(*next)++];
	*len = strlen(*text);
	return 1;
}

/* Trains a model and opens it in both implementations. */
static void
train(struct pair *p, const struct spm_setting settings[SETTINGS])
{
	int next = 0;
	struct spm_training t = { settings, SETTINGS, false, sentence, &next };
	struct str model = { 0 };
	struct err e = { "" };
	size_t len;

	if (spm_train(&t, &model, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		abort();
	}
	len = model.len;
	p->theirs = oracle_new(model.buf, len);
	p->ours = spm_new(str_detach(&model), len, UNIGRAM_TIES_0_2_1, "fuzz", &e);
	if (!p->theirs || !p->ours)
		abort();
	p->w = spm_worker_new(p->ours);
}

/* BPE with byte fallback and the text as it is, and unigram with every kind of normalisation. */
static void
train_all(struct pair p[MODELS])
{
	static const struct spm_setting settings[MODELS][SETTINGS] = {
		{ { "model_type", "bpe" }, { "vocab_size", "320" }, { "num_threads", "1" },
		    { "byte_fallback", "true" }, { "normalization_rule_name", "identity" },
		    { "remove_extra_whitespaces", "false" } },
		{ { "model_type", "unigram" }, { "vocab_size", "60" }, { "num_threads", "1" },
		    { "hard_vocab_limit", "false" }, { "normalization_rule_name", "nmt_nfkc_cf" },
		    { "user_defined_symbols", "<x>,qu" } },
	};

	for (int i = 0; i < MODELS; i++)
		train(&p[i], settings[i]);
}

/* Encodes into an empty list. */
static void
encode(const struct pair *p, const uint8_t *data, size_t size, struct token_ids *ids)
{
	struct err e;

	if (spm_encode(p->ours, p->w, (const char *)data, size, ids, &e) < 0)
		abort();
}

/* Encodes and decodes; the library gives NULL for no ids, and for a text that it cannot encode. */
static void
compare(const struct pair *p, const uint8_t *data, size_t size)
{
	struct token_ids ids = { 0 }, again = { 0 };
	struct str back = { 0 };
	size_t count, len;
	const int *want = oracle_encode(p->theirs, (const char *)data, size, &count);
	const char *text;

	encode(p, data, size, &ids);
	encode(p, data, size, &again);
	if (want &&
	    (ids.count != count || (count && memcmp(ids.id, want, count * sizeof *want) != 0)))
		abort();
	if (ids.count != again.count ||
	    (ids.count && memcmp(ids.id, again.id, ids.count * sizeof *ids.id) != 0))
		abort();
	spm_decode(p->ours, ids.id, ids.count, &back);
	text = oracle_decode(p->theirs, ids.id, ids.count, &len);
	if (back.len != len || (len && memcmp(back.buf, text, len) != 0))
		abort();
	str_release(&back);
	token_ids_release(&ids);
	token_ids_release(&again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct pair pair[MODELS];

	if (!pair[0].ours) {
		input_small_pages();
		train_all(pair);
	}
	for (int i = 0; i < MODELS; i++)
		compare(&pair[i], data, size);
	return 0;
}

/*
 * spm_text.c - fuzz target: any bytes as text for a small SentencePiece model that is trained at the
 * start
 *
 * One worker serves all inputs, and each of them twice: what is in its cache must not show.
 */
#include "lib/token/spm.h"
#include "lib/token/spmtrain.h"
#include "tests/fuzz/input.h"

static int
sentence(void *ctx, const char **text, size_t *len, struct err *e)
{
	static const char *const lines[] = { "the quick brown fox jumps over the lazy dog", "the dog sleeps, the fox runs",
		"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe3\x81\xae\xe6\x96\x87\xe7\xab\xa0" };
	int *next = ctx;

	(void)e;
	if (*next == 3)
		return 0;
	*text = lines[(*next)++];
	*len = strlen(*text);
	return 1;
}

/* A BPE model with byte fallback. */
static struct spm *
train(void)
{
	static const struct spm_setting settings[] = { { "model_type", "bpe" }, { "vocab_size", "320" }, { "num_threads", "1" },
		{ "byte_fallback", "true" }, { "normalization_rule_name", "identity" } };
	int next = 0;
	struct spm_training t = { settings, 5, false, sentence, &next };
	struct str model = { 0 };
	struct err e = { "" };
	struct spm *m;
	size_t len;

	if (spm_train(&t, &model, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		abort();
	}
	len = model.len;
	m = spm_new(str_detach(&model), len, "fuzz", &e);
	return m;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct spm *m;
	static struct spm_worker *w;
	struct token_ids ids = { 0 }, again = { 0 };
	struct str back = { 0 };
	struct err e;

	if (!m) {
		input_small_pages();
		m = train();
		w = spm_worker_new(m);
	}
	if (spm_encode(m, w, (const char *)data, size, &ids, &e) < 0 ||
	    spm_encode(m, w, (const char *)data, size, &again, &e) < 0)
		abort();
	if (ids.count != again.count || (ids.count && memcmp(ids.id, again.id, ids.count * sizeof *ids.id) != 0))
		abort();
	for (size_t i = 0; i < ids.count; i++)
		if (ids.id[i] >= (uint32_t)spm_size(m))
			abort();
	spm_decode(m, ids.id, ids.count, &back);
	str_release(&back);
	token_ids_release(&ids);
	token_ids_release(&again);
	return 0;
}

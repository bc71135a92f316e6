/*
 * tokenizer.c - the tokenizer of a run
 *
 * It is optional: without one eod is -1, which masks nothing and ends no generation. Special ids
 * that the command line gives win over its own.
 */
#include "train/config/tokenizer.h"
#include "train/config/planned.h"

static bool
asks_tokenizer(const struct train_config *c)
{
	return c->o.tokenizer_type || c->o.tokenizer_model || c->o.vocab_file;
}

int
train_open_tokenizer(struct train_config *c, struct err *e)
{
	const struct train_options *o = &c->o;
	struct model_config *typed = &c->o.run.model.typed;

	c->spec = (struct tokenizer_spec){ .type = o->tokenizer_type,
		.model = o->tokenizer_model,
		.vocab = o->vocab_file,
		.merges = o->merge_file,
		.vocab_size = typed->vocab_size,
		.hf_no_include_special_tokens = o->hf_no_include_special_tokens,
		.tiktoken_pattern = o->tiktoken_pattern,
		.tiktoken_num_special_tokens = o->tiktoken_num_special_tokens,
		.tiktoken_special_tokens = o->tiktoken_special_tokens };
	c->eod = -1;
	if (!asks_tokenizer(c) || (o->dry_run && planned_without_tokenizer(c)))
		return 0;
	c->tokenizer = tokenizer_open(&c->spec, e);
	if (!c->tokenizer)
		return -1;
	c->eod = tokenizer_special(c->tokenizer, TOKENIZER_EOS);
	if (typed->bos_token_id < 0)
		typed->bos_token_id = tokenizer_special(c->tokenizer, TOKENIZER_BOS);
	if (typed->pad_token_id < 0)
		typed->pad_token_id = tokenizer_special(c->tokenizer, TOKENIZER_PAD);
	return 0;
}

bool
train_lacks_tokenizer(const struct train_config *c)
{
	return !c->tokenizer &&
	    (asks_tokenizer(c) || opt_bad(&c->parse, "tokenizer-model") ||
		opt_bad(&c->parse, "tokenizer-type") || opt_bad(&c->parse, "vocab-file"));
}

int
train_check_fim(const struct train_config *c, struct err *e)
{
	struct fim *f;

	if (!c->o.fim.on || train_lacks_tokenizer(c))
		return 0;
	if (c->o.mock_data)
		return err_set(e, "--fim-data: there is no text in --mock-data");
	if (!c->tokenizer)
		return err_set(e,
		    "--fim-data: rearranges text, for which it needs the tokenizer: give "
		    "--tokenizer-model");
	f = fim_new(c->tokenizer, &c->o.fim, e);
	fim_free(f);
	return f ? 0 : -1;
}

int
train_read_stops(struct train_config *c, struct err *e)
{
	const struct opt_list *texts = &c->o.stop, *ids = &c->o.stop_token_ids;
	int64_t n = c->tokenizer ? tokenizer_vocab_size(c->tokenizer) : INT64_MAX;

	for (int i = 0; i < texts->count; i++)
		if (!*texts->item[i])
			return err_set(e, "--stop: an empty text would end every text at once");
	c->stop_ids = mem_pool_alloc(&c->parse.pool, (size_t)ids->count, sizeof *c->stop_ids);
	if (opt_numbers("stop-token-ids", ids, 0, c->stop_ids, e) < 0)
		return -1;
	for (int i = 0; i < ids->count; i++)
		if (c->stop_ids[i] >= n)
			return err_set(e,
			    "--stop-token-ids %lld: is outside the vocabulary of %lld",
			    (long long)c->stop_ids[i], (long long)n);
	return 0;
}

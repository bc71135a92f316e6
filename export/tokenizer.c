/*
 * tokenizer.c - the tokenizer files that are the same for all kinds
 *
 * tokenizer_config.json and special_tokens_map.json have one form for every kind of tokenizer; only
 * tokenizer.json differs. The members and their order are those of transformers, so that a file
 * that it loads and saves stays the same.
 */
#include "export/tokenizer.h"

#include <stdlib.h>
#include <string.h>

static const char *const special_names[SPECIAL_COUNT] = { "bos_token", "eos_token", "unk_token",
	"pad_token" };

/* Also accepts a zeroed struct, and one that a failed export left. */
void
tokenizer_release(struct tokenizer_files *t)
{
	str_release(&t->json);
	str_release(&t->config);
	str_release(&t->special_map);
	extras_release(&t->extras);
	for (int i = 0; i < SPECIAL_COUNT; i++)
		free(t->text[i]);
	memset(t, 0, sizeof *t);
}

/* The same form for all kinds: text around the token is not stripped. */
void
tokenizer_added(
    struct str *out, int64_t id, const char *text, size_t len, bool special, bool normalized)
{
	str_addf(out, "{\"id\":%lld,\"content\":", (long long)id);
	str_add_json(out, text, len);
	str_addf(out,
	    ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":%s,"
	    "\"special\":%s}",
	    normalized ? "true" : "false", special ? "true" : "false");
}

/*
 * Every special token by id, each once, even if it has several roles, as in GPT-2.
 */
static void
write_decoder(const struct tokenizer_files *t, struct str *out)
{
	int n = 0;

	str_adds(out, "  \"added_tokens_decoder\": {");
	for (int i = 0; i < SPECIAL_COUNT; i++) {
		bool twice = false;

		for (int k = 0; k < i; k++)
			twice |= t->id[k] == t->id[i];
		if (t->id[i] < 0 || twice)
			continue;
		str_addf(
		    out, "%s\n    \"%lld\": {\"content\": ", n++ ? "," : "", (long long)t->id[i]);
		str_add_json(out, t->text[i], strlen(t->text[i]));
		str_adds(out,
		    ", \"lstrip\": false, \"normalized\": false, \"rstrip\": false, "
		    "\"single_word\": false, "
		    "\"special\": true}");
	}
	str_addf(out, "%s},\n", n ? "\n  " : "");
}

/* Names the class that newer versions do not rebuild from vocabulary and merges. A config that came
 * with the tokenizer is copied unchanged. */
void
tokenizer_write_config(const struct tokenizer_files *t, int64_t model_max_length, struct str *out)
{
	if (t->config.len) {
		str_add(out, t->config.buf, t->config.len);
		return;
	}
	str_addf(out, "{\n  \"add_bos_token\": %s,\n  \"add_eos_token\": false,\n",
	    t->adds_bos ? "true" : "false");
	write_decoder(t, out);
	for (int i = 0; i < SPECIAL_COUNT; i++) {
		str_addf(out, "  \"%s\": ", special_names[i]);
		if (t->text[i])
			str_add_json(out, t->text[i], strlen(t->text[i]));
		else
			str_adds(out, "null");
		str_adds(out, ",\n");
	}
	str_addf(out,
	    "  \"clean_up_tokenization_spaces\": false,\n  \"model_max_length\": %lld,\n"
	    "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n",
	    (long long)model_max_length);
}

/* The special tokens that exist, or the file that came with the tokenizer. */
void
tokenizer_write_special(const struct tokenizer_files *t, struct str *out)
{
	int n = 0;

	if (t->special_map.len) {
		str_add(out, t->special_map.buf, t->special_map.len);
		return;
	}
	str_addc(out, '{');
	for (int i = 0; i < SPECIAL_COUNT; i++) {
		if (!t->text[i])
			continue;
		str_addf(out, "%s\n  \"%s\": ", n++ ? "," : "", special_names[i]);
		str_add_json(out, t->text[i], strlen(t->text[i]));
	}
	str_adds(out, n ? "\n}\n" : "}\n");
}

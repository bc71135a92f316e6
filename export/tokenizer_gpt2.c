/*
 * tokenizer_gpt2.c - tokenizer.json of GPT-2's vocab.json and merges.txt
 *
 * tokenizer.json holds both files in one: the vocabulary by id and the merges by rank, with the
 * byte-level steps around them. Both files are checked for everything that the reader of
 * tokenizer.json relies on, because its messages give no line numbers.
 */
#include "export/tokenizer.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

#define END_OF_TEXT "<|endoftext|>"

static const size_t file_max = (size_t)1 << 28;

/* Every id from 0 to n - 1 must occur once. Returns the tokens by id, freed by the caller, or
 * NULL. */
static const struct json_value **
tokens_by_id(const struct json_value *vocab, const char *path, struct err *e)
{
	const struct json_value **token;

	if (vocab->type != JSON_OBJECT || vocab->len == 0 || vocab->len > 1 << 26) {
		err_at(e, path, 0, "not a JSON object of tokens and ids");
		return NULL;
	}
	token = mem_zalloc(vocab->len, sizeof *token);
	for (size_t i = 0; i < vocab->len; i++) {
		const struct json_value *v = &vocab->item[i];

		if (v->type != JSON_INT || v->integer < 0 || (uint64_t)v->integer >= vocab->len ||
		    token[v->integer]) {
			err_at(e, path, 0,
			    "token '%.40s': ids must be the numbers from 0 to %zu, each once",
			    v->key, vocab->len - 1);
			free(token);
			return NULL;
		}
		token[v->integer] = v;
	}
	return token;
}

/* Appends the merges of merges.txt: one pair per line; the first line may be a comment. */
static int
add_merges(struct str *out, const char *path, const char *text, struct err *e)
{
	long line = 0;
	int n = 0;

	while (*text) {
		size_t len = strcspn(text, "\n"), left = strcspn(text, " \n");
		size_t used = len > 0 && text[len - 1] == '\r' ? len - 1 : len;

		line++;
		if (!(line == 1 && !strncmp(text, "#version", 8)) && used > 0) {
			if (left == 0 || left + 1 >= used ||
			    memchr(text + left + 1, ' ', used - left - 1))
				return err_at(
				    e, path, line, "not two symbols separated by one blank");
			str_adds(out, n++ ? "," : "");
			str_add_json(out, text, used);
		}
		text += len + (text[len] == '\n');
	}
	return n ? 0 : err_at(e, path, 0, "no merges");
}

/* Has the parts of GPT-2's published tokenizer.json. */
static int
write_json(struct tokenizer_files *t, const struct json_value *const *token, const char *path,
    const char *merges, struct err *e)
{
	struct str *out = &t->json;

	str_adds(
	    out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[");
	if (t->text[SPECIAL_EOS])
		tokenizer_added(
		    out, t->id[SPECIAL_EOS], END_OF_TEXT, strlen(END_OF_TEXT), true, true);
	str_adds(out,
	    "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
	    "false,"
	    "\"trim_offsets\":true,\"use_regex\":true},"
	    "\"post_processor\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
	    "\"trim_offsets\":false,\"use_regex\":true},\"decoder\":{\"type\":\"ByteLevel\",\"add_"
	    "prefix_space\":true,"
	    "\"trim_offsets\":true,\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"dropout\":"
	    "null,\"unk_token\":null,"
	    "\"continuing_subword_prefix\":\"\",\"end_of_word_suffix\":\"\",\"fuse_unk\":false,"
	    "\"byte_fallback\":false,"
	    "\"ignore_merges\":false,\"vocab\":{");
	for (int64_t i = 0; i < t->tokens; i++) {
		str_adds(out, i ? "," : "");
		str_add_json(out, token[i]->key, token[i]->key_len);
		str_addf(out, ":%lld", (long long)i);
	}
	str_adds(out, "},\"merges\":[");
	if (add_merges(out, path, merges, e) < 0)
		return -1;
	str_adds(out, "]}}\n");
	return 0;
}

/* Both files are read whole; they have a few megabytes. The end of text is the special token; it
 * also serves as beginning and unknown. */
int
tokenizer_gpt2_files(
    struct tokenizer_files *t, const char *vocab, const char *merges, struct err *e)
{
	struct json *j = json_read_regular(vocab, file_max, e);
	const struct json_value **token = NULL;
	char *text = NULL;
	size_t len = 0;
	int rc = -1;

	memset(t, 0, sizeof *t);
	if (j && io_read_regular(merges, file_max, &text, &len, e) == 0) {
		if (strlen(text) == len)
			token = tokens_by_id(json_root(j), vocab, e);
		else
			err_at(e, merges, 0, "a NUL byte inside");
	}
	if (token) {
		const struct json_value *end = json_get(json_root(j), END_OF_TEXT);

		t->tokens = (int64_t)json_root(j)->len;
		for (int i = 0; i < SPECIAL_COUNT; i++) {
			bool is_end = end && i != SPECIAL_PAD;

			t->id[i] = is_end ? end->integer : -1;
			t->text[i] = is_end ? mem_strdup(END_OF_TEXT) : NULL;
		}
		rc = write_json(t, (const struct json_value *const *)token, merges, text, e);
	}
	free(token);
	free(text);
	json_free(j);
	return rc;
}

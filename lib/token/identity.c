/*
 * identity.c - the tokenizer in the names of Megatron-LM's index maps
 *
 * A row for each type of tokenizer, with the arguments that Megatron-LM gives its constructor, in
 * the order of the call; arguments without an option here have Megatron-LM's default. Releases
 * differ in them. Source: Megatron-LM d98e8a6 (August 2026),
 * core/tokenizers/utils/build_tokenizer.py, and unique_identifiers of
 * core/tokenizers/text/text_tokenizer.py.
 */
#include "lib/base/mem.h"
#include "lib/token/identity.h"
#include "lib/token/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

/* How a member of the spec becomes the str() of a Python value. */
enum form {
	FIXED,  /* no member: the text of the row */
	STRING, /* None for NULL */
	STRING_GIVEN,
	INT_GIVEN, /* left out for NULL or 0 */
	INT,
	NOT,  /* a switch that turns it off */
	LIST, /* None for an empty list */
};

struct argument {
	const char *name;
	enum form form;
	const char *text;
	size_t off;
};

#define SPEC(field) NULL, offsetof(struct tokenizer_spec, field)

static const struct argument null[] = { { "vocab_size", INT_GIVEN, SPEC(vocab_size) },
	{ "pad_id", FIXED, "-1", 0 }, { 0 } };
static const struct argument sentencepiece[] = { { "chat_template", FIXED, "None", 0 },
	{ "ignore_extra_whitespaces", FIXED, "True", 0 }, { "legacy", FIXED, "False", 0 },
	{ "special_tokens", FIXED, "None", 0 }, { 0 } };
static const struct argument tiktoken[] = { { "chat_template", FIXED, "None", 0 },
	{ "pattern", STRING_GIVEN, SPEC(tiktoken_pattern) },
	{ "vocab_size", INT_GIVEN, SPEC(vocab_size) },
	{ "num_special_tokens", INT, SPEC(tiktoken_num_special_tokens) },
	{ "special_tokens", LIST, SPEC(tiktoken_special_tokens) }, { 0 } };
static const struct argument huggingface[] = { { "chat_template", FIXED, "None", 0 },
	{ "vocab_file", STRING, SPEC(vocab) }, { "merges_file", STRING, SPEC(merges) },
	{ "additional_special_tokens", FIXED, "[]", 0 }, { "use_fast", FIXED, "True", 0 },
	{ "trust_remote_code", FIXED, "False", 0 },
	{ "include_special_tokens", NOT, SPEC(hf_no_include_special_tokens) },
	{ "use_gigatoken", FIXED, "False", 0 }, { 0 } };
static const struct argument gpt2[] = { { "additional_special_tokens", FIXED, "[]", 0 },
	{ "vocab_file", STRING, SPEC(vocab) }, { "merges_file", STRING, SPEC(merges) },
	{ "use_fast", FIXED, "True", 0 }, { "trust_remote_code", FIXED, "False", 0 },
	{ "include_special_tokens", NOT, SPEC(hf_no_include_special_tokens) },
	{ "use_gigatoken", FIXED, "False", 0 }, { 0 } };

static const struct row {
	const struct tokenizer_kind *kind;
	enum { NO_PATH, MODEL, TYPE } path;
	const struct argument *argument;
} rows[] = {
	{ &tokenizer_null, NO_PATH, null },
	{ &tokenizer_sentencepiece, MODEL, sentencepiece },
	{ &tokenizer_tiktoken, MODEL, tiktoken },
	{ &tokenizer_hf, MODEL, huggingface },
	{ &tokenizer_gpt2, TYPE, gpt2 },
};

enum { ROWS = sizeof rows / sizeof *rows };

/* "key=value"; free() it. NULL: the argument is left out. A list of
 * strings, which have no quotes, is written as Python prints it. */
static char *
format(const struct argument *a, const struct tokenizer_spec *spec)
{
	const char *member = (const char *)spec + a->off, *string = NULL;
	struct opt_list list = { 0 };
	struct str out = { 0 };
	int64_t number = 0;

	if (a->form == STRING || a->form == STRING_GIVEN)
		memcpy(&string, member, sizeof string);
	if (a->form == INT || a->form == INT_GIVEN)
		memcpy(&number, member, sizeof number);
	if (a->form == LIST)
		memcpy(&list, member, sizeof list);
	if ((a->form == STRING_GIVEN && !string) || (a->form == INT_GIVEN && !number))
		return NULL;
	str_addf(&out, "%s=", a->name);
	for (int i = 0; i < list.count; i++)
		str_addf(&out, "%s'%s'", i ? ", " : "[", list.item[i]);
	if (a->form == FIXED)
		str_adds(&out, a->text);
	else if (a->form == NOT)
		str_adds(&out, *(const bool *)member ? "False" : "True");
	else if (a->form == LIST)
		str_adds(&out, list.count ? "]" : "None");
	else if (a->form == INT || a->form == INT_GIVEN)
		str_addf(&out, "%lld", (long long)number);
	else
		str_adds(&out, string ? string : "None");
	return str_detach(&out);
}

/* The type is determined as in tokenizer_open. */
int
tokenizer_identity(const struct tokenizer_spec *spec, struct tokenizer_identity *out, struct err *e)
{
	struct tokenizer t = { 0 };
	const struct row *r = rows;

	memset(out, 0, sizeof *out);
	if (!spec->type && !spec->model && !spec->vocab)
		return 0;
	if (tokenizer_choose(&t, spec, e) < 0)
		return -1;
	while (r < rows + ROWS && r->kind != t.kind)
		r++;
	if (r == rows + ROWS)
		BUG("%s: a kind without a row", t.type);
	out->path = r->path == MODEL ? spec->model : r->path == TYPE ? t.type : NULL;
	for (const struct argument *a = r->argument; a->name; a++) {
		char *text = format(a, spec);

		if (text)
			out->argument[out->count++] = text;
	}
	return 0;
}

void
tokenizer_identity_release(struct tokenizer_identity *id)
{
	while (id->count > 0)
		free(id->argument[--id->count]);
}

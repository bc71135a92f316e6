/*
 * rankfile.c - the files of a TikTokenizer
 *
 * A rank file gives neither its pattern nor its special tokens. Published files are recognised by
 * their number of ranks and, where others may have that number too, by one of their tokens.
 * Sources: tiktoken_ext/openai_public.py of openai/tiktoken, models/llama3/tokenizer.py and
 * models/llama4/tokenizer.py of meta-llama/llama-models, tokenization_qwen.py of Qwen;
 * megatron/core/tokenizers of Megatron-LM for the JSON list; tokens/tokenizers/tekken.py of
 * mistralai/mistral-common 1.13 for tekken.json.
 */
#include "lib/base/base64.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/token/bpe/rankfile.h"
#include "lib/token/names.h"

#include <stdlib.h>
#include <string.h>

enum {
	ID_SLACK = 1 << 16,    /* ranks may be this much above 16 times their number */
	TEKKEN_HEAD = 1 << 16, /* bytes of an object that are looked at to tell its kind */
	LIST_SIZE = 131072,    /* Megatron-LM's defaults */
	LIST_SPECIALS = 1000,
	TEKKEN_NAMED = 7, /* files of later versions list their special tokens */
};

/* count ids from first on; format may have a %d, counted from start. */
struct special_row {
	uint32_t first;
	int count, start;
	const char *format;
};

/* A published rank file. */
struct known {
	size_t ranks;
	uint32_t probe;    /* this rank has ... */
	const char *bytes; /* these bytes; NULL: the number of ranks is enough */
	enum pretok_scanner scanner;
	const struct special_row *special; /* ended by a row without format */
	/* the model assumed from the number of ranks; NULL: it is certain */
	const char *guess;
};

/* clang-format off */
#define RESERVED "<|reserved_special_token_%d|>"
#define POST_TRAIN "<|text_post_train_reserved_special_token_%d|>"
#define VISION "<|vision_reserved_special_token_%d|>"
#define ONE(id, text) { id, 1, 0, text }
/* clang-format on */

/* Also p50k, which continues after it. */
static const struct special_row r50k[] = { ONE(50256, "<|endoftext|>"), { 0 } };
static const struct special_row cl100k[] = { ONE(100257, "<|endoftext|>"),
	ONE(100258, "<|fim_prefix|>"), ONE(100259, "<|fim_middle|>"), ONE(100260, "<|fim_suffix|>"),
	ONE(100276, "<|endofprompt|>"), { 0 } };
static const struct special_row o200k[] = { ONE(199999, "<|endoftext|>"),
	ONE(200018, "<|endofprompt|>"), { 0 } };
static const struct special_row llama3[] = { ONE(128000, "<|begin_of_text|>"),
	ONE(128001, "<|end_of_text|>"), { 128002, 4, 0, RESERVED },
	ONE(128006, "<|start_header_id|>"), ONE(128007, "<|end_header_id|>"),
	{ 128008, 1, 4, RESERVED }, ONE(128009, "<|eot_id|>"), { 128010, 246, 5, RESERVED },
	{ 0 } };
static const struct special_row qwen[] = { ONE(151643, "<|endoftext|>"),
	ONE(151644, "<|im_start|>"), ONE(151645, "<|im_end|>"), { 151646, 205, 0, "<|extra_%d|>" },
	{ 0 } };
static const struct special_row llama4[] = { ONE(200000, "<|begin_of_text|>"),
	ONE(200001, "<|end_of_text|>"), ONE(200002, "<|fim_prefix|>"),
	ONE(200003, "<|fim_middle|>"), ONE(200004, "<|fim_suffix|>"),
	ONE(200005, "<|header_start|>"), ONE(200006, "<|header_end|>"), ONE(200007, "<|eom|>"),
	ONE(200008, "<|eot|>"), ONE(200009, "<|step|>"), { 200010, 6, 0, POST_TRAIN },
	ONE(200016, "<|python_start|>"), ONE(200017, "<|python_end|>"),
	ONE(200018, "<|finetune_right_pad|>"), { 200019, 61, 8, POST_TRAIN },
	ONE(200080, "<|image_start|>"), ONE(200081, "<|image_end|>"), { 200082, 2, 0, VISION },
	ONE(200084, "<|tile_x_separator|>"), ONE(200085, "<|tile_y_separator|>"),
	{ 200086, 4, 2, VISION }, ONE(200090, "<|image|>"), { 200091, 1, 6, VISION },
	ONE(200092, "<|patch|>"), { 200093, 1041, 7, VISION },
	{ 201134, 8, 0, "<|reasoning_reserved_special_token_%d|>" },
	ONE(201142, "<|reasoning_thinking_start|>"), ONE(201143, "<|reasoning_thinking_end|>"),
	{ 201144, 904, 0, RESERVED }, { 0 } };

static const struct known known[] = {
	{ 50256, 0, NULL, PRETOK_GPT2, r50k },
	{ 50280, 0, NULL, PRETOK_GPT2, r50k },
	{ 100256, 0, NULL, PRETOK_CL100K, cl100k },
	{ 199998, 0, NULL, PRETOK_O200K, o200k },
	{ 128000, 100255, " Conveyor", PRETOK_CL100K, llama3 },
	{ 151643, 0, NULL, PRETOK_QWEN2, qwen },
	{ 200000, 0, NULL, PRETOK_O200K, llama4, "Llama 4's" },
};

static const struct {
	const char *name;
	enum pretok_scanner scanner;
} patterns[] = {
	{ "v1", PRETOK_TIKTOKEN_V1 },
	{ "v2", PRETOK_TIKTOKEN_V2 },
	{ "gpt2", PRETOK_GPT2 },
	{ "cl100k", PRETOK_CL100K },
	{ "o200k", PRETOK_O200K },
	{ "qwen2", PRETOK_QWEN2 },
};

enum {
	NUM_KNOWN = sizeof known / sizeof *known,
	NUM_PATTERNS = sizeof patterns / sizeof *patterns
};

/* A token while its rank is not yet an index. */
struct rank {
	const unsigned char *bytes;
	uint32_t len;
	int64_t rank;
};
struct rank_list {
	struct rank *item;
	size_t count;
};

/* The first position from i on that is not white space, or n. */
static size_t
skip_white(const char *s, size_t n, size_t i)
{
	while (i < n && memchr(" \t\r\n", s[i], 4))
		i++;
	return i;
}

/* The position after a string that begins at i, or n. */
static size_t
skip_string(const char *s, size_t n, size_t i)
{
	for (i++; i < n && s[i] != '"'; i++)
		i += s[i] == '\\';
	return i < n ? i + 1 : n;
}

/* The position after a value that begins at i, or n. */
static size_t
skip_value(const char *s, size_t n, size_t i)
{
	int depth = 0;

	while (i < n) {
		if (s[i] == '"') {
			i = skip_string(s, n, i);
			if (depth == 0)
				return i;
			continue;
		}
		if (depth == 0 && (s[i] == ',' || s[i] == '}'))
			return i;
		depth += (s[i] == '{' || s[i] == '[') - (s[i] == '}' || s[i] == ']');
		i++;
	}
	return n;
}

/* Whether an object is a tekken.json, by the first of its members that tells: 1, 0, or -1 when none
 * in these bytes does. Only a tokenizer.json has a model or added tokens. */
static int
tekken_members(const char *s, size_t n)
{
	size_t i = skip_white(s, n, skip_white(s, n, 0) + 1);

	while (i < n && s[i] == '"') {
		size_t end = skip_string(s, n, i), colon = skip_white(s, n, end),
		       value = skip_white(s, n, colon + 1);
		char first = value < n ? s[value] : '\0';

		if (colon >= n || s[colon] != ':')
			return -1;
		if ((end - i == 8 && !memcmp(s + i, "\"config\"", 8)) ||
		    (end - i == 7 && !memcmp(s + i, "\"vocab\"", 7) && first == '['))
			return 1;
		if ((end - i == 7 && !memcmp(s + i, "\"model\"", 7)) ||
		    (end - i == 14 && !memcmp(s + i, "\"added_tokens\"", 14)))
			return 0;
		i = skip_white(s, n, skip_value(s, n, value));
		if (i < n && s[i] == ',')
			i = skip_white(s, n, i + 1);
	}
	return -1;
}

/* The same for a file, as far as its beginning tells. */
static int
tekken_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *s = mem_alloc(TEKKEN_HEAD, 1);
	size_t n = f ? fread(s, 1, TEKKEN_HEAD, f) : 0;
	int found = tekken_members(s, n);

	if (f)
		fclose(f);
	free(s);
	return found;
}

/* The head of any file has the whole first line, since its token is short. An object whose members
 * do not tell is a tekken.json by its name, as for mistral-common. */
bool
rankfile_detect(const char *path, const unsigned char *head, size_t n)
{
	const char *s = (const char *)head,
		   *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path,
		   *suffix = strrchr(name, '.');
	size_t i = skip_white(s, n, 0), word;

	if (i < n && s[i] == '[')
		return true;
	if (i < n && s[i] == '{') {
		int found = tekken_file(path);

		return found >= 0 ? found
				  : strstr(name, "tekken") && suffix && !strcmp(suffix, ".json");
	}
	word = base64_span(s, n);
	return word >= 4 && word + 1 < n && s[word] == ' ' && s[word + 1] >= '0' &&
	    s[word + 1] <= '9';
}

/* --- special tokens --------------------------------------------------------------------------- */

/* Adds one; its text is copied. */
static void
add_special(struct rankfile *f, const char *text, size_t len, uint32_t id)
{
	f->special = mem_realloc(f->special, f->num_special + 1, sizeof *f->special);
	f->special[f->num_special++] = (struct added_token){
		.text = mem_pool_strndup(&f->pool, text, len), .len = len, .id = id
	};
	if (id >= f->size)
		f->size = (int64_t)id + 1;
}

/* The rows of a published file. */
static void
add_known(struct rankfile *f, const struct special_row *row)
{
	for (int i = 0; row[i].format; i++)
		for (int k = 0; k < row[i].count; k++) {
			struct str s = { 0 };
			const char *number = strstr(row[i].format, "%d");

			if (number)
				str_addf(&s, "%.*s%d%s", (int)(number - row[i].format),
				    row[i].format, row[i].start + k, number + 2);
			else
				str_adds(&s, row[i].format);
			add_special(f, s.buf, s.len, row[i].first + (uint32_t)k);
			str_release(&s);
		}
}

/* A duplicate name in the list would have two ids. */
static int
add_listed(struct rankfile *f, const struct opt_list *list, uint32_t first, struct err *e)
{
	for (int i = 0; i < list->count; i++) {
		const char *text = list->item[i];

		if (!*text)
			return err_set(e, "--tiktoken-special-tokens: an empty name");
		for (int k = 0; k < i; k++)
			if (!strcmp(list->item[k], text))
				return err_set(
				    e, "--tiktoken-special-tokens: '%s' occurs twice", text);
		add_special(f, text, strlen(text), first + (uint32_t)i);
	}
	return 0;
}

/* Sets the scanner that the option names; without the option the file's own stays. */
static int
choose_pattern(struct rankfile *f, const char *name, struct err *e)
{
	for (int i = 0; name && i < NUM_PATTERNS; i++)
		if (!strcmp(patterns[i].name, name)) {
			f->scanner = patterns[i].scanner;
			return 0;
		}
	return name
	    ? err_set(
		  e, "--tiktoken-pattern %s: must be v1, v2, gpt2, cl100k, o200k or qwen2", name)
	    : 0;
}

/* --- tiktoken's lines ------------------------------------------------------------------------- */

/* One line: the token's bytes go to *to, which is moved after them. */
static int
read_line(const char *s, size_t n, unsigned char **to, struct rank *r, struct err *e)
{
	size_t word = base64_span(s, n), i = word + 1;
	int64_t len = base64_decode(s, word, *to);

	if (word == 0 || len <= 0)
		return err_set(e, "the token is not base 64");
	if (i >= n || s[word] != ' ')
		return err_set(e, "no rank after the token");
	for (r->rank = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9' || r->rank > INT32_MAX / 10 - 1)
			return err_set(
			    e, "'%.*s' is not a rank", (int)(n - word - 1), s + word + 1);
		r->rank = 10 * r->rank + (s[i] - '0');
	}
	r->bytes = *to;
	r->len = (uint32_t)len;
	*to += len;
	return 0;
}

/* Reads all lines; the caller frees the list's items. */
static int
read_lines(struct rankfile *f, const char *text, size_t len, struct rank_list *out, struct err *e)
{
	unsigned char *to = mem_pool_alloc(&f->pool, len + 4, 1);
	size_t lines = 1;

	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	out->item = mem_zalloc_whole(lines, sizeof *out->item);
	out->count = 0;
	for (size_t i = 0; i < len;) {
		const char *s = text + i, *end = memchr(s, '\n', len - i);
		size_t n = end ? (size_t)(end - s) : len - i;

		i += n + 1;
		f->line++;
		if (n && s[n - 1] == '\r')
			n--;
		if (n && read_line(s, n, &to, &out->item[out->count++], e) < 0)
			return -1;
	}
	f->line = 0;
	return out->count ? 0 : err_set(e, "no ranks");
}

/* Tokens by id; holes stay empty. */
static int
place(struct rankfile *f, const struct rank_list *list, struct err *e)
{
	const struct rank *rank = list->item;
	size_t count = list->count;

	for (size_t i = 0; i < count; i++) {
		if (rank[i].rank > 16 * (int64_t)count + ID_SLACK)
			return err_set(e, "rank %lld, but there are %zu tokens",
			    (long long)rank[i].rank, count);
		if (rank[i].rank >= f->size)
			f->size = rank[i].rank + 1;
	}
	f->token = mem_zalloc_whole((size_t)f->size, sizeof *f->token);
	for (size_t i = 0; i < count; i++) {
		struct bpe_token *t = &f->token[rank[i].rank];

		if (t->bytes)
			return err_set(e, "rank %lld occurs twice", (long long)rank[i].rank);
		*t = (struct bpe_token){ rank[i].bytes, rank[i].len };
	}
	return 0;
}

/* The published file that this is, or NULL. */
static const struct known *
recognise(const struct rankfile *f, size_t count)
{
	for (int i = 0; i < NUM_KNOWN; i++) {
		const struct known *k = &known[i];
		size_t len = k->bytes ? strlen(k->bytes) : 0;

		if (k->ranks == count && k->probe < f->size &&
		    (!k->bytes ||
			(f->token[k->probe].len == len &&
			    !memcmp(f->token[k->probe].bytes, k->bytes, len))))
			return k;
	}
	return NULL;
}

/* Options override what is known about the file. */
static int
read_ranks(struct rankfile *f, const char *text, size_t len, const struct tokenizer_spec *spec,
    struct err *e)
{
	const struct known *k;
	struct rank_list list;
	int64_t size;
	int rc;

	rc = read_lines(f, text, len, &list, e) < 0 || place(f, &list, e) < 0 ? -1 : 0;
	free(list.item);
	if (rc < 0)
		return -1;
	k = recognise(f, list.count);
	size = f->size;
	f->scanner = k ? k->scanner : PRETOK_NONE;
	f->guess = k ? k->guess : NULL;
	if (choose_pattern(f, spec->tiktoken_pattern, e) < 0)
		return -1;
	if (f->scanner == PRETOK_NONE)
		return err_set(
		    e, "no published file has %zu ranks: --tiktoken-pattern is needed", list.count);
	if (spec->tiktoken_special_tokens.count)
		rc = add_listed(f, &spec->tiktoken_special_tokens, (uint32_t)size, e);
	else if (k)
		add_known(f, k->special);
	/* special tokens may have added ids after the ranks */
	f->token = mem_realloc(f->token, (size_t)f->size, sizeof *f->token);
	memset(f->token + size, 0, (size_t)(f->size - size) * sizeof *f->token);
	return rc;
}

/* --- Megatron-LM's list ----------------------------------------------------------------------- */

/* Special tokens have the first ids: those of the list, then fillers. */
static int
add_list_specials(struct rankfile *f, const struct opt_list *given, int64_t count, struct err *e)
{
	static const char *const usual[] = { "<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>",
		"<sep>" };
	struct opt_list list = { .item = (const char **)usual, .count = 7 };

	if (given->count)
		list = *given;
	if (count < list.count)
		return err_set(e,
		    "--tiktoken-num-special-tokens %lld: must be at least the %d that have names",
		    (long long)count, list.count);
	for (int i = 0; i < 3; i++) {
		int k = 0;

		while (k < list.count && strcmp(list.item[k], usual[i]) != 0)
			k++;
		if (k == list.count)
			return err_set(e, "--tiktoken-special-tokens: '%s' is missing", usual[i]);
	}
	if (add_listed(f, &list, 0, e) < 0)
		return -1;
	add_known(f,
	    (struct special_row[]){
		{ (uint32_t)list.count, (int)count - list.count, list.count, "<SPECIAL_%d>" },
		{ 0 } });
	return 0;
}

/* Entry i has rank i; the first 256 are the bytes in their order. */
static int
read_entry(struct rankfile *f, const struct json_value *v, size_t i, uint32_t id, struct err *e)
{
	const struct json_value *rank = json_get(v, "rank"), *text = json_get(v, "token_bytes");
	unsigned char *bytes;
	int64_t n;

	if (!rank || rank->type != JSON_INT || rank->integer != (int64_t)i)
		return err_set(e, "entry %zu: \"rank\" must be %zu", i, i);
	if (!text || text->type != JSON_STRING)
		return err_set(e, "entry %zu: \"token_bytes\" must be a string", i);
	bytes = mem_pool_alloc(&f->pool, text->len + 1, 1);
	n = base64_decode(text->string, text->len, bytes);
	if (n <= 0)
		return err_set(e, "entry %zu: \"token_bytes\" is not base 64", i);
	if (i < 256 && (n != 1 || bytes[0] != i))
		return err_set(e, "entry %zu: must be byte 0x%02zx", i, i);
	f->token[id] = (struct bpe_token){ bytes, (uint32_t)n };
	return 0;
}

/* A longer list is cut at the vocabulary size; a shorter one leaves ids without a token. */
static int
read_list(struct rankfile *f, const struct json_value *root, const struct tokenizer_spec *spec,
    struct err *e)
{
	int64_t specials =
	    spec->tiktoken_num_special_tokens ? spec->tiktoken_num_special_tokens : LIST_SPECIALS;
	int64_t size = spec->vocab_size ? spec->vocab_size : LIST_SIZE;
	size_t used;

	f->scanner = PRETOK_TIKTOKEN_V2;
	if (choose_pattern(f, spec->tiktoken_pattern, e) < 0)
		return -1;
	if (root->type != JSON_ARRAY)
		return err_set(e, "not a list of tokens");
	if (specials < 0 || size <= specials || size > INT32_MAX)
		return err_set(e, "--vocab-size %lld: must be above the %lld special tokens",
		    (long long)size, (long long)specials);
	used = root->len < (size_t)(size - specials) ? root->len : (size_t)(size - specials);
	f->size = size;
	f->token = mem_zalloc((size_t)size, sizeof *f->token);
	for (size_t i = 0; i < used; i++)
		if (read_entry(f, &root->item[i], i, (uint32_t)(specials + (int64_t)i), e) < 0)
			return -1;
	return add_list_specials(f, &spec->tiktoken_special_tokens, specials, e);
}

/* --- Mistral's tekken.json -------------------------------------------------------------------- */

/* The special tokens of a file that lists none; its config must be of an early version. */
static int
add_first_tekken(struct rankfile *f, const struct json_value *config, struct err *e)
{
	static const char *const names[] = { "<unk>", "<s>", "</s>", "[INST]", "[/INST]",
		"[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
		"[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]",
		"[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]" };
	const char *version;

	if (json_string(config, "version", "", &version, e) < 0)
		return -1;
	if (*version != 'v' || strtol(version + 1, NULL, 10) > TEKKEN_NAMED)
		return err_set(e,
		    "no \"special_tokens\" and version '%.20s': only v1 to v%d have default ones",
		    version, TEKKEN_NAMED);
	for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
		add_special(f, names[i], strlen(names[i]), i);
	return 0;
}

/* A special token in the file's list; its rank is its position. */
static int
add_tekken_special(struct rankfile *f, const struct json_value *v, uint32_t place,
    struct names *seen, struct err *e)
{
	const struct json_value *rank = json_get(v, "rank"), *text = json_get(v, "token_str");

	if (!rank || rank->type != JSON_INT || rank->integer != place)
		return err_set(e, "special token %u: \"rank\" must be %u", place, place);
	if (!text || text->type != JSON_STRING || text->len == 0)
		return err_set(e, "special token %u: \"token_str\" must be a string", place);
	if (names_add(seen, text->string, text->len, place) >= 0)
		return err_set(e, "special token %u: '%.40s' occurs twice", place, text->string);
	add_special(f, text->string, text->len, place);
	return 0;
}

/* Special tokens have the first ids: those of the file, in order, then fillers. */
static int
add_tekken_specials(
    struct rankfile *f, const struct json_value *root, int64_t specials, struct err *e)
{
	const struct json_value *list = json_get(root, "special_tokens");
	struct names seen = { 0 };
	size_t count;
	int rc = 0;

	if (!list || list->type == JSON_NULL) {
		rc = add_first_tekken(f, json_get(root, "config"), e);
	} else if (list->type != JSON_ARRAY) {
		rc = err_set(e, "\"special_tokens\" must be a list");
	} else {
		names_init(&seen, list->len);
		for (size_t i = 0; i < list->len && rc == 0; i++)
			rc = add_tekken_special(f, &list->item[i], (uint32_t)i, &seen, e);
		names_release(&seen);
	}
	if (rc < 0)
		return -1;
	count = f->num_special;
	if ((int64_t)count > specials)
		return err_set(e, "%zu special tokens, but \"default_num_special_tokens\" %lld",
		    count, (long long)specials);
	add_known(f,
	    (struct special_row[]){
		{ (uint32_t)count, (int)(specials - (int64_t)count), (int)count, "<SPECIAL_%d>" },
		{ 0 } });
	return 0;
}

/* Its config has the pattern; as many entries of the vocabulary are used as "default_vocab_size"
 * ids require. */
static int
read_tekken(struct rankfile *f, const struct json_value *root, const struct tokenizer_spec *spec,
    struct err *e)
{
	const struct json_value *config = json_get(root, "config"),
				*vocab = json_get(root, "vocab"),
				*pattern = json_get(config, "pattern");
	int64_t size, specials;

	if (!pattern || pattern->type != JSON_STRING || !vocab || vocab->type != JSON_ARRAY)
		return err_set(e,
		    "not a tekken.json: it must have a \"config\" with a \"pattern\", and a list "
		    "\"vocab\"");
	if (spec->tiktoken_special_tokens.count)
		return err_set(
		    e, "--tiktoken-special-tokens: not with a tekken.json, which names its own");
	if (json_int(config, "default_vocab_size", 0, &size, e) < 0 ||
	    json_int(config, "default_num_special_tokens", 0, &specials, e) < 0)
		return -1;
	if (specials < 0 || size <= specials || size - specials > (int64_t)vocab->len ||
	    specials > 16 * LIST_SIZE)
		return err_set(e,
		    "\"default_vocab_size\" %lld: must be above the %lld special tokens, by at "
		    "most the %zu of "
		    "\"vocab\"",
		    (long long)size, (long long)specials, vocab->len);
	f->scanner = pretok_find(pattern->string, pattern->len);
	if (choose_pattern(f, spec->tiktoken_pattern, e) < 0)
		return -1;
	if (f->scanner == PRETOK_NONE)
		return err_set(e, "\"pattern\" is not a known one: --tiktoken-pattern is needed");
	f->size = size;
	f->token = mem_zalloc_whole((size_t)size, sizeof *f->token);
	for (size_t i = 0; i < (size_t)(size - specials); i++)
		if (read_entry(f, &vocab->item[i], i, (uint32_t)(specials + (int64_t)i), e) < 0)
			return -1;
	return add_tekken_specials(f, root, specials, e);
}

/* --- all -------------------------------------------------------------------------------------- */

/* JSON begins with a bracket or a brace, which base 64 does not have. */
int
rankfile_read(struct rankfile *f, const char *text, size_t len, const struct tokenizer_spec *spec,
    struct err *e)
{
	size_t i = skip_white(text, len, 0);
	struct json *j;
	int rc;

	if (i == len || (text[i] != '[' && text[i] != '{'))
		return read_ranks(f, text, len, spec, e);
	j = json_parse(text, len, text[i] == '[' ? "list" : "tekken.json", e);
	if (!j)
		return -1;
	rc = (text[i] == '[' ? read_list : read_tekken)(f, json_root(j), spec, e);
	json_free(j);
	return rc;
}

/* Also after a failed read. */
void
rankfile_release(struct rankfile *f)
{
	mem_pool_release(&f->pool);
	free(f->token);
	free(f->special);
	memset(f, 0, sizeof *f);
}

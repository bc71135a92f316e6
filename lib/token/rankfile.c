/*
 * rankfile.c - the files of a TikTokenizer
 *
 * A rank file says neither its pattern nor its special tokens; those of the published ones are known
 * by how many ranks they have, and for a number that others might have too, by one of their tokens.
 * Sources: tiktoken_ext/openai_public.py of openai/tiktoken, llama3/tokenizer.py of meta-llama,
 * tokenization_qwen.py of Qwen; megatron/core/tokenizers of Megatron-LM for the JSON list.
 */
#include "lib/token/rankfile.h"
#include "lib/base/base64.h"
#include "lib/base/json.h"
#include "lib/base/str.h"

#include <stdlib.h>
#include <string.h>

enum {
	ID_SLACK = 1 << 16,             /* ranks may be this much above 16 times their number */
	LIST_SIZE = 131072,             /* Megatron-LM's defaults */
	LIST_SPECIALS = 1000,
	KNOWN_SPECIALS = 8,
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
	uint32_t probe;                 /* this rank has ... */
	const char *bytes;              /* these bytes; NULL: the number of ranks is enough */
	enum pretok_scanner scanner;
	struct special_row special[KNOWN_SPECIALS];
};

#define RESERVED "<|reserved_special_token_%d|>"

static const struct known known[] = {
	{ 50256, 0, NULL, PRETOK_GPT2, { { 50256, 1, 0, "<|endoftext|>" } } },
	{ 50280, 0, NULL, PRETOK_GPT2, { { 50256, 1, 0, "<|endoftext|>" } } },
	{ 100256, 0, NULL, PRETOK_CL100K, { { 100257, 1, 0, "<|endoftext|>" },
	    { 100258, 1, 0, "<|fim_prefix|>" }, { 100259, 1, 0, "<|fim_middle|>" },
	    { 100260, 1, 0, "<|fim_suffix|>" }, { 100276, 1, 0, "<|endofprompt|>" } } },
	{ 199998, 0, NULL, PRETOK_O200K,
	    { { 199999, 1, 0, "<|endoftext|>" }, { 200018, 1, 0, "<|endofprompt|>" } } },
	{ 128000, 100255, " Conveyor", PRETOK_CL100K, { { 128000, 1, 0, "<|begin_of_text|>" },
	    { 128001, 1, 0, "<|end_of_text|>" }, { 128002, 4, 0, RESERVED },
	    { 128006, 1, 0, "<|start_header_id|>" }, { 128007, 1, 0, "<|end_header_id|>" },
	    { 128008, 1, 4, RESERVED }, { 128009, 1, 0, "<|eot_id|>" }, { 128010, 246, 5, RESERVED } } },
	{ 151643, 0, NULL, PRETOK_QWEN2, { { 151643, 1, 0, "<|endoftext|>" },
	    { 151644, 1, 0, "<|im_start|>" }, { 151645, 1, 0, "<|im_end|>" },
	    { 151646, 205, 0, "<|extra_%d|>" } } },
};

static const struct {
	const char *name;
	enum pretok_scanner scanner;
} patterns[] = {
	{ "v1", PRETOK_TIKTOKEN_V1 }, { "v2", PRETOK_TIKTOKEN_V2 }, { "gpt2", PRETOK_GPT2 },
	{ "cl100k", PRETOK_CL100K }, { "o200k", PRETOK_O200K }, { "qwen2", PRETOK_QWEN2 },
};

enum { NUM_KNOWN = sizeof known / sizeof *known, NUM_PATTERNS = sizeof patterns / sizeof *patterns };

/* A token while its rank is not yet an index. */
struct rank {
	const unsigned char *bytes;
	uint32_t len;
	int64_t rank;
};

/* The first line is whole within the head of any file, since its token is short. */
bool
rankfile_detect(const unsigned char *head, size_t n)
{
	const char *s = (const char *)head;
	size_t i = 0, word;

	while (i < n && memchr(" \t\r\n", s[i], 4))
		i++;
	if (i < n && s[i] == '[')
		return true;
	word = base64_span(s, n);
	return word >= 4 && word + 1 < n && s[word] == ' ' && s[word + 1] >= '0' && s[word + 1] <= '9';
}

/* --- special tokens -------------------------------------------------------------------------------- */

/* Adds one; its text is copied. */
static void
add_special(struct rankfile *f, const char *text, size_t len, uint32_t id)
{
	f->special = mem_realloc(f->special, f->num_special + 1, sizeof *f->special);
	f->special[f->num_special++] = (struct added_token){
		.text = mem_pool_strndup(&f->pool, text, len), .len = len, .id = id };
	if (id >= f->size)
		f->size = (int64_t)id + 1;
}

/* The rows of a published file. */
static void
add_known(struct rankfile *f, const struct special_row *row)
{
	for (int i = 0; i < KNOWN_SPECIALS && row[i].format; i++)
		for (int k = 0; k < row[i].count; k++) {
			struct str s = { 0 };
			const char *number = strstr(row[i].format, "%d");

			if (number)
				str_addf(&s, "%.*s%d%s", (int)(number - row[i].format), row[i].format,
				    row[i].start + k, number + 2);
			else
				str_adds(&s, row[i].format);
			add_special(f, s.buf, s.len, row[i].first + (uint32_t)k);
			str_release(&s);
		}
}

/* A name that is twice in the list would have two ids. */
static int
add_listed(struct rankfile *f, const struct opt_list *list, uint32_t first, struct err *e)
{
	for (int i = 0; i < list->count; i++) {
		const char *text = list->item[i];

		if (!*text)
			return err_set(e, "--tiktoken-special-tokens: an empty name");
		for (int k = 0; k < i; k++)
			if (!strcmp(list->item[k], text))
				return err_set(e, "--tiktoken-special-tokens: '%s' is there twice", text);
		add_special(f, text, strlen(text), first + (uint32_t)i);
	}
	return 0;
}

/* Sets the scanner that the option names; a file's own stays when there is no option. */
static int
choose_pattern(struct rankfile *f, const char *name, struct err *e)
{
	for (int i = 0; name && i < NUM_PATTERNS; i++)
		if (!strcmp(patterns[i].name, name)) {
			f->scanner = patterns[i].scanner;
			return 0;
		}
	return name ? err_set(e, "--tiktoken-pattern %s: must be v1, v2, gpt2, cl100k, o200k or qwen2", name)
	            : 0;
}

/* --- tiktoken's lines ------------------------------------------------------------------------------ */

/* One line: the token's bytes go to *to, which is moved behind them. */
static int
read_line(const char *s, size_t n, unsigned char **to, struct rank *r, struct err *e)
{
	size_t word = base64_span(s, n), i = word + 1;
	int64_t len = base64_decode(s, word, *to);

	if (word == 0 || len <= 0)
		return err_set(e, "no token in base 64");
	if (i >= n || s[word] != ' ')
		return err_set(e, "no rank behind the token");
	for (r->rank = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9' || r->rank > INT32_MAX / 10 - 1)
			return err_set(e, "'%.*s' is no rank", (int)(n - word - 1), s + word + 1);
		r->rank = 10 * r->rank + (s[i] - '0');
	}
	r->bytes = *to;
	r->len = (uint32_t)len;
	*to += len;
	return 0;
}

/* All lines; *count of them. The caller frees *out. */
static int
read_lines(struct rankfile *f, const char *text, size_t len, struct rank **out, size_t *count,
    struct err *e)
{
	unsigned char *to = mem_pool_alloc(&f->pool, len + 4, 1);
	size_t lines = 1;

	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	*out = mem_zalloc_whole(lines, sizeof **out);
	*count = 0;
	for (size_t i = 0; i < len;) {
		const char *s = text + i, *end = memchr(s, '\n', len - i);
		size_t n = end ? (size_t)(end - s) : len - i;

		i += n + 1;
		f->line++;
		if (n && s[n - 1] == '\r')
			n--;
		if (n && read_line(s, n, &to, &(*out)[(*count)++], e) < 0)
			return -1;
	}
	f->line = 0;
	return *count ? 0 : err_set(e, "no ranks");
}

/* Tokens by id; holes stay empty. */
static int
place(struct rankfile *f, const struct rank *rank, size_t count, struct err *e)
{
	for (size_t i = 0; i < count; i++) {
		if (rank[i].rank > 16 * (int64_t)count + ID_SLACK)
			return err_set(e, "rank %lld, but there are %zu tokens", (long long)rank[i].rank, count);
		if (rank[i].rank >= f->size)
			f->size = rank[i].rank + 1;
	}
	f->token = mem_zalloc_whole((size_t)f->size, sizeof *f->token);
	for (size_t i = 0; i < count; i++) {
		struct bpe_token *t = &f->token[rank[i].rank];

		if (t->bytes)
			return err_set(e, "rank %lld is there twice", (long long)rank[i].rank);
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
		    (!k->bytes || (f->token[k->probe].len == len &&
		    !memcmp(f->token[k->probe].bytes, k->bytes, len))))
			return k;
	}
	return NULL;
}

/* After the ranks, ids that specials need may be new ones. */
static void
grow(struct rankfile *f, int64_t size)
{
	f->token = mem_realloc(f->token, (size_t)f->size, sizeof *f->token);
	memset(f->token + size, 0, (size_t)(f->size - size) * sizeof *f->token);
}

/* Options win over what is known about the file. */
static int
read_ranks(struct rankfile *f, const char *text, size_t len, const struct tokenizer_spec *spec,
    struct err *e)
{
	const struct known *k;
	struct rank *rank;
	size_t count;
	int64_t size;
	int rc;

	rc = read_lines(f, text, len, &rank, &count, e) < 0 || place(f, rank, count, e) < 0 ? -1 : 0;
	free(rank);
	if (rc < 0)
		return -1;
	k = recognise(f, count);
	size = f->size;
	f->scanner = k ? k->scanner : PRETOK_NONE;
	if (choose_pattern(f, spec->tiktoken_pattern, e) < 0)
		return -1;
	if (f->scanner == PRETOK_NONE)
		return err_set(e, "%zu ranks are none of the published files: --tiktoken-pattern is needed",
		    count);
	if (spec->tiktoken_special_tokens.count)
		rc = add_listed(f, &spec->tiktoken_special_tokens, (uint32_t)size, e);
	else if (k)
		add_known(f, k->special);
	grow(f, size);
	return rc;
}

/* --- Megatron-LM's list ---------------------------------------------------------------------------- */

/* Special tokens are the first ids: those of the list, then fillers. */
static int
add_list_specials(struct rankfile *f, const struct opt_list *given, int64_t count, struct err *e)
{
	static const char *const usual[] = { "<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>" };
	struct opt_list list = { .item = (const char **)usual, .count = 7 };

	if (given->count)
		list = *given;
	if (count < list.count)
		return err_set(e, "--tiktoken-num-special-tokens %lld: must be at least the %d that have names",
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
	add_known(f, (struct special_row[KNOWN_SPECIALS]){ { (uint32_t)list.count,
		(int)count - list.count, list.count, "<SPECIAL_%d>" } });
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
		return err_set(e, "entry %zu: \"token_bytes\" is no base 64", i);
	if (i < 256 && (n != 1 || bytes[0] != i))
		return err_set(e, "entry %zu: must be byte 0x%02zx", i, i);
	f->token[id] = (struct bpe_token){ bytes, (uint32_t)n };
	return 0;
}

/* Of a longer list the first entries are used; a shorter one leaves ids without a token. */
static int
read_list(struct rankfile *f, const struct json_value *root, const struct tokenizer_spec *spec,
    struct err *e)
{
	int64_t specials = spec->tiktoken_num_special_tokens ? spec->tiktoken_num_special_tokens : LIST_SPECIALS;
	int64_t size = spec->vocab_size ? spec->vocab_size : LIST_SIZE;
	size_t used;

	f->scanner = PRETOK_TIKTOKEN_V2;
	if (choose_pattern(f, spec->tiktoken_pattern, e) < 0)
		return -1;
	if (root->type != JSON_ARRAY)
		return err_set(e, "not a list of tokens");
	if (specials < 0 || size <= specials || size > INT32_MAX)
		return err_set(e, "--vocab-size %lld: must be above the %lld special tokens", (long long)size,
		    (long long)specials);
	used = root->len < (size_t)(size - specials) ? root->len : (size_t)(size - specials);
	f->size = size;
	f->token = mem_zalloc((size_t)size, sizeof *f->token);
	for (size_t i = 0; i < used; i++)
		if (read_entry(f, &root->item[i], i, (uint32_t)(specials + (int64_t)i), e) < 0)
			return -1;
	return add_list_specials(f, &spec->tiktoken_special_tokens, specials, e);
}

/* --- both ------------------------------------------------------------------------------------------ */

/* JSON begins with a bracket, which is no base 64. */
int
rankfile_read(struct rankfile *f, const char *text, size_t len, const struct tokenizer_spec *spec,
    struct err *e)
{
	struct json *j;
	size_t i = 0;
	int rc;

	while (i < len && memchr(" \t\r\n", text[i], 4))
		i++;
	if (i == len || text[i] != '[')
		return read_ranks(f, text, len, spec, e);
	j = json_parse(text, len, "list", e);
	if (!j)
		return -1;
	rc = read_list(f, json_root(j), spec, e);
	json_free(j);
	return rc;
}

/* Also after a reading that failed. */
void
rankfile_release(struct rankfile *f)
{
	mem_pool_release(&f->pool);
	free(f->token);
	free(f->special);
	memset(f, 0, sizeof *f);
}

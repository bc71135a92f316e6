/*
 * hf.c - property test: ids of random tokenizer.json files equal those of a slow reference
 *
 * The reference works only on strings and shares no code with lib/token: it looks for added tokens
 * at every position, normalises each part as a whole, splits it at one character, and tries every
 * merge in order of rank.
 */
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/token/tokenizer.h"
#include "tests/check.h"
#include "tests/tiny_bpe.h"

#include <unistd.h>
#include <utf8proc.h>

enum { FILES = 100, TEXTS = 1000, ADDED = 6, FRAGMENTS = 28 };

static const char *const fragment[FRAGMENTS] = { "a", "b", "c", "A", "B", " ", " ", "  ", "-", "--",
	"<a>", "<A>", "<a><b>", "ab", "abc", "[x]", "<", ">", "e\xcc\x81", "\xc3\xa9",
	"\xea\xb0\x80\xe1\x86\xa8", "\xe2\x84\xab", "\xe6\xbc\xa2", "_", "b-", "\n",
	"q\xcc\x81\xcc\xa7", "<|" };

struct added {
	const char *text;
	char form[64]; /* the form that is searched for */
	int id;
	bool single_word, lstrip, rstrip, normalized, special;
};

struct model {
	const struct tiny_bpe *tiny;
	struct added added[ADDED];
	bool nfc, lower, strip, replace, merged, template;
};

static bool
coin(struct mt19937 *rng)
{
	return mt19937_interval(rng, 1) != 0;
}

/* Capitals of ASCII and of Latin-1 with an accent, and the sign U+212B. */
static size_t
ref_lower(char *s)
{
	size_t n = 0;

	for (size_t i = 0; s[i]; i++) {
		if (!strncmp(s + i, "\xe2\x84\xab", 3)) {
			s[n++] = '\xc3';
			s[n++] = '\xa5';
			i += 2;
			continue;
		}
		s[n] = s[i];
		if (s[i] >= 'A' && s[i] <= 'Z')
			s[n] = (char)(s[i] + 32);
		if (n > 0 && s[n - 1] == '\xc3' && (unsigned char)s[i] >= 0x80 &&
		    (unsigned char)s[i] <= 0x9e)
			s[n] = (char)(s[i] + 32);
		n++;
	}
	s[n] = '\0';
	return n;
}

/* The normalised form; out is large enough for any text of this test. */
static void
ref_normalize(const struct model *m, const char *text, char *out)
{
	char *form = m->nfc ? (char *)utf8proc_NFC((const unsigned char *)text) : mem_strdup(text);
	size_t n = 0, start = 0;

	for (const char *s = form; *s; s++) {
		if (m->replace && !strncmp(s, "ab", 2)) {
			out[n++] = 'X';
			s++;
			continue;
		}
		out[n++] = *s;
	}
	out[n] = '\0';
	if (m->lower)
		n = ref_lower(out);
	while (m->strip && n > 0 && (out[n - 1] == ' ' || out[n - 1] == '\n'))
		n--;
	while (m->strip && start < n && (out[start] == ' ' || out[start] == '\n'))
		start++;
	memmove(out, out + start, n - start);
	out[n - start] = '\0';
	free(form);
}

/* Merges a piece: the first merge in the list that fits anywhere, at its leftmost place. */
static void
ref_merge(const struct tiny_bpe *t, const char *s, size_t n, struct token_ids *out)
{
	uint32_t id[256];
	bool again = true;

	for (size_t i = 0; i < n; i++)
		id[i] = (unsigned char)s[i];
	while (again) {
		again = false;
		for (int r = 256; r < t->count && !again; r++)
			for (size_t i = 0; i + 1 < n && !again; i++)
				if (id[i] == (uint32_t)t->left[r] &&
				    id[i + 1] == (uint32_t)t->right[r]) {
					id[i] = (uint32_t)r;
					memmove(id + i + 1, id + i + 2, (n - i - 2) * sizeof *id);
					n--;
					again = true;
				}
	}
	for (size_t i = 0; i < n; i++)
		token_ids_add(out, id[i]);
}

/* Splits at '-', which is a piece of its own or ends the piece before it. */
static void
ref_split(const struct model *m, const char *s, size_t n, struct token_ids *out)
{
	size_t start = 0;

	for (size_t i = 0; i < n; i++) {
		bool joined = m->merged && i > start;

		if (s[i] != '-')
			continue;
		if (!joined)
			ref_merge(m->tiny, s + start, i - start, out);
		ref_merge(m->tiny, s + (joined ? start : i), i + 1 - (joined ? start : i), out);
		start = i + 1;
	}
	ref_merge(m->tiny, s + start, n - start, out);
}

static bool
is_space(char c)
{
	return c == ' ' || c == '\n';
}

/* True when the characters on both sides are not part of words; letters outside ASCII and marks
 * are. */
static bool
ref_alone(const char *s, size_t n, size_t start, size_t end)
{
	const char *c[2] = { start > 0 ? s + start - 1 : NULL, end < n ? s + end : NULL };

	for (int i = 0; i < 2; i++)
		if (c[i] &&
		    ((*c[i] & 0x80) || (*c[i] >= 'a' && *c[i] <= 'z') ||
			(*c[i] >= 'A' && *c[i] <= 'Z') || *c[i] == '_'))
			return false;
	return true;
}

/* The longest token that matches at i; -1: none. */
static int
ref_longest(const struct model *m, const char *s, size_t n, size_t i, bool normalized)
{
	int best = -1;

	for (int k = 0; k < ADDED; k++) {
		size_t len = strlen(m->added[k].form);

		if (m->added[k].normalized == normalized && len > 0 && len <= n - i &&
		    !memcmp(s + i, m->added[k].form, len) &&
		    (best < 0 || len > strlen(m->added[best].form)))
			best = k;
	}
	return best;
}

static void ref_part(
    const struct model *m, const char *s, size_t n, bool normalized, struct token_ids *out);

/* Finds the tokens of one set of added tokens. */
static void
ref_added(const struct model *m, const char *s, size_t n, bool normalized, struct token_ids *out)
{
	size_t done = 0;

	for (size_t i = 0; i < n;) {
		int k = ref_longest(m, s, n, i, normalized);
		size_t end = k < 0 ? i + 1 : i + strlen(m->added[k].form), start = i;

		i = end;
		if (k < 0 || (m->added[k].single_word && !ref_alone(s, n, start, end)))
			continue;
		while (m->added[k].lstrip && start > done && is_space(s[start - 1]))
			start--;
		while (m->added[k].rstrip && end < n && is_space(s[end]))
			end++;
		if (start > done)
			ref_part(m, s + done, start - done, normalized, out);
		token_ids_add(out, (uint32_t)m->added[k].id);
		done = end;
	}
	if (done < n)
		ref_part(m, s + done, n - done, normalized, out);
}

/* The text between added tokens: first in the raw text, then in the normalised one. */
static void
ref_part(const struct model *m, const char *s, size_t n, bool normalized, struct token_ids *out)
{
	char raw[1024], form[2048];

	if (normalized) {
		ref_split(m, s, n, out);
		return;
	}
	memcpy(raw, s, n);
	raw[n] = '\0';
	ref_normalize(m, raw, form);
	ref_added(m, form, strlen(form), true, out);
}

static void
ref_encode(const struct model *m, const char *text, struct token_ids *out)
{
	if (m->template)
		token_ids_add(out, 'a');
	ref_added(m, text, strlen(text), false, out);
	if (m->template)
		token_ids_add(out, 'b');
}

static const char *
yes(bool b)
{
	return b ? "true" : "false";
}

/* The tokenizer.json of these settings. */
static void
write_model(const struct model *m, struct str *out)
{
	static const char template[] =
	    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"a\"}},"
	    "{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"b\"}}],\"special_tokens\":"
	    "{\"a\":{\"ids\":[97]},\"b\":{\"ids\":[98]}}}";

	str_adds(out, "{\"added_tokens\":[");
	for (int k = 0; k < ADDED; k++) {
		const struct added *a = &m->added[k];

		str_addf(out, "%s{\"id\":%d,\"content\":", k ? "," : "", a->id);
		str_add_json(out, a->text, strlen(a->text));
		str_addf(out,
		    ",\"single_word\":%s,\"lstrip\":%s,\"rstrip\":%s,\"normalized\":%s,\"special\":"
		    "%s}",
		    yes(a->single_word), yes(a->lstrip), yes(a->rstrip), yes(a->normalized),
		    yes(a->special));
	}
	str_addf(out, "],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s%s%s%s]},",
	    m->nfc ? "{\"type\":\"NFC\"}," : "",
	    m->replace ? "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"ab\"},\"content\":\"X\"},"
		       : "",
	    m->lower ? "{\"type\":\"Lowercase\"}," : "",
	    m->strip
		? "{\"type\":\"Strip\"}"
		: "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\u0001\"},\"content\":\"\"}");
	str_addf(out,
	    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
	    "\"pattern\":"
	    "{\"String\":\"-\"},\"behavior\":\"%s\",\"invert\":false},{\"type\":\"ByteLevel\","
	    "\"add_prefix_space\":false,\"use_regex\":false}]},",
	    m->merged ? "MergedWithPrevious" : "Isolated");
	str_addf(out,
	    "\"post_processor\":%s,\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"vocab\":{",
	    m->template ? template : "null");
	for (int i = 0; i < m->tiny->count; i++) {
		str_adds(out, i ? "," : "");
		str_add_json(out, m->tiny->name[i], strlen(m->tiny->name[i]));
		str_addf(out, ":%d", i);
	}
	str_adds(out, "},\"merges\":[");
	for (int i = 256; i < m->tiny->count; i++) {
		const char *left = m->tiny->name[m->tiny->left[i]],
			   *right = m->tiny->name[m->tiny->right[i]];

		str_adds(out, i > 256 ? ",[" : "[");
		str_add_json(out, left, strlen(left));
		str_addc(out, ',');
		str_add_json(out, right, strlen(right));
		str_addc(out, ']');
	}
	str_adds(out, "]}}");
}

/* The added tokens have different texts; otherwise the first would hide the others. */
static void
random_model(struct model *m, struct mt19937 *rng)
{
	static const char *const texts[ADDED + 2] = { "<a>", "<a><b>", "abc", "[x]", "b-", "  ",
		"<A>", "\xe2\x84\xab" };
	size_t first = mt19937_interval(rng, 2);
	int next = TINY_TOKENS;

	m->nfc = coin(rng);
	m->lower = coin(rng);
	m->strip = coin(rng);
	m->replace = coin(rng);
	m->merged = coin(rng);
	m->template = coin(rng);
	for (size_t k = 0; k < ADDED; k++) {
		struct added *a = &m->added[k];

		*a = (struct added){ .text = texts[first + k],
			.single_word = coin(rng),
			.normalized = coin(rng),
			.special = coin(rng) };
		a->id = next;
		for (int i = 0; i < m->tiny->count; i++)
			if (m->tiny->len[i] == strlen(a->text) &&
			    !memcmp(m->tiny->bytes[i], a->text, m->tiny->len[i]))
				a->id = i;
		next += a->id == next;
		/* White space between two tokens that both strip it follows rules not modelled
		 * here, so only one side strips. */
		a->lstrip = strcmp(a->text, "  ") != 0 && coin(rng);
		/* One of which nothing is left matches between all bytes: tests/unit/hf.c. */
		if (a->normalized)
			ref_normalize(m, a->text, a->form);
		a->normalized = a->normalized && *a->form;
		if (!a->normalized)
			snprintf(a->form, sizeof a->form, "%s", a->text);
	}
}

/* One file, many texts, by one worker. */
static void
test_model(const struct model *m, struct mt19937 *rng)
{
	struct tokenizer_spec spec = { .model = "tokenizer.json" };
	struct token_ids got = { 0 }, want = { 0 };
	struct tokenizer_worker *w;
	struct tokenizer *t;
	struct str json = { 0 };
	struct err e = { "" };

	write_model(m, &json);
	CHECK(outfile_write("tokenizer.json", json.buf, json.len, &e) == 0);
	t = tokenizer_open(&spec, &e);
	CHECK_STR(t ? "" : e.msg, "");
	if (!t)
		return;
	w = tokenizer_worker_new(t);
	for (int i = 0; i < TEXTS; i++) {
		struct str text = { 0 };
		size_t n = mt19937_interval(rng, 14);

		str_adds(&text, "");
		for (size_t k = 0; k < n; k++)
			str_adds(&text, fragment[mt19937_interval(rng, FRAGMENTS - 1)]);
		got.count = want.count = 0;
		ref_encode(m, text.buf ? text.buf : "", &want);
		CHECK(tokenizer_encode(w, text.buf ? text.buf : "", text.len, &got, &e) == 0);
		CHECK(got.count == want.count &&
		    (got.count == 0 || !memcmp(got.id, want.id, got.count * sizeof *got.id)));
		if (check_failures) {
			fprintf(stderr, "text '%s', file %s\n", text.buf, json.buf);
			exit(1);
		}
		str_release(&text);
	}
	str_release(&json);
	token_ids_release(&got);
	token_ids_release(&want);
	tokenizer_worker_free(w);
	tokenizer_close(t);
}

int
main(void)
{
	struct tiny_bpe *tiny = mem_zalloc(1, sizeof *tiny);
	char dir[] = "/tmp/hf.XXXXXX";
	struct mt19937 rng;
	struct err e = { "" };

	mt19937_seed(&rng, (uint32_t)check_seed());
	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	for (int i = 0; i < FILES; i++) {
		struct model m = { .tiny = tiny };

		tiny_make(tiny, &rng);
		random_model(&m, &rng);
		test_model(&m, &rng);
	}
	free(tiny);
	CHECK(chdir("/") == 0 && io_remove_tree(dir, &e) == 0);
	return check_done();
}

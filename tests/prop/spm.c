/*
 * spm.c - SentencePiece models: ids and text equal libsentencepiece's for models of all kinds
 *
 * The models are trained here on generated sentences, with the settings of a table; some are edited
 * afterwards, since no trainer makes unused pieces or denormalisers. Each encodes random texts of
 * many kinds: the environment variable SPM_TEXTS sets their number (1000 by default; 100000 is the
 * whole test, which takes some minutes), and SPM_MODEL selects one model.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/base/str.h"
#include "lib/base/utf8.h"
#include "lib/token/spm/spm.h"
#include "lib/token/spm/spmtrain.h"
#include "tests/check.h"
#include "tests/spm_oracle.h"

#include <math.h>

enum { WORDS = 1500, SENTENCES = 3000, SETTINGS = 12, LONG_TEXT = 1000000, SEVERAL = 200000 };

/* Edits of a model after its training. */
enum edit { EDIT_UNUSED = 1, EDIT_DENORMALIZER = 2, EDIT_KEEP_BLANKS = 4, EDIT_NO_RULES = 8 };

struct model_case {
	const char *name;
	/* spm_train's, separated by blanks; '|' stands for a blank in a value */
	const char *settings;
	unsigned edits;
};

static const struct model_case cases[] = {
	{ "unigram", "model_type=unigram vocab_size=1200 user_defined_symbols=<EXTRA_A>,qu,x<", 0 },
	{ "unigram-cf-bytes",
	    "model_type=unigram vocab_size=1500 byte_fallback=true normalization_rule_name=nfkc_cf",
	    0 },
	{ "unigram-identity-suffix",
	    "model_type=unigram vocab_size=1000 normalization_rule_name=identity "
	    "treat_whitespace_as_suffix=true",
	    0 },
	{ "unigram-keep",
	    "model_type=unigram vocab_size=1000 normalization_rule_name=nmt_nfkc_cf "
	    "add_dummy_prefix=false remove_extra_whitespaces=false "
	    "allow_whitespace_only_pieces=true",
	    EDIT_DENORMALIZER },
	{ "unigram-span",
	    "model_type=unigram vocab_size=1500 split_by_whitespace=false "
	    "split_by_unicode_script=false user_defined_symbols=a|b,\xe2\x96\x81zz",
	    0 },
	{ "unigram-unused", "model_type=unigram vocab_size=1000 byte_fallback=true", EDIT_UNUSED },
	{ "bpe",
	    "model_type=bpe vocab_size=1200 control_symbols=<CTRL> user_defined_symbols=<EXTRA_A>",
	    0 },
	{ "bpe-llama",
	    "model_type=bpe vocab_size=1500 byte_fallback=true normalization_rule_name=identity "
	    "remove_extra_whitespaces=false allow_whitespace_only_pieces=true split_digits=true "
	    "user_defined_symbols=<EXTRA_A>,ab,abc,\xe3\x81\x82\xe3\x81\x84",
	    0 },
	{ "bpe-span",
	    "model_type=bpe vocab_size=1500 byte_fallback=true normalization_rule_name=nfkc "
	    "split_by_whitespace=false split_by_unicode_script=false",
	    0 },
	{ "bpe-suffix",
	    "model_type=bpe vocab_size=1200 normalization_rule_name=nmt_nfkc_cf "
	    "treat_whitespace_as_suffix=true user_defined_symbols=<A|B>,\xe2\x96\x81x,..",
	    0 },
	{ "bpe-suffix-keep",
	    "model_type=bpe vocab_size=1200 normalization_rule_name=identity "
	    "add_dummy_prefix=false "
	    "treat_whitespace_as_suffix=true remove_extra_whitespaces=false",
	    0 },
	{ "bpe-unused", "model_type=bpe vocab_size=1200 byte_fallback=true user_defined_symbols=ab",
	    EDIT_UNUSED },
	{ "bpe-blanks", "model_type=bpe vocab_size=1000", EDIT_KEEP_BLANKS },
	{ "word", "model_type=word vocab_size=700 user_defined_symbols=<EXTRA_A>", 0 },
	{ "char",
	    "model_type=char vocab_size=400 byte_fallback=true user_defined_symbols=<EXTRA_A>,ab",
	    0 },
	{ "char-unk", "model_type=char vocab_size=60 normalization_rule_name=identity",
	    EDIT_NO_RULES },
};

enum { CASES = sizeof cases / sizeof *cases };

/* --- sentences --- */

struct generator {
	struct mt19937 rng;
	char word[WORDS][32];
	int left; /* training sentences */
	struct str sentence;
};

static uint32_t
below(struct generator *g, uint32_t n)
{
	return (uint32_t)mt19937_interval(&g->rng, n - 1);
}

static void
add_character(struct str *s, uint32_t cp)
{
	unsigned char bytes[4];

	str_add(s, bytes, (size_t)utf8_encode(cp, bytes));
}

/* Syllables, or kana and a few kanji. */
static void
make_words(struct generator *g)
{
	static const char onset[] = "bcdfghklmnprstvwxz", nucleus[] = "aeiou";

	for (int i = 0; i < WORDS; i++) {
		struct str s = { 0 };

		for (uint32_t k = 1 + below(g, 4); k > 0; k--)
			if (i % 5 == 4) {
				add_character(&s,
				    below(g, 3) ? 0x3041 + below(g, 80) : 0x4e00 + below(g, 60));
			} else {
				str_addc(&s, onset[below(g, sizeof onset - 1)]);
				str_addc(&s, nucleus[below(g, sizeof nucleus - 1)]);
			}
		if (i % 11 == 0)
			s.buf[0] = (char)(s.buf[0] >= 'a' ? s.buf[0] - 32 : s.buf[0]);
		snprintf(g->word[i], sizeof g->word[i], "%s", s.buf);
		str_release(&s);
	}
}

/* Word frequencies fall with the rank, as in a language. */
static const char *
some_word(struct generator *g)
{
	return g->word[below(g, 1 + below(g, 1 + below(g, WORDS)))];
}

static void
add_sentence(struct generator *g, struct str *s, int words)
{
	static const char *const end[] = { ".", "!", ", ", "...", "\n", " - ", "'s", "12", "3.5",
		"()" };

	for (int i = 0; i < words; i++) {
		const char *w = some_word(g);

		if (i && (unsigned char)w[0] < 0x80)
			str_addc(s, ' ');
		str_adds(s, w);
		if (below(g, 6) == 0)
			str_adds(s, end[below(g, 10)]);
	}
}

static int
next_sentence(void *ctx, const char **text, size_t *len, struct err *e)
{
	struct generator *g = ctx;

	(void)e;
	if (g->left-- <= 0)
		return 0;
	str_clear(&g->sentence);
	add_sentence(g, &g->sentence, 12);
	*text = g->sentence.buf;
	*len = g->sentence.len;
	return 1;
}

/* --- texts --- */

/* Characters that rules, blanks and marks treat specially. */
static uint32_t
odd_character(struct generator *g)
{
	static const uint32_t odd[] = { 0x20, 0x20, 0x2581, 0x3000, 0xa0, 0x9, 0xa, 0xd, 0x0, 0x7f,
		0x200b, 0xfeff, 0xfb01, 0xff21, 0xff76, 0xff9e, 0x337f, 0x300, 0x301, 0x3099,
		0x304b, 0x65, 0x45, 0x130, 0xdf, 0xfdfa, 0x1e9e, 0x2026, 0xb4, 0xff1c, 0xff3e,
		0x1f600, 0x200d, 0xfe0f, 0x41, 0x61, 0x62, 0x63, 0xac00, 0x1100, 0x1161, 0xad,
		0x2028, 0x85, 0x2000, 0xfffd };

	return odd[below(g, sizeof odd / sizeof *odd)];
}

static void
add_odd(struct generator *g, struct str *s)
{
	static const char *const parts[] = { "<EXTRA_A>", "<EXTRA_", "<s>", "<unk>", "</s>",
		"<CTRL>", "<0x41>", "  ", "abab", "abcab", "a b", "<A B>", "\xe2\x96\x81x", "zz",
		"....", "\xff", "\xe3\x81", "\xed\xa0\x80", "\xc0\x80", "qux<" };
	uint32_t cp;

	switch (below(g, 6)) {
	case 0: str_adds(s, parts[below(g, sizeof parts / sizeof *parts)]); break;
	case 1:
		cp = below(g, 0x110000);
		add_character(s, cp >= 0xd800 && cp <= 0xdfff ? 0xd7ff : cp);
		break;
	case 2:
		for (uint32_t n = 1 + below(g, 90), c = odd_character(g); n > 0; n--)
			add_character(s, c);
		break;
	default: add_character(s, odd_character(g));
	}
}

/* A random piece as it appears in text. */
static void
add_piece(struct generator *g, const struct spm *m, struct str *s)
{
	struct tokenizer_piece p = spm_piece(m, (int)below(g, (uint32_t)spm_size(m)));

	if (p.len >= 3 && !memcmp(p.bytes, "\xe2\x96\x81", 3) && below(g, 4)) {
		str_addc(s, ' ');
		p.bytes += 3;
		p.len -= 3;
	}
	str_add(s, p.bytes, p.len);
}

static void
random_text(struct generator *g, const struct spm *m, struct str *s)
{
	uint32_t kind = below(g, 5), n = below(g, kind ? 12 : 60);

	str_clear(s);
	if (kind == 1)
		for (n *= 3; n > 0; n--)
			str_addc(s, (char)below(g, 256));
	for (; n > 0; n--)
		if (kind == 0 || (kind == 4 && below(g, 2)))
			add_piece(g, m, s);
		else if (kind == 2)
			add_odd(g, s);
		else if (below(g, 3))
			add_sentence(g, s, 1 + (int)below(g, 5));
		else
			add_odd(g, s);
}

/* --- models --- */

/* Trains by a row of the table. */
static void
train(struct generator *g, const struct model_case *c, struct str *model)
{
	struct spm_setting setting[SETTINGS] = { { "num_threads", "1" },
		{ "hard_vocab_limit", "false" }, { "max_sentence_length", "10000" } };
	struct spm_training t = { setting, 3, false, next_sentence, g };
	char *text = mem_strdup(c->settings);
	struct err e = { "" };

	for (char *p = strtok(text, " "); p; p = strtok(NULL, " ")) {
		char *value = strchr(p, '=');

		*value++ = 0;
		for (char *q = value; *q; q++)
			*q = *q == '|' ? ' ' : *q;
		setting[t.num_settings++] = (struct spm_setting){ p, value };
	}
	if (!strcmp(setting[3].value, "word") || !strcmp(setting[3].value, "char"))
		setting[1] = setting[0];
	g->left = SENTENCES;
	CHECK(spm_train(&t, model, &e) == 0);
	CHECK_STR(e.msg, "");
	free(text);
}

static size_t
read_varint(const unsigned char *p, size_t *value)
{
	size_t i = 0;

	for (*value = 0; p[i] & 0x80; i++)
		*value |= (size_t)(p[i] & 0x7f) << 7 * i;
	*value |= (size_t)p[i] << 7 * i;
	return i + 1;
}

static void
add_field(struct str *out, int key, const void *bytes, size_t len)
{
	str_addc(out, (char)key);
	for (size_t n = len; n >= 0x80 || (str_addc(out, (char)n), 0); n >>= 7)
		str_addc(out, (char)(n | 0x80));
	str_add(out, bytes, len);
}

/* Rewrites the message: a fifth of the normal pieces unused, the normaliser's rules also as the
 * denormaliser's, or later settings that override earlier ones. */
static void
edit(struct generator *g, unsigned edits, struct str *model)
{
	const unsigned char *p = (const unsigned char *)model->buf, *end = p + model->len;
	struct str out = { 0 };

	while (p < end) {
		struct str body = { 0 };
		int key = *p++;
		size_t len;

		p += read_varint(p, &len);
		str_add(&body, p, len);
		p += len;
		/* Pieces of other types end in a type field. */
		if ((edits & EDIT_UNUSED) && key == 0x0a && body.buf[len - 2] != 0x18 &&
		    below(g, 5) == 0)
			str_add(&body, "\x18\x05", 2);
		add_field(&out, key, body.buf, body.len);
		if ((edits & EDIT_DENORMALIZER) && key == 0x1a) {
			str_add(&body, "\x18\x01\x20\x01", 4);
			add_field(&out, 0x2a, body.buf, body.len);
		}
		str_release(&body);
	}
	if (edits & EDIT_KEEP_BLANKS)
		add_field(&out, 0x1a, "\x28\x00", 2);
	if (edits & EDIT_NO_RULES)
		add_field(&out, 0x1a, "\x12\x00", 2);
	str_release(model);
	*model = out;
}

/* --- comparing --- */

struct pair {
	struct spm *ours;
	struct spm_worker *worker;
	struct oracle *oracle;
	struct token_ids ids;
	struct str text;
};

/* A random text that the library can encode. */
static bool
same_ids(struct pair *p, const char *text, size_t len)
{
	size_t count;
	const int *want = oracle_encode(p->oracle, text, len, &count);
	struct err e;

	p->ids.count = 0;
	if (spm_encode(p->ours, p->worker, text, len, &p->ids, &e) < 0)
		return false;
	return !want || (count == p->ids.count && !memcmp(want, p->ids.id, count * sizeof *want));
}

static bool
same_text(struct pair *p)
{
	size_t len;
	const char *want = oracle_decode(p->oracle, p->ids.id, p->ids.count, &len);

	str_clear(&p->text);
	spm_decode(p->ours, p->ids.id, p->ids.count, &p->text);
	return len == p->text.len && (len == 0 || !memcmp(want, p->text.buf, len));
}

/* Prints a text with a wrong result. */
static void
show(const char *name, const struct str *s)
{
	fprintf(stderr, "%s:", name);
	for (size_t i = 0; i < s->len && i < 400; i++)
		fprintf(stderr, s->buf[i] > ' ' && s->buf[i] < 127 ? " %c" : " %02x",
		    (unsigned char)s->buf[i]);
	fputc('\n', stderr);
}

static void
test_short(struct generator *g, struct pair *p, const char *name, long texts)
{
	struct str s = { 0 };

	for (long i = 0; i < texts; i++) {
		bool same;

		random_text(g, p->ours, &s);
		same = same_ids(p, s.buf ? s.buf : "", s.len);
		CHECK(same);
		CHECK(same_text(p));
		if (!same) {
			show(name, &s);
			break;
		}
		/* Ids in an order that encoding never gives. */
		for (size_t k = 0; k < p->ids.count; k++)
			if (below(g, 2))
				p->ids.id[k] = below(g, (uint32_t)spm_size(p->ours));
		CHECK(same_text(p));
	}
	str_release(&s);
}

/* Long texts, with and without places to divide them; a new worker and a used one agree. */
static void
test_long(struct generator *g, struct pair *p, size_t len)
{
	struct str s = { 0 };

	while (s.len < len)
		add_sentence(g, &s, 20);
	CHECK(same_ids(p, s.buf, s.len));
	spm_worker_free(p->worker);
	p->worker = spm_worker_new(p->ours);
	CHECK(same_ids(p, s.buf, s.len));
	str_clear(&s);
	for (size_t i = 0; i < len / 20; i++)
		str_addc(&s, "ab"[below(g, 2)]);
	CHECK(same_ids(p, s.buf, s.len));
	/* several parts of merging, with characters that are in no piece */
	while (s.len < SEVERAL)
		str_adds(&s, below(g, 40) ? (below(g, 3) ? "a" : "b") : "\xc7\xbe");
	CHECK(same_ids(p, s.buf, s.len));
	s.len = len / 20;
	memset(s.buf, ' ', s.len / 2);
	CHECK(same_ids(p, s.buf, s.len));
	memset(s.buf + s.len / 4, 'b', s.len / 2);
	memset(s.buf + s.len / 2, ' ', s.len - s.len / 2);
	CHECK(same_ids(p, s.buf, s.len));
	/* Symbols, and texts that normalise to one, at every distance from the ends of the
	 * encoder's parts. */
	str_clear(&s);
	for (size_t i = 0; i < len / 90; i++)
		str_adds(&s,
		    i % 7 == 0      ? "<EXTRA_A>"
			: i % 7 < 6 ? "\xef\xbc\x9c"
				      "EXTRA_A\xef\xbc\x9e"
				    : " ab  ");
	CHECK(same_ids(p, s.buf, s.len));
	/* Marks at the end, the only place where they count as blanks. */
	for (size_t i = 0; i < 20000; i++)
		str_adds(&s, "\xe2\x96\x81");
	CHECK(same_ids(p, s.buf, s.len));
	memset(s.buf, 'a', s.len);
	CHECK(same_ids(p, s.buf, s.len));
	str_release(&s);
}

/* --- unused pieces with several derivations --- */

enum { SPLIT_MODELS = 8, SPLIT_TEXTS = 40 };

/* One piece of a model file: text, score, type. */
static void
add_row(struct str *model, const char *text, float score, char type)
{
	struct str row = { 0 };

	add_field(&row, 0x0a, text, strlen(text));
	str_addc(&row, 0x15);
	str_add(&row, &score, sizeof score);
	str_addc(&row, 0x18);
	str_addc(&row, type);
	add_field(model, 0x0a, row.buf, row.len);
	str_release(&row);
}

/* Three letters and half of their words of two to four letters, with few different scores: a third
 * of them unused, and sometimes one user-defined. */
static void
make_splits(struct generator *g, struct str *model)
{
	static const char type[] = { 5, 5, 5, 5, 5, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4 };

	add_row(model, "<unk>", 0, 2);
	for (unsigned n = 1; n <= 4; n++)
		for (unsigned word = 0; word < 1u << 2 * n; word++) {
			char text[5] = "";
			bool letters = true;

			for (unsigned i = 0; i < n; i++) {
				text[i] = (char)('a' + (word >> 2 * i & 3));
				letters = letters && text[i] < 'd';
			}
			if (letters && (n == 1 || below(g, 2)))
				add_row(model, text, -(float)(1 + below(g, 9)),
				    n > 1 ? type[below(g, sizeof type)] : 1);
		}
	add_field(model, 0x12, "\x18\x02", 2);
	add_field(model, 0x1a, "\x18\x00\x20\x00\x28\x00", 6);
}

/* The library splits such a piece by its last derivation anywhere in the text. */
static void
test_splits(struct generator *g)
{
	for (int i = 0; i < SPLIT_MODELS; i++) {
		struct str model = { 0 }, s = { 0 };
		struct pair p = { 0 };
		struct err e = { "" };
		size_t len;

		make_splits(g, &model);
		len = model.len;
		p.oracle = oracle_new(model.buf, len);
		p.ours = spm_new(str_detach(&model), len, UNIGRAM_TIES_0_2_1, "splits", &e);
		CHECK(p.oracle && p.ours);
		p.worker = spm_worker_new(p.ours);
		for (int text = 0; text <= SPLIT_TEXTS; text++) {
			len = text < SPLIT_TEXTS ? below(g, 400) : SEVERAL;
			for (str_clear(&s); s.len < len;)
				str_addc(&s, "abcabcabc."[below(g, 10)]);
			CHECK(same_ids(&p, s.buf ? s.buf : "", s.len));
		}
		spm_worker_free(p.worker);
		spm_free(p.ours);
		oracle_free(p.oracle);
		token_ids_release(&p.ids);
		str_release(&s);
	}
}

/* --- the newer rule of ties --- */

/* Pieces of a model sorted by text. */
struct sorted_piece {
	struct tokenizer_piece p;
	uint32_t id;
};

static int
compare_pieces(const void *a, const void *b)
{
	const struct tokenizer_piece *x = a, *y = b;
	int c = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

struct ties_place {
	float score;
	size_t start;
	uint32_t id;
};

/* A candidate path to a position, in floats. */
static void
offer_path(struct ties_place *x, size_t from, size_t to, float score, uint32_t id)
{
	float sum = x[from].score + score;

	if (x[to].start == SIZE_MAX || sum > x[to].score)
		x[to] = (struct ties_place){ sum, from, id };
}

/* The best path as google/sentencepiece 0.2.3 finds it: floats, and a running score that is reset.
 * The text is normalised; no byte fallback. Ids are returned from the last to the first, a run of
 * unknowns as one. */
static size_t
plain_path(const struct sorted_piece *piece, size_t pieces, float unk_score, const struct str *s,
    uint32_t *ids)
{
	struct ties_place *x = mem_alloc(s->len + 1, sizeof *x);
	size_t count = 0;

	for (size_t i = 0; i <= s->len; i++)
		x[i] = (struct ties_place){ 0, SIZE_MAX, 0 };
	for (size_t i = 0, first; i < s->len; i += first) {
		uint32_t cp;
		bool single = false;
		float by = x[i].score;

		first = (size_t)utf8_decode((const unsigned char *)s->buf + i, s->len - i, &cp);
		for (size_t k = i; fabsf(by) > 100000 && k <= s->len && k < i + 200; k++)
			x[k].score -= by;
		for (size_t len = 1; len <= 64 && i + len <= s->len; len++) {
			struct tokenizer_piece key = { s->buf + i, len, 0, PIECE_NORMAL };
			const struct sorted_piece *hit =
			    bsearch(&key, piece, pieces, sizeof *piece, compare_pieces);

			if (!hit || hit->p.type != PIECE_NORMAL)
				continue;
			offer_path(x, i, i + len, hit->p.score, hit->id);
			single |= len == first;
		}
		if (!single)
			offer_path(x, i, i + first, unk_score, 0);
	}
	for (size_t i = s->len; i > 0; i = x[i].start)
		if (x[i].id || count == 0 || ids[count - 1])
			ids[count++] = x[i].id;
	free(x);
	return count;
}

/* A text that resets the running score several times, for a model that only turns blanks into
 * marks. */
static void
test_ties(struct generator *g, const char *bytes, size_t len)
{
	struct err e = { "" };
	struct spm *m =
	    spm_new(memcpy(mem_alloc(len, 1), bytes, len), len, UNIGRAM_TIES_0_2_2, "ties", &e);
	struct spm_worker *w = spm_worker_new(m);
	struct token_ids got = { 0 };
	size_t pieces = (size_t)spm_size(m), count;
	struct sorted_piece *piece = mem_alloc(pieces, sizeof *piece);
	struct str text = { 0 }, normal = { 0 };
	float least = 0;
	uint32_t *want;

	for (size_t i = 0; i < pieces; i++) {
		piece[i] = (struct sorted_piece){ spm_piece(m, (int)i), (uint32_t)i };
		least = fminf(least, piece[i].p.score);
	}
	qsort(piece, pieces, sizeof *piece, compare_pieces);
	for (int i = 0; i < 120000; i++)
		str_addf(&text, "%s%c", i % 5 == 0 && i ? " " : "",
		    'a' + (int)below(g, below(g, 3) ? 3 : 26));
	for (size_t i = 0; i < text.len; i++)
		str_adds(&normal, text.buf[i] == ' ' ? "\xe2\x96\x81" : (char[]){ text.buf[i], 0 });
	str_adds(&normal, "\xe2\x96\x81");
	want = mem_alloc(normal.len, sizeof *want);
	count = plain_path(piece, pieces, least - 10, &normal, want);
	for (int round = 0; round < 2; round++) {
		got.count = 0;
		CHECK(spm_encode(m, w, text.buf, text.len, &got, &e) == 0 && got.count == count);
		for (size_t i = 0; i < count && i < got.count; i++)
			if (got.id[i] != want[count - 1 - i]) {
				CHECK(!"the same path");
				break;
			}
	}
	spm_worker_free(w);
	spm_free(m);
	token_ids_release(&got);
	str_release(&text);
	str_release(&normal);
	free(piece);
	free(want);
}

static void
test_case(struct generator *g, const struct model_case *c, long texts)
{
	struct str model = { 0 };
	struct pair p = { 0 };
	struct err e = { "" };
	size_t len;

	train(g, c, &model);
	if (c->edits)
		edit(g, c->edits, &model);
	len = model.len;
	if (!strcmp(c->name, "unigram-identity-suffix"))
		test_ties(g, model.buf, len);
	p.oracle = oracle_new(model.buf, len);
	p.ours = spm_new(str_detach(&model), len, UNIGRAM_TIES_0_2_1, c->name, &e);
	CHECK(p.oracle != NULL);
	CHECK_STR(p.ours ? "" : e.msg, "");
	if (!p.oracle || !p.ours)
		return;
	p.worker = spm_worker_new(p.ours);
	for (int i = 0; i < TOKENIZER_SPECIALS; i++)
		CHECK(
		    spm_special(p.ours, (enum tokenizer_special)i) == oracle_special(p.oracle, i));
	test_short(g, &p, c->name, texts);
	test_long(g, &p, texts > 10000 || strstr(c->name, "unigram") ? LONG_TEXT : LONG_TEXT / 10);
	spm_worker_free(p.worker);
	spm_free(p.ours);
	oracle_free(p.oracle);
	token_ids_release(&p.ids);
	str_release(&p.text);
}

int
main(void)
{
	struct generator *g = mem_zalloc(1, sizeof *g);
	const char *texts = getenv("SPM_TEXTS"), *only = getenv("SPM_MODEL");

	mt19937_seed(&g->rng, (uint32_t)check_seed());
	make_words(g);
	for (int i = 0; i < CASES; i++)
		if (!only || !strcmp(only, cases[i].name)) {
			long before = check_failures;

			test_case(g, &cases[i], texts ? atol(texts) : 1000);
			if (check_failures > before)
				fprintf(stderr, "model %s failed\n", cases[i].name);
		}
	test_splits(g);
	str_release(&g->sentence);
	free(g);
	return check_done();
}

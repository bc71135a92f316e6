/*
 * text.c - JSON Lines of any size that resemble a language and do not repeat
 *
 *   text words|chars MEGABYTES SEED FILE... >corpus.jsonl
 *
 * FILEs are JSON Lines whose "text" members are the model. The text is a random walk: the next
 * symbol is the one after a random occurrence of the last symbol (words) or of the last two
 * (characters, for languages without spaces), so that sentences repeat only by chance. Before 36 of
 * 400 words comes one drawn from a Zipf distribution over two million words, of which those outside
 * the model are spelled by its letter trigrams, and before five a random number. After four of 400
 * characters the walk jumps to a random place.
 *
 * The shares are set so that pieces are as often new as they are assumed to be in English web
 * text: 99.4 % of the pieces of 1 GB are in a table of 1.3 million, and so by Heaps' law about 1 %
 * are distinct at 200 MB and 1.5 to 2 % at 40 MB. Measured by pieces.c with GPT-2's expression on
 * the model of prose.sh: percentage of distinct pieces at 10, 20, 40, 80, 160 and 200 MB
 *
 *   English   3.03  2.24  1.71  1.34  1.07  0.99    4.43 bytes a piece, 3.71 a token of GPT-2
 *   Japanese  38.8  37.9  36.9  35.8  34.9  34.5    19.9 bytes a piece: clauses, 41.7 in the
 * model's 1.3 MB
 *
 * Web text has about 4.2 to 4.6 bytes per token, so this text has more work per byte.
 */
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/base/str.h"
#include "lib/base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shares are of 400 words. */
enum { ZIPF_WORDS = 2000000, DOCUMENT = 4000, ZIPF_SHARE = 36, NUMBER_SHARE = 5, LETTERS = 27 };

/* The model: symbols (words or characters) in the order of the text, as numbers of distinct
 * ones. */
struct model {
	struct str text;
	uint32_t *symbol, *distinct, *by_context;
	uint32_t *first, *last; /* by place: the range of by_context with its context */
	size_t *start, count, num_distinct;
	int order;                                   /* symbols of context */
	uint32_t follows[LETTERS][LETTERS][LETTERS]; /* occurrences of three letters in a row */
};

static const struct model *sorting;

static uint32_t
below(struct mt19937 *rng, size_t n)
{
	return (uint32_t)mt19937_interval(rng, n - 1);
}

/* Appends the texts of a file. */
static int
read_file(struct model *m, const char *path, struct err *e)
{
	char *bytes;
	size_t len;

	if (io_read_file(path, 0, &bytes, &len, e) < 0)
		return -1;
	for (size_t i = 0, n; i < len; i += n + 1) {
		char *end = memchr(bytes + i, '\n', len - i);
		const char *text = NULL;
		struct json *j;

		n = end ? (size_t)(end - bytes) - i : len - i;
		j = n ? json_parse(bytes + i, n, path, e) : NULL;
		if (n && (!j || json_string(json_root(j), "text", NULL, &text, e) < 0 || !text))
			return -1;
		if (text)
			str_add(&m->text, text, strlen(text));
		str_addc(&m->text, ' ');
		json_free(j);
	}
	free(bytes);
	return 0;
}

/* Bytes of the symbol at s: a word with the white space before it, or a character. */
static size_t
symbol_len(const struct model *m, size_t at)
{
	const unsigned char *s = (const unsigned char *)m->text.buf + at;
	size_t n = m->text.len - at, i = 0;
	uint32_t cp;

	if (m->order == 2)
		return (size_t)utf8_decode(s, n, &cp);
	while (i < n && (s[i] == ' ' || s[i] == '\n'))
		i++;
	while (i < n && s[i] != ' ' && s[i] != '\n')
		i++;
	return i;
}

static int
compare_bytes(const void *a, const void *b)
{
	const struct model *m = sorting;
	size_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	size_t n = m->start[i + 1] - m->start[i], k = m->start[j + 1] - m->start[j];
	int order = memcmp(m->text.buf + m->start[i], m->text.buf + m->start[j], n < k ? n : k);

	return order ? order : (n > k) - (n < k);
}

/* The context at a place: its symbol and those before it, as one number. */
static uint64_t
context(const struct model *m, size_t i)
{
	return (m->order == 2 && i ? (uint64_t)m->symbol[i - 1] << 32 : 0) | m->symbol[i];
}

static int
compare_context(const void *a, const void *b)
{
	uint64_t x = context(sorting, *(const uint32_t *)a),
		 y = context(sorting, *(const uint32_t *)b);

	return (x > y) - (x < y);
}

/* Groups the places by context. */
static void
group(struct model *m)
{
	m->first = mem_alloc(m->count, sizeof *m->first);
	m->last = mem_alloc(m->count, sizeof *m->last);
	for (size_t i = 0, end; i < m->count; i = end) {
		for (end = i; end < m->count &&
		     context(m, m->by_context[end]) == context(m, m->by_context[i]);
		     end++)
			m->first[m->by_context[end]] = (uint32_t)i;
		for (size_t k = i; k < end; k++)
			m->last[m->by_context[k]] = (uint32_t)end;
	}
}

/* 1 to 26 for a small letter, else 0. */
static unsigned
letter_of(char c)
{
	return c >= 'a' && c <= 'z' ? (unsigned)(c - 'a') + 1 : 0;
}

/* How often each letter follows each two. */
static void
count_letters(struct model *m)
{
	for (size_t i = 2; i < m->text.len; i++) {
		const char *c = m->text.buf + i;

		m->follows[letter_of(c[-2])][letter_of(c[-1])][letter_of(*c)]++;
	}
}

/* Cuts the text, numbers the distinct symbols, and sorts the places by their context. */
static void
build(struct model *m)
{
	m->start = mem_alloc(m->text.len + 2, sizeof *m->start);
	for (size_t at = 0; at < m->text.len; at += symbol_len(m, at))
		m->start[m->count++] = at;
	m->start[m->count] = m->text.len;
	m->symbol = mem_alloc(m->count, sizeof *m->symbol);
	m->distinct = mem_alloc(m->count, sizeof *m->distinct);
	m->by_context = mem_alloc(m->count, sizeof *m->by_context);
	for (size_t i = 0; i < m->count; i++)
		m->by_context[i] = (uint32_t)i;
	sorting = m;
	qsort(m->by_context, m->count, sizeof *m->by_context, compare_bytes);
	for (size_t i = 0; i < m->count; i++) {
		if (i == 0 || compare_bytes(&m->by_context[i - 1], &m->by_context[i]))
			m->distinct[m->num_distinct++] = m->by_context[i];
		m->symbol[m->by_context[i]] = (uint32_t)m->num_distinct - 1;
	}
	qsort(m->by_context, m->count, sizeof *m->by_context, compare_context);
	group(m);
	count_letters(m);
}

/* A random place from which the walk may continue: one with the same context as `place`. */
static size_t
step(const struct model *m, struct mt19937 *rng, size_t place)
{
	size_t first = m->first[place];

	place = m->by_context[first + below(rng, m->last[place] - first)] + 1;
	return place < m->count ? place : below(rng, m->count);
}

/* A new word, by the letter trigrams of the text. */
static void
spell(const struct model *m, struct mt19937 *rng, struct str *out)
{
	size_t n = 4 + below(rng, 5) + below(rng, 5);
	unsigned before = 0, last = 0;

	str_addc(out, ' ');
	for (size_t i = 0; i < n; i++) {
		const uint32_t *count = m->follows[before][last];
		uint32_t sum = 0, dice;
		unsigned c = 1;

		for (unsigned k = 1; k < LETTERS; k++)
			sum += count[k];
		if (sum == 0)
			return;
		for (dice = below(rng, sum); dice >= count[c]; c++)
			dice -= count[c];
		str_addc(out, (char)('a' + c - 1));
		before = last;
		last = c;
	}
}

/* Word number r of two million: first the model's own, then made-up ones; the same r gives the same
 * word. */
static void
zipf_word(const struct model *m, struct mt19937 *rng, struct str *out)
{
	double u = (mt19937_next(rng) + 0.5) / 4294967296.0;
	uint32_t r = (uint32_t)(exp(u * log(ZIPF_WORDS)) - 1);
	struct mt19937 own;

	if (r < m->num_distinct) {
		size_t i = m->distinct[(size_t)r * 2654435761u % m->num_distinct];

		str_add(out, m->text.buf + m->start[i], m->start[i + 1] - m->start[i]);
		return;
	}
	mt19937_seed(&own, r);
	spell(m, &own, out);
}

/* Escaped as in a corpus: with two-character escapes. */
static void
put_json(const struct str *text, struct str *line)
{
	str_clear(line);
	str_adds(line, "{\"text\": \"");
	for (size_t i = 0; i < text->len; i++) {
		char c = text->buf[i];

		if (c == '\n' || c == '"' || c == '\\')
			str_addc(line, '\\');
		str_addc(line, c == '\n' ? 'n' : c);
	}
	str_adds(line, "\"}\n");
}

/* The next symbol of a document. */
static size_t
put(const struct model *m, struct mt19937 *rng, size_t place, struct str *out)
{
	uint32_t dice = below(rng, 400);

	if (m->order == 1 && dice < ZIPF_SHARE)
		zipf_word(m, rng, out);
	else if (m->order == 1 && dice < ZIPF_SHARE + NUMBER_SHARE)
		str_addf(out, " %u", mt19937_next(rng) >> (12 + below(rng, 20)));
	else if (m->order == 2 && dice < 4)
		place = below(rng, m->count);
	str_add(out, m->text.buf + m->start[place], m->start[place + 1] - m->start[place]);
	return step(m, rng, place);
}

int
main(int argc, char **argv)
{
	static struct model m;

	struct str text = { 0 }, line = { 0 };
	struct mt19937 rng;
	struct err e;
	double limit;

	if (argc < 5)
		return fputs("usage: text words|chars MEGABYTES SEED FILE...\n", stderr), 2;
	m.order = !strcmp(argv[1], "chars") ? 2 : 1;
	limit = atof(argv[2]) * 1e6;
	for (int i = 4; i < argc; i++)
		if (read_file(&m, argv[i], &e) < 0)
			return fprintf(stderr, "text: %s\n", e.msg), 1;
	build(&m);
	mt19937_seed(&rng, (uint32_t)atoi(argv[3]));
	for (double done = 0; done < limit; done += (double)text.len) {
		size_t place = below(&rng, m.count),
		       want = DOCUMENT / 4 + below(&rng, 2 * DOCUMENT);

		str_clear(&text);
		while (text.len < want)
			place = put(&m, &rng, place, &text);
		put_json(&text, &line);
		fwrite(line.buf, 1, line.len, stdout);
	}
	return fflush(stdout) != 0;
}

/* fim.c - samples whose documents are rearranged so that a model learns to fill in their middles */
#include "lib/token/fim.h"
#include "lib/base/mem.h"
#include "lib/base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The options that give them. */
static const char *const token_options[FIM_TOKENS] = { "fim-prefix-token", "fim-middle-token",
	"fim-suffix-token", "fim-pad-token", "fim-eod-token", "fim-split-sample" };

struct fim {
	const struct fim_options *o;
	struct tokenizer_worker *worker;
	int64_t id[FIM_TOKENS]; /* -1: none */
	int64_t *out;           /* the sample that is made, [cap] */
	int64_t count, cap;
	/* room for the ids and the text of a piece */
	struct token_ids ids;
	struct str bytes, text;
};

/* Ids of a document or of a part of it. */
struct stretch {
	const int64_t *id;
	int64_t n;
};

struct fim *
fim_new(const struct tokenizer *t, const struct fim_options *o, struct err *e)
{
	struct fim *f = mem_zalloc(1, sizeof *f);

	f->o = o;
	for (int i = 0; i < FIM_TOKENS; i++) {
		const char *piece = o->token[i];

		f->id[i] = piece ? tokenizer_find_piece(t, piece, strlen(piece)) : -1;
		if (piece && f->id[i] < 0) {
			err_set(e,
			    "--fim-data: the tokenizer has no token '%s'; name one of its own with "
			    "--%s",
			    piece, token_options[i]);
			fim_free(f);
			return NULL;
		}
	}
	f->worker = tokenizer_worker_new(t);
	return f;
}

void
fim_free(struct fim *f)
{
	if (!f)
		return;
	if (f->worker)
		tokenizer_worker_free(f->worker);
	token_ids_release(&f->ids);
	str_release(&f->bytes);
	str_release(&f->text);
	free(f->out);
	free(f);
}

/* --- random numbers as numpy's RandomState draws them ----------------------------------------- */

/* Neighbouring samples are far apart: the factor is 2^32 over the golden ratio. */
void
fim_draws(struct mt19937 *draws, int64_t seed, int64_t sample)
{
	mt19937_seed(draws, (uint32_t)seed + 0x9E3779B9u * (uint32_t)(sample + 1));
}

/* Uniform in [0, 1), of 53 bits. */
static double
uniform(struct mt19937 *r)
{
	uint32_t high = mt19937_next(r) >> 5, low = mt19937_next(r) >> 6;

	return (high * 67108864.0 + low) / 9007199254740992.0;
}

/* A binomial number of one trial by inversion of its distribution, p at most 1/2. Rounding may
 * leave a remainder beyond both outcomes, about once in 2^53; then it is drawn again. */
static bool
invert(struct mt19937 *r, double p)
{
	double q = 1 - p, none = exp(log(q)), one = p * none / q, u;

	do {
		u = uniform(r);
		if (u <= none)
			return false;
	} while (u - none > one);
	return true;
}

/* binomial(1, p). */
static bool
bernoulli(struct mt19937 *r, double p)
{
	if (p == 0)
		return false;
	return p <= 0.5 ? invert(r, p) : !invert(r, 1 - p);
}

/* --- rearranging ------------------------------------------------------------------------------ */

static void
add_ids(struct fim *f, struct stretch s)
{
	if (f->count + s.n > f->cap) {
		f->cap = 2 * f->cap + s.n;
		f->out = mem_realloc(f->out, (size_t)f->cap, sizeof *f->out);
	}
	if (s.n)
		memcpy(f->out + f->count, s.id, (size_t)s.n * sizeof *s.id);
	f->count += s.n;
}

static void
add_token(struct fim *f, enum fim_token token)
{
	add_ids(f, (struct stretch){ &f->id[token], 1 });
}

/* The text of ids in f->text, as Python has it: U+FFFD in place of what is no character. */
static int
decode(struct fim *f, struct stretch s, struct err *e)
{
	f->ids.count = 0;
	f->bytes.len = 0;
	f->text.len = 0;
	for (int64_t i = 0; i < s.n; i++)
		token_ids_add(&f->ids, (uint32_t)s.id[i]);
	if (tokenizer_decode(f->worker, &f->ids, true, &f->bytes, e) < 0)
		return -1;
	utf8_repair(f->bytes.buf, f->bytes.len, &f->text);
	return 0;
}

/* Adds the ids of bytes [from, to) of f->text. */
static int
add_text(struct fim *f, size_t from, size_t to, struct err *e)
{
	f->ids.count = 0;
	if (to > from && tokenizer_encode(f->worker, f->text.buf + from, to - from, &f->ids, e) < 0)
		return -1;
	for (size_t i = 0; i < f->ids.count; i++)
		add_ids(f, (struct stretch){ &(int64_t){ f->ids.id[i] }, 1 });
	return 0;
}

/* The first byte of character i of f->text. */
static size_t
byte_of(const struct fim *f, uint64_t i)
{
	size_t at = 0;

	for (; at < f->text.len; at++)
		if (((unsigned char)f->text.buf[at] & 0xc0) != 0x80 && i-- == 0)
			break;
	return at;
}

static uint64_t
characters(const struct fim *f)
{
	uint64_t n = 0;

	for (size_t i = 0; i < f->text.len; i++)
		n += ((unsigned char)f->text.buf[i] & 0xc0) != 0x80;
	return n;
}

/* The middle is between two characters, each of them as likely as any other, the end too. */
static int
add_rearranged(struct fim *f, struct mt19937 *r, struct err *e)
{
	uint64_t n = characters(f), a = n ? mt19937_interval(r, n) : 0,
		 b = n ? mt19937_interval(r, n) : 0;
	size_t from = byte_of(f, a < b ? a : b), to = byte_of(f, a < b ? b : a);
	bool end_first = bernoulli(r, f->o->spm_rate);

	add_token(f, FIM_PREFIX);
	if (!end_first && add_text(f, 0, from, e) < 0)
		return -1;
	add_token(f, FIM_SUFFIX);
	if (add_text(f, to, f->text.len, e) < 0)
		return -1;
	add_token(f, FIM_MIDDLE);
	if (end_first && add_text(f, 0, from, e) < 0)
		return -1;
	return add_text(f, from, to, e);
}

/* Adds a part, rearranged at that rate. */
static int
permute(struct fim *f, struct mt19937 *r, struct stretch s, double rate, struct err *e)
{
	const char *no = f->o->no_prefix;

	if (!bernoulli(r, rate)) {
		add_ids(f, s);
		return 0;
	}
	if (decode(f, s, e) < 0)
		return -1;
	if (no && f->text.len >= strlen(no) && !memcmp(f->text.buf, no, strlen(no))) {
		add_ids(f, s);
		return 0;
	}
	return add_rearranged(f, r, e);
}

/* The ids before the first `token` of the rest, which becomes what follows it. False: there is
 * none, and the rest stays. */
static bool
cut(struct stretch *rest, int64_t token, struct stretch *before)
{
	for (int64_t i = 0; i < rest->n; i++)
		if (rest->id[i] == token) {
			*before = (struct stretch){ rest->id, i };
			*rest = (struct stretch){ rest->id + i + 1, rest->n - i - 1 };
			return true;
		}
	return false;
}

/* A document, or the fragments of one that holds the split token. */
static int
add_document(struct fim *f, struct mt19937 *r, struct stretch s, struct err *e)
{
	struct stretch rest = s, piece;
	int64_t split = f->id[FIM_SPLIT];
	double rate;

	if (split < 0 || !cut(&rest, split, &piece))
		return permute(f, r, s, f->o->rate, e);
	if (!bernoulli(r, f->o->rate)) {
		add_ids(f, s);
		return 0;
	}
	rest = s;
	rate = f->o->fragment_rate < 0 ? f->o->rate : f->o->fragment_rate;
	while (cut(&rest, split, &piece)) {
		if (piece.n == 0)
			continue;
		if (permute(f, r, piece, rate, e) < 0)
			return -1;
		add_token(f, FIM_SPLIT);
	}
	return permute(f, r, rest, rate, e);
}

/* Documents without a token vanish with their ends, but for the last. */
int64_t
fim_rearrange(struct fim *f, struct mt19937 *draws, int64_t *ids, int64_t n, struct err *e)
{
	struct stretch rest = { ids, n }, document;

	f->count = 0;
	while (cut(&rest, f->id[FIM_EOD], &document)) {
		if (document.n == 0)
			continue;
		if (add_document(f, draws, document, e) < 0)
			return -1;
		add_token(f, FIM_EOD);
	}
	if (add_document(f, draws, rest, e) < 0)
		return -1;
	for (int64_t i = 0; i < n; i++)
		ids[i] = i < f->count ? f->out[i] : f->id[FIM_PAD];
	return f->count < n ? f->count : n;
}

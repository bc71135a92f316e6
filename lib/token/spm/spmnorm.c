/*
 * spmnorm.c - normalising text by compiled rules
 *
 * The rules are a trie over bytes in the form of a double array (darts-clone): unit i holds a label
 * in bits 0-7 and 31, in bit 8 whether a key ends here, and the offset of its children in bits
 * 10-30, times 256 if bit 9 is set. The child by byte c of the unit at i is at i ^ offset ^ c, and
 * the value of a key is in the unit at i ^ offset. The array comes with the model, so every step is
 * checked against its size.
 *
 * Loading walks the array over all first characters. After that a character without rules costs one
 * look-up, and ASCII that nothing touches is copied in blocks.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/spm/charsmap.h"
#include "lib/token/spm/spmnorm.h"

#include <stdlib.h>
#include <string.h>

/*
 * Bounds for hostile files. nmt_nfkc_cf, the largest of the library's own rules, has keys of up to
 * 10 bytes, replacements of up to 33, and makes 22,912 steps.
 */
enum { KEY_MAX = 1024, REPLACEMENT_MAX = 1024, STEPS_MAX = 1 << 22 };

static const unsigned char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Room for extra bytes and the padding. */
static void
reserve(struct spm_buffer *b, size_t extra)
{
	size_t need = b->len + extra + SPM_PADDING;

	if (need <= b->cap)
		return;
	b->cap = 2 * b->cap > need ? 2 * b->cap : need;
	b->bytes = mem_realloc(b->bytes, b->cap, 1);
}

/* --- the rules --- */

/* Offset from a unit to its children. */
static uint32_t
offset_of(uint32_t unit)
{
	return unit >> 10 << ((unit & 1u << 9) >> 6);
}

/* The unit after byte c; 0, which is never a child, when no key continues so. */
static uint32_t
step(const struct spmnorm *n, uint32_t at, unsigned char c)
{
	uint32_t next = at ^ offset_of(n->unit[at]) ^ c;

	return next < n->num_units && (n->unit[next] & (1u << 31 | 0xff)) == c ? next : 0;
}

/* 1 + the offset in the pool of the replacement of the key that ends here; 0: no key ends here. */
static uint32_t
value_at(const struct spmnorm *n, uint32_t at)
{
	uint32_t leaf = at ^ offset_of(n->unit[at]), value;

	if (!(n->unit[at] >> 8 & 1) || leaf >= n->num_units)
		return 0;
	value = n->unit[leaf] & 0x7fffffff;
	return value < n->pool_len ? value + 1 : 0;
}

/*
 * A walk over all characters that continue keys of the double array, with a callback. A hostile
 * array can contain all pairs of characters, so steps are counted.
 */
struct char_walk {
	struct spmnorm *n;
	void (*found)(struct char_walk *w, uint32_t cp, uint32_t at);
	size_t count; /* for found */
	size_t *steps;
};

/* Visits all characters that begin with the given bytes. */
static void
each_character(struct char_walk *w, unsigned char bytes[4], int have, uint32_t at)
{
	int len = bytes[0] < 0x80 ? 1 : bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;
	uint32_t cp;

	if (++*w->steps > STEPS_MAX)
		return;
	if (have == len || have == 4) {
		if (utf8_decode(bytes, (size_t)len, &cp) == len)
			w->found(w, cp, at);
		return;
	}
	for (int c = 0x80; c < 0xc0; c++) {
		uint32_t next = step(w->n, at, (unsigned char)c);

		bytes[have] = (unsigned char)c;
		if (next)
			each_character(w, bytes, have + 1, next);
	}
}

/* Visits all characters that continue keys after unit `at`. */
static void
each_next(struct char_walk *w, uint32_t at)
{
	unsigned char bytes[4];

	for (int c = 0; c < 256; c++) {
		uint32_t next = step(w->n, at, (unsigned char)c);

		bytes[0] = (unsigned char)c;
		if (next)
			each_character(w, bytes, 1, next);
	}
}

/* A character that is second in a rule. */
static void
add_second(struct char_walk *w, uint32_t cp, uint32_t at)
{
	(void)at;
	code_map_set(&w->n->rule_of, cp, code_map_get(&w->n->rule_of, cp) | RULE_SECOND);
}

/* The rules that begin with a character, of which `at` is the unit. An ASCII character is slow if
 * rules can begin with it in ASCII text, unless it always becomes a blank. */
static void
add_rule(struct char_walk *w, uint32_t cp, uint32_t at)
{
	struct spmnorm *n = w->n;
	struct char_walk seconds = { .n = n, .found = add_second, .steps = w->steps };
	uint32_t value = value_at(n, at), known = code_map_get(&n->rule_of, cp);
	bool blank =
	    value && n->pool_len - (value - 1) >= 2 && memcmp(n->pool + value - 1, " ", 2) == 0;
	int on = 0; /* bit 0: keys continue by an ASCII byte; bit 1: by another byte */

	for (int c = 1; c < 256 && on != 3; c++)
		if (step(n, at, (unsigned char)c))
			on |= c < 0x80 ? 1 : 2;
	if (!value && !on)
		return;
	if ((w->count & (w->count - 1)) == 0)
		n->rule = mem_realloc(n->rule, w->count ? 2 * w->count : 1, sizeof *n->rule);
	n->rule[w->count++] = (struct norm_rule){ value, on ? at : 0 };
	code_map_set(&n->rule_of, cp, known | (uint32_t)w->count | (value ? RULE_ALONE : 0));
	if (cp < 0x80) {
		n->blank.in[cp] = blank && !on;
		n->slow.in[cp] = !n->blank.in[cp] && (value || (on & 1));
		n->ascii_runs_on |= on >> 1;
	}
	if (on)
		each_next(&seconds, at);
}

/* The bytes are the length of the double array (32 bits), the array, and the pool. The array is
 * copied, since it may be unaligned. No key and no replacement may be long. */
static int
load_rules(struct spmnorm *n, const struct sp_normalizer *spec, struct err *e)
{
	const unsigned char *p = spec->charsmap;
	size_t steps = 0, longest = 0;
	struct char_walk walk = { .n = n, .found = add_rule, .steps = &steps };
	uint32_t size;

	if (spec->charsmap_len == 0)
		return 0;
	if (spec->charsmap_len <= 4)
		return err_set(e, "its normalisation rules are truncated");
	size = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
	if (size > spec->charsmap_len - 4 || size < 4)
		return err_set(e, "its normalisation rules have an index of %u bytes in %zu", size,
		    spec->charsmap_len - 4);
	n->num_units = size / 4;
	n->unit = mem_alloc(n->num_units, 4);
	memcpy(n->unit, p + 4, n->num_units * 4);
	n->pool = p + 4 + size;
	n->pool_len = spec->charsmap_len - 4 - size;
	if (charsmap_depth(n->unit, n->num_units) > KEY_MAX)
		return err_set(e,
		    "its normalisation rules have keys of more than %d bytes or a cycle", KEY_MAX);
	for (size_t i = 0, len; i < n->pool_len; i += len + 1) {
		len = strnlen((const char *)n->pool + i, n->pool_len - i);
		longest = len > longest ? len : longest;
	}
	if (longest > REPLACEMENT_MAX)
		return err_set(e,
		    "its normalisation rules replace a character by %zu bytes: must be at most %d",
		    longest, REPLACEMENT_MAX);
	each_next(&walk, 0);
	return steps <= STEPS_MAX ? 0 : err_set(e, "its normalisation rules are too many");
}

/* --- user-defined symbols --- */

/* The length of the longest symbol at p, or 0. */
static size_t
symbol_at(const struct spmnorm *n, const unsigned char *p, const unsigned char *end)
{
	uint32_t at = TRIE_ROOT;
	size_t longest = 0;

	for (const unsigned char *q = p; q < end; q++) {
		at = trie_child(&n->symbols, at, *q);
		if (at == TRIE_NONE)
			break;
		if (n->symbols.node[at].value >= 0)
			longest = (size_t)(q + 1 - p);
	}
	return longest;
}

/* model NULL: no symbols, for a denormaliser. All user-defined symbols are in a trie. */
int
spmnorm_init(
    struct spmnorm *n, const struct spmodel *m, const struct sp_normalizer *spec, struct err *e)
{
	size_t total = 0;

	memset(n, 0, sizeof *n);
	n->spec = spec;
	code_map_init(&n->rule_of);
	for (int i = 0; m && i < m->count; i++)
		if (m->piece[i].type == SP_USER_DEFINED)
			total += m->piece[i].len;
	trie_init(&n->symbols, (uint32_t)total);
	for (int i = 0; total && i < m->count; i++) {
		const struct sp_piece *p = &m->piece[i];
		uint32_t at = TRIE_ROOT;

		if (p->type != SP_USER_DEFINED)
			continue;
		for (size_t k = 0; k < p->len; k++)
			at = trie_add(&n->symbols, at, (unsigned char)p->text[k]);
		n->symbols.node[at].value = i;
		n->symbol_first[(unsigned char)p->text[0]] = true;
	}
	if (load_rules(n, spec, e) < 0)
		return -1;
	for (int c = 0; c < 256; c++)
		n->slow.in[c] |= c >= 0x80 || n->symbol_first[c];
	n->blank.in[' '] = true;
	byte_set_close(&n->slow);
	byte_set_close(&n->blank);
	return 0;
}

/* Also after a failure of spmnorm_init. */
void
spmnorm_release(struct spmnorm *n)
{
	free(n->unit);
	free(n->rule);
	code_map_release(&n->rule_of);
	trie_release(&n->symbols);
}

/* --- text --- */

/* The normalised form of a part of the text, and the number of bytes that it replaces. */
struct part {
	const unsigned char *bytes;
	size_t len, consumed;
	bool sound; /* certainly well-formed UTF-8 */
};

/* The longest rule from the character on that r belongs to; NULL bytes: none matches. No key has a
 * NUL. */
static struct part
longest_rule(
    const struct spmnorm *n, const struct norm_rule *r, const struct norm_text *t, size_t len)
{
	uint32_t value = r->value, at = r->unit;
	struct part part = { NULL, 0, len, false };

	for (const unsigned char *q = t->p + len; at && q < t->end && *q; q++) {
		uint32_t v;

		at = step(n, at, *q);
		v = at ? value_at(n, at) : 0;
		if (v) {
			value = v;
			part.consumed = (size_t)(q + 1 - t->p);
		}
	}
	if (value) {
		part.bytes = n->pool + value - 1;
		part.len = strnlen((const char *)part.bytes, n->pool_len - (value - 1));
	}
	return part;
}

/* Length of the well-formed character at p, or 0. Most characters have one or three bytes. */
static size_t
decode(const unsigned char *p, const unsigned char *end, uint32_t *cp)
{
	if (end - p >= 3 && p[0] >= 0xe1 && p[0] < 0xed && (p[1] & 0xc0) == 0x80 &&
	    (p[2] & 0xc0) == 0x80) {
		*cp = (uint32_t)(p[0] & 0xf) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
		return 3;
	}
	return (size_t)utf8_decode(p, (size_t)(end - p), cp);
}

/* The next part, by symbols, by rules, or unchanged. */
static struct part
next_part(const struct spmnorm *n, const struct norm_text *t)
{
	size_t len = n->symbol_first[*t->p] ? symbol_at(n, t->p, t->end) : 0;
	uint32_t cp, rule;

	if (len)
		return (struct part){ t->p, len, len, true };
	len = decode(t->p, t->end, &cp);
	if (len == 0)
		return (struct part){ replacement, 3, 1, true };
	rule = code_map_get(&n->rule_of, cp) & RULE_INDEX;
	if (rule) {
		struct part part = longest_rule(n, &n->rule[rule - 1], t, len);

		if (part.bytes)
			return part;
	}
	return (struct part){ t->p, len, len, true };
}

/* Appends a part: its leading blanks are dropped after a blank, marks become blanks, and malformed
 * UTF-8 from a rule's pool is replaced. */
static void
add_part(const struct spmnorm *n, struct norm_text *t, struct part part, struct spm_buffer *b)
{
	const unsigned char *p = part.bytes, *end = p + part.len;
	unsigned char *out;

	while (t->after_blank && p < end && *p == ' ')
		p++;
	if (p == end)
		return;
	reserve(b, 3 * part.len);
	out = b->bytes + b->len;
	t->after_blank = n->spec->remove_extra_whitespaces && end[-1] == ' ';
	while (p < end) {
		uint32_t cp;
		size_t len = part.sound ? 0 : decode(p, end, &cp);

		if (part.sound)
			cp = spm_character(p, &len);
		if (len == 0) {
			memcpy(out, replacement, 3);
			out += 3;
			p++;
			continue;
		}
		if (cp == SPM_MARK && n->spec->escape_whitespaces) {
			*out++ = SPM_BLANK;
		} else {
			memcpy(out, p, len);
			out += len;
		}
		p += len;
	}
	b->len = (size_t)(out - b->bytes);
}

/* True when there is a character of three bytes at p with which no symbol begins. U+D800 and up are
 * left out, since they need more checks. */
static inline bool
three_at(const struct spmnorm *n, const unsigned char *p)
{
	return p[0] >= 0xe1 && p[0] < 0xed && (p[1] & 0xc0) == 0x80 && (p[2] & 0xc0) == 0x80 &&
	    !n->symbol_first[p[0]];
}

/* Decodes such a character. */
static inline uint32_t
three(const unsigned char *p)
{
	return (uint32_t)(p[0] & 0xf) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
}

/* Copies characters of three bytes without rules, alone or with the next one, each followed by
 * another such character: most of East Asian text. */
static void
copy_threes(
    const struct spmnorm *n, struct norm_text *t, const unsigned char *stop, struct spm_buffer *b)
{
	const unsigned char *p = t->p;
	unsigned char *out;
	uint32_t cp, rule;

	if (t->end - p < 6 || !three_at(n, p))
		return;
	stop = t->end - stop < 6 ? t->end - 6 : stop;
	cp = three(p);
	rule = code_map_get(&n->rule_of, cp);
	reserve(b, (size_t)(stop > p ? stop - p : 0) + 8);
	out = b->bytes + b->len;
	while (p < stop && three_at(n, p + 3)) {
		uint32_t next = three(p + 3), next_rule = code_map_get(&n->rule_of, next);

		if ((rule & RULE_ALONE) || ((rule & RULE_INDEX) && (next_rule & RULE_SECOND)) ||
		    cp == SPM_MARK)
			break;
		memcpy(out, p, 4);
		out += 3;
		p += 3;
		cp = next;
		rule = next_rule;
	}
	if (p > t->p)
		t->after_blank = false;
	b->len = (size_t)(out - b->bytes);
	t->p = p;
}

/* Copies the bytes from t->p on that need no rules or symbols, at most BYTE_BLOCK, with blanks for
 * those that become one; false when no more such bytes follow. */
static bool
copy_plain(const struct spmnorm *n, struct norm_text *t, struct spm_buffer *b)
{
	static const struct simd_set blanks = { { { 1 << (' ' >> 4) } } };
	size_t have = (size_t)(t->end - t->p), run;
	unsigned char tail[BYTE_BLOCK] = { 0 }, *out;
	const unsigned char *block = t->p;
	uint64_t slow, blank;

	if (have < BYTE_BLOCK) {
		memcpy(tail, t->p, have);
		block = tail;
	}
	slow = byte_set_find(&n->slow, block);
	blank = byte_set_find(&n->blank, block);
	if (n->spec->remove_extra_whitespaces)
		slow |= blank & (blank << 1 | t->after_blank);
	run = slow ? (size_t)__builtin_ctzll(slow) : BYTE_BLOCK;
	run = run < have ? run : have;
	/* A rule may begin with the last letter before a non-ASCII character. */
	if (n->ascii_runs_on && run > 0 && run < have && t->p[run] >= 0x80) {
		run--;
		slow = 1;
	}
	if (run == 0)
		return false;
	reserve(b, BYTE_BLOCK);
	out = b->bytes + b->len;
	memcpy(out, block, BYTE_BLOCK);
	for (uint64_t other = blank & ~simd_find(&blanks, block); other; other &= other - 1)
		out[__builtin_ctzll(other)] = ' ';
	t->p += run;
	b->len += run;
	t->after_blank = n->spec->remove_extra_whitespaces && out[run - 1] == ' ';
	return slow == 0;
}

/* Drops leading blanks in any form. Even a text with other characters may normalise to nothing. */
bool
spmnorm_begin(const struct spmnorm *n, struct norm_text *t, const void *text, size_t len,
    struct spm_buffer *b)
{
	const struct sp_normalizer *s = n->spec;

	*t = (struct norm_text){ text, (const unsigned char *)text + len,
		s->remove_extra_whitespaces };
	while (s->remove_extra_whitespaces && t->p < t->end) {
		struct part part = next_part(n, t);

		if (part.len != 1 || part.bytes[0] != ' ')
			break;
		t->p += part.consumed;
	}
	if (t->p == t->end)
		return false;
	if (s->add_dummy_prefix && !s->whitespace_as_suffix) {
		reserve(b, 1);
		b->bytes[b->len++] = SPM_BLANK;
	}
	return true;
}

/* Copies plain blocks, and handles single characters where they end. */
bool
spmnorm_next(const struct spmnorm *n, struct norm_text *t, size_t bytes, struct spm_buffer *b)
{
	const unsigned char *stop = bytes < (size_t)(t->end - t->p) ? t->p + bytes : t->end;

	reserve(b, bytes + BYTE_BLOCK);
	while (t->p < stop) {
		if (copy_plain(n, t, b) || t->p == t->end)
			continue;
		do {
			struct part part;

			copy_threes(n, t, stop, b);
			part = next_part(n, t);
			add_part(n, t, part, b);
			t->p += part.consumed;
		} while (t->p < stop && n->slow.in[*t->p]);
	}
	return t->p < t->end;
}

/* Marks from the text count as blanks here. */
void
spmnorm_end(const struct spmnorm *n, struct spm_buffer *b)
{
	const struct sp_normalizer *s = n->spec;

	while (
	    s->remove_extra_whitespaces && b->len > b->start && b->bytes[b->len - 1] == SPM_BLANK)
		b->len--;
	if (s->add_dummy_prefix && s->whitespace_as_suffix) {
		reserve(b, 1);
		b->bytes[b->len++] = SPM_BLANK;
	}
}

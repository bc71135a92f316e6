/*
 * split.c - the pre-tokenizer of a tokenizer.json
 *
 * Source: tokenizers/src/pre_tokenizers and NormalizedString::split of huggingface/tokenizers. A
 * step is handed one piece and hands its parts to the step after it, so that only changed text is
 * stored.
 */
#include "lib/base/utf8.h"
#include "lib/token/hf/component.h"
#include "lib/token/split.h"
#include "lib/token/unicode.h"

#include <stdlib.h>
#include <string.h>

enum { BYTE_LEVELS = 4 };

/* The state of a run that each step needs. */
struct run {
	const struct splitter *p;
	struct split_scratch *x;
	const struct split_sink *sink;
	struct err *e;
};

struct split_kind {
	const char *name;
	/* NULL: it has no members */
	int (*parse)(
	    struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e);
	int (*run)(const struct run *r, int step, const struct span *in);
};

/* Passes a piece to the next step, or to the model. Empty ones are dropped. */
static int
emit(const struct run *r, int step, const struct span *in, size_t start, size_t end)
{
	struct span part = { in->s + start, end - start,
		in->first > start ? in->first - start : 0 };

	if (start == end)
		return 0;
	if (step + 1 < r->p->count)
		return r->p->step[step + 1].kind->run(r, step + 1, &part);
	return r->sink->piece(r->sink->ctx, &part, r->e);
}

/* --- cutting at matches ----------------------------------------------------------------------- */

/* The state of cutting: the part [start, end) is held back while it may still grow. */
struct cut {
	const struct run *r;
	const struct span *in;
	int step;
	enum split_behavior behavior;
	bool invert, held, was_match;
	size_t start, end;
};

/* Passes on the held part. */
static int
flush(struct cut *c)
{
	bool held = c->held;

	c->held = false;
	return held ? emit(c->r, c->step, c->in, c->start, c->end) : 0;
}

/* True when this part is joined to the held one. */
static bool
joins(const struct cut *c, bool match)
{
	switch (c->behavior) {
	case SPLIT_MERGED_WITH_PREVIOUS: return match && !c->was_match;
	case SPLIT_MERGED_WITH_NEXT: return !match && c->was_match;
	case SPLIT_CONTIGUOUS: return match == c->was_match;
	default: return false;
	}
}

/*
 * The next part of the text: a match, or the text between two. With MergedWithNext, an empty match
 * still ends the part before it.
 */
static int
add_part(struct cut *c, size_t start, size_t end, bool match)
{
	match ^= c->invert;
	if (c->held && joins(c, match)) {
		c->end = end;
		c->was_match = match;
		return 0;
	}
	if (flush(c) < 0)
		return -1;
	c->was_match = match;
	if (match && c->behavior == SPLIT_REMOVED)
		return 0;
	c->held = true;
	c->start = start;
	c->end = end;
	return 0;
}

/* Cuts at all matches of the pattern. */
static int
run_pattern(const struct run *r, int step, const struct span *in)
{
	const struct split_step *s = &r->p->step[step];
	struct cut c = {
		.r = r, .in = in, .step = step, .behavior = s->behavior, .invert = s->invert
	};
	struct regex_walk w = { .s = in->s, .n = in->n };
	size_t done = 0;
	int rc;

	while ((rc = regex_next(s->pattern, r->x->regex, &w, r->e)) > 0) {
		if ((w.start > done && add_part(&c, done, w.start, false) < 0) ||
		    add_part(&c, w.start, w.end, true) < 0)
			return -1;
		done = w.end;
	}
	if (rc < 0 || (done < in->n && add_part(&c, done, in->n, false) < 0))
		return -1;
	return flush(&c);
}

/* Passes on a piece, in the alphabet if the next steps see that. */
static int
emit_letters(const struct run *r, int step, const struct span *in, size_t start, size_t end)
{
	struct str *letters = &r->x->letters[step];
	struct span piece = { NULL, 0, 0 };
	size_t first = in->first < end ? in->first : end;

	if (!r->p->step[step].letters)
		return emit(r, step, in, start, end);
	str_clear(letters);
	if (start < first) {
		alphabet_encode(&r->p->alphabet, in->s + start, first - start, letters);
		piece.first = letters->len;
		start = first;
	}
	alphabet_encode(&r->p->alphabet, in->s + start, end - start, letters);
	piece.s = letters->buf;
	piece.n = letters->len;
	return emit(r, step, &piece, 0, piece.n);
}

/* A scanner also gives what is between two matches. */
static int
run_scanner(const struct run *r, int step, const struct span *in)
{
	const struct split_step *s = &r->p->step[step];

	for (size_t pos = 0, end; pos < in->n; pos = end) {
		end = pretok_next(s->scanner, (const unsigned char *)in->s, in->n, pos);
		if (emit_letters(r, step, in, pos, end) < 0)
			return -1;
	}
	return 0;
}

/* By the scanner where there is one. */
static int
run_split(const struct run *r, int step, const struct span *in)
{
	return r->p->step[step].scanner ? run_scanner(r, step, in) : run_pattern(r, step, in);
}

/* By the names of the reference; the default "": required. */
static int
parse_behavior(struct split_step *s, const struct json_value *v, const char *def, struct err *e)
{
	static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious",
		"MergedWithNext", "Contiguous" };
	const char *name;

	if (json_string(v, "behavior", def, &name, e) < 0)
		return -1;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(names[i], name)) {
			s->behavior = (enum split_behavior)i;
			return 0;
		}
	return err_set(e, "behavior '%s' is not supported", name);
}

/* A scanner for the expression, or NULL: it is left to PCRE2. */
static struct pretok *
find_scanner(const struct pretok_step *cut)
{
	enum pretok_scanner known = pretok_find(cut->regex, cut->len);
	struct err why;

	return known != PRETOK_NONE ? pretok_new(known) : pretok_compile(cut, 1, &why);
}

/* When all of the text matches, isolating the matches and removing the text between them are the
 * same. */
static int
parse_split(struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e)
{
	const struct json_value *pattern = json_get(v, "pattern"),
				*regex = json_get(pattern, "Regex");

	(void)p;
	if (parse_behavior(s, v, "", e) < 0 || json_bool(v, "invert", false, &s->invert, e) < 0)
		return -1;
	if (regex && regex->type == JSON_STRING &&
	    (s->behavior == SPLIT_ISOLATED || (s->behavior == SPLIT_REMOVED && s->invert))) {
		s->cut = (struct pretok_step){ .regex = regex->string, .len = regex->len };
		s->scanner = find_scanner(&s->cut);
		if (s->scanner && s->behavior == SPLIT_REMOVED && !pretok_covers(s->scanner)) {
			pretok_free(s->scanner);
			s->scanner = NULL;
		}
		s->isolates = s->scanner != NULL;
		if (s->scanner)
			return 0;
	}
	s->pattern = pattern_parse(pattern, e);
	return s->pattern ? 0 : -1;
}

/* --- the other kinds -------------------------------------------------------------------------- */

/* Puts a space before a piece that has none; the last part of ByteLevel is done by the
 * model. */
static int
run_byte_level(const struct run *r, int step, const struct span *in)
{
	struct str *text = &r->x->text[step];
	struct span spaced = *in;

	if (r->p->step[step].prefix_space && in->s[0] != ' ') {
		str_clear(text);
		str_addc(text, ' ');
		str_add(text, in->s, in->n);
		spaced.s = text->buf;
		spaced.n = text->len;
		spaced.first += in->first > 0;
	}
	if (r->p->step[step].scanner)
		return run_scanner(r, step, &spaced);
	return emit_letters(r, step, &spaced, 0, spaced.n);
}

/* As if it were the last step; add_step handles those that are not. */
static int
parse_byte_level(
    struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e)
{
	bool regex;

	if (json_bool(v, "add_prefix_space", true, &s->prefix_space, e) < 0 ||
	    json_bool(v, "use_regex", true, &regex, e) < 0)
		return -1;
	p->bytes = true;
	if (regex) {
		s->scanner = pretok_new(PRETOK_GPT2);
		s->cut = pretok_step(PRETOK_GPT2);
		s->isolates = !s->prefix_space;
	}
	return 0;
}

/* The characters of the step's set are pieces of their own, together or one by one. */
static void
isolate_set(struct split_step *s)
{
	s->isolates = s->behavior == SPLIT_ISOLATED || s->behavior == SPLIT_CONTIGUOUS;
	if (!s->isolates)
		return;
	unicode_set_points(s->set, &s->points);
	s->cut.set = &s->points;
	s->cut.run = s->behavior == SPLIT_CONTIGUOUS;
}

static int
parse_digits(struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e)
{
	bool individual;

	(void)p;
	if (json_bool(v, "individual_digits", false, &individual, e) < 0)
		return -1;
	s->set = UNICODE_NUMERIC;
	s->behavior = individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
	isolate_set(s);
	return 0;
}

static int
parse_punctuation(
    struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e)
{
	(void)p;
	s->set = UNICODE_PUNCTUATION;
	if (parse_behavior(s, v, "Isolated", e) < 0)
		return -1;
	isolate_set(s);
	return 0;
}

static int
parse_white_split(
    struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e)
{
	(void)p, (void)v, (void)e;
	s->set = UNICODE_WHITE;
	s->behavior = SPLIT_REMOVED;
	return 0;
}

/* Bytes of the character at pos < n. */
static size_t
character(const struct span *in, size_t pos, uint32_t *cp)
{
	int len = utf8_decode((const unsigned char *)in->s + pos, in->n - pos, cp);

	if (len == 0)
		*cp = 0xfffd;
	return len ? (size_t)len : 1;
}

/* Each character of a set is a match. */
static int
run_set(const struct run *r, int step, const struct span *in)
{
	const struct split_step *s = &r->p->step[step];
	struct cut c = { .r = r, .in = in, .step = step, .behavior = s->behavior };
	size_t done = 0;
	uint32_t cp;

	for (size_t i = 0, end; i < in->n; i = end) {
		end = i + character(in, i, &cp);
		if (!unicode_in(s->set, cp))
			continue;
		if ((i > done && add_part(&c, done, i, false) < 0) ||
		    add_part(&c, i, end, true) < 0)
			return -1;
		done = end;
	}
	if (done < in->n && add_part(&c, done, in->n, false) < 0)
		return -1;
	return flush(&c);
}

/* Runs of word characters and runs of others: \w+|[^\w\s]+, and nothing else. */
static int
run_whitespace(const struct run *r, int step, const struct span *in)
{
	enum { WHITE, WORD, OTHER } kind, previous = WHITE;
	size_t start = 0;
	uint32_t cp;

	for (size_t i = 0, len; i < in->n; i += len) {
		len = character(in, i, &cp);
		kind = unicode_in(UNICODE_WORD, cp) ? WORD
		    : unicode_in(UNICODE_WHITE, cp) ? WHITE
						    : OTHER;
		if (kind == previous)
			continue;
		if (previous != WHITE && emit(r, step, in, start, i) < 0)
			return -1;
		previous = kind;
		start = i;
	}
	return previous == WHITE ? 0 : emit(r, step, in, start, in->n);
}

/* Without "length" it is 5. */
static int
parse_fixed_length(
    struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e)
{
	(void)p;
	if (json_int(v, "length", 5, &s->length, e) < 0)
		return -1;
	return s->length > 0 ? 0
			     : err_set(e, "\"length\" %lld must be positive", (long long)s->length);
}

/* The last piece may be shorter. */
static int
run_fixed_length(const struct run *r, int step, const struct span *in)
{
	uint32_t cp;

	for (size_t start = 0, end; start < in->n; start = end) {
		end = start;
		for (int64_t k = 0; k < r->p->step[step].length && end < in->n; k++)
			end += character(in, end, &cp);
		if (emit(r, step, in, start, end) < 0)
			return -1;
	}
	return 0;
}

/* Older files have add_prefix_space instead of prepend_scheme. */
static int
parse_metaspace(struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e)
{
	if (component_character(v, "replacement", &s->replacement, &s->len, e) < 0)
		return -1;
	s->pattern = regex_new_string(s->replacement, s->len);
	s->behavior = SPLIT_MERGED_WITH_NEXT;
	if (metaspace_prepend(v, &s->prepend, e) < 0)
		return -1;
	p->origin |= s->prepend == METASPACE_FIRST;
	return json_bool(v, "split", true, &s->split, e);
}

/* Spaces become the replacement, one may be prepended, and each begins a piece. */
static int
run_metaspace(const struct run *r, int step, const struct span *in)
{
	const struct split_step *s = &r->p->step[step];
	struct str *text = &r->x->text[step];
	bool starts = in->n >= s->len && !memcmp(in->s, s->replacement, s->len);
	struct span changed = { NULL, 0, 0 };

	str_clear(text);
	if (!starts && in->s[0] != ' ' &&
	    (s->prepend == METASPACE_ALWAYS || (s->prepend == METASPACE_FIRST && in->first)))
		str_add(text, s->replacement, s->len);
	if (in->first)
		changed.first = text->len;
	for (size_t i = 0; i < in->first; i++)
		changed.first += in->s[i] == ' ' ? s->len : 1;
	for (size_t i = 0; i < in->n;) {
		const char *space = memchr(in->s + i, ' ', in->n - i);
		size_t end = space ? (size_t)(space - in->s) : in->n;

		str_add(text, in->s + i, end - i);
		if (space)
			str_add(text, s->replacement, s->len);
		i = end + 1;
	}
	changed.s = text->buf;
	changed.n = text->len;
	return s->split ? run_pattern(r, step, &changed) : emit(r, step, &changed, 0, changed.n);
}

static const struct split_kind kinds[] = {
	{ "Split", parse_split, run_split },
	{ "ByteLevel", parse_byte_level, run_byte_level },
	{ "Digits", parse_digits, run_set },
	{ "Punctuation", parse_punctuation, run_set },
	{ "WhitespaceSplit", parse_white_split, run_set },
	{ "Whitespace", NULL, run_whitespace },
	{ "FixedLength", parse_fixed_length, run_fixed_length },
	{ "Metaspace", parse_metaspace, run_metaspace },
};

/* The decoder of the same name has the same members. */
int
metaspace_prepend(const struct json_value *v, enum metaspace_prepend *out, struct err *e)
{
	static const char *const names[] = { "always", "first", "never" };
	const char *name;
	bool space;

	if (json_bool(v, "add_prefix_space", true, &space, e) < 0 ||
	    json_string(v, "prepend_scheme", space ? "always" : "never", &name, e) < 0)
		return -1;
	for (int i = 0; i < 3; i++)
		if (!strcmp(names[i], name)) {
			*out = (enum metaspace_prepend)i;
			return 0;
		}
	return err_set(e, "prepend_scheme '%s' is not supported", name);
}

/* At most SPLIT_STEPS. After a ByteLevel a step sees its alphabet instead of the text, as in
 * Falcon's files; another one encodes that alphabet, so that each may double the text. */
static int
add_step(void *owner, const void *kind, const struct json_value *v, struct err *e)
{
	struct splitter *p = owner;
	struct split_step *s = &p->step[p->count];
	int encoded = 0;

	if (p->bytes) {
		alphabet_init(&p->alphabet);
		s[-1].letters = true;
	}
	p->bytes = false;
	p->count++;
	s->kind = kind;
	if (s->kind->parse && s->kind->parse(p, s, v, e) < 0)
		return -1;
	for (int i = 0; p->bytes && i < p->count; i++)
		encoded += p->step[i].letters;
	return encoded < BYTE_LEVELS ? 0 : err_set(e, "more than %d ByteLevels", BYTE_LEVELS);
}

static const struct component component = { "pre_tokenizer", "pretokenizers", SPLIT_STEPS, kinds,
	sizeof *kinds, sizeof kinds / sizeof *kinds, add_step };

/* Joins as many of the last steps as possible into one scanner, unless the last one is known, which
 * is faster, and would be alone. */
static void
join_last(struct splitter *p)
{
	int first = p->count, last = p->count - 1;
	struct pretok_step cut[SPLIT_STEPS];
	struct err why;

	while (first > 0 && p->step[first - 1].isolates && !p->step[first - 1].letters)
		first--;
	for (int i = first; i <= last; i++)
		cut[i] = p->step[i].cut;
	for (; first < last && !p->last; first += !p->last)
		p->last = pretok_compile(cut + first, p->count - first, &why);
	if (!p->last && first == last) {
		p->last = p->step[last].scanner;
		p->step[last].scanner = NULL;
	}
	if (!p->last)
		return;
	for (int i = first; i <= last; i++) {
		pretok_free(p->step[i].scanner);
		p->step[i].scanner = NULL;
	}
	p->count = first;
}

/* A ByteLevel at the end that only makes pieces bytes is dropped. */
int
splitter_parse(struct splitter *p, const struct json_value *v, struct err *e)
{
	struct split_step *s = p->step;

	if (component_parse(&component, p, v, e) < 0)
		return -1;
	if (p->bytes && !s[p->count - 1].prefix_space && !s[p->count - 1].scanner)
		p->count--;
	if (p->bytes)
		join_last(p);
	return 0;
}

/* Also after a failed parse. */
void
splitter_release(struct splitter *p)
{
	for (int i = 0; i < SPLIT_STEPS; i++) {
		pretok_free(p->step[i].scanner);
		regex_free(p->step[i].pattern);
		free(p->step[i].replacement);
		points_release(&p->step[i].points);
	}
	pretok_free(p->last);
	memset(p, 0, sizeof *p);
}

/* The owner frees the regex scratch. */
void
split_scratch_release(struct split_scratch *x)
{
	for (int i = 0; i < SPLIT_STEPS; i++) {
		str_release(&x->text[i]);
		str_release(&x->letters[i]);
	}
}

/* Without steps the whole text is one piece. */
int
splitter_run(const struct splitter *p, struct split_scratch *x, const struct span *text,
    const struct split_sink *sink, struct err *e)
{
	struct run r = { p, x, sink, e };

	return p->count ? p->step[0].kind->run(&r, 0, text) : sink->piece(sink->ctx, text, e);
}

/*
 * split.c - the pre-tokenizer of a tokenizer.json
 *
 * Source: tokenizers/src/pre_tokenizers and NormalizedString::split of huggingface/tokenizers. A
 * step is handed one piece and hands its parts to the step after it, so that nothing but changed
 * text is ever stored.
 */
#include "lib/base/utf8.h"
#include "lib/token/hf/component.h"
#include "lib/token/split.h"
#include "lib/token/unicode.h"

#include <stdlib.h>
#include <string.h>

/* What a step needs to go on with. */
struct run {
	const struct splitter *p;
	struct split_scratch *x;
	const struct split_sink *sink;
	struct err *e;
};

struct split_kind {
	const char *name;
	/* NULL: there are no members */
	int (*parse)(
	    struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e);
	int (*run)(const struct run *r, int step, const struct span *in);
};

/* A piece to the step after this one, or to the model. Empty ones are dropped. */
static int
emit(const struct run *r, int step, const struct span *in, size_t start, size_t end)
{
	struct span part = { in->s + start, end - start, in->first && start == 0 };

	if (start == end)
		return 0;
	if (step + 1 < r->p->count)
		return r->p->step[step + 1].kind->run(r, step + 1, &part);
	return r->sink->piece(r->sink->ctx, &part, r->e);
}

/* --- cutting at matches ----------------------------------------------------------------------- */

/* A cut in the making: the part [start, end) is held back while it may still grow. */
struct cut {
	const struct run *r;
	const struct span *in;
	int step;
	enum split_behavior behavior;
	bool invert, held, was_match;
	size_t start, end;
};

/* Lets go of the part that was held back. */
static int
flush(struct cut *c)
{
	bool held = c->held;

	c->held = false;
	return held ? emit(c->r, c->step, c->in, c->start, c->end) : 0;
}

/* Does this part become one with the one held back? */
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
 * The next part of the text: a match or what stands between two. An empty match of MergedWithNext
 * still ends what went before it.
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

/* All matches of the pattern and the text between them. */
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

/* A piece, in the alphabet where the steps after it see that. */
static int
emit_letters(const struct run *r, int step, const struct span *in, size_t start, size_t end)
{
	struct str *letters = &r->x->letters;
	struct span piece = { NULL, 0, in->first && start == 0 };

	if (!r->p->step[step].letters)
		return emit(r, step, in, start, end);
	str_clear(letters);
	alphabet_encode(&r->p->alphabet, in->s + start, end - start, letters);
	piece.s = letters->buf;
	piece.n = letters->len;
	return emit(r, step, &piece, 0, piece.n);
}

/* The scanners' expressions match everything, so there is nothing between matches. */
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

/* By the names of the reference; "" as default: it must be there. */
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

/* A known expression that isolates all its matches is a scanner. */
static int
parse_split(struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e)
{
	const struct json_value *pattern = json_get(v, "pattern"),
				*regex = json_get(pattern, "Regex");
	enum pretok_scanner known = PRETOK_NONE;

	(void)p;
	if (parse_behavior(s, v, "", e) < 0 || json_bool(v, "invert", false, &s->invert, e) < 0)
		return -1;
	if (regex && regex->type == JSON_STRING)
		known = pretok_find(regex->string, regex->len);
	/* With all of the text matched, isolating the matches or removing what is between them is
	 * the same. */
	if (known != PRETOK_NONE &&
	    (s->behavior == SPLIT_ISOLATED || (s->behavior == SPLIT_REMOVED && s->invert))) {
		s->scanner = pretok_new(known);
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
	}
	if (r->p->step[step].scanner)
		return run_scanner(r, step, &spaced);
	return emit_letters(r, step, &spaced, 0, spaced.n);
}

/* As if it were the last step; add_step sees to those that are not. */
static int
parse_byte_level(
    struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e)
{
	bool regex;

	if (json_bool(v, "add_prefix_space", true, &s->prefix_space, e) < 0 ||
	    json_bool(v, "use_regex", true, &regex, e) < 0)
		return -1;
	p->bytes = true;
	if (regex)
		s->scanner = pretok_new(PRETOK_GPT2);
	return 0;
}

/* Numbers are pieces of their own, together or one by one. */
static int
parse_digits(struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e)
{
	bool individual;

	(void)p;
	if (json_bool(v, "individual_digits", false, &individual, e) < 0)
		return -1;
	s->set = UNICODE_NUMERIC;
	s->behavior = individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
	return 0;
}

static int
parse_punctuation(
    struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e)
{
	(void)p;
	s->set = UNICODE_PUNCTUATION;
	return parse_behavior(s, v, "Isolated", e);
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

/* Older files say add_prefix_space instead of prepend_scheme. */
static int
parse_metaspace(struct splitter *p, struct split_step *s, const struct json_value *v, struct err *e)
{
	(void)p;
	if (component_character(v, "replacement", &s->replacement, &s->len, e) < 0)
		return -1;
	s->pattern = regex_new_string(s->replacement, s->len);
	s->behavior = SPLIT_MERGED_WITH_NEXT;
	if (metaspace_prepend(v, &s->prepend, e) < 0)
		return -1;
	return json_bool(v, "split", true, &s->split, e);
}

/* Spaces become the replacement, one may be put before all, and each begins a piece. */
static int
run_metaspace(const struct run *r, int step, const struct span *in)
{
	const struct split_step *s = &r->p->step[step];
	struct str *text = &r->x->text[step];
	bool starts = in->n >= s->len && !memcmp(in->s, s->replacement, s->len);
	struct span changed = { NULL, 0, in->first };

	str_clear(text);
	if (!starts && in->s[0] != ' ' &&
	    (s->prepend == METASPACE_ALWAYS || (s->prepend == METASPACE_FIRST && in->first)))
		str_add(text, s->replacement, s->len);
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

/* There is room for SPLIT_STEPS. After a ByteLevel a step sees its alphabet instead of the text, as
 * in Falcon's files; a second one would have to spell that again. */
static int
add_step(void *owner, const void *kind, const struct json_value *v, struct err *e)
{
	struct splitter *p = owner;
	struct split_step *s = &p->step[p->count];

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
		if (p->step[i].letters)
			return err_set(e, "after another ByteLevel is not supported");
	return 0;
}

static const struct component component = { "pre_tokenizer", "pretokenizers", SPLIT_STEPS, kinds,
	sizeof *kinds, sizeof kinds / sizeof *kinds, add_step };

/* A ByteLevel at the end that only says that pieces are bytes is dropped, and a scanner that is the
 * last step then is set apart. */
int
splitter_parse(struct splitter *p, const struct json_value *v, struct err *e)
{
	struct split_step *s = p->step;

	if (component_parse(&component, p, v, e) < 0)
		return -1;
	if (p->bytes && !s[p->count - 1].prefix_space && !s[p->count - 1].scanner)
		p->count--;
	if (p->bytes && p->count && s[p->count - 1].scanner && !s[p->count - 1].prefix_space) {
		p->last = s[--p->count].scanner;
		s[p->count].scanner = NULL;
	}
	return 0;
}

/* Also after a parse that failed. */
void
splitter_release(struct splitter *p)
{
	for (int i = 0; i < SPLIT_STEPS; i++) {
		pretok_free(p->step[i].scanner);
		regex_free(p->step[i].pattern);
		free(p->step[i].replacement);
	}
	pretok_free(p->last);
	memset(p, 0, sizeof *p);
}

/* The regex scratch is its owner's. */
void
split_scratch_release(struct split_scratch *x)
{
	for (int i = 0; i < SPLIT_STEPS; i++)
		str_release(&x->text[i]);
	str_release(&x->letters);
}

/* Without steps the text is the one piece. */
int
splitter_run(const struct splitter *p, struct split_scratch *x, const struct span *text,
    const struct split_sink *sink, struct err *e)
{
	struct run r = { p, x, sink, e };

	return p->count ? p->step[0].kind->run(&r, 0, text) : sink->piece(sink->ctx, text, e);
}

/*
 * pretok.c - the expressions of known tokenizers
 *
 * For these, masks of a window of text give the same pieces (pretok_block.c) in less time than the
 * tables of their automaton.
 */
#include "lib/token/pretok.h"
#include "lib/base/err.h"
#include "lib/token/pretok_impl.h"

#include <string.h>

#define RE_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define RE_WHITE "|\\s+(?!\\S)|\\s+"
#define RE_PREFIX "[^\\r\\n\\p{L}\\p{N}]?"
#define RE_UPPERS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define RE_LOWERS "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define RE_OTHERS "| ?[^\\s\\p{L}\\p{N}]+"
#define RE_LINES "[\\r\\n]*|\\s*[\\r\\n]+"
#define RE_SLASHES "[\\r\\n/]*|\\s*[\\r\\n]+"
#define RE_O200K(c) \
	RE_PREFIX RE_UPPERS "*" RE_LOWERS "+" c "|" RE_PREFIX RE_UPPERS "+" RE_LOWERS "*" c

/* What the masks need, and the expression itself; at the end of the text \z is $ without a line end
 * after it. */
static const struct {
	struct pretok_rules rules;
	const char *regex;
} scanners[PRETOK_SCANNERS] = {
	[PRETOK_GPT2] = { { CONTRACTION_LOWER, .digits = SIZE_MAX },
	    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+" RE_OTHERS RE_WHITE },
	[PRETOK_CL100K] = { { CONTRACTION_ANY, .digits = 3, .form = FORM_NEWER },
	    RE_CONTRACTIONS "|" RE_PREFIX "\\p{L}+|\\p{N}{1,3}" RE_OTHERS RE_LINES RE_WHITE },
	[PRETOK_CL100K_TAIL] = { { CONTRACTION_ANY, .digits = 3, .form = FORM_NEWER },
	    RE_CONTRACTIONS "|" RE_PREFIX "\\p{L}+|\\p{N}{1,3}" RE_OTHERS
			    "[\\r\\n]*|\\s+\\z|\\s*[\\r\\n]+" RE_WHITE },
	[PRETOK_QWEN2] = { { CONTRACTION_ANY, .digits = 1, .form = FORM_NEWER },
	    RE_CONTRACTIONS "|" RE_PREFIX "\\p{L}+|\\p{N}" RE_OTHERS RE_LINES RE_WHITE },
	[PRETOK_QWEN35] = { { CONTRACTION_ANY, .digits = 1, .form = FORM_NEWER },
	    RE_CONTRACTIONS
	    "|" RE_PREFIX "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+" RE_LINES RE_WHITE },
	[PRETOK_O200K] = { { CONTRACTION_ANY, .digits = 3, .form = FORM_NEWER, .cased = true,
			       .slashes = true },
	    RE_O200K(RE_CONTRACTIONS "?") "|\\p{N}{1,3}" RE_OTHERS RE_SLASHES RE_WHITE },
	[PRETOK_TIKTOKEN_V1] = { { CONTRACTION_NONE, .digits = 1, .form = FORM_NEWER },
	    RE_PREFIX "\\p{L}+|\\p{N}" RE_OTHERS RE_LINES RE_WHITE },
	[PRETOK_TIKTOKEN_V2] = { { CONTRACTION_NONE, .digits = 1, .form = FORM_NEWER, .cased = true,
				     .slashes = true },
	    RE_O200K("") "|\\p{N}" RE_OTHERS RE_SLASHES RE_WHITE },
};

/* The same expression with possessive quantifiers, or with its parts factored out, counts as
 * another spelling. Sources: openai/tiktoken openai_public.py (several versions), the
 * tokenizer.json of each model, Megatron-LM's tiktoken_tokenizer.py. */
static const struct {
	enum pretok_scanner scanner;
	const char *regex;
} known[] = {
	{ PRETOK_GPT2, "'s|'t|'re|'ve|'m|'ll|'d| ?[\\p{L}]+| ?[\\p{N}]+" RE_OTHERS RE_WHITE },
	{ PRETOK_GPT2, "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+" RE_OTHERS RE_WHITE },
	{ PRETOK_GPT2,
	    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++" RE_OTHERS "+|\\s++$|\\s+(?!\\S)|\\s" },
	{ PRETOK_CL100K,
	    "'(?i:[sdmt]|ll|ve|re)|" RE_PREFIX "+\\p{L}+|\\p{N}{1,3}" RE_OTHERS
	    "+[\\r\\n]*|\\s*[\\r\\n]" RE_WHITE },
	{ PRETOK_CL100K_TAIL,
	    "'(?i:[sdmt]|ll|ve|re)|" RE_PREFIX "+\\p{L}++|\\p{N}{1,3}+" RE_OTHERS
	    "+[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s" },
	{ PRETOK_TIKTOKEN_V1,
	    RE_PREFIX "+\\p{L}+|\\p{N}" RE_OTHERS "+[\\r\\n]*|\\s*[\\r\\n]" RE_WHITE },
};

static bool
same(const char *a, const char *regex, size_t len)
{
	return strlen(a) == len && !memcmp(a, regex, len);
}

/* Byte for byte: an expression that is only equivalent has no masks. */
enum pretok_scanner
pretok_find(const char *regex, size_t len)
{
	for (int i = 0; i < PRETOK_SCANNERS; i++)
		if (same(scanners[i].regex, regex, len))
			return (enum pretok_scanner)i;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (same(known[i].regex, regex, len))
			return known[i].scanner;
	return PRETOK_NONE;
}

struct pretok_step
pretok_step(enum pretok_scanner scanner)
{
	const char *regex = scanners[scanner].regex;

	return (struct pretok_step){ .regex = regex, .len = strlen(regex) };
}

/* All of these expressions compile. */
struct pretok *
pretok_new(enum pretok_scanner scanner)
{
	struct pretok_step step = pretok_step(scanner);
	struct pretok *p;
	struct err e;

	p = pretok_tables(&step, 1, &e);
	if (!p)
		BUG("%s", e.msg);
	p->windows = true;
	p->rules = scanners[scanner].rules;
	return p;
}

/*
 * lr.c - learning rate and weight decay as functions of the consumed samples
 *
 * Pure functions of the number of samples: no state is saved, and resuming or changing the batch
 * size leaves the curve as it was. Source: Megatron-LM core/optimizer_param_scheduler.py, which
 * counts samples too.
 */
#include "lib/model/lr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD(name, word, traits) word,
#define TAIL_WORD(name, word) word,
#define TRAITS(name, word, traits) traits,
#define LR_STYLE(name, word, traits) lr_style_##name,
#define LR_TAIL(name, word) lr_tail_##name,
#define WD_STYLE(name, word, traits) wd_style_##name,

const char *const lr_styles[] = { LR_STYLES(WORD) NULL };
const char *const wsd_styles[] = { LR_TAILS(TAIL_WORD) NULL };
const char *const wd_styles[] = { WD_STYLES(WORD) NULL };

static const int lr_traits[] = { LR_STYLES(TRAITS) }, wd_traits[] = { WD_STYLES(TRAITS) };
static double (*const rates[])(const struct lr_schedule *, double) = { LR_STYLES(LR_STYLE) };
static double (*const tails[])(double) = { LR_TAILS(LR_TAIL) };
static double (*const decays[])(const struct lr_schedule *, double) = { WD_STYLES(WD_STYLE) };

int
lr_index(const char *const *words, const char *word)
{
	for (int i = 0; word && words[i]; i++)
		if (!strcmp(word, words[i]))
			return i;
	return -1;
}

bool
lr_has_tail(int style)
{
	return lr_traits[style] & LR_HAS_TAIL;
}

bool
wd_is_steady(int style)
{
	return wd_traits[style] & WD_STEADY;
}

/* Ensures that lr_at never divides by zero. The reason names both values. */
int
lr_check(const struct lr_schedule *s, struct err *e)
{
	double rest = (double)s->decay_samples - s->warmup_samples;

	if (s->min_lr > s->lr)
		return err_set(e, "--min-lr %g: must be at most --lr %g", s->min_lr, s->lr);
	if (s->vocab_min_lr > s->vocab_lr)
		return err_set(e, "--decoupled-min-lr %g: must be at most --decoupled-lr %g",
		    s->vocab_min_lr, s->vocab_lr);
	if (s->lr_warmup_init > s->lr)
		return err_set(
		    e, "--lr-warmup-init %g: must be at most --lr %g", s->lr_warmup_init, s->lr);
	if (s->decay_samples < 1)
		return err_set(e, "--lr-decay-iters: the decay must last at least one step");
	if (rest <= 0)
		return err_set(e,
		    "--lr-warmup-iters: the warm-up of %.15g samples must be shorter than the "
		    "decay of %lld",
		    s->warmup_samples, (long long)s->decay_samples);
	if (lr_has_tail(s->style) && (double)s->wsd_decay_samples > rest)
		return err_set(e,
		    "--lr-wsd-decay-iters: the tail of %lld samples must fit between warm-up and "
		    "end, %.15g",
		    (long long)s->wsd_decay_samples, rest);
	return 0;
}

double
lr_progress(const struct lr_schedule *s, double samples)
{
	return (samples - s->warmup_samples) / ((double)s->decay_samples - s->warmup_samples);
}

double
lr_between(const struct lr_schedule *s, double share)
{
	return s->min_lr + share * (s->lr - s->min_lr);
}

double
lr_tail(const struct lr_schedule *s, double eta)
{
	return tails[s->wsd_style](eta);
}

/* The rate of the step that begins after `samples` samples. Warm-up has precedence over every
 * style; after the decay the rate stays at min_lr. Every formula rounds where Megatron-LM's
 * does. */
double
lr_at(const struct lr_schedule *s, int64_t samples)
{
	double k = (double)samples, w = s->warmup_samples;

	if (w > 0 && k <= w)
		return s->lr_warmup_init + (s->lr - s->lr_warmup_init) * k / w;
	if (samples > s->decay_samples && !(lr_traits[s->style] & LR_ENDLESS))
		return s->min_lr;
	return rates[s->style](s, k);
}

bool
lr_decoupled(const struct lr_schedule *s)
{
	return s->vocab_lr != s->lr || s->vocab_min_lr != s->min_lr;
}

/* The shape is common to both; so is the rate that a warm-up starts from. */
double
lr_at_vocab(const struct lr_schedule *s, int64_t samples)
{
	struct lr_schedule vocab = *s;

	vocab.lr = s->vocab_lr;
	vocab.min_lr = s->vocab_min_lr;
	return lr_at(&vocab, samples);
}

double
wd_between(const struct lr_schedule *s, double share)
{
	double a = s->start_weight_decay, b = s->end_weight_decay;

	return a + (b - a) * share;
}

/* Grows from start to end over the whole run, then stays; constant gives the end value, as in
 * Megatron-LM. */
double
wd_at(const struct lr_schedule *s, int64_t samples)
{
	if (samples > s->wd_samples || s->wd_samples < 1)
		return s->end_weight_decay;
	return decays[s->wd_style](s, (double)samples / (double)s->wd_samples);
}

void
lr_print(const struct lr_schedule *s, struct str *out)
{
	str_addf(out, "%s %s %s %.17g %.17g %.17g %.17g %.17g %.17g %lld %lld %lld",
	    lr_styles[s->style], wsd_styles[s->wsd_style], wd_styles[s->wd_style], s->lr, s->min_lr,
	    s->lr_warmup_init, s->start_weight_decay, s->end_weight_decay, s->warmup_samples,
	    (long long)s->decay_samples, (long long)s->wsd_decay_samples, (long long)s->wd_samples);
	if (lr_decoupled(s))
		str_addf(out, " %.17g %.17g", s->vocab_lr, s->vocab_min_lr);
}

/* An option and its number. */
static void
describe(struct str *out, const char *option, double x)
{
	str_addf(out, "%s ", option);
	str_add_double(out, x);
	str_addc(out, '\n');
}

void
lr_describe(const struct lr_schedule *s, struct str *out)
{
	describe(out, "lr", s->lr);
	describe(out, "min-lr", s->min_lr);
	if (s->vocab_lr != s->lr)
		describe(out, "decoupled-lr", s->vocab_lr);
	if (s->vocab_min_lr != s->min_lr)
		describe(out, "decoupled-min-lr", s->vocab_min_lr);
	describe(out, "lr-warmup-init", s->lr_warmup_init);
	describe(out, "lr-warmup-samples", s->warmup_samples);
	str_addf(out, "lr-decay-style %s\nlr-decay-samples %lld\n", lr_styles[s->style],
	    (long long)s->decay_samples);
	if (lr_has_tail(s->style))
		str_addf(out, "lr-wsd-decay-style %s\nlr-wsd-decay-samples %lld\n",
		    wsd_styles[s->wsd_style], (long long)s->wsd_decay_samples);
	describe(out, "start-weight-decay", s->start_weight_decay);
	describe(out, "end-weight-decay", s->end_weight_decay);
	str_addf(out, "weight-decay-incr-style %s\n", wd_styles[s->wd_style]);
}

/* Earlier versions wrote the number of a style in place of its word. These are the words that the
 * numbers stand for, whatever the lists have. */
static const char *const numbered_styles[] = { "constant", "linear", "cosine",
	"inverse-square-root", "WSD", NULL };
static const char *const numbered_tails[] = { "exponential", "linear", "cosine", "minus_sqrt",
	NULL };
static const char *const numbered_decays[] = { "constant", "linear", "cosine", NULL };

/* Finds the style of a word, or of an earlier version's number; `what` it is of, for the reason. */
static int
read_style(const char *word, const char *what, const char *const *numbered,
    const char *const *words, int *out, struct err *e)
{
	struct str known = { 0 };

	if (word[strspn(word, "0123456789")] == '\0') {
		int n = 0;

		while (numbered[n] && n < atoi(word))
			n++;
		if (strlen(word) > 1 || !numbered[n])
			return err_set(e, "%s has no number %s", what, word);
		word = numbered[n];
	}
	*out = lr_index(words, word);
	if (*out >= 0)
		return 0;
	for (int i = 0; words[i]; i++)
		str_addf(&known, "%s%s", i ? ", " : "", words[i]);
	err_set(e, "no %s '%s' in this build, which has %s", what, word, known.buf);
	str_release(&known);
	return -1;
}

/* The numbers after the words. */
static int
read_numbers(const char *text, struct lr_schedule *s)
{
	long long decay, tail, wd;
	int end = -1;

	if (sscanf(text, "%lf %lf %lf %lf %lf %lf %lld %lld %lld %n", &s->lr, &s->min_lr,
		&s->lr_warmup_init, &s->start_weight_decay, &s->end_weight_decay,
		&s->warmup_samples, &decay, &tail, &wd, &end) != 9)
		return -1;
	s->decay_samples = decay;
	s->wsd_decay_samples = tail;
	s->wd_samples = wd;
	s->vocab_lr = s->lr;
	s->vocab_min_lr = s->min_lr;
	text += end;
	end = -1;
	if (!*text)
		return 0;
	return sscanf(text, "%lf %lf%n", &s->vocab_lr, &s->vocab_min_lr, &end) == 2 && !text[end]
	    ? 0
	    : -1;
}

int
lr_parse(const char *line, struct lr_schedule *s, struct err *e)
{
	char style[64], tail[64], decay[64];
	int end = -1;

	if (sscanf(line, "%63s %63s %63s%n", style, tail, decay, &end) != 3 ||
	    read_numbers(line + end, s) < 0)
		return err_set(e, "'%.120s' is not three styles and 9 or 11 numbers", line);
	return read_style(style, "style", numbered_styles, lr_styles, &s->style, e) < 0 ||
		read_style(tail, "tail", numbered_tails, wsd_styles, &s->wsd_style, e) < 0 ||
		read_style(
		    decay, "style of weight decay", numbered_decays, wd_styles, &s->wd_style, e) < 0
	    ? -1
	    : 0;
}

bool
lr_same(const struct lr_schedule *a, const struct lr_schedule *b)
{
	struct str x = { 0 }, y = { 0 };
	bool same;

	lr_print(a, &x);
	lr_print(b, &y);
	same = !strcmp(x.buf, y.buf);
	str_release(&x);
	str_release(&y);
	return same;
}

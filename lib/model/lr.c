/*
 * lr.c - learning rate and weight decay as functions of the consumed samples
 *
 * Pure functions of the number of samples: no state is saved, and resuming or changing the batch
 * size leaves the curve as it was. Source: Megatron-LM core/optimizer_param_scheduler.py, which
 * counts samples too.
 */
#include "lib/model/lr.h"

#include <math.h>
#include <stdio.h>

#define PI 3.14159265358979323846

const char *const lr_styles[] = { "constant", "linear", "cosine", "inverse-square-root", "WSD",
	NULL };
const char *const wsd_styles[] = { "exponential", "linear", "cosine", "minus_sqrt", NULL };
const char *const wd_styles[] = { "constant", "linear", "cosine", NULL };

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
	if (s->style == LR_WSD && (double)s->wsd_decay_samples > rest)
		return err_set(e,
		    "--lr-wsd-decay-iters: the tail of %lld samples must fit between warm-up and "
		    "end, %.15g",
		    (long long)s->wsd_decay_samples, rest);
	return 0;
}

/* Share of (lr - min_lr) left in the tail of warm-up, stable, decay. 1 in the stable part; eta
 * rises from 0 to 1 over the tail. */
static double
wsd(const struct lr_schedule *s, double k)
{
	double start = (double)(s->decay_samples - s->wsd_decay_samples), eta;

	if (k <= start || s->wsd_decay_samples == 0)
		return 1;
	eta = (k - start) / (double)s->wsd_decay_samples;
	switch (s->wsd_style) {
	case WSD_LINEAR: return 1 - eta;
	case WSD_COSINE: return (1 + cos(PI * eta)) / 2;
	case WSD_MINUS_SQRT: return 1 - sqrt(eta);
	default: return 2 * pow(0.5, eta) - 1;
	}
}

/* The rate of the step that begins after `samples` samples. Warm-up has precedence over every
 * style; after the decay the rate stays at min_lr. The inverse square root is cut off at min_lr as
 * well. Every formula rounds where Megatron-LM's does. */
double
lr_at(const struct lr_schedule *s, int64_t samples)
{
	double k = (double)samples, w = s->warmup_samples, n = (double)s->decay_samples, rho, share;

	if (w > 0 && k <= w)
		return s->lr_warmup_init + (s->lr - s->lr_warmup_init) * k / w;
	if (s->style == LR_CONSTANT)
		return s->lr;
	if (samples > s->decay_samples)
		return s->min_lr;
	if (s->style == LR_INVERSE_SQUARE_ROOT)
		return fmax(s->min_lr, s->lr * pow(fmax(w, 1), 0.5) / pow(fmax(k, 1), 0.5));
	rho = (k - w) / (n - w);
	share = s->style == LR_LINEAR ? 1 - rho
	    : s->style == LR_COSINE   ? (1 + cos(PI * rho)) / 2
				      : wsd(s, k);
	return s->min_lr + share * (s->lr - s->min_lr);
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

/* Grows from start to end over the whole run, then stays; constant gives the end value, as in
 * Megatron-LM. */
double
wd_at(const struct lr_schedule *s, int64_t samples)
{
	double a = s->start_weight_decay, b = s->end_weight_decay, rho;

	if (s->wd_style == WD_CONSTANT || samples > s->wd_samples || s->wd_samples < 1)
		return b;
	rho = (double)samples / (double)s->wd_samples;
	return a + (b - a) * (s->wd_style == WD_LINEAR ? rho : (1 + cos(PI * (1 - rho))) / 2);
}

void
lr_print(const struct lr_schedule *s, struct str *out)
{
	str_addf(out, "%d %d %d %.17g %.17g %.17g %.17g %.17g %.17g %lld %lld %lld", s->style,
	    s->wsd_style, s->wd_style, s->lr, s->min_lr, s->lr_warmup_init, s->start_weight_decay,
	    s->end_weight_decay, s->warmup_samples, (long long)s->decay_samples,
	    (long long)s->wsd_decay_samples, (long long)s->wd_samples);
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
	if (s->style == LR_WSD)
		str_addf(out, "lr-wsd-decay-style %s\nlr-wsd-decay-samples %lld\n",
		    wsd_styles[s->wsd_style], (long long)s->wsd_decay_samples);
	describe(out, "start-weight-decay", s->start_weight_decay);
	describe(out, "end-weight-decay", s->end_weight_decay);
	str_addf(out, "weight-decay-incr-style %s\n", wd_styles[s->wd_style]);
}

int
lr_parse(const char *line, struct lr_schedule *s)
{
	long long d, tail, wd;
	int n = sscanf(line, "%d %d %d %lf %lf %lf %lf %lf %lf %lld %lld %lld %lf %lf", &s->style,
	    &s->wsd_style, &s->wd_style, &s->lr, &s->min_lr, &s->lr_warmup_init,
	    &s->start_weight_decay, &s->end_weight_decay, &s->warmup_samples, &d, &tail, &wd,
	    &s->vocab_lr, &s->vocab_min_lr);

	if ((n != 12 && n != 14) || s->style < 0 || s->style > LR_WSD || s->wsd_style < 0 ||
	    s->wsd_style > WSD_MINUS_SQRT || s->wd_style < 0 || s->wd_style > WD_COSINE)
		return -1;
	if (n == 12) {
		s->vocab_lr = s->lr;
		s->vocab_min_lr = s->min_lr;
	}
	s->decay_samples = d;
	s->wsd_decay_samples = tail;
	s->wd_samples = wd;
	return 0;
}

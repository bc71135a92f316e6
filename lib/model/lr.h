/*
 * lr.h - learning rate and weight decay as functions of the consumed samples
 *
 * Positions and lengths are in samples. A schedule is one line of state.conf: its numbers in the
 * order of the struct, doubles exact, so that two schedules are equal when their lines are. The
 * rates of vocabulary tables end the line where they are not the common ones.
 */
#ifndef MODEL_LR_H
#define MODEL_LR_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum lr_style { LR_CONSTANT, LR_LINEAR, LR_COSINE, LR_INVERSE_SQUARE_ROOT, LR_WSD };
enum wsd_style { WSD_EXPONENTIAL, WSD_LINEAR, WSD_COSINE, WSD_MINUS_SQRT };
enum wd_style { WD_CONSTANT, WD_LINEAR, WD_COSINE };

/* The words of the options, in the order of the styles; each list ended by NULL. */
extern const char *const lr_styles[], *const wsd_styles[], *const wd_styles[];

struct lr_schedule {
	int style, wsd_style, wd_style;
	double lr, min_lr, lr_warmup_init;
	double vocab_lr, vocab_min_lr; /* in place of the first two, for vocabulary tables */
	double start_weight_decay, end_weight_decay;
	double warmup_samples; /* a share of the decay need not be whole */
	int64_t decay_samples, wsd_decay_samples, wd_samples;
};

/* 0, or -1 with the reason why a schedule is impossible. */
int lr_check(const struct lr_schedule *s, struct err *e);
/* Learning rate of the step taken after `samples` consumed samples. Source: spec/training.md
 * 4.6. */
double lr_at(const struct lr_schedule *s, int64_t samples);
/* The same of the vocabulary tables. */
double lr_at_vocab(const struct lr_schedule *s, int64_t samples);
/* Whether they have rates of their own. */
bool lr_decoupled(const struct lr_schedule *s);
double wd_at(const struct lr_schedule *s, int64_t samples);

/* Appends the line, without its newline. */
void lr_print(const struct lr_schedule *s, struct str *out);
/* Appends the same as lines of options, lengths in samples. */
void lr_describe(const struct lr_schedule *s, struct str *out);
/* -1 when the line does not hold all numbers, or has an unknown style; *s is not to be used then.
 */
int lr_parse(const char *line, struct lr_schedule *s);

#endif

/*
 * lr.h - learning rate and weight decay as functions of the consumed samples
 *
 * Positions and lengths are in samples. A schedule is one line of state.conf: the words of its
 * styles and its numbers in the order of the struct, doubles exact, so that two schedules are equal
 * when their lines are. The rates of vocabulary tables end the line where they are not the common
 * ones. lr_list.h has the styles.
 */
#ifndef MODEL_LR_H
#define MODEL_LR_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/model/lr_list.h"

#include <stdbool.h>
#include <stdint.h>

/* What lists say of a style. */
enum lr_trait {
	LR_ENDLESS = 1,  /* gives the rate after the decay, too, where that of others is min_lr */
	LR_HAS_TAIL = 2, /* uses wsd_decay_samples and wsd_style */
	WD_STEADY = 4,   /* one value, --weight-decay, without a start and an end */
};

/* The words of the options, in the order of the lists; each ended by NULL. */
extern const char *const lr_styles[], *const wsd_styles[], *const wd_styles[];

/* Styles are indices of these words. */
struct lr_schedule {
	int style, wsd_style, wd_style;
	double lr, min_lr, lr_warmup_init;
	double vocab_lr, vocab_min_lr; /* in place of the first two, for vocabulary tables */
	double start_weight_decay, end_weight_decay;
	double warmup_samples; /* a share of the decay need not be whole */
	int64_t decay_samples, wsd_decay_samples, wd_samples;
};

/* The index of a word, or -1; NULL is none. */
int lr_index(const char *const *words, const char *word);
bool lr_has_tail(int style);
bool wd_is_steady(int style);

/* 0, or -1 with the reason why a schedule is impossible. */
int lr_check(const struct lr_schedule *s, struct err *e);
/* Learning rate of the step taken after `samples` consumed samples. Source: docs/math.md 4.6. */
double lr_at(const struct lr_schedule *s, int64_t samples);
/* The learning rate of the vocabulary tables. */
double lr_at_vocab(const struct lr_schedule *s, int64_t samples);
/* Whether they have rates of their own. */
bool lr_decoupled(const struct lr_schedule *s);
double wd_at(const struct lr_schedule *s, int64_t samples);

/* For styles: the share of the decay that has passed, where the warm-up has; what is between min_lr
 * at a share of 0 and lr at 1; the share that the tail leaves at eta of it. */
double lr_progress(const struct lr_schedule *s, double samples);
double lr_between(const struct lr_schedule *s, double share);
double lr_tail(const struct lr_schedule *s, double eta);
/* What is between start_weight_decay at 0 and end_weight_decay at 1. */
double wd_between(const struct lr_schedule *s, double share);

/* The rate after `samples`, more than the warm-up has and, unless LR_ENDLESS, not more than the
 * decay: most styles are lr_between of a function of lr_progress. */
#define DECLARE_LR_STYLE(name, word, traits) \
	double lr_style_##name(const struct lr_schedule *s, double samples);
/* The share of lr - min_lr that is left where eta, from 0 to 1, of the tail has passed. */
#define DECLARE_LR_TAIL(name, word) double lr_tail_##name(double eta);
/* The weight decay where rho, from 0 to 1, of the run has passed: most are wd_between of it. */
#define DECLARE_WD_STYLE(name, word, traits) \
	double wd_style_##name(const struct lr_schedule *s, double rho);

LR_STYLES(DECLARE_LR_STYLE)
LR_TAILS(DECLARE_LR_TAIL)
WD_STYLES(DECLARE_WD_STYLE)

/* Appends the line, without its newline. */
void lr_print(const struct lr_schedule *s, struct str *out);
/* Appends the same as lines of options, lengths in samples. */
void lr_describe(const struct lr_schedule *s, struct str *out);
/* Reads a line, also one of earlier versions, which had numbers for styles. -1 with the reason when
 * it does not hold all numbers or has a style that this build lacks; *s is not to be used then. */
int lr_parse(const char *line, struct lr_schedule *s, struct err *e);
/* Whether two schedules have the same line. */
bool lr_same(const struct lr_schedule *a, const struct lr_schedule *b);

#endif

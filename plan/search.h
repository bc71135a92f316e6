/*
 * search.h - the layouts of a run that fit a device, fastest first
 *
 * A plan is a way to share the work (tensor, context, expert and pipeline ranks, the form of
 * context ranks, sequence parallelism, a micro batch), chunks of the stages and how the layers are
 * split over them, and what is done to save memory (saving.h). All of them are searched, except
 * what was typed: in the order of a time that none can beat, until as many as were asked for are
 * known to fit, so that most are never planned. Memory is the memory plan's (which the trainer
 * allocates) plus the device's reserve; time comes from plan/time. Plans within 1 % of each other
 * count as ties, the smaller one first, and a layout is listed once, with the savings that come
 * first. Source: docs/planning.md 5.
 */
#ifndef PLAN_SEARCH_H
#define PLAN_SEARCH_H

#include "lib/base/target.h"
#include "plan/candidate.h"

/* Returns -1 when no layout is legal or none fits, with the reason; search_release in either
 * case. */
int search_run(struct search *s, const struct search_input *in, struct err *e);
void search_release(struct search *s);
/* Whether a plan that fits, tightly or not, takes no longer than this. Takes little where none can,
 * and about as long as a search where one does. */
bool search_within(struct search_input *in, double seconds);
/* The best `top` as tab-separated rows under a header line. */
void search_print(const struct search *s, const struct search_input *in, int64_t top, FILE *f);
/* How a file of a plan is recognised. */
extern const struct target_kind search_file;
/* Item number `pick` (from 1) as an option file for mtrain. */
int search_text(const struct search *s, const struct search_input *in, int64_t pick,
    struct str *out, struct err *e);
/* One line: where the best plan spends its time, and why the next one is slower. */
void search_reason(const struct search *s, struct str *out);
/* A plan in words, which are taken from the options' names. */
void search_name(const struct candidate *c, struct str *out);
/* Puts plans in their order, and keeps of each number the first one. */
void search_rank(struct search *s);

#endif

/*
 * report_figures.h - the charts of a report, and figures that its cards share with them
 */
#ifndef PLAN_REPORT_FIGURES_H
#define PLAN_REPORT_FIGURES_H

#include "plan/report.h"

/* Appends all charts for which the runs have figures; what is missing, in words, to `missing`. */
void figures_all(const struct report_page *p, struct str *out, struct str *missing);
/* Two of them, in report_bars.c: time of a step; memory, false where no run has a plan. */
void figures_time(const struct report_page *p, struct str *out);
bool figures_memory(const struct report_page *p, struct str *out);
/* The mean of a column with a half-life of a hundredth of the steps; out [r->steps.count]. */
void figures_smooth(const struct report_run *r, enum report_column column, double *out);
/* FLOP/s of a rank at the peak of the run's precision. */
double figures_peak(const struct report_run *r, const struct report_device *d);
/* Steps that computed a loss that is not a number. */
size_t figures_gaps(const struct report_run *r);

#endif

/*
 * goodput.h - what failures and saves leave of a run's time
 *
 * Failures come at random, at a constant rate; a run that fails starts again from the last save
 * that could be read. The formulas are exact for this and are derived in docs/planning.md 7.
 */
#ifndef PLAN_GOODPUT_H
#define PLAN_GOODPUT_H

/* In seconds: what a save holds up, when it can be read, counted from its begin and no earlier than
 * it holds up, and what a start takes until the first step. */
struct failures {
	double rate; /* failures of the whole run, per second */
	double hold, readable, restart;
};

/* Shares of a run's time, which add up to 1. */
struct goodput {
	double steps; /* that count, with what belongs to them */
	double saves;
	double starts; /* after failures */
	double lost;   /* steps that are taken again, with their saves */
};

/* Seconds of steps between two saves that lose least; INFINITY without failures. */
double goodput_interval(const struct failures *f);
/* Of a run that saves after so many seconds of steps. */
void goodput_of(const struct failures *f, double interval, struct goodput *out);

#endif

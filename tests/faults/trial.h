/*
 * trial.h - one injection: its class of faults, its random choices, its outcome
 *
 * All random choices depend only on the seed and the injection's number.
 */
#ifndef FAULTS_TRIAL_H
#define FAULTS_TRIAL_H

#include "tests/faults/scene.h"

#include <stdbool.h>

/* Exit statuses as bits; STATUS_KILLED stands for every end by a signal. */
#define STATUS(n) (1u << (n))
#define STATUS_KILLED STATUS(8)

/* Ways to be wrong. */
enum verdict { VERDICT_HUNG, VERDICT_LOST, VERDICT_DIFFERS, VERDICT_UNSTATED, VERDICT_COUNT };

struct trial;

/* A class of faults. Undisturbed, or when its fault was not reached, a run must end with 0. */
struct fault_class {
	const char *name;
	/* Runs the disturbed run and sets status, said and struck. 0, 1 when this machine cannot do
	 * it, -1 with a reason. */
	int (*strike)(struct trial *t, struct err *e);
	unsigned layouts, begins; /* bits of what it is drawn from */
	unsigned calls;           /* bits of enum call */
	const char *action;       /* call.h's */
	int codes[5];             /* errnos, signals or bytes, ended by 0 */
	int times;                /* of a signal from outside */
	/* What must come of it */
	unsigned statuses; /* when the fault struck */
	/* in one line, with status 1, 2 or 3; NULL: the errno's text, if any */
	const char *says;
	bool tidy; /* with status 1 nothing is left of what was being saved */
};

extern const struct fault_class fault_classes[];
extern const int fault_num_classes;

struct trial {
	struct scene *scene;
	uint64_t seed;
	int index;
	uint32_t drawn;
	const struct fault_class *class;
	int layout;
	enum beginning begin;
	char what[256]; /* what was drawn, in words */
	char says[128]; /* in one line of a run that ends with 1, 2 or 3, unless empty */
	/* what came of it */
	bool struck;
	int status;
	struct str said, again; /* the disturbed run, and the one after it */
	uint64_t promised;      /* iterations that were saved before the run */
	struct str problems;
	bool verdict[VERDICT_COUNT];
	/* Set by strike: repairs the state before the checks, and ends any processes that are
	 * left. */
	int (*mend)(struct trial *t, struct err *e);
	void (*leave)(struct trial *t);
	char file[256]; /* that was damaged, below `work` */
};

/* Below n. */
uint32_t trial_draw(struct trial *t, uint32_t n);
/* The number of a set bit of the mask. */
int trial_draw_bit(struct trial *t, unsigned mask);
/* One of the class's codes. */
int trial_draw_code(struct trial *t);
/* Draws layout and beginning, and puts that beginning into `work`. */
int trial_begin(struct trial *t, struct err *e);
/* BASE/work/NAME, for the caller to free. */
char *trial_path(const struct trial *t, const char *name);
/* Runs in `work`; c needs neither dir nor words. */
int trial_run(struct trial *t, const struct scene_run *r, struct command c, struct str *said);
/* Says in t->what what was drawn, the layout and the beginning first. */
void trial_describe(struct trial *t, const char *what);
/* Sets t->says. */
void trial_says(struct trial *t, const char *line);
/* A problem, in printf's words. */
void trial_problem(struct trial *t, enum verdict v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* One injection, whole. -1 with a reason when it could not be made, 1 when this machine cannot do
 * it. */
int trial_make(struct trial *t, struct err *e);
void trial_release(struct trial *t);

#endif

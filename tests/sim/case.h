/* case.h - one seed: a run that is disturbed, started again until its end, and checked */
#ifndef SIM_CASE_H
#define SIM_CASE_H

#include "tests/sim/plan.h"
#include "tests/sim/scene.h"

enum { STATUSES = 9, IMAGE_BYTES = 8 << 20 }; /* statuses: 8 stands for every end by a signal */

/* What an undisturbed run of a layout comes to; in memory that all processes share. */
struct reference {
	bool known, good;
	struct seen seen;
	struct image start, half, end; /* of /run: before it, after half of it, after it */
};

/* What came of a seed; in shared memory. */
struct result {
	uint64_t seed, hash;
	bool ended, failed;
	int layout, starts;
	long yields, events;
	double seconds; /* simulated */
	long happened[STRIKE_KIND_COUNT], count[COUNT_COUNT];
	long calls[CALL_COUNT], at[CALL_COUNT]; /* made, and struck by a fault */
	long status[STATUSES];
	char what[2048]; /* the layout and the faults, in words */
	char why[2048];  /* the problems */
};

enum begins { BEGIN_DRAWN, BEGIN_START, BEGIN_HALF };

/* The states of the disk, as hashes, in which undisturbed runs have gone on to their end as they
 * should: another one in the same state is not continued. In memory that all processes share. */
struct continued {
	uint64_t state[1 << 20]; /* 0: none */
};

struct case_options {
	uint64_t seed;
	int layout; /* -1: drawn */
	enum begins begins;
	struct strike strike[STRIKES]; /* what happens */
	int num_strikes;               /* 0: it is drawn */
	bool dark;                     /* with these, power is lost at the end */
	bool srun;                     /* with these, ranks live on when one has died */
	int shorts;                  /* with these, one in so many reads and writes is cut short */
	unsigned dropped;            /* faults that are left out, as bits */
	bool plain;                  /* no faults: what every seed must survive */
	bool loud;                   /* prints what the ranks say */
	bool trace;                  /* prints every event */
	long until;                  /* the event that ends it; 0: none */
	const char *export;          /* a directory of this machine that gets the disk, or NULL */
	struct continued *continued; /* NULL: each run continues to its end */
	/* NULL, or asked at each call that the one fault may strike, with its number: begins a
	 * process in which the fault strikes it, and returns there the result that this process
	 * has to make; NULL in the other, once that one has ended, and where it begins none */
	struct result *(*branch)(const struct case_options *o, long n);
};
/* The layout of a seed, the same in every process. */
int case_layout(const struct case_options *o);
/* In a process of its own, since what killed ranks leave is never freed. */
void case_run(const struct case_options *o, const struct reference *r, struct result *out);
/* In three processes: the whole run, half of it, and from there to its end. */
enum part { PART_WHOLE, PART_HALF, PART_REST };
void case_reference(int layout, enum part part, struct reference *r);

#endif

/*
 * spots.h - where in a run faults may happen
 *
 * A spot is a kind of call on a path, whatever the numbers in the path; one that takes no path
 * counts to the path of its thread's last call that does. An undisturbed run tells which spots
 * there are and how often each is reached: a fault that draws its spot first finds what is done
 * once as soon as what is done thousands of times.
 */
#ifndef SIM_SPOTS_H
#define SIM_SPOTS_H

#include "tests/sim/world.h"

enum { SPOTS = 4096, SPOT_PATH = 160 };

struct spot {
	enum call call;
	uint64_t about;       /* spot_about() of the path; SPOT_NOWHERE: before any path */
	long times[RANKS];    /* it was reached */
	char path[SPOT_PATH]; /* the first one; "": unknown */
};

struct spots {
	int count;
	struct spot spot[SPOTS];
};

#define SPOT_NOWHERE UINT64_C(1)
/* What paths have in common that differ in numbers: never 0. */
uint64_t spot_about(const char *path);
/* A rank is there; path: of the call, or NULL. */
void spots_note(struct spots *s, enum call c, uint64_t about, const char *path, int rank);
/* One of those of some kinds of calls, as bits: half of the time each kind is as likely, and else
 * each spot, those apart where memory is asked for or a file is closed, which is everywhere. NULL:
 * there is none. */
const struct spot *spots_draw(const struct spots *s, uint64_t calls);

#endif

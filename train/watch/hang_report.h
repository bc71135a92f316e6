/*
 * hang_report.h - deciding from the ranks' reports which rank waits too long, and for which other
 *
 * Pure: the watchdog has the reports and the clock.
 */
#ifndef TRAIN_WATCH_HANG_REPORT_H
#define TRAIN_WATCH_HANG_REPORT_H

#include "lib/base/str.h"
#include "train/watch/comm_log.h"

#include <stdbool.h>
#include <stdint.h>

/* A communicator's call as in struct comm_record, in a form that can be sent. */
struct place {
	int32_t role; /* enum comm_role */
	char kind[20], site[60];
	uint64_t number, bytes; /* number 0: none yet */
};

/* A rank's report on itself. */
struct report {
	double waited; /* seconds in the call; negative: it has ended */
	bool failed;   /* the communicator says that a peer is lost */
	bool computes; /* its device has not come to a call that is queued */
	struct place at;
	struct comm_call_counts made;
};

/* The last report of a rank. */
struct seen {
	const char *host;
	struct report report;
	bool heard;     /* a report has arrived */
	double silence; /* seconds since then, or since the watch began */
	/* Where there are several hosts: the number of its own where others have its name, or -1;
	 * and its place in it, which ranks of a rail have in theirs. */
	bool placed;
	int number, rail;
};

struct hang_report {
	int waits;   /* the rank that has waited longest; -1: none too long */
	int missing; /* the rank that it waits for; -1: not known */
	int others;  /* how many more ranks are missing for the same reason */
	bool silent; /* the missing rank has not been heard of */
};

/* Finds a wait of at least `limit` in a rank that has reported within the last half of it. The
 * missing rank is the one that is silent, else the one that waits for nobody, else the one whose
 * calls are not those of its call group, else the one whose calls are not those of the step before,
 * else the one in the call that the fewest wait in, else the last one to wait. */
struct hang_report hang_report_of(const struct seen *rank, int num_ranks, double limit);
/* Where a rank has failed: `waits` is that rank if its calls are in order, or any whose are; and
 * none when no rank stands out whose calls are not. */
struct hang_report hang_report_failed(const struct seen *rank, int num_ranks);
/* Appends "rank 1 (node1) has waited 5.2 s in ...; rank 2 (node7) has not come: ...", or of a rank
 * that has failed "has lost a peer in ...". */
void hang_report_text(const struct seen *rank, const struct hang_report *v, struct str *out);
/* Appends "all-reduce 117 of data ranks (65536 bytes, train/engine/grads.c:20)". */
void place_text(const struct place *p, struct str *out);

#endif

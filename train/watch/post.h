/*
 * post.h - reports from all ranks to two of them, without MPI
 *
 * Datagrams: a lost report is followed by the next one, no process waits for a connection, and one
 * socket serves any number of ranks. Datagrams without the number that rank 0 drew at the start are
 * dropped.
 */
#ifndef TRAIN_WATCH_POST_H
#define TRAIN_WATCH_POST_H

#include "train/comm.h"
#include "train/watch/verdict.h"

/* Ranks 0 and 1 receive the reports of the others; rank 1 is for the case that rank 0 is missing.
 */
enum { POST_OFFICES = 2 };

/* What one datagram contained. */
enum post_kind { POST_NONE, POST_REPORT, POST_LEAVE };
struct post_news {
	enum post_kind kind;
	int rank;
	struct report report;
};

struct post;

/* Collective over world: the offices announce their addresses, all ranks the names of their hosts.
 * A rank that can open no socket neither sends nor receives. */
struct post *post_open(struct comm *world);
void post_close(struct post *p);
/* The name of a rank's host, valid until post_close. */
const char *post_host(const struct post *p, int rank);
/* Sends to both offices, at every address that they announced. Callable from any thread, as are the
 * functions below. */
void post_send(struct post *p, const struct report *r);
/* Waits at most this many milliseconds, and exactly that long where p is NULL. POST_NONE: nothing
 * usable came. More reports may be waiting. */
struct post_news post_receive(struct post *p, int milliseconds);
/* Makes a waiting post_receive return. */
void post_wake(struct post *p);
/* For an office: tells the offices and every rank that it has heard from to leave. */
void post_leave(struct post *p);

#endif

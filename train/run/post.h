/*
 * post.h - reports of all ranks to two of them, without MPI
 *
 * Datagrams: a lost report is followed by the next one, no process waits for a connection, and one
 * socket serves any number of ranks. What does not carry the number that rank 0 drew at the start
 * is dropped.
 */
#ifndef TRAIN_RUN_POST_H
#define TRAIN_RUN_POST_H

#include "train/comm.h"
#include "train/run/verdict.h"

/* Ranks 0 and 1 are told how the others are; the second is for when the first is the one missing.
 */
enum { POST_OFFICES = 2 };

/* What came of one datagram. */
enum post_kind { POST_NONE, POST_REPORT, POST_LEAVE };
struct post_news {
	enum post_kind kind;
	int rank;
	struct report report;
};

struct post;

/* Collective over world: the offices say where they are, all ranks the names of their hosts. A rank
 * that can open no socket sends nothing and hears nothing. */
struct post *post_open(struct comm *world);
void post_close(struct post *p);
/* Until post_close. */
const char *post_host(const struct post *p, int rank);
/* To both offices, by every way that they have named. Any thread, as the others below. */
void post_send(struct post *p, const struct report *r);
/* Waits so many milliseconds at most, and that long where p is NULL. POST_NONE: nothing of use
 * came; any number of reports may wait. */
struct post_news post_receive(struct post *p, int milliseconds);
/* A post_receive that waits returns. */
void post_wake(struct post *p);
/* Of an office: tells the offices and every rank that it has heard to leave. */
void post_leave(struct post *p);

#endif

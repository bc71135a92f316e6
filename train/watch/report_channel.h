/*
 * report_channel.h - reports from all ranks to two of them, without MPI
 *
 * Datagrams: a lost report is followed by the next one, no process waits for a connection, and one
 * socket serves any number of ranks. Datagrams without the number that rank 0 drew at the start are
 * dropped.
 */
#ifndef TRAIN_WATCH_REPORT_CHANNEL_H
#define TRAIN_WATCH_REPORT_CHANNEL_H

#include "train/comm.h"
#include "train/watch/hang_report.h"

/* Ranks 0 and 1 receive the reports of the others; rank 1 is for the case that rank 0 is missing.
 */
enum { REPORT_RECEIVERS = 2 };

/* What one datagram contained. */
enum message_kind { MESSAGE_NONE, MESSAGE_REPORT, MESSAGE_LEAVE };
struct report_message {
	enum message_kind kind;
	int rank;
	struct report report;
};

struct report_channel;

/* Collective over world: the receivers announce their addresses, all ranks the names of their
 * hosts. A rank that can open no socket neither sends nor receives. */
struct report_channel *report_channel_open(struct comm *world);
void report_channel_close(struct report_channel *p);
/* The name of a rank's host, valid until report_channel_close. */
const char *report_channel_host(const struct report_channel *p, int rank);
/* Sends to both receivers, at every address that they announced. Callable from any thread, as are
 * the functions below. */
void report_channel_send(struct report_channel *p, const struct report *r);
/* Waits at most this many milliseconds, and exactly that long where p is NULL. MESSAGE_NONE:
 * nothing usable came. More reports may be waiting. */
struct report_message report_channel_receive(struct report_channel *p, int milliseconds);
/* Makes a waiting report_channel_receive return. */
void report_channel_wake(struct report_channel *p);
/* For a receiver: tells the receivers and every rank that it has heard from to leave. */
void report_channel_leave(struct report_channel *p);

#endif

/*
 * audit.h - the data of a run, looked at while it trains
 *
 * A thread compares every block of every dataset that has checksums (lib/data/sums.h), beginning
 * with the run, at most a quarter of the time, so that a pass over terabytes costs the steps
 * nothing; the ranks of a host share the blocks. At saves it looks at the files themselves: one
 * that is mapped and was cut or written to since gives other tokens, or zeros, without an error.
 */
#ifndef TRAIN_DATA_AUDIT_H
#define TRAIN_DATA_AUDIT_H

#include "train/data/data.h"

struct audit;

/* Starts the thread; d outlives it. NULL for mock data. */
struct audit *audit_start(const struct data *d);
/* True when a block is not what it was; *e, which may be NULL, names file and block. */
bool audit_failed(struct audit *a, struct err *e);
/* Asks for a look at the files, on one rank of each host: a line for each that has changed. Does
 * not wait. */
void audit_files(struct audit *a);
/* Waits until all blocks of this rank were compared, or one was found to differ; not longer than
 * these seconds. */
void audit_wait(struct audit *a, double seconds);
/* Ends the thread, after a look that was asked for. NULL is allowed, here and above. */
void audit_free(struct audit *a);

#endif

/*
 * rails.h - judging the rates at which ranks send to other hosts
 *
 * Pure: a run measures (train/run/rails.h). A rail is the ranks at the same place in their hosts,
 * each of which sends to the one on the next host.
 */
#ifndef MODEL_RAILS_H
#define MODEL_RAILS_H

#include "lib/base/ports.h"
#include "lib/base/process.h"
#include "lib/base/str.h"

#include <stdbool.h>

enum { RAILS_WARNINGS = 3 };

/* What a rank tells of its rail. */
struct rail {
	char host[PROCESS_WHERE];
	int next;           /* the rank that it sends to; -1: none */
	int local, sharing; /* its number on its machine, and how many ranks share its ports */
	int cores;          /* of its machine; 0: not known */
	double rate;        /* in GB/s, while it sends and receives as much; 0: not measured */
	struct ports ports; /* of its machine */
};

/* Those of all ranks of a run on several hosts. */
struct rails {
	struct rail *rail;
	int count;
	int nccl; /* its version, 22105 is 2.21.5; 0: the run does not use it */
};

/* Appends the ports, NCCL's version and the median of the rates, what is known of these, nothing
 * where none is: "rails: 8 ports of 400 Gb/s a host, NCCL 2.28.3; measured 44.1 GB/s (least 43.6:
 * abci012, gpu 3)". */
void rails_words(const struct rails *r, struct str *out);

/*
 * Appends a sentence to each of the first warnings, and returns how many: rails below half of the
 * rate of their ports, of which ranks of a machine have equal parts, one each at most; rails below
 * 0.7 of the median; hosts without ports where NCCL is used. A bad port slows the ranks before and
 * after its own too, which are not named then. Where the ranks of a machine outnumber its cores,
 * rates tell how these are shared: those to and from its ranks are not judged, and rails_words says
 * so.
 */
int rails_warn(const struct rails *r, struct str warning[RAILS_WARNINGS]);

/* What is known to be wrong with a version of NCCL; NULL: nothing. */
const char *rails_nccl_fault(int version);

#endif

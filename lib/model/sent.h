/*
 * sent.h - the bytes that a rank sends in a step, inside its host and to other hosts
 *
 * Source: docs/parallelism.md 9, for the exchanges of lib/model/operations.h.
 */
#ifndef MODEL_SENT_H
#define MODEL_SENT_H

#include "lib/model/hosts.h"
#include "lib/model/options.h"

enum sent_axis { SENT_TENSOR, SENT_CONTEXT, SENT_EXPERTS, SENT_DATA, SENT_PIPELINE, SENT_AXES };
extern const char *const sent_axis_name[SENT_AXES];

struct sent {
	double inside, between;
};

/* Of the first ranks of the stages, by axis, that of the stage that sends the most to other hosts,
 * or where none does, in all. Of rows of experts the mean, as routers decide it. */
void sent_of(
    struct sent out[SENT_AXES], const struct run_plan *plan, const struct host_places *where);

#endif

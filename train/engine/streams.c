/* streams.c - forks from the compute stream, and joins with it */
#include "train/engine/streams.h"

void
streams_fork(struct engine *e, struct stream *st, struct event *ev)
{
	if (st == e->stream)
		return;
	e->backend->record(e->stream, ev);
	e->backend->wait(st, ev);
}

void
streams_join(struct engine *e, struct stream *st, struct event *ev, enum span span)
{
	if (st == e->stream)
		return;
	timing_begin(e, span);
	e->backend->wait(e->stream, ev);
	timing_end(e, span);
}

/*
 * draw_trace.c - a step as the JSON of Chrome's tracing
 *
 * A thread stands for a stage, with one beside it for its messages; the memory in use is a counter.
 * Times are microseconds. Format: Chromium's "Trace Event Format".
 */
#include "plan/draw.h"

/* Two threads of a stage. */
enum { PASSES, MESSAGES, THREADS };

static void
name_thread(int stage, int thread, struct str *out)
{
	str_addf(out,
	    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"args\":{\"name\":"
	    "\"stage %d%s\"}},\n",
	    stage * THREADS + thread, stage, thread == MESSAGES ? " messages" : "");
}

static void
add_event(int stage, const struct sim_event *v, struct str *out)
{
	static const char *const kinds[] = { "forward", "backward", "receive forward",
		"send forward", "receive backward", "send backward" };
	const struct action *a = &v->action;

	str_addf(out,
	    "{\"name\":\"%s %d\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%.3f,"
	    "\"dur\":%.3f,\"args\":{\"chunk\":%d,\"microbatch\":%d}},\n",
	    kinds[a->kind], a->microbatch, kinds[a->kind],
	    stage * THREADS + (simulated_pass(v) ? PASSES : MESSAGES), 1e6 * v->start,
	    1e6 * (v->end - v->start), a->chunk, a->microbatch);
}

void
draw_trace(const struct drawing *d, struct str *out)
{
	str_adds(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
	for (int r = 0; r < d->t->x.num_stages; r++) {
		const struct sim_stage *s = &d->t->x.stage[r];
		const struct usage *u = &d->usage[r];

		name_thread(r, PASSES, out);
		name_thread(r, MESSAGES, out);
		for (int i = 0; i < s->count; i++)
			add_event(r, &s->event[i], out);
		for (int i = 0; i < u->count; i++)
			str_addf(out,
			    "{\"name\":\"memory of stage %d\",\"ph\":\"C\",\"pid\":0,\"ts\":%.3f,"
			    "\"args\":{\"bytes\":%.0f}},\n",
			    r, 1e6 * u->time[i], u->bytes[i]);
	}
	str_adds(out,
	    "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"a pipeline\"}}"
	    "\n]}\n");
}

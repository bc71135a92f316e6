/* call.c - the beginning of every simulated call */
#include "tests/sim/faults.h"
#include "tests/sim/world.h"

#include <errno.h>

int
call_begin(enum call c, const char *what, int64_t argument)
{
	struct thread *t = sim.current;
	int64_t cost = draw_delay(sim.call_cost);

	sim.yields++;
	t->process->calls[c]++;
	if (t->process->slow > 1)
		cost = (int64_t)((double)cost * t->process->slow);
	if (sim.pause_one_in && draw_one_in(sim.pause_one_in)) {
		cost += (int64_t)draw((uint64_t)sim.pause_max);
		sim.count[COUNT_PAUSE]++;
	}
	t->ready = sim.now + cost;
	schedule();
	log_event(call_names[c], what, argument, 0);
	return faults_at(c, what);
}

int
fail(int err)
{
	errno = err;
	return -1;
}

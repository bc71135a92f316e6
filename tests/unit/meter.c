/* meter.c - tests of the energy of laps, on a device whose counter advances on command */
#include "lib/base/prog.h"
#include "tests/check.h"
#include "train/report/meter.h"

static double counter;

static void
tell(struct device *d, struct meter *out)
{
	(void)d;
	out->joules = counter;
}

/* A device that has other meters, but not this one */
static void
tell_power(struct device *d, struct meter *out)
{
	(void)d;
	out->watts = 300;
}

static void
test_laps(struct comm *world)
{
	struct backend b = { .name = "test", .meter = tell };
	struct engine e = { .backend = &b, .groups.world = world };
	struct energy *g;

	counter = 1000;
	g = energy_new(&e);
	CHECK(g != NULL);
	counter += 5;
	CHECK(energy_lap(g) == 5);
	counter += 3;
	energy_pause(g);
	counter += 100;
	energy_resume(g);
	counter += 4;
	CHECK(energy_lap(g) == 7);
	/* A pause that never ends. */
	energy_pause(g);
	counter += 2;
	CHECK(energy_lap(g) == 2 && energy_lap(g) == 0);
	energy_free(g);
}

static void
test_without(struct comm *world)
{
	struct backend b = { .name = "test" };
	struct engine e = { .backend = &b, .groups.world = world };
	struct meter m;

	meter_read(&e, &m);
	CHECK(isnan(m.joules) && isnan(m.watts) && isnan(m.celsius) && isnan(m.megahertz));
	CHECK(energy_new(&e) == NULL);
	b.meter = tell_power;
	meter_read(&e, &m);
	CHECK(isnan(m.joules) && m.watts == 300);
	CHECK(energy_new(&e) == NULL);
	energy_pause(NULL);
	energy_resume(NULL);
	CHECK(energy_lap(NULL) == 0);
}

int
main(void)
{
	struct err e;
	struct comm *world = mpi_world(&e);

	CHECK(world != NULL);
	prog_quiet(-1);
	test_laps(world);
	test_without(world);
	mpi_end();
	return check_done();
}

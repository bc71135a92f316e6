/* activation_offload.c - tests of which units leave the device: as many as asked for, evenly
 * spread, never the first, and with a place more where they are near to each other */
#include "lib/model/activation_offload.h"

#include "tests/check.h"

/* The units of a chunk: the least and the largest distance of those that leave. */
static void
check_distances(const struct activation_offload_plan *p, int64_t num_layers)
{
	int64_t last = -1, count = 0, near = num_layers, far = 0;

	for (int64_t u = 0; u < p->units; u++) {
		int number = activation_offload_number(p, u * p->layers);

		for (int64_t i = 1; i < p->layers && u * p->layers + i < num_layers; i++)
			CHECK(activation_offload_number(p, u * p->layers + i) == number);
		CHECK(activation_offload_before(p, u) == count);
		if (number < 0)
			continue;
		CHECK(number == count++ && u > 0);
		if (last >= 0 && u - last < near)
			near = u - last;
		if (last >= 0 && u - last > far)
			far = u - last;
		last = u;
	}
	CHECK(count == p->moved && activation_offload_before(p, p->units) == count);
	CHECK(count < 2 || far - near <= 1);
	CHECK(p->places <= p->moved && (p->moved < 3 || p->places == (near < 3 ? 3 : 2)));
}

int
main(void)
{
	struct activation_offload_plan p;

	for (int64_t n = 1; n <= 24; n++)
		for (int64_t together = 0; together <= n; together++)
			for (int64_t layers = 0; layers <= n + 2; layers++) {
				p = activation_offload_plan(layers, n, together, 2);
				CHECK(p.copied == p.moved);
				p = activation_offload_plan(layers, n, together, 1);
				CHECK(p.copied == p.moved - p.places);
				CHECK(p.layers == (together ? together : 1));
				CHECK(p.units == (n + p.layers - 1) / p.layers);
				CHECK(p.moved * p.layers >= layers || p.moved == p.units - 1);
				CHECK((p.moved - 1) * p.layers < layers);
				check_distances(&p, n);
			}
	/* Of eight layers every second, and those that are needed back soonest stay. */
	p = activation_offload_plan(3, 8, 0, 1);
	CHECK(p.moved == 3 && p.places == 3 && p.copied == 0);
	CHECK(activation_offload_number(&p, 1) == 0 && activation_offload_number(&p, 3) == 1 &&
	    activation_offload_number(&p, 5) == 2);
	return check_done();
}

/* act_copies.c - the CPU's activations in 8 bits */
#include "tests/gpu/act_copies.h"

int
main(void)
{
	test_act_copies(&backend_cpu);
	return check_done();
}

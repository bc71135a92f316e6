/* producers.c - the CPU's results that go into 8 bits as they are made */
#include "tests/gpu/producers.h"

int
main(void)
{
	test_producers(&backend_cpu);
	return check_done();
}

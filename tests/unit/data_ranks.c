/* data_ranks.c - which of several values differ from the majority */
#include "tests/check.h"
#include "train/run/data_ranks.h"

/* odd: a letter for each value, whether it differs. */
static void
check(const int64_t *value, const char *odd)
{
	int n = (int)strlen(odd);

	for (int i = 0; i < n; i++)
		CHECK(data_ranks_odd(value, n, i) == (odd[i] == 'x'));
}

int
main(void)
{
	check((int64_t[]){ 7, 7 }, "--");
	check((int64_t[]){ 7, 8 }, "xx");
	check((int64_t[]){ 7, 8, 7 }, "-x-");
	check((int64_t[]){ 7, 8, 9 }, "xxx");
	check((int64_t[]){ 7, 8, 7, 9, 7 }, "-x-x-");
	check((int64_t[]){ 7, 8, 8, 7 }, "xxxx");
	return check_done();
}

/*
 * allocated.c - peaks of other programs' allocators beside what mplan says of them
 *
 * tests/bench/allocated.tsv has published ones. Prints the error of each; of dense models the mean
 * must stay below 1.5 % and each below 4 %, of those with experts each below 5 %.
 */
#include "plan/allocated.h"
#include "plan/rows.h"
#include "tests/check.h"

static const double mean_limit = 1.5, dense_limit = 4, experts_limit = 5;

static double
error_of(const struct measured_row *r)
{
	return 100 * (allocated_bytes(&r->plan, &r->hw) / (r->gib * 1073741824.0) - 1);
}

int
main(void)
{
	struct measured_rows r = { 0 };
	struct str why = { 0 };
	struct err e = { "" };
	double sum = 0;
	int dense = 0, experts = 0;

	CHECK(rows_read(&r, "tests/bench/allocated.tsv", &(struct rows_wanted){ NULL, NULL, &why },
		  &e) == 0);
	CHECK_STR(e.msg, "");
	CHECK(r.left == 0);
	for (int i = 0; i < r.count; i++) {
		double error = error_of(&r.item[i]);
		bool sparse = r.item[i].plan.model.num_experts > 0;

		printf("%+5.2f %%  %s  %s\n", error, r.item[i].id, r.item[i].model);
		CHECK(r.item[i].gib > 0 && fabs(error) < (sparse ? experts_limit : dense_limit));
		sum += sparse ? 0 : fabs(error);
		dense += !sparse;
		experts += sparse;
	}
	CHECK(dense >= 16 && experts >= 3);
	printf("mean error of %d dense models: %.2f %%\n", dense, sum / dense);
	CHECK(sum / dense < mean_limit);
	str_release(&why);
	rows_release(&r);
	return check_done();
}

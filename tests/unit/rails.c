/* rails.c - ports as /sys has them, and what is said of the rates of rails */
#include "lib/model/rails.h"
#include "lib/base/io.h"
#include "lib/base/outfile.h"
#include "tests/check.h"

enum { MOST = 32 };

static char top[] = "/tmp/rails.XXXXXX";

/* --- ports ------------------------------------------------------------------------------------ */

static void
make_port(const char *device, int number, const char *state, const char *rate)
{
	char dir[256], path[300];
	struct err e;

	snprintf(dir, sizeof dir, "%s/%s/ports/%d", top, device, number);
	CHECK(io_mkdir_p(dir, &e) == 0);
	snprintf(path, sizeof path, "%s/state", dir);
	CHECK(outfile_write(path, state, strlen(state), &e) == 0);
	snprintf(path, sizeof path, "%s/rate", dir);
	CHECK(outfile_write(path, rate, strlen(rate), &e) == 0);
}

static void
check_ports(int count, double gigabits)
{
	struct ports p;

	ports_read(&p, top);
	CHECK(p.count == count && p.gigabits == gigabits);
}

/* Those that are down, slower, or without a rate do not count. */
static void
test_ports(void)
{
	struct err e;

	check_ports(0, 0);
	make_port("mlx5_0", 1, "1: DOWN\n", "400 Gb/sec (4X NDR)\n");
	make_port("mlx5_1", 1, "2: INIT\n", "400 Gb/sec (4X NDR)\n");
	make_port("mlx5_2", 1, "", "");
	check_ports(0, 0);
	make_port("mlx5_bond_0", 1, "4: ACTIVE\n", "100 Gb/sec (4X EDR)\n");
	check_ports(1, 100);
	make_port("mlx5_3", 1, "4: ACTIVE\n", "400 Gb/sec (4X NDR)\n");
	make_port("mlx5_3", 2, "4: ACTIVE\n", "400 Gb/sec (4X NDR)\n");
	make_port("mlx5_4", 1, "4: ACTIVE\n", "25 Gb/sec (1X EDR)\n");
	check_ports(2, 400);
	CHECK(io_remove_tree(top, &e) == 0);
}

/* --- words ------------------------------------------------------------------------------------ */

/* Hosts of as many ranks, a rail for each, at 44 GB/s on ports of 400 Gb/s. */
static struct rails
make(struct rail rail[MOST], int hosts, int inside)
{
	struct rails r = { rail, hosts * inside, 22803 };

	for (int i = 0; i < r.count; i++) {
		rail[i] = (struct rail){ .next = (i + inside) % r.count,
			.local = i % inside,
			.sharing = inside,
			.cores = 4 * inside,
			.rate = 44,
			.ports = { inside, 400 } };
		snprintf(rail[i].host, sizeof rail[i].host, "abci%03d", i / inside);
	}
	return r;
}

static void
check_words(const struct rails *r, const char *want)
{
	struct str words = { 0 };

	rails_words(r, &words);
	CHECK_STR(words.buf ? words.buf : "", want);
	str_release(&words);
}

/* want ends with NULL. */
static void
check_warnings(const struct rails *r, const char *const *want)
{
	struct str warning[RAILS_WARNINGS] = { { 0 } };
	int n = rails_warn(r, warning);

	for (int i = 0; i < n; i++)
		CHECK_STR(warning[i].buf, want[i] ? want[i] : "no warning");
	CHECK(!want[n]);
	for (int i = 0; i < RAILS_WARNINGS; i++)
		str_release(&warning[i]);
}

#define WARNINGS(...) \
	(const char *const[]) \
	{ \
		__VA_ARGS__ NULL \
	}
#define LESS_THAN_PORTS \
	"rails carry less than half of what their ports do, as with sockets in place of verbs, " \
	"by another port, or without GPUDirect: "

static void
test_words(void)
{
	struct rail rail[MOST];
	struct rails r = make(rail, 2, 8);

	rail[11].rate = 43.6;
	check_words(&r,
	    "rails: 8 ports of 400 Gb/s a host, NCCL 2.28.3; measured 44 GB/s (least 43.6: "
	    "abci001, gpu 3)");
	r.nccl = 0;
	rail[11].ports.count = 7;
	check_words(&r,
	    "rails: 7 to 8 ports of 400 Gb/s a host; measured 44 GB/s (least 43.6: abci001, rank "
	    "11)");
	for (int i = 0; i < r.count; i++)
		rail[i].ports = (struct ports){ 0 };
	check_words(&r, "rails: measured 44 GB/s (least 43.6: abci001, rank 11)");
	for (int i = 0; i < r.count; i++)
		rail[i].rate = 0;
	check_words(&r, "");
	r.nccl = 23007;
	check_words(&r, "rails: NCCL 2.30.7");
	rail[0].ports = (struct ports){ 1, 200 };
	r.count = 1;
	check_words(&r, "rails: 1 port of 200 Gb/s a host, NCCL 2.30.7");
}

/* --- warnings --------------------------------------------------------------------------------- */

static void
test_good(void)
{
	struct rail rail[MOST];
	struct rails r = make(rail, 4, 8);

	check_warnings(&r, WARNINGS());
	rail[3].rate = 31;
	check_warnings(&r, WARNINGS());
	/* four ports for eight ranks, which then have half as much each */
	for (int i = 0; i < r.count; i++) {
		rail[i].ports.count = 4;
		rail[i].rate = 13;
	}
	check_warnings(&r, WARNINGS());
	/* none of what is not known */
	r.nccl = 0;
	for (int i = 0; i < r.count; i++) {
		rail[i].ports = (struct ports){ 0 };
		rail[i].rate = 0;
		rail[i].next = -1;
	}
	check_warnings(&r, WARNINGS());
}

/* The port of one host slows those before and after it on the rail; a link between two slows these
 * alone. */
static void
test_one_bad(void)
{
	struct rail rail[MOST];
	struct rails r = make(rail, 4, 8);

	rail[3].rate = rail[11].rate = rail[19].rate = 30;
	check_warnings(&r,
	    WARNINGS("rails carry less than 0.7 of the median, 44 GB/s: abci001, gpu 3 (30 "
		     "GB/s)", ));
	rail[3].rate = 44;
	check_warnings(&r,
	    WARNINGS("rails carry less than 0.7 of the median, 44 GB/s: abci001, gpu 3 (30 "
		     "GB/s); abci002, gpu 3 (30 GB/s)", ));
	rail[19].rate = 0;
	rail[11].rate = 12;
	check_warnings(&r,
	    WARNINGS(LESS_THAN_PORTS "abci001, gpu 3 (12 of 50 GB/s)",
		"rails carry less than 0.7 of the median, 44 GB/s: abci001, gpu 3 (12 GB/s)", ));
}

static void
test_all_bad(void)
{
	struct rail rail[MOST];
	struct rails r = make(rail, 3, 2);

	for (int i = 0; i < r.count; i++)
		rail[i].rate = 5;
	check_warnings(&r,
	    WARNINGS(LESS_THAN_PORTS "abci000, gpu 0 (5 of 50 GB/s); abci000, gpu 1 (5 of 50 "
				     "GB/s); abci001, gpu 0 (5 of 50 GB/s); abci001, gpu 1 (5 of "
				     "50 GB/s); and 2 more", ));
}

/* Ranks of the second host wait for its cores, and so do those before and after them on the rail;
 * the slow port of the last host is found all the same. */
static void
test_few_cores(void)
{
	struct rail rail[MOST];
	struct rails r = make(rail, 6, 4);

	rail[1].rate = rail[5].rate = rail[9].rate = 3;
	for (int i = 4; i < 8; i++)
		rail[i].cores = 3;
	check_warnings(&r, WARNINGS());
	check_words(&r,
	    "rails: 4 ports of 400 Gb/s a host, NCCL 2.28.3; measured 44 GB/s (least 3: abci000, "
	    "gpu 1), not judged where ranks share cores");
	rail[22].rate = 30;
	check_warnings(&r,
	    WARNINGS("rails carry less than 0.7 of the median, 44 GB/s: abci005, gpu 2 (30 "
		     "GB/s)", ));
	for (int i = 4; i < 8; i++)
		rail[i].cores = 4;
	check_warnings(&r,
	    WARNINGS(LESS_THAN_PORTS "abci001, gpu 1 (3 of 50 GB/s)",
		"rails carry less than 0.7 of the median, 44 GB/s: abci001, gpu 1 (3 GB/s); "
		"abci005, gpu 2 (30 GB/s)", ));
}

static void
test_sockets(void)
{
	struct rail rail[MOST];
	struct rails r = make(rail, 6, 2);

	rail[2].ports = rail[3].ports = (struct ports){ 0 };
	check_warnings(&r,
	    WARNINGS(
		"NCCL uses sockets on abci001, which has no active InfiniBand or RoCE port", ));
	for (int i = 0; i < r.count; i++)
		rail[i].ports = (struct ports){ 0 };
	check_warnings(&r,
	    WARNINGS("NCCL uses sockets on abci000, abci001, abci002, abci003, and 2 more, which "
		     "have no active InfiniBand or RoCE port", ));
}

static void
test_nccl(void)
{
	CHECK(!rails_nccl_fault(0) && !rails_nccl_fault(22802) && !rails_nccl_fault(22809));
	CHECK(rails_nccl_fault(22803) && rails_nccl_fault(22808));
}

int
main(void)
{
	CHECK(mkdtemp(top) != NULL);
	test_ports();
	test_words();
	test_good();
	test_one_bad();
	test_all_bad();
	test_few_cores();
	test_sockets();
	test_nccl();
	return check_done();
}

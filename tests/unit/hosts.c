/*
 * hosts.c - the two levels of communicators, over random placements of their ranks
 *
 * The definition is asked of every placement: blocks of neighbours that are equally many, a power
 * of two of at most 16, or all ranks on one host; anything else is flat.
 */
#include "lib/model/hosts.h"
#include "lib/base/process.h"
#include "tests/check.h"

enum { MOST = 64 };

/* Whether ranks are equally many neighbours on each host. */
static bool
in_blocks(const int *host, int size, int inside)
{
	if (size % inside)
		return false;
	for (int i = 0; i < size; i++)
		for (int j = 0; j < size; j++)
			if ((host[i] == host[j]) != (i / inside == j / inside))
				return false;
	return true;
}

static void
check_hosts(const int *host, int size)
{
	int blocks = 0;

	for (int inside = 1; inside <= size; inside++)
		if (in_blocks(host, size, inside))
			blocks = inside;
	if (blocks < size && blocks != 1 && blocks != 2 && blocks != 4 && blocks != 8 &&
	    blocks != 16)
		blocks = 0;
	for (int r = 0; r < size; r++) {
		struct hosts h;

		hosts_of(&h, host, size, r);
		CHECK(h.even == (blocks > 0));
		CHECK(h.inside == (blocks ? blocks : 1) && h.count * h.inside == size);
		CHECK(h.own * h.inside + h.place == r && h.place < h.inside && h.place >= 0);
	}
}

static int
place(const int *host, int rank)
{
	int before = 0;

	for (int r = 0; r < rank; r++)
		before += host[r] == host[rank];
	return before;
}

/* Each rank has another host's rank of its place after it, whom it is before, unless no other host
 * has so many ranks. */
static void
check_next(const int *host, int size)
{
	for (int r = 0; r < size; r++) {
		int next = hosts_next(host, size, r, false),
		    before = hosts_next(host, size, r, true), others = 0;

		for (int q = 0; q < size; q++)
			others += host[q] != host[r] && place(host, q) == place(host, r);
		CHECK((next >= 0) == (others > 0) && (before >= 0) == (others > 0));
		if (next < 0 || before < 0)
			continue;
		CHECK(host[next] != host[r] && place(host, next) == place(host, r));
		CHECK(hosts_next(host, size, next, true) == r);
		CHECK(hosts_next(host, size, before, false) == r);
	}
}

/* Blocks of neighbours, of which some ranks go elsewhere. */
static void
test_random(void)
{
	for (int i = 0; i < 3000; i++) {
		int host[MOST], size = 1 + rand() % MOST;
		int inside = 1 + rand() % 33, moved = rand() % 3;

		for (int r = 0; r < size; r++)
			host[r] = r / inside;
		for (int k = 0; i % 2 && k < moved; k++)
			host[rand() % size] = rand() % 4;
		check_hosts(host, size);
		check_next(host, size);
	}
}

/* What batch systems do: blocks, ranks dealt round, a node with more than the others. */
static void
test_known(void)
{
	static const int blocks[8] = { 0, 0, 0, 0, 1, 1, 1, 1 },
			 dealt[8] = { 0, 1, 0, 1, 0, 1, 0, 1 },
			 uneven[8] = { 0, 0, 0, 1, 1, 1, 1, 1 },
			 sixes[12] = { [6] = 1, 1, 1, 1, 1, 1 },
			 again[8] = { 0, 0, 1, 1, 0, 0, 2, 2 };
	int many[64];
	struct hosts h;

	hosts_of(&h, blocks, 8, 6);
	CHECK(h.even && h.count == 2 && h.inside == 4 && h.own == 1 && h.place == 2);
	hosts_of(&h, dealt, 8, 6);
	CHECK(!h.even && h.count == 8 && h.inside == 1 && h.own == 6 && h.place == 0);
	hosts_of(&h, uneven, 8, 0);
	CHECK(!h.even);
	hosts_of(&h, sixes, 12, 0);
	CHECK(!h.even);
	hosts_of(&h, sixes, 6, 3);
	CHECK(h.even && h.count == 1 && h.inside == 6);
	hosts_of(&h, again, 8, 0);
	CHECK(!h.even);
	for (int i = 0; i < 64; i++)
		many[i] = i / 32;
	hosts_of(&h, many, 64, 0);
	CHECK(!h.even);
}

static void
test_pretended(void)
{
	struct err e = { "" };

	for (int size = 1; size <= 16; size++)
		for (int n = 1; n <= size; n++)
			for (int r = 0; r < size && size % n == 0; r++)
				CHECK(hosts_pretended(r, size, n, &e) == r / (size / n));
	CHECK(hosts_pretended(0, 8, 3, &e) < 0);
	CHECK_STR(e.msg, "--pretend-hosts 3: must divide the 8 ranks of a machine (try 4)");
	CHECK(hosts_pretended(0, 6, 5, &e) < 0);
	CHECK_STR(e.msg, "--pretend-hosts 5: must divide the 6 ranks of a machine (try 6)");
	CHECK(hosts_pretended(0, 6, 100, &e) < 0);
	CHECK_STR(e.msg, "--pretend-hosts 100: must divide the 6 ranks of a machine (try 6)");
}

static void
check_words(const struct layout *l, int size, int inside, const char *want)
{
	int host[256];
	struct str words = { 0 };

	for (int r = 0; r < size; r++)
		host[r] = r / inside;
	hosts_words(l, host, size, &words);
	CHECK_STR(words.buf, want);
	str_release(&words);
}

static void
test_words(void)
{
	const struct layout large = { 2, 1, 32, 2 }, data = { 1, 1, 6, 1 };

	check_words(&large, 128, 8,
	    "16 hosts of 8 ranks; inside a host: tensor 2, data 4; between hosts: data 8, "
	    "pipeline 2");
	check_words(&large, 128, 128,
	    "1 host of 128 ranks; inside a host: tensor 2, data 32, pipeline 2; between hosts: "
	    "nothing");
	check_words(
	    &data, 6, 4, "2 hosts of 2 to 4 ranks; inside a host: nothing; between hosts: data 6");
}

static int64_t
expert_hosts(const struct layout *l, int inside)
{
	return hosts_of_experts(l, &(struct host_places){ .ranks_per_host = inside });
}

static bool
parts_experts(const struct layout *l, int inside)
{
	return hosts_part_experts(l, &(struct host_places){ .ranks_per_host = inside });
}

/* Ranks that share experts, on hosts of so many ranks: 8, then 4 that two ranks share each, then 4
 * of two stages. */
static void
test_experts(void)
{
	struct layout l = { 1, 1, 16, 1, .expert_model_parallel_size = 8 };
	int dealt[16];

	CHECK(expert_hosts(&l, 16) == 1 && expert_hosts(&l, 8) == 1);
	CHECK(expert_hosts(&l, 4) == 2 && expert_hosts(&l, 2) == 4 && expert_hosts(&l, 1) == 8);
	CHECK(expert_hosts(&l, 6) == 1 && expert_hosts(&l, 12) == 1);
	CHECK(parts_experts(&l, 6) && parts_experts(&l, 12) && parts_experts(&l, 4));
	CHECK(!parts_experts(&l, 8) && !parts_experts(&l, 16));
	for (int r = 0; r < 16; r++)
		dealt[r] = r % 2;
	CHECK(hosts_of_experts(&l, &(struct host_places){ .host = dealt }) == 1);
	l.expert_model_parallel_size = 4;
	l.expert_tensor_parallel_size = 2;
	CHECK(expert_hosts(&l, 4) == 2 && expert_hosts(&l, 2) == 4 && expert_hosts(&l, 1) == 1);
	l = (struct layout){ 1, 1, 4, 4, .expert_model_parallel_size = 4 };
	CHECK(expert_hosts(&l, 8) == 1 && expert_hosts(&l, 2) == 2);
	l.use_tp_pp_dp_mapping = true;
	CHECK(expert_hosts(&l, 8) == 2 && expert_hosts(&l, 16) == 1);
}

/* Data ranks of two tensor ranks each, on hosts of so many ranks. */
static void
test_data(void)
{
	const struct layout l = { 2, 2, 8, 1 }, many = { 1, 1, 1 << 30, 1 };

	CHECK(hosts_of_data(&many, &(struct host_places){ .ranks_per_host = 8 }) == 1 << 27);
	for (int inside = 2; inside <= 32; inside *= 2)
		CHECK(hosts_of_data(&l, &(struct host_places){ .ranks_per_host = inside }) ==
		    32 / inside);
	CHECK(hosts_of_data(&l, &(struct host_places){ .ranks_per_host = 12 }) == 1);
}

/* A row of ranks has two levels where a communicator of them has, whichever rank is the first. */
static void
test_two_levels(void)
{
	int host[40], found = 0;
	struct hosts h;

	for (int size = 1; size <= 40; size++)
		for (int stride = 1; stride <= 9; stride++)
			for (int each = stride; each <= 40; each += stride) {
				int first = rand() % stride;

				for (int i = 0; i < size; i++)
					host[i] = (first + i * stride) / each;
				hosts_of(&h, host, size, 0);
				CHECK(hosts_two_levels(size, stride, each) ==
				    (h.count > 1 && h.inside > 1));
				found += h.count > 1 && h.inside > 1;
			}
	CHECK(found > 0 && !hosts_two_levels(8, 1, 0) && !hosts_two_levels(4, 5, 9));
}

/* Hosts of equally many neighbours are found from fewer groups than any others, and from none. */
static void
test_regular(void)
{
	int host[512];

	for (int i = 0; i < 3000; i++) {
		struct layout l = { 1 << rand() % 2, 1 << rand() % 2, 1 + rand() % 8,
			1 + rand() % 4, .use_tp_pp_dp_mapping = rand() % 2 };
		int64_t ranks = l.tensor_model_parallel_size * layout_data_ranks(&l);
		int inside = 1 + rand() % 12;

		l.expert_tensor_parallel_size = 1 << rand() % 2;
		l.expert_model_parallel_size = 1 + rand() % 8;
		if (ranks % layout_expert_holders(&l))
			continue;
		for (int r = 0; r < layout_world(&l); r++)
			host[r] = r / inside;
		CHECK(expert_hosts(&l, inside) ==
		    hosts_of_experts(&l, &(struct host_places){ .host = host }));
		CHECK(parts_experts(&l, inside) ==
		    hosts_part_experts(&l, &(struct host_places){ .host = host }));
		CHECK(hosts_of_data(&l, &(struct host_places){ .ranks_per_host = inside }) ==
		    hosts_of_data(&l, &(struct host_places){ .host = host }));
	}
}

/* This process is where it was until it is on another pretended host. */
static void
test_where(void)
{
	char before[PROCESS_WHERE], same[PROCESS_WHERE], after[PROCESS_WHERE], boot[PROCESS_HOST];

	process_where(before);
	process_where(same);
	CHECK_STR(before, same);
	CHECK(!strchr(before, '#'));
	process_boot(boot);
	CHECK(!strncmp(before, boot, strlen(boot)) && before[strlen(boot)] == ' ');
	process_pretend(12);
	process_where(after);
	CHECK(!strncmp(after, before, strlen(before)));
	CHECK_STR(after + strlen(before), "#12");
}

int
main(void)
{
	srand((unsigned)check_seed());
	test_known();
	test_random();
	test_pretended();
	test_words();
	test_experts();
	test_data();
	test_two_levels();
	test_regular();
	test_where();
	return check_done();
}

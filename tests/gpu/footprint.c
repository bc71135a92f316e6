/*
 * footprint.c [HOSTS] - device memory that a GPU's context and communicators take outside arenas
 *
 * Run by mpirun with two ranks or more, a GPU each. A row for each step: what it has added to the
 * memory in use on rank 0's GPU, in MiB. The constants of lib/model/gpu.c follow from these. With
 * an argument the ranks are on so many pretended hosts, between which NCCL takes the network, which
 * is sockets of the loopback with NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "tests/check.h"
#include "tests/gpu.h"
#include "train/comm.h"
#include "train/ops.h"

#include <stdbool.h>
#include <stdlib.h>

enum { BYTES = 256 << 20 };

struct rig {
	const struct backend *b;
	struct device *d;
	struct stream *st;
	struct comm *world;
	char *memory;
	size_t before;
	bool apart; /* on several hosts */
};

/* Prints the row of a step. Collective, so that all ranks are there. */
static void
step(struct rig *r, const char *what)
{
	struct err e;
	size_t now;

	CHECK(r->b->sync(r->st, &e) == 0);
	r->world->ops->barrier(COMM_HERE(r->world));
	now = r->b->used_memory(r->d);
	if (r->world->rank == 0)
		printf("%s\t%.1f\n", what, ((double)now - (double)r->before) / (1 << 20));
	r->before = now;
	r->world->ops->barrier(COMM_HERE(r->world));
}

/* Each collective of a communicator of all ranks. */
static void
collectives(struct rig *r, struct comm *c)
{
	int64_t n = BYTES / 4 / c->size * c->size;
	struct tensor all = tensor_1d(r->memory, DTYPE_F32, n),
		      part = tensor_rows(&all, c->rank * (n / c->size), n / c->size);
	struct p2p m[] = { { true, (c->rank + 1) % c->size, 0, part },
		{ false, (c->rank + c->size - 1) % c->size, 0,
		    tensor_1d(r->memory + BYTES, DTYPE_F32, n / c->size) } };

	c->ops->all_reduce(COMM_HERE(c), r->st, &(struct comm_reduce){ all, REDUCE_MAX });
	step(r, "  all-reduce");
	c->ops->all_gather(COMM_HERE(c), r->st, &(struct comm_gather){ all, part });
	step(r, "  all-gather");
	c->ops->broadcast(COMM_HERE(c), r->st, &(struct comm_broadcast){ all, 0 });
	step(r, "  broadcast");
	c->ops->exchange(COMM_HERE(c), r->st, &(struct comm_messages){ m, 2 });
	step(r, "  exchange");
}

static void
communicators(struct rig *r)
{
	static const int blocks[] = { 0, 16, 4, 2 };
	struct comm_memory piece = { r->memory, 2 * BYTES };
	struct err e = { "" };
	char text[64];

	for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
		struct comm_config config = { "ranks", blocks[i] };
		struct comm *host =
				r->world->ops->split(COMM_HERE(r->world), 0, r->world->rank, &e),
			    *c = host ? r->b->comm(r->d, host, &config, &e) : NULL;

		CHECK(c);
		if (!c)
			return;
		snprintf(text, sizeof text, "communicator of %d, %d blocks", c->size, blocks[i]);
		step(r, text);
		collectives(r, c);
		if (i == 1 && !r->apart) {
			CHECK(c->ops->share(COMM_HERE(c), &piece, 1, &e));
			step(r, "  shared memory");
		}
	}
}

/* Recordings of so many operations, each launched once. */
static void
recordings(struct rig *r)
{
	static const int kernels[] = { 1, 30, 300 };
	enum { COUNT = 64 };
	struct tensor x = tensor_1d(r->memory, DTYPE_F32, 1 << 20);
	struct err e = { "" };
	char text[64];

	for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
		for (int i = 0; i < COUNT; i++) {
			struct recorded *kept;

			CHECK(r->b->record_begin(r->st, &e));
			for (int n = 0; n < kernels[k]; n++)
				r->st->ops->fill(r->st, &(struct fill){ x, n });
			kept = r->b->record_end(r->st, &e);
			CHECK(kept);
			if (kept)
				r->b->launch(r->st, kept);
		}
		snprintf(text, sizeof text, "%d recordings of %d kernels", COUNT, kernels[k]);
		step(r, text);
	}
}

int
main(int argc, char **argv)
{
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_BF16 };
	struct err e = { "" };
	struct rig r = { .world = mpi_world(&e), .b = gpu_backend() };
	int size;

	CHECK(r.world);
	prog_begin(argv[0]);
	if (!r.b || r.world->size == 1) {
		printf("skipped: two ranks need two GPUs\n");
		mpi_end();
		return 0;
	}
	r.apart = argc > 1;
	if (r.apart && mpi_pretend_hosts(r.world, strtol(argv[1], NULL, 10), &e) < 0)
		die_usage("%s", e.msg);
	config.local_rank = mpi_local_rank(r.world, &size);
	r.d = r.b->open(&config, &e);
	r.st = r.d ? r.b->stream(r.d, STREAM_COMPUTE) : NULL;
	r.memory = r.d ? r.b->alloc(r.d, 2 * BYTES, &e) : NULL;
	if (!r.memory) {
		fprintf(stderr, "%s\n", e.msg);
		r.world->ops->abort(r.world, 1);
	}
	step(&r, "context and 512 MiB");
	recordings(&r);
	communicators(&r);
	mpi_end();
	return check_done();
}

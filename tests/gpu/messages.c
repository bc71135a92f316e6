/*
 * messages.c [BACKEND] - messages between two GPUs of one host, as pipeline stages send them
 *
 * Run by mpirun with an even number of ranks (tests/gpu/parts.sh), a GPU each: neighbours are
 * pairs, with a communicator for each direction. Alone, or without a GPU, it says so and succeeds.
 * A chain of messages without a word to the host would show memory that is written before it is
 * free; some are longer than the memory where they land. All is tested by messages of the library
 * first, then by shared memory; with a backend's name as argument, "cpu", on host memory.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "tests/check.h"
#include "tests/gpu.h"
#include "train/comm.h"

enum { MOST = 3 << 20, RECEIVE_BUFFER = 1 << 20, CHAIN = 12, WAYS = 2 };

struct rig {
	const struct backend *b;
	struct device *d;
	struct comm *world,
	    *c[WAYS]; /* the lower rank of a pair sends by c[0], and receives by c[1] */
	struct stream *st[WAYS];
	char *receive_buffer; /* one for each way, shared */
	char *out, *in;
};

/* Element i of message number k of a rank. */
static int32_t
number(int rank, int k, int64_t i)
{
	return (
	    int32_t)(((uint64_t)i * 64 + (uint64_t)(rank * CHAIN + k)) * 0x9e3779b97f4a7c15 >> 40);
}

static struct tensor
elements(char *at, int64_t count)
{
	return tensor_1d(at, DTYPE_I32, count);
}

/* Messages of count elements each way, one after the other, from and to places of their own. */
static void
chain(struct rig *r, int64_t count)
{
	int own = r->world->rank, other = own ^ 1;
	int sends = own % 2 ? 1 : 0; /* the way in which this rank sends */
	size_t bytes = (size_t)count * sizeof(int32_t);
	int32_t *x = mem_alloc((size_t)count * CHAIN, sizeof *x);
	struct err e;
	int64_t wrong = 0;

	for (int64_t i = 0; i < count * CHAIN; i++)
		x[i] = number(own, (int)(i / count), i % count);
	r->b->copy_in(r->st[sends], r->out, x, bytes * CHAIN);
	for (int k = 0; k < CHAIN; k++)
		for (int way = 0; way < WAYS; way++) {
			struct comm *c = r->c[way];
			bool send = way == sends;
			struct p2p m = { send, 1 - c->rank, 0,
				elements((send ? r->out : r->in) + (size_t)k * bytes, count) };
			struct tensor receive_buffer =
			    elements(r->receive_buffer + way * RECEIVE_BUFFER,
				RECEIVE_BUFFER / (int)sizeof(int32_t));

			c->ops->message(
			    COMM_HERE(c), r->st[way], &(struct comm_message){ m, receive_buffer });
		}
	CHECK(r->b->sync(r->st[sends], &e) == 0);
	r->b->copy_out(r->st[1 - sends], x, r->in, bytes * CHAIN);
	CHECK(r->b->sync(r->st[1 - sends], &e) == 0);
	for (int64_t i = 0; i < count * CHAIN; i++)
		wrong += x[i] != number(other, (int)(i / count), i % count);
	CHECK(wrong == 0);
	free(x);
}

static void
chains(struct rig *r)
{
	chain(r, 1);
	chain(r, 1000);
	chain(r, RECEIVE_BUFFER / 4);
	chain(r, RECEIVE_BUFFER / 4 + 1);
	chain(r, MOST / 4);
}

/* Collective over world. Pairs open both ways in the same order. */
static bool
open_rig(struct rig *r, struct err *e)
{
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_BF16 };
	struct comm_config ways = { "neighbours", 2 };
	int size;

	config.local_rank = mpi_local_rank(r->world, &size);
	r->d = r->b->open(&config, e);
	if (!r->d)
		return false;
	for (int way = 0; way < WAYS; way++) {
		struct comm *host = r->world->ops->split(
		    COMM_HERE(r->world), r->world->rank / 2, r->world->rank, e);

		r->c[way] = host && r->b->comm ? r->b->comm(r->d, host, &ways, e) : host;
		if (!r->c[way])
			return false;
		r->st[way] = r->b->stream(r->d, way ? STREAM_SEND_BACKWARD : STREAM_SEND_FORWARD);
	}
	r->receive_buffer = r->b->alloc(r->d, WAYS * RECEIVE_BUFFER, e);
	r->out = r->b->alloc(r->d, (size_t)CHAIN * MOST, e);
	r->in = r->b->alloc(r->d, (size_t)CHAIN * MOST, e);
	return r->receive_buffer && r->out && r->in;
}

static void
run(struct rig *r)
{
	struct comm_memory piece = { r->receive_buffer, WAYS * RECEIVE_BUFFER };
	struct err e = { "" };

	chains(r);
	if (r->b->comm)
		for (int way = 0; way < WAYS; way++)
			CHECK(r->c[way]->ops->share(COMM_HERE(r->c[way]), &piece, 1, &e));
	chains(r);
	for (int way = 0; way < WAYS; way++)
		r->c[way]->ops->free(r->c[way]);
	r->b->release(r->d, r->receive_buffer);
	r->b->release(r->d, r->out);
	r->b->release(r->d, r->in);
	r->b->close(r->d);
}

int
main(int argc, char **argv)
{
	struct err e = { "" };
	struct rig r = { .world = mpi_world(&e) };

	CHECK(r.world);
	prog_begin(argv[0]);
	r.b = argc > 1 ? backend_choose(argv[1], &e) : gpu_backend();
	if (!r.b || r.world->size % 2) {
		printf("%s\n", r.b ? "skipped: ranks that are no pairs" : e.msg);
		mpi_end();
		return 0;
	}
	if (!open_rig(&r, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		r.world->ops->abort(r.world, 1);
	}
	run(&r);
	r.world->ops->free(r.world);
	mpi_end();
	return check_done();
}

/*
 * comm.c - train/comm.h over MPI, on host memory
 *
 * MPI's own reductions may add in any order, so sums are made here: every rank receives one piece
 * of each rank's array into a staging buffer, adds them (reduce.c), and the sums are gathered.
 * Arrays of any length pass through the buffer part by part, and no single message is longer
 * than MESSAGE bytes, far below what MPI's int counts hold. Everything is blocking; only the thread
 * that started MPI may call. An error from MPI means a lost peer or link: it ends the world with
 * one line.
 *
 * A process that no launcher has started is a world of its own and does not start MPI, which takes
 * a fifth of a second and a daemon: a communicator of one rank calls nothing of MPI, and what a
 * rank sends to itself is copied.
 */
#include "train/mpi/impl.h"

#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/base/tree.h"

#include <stdlib.h>
#include <string.h>

enum {
	STAGING = 4 << 20,  /* bytes */
	SMALL = 32 << 10,   /* up to here (bytes times ranks) one message round beats two */
	MESSAGE = 16 << 20, /* bytes of the longest single message */
	OWN_TAG = 0, /* messages of the collectives; those of exchange() have 1 + their tag */
};

/* Equal pieces of an array, of `bytes` each, one for each rank: the first rank's at data, the next
 * one's `stride` bytes after it; those past the first `total` bytes are cut off. */
struct pieces {
	char *data;
	ptrdiff_t stride;
	size_t bytes, total;
};

static const struct comm_ops mpi_ops;

/* For lengths that come as size_t; MPI's int counts are cut by MESSAGE first. */
static size_t
min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* MPI's default is to end the program with its own messages. */
void
mpi_check(struct comm *c, int rc, const char *what)
{
	char text[MPI_MAX_ERROR_STRING] = "unknown error";
	int len;

	if (rc == MPI_SUCCESS)
		return;
	MPI_Error_string(rc, text, &len);
	warn("lost a peer or a link in %s: %s", what, text);
	c->ops->abort(c, EXIT_PEER);
}

/* The bytes of a tensor, which must be dense. */
static size_t
dense_bytes(const struct tensor *t)
{
	return (size_t)comm_elements(t) * dtype_size(t->dtype);
}

/* The bytes of a part of whole. */
static size_t
part_bytes(const struct comm *c, const struct tensor *part, const struct tensor *whole)
{
	return (size_t)comm_part(c, part, whole) * dtype_size(part->dtype);
}

/* A place for one more request. */
static MPI_Request *
next_request(struct mpi_comm *m)
{
	if (m->num_requests == m->max_requests) {
		m->max_requests = 2 * m->max_requests + 16;
		m->request = mem_realloc(m->request, m->max_requests, sizeof *m->request);
	}
	return &m->request[m->num_requests++];
}

/* Starts sending bytes to a peer, message by message. The bytes must stay as they are until
 * wait_all. Messages of one pair and tag arrive in order, so the parts need no numbers. */
static void
post_send(struct comm *c, const char *data, size_t bytes, int peer, int tag)
{
	struct mpi_comm *m = c->impl;

	for (size_t done = 0; done < bytes; done += MESSAGE) {
		int n = (int)min_size(bytes - done, MESSAGE);

		mpi_check(c,
		    MPI_Isend(data + done, n, MPI_BYTE, peer, tag, m->mpi, next_request(m)),
		    "a send");
	}
}

/* Starts receiving what the peer's post_send sends. Both sides know the length, so the cuts are
 * the same. */
static void
post_receive(struct comm *c, char *data, size_t bytes, int peer, int tag)
{
	struct mpi_comm *m = c->impl;

	for (size_t done = 0; done < bytes; done += MESSAGE) {
		int n = (int)min_size(bytes - done, MESSAGE);

		mpi_check(c,
		    MPI_Irecv(data + done, n, MPI_BYTE, peer, tag, m->mpi, next_request(m)),
		    "a receive");
	}
}

/* Waits for all requests of this communicator: none is left over from one operation to the next. */
static void
wait_all(struct comm *c)
{
	struct mpi_comm *m = c->impl;

	if (m->num_requests)
		mpi_check(c, MPI_Waitall((int)m->num_requests, m->request, MPI_STATUSES_IGNORE),
		    "an exchange");
	m->num_requests = 0;
}

/* Less than p->bytes in the last piece, 0 after it. */
static size_t
piece_bytes(const struct pieces *p, int number)
{
	size_t before = (size_t)number * p->bytes;

	return before < p->total ? min_size(p->bytes, p->total - before) : 0;
}

/* Sends each rank its piece and collects this rank's of all ranks in the staging buffer, in rank
 * order. Each rank starts with a different peer, to spread the load. */
static void
swap_pieces(struct comm *c, const struct pieces *p)
{
	struct mpi_comm *m = c->impl;
	size_t own = piece_bytes(p, c->rank);

	for (int i = 1; i < c->size; i++) {
		int peer = (c->rank + c->size - i) % c->size;

		post_receive(c, m->staging + (size_t)peer * own, own, peer, OWN_TAG);
	}
	for (int i = 1; i < c->size; i++) {
		int peer = (c->rank + i) % c->size;

		post_send(c, p->data + peer * p->stride, piece_bytes(p, peer), peer, OWN_TAG);
	}
	memcpy(m->staging + (size_t)c->rank * own, p->data + c->rank * p->stride, own);
	wait_all(c);
}

/* Reduces the arrays of `bytes` each in the staging buffer. */
static void
reduce_staged(struct comm *c, char *dst, size_t bytes, const struct comm_reduce *a)
{
	struct mpi_comm *m = c->impl;
	enum dtype dtype = a->x.dtype;
	struct summands s = { m->staging, c->size, (int64_t)(bytes / dtype_size(dtype)), dtype,
		a->block, dtype };

	reduce_in_order(dst, &s, a->op);
}

/* Elements that fit into the staging buffer once for every rank. */
static size_t
elements_at_once(const struct comm *c, enum dtype dtype)
{
	return STAGING / dtype_size(dtype) / (size_t)c->size;
}

/* One part: each rank reduces a piece of it, then the pieces are gathered in place. The last
 * pieces may be shorter or empty; all ranks compute the same cuts from the part's length. */
static void
all_reduce_part(struct comm *c, char *data, size_t bytes, const struct comm_reduce *a)
{
	struct mpi_comm *m = c->impl;
	size_t size = dtype_size(a->x.dtype), count = bytes / size, ranks = (size_t)c->size;
	size_t piece = (count + ranks - 1) / ranks * size;
	struct pieces p = { data, (ptrdiff_t)piece, piece, bytes };

	swap_pieces(c, &p);
	reduce_staged(c, data + (size_t)c->rank * piece, piece_bytes(&p, c->rank), a);
	for (int i = 0; i < c->size; i++) {
		m->count[i] = (int)piece_bytes(&p, i);
		m->start[i] = m->count[i] ? i * (int)piece : 0;
	}
	mpi_check(c,
	    MPI_Allgatherv(
		MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, m->count, m->start, MPI_BYTE, m->mpi),
	    "a reduction");
}

/* Of the ranks of each host, then of the hosts, whose sums are subtrees: a rank sends to those of
 * its host and of its rail, not to all. */
static void
reduce_levels(struct mpi_comm *m, const struct comm_reduce *a)
{
	struct comm_reduce hosts = { a->x, a->op, TREE_TERMS / m->inside->size };

	m->inside->ops->all_reduce(m->inside, NULL, a);
	m->rail->ops->all_reduce(m->rail, NULL, &hosts);
}

/* In place, complete when it returns: st is ignored, as by all of these. The result is the same
 * on every rank, bit by bit, and in every run. */
void
mpi_all_reduce(struct comm *c, struct stream *st, const struct comm_reduce *a)
{
	struct mpi_comm *m = c->impl;
	const struct tensor *t = &a->x;
	size_t bytes = dense_bytes(t), ranks = (size_t)c->size,
	       step = elements_at_once(c, t->dtype) * ranks * dtype_size(t->dtype);

	(void)st;
	if (c->size == 1 || bytes == 0)
		return;
	/* Few bytes: every rank receives all and adds for itself; the same arithmetic, so the same
	 * bits. One round of messages instead of two: up to SMALL bytes in all, latency dominates.
	 */
	if (bytes <= SMALL / ranks) {
		int n = (int)bytes;

		mpi_check(c, MPI_Allgather(t->data, n, MPI_BYTE, m->staging, n, MPI_BYTE, m->mpi),
		    "a reduction");
		reduce_staged(c, t->data, bytes, a);
		return;
	}
	if (m->inside && dtype_size(t->dtype) > 2) {
		reduce_levels(m, a);
		return;
	}
	for (size_t done = 0; done < bytes; done += step)
		all_reduce_part(c, (char *)t->data + done, min_size(step, bytes - done), a);
}

/* Adds up what is in the staging buffer, `count` elements of each rank, into p->part from `at`
 * on. */
static void
sum_staged(struct comm *c, const struct comm_parts *p, int64_t at, int64_t count)
{
	struct mpi_comm *m = c->impl;
	struct tensor part = tensor_flat(&p->part);
	struct summands s = { m->staging, c->size, count, p->whole.dtype, p->block, part.dtype };

	reduce_in_order(tensor_rows(&part, at, count).data, &s, REDUCE_SUM);
}

/* Not built on all_reduce, which would move size times as much. The part may lie in its place
 * inside whole: a part of it is written after it was sent. */
void
mpi_reduce_scatter_parts(struct comm *c, struct stream *st, const struct comm_parts *p)
{
	int64_t count = comm_partial_sums(c, p);
	size_t size = dtype_size(p->whole.dtype), step = elements_at_once(c, p->whole.dtype);
	struct tensor first = comm_whole(c, p, 0);
	ptrdiff_t stride = (ptrdiff_t)tensor_bytes(&first);

	(void)st;
	if (c->size == 1) {
		struct tensor flat = tensor_flat(&first), own = tensor_rows(&flat, p->first, count);

		if (p->part.data != own.data)
			dtype_convert(p->part.data, p->part.dtype, own.data, own.dtype, count);
		return;
	}
	for (size_t done = 0; done < (size_t)count; done += step) {
		size_t n = min_size(step, (size_t)count - done);
		struct pieces all = { (char *)first.data + ((size_t)p->first + done) * size,
			p->reversed ? -stride : stride, n * size, n * size * (size_t)c->size };

		swap_pieces(c, &all);
		sum_staged(c, p, (int64_t)done, (int64_t)n);
	}
}

/* in may lie inside out, at its own part. A datatype with the stride of the parts lets one call
 * fill the same stretch of every part in place, without a copy. */
void
mpi_all_gather(struct comm *c, struct stream *st, const struct comm_gather *a)
{
	struct mpi_comm *m = c->impl;
	const struct tensor *out = &a->out, *in = &a->in;
	size_t bytes = part_bytes(c, in, out);
	char *own = (char *)out->data + (size_t)c->rank * bytes;

	(void)st;
	if (bytes && own != in->data)
		memcpy(own, in->data, bytes);
	for (size_t done = 0; c->size > 1 && done < bytes; done += MESSAGE) {
		int n = (int)min_size(MESSAGE, bytes - done);
		MPI_Datatype run, column;

		mpi_check(c, MPI_Type_contiguous(n, MPI_BYTE, &run), "a gather");
		mpi_check(c, MPI_Type_create_resized(run, 0, (MPI_Aint)bytes, &column), "a gather");
		mpi_check(c, MPI_Type_commit(&column), "a gather");
		mpi_check(c,
		    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, (char *)out->data + done, 1,
			column, m->mpi),
		    "a gather");
		MPI_Type_free(&column);
		MPI_Type_free(&run);
	}
}

/* Host memory is copied, whosever it is. */
static bool
mpi_share(struct comm *c, const struct comm_memory *piece, int count, struct err *why)
{
	(void)c;
	(void)piece;
	(void)count;
	(void)why;
	return true;
}

/* All parts are in flight at once; no event is recorded, since all are there at the end. */
void
mpi_all_gather_parts(struct comm *c, struct stream *st, const struct comm_parts *p)
{
	size_t bytes = part_bytes(c, &p->part, &p->whole);

	(void)st;
	for (int i = 1; i < c->size; i++) {
		int from = (c->rank + i) % c->size;
		struct tensor there = comm_whole(c, p, from);

		post_receive(c, there.data, bytes, from, OWN_TAG);
	}
	for (int i = 1; i < c->size; i++)
		post_send(c, p->part.data, bytes, (c->rank + c->size - i) % c->size, OWN_TAG);
	wait_all(c);
}

/* In place, any length. */
void
mpi_broadcast(struct comm *c, struct stream *st, const struct comm_broadcast *a)
{
	struct mpi_comm *m = c->impl;
	size_t bytes = dense_bytes(&a->x);

	(void)st;
	for (size_t done = 0; c->size > 1 && done < bytes; done += MESSAGE) {
		int n = (int)min_size(MESSAGE, bytes - done);

		mpi_check(c, MPI_Bcast((char *)a->x.data + done, n, MPI_BYTE, a->root, m->mpi),
		    "a broadcast");
	}
}

/* Where a message that a rank sends to itself goes: the n-th that it sends by a tag is the n-th
 * that it receives by it. */
static const struct p2p *
own_receive(const struct comm_messages *a, const struct p2p *sent)
{
	int before = 0;

	for (const struct p2p *m = a->message; m < sent; m++)
		before += m->send && m->peer == sent->peer && m->tag == sent->tag;
	for (const struct p2p *m = a->message; m < a->message + a->count; m++)
		if (!m->send && m->peer == sent->peer && m->tag == sent->tag && before-- == 0)
			return m;
	BUG("a message of rank %d to itself is not received", sent->peer);
}

static void
copy_own(const struct comm_messages *a, const struct p2p *sent)
{
	const struct p2p *to = own_receive(a, sent);
	size_t bytes = dense_bytes(&sent->buf);

	if (dense_bytes(&to->buf) != bytes)
		BUG("%zu bytes of rank %d to itself are received as %zu", bytes, sent->peer,
		    dense_bytes(&to->buf));
	if (bytes)
		memcpy(to->buf.data, sent->buf.data, bytes);
}

/* Receives are posted first, so that no arriving message waits for a buffer. All messages of the
 * call are in flight at once, so a ring of ranks that all send cannot block. Complete when it
 * returns. */
void
mpi_exchange(struct comm *c, struct stream *st, const struct comm_messages *a)
{
	const struct p2p *end = a->message + a->count;

	(void)st;
	for (const struct p2p *m = a->message; m < end; m++)
		if (!m->send && m->peer != c->rank)
			post_receive(c, m->buf.data, dense_bytes(&m->buf), m->peer, 1 + m->tag);
	for (const struct p2p *m = a->message; m < end; m++)
		if (m->send && m->peer != c->rank)
			post_send(c, m->buf.data, dense_bytes(&m->buf), m->peer, 1 + m->tag);
	for (const struct p2p *m = a->message; m < end; m++)
		if (m->send && m->peer == c->rank)
			copy_own(a, m);
	wait_all(c);
}

void
mpi_all_to_all(struct comm *c, struct stream *st, const struct comm_arrays *a)
{
	int n;
	struct p2p *message = comm_blocks(c, a->block, a->count, &n);

	mpi_exchange(c, st, &(struct comm_messages){ message, n });
	free(message);
}

void
mpi_message(struct comm *c, struct stream *st, const struct comm_message *a)
{
	mpi_exchange(c, st, &(struct comm_messages){ &a->message, 1 });
}

void
mpi_all_to_all_rows(struct comm *c, struct stream *st, const struct rows_exchange *x)
{
	struct p2p *message = mem_alloc(2 * (size_t)x->counts.shape[1], sizeof *message);

	mpi_exchange(c, st, &(struct comm_messages){ message, comm_rows(c, x, message) });
	free(message);
}

/* Returns when every rank of c has called it. */
static void
mpi_barrier(struct comm *c)
{
	struct mpi_comm *m = c->impl;

	if (c->size > 1)
		mpi_check(c, MPI_Barrier(m->mpi), "a barrier");
}

/* At root: the bytes of all ranks in rank order, of the lengths given. A rank without bytes sends
 * nothing. */
static char *
collect(struct comm *c, const void *bytes, const uint64_t *len, size_t *total)
{
	char *all;
	size_t at = 0;

	*total = 0;
	for (int i = 0; i < c->size; i++)
		*total += len[i];
	all = mem_alloc(*total + 1, 1);
	for (int i = 0; i < c->size; i++) {
		if (i != c->rank)
			post_receive(c, all + at, len[i], i, OWN_TAG);
		else if (len[i])
			memcpy(all + at, bytes, len[i]);
		at += len[i];
	}
	wait_all(c);
	return all;
}

/* To rank 0: the first rank of each host collects, and rank 0 hears one rank a host. */
static char *
gather_levels(struct mpi_comm *m, const void *bytes, size_t len, size_t *total)
{
	char *all = NULL, *host = m->inside->ops->gather_bytes(m->inside, bytes, len, 0, total);

	if (m->inside->rank == 0)
		all = m->rail->ops->gather_bytes(m->rail, host, *total, 0, total);
	free(host);
	return all;
}

/* At root a buffer of *total bytes, and one more, to free(); NULL elsewhere. Lengths may differ
 * and be 0. */
static char *
mpi_gather_bytes(struct comm *c, const void *bytes, size_t len, int root, size_t *total)
{
	struct mpi_comm *m = c->impl;
	uint64_t own = len,
		 *every = c->rank == root ? mem_alloc((size_t)c->size, sizeof *every) : NULL;
	char *all = NULL;

	if (m->inside && root == 0) {
		free(every);
		return gather_levels(m, bytes, len, total);
	}
	*total = 0;
	if (c->size > 1)
		mpi_check(c,
		    MPI_Gather(&own, 1, MPI_UINT64_T, every, 1, MPI_UINT64_T, root, m->mpi),
		    "a gather");
	if (every) {
		all = collect(c, bytes, c->size > 1 ? every : &own, total);
	} else {
		post_send(c, bytes, len, root, OWN_TAG);
		wait_all(c);
	}
	free(every);
	return all;
}

/* Between MPI's start and its end. */
static bool
mpi_runs(void)
{
	int started, ended;

	MPI_Initialized(&started);
	MPI_Finalized(&ended);
	return started && !ended;
}

static void mpi_abort(struct comm *c, int status) __attribute__((noreturn));

/* Ends every rank. Does not return; the launcher ends the peers. */
static void
mpi_abort(struct comm *c, int status)
{
	(void)c;
	if (mpi_runs())
		MPI_Abort(MPI_COMM_WORLD, status);
	_Exit(status);
}

/* Collective, since MPI's is. The world is freed last: the others use its staging buffer. */
static void
mpi_free(struct comm *c)
{
	struct mpi_comm *m = c->impl;

	if (m->owns_staging)
		free(m->staging);
	else if (m->mpi != MPI_COMM_NULL)
		mpi_check(c, MPI_Comm_free(&m->mpi), "the end of a communicator");
	if (m->inside) {
		m->inside->ops->free(m->inside);
		m->rail->ops->free(m->rail);
	}
	mpi_places_close(&m->places);
	free(m->request);
	free(m->count);
	free(m->start);
	free(m);
	free(c);
}

/* Wraps an MPI communicator, or MPI_COMM_NULL as a rank alone; errors are returned from here on.
 * Ranks, size and tables of the communicator; the staging buffer is borrowed. */
static struct comm *
wrap(MPI_Comm mpi, char *staging)
{
	struct comm *c = mem_zalloc(1, sizeof *c);
	struct mpi_comm *m = mem_zalloc(1, sizeof *m);

	c->size = 1;
	if (mpi != MPI_COMM_NULL) {
		MPI_Comm_set_errhandler(mpi, MPI_ERRORS_RETURN);
		MPI_Comm_rank(mpi, &c->rank);
		MPI_Comm_size(mpi, &c->size);
	}
	m->mpi = mpi;
	m->staging = staging;
	m->max_requests = 2 * (size_t)c->size;
	m->request = mem_alloc(m->max_requests, sizeof *m->request);
	m->count = mem_alloc((size_t)c->size, sizeof *m->count);
	m->start = mem_alloc((size_t)c->size, sizeof *m->start);
	c->ops = &mpi_ops;
	c->impl = m;
	return c;
}

/* NULL for a negative color, which is not an error: e is untouched then. Ranks of one color are
 * ordered by key. */
static struct comm *
mpi_split(struct comm *c, int color, int key, struct err *e)
{
	struct mpi_comm *m = c->impl;
	char text[MPI_MAX_ERROR_STRING] = "unknown error";
	MPI_Comm part;
	int len, rc;

	if (m->mpi == MPI_COMM_NULL)
		return color < 0 ? NULL : wrap(MPI_COMM_NULL, m->staging);
	rc = MPI_Comm_split(m->mpi, color < 0 ? MPI_UNDEFINED : color, key, &part);
	if (rc != MPI_SUCCESS) {
		MPI_Error_string(rc, text, &len);
		err_set(e, "cannot split a communicator of %d ranks: %s", c->size, text);
		return NULL;
	}
	return part == MPI_COMM_NULL ? NULL : wrap(part, m->staging);
}

/* All blocking; the stream that each takes is for implementations that queue. */
static const struct comm_ops mpi_ops = {
#define CALL(name, type) .name = mpi_##name,
#include "train/comm_list.h"
	.split = mpi_split,
	.share = mpi_share,
	.barrier = mpi_barrier,
	.gather_bytes = mpi_gather_bytes,
	.abort = mpi_abort,
	.free = mpi_free,
};

/* Whether a launcher has started this process: each sets one of these. A process without them is a
 * world of its own. */
bool
mpi_launched(void)
{
	static const char *const names[] = { "PMIX_NAMESPACE", "PMI_FD", "PMI_RANK", "PMI_SIZE",
		"PMI_PORT", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (getenv(names[i]))
			return true;
	return false;
}

/* FUNNELED: threads compute, the main thread communicates. */
static int
start(struct err *e)
{
	int started, provided, size;

	MPI_Initialized(&started);
	if (!started && MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
		return err_set(e, "cannot start MPI");
	MPI_Query_thread(&provided);
	if (provided < MPI_THREAD_FUNNELED)
		return err_set(e, "this MPI library does not support programs with threads");
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if ((size_t)size > STAGING / sizeof(double))
		return err_set(e, "%d ranks are more than the %zu that fit the staging buffer",
		    size, STAGING / sizeof(double));
	return 0;
}

/* Starts MPI unless it is started (as in tests) or there is no launcher. NULL with a reason. */
struct comm *
mpi_world(struct err *e)
{
	bool alone = !mpi_launched();
	struct comm *c;
	struct mpi_comm *m;

	if (!alone && start(e) < 0)
		return NULL;
	c = wrap(alone ? MPI_COMM_NULL : MPI_COMM_WORLD, mem_alloc(STAGING, 1));
	m = c->impl;
	m->owns_staging = true;
	mpi_places_open(c);
	return c;
}

/* Does nothing when MPI was never started or has ended, so all exit paths may call it. */
void
mpi_end(void)
{
	if (mpi_runs())
		MPI_Finalize();
}

/* Only the first line: the rest describes how it was built. */
void
mpi_describe(struct str *out)
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
	int len;

	MPI_Get_library_version(text, &len);
	str_addf(out, "%.*s", (int)strcspn(text, "\n"), text);
}

/* For memory plans: the one buffer that the communicators of a process share. */
size_t
mpi_staging_bytes(void)
{
	return STAGING;
}

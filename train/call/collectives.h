/* collectives.h - the calls of all ranks of a communicator at once, and messages between two */
#ifndef TRAIN_CALL_COLLECTIVES_H
#define TRAIN_CALL_COLLECTIVES_H

#include "train/call/call.h"

enum reduce { REDUCE_SUM, REDUCE_MAX };

/* x, in place. A maximum of host memory is NaN where any rank has NaN; of device memory NaN is left
 * out. A sum of floating types in device memory passes through the room that the communicator was
 * given, and comes after the one before it, on whatever stream. */
struct comm_reduce {
	struct tensor x;
	enum reduce op;
	int block; /* terms of a block of the sum (lib/base/tree.h); 0: TREE_TERMS */
};

/* out holds size equal parts, part i from rank i. in may lie in its place inside out. */
struct comm_gather {
	struct tensor out, in;
};

/* x of root, to the others. */
struct comm_broadcast {
	struct tensor x;
	int root;
};

/*
 * A gather or a scatter in parts: whole holds `size` equal parts in the order of ranks, and part is
 * this rank's, in its place inside whole or elsewhere. What others write to lies in shared memory,
 * as far from the beginning of the same piece on every rank: whole in a gather, slots in a scatter.
 * all_gather_parts: whole gets the parts of the others, from the next rank's on; the own one is not
 * written there, and its event not recorded. All have read part when the stream passes.
 * reduce_scatter_parts: part gets the sum of this rank's part in the whole of all ranks, or, where
 * it is shorter, of the elements of it from `first` on. Its type is that of whole, or a wider one
 * where that has 16 bits, or one of 16 bits where that is F32. It may lie in its place inside
 * whole. Ranks make their own part last, the next rank's first.
 */
struct comm_parts {
	struct tensor whole, part;
	bool reversed; /* the last rank's part is the first of whole */
	/* Of a scatter: as much room for each other rank, at least COMM_ROOM elements. Parts that
	 * do not fit pass through it in pieces. */
	struct tensor partial_sums;
	int64_t first;
	int block; /* terms of a block of the sum (lib/base/tree.h); 0: TREE_TERMS */
	/* size of them. A gather records event[i] when the part of rank i is there; a scatter, for
	 * which all have been recorded, reads that part after event[i]. NULL: all is there when the
	 * stream passes the gather, or gets to the scatter. */
	struct event *const *event;
};

enum { COMM_ROOM = 128 };

/*
 * An array of which each rank gives a part to every other: give is what goes to a rank, take what
 * comes from it. take of the own rank is not written; what others write to lies in shared memory,
 * and they write as far from the beginning of their piece as this rank's own take from that of its.
 */
struct comm_block {
	struct tensor give, take;
};

/* Each array has a block for each rank, in their order: block [count][size]. All have read what
 * this rank gives when the stream passes. */
struct comm_arrays {
	const struct comm_block *block;
	int count;
};

/* One message of an exchange: send when `send`, else receive; peer is a rank of the
 * communicator. */
struct p2p {
	bool send;
	int peer;
	int tag; /* tells several messages between the same two ranks apart */
	struct tensor buf;
};

/* One batch: no order, no deadlock; returns (queues) when all are done. */
struct comm_messages {
	const struct p2p *message;
	int count;
};

/* One message between two ranks, of which one always sends and the other always receives; it waits
 * for those before it, and for no other call. Where they have shared the memory that receive buffer
 * lies in, each rank's own, as far from the beginning of the same piece on both, a message is
 * copied there as soon as the one before it has been received, and no multiprocessor takes part; a
 * longer one in pieces. Elsewhere as in exchange. */
struct comm_message {
	struct p2p message;
	struct tensor receive_buffer;
};

/*
 * Rows to the ranks of their experts, or back. Each of `size` ranks has E / size of the experts,
 * or of slices of them, and counts I32 [size,E] has the rows of each rank for each of these; they
 * are in the device's memory, as is all that follows from them. in holds the rows of this rank in
 * the order of experts, and out gets a round of those for its experts, rows [first, first + P) of
 * their order (struct grouped); what no round has is not sent. back: the other way round, and only
 * the rows of the round are written. Rows are dense; P and first are the same on all ranks. Where
 * ranks have shared the memory that out lies in, they write rows to each other, and no host waits;
 * elsewhere on a device the host reads counts, for which it waits.
 */
struct rows_exchange {
	struct tensor out, in, counts;
	int64_t first;
	bool back;
};

static inline struct comm_call
describe_all_reduce(int size, const struct comm_reduce *a)
{
	struct comm_call c = { "all-reduce", tensor_bytes(&a->x) };

	(void)size;
	return c;
}

static inline struct comm_call
describe_all_gather(int size, const struct comm_gather *a)
{
	struct comm_call c = { "all-gather", tensor_bytes(&a->out) };

	(void)size;
	return c;
}

static inline struct comm_call
describe_all_gather_parts(int size, const struct comm_parts *a)
{
	struct comm_call c = { "all-gather in parts", tensor_bytes(&a->whole) };

	(void)size;
	return c;
}

static inline struct comm_call
describe_reduce_scatter_parts(int size, const struct comm_parts *a)
{
	struct comm_call c = { "reduce-scatter in parts", tensor_bytes(&a->whole) };

	(void)size;
	return c;
}

static inline struct comm_call
describe_all_to_all(int size, const struct comm_arrays *a)
{
	struct comm_call c = { "all-to-all", 0 };

	for (int i = 0; i < a->count * size; i++)
		c.bytes += tensor_bytes(&a->block[i].give);
	return c;
}

static inline struct comm_call
describe_broadcast(int size, const struct comm_broadcast *a)
{
	struct comm_call c = { "broadcast", tensor_bytes(&a->x) };

	(void)size;
	return c;
}

static inline struct comm_call
describe_exchange(int size, const struct comm_messages *a)
{
	struct comm_call c = { "exchange", 0 };

	(void)size;
	for (int i = 0; i < a->count; i++)
		c.bytes += tensor_bytes(&a->message[i].buf);
	return c;
}

static inline struct comm_call
describe_message(int size, const struct comm_message *a)
{
	struct comm_call c = { a->message.send ? "send" : "receive",
		tensor_bytes(&a->message.buf) };

	(void)size;
	return c;
}

static inline struct comm_call
describe_all_to_all_rows(int size, const struct rows_exchange *a)
{
	struct comm_call c = { "all-to-all", tensor_bytes(&a->in) };

	(void)size;
	return c;
}

#endif

#ifdef CALL
CALL(all_reduce, comm_reduce)
CALL(all_gather, comm_gather)
CALL(all_gather_parts, comm_parts)
CALL(reduce_scatter_parts, comm_parts)
CALL(all_to_all, comm_arrays)
CALL(broadcast, comm_broadcast)
CALL(exchange, comm_messages)
CALL(message, comm_message)
CALL(all_to_all_rows, rows_exchange)
#endif

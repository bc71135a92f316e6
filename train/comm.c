/*
 * comm.c - what follows from the contract of communication, for every implementation
 */
#include "train/comm.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Collective over c. Returns the same answer on every rank, true when any of them failed; a rank
 * that did not fail itself and is rank 0 gets the first message of the others, so that there is
 * one place to print it. */
bool
comm_agree(struct comm *c, int rc, struct err *err)
{
	const char *site = c->site;
	double bad = rc < 0;
	struct tensor flag = tensor_1d(&bad, DTYPE_F64, 1);
	size_t total;
	char *all = c->ops->gather_bytes(c, err->msg, rc < 0 ? strlen(err->msg) + 1 : 0, 0, &total);

	c->ops->all_reduce(comm_at(c, site), NULL, &(struct comm_reduce){ flag, REDUCE_MAX });
	if (all && total > 0 && rc == 0)
		err_set(err, "%s", all);
	free(all);
	return bad != 0;
}

int64_t
comm_elements(const struct tensor *t)
{
	int64_t stride = 1;

	for (int i = t->ndim - 1; i >= 0; i--) {
		if (t->shape[i] != 1 && t->stride[i] != stride && tensor_elements(t))
			BUG("communication of a tensor that is not dense (dimension %d)", i);
		stride *= t->shape[i];
	}
	return tensor_elements(t);
}

int64_t
comm_part(const struct comm *c, const struct tensor *part, const struct tensor *whole)
{
	int64_t count = comm_elements(part);

	if (part->dtype != whole->dtype || comm_elements(whole) != count * c->size)
		BUG("%d parts of %lld elements do not make %lld", c->size, (long long)count,
		    (long long)tensor_elements(whole));
	return count;
}

int64_t
comm_partial_sums(const struct comm *c, const struct comm_parts *p)
{
	int64_t count = comm_elements(&p->part), room = comm_elements(&p->partial_sums),
		all = comm_elements(&p->whole), least = count < COMM_ROOM ? count : COMM_ROOM;
	enum dtype whole = p->whole.dtype, part = p->part.dtype;

	if (all % c->size || p->first < 0 || p->first + count > all / c->size)
		BUG("elements [%lld, %lld) of %d parts of %lld", (long long)p->first,
		    (long long)(p->first + count), c->size, (long long)all);
	if (part != whole && dtype_size(part) != 2 && dtype_size(whole) != 2)
		BUG("sums of %s as %s", dtype_name(whole), dtype_name(part));
	if (p->partial_sums.dtype != whole || room < least * (c->size - 1))
		BUG("%lld elements have no room for parts of %lld from %d others", (long long)room,
		    (long long)count, c->size - 1);
	return count;
}

struct tensor
comm_whole(const struct comm *c, const struct comm_parts *p, int rank)
{
	int64_t count = tensor_elements(&p->whole) / c->size;
	struct tensor flat = tensor_flat(&p->whole);

	return tensor_rows(&flat, (p->reversed ? c->size - 1 - rank : rank) * count, count);
}

/* The tag is the array's number. */
struct p2p *
comm_blocks(const struct comm *c, const struct comm_block *block, int count, int *n)
{
	struct p2p *message = mem_alloc(2 * (size_t)count * (size_t)c->size, sizeof *message);

	*n = 0;
	for (int i = 0; i < count * c->size; i++) {
		int peer = i % c->size, tag = i / c->size;

		if (peer == c->rank)
			continue;
		message[(*n)++] = (struct p2p){ true, peer, tag, block[i].give };
		message[(*n)++] = (struct p2p){ false, peer, tag, block[i].take };
	}
	return message;
}

/* The rows of an expert that a rank has, as the counts say. */
static int64_t
expert_rows(const struct rows_exchange *x, int rank, int64_t expert)
{
	return ((const int32_t *)x->counts.data)[rank * x->counts.stride[0] + expert];
}

/* Which of the rows of an expert from a rank lie in the round, and where in it: `at` of the order
 * is the first of them. */
struct range_rows {
	int64_t skipped, place, count;
};

static struct range_rows
in_round(const struct rows_exchange *x, int64_t at, int64_t rows)
{
	int64_t height = (x->back ? &x->in : &x->out)->shape[0], begin = at - x->first,
		from = begin < 0 ? 0 : begin, end = begin + rows;

	end = end < height ? end : height;
	return (struct range_rows){ from - begin, from, end > from ? end - from : 0 };
}

/* What a rank's experts take, in their order: a message for each of them and each rank, whose tag
 * is the expert. This rank has its part in those for others, and all parts of its own. Returns the
 * number of messages so far. */
static int
rows_of_rank(const struct comm *c, const struct rows_exchange *x, int to, struct p2p *message)
{
	const struct tensor *routed = x->back ? &x->out : &x->in,
			    *taken = x->back ? &x->in : &x->out;
	int64_t local = x->counts.shape[1] / c->size, at = 0, sent = 0;
	int n = 0;

	for (int64_t i = 0; i < to * local; i++)
		sent += expert_rows(x, c->rank, i);
	for (int64_t i = 0; i < local; i++)
		for (int rank = 0; rank < c->size; rank++) {
			int64_t rows = expert_rows(x, rank, to * local + i);
			struct range_rows w = in_round(x, at, rows);

			if (w.count && rank == c->rank)
				message[n++] = (struct p2p){ !x->back, to, (int)i,
					tensor_rows(routed, sent + w.skipped, w.count) };
			if (w.count && to == c->rank)
				message[n++] = (struct p2p){ x->back, rank, (int)i,
					tensor_rows(taken, w.place, w.count) };
			sent += rank == c->rank ? rows : 0;
			at += rows;
		}
	return n;
}

int
comm_rows(const struct comm *c, const struct rows_exchange *x, struct p2p *message)
{
	int n = 0;

	for (int rank = 0; rank < c->size; rank++)
		n += rows_of_rank(c, x, rank, message + n);
	return n;
}

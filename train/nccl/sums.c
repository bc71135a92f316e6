/*
 * sums.c - sums of terms that NCCL brings as bytes
 *
 * Messages carry each rank's terms to where they are added, in the order of train/comm.h. So a sum
 * has the same bits whatever links the ranks have and whatever NCCL chooses; its own reductions add
 * in an order that follows from both, and round 16-bit types at every step.
 *
 * What is scattered comes by messages, part by part. An array of which every rank gets the sum goes
 * whole to every rank, which adds for itself: it is short, or there are two of them. Both pass
 * through bounded room, piece by piece.
 */
#include "train/nccl/impl.h"

#include "lib/base/mem.h"

#include <stdlib.h>

enum { PACK = 16 }; /* pieces begin at multiples of it, in elements, so that terms do too */

int
nccl_sums_open(struct sums *s, struct device *d, size_t bytes, struct err *e)
{
	void *room;

	if (bytes == 0)
		return 0;
	room = backend_cuda.alloc(d, bytes, e);
	if (!room)
		return -1;
	s->room = tensor_1d(room, DTYPE_U8, (int64_t)bytes);
	s->passed = backend_cuda.event(d);
	return 0;
}

void
nccl_sums_close(struct sums *s, struct device *d)
{
	if (s->room.data)
		backend_cuda.release(d, s->room.data);
}

/* --- an array of which each rank adds a part ---------------------------------------------------
 */

/* Elements [first, first + count) of every part, and slots for them, [size - 1, count]. */
struct piece {
	const struct comm_parts *parts;
	int64_t first, count;
	struct tensor partial_sums;
};

static struct tensor
term_for(const struct comm *c, const struct piece *k, int rank)
{
	struct tensor part = comm_whole(c, k->parts, rank);

	return tensor_rows(&part, k->parts->first + k->first, k->count);
}

/* One message each way with every other rank. */
static void
swap_terms(struct comm *c, struct stream *st, const struct piece *k)
{
	struct p2p *message = mem_alloc(2 * (size_t)(c->size - 1), sizeof *message);
	int count = 0;

	for (int i = 1; i < c->size; i++) {
		int r = (c->rank + i) % c->size;
		struct tensor slot = tensor_rows(&k->partial_sums, r - (r > c->rank), 1);

		message[count++] = (struct p2p){ true, r, 0, term_for(c, k, r) };
		message[count++] = (struct p2p){ false, r, 0, tensor_flat(&slot) };
	}
	nccl_exchange(c, st, &(struct comm_messages){ message, count });
	free(message);
}

void
nccl_sums_scatter(struct comm *c, struct stream *st, const struct comm_parts *p)
{
	int64_t count = tensor_elements(&p->part);
	int64_t room = tensor_elements(&p->partial_sums) / (c->size - 1);
	struct tensor part = tensor_flat(&p->part);
	struct piece k = { .parts = p };

	if (room < count && room > PACK)
		room -= room % PACK;
	for (; k.first < count; k.first += k.count) {
		k.count = count - k.first < room ? count - k.first : room;
		k.partial_sums =
		    tensor_2d(p->partial_sums.data, p->partial_sums.dtype, c->size - 1, k.count);
		swap_terms(c, st, &k);
		st->ops->sum(st,
		    &(struct sum){ .y = tensor_rows(&part, k.first, k.count),
			.x = term_for(c, &k, c->rank),
			.others = k.partial_sums,
			.own = c->rank,
			.block = p->block });
	}
}

/* --- an array of which every rank gets the sum --------------------------------------------------
 */

void
nccl_sums_all(struct sums *s, struct comm *c, struct stream *st, const struct comm_reduce *a)
{
	const struct tensor *t = &a->x;
	struct tensor all = tensor_flat(t);
	int64_t count = all.shape[0],
		room = tensor_elements(&s->room) / c->size / (int64_t)dtype_size(t->dtype);

	room -= room % PACK;
	if (room == 0 || !dtype_is_float(t->dtype))
		BUG("a sum of %s among %d ranks that were given %lld bytes for sums",
		    dtype_name(t->dtype), c->size, (long long)tensor_elements(&s->room));
	backend_cuda.wait(st, s->passed);
	for (int64_t first = 0; first < count; first += room) {
		int64_t n = count - first < room ? count - first : room;
		struct tensor piece = tensor_rows(&all, first, n),
			      terms = tensor_2d(s->room.data, t->dtype, c->size, n);

		nccl_all_gather(c, st, &(struct comm_gather){ terms, piece });
		st->ops->sum(
		    st, &(struct sum){ .y = piece, .others = terms, .own = -1, .block = a->block });
	}
	backend_cuda.record(st, s->passed);
}

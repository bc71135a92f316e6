/*
 * peers.c - ranks of one host push parts to each other by the copy engines of their GPUs
 *
 * A copy engine takes no multiprocessor from the GEMMs that run beside it. Each rank maps the
 * memory of the others, and its streams copy into it; flags in memory of the rank that waits for
 * them say what may be written and what has come, with the number of the call. So a call that all
 * ranks queue needs nothing of their hosts:
 *
 *   1. its stream writes to every other rank that this one's memory may be written to
 *   2. the pushing stream waits for that of a rank, copies a part to it and writes that it has come
 *   3. the stream waits for what has come from every other rank
 *
 * A scatter repeats this for each piece of the parts that the slots hold: a piece is on its way
 * while the one before it is added.
 *
 * Parts go to one rank after another, each at the full rate of the links: in a gather all ranks
 * send to the rank before them first, so that the next rank's part is there first.
 * An exchange of blocks is a gather in which each rank gets others of them.
 *
 * A message needs less: its flags are those of two ranks, and a receiver takes it out of the memory
 * where it lands, so that the next one can come before it is asked for.
 *
 * Rows of experts are many, and where they go only the device knows: a kernel on the call's own
 * stream does all three (rows.cu), for all ranks at once.
 *
 * In the order in which they are queued each wait comes after what it waits for, on all ranks,
 * which is what flags require (train/cuda/flags.c).
 */
#include "lib/base/mem.h"
#include "lib/base/process.h"
#include "train/nccl/impl.h"
#include "train/ops.h"

#include <stdlib.h>
#include <string.h>

enum {
	PIECES = 4,           /* of shared memory, at most */
	FLAG_BYTES = 2 << 20, /* less would share an allocation of the driver with other arrays */
	ARRIVED = 1 << 20,    /* in them: a number of this GPU alone */
};

/* What a rank tells the others of itself. */
struct card {
	char where[PROCESS_WHERE];
	cudaIpcMemHandle_t handle[PIECES];
};

struct peers {
	struct comm *host;
	struct device *device;
	struct cu_flags *flags;
	struct cu_stream push;
	struct event *begun, *pushed;
	struct event *passed;             /* the call before */
	struct comm_memory piece[PIECES]; /* the first has the flags, zero at the start */
	int num_pieces, num_sms;
	char *base[PEERS_MAX][PIECES]; /* where each rank's pieces are mapped here */
	uint32_t number;               /* of the piece; a gather has one */
};

/* --- mapping ---------------------------------------------------------------------------------- */

/* The driver's answer as a reason; it is not kept as the device's failure. */
static int
refused(cudaError_t rc, const char *what, struct err *why)
{
	if (rc == cudaSuccess)
		return 0;
	(void)cudaGetLastError();
	return err_set(why, "%s: %s", what, cudaGetErrorString(rc));
}

/* What this rank has of its own: flags, a stream that is served before others, and its card. */
static int
prepare(struct peers *p, struct card *card, struct err *why)
{
	int least = 0, greatest = 0, index = 0;
	cudaError_t rc = cudaDeviceGetStreamPriorityRange(&least, &greatest);

	if (p->host->size > PEERS_MAX)
		return err_set(why, "%d ranks are more than %d", p->host->size, PEERS_MAX);
	process_where(card->where);
	p->flags = cu_flags_open(why);
	p->piece[0].data = backend_cuda.alloc(p->device, FLAG_BYTES, why);
	if (!p->flags || !p->piece[0].data)
		return -1;
	p->piece[0].bytes = FLAG_BYTES;
	p->begun = backend_cuda.event(p->device);
	p->pushed = backend_cuda.event(p->device);
	p->passed = backend_cuda.event(p->device);
	p->push.base.device = p->device;
	if (rc == cudaSuccess)
		rc = cudaGetDevice(&index);
	if (rc == cudaSuccess)
		rc = cudaDeviceGetAttribute(&p->num_sms, cudaDevAttrMultiProcessorCount, index);
	if (rc == cudaSuccess)
		rc = cudaStreamCreateWithPriority(&p->push.handle, cudaStreamNonBlocking, greatest);
	for (int i = 0; rc == cudaSuccess && i < p->num_pieces; i++)
		rc = cudaIpcGetMemHandle(&card->handle[i], p->piece[i].data);
	return refused(rc, "memory cannot be exported", why);
}

/* Maps a rank's pieces. */
static int
map_rank(struct peers *p, int rank, const struct card *card, struct err *why)
{
	for (int i = 0; i < p->num_pieces; i++) {
		void *at = NULL;
		cudaError_t rc =
		    cudaIpcOpenMemHandle(&at, card->handle[i], cudaIpcMemLazyEnablePeerAccess);

		if (refused(rc, "memory of another GPU cannot be mapped", why) < 0)
			return -1;
		p->base[rank][i] = at;
	}
	return 0;
}

/* Collective over host. A host that does not tell its boot is nobody's. */
static int
map_all(struct peers *p, const struct card *own, struct err *why)
{
	struct comm *host = p->host;
	struct card *card = mem_zalloc((size_t)host->size, sizeof *card);
	struct tensor in, out;
	int rc = 0;

	card[host->rank] = *own;
	in = tensor_1d(&card[host->rank], DTYPE_U8, sizeof *card);
	out = tensor_1d(card, DTYPE_U8, (int64_t)sizeof *card * host->size);
	host->ops->all_gather(COMM_HERE(host), NULL, &(struct comm_gather){ out, in });
	for (int r = 0; r < host->size && rc == 0; r++) {
		if (*own->where == ' ' || strcmp(card[r].where, own->where) != 0)
			rc = err_set(why, "they are on several hosts");
		else if (r != host->rank)
			rc = map_rank(p, r, &card[r], why);
	}
	for (int i = 0; i < p->num_pieces; i++)
		p->base[host->rank][i] = p->piece[i].data;
	free(card);
	return rc;
}

struct peers *
peers_open(struct comm *host, struct device *d, const struct comm_memory *piece, int count,
    struct err *why)
{
	struct peers *p = mem_zalloc(1, sizeof *p);
	struct card card = { .where = "" };

	if (count >= PIECES)
		BUG("%d pieces of memory to share, at most %d", count, PIECES - 1);
	p->host = host;
	p->device = d;
	p->num_pieces = 1 + count;
	memcpy(p->piece + 1, piece, (size_t)count * sizeof *piece);
	if (!comm_agree(COMM_HERE(host), prepare(p, &card, why), why) &&
	    !comm_agree(COMM_HERE(host), map_all(p, &card, why), why))
		return p;
	peers_close(p);
	return NULL;
}

/* No memory is freed before all have let go of it: that which a caller shares is freed later. */
void
peers_close(struct peers *p)
{
	if (!p)
		return;
	for (int r = 0; r < PEERS_MAX; r++)
		for (int i = 0; r != p->host->rank && i < p->num_pieces; i++)
			if (p->base[r][i])
				(void)cudaIpcCloseMemHandle(p->base[r][i]);
	p->host->ops->barrier(COMM_HERE(p->host));
	if (p->piece[0].data)
		backend_cuda.release(p->device, p->piece[0].data);
	if (p->push.handle)
		(void)cudaStreamDestroy(p->push.handle);
	cu_flags_close(p->flags);
	free(p);
}

/* --- one call --------------------------------------------------------------------------------- */

/* Where a rank has what this one has at `own`; NULL: not in memory that is shared. */
static void *
find(const struct peers *p, int rank, const void *own)
{
	for (int i = 0; i < p->num_pieces; i++) {
		uintptr_t at = (uintptr_t)own - (uintptr_t)p->piece[i].data;

		if (at < p->piece[i].bytes)
			return p->base[rank][i] + at;
	}
	return NULL;
}

bool
peers_hold(const struct peers *p, const struct tensor *t)
{
	return find(p, p->host->rank, t->data) != NULL;
}

static void *
place(const struct peers *p, int rank, const void *own)
{
	void *at = find(p, rank, own);

	if (!at)
		BUG("an array that others write to is not in memory that is shared");
	return at;
}

/* In memory of a rank: what `of` tells it. */
static uint32_t *
flag(const struct peers *p, int rank, enum flag kind, int of)
{
	return (uint32_t *)(void *)p->base[rank][0] + (int)kind * PEERS_MAX + of;
}

/* The i-th rank from this one on; i may be negative. */
static int
next_rank(const struct peers *p, int i)
{
	return (p->host->rank + p->host->size + i) % p->host->size;
}

/* From here on the stream reads none of what the others write to for this piece. */
static void
open_memory(struct peers *p, struct stream *st)
{
	p->number++;
	for (int i = 1; i < p->host->size; i++)
		cu_flag_write(
		    p->flags, st, flag(p, next_rank(p, i), FLAG_OPEN, p->host->rank), p->number);
}

/* Calls pass one after the other, as numbers of flags do, on whatever stream. Without events what
 * is pushed is there when the stream gets here. */
static void
begin_call(struct peers *p, struct stream *st, bool events)
{
	backend_cuda.wait(st, p->passed);
	if (events)
		return;
	backend_cuda.record(st, p->begun);
	backend_cuda.wait(&p->push.base, p->begun);
}

/* When a rank's memory may be written to. */
static void
begin_push(struct peers *p, int to)
{
	cu_flag_wait(p->flags, &p->push.base, flag(p, p->host->rank, FLAG_OPEN, to), p->number);
}

/* To where a rank has what this one has at `at`. */
static void
copy(struct peers *p, int to, void *at, const struct tensor *part)
{
	cu_ok(p->device,
	    cudaMemcpyAsync(place(p, to, at), part->data, tensor_bytes(part),
		cudaMemcpyDeviceToDevice, cu_handle(&p->push.base)),
	    "copy to another GPU");
}

/* All that it is sent has come. */
static void
finish_push(struct peers *p, int to)
{
	cu_flag_write(p->flags, &p->push.base, flag(p, to, FLAG_CAME, p->host->rank), p->number);
}

static void
push(struct peers *p, int to, void *at, const struct tensor *part)
{
	begin_push(p, to);
	copy(p, to, at, part);
	finish_push(p, to);
}

/* What this rank has pushed has been read. */
static void
end_call(struct peers *p, struct stream *st)
{
	backend_cuda.record(&p->push.base, p->pushed);
	backend_cuda.wait(st, p->pushed);
	backend_cuda.record(st, p->passed);
}

static void
await(struct peers *p, struct stream *st, int from, uint32_t number)
{
	cu_flag_wait(p->flags, st, flag(p, p->host->rank, FLAG_CAME, from), number);
}

void
peers_gather(struct peers *p, struct stream *st, const struct comm_parts *parts)
{
	struct comm *c = p->host;
	struct tensor own = comm_whole(c, parts, c->rank);

	if (comm_part(c, &parts->part, &parts->whole) == 0)
		return;
	begin_call(p, st, false);
	open_memory(p, st);
	for (int i = 1; i < c->size; i++)
		push(p, next_rank(p, -i), own.data, &parts->part);
	for (int i = 1; i < c->size; i++) {
		int from = next_rank(p, i);

		await(p, st, from, p->number);
		if (parts->event)
			backend_cuda.record(st, parts->event[from]);
	}
	end_call(p, st);
}

void
peers_all_to_all(struct peers *p, struct stream *st, const struct comm_block *block, int count)
{
	int size = p->host->size, own = p->host->rank;

	begin_call(p, st, false);
	open_memory(p, st);
	for (int i = 1; i < size; i++) {
		int to = next_rank(p, -i);

		begin_push(p, to);
		for (int k = 0; k < count; k++)
			copy(p, to, block[k * size + own].take.data, &block[k * size + to].give);
		finish_push(p, to);
	}
	for (int i = 1; i < size; i++)
		await(p, st, next_rank(p, i), p->number);
	end_call(p, st);
}

/* --- a scatter -------------------------------------------------------------------------------- */

/* Of every part the same elements, and the slots that they pass through. */
struct piece {
	const struct comm_parts *parts;
	int64_t first, count;
	struct tensor partial_sums; /* one for each other rank, in their order */
	uint32_t number;
};

/* Elements of a piece: a whole part, or what lets two pieces be in the slots at once. */
static int64_t
piece_size(const struct comm *c, const struct comm_parts *parts, int64_t count)
{
	int64_t room = tensor_elements(&parts->partial_sums) / (c->size - 1);

	return count <= room ? count : room / COMM_ROOM * (COMM_ROOM / 2);
}

/* The i-th piece of parts of `count` elements. */
static struct piece
piece_at(const struct peers *p, const struct comm_parts *parts, int64_t count, int64_t i)
{
	int64_t size = piece_size(p->host, parts, count), others = p->host->size - 1;
	int64_t rest = count - i * size;
	struct tensor partial_sums = tensor_flat(&parts->partial_sums);

	return (struct piece){
		.parts = parts,
		.first = i * size,
		.count = rest < size ? rest : size,
		.partial_sums = tensor_rows(&partial_sums, i % 2 * size * others, size * others),
	};
}

/* What a rank has for the sum that `to` makes. */
static struct tensor
term_for(const struct peers *p, const struct piece *k, int to)
{
	struct tensor part = comm_whole(p->host, k->parts, to);

	return tensor_rows(&part, k->parts->first + k->first, k->count);
}

/* Where a rank gets what `from` pushes. */
static struct tensor
slot(const struct peers *p, const struct piece *k, int rank, int from)
{
	int64_t size = k->partial_sums.shape[0] / (p->host->size - 1);

	return tensor_rows(&k->partial_sums, (from < rank ? from : from - 1) * size, k->count);
}

static void
push_piece(struct peers *p, struct stream *st, struct piece *k)
{
	open_memory(p, st);
	k->number = p->number;
	for (int i = 1; i < p->host->size; i++) {
		int to = next_rank(p, i);
		struct tensor term = term_for(p, k, to);

		if (k->first == 0 && k->parts->event)
			backend_cuda.wait(&p->push.base, k->parts->event[to]);
		push(p, to, slot(p, k, to, p->host->rank).data, &term);
	}
}

/* Slots are in the order of ranks. */
static void
add_piece(struct peers *p, struct stream *st, const struct piece *k)
{
	struct comm *c = p->host;
	struct tensor part = tensor_flat(&k->parts->part), others;
	int64_t size = k->partial_sums.shape[0] / (c->size - 1);

	others = tensor_2d(k->partial_sums.data, k->partial_sums.dtype, c->size - 1, size);
	if (k->first == 0 && k->parts->event)
		backend_cuda.wait(st, k->parts->event[c->rank]);
	for (int i = 1; i < c->size; i++)
		await(p, st, next_rank(p, -i), k->number);
	st->ops->sum(st,
	    &(struct sum){ .y = tensor_rows(&part, k->first, k->count),
		.x = term_for(p, k, c->rank),
		.others = tensor_columns(&others, 0, k->count),
		.own = c->rank,
		.block = k->parts->block });
}

void
peers_scatter(struct peers *p, struct stream *st, const struct comm_parts *parts)
{
	int64_t count = comm_partial_sums(p->host, parts), pieces;
	struct piece piece[2];

	if (count == 0)
		return;
	pieces = (count - 1) / piece_size(p->host, parts, count) + 1;
	begin_call(p, st, parts->event);
	for (int64_t i = 0; i <= pieces; i++) {
		if (i < pieces) {
			piece[i % 2] = piece_at(p, parts, count, i);
			push_piece(p, st, &piece[i % 2]);
		}
		if (i > 0)
			add_piece(p, st, &piece[(i - 1) % 2]);
	}
	end_call(p, st);
}

/* --- messages --------------------------------------------------------------------------------- */

/* From one rank's tensor to the other's receive buffer, and from there. That a piece may be written
 * says the flag with the number of the one before it, which has been taken out. */
void
peers_message(
    struct peers *p, struct stream *st, const struct p2p *m, const struct tensor *receive_buffer)
{
	struct tensor all = tensor_flat(&m->buf);
	int64_t left = tensor_elements(&all),
		room = (int64_t)(tensor_bytes(receive_buffer) / dtype_size(all.dtype));

	for (int64_t at = 0; at < left; at += room) {
		struct tensor part = tensor_rows(&all, at, left - at < room ? left - at : room);
		uint32_t before = p->number++;
		void *here =
		    m->send ? place(p, m->peer, receive_buffer->data) : receive_buffer->data;

		if (m->send)
			cu_flag_wait(
			    p->flags, st, flag(p, p->host->rank, FLAG_OPEN, m->peer), before);
		else
			await(p, st, m->peer, p->number);
		cu_ok(p->device,
		    cudaMemcpyAsync(m->send ? here : part.data, m->send ? part.data : here,
			tensor_bytes(&part), cudaMemcpyDeviceToDevice, cu_handle(st)),
		    "message between GPUs");
		cu_flag_write(p->flags, st,
		    flag(p, m->peer, m->send ? FLAG_CAME : FLAG_OPEN, p->host->rank), p->number);
	}
}

/* --- rows ------------------------------------------------------------------------------------- */

void
peers_rows(struct peers *p, struct stream *st, const struct rows_exchange *x)
{
	struct rows_copy c = { .counts = x->counts,
		.rank = p->host->rank,
		.size = p->host->size,
		.back = x->back,
		.first = x->first,
		.round = (x->back ? &x->in : &x->out)->shape[0],
		.row_bytes = x->in.shape[1] * (int64_t)dtype_size(x->in.dtype),
		.in = x->in.data,
		.arrived = (uint32_t *)(void *)(p->base[p->host->rank][0] + ARRIVED),
		.number = ++p->number };

	if (x->counts.shape[1] > ROWS_EXPERTS)
		BUG("rows for %lld experts, at most %d", (long long)x->counts.shape[1],
		    ROWS_EXPERTS);
	for (int r = 0; r < c.size; r++) {
		c.out[r] = place(p, r, x->out.data);
		c.flags[r] = (uint32_t *)(void *)p->base[r][0];
	}
	backend_cuda.wait(st, p->passed);
	cu_ok(p->device, rows_copy(&c, p->num_sms, cu_handle(st)), "rows to other GPUs");
	backend_cuda.record(st, p->passed);
}

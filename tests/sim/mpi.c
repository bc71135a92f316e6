/*
 * mpi.c - what train/mpi asks of MPI, between simulated processes
 *
 * Messages take a drawn time, in order between two ranks. Whether a send returns before the
 * receiver has asked for it is drawn as well, since MPI promises neither. Collectives are made of
 * messages, so that ranks leave one as soon as MPI allows. A peer's death is told to nobody, or,
 * where the seed says so, fails the calls that wait for it.
 */
#include "lib/base/mem.h"
#include "tests/sim/faults.h"
#include "tests/sim/world.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = RANKS, COLLECTIVE_TAG = 1 << 30, COMMS = 4096 };

struct request {
	struct request *next; /* posted receives, or messages under way, of a process */
	bool send, matched, failed;
	int context, peer, tag; /* the peer is a rank of the world */
	char *bytes;
	size_t len;
	int64_t done; /* when it is complete; NEVER: not known */
	/* of a message: its sender's request, which is complete once it is received; NULL: it is
	 * complete */
	struct request *sender;
	int64_t arrives;
};

struct group {
	int context, size, rank;
	int member[MEMBERS]; /* ranks of the world */
	int calls;           /* collectives so far */
};

struct mpi {
	bool begun, ended;
	int size;
	struct group world;
	struct request *posted, *arrived; /* in order */
	int64_t last[RANKS];              /* arrival of the last message to each rank */
	struct thread *waiter;
};

/* Of a derived type: so many bytes, every `stride` bytes. */
struct type {
	size_t bytes, stride;
};

static int num_contexts;

static struct mpi *
own(void)
{
	return sim.current->process->mpi;
}

static struct process *
peer_of(int rank)
{
	for (struct process *p = sim.processes; p; p = p->next)
		if (p->job == sim.current->process->job && p->rank == rank)
			return p;
	return NULL;
}

static struct group *
group_of(MPI_Comm c)
{
	return c == MPI_COMM_WORLD ? &own()->world : (struct group *)(void *)c;
}

void
mpi_process_begin(struct process *p, int size)
{
	struct mpi *m = mem_zalloc(1, sizeof *m);

	m->size = m->world.size = size;
	m->world.rank = p->rank < 0 ? 0 : p->rank;
	for (int i = 0; i < size; i++)
		m->world.member[i] = i;
	p->mpi = m;
}

bool
mpi_started_not_finalized(const struct process *p)
{
	return p->mpi && p->mpi->begun && !p->mpi->ended;
}

static void
wake(struct process *p)
{
	if (!p->ended && p->mpi && p->mpi->waiter)
		thread_wake(p->mpi->waiter, 0);
}

/* What a dead rank would have handed over when it was asked for is lost. */
static void
drop_offers(struct mpi *m, int rank)
{
	struct request **x = &m->arrived;

	while (*x) {
		if ((*x)->sender && (*x)->peer == rank)
			*x = (*x)->next;
		else
			x = &(*x)->next;
	}
}

/* What others wait for from a dead rank fails, where the seed says so. */
void
mpi_process_ended(struct process *dead)
{
	bool told = sim.faults && sim.faults->report_deaths;

	if (!dead->mpi)
		return;
	for (struct request *r = dead->mpi->arrived; r; r = r->next)
		if (r->sender)
			r->sender->failed = told;
	for (struct process *p = sim.processes; p; p = p->next) {
		if (p->job != dead->job || p->ended || !p->mpi)
			continue;
		drop_offers(p->mpi, dead->rank);
		for (struct request *r = p->mpi->posted; told && r; r = r->next)
			r->failed |= r->peer == dead->rank;
		wake(p);
	}
}

/* --- messages --------------------------------------------------------------------------------- */

static bool
matches(const struct request *receive, const struct request *message)
{
	return receive->context == message->context && receive->tag == message->tag &&
	    receive->peer == message->peer;
}

static void
unlink_request(struct request **list, struct request *r)
{
	while (*list != r)
		list = &(*list)->next;
	*list = r->next;
	r->next = NULL;
}

static void
append(struct request **list, struct request *r)
{
	while (*list)
		list = &(*list)->next;
	*list = r;
}

/* A receive and a message have met: the bytes are there when the message has arrived. */
static void
meet(struct process *to, struct request *receive, struct request *message)
{
	if (message->len != receive->len) {
		fprintf(stderr, "sim: a message of %zu bytes meets a receive of %zu\n",
		    message->len, receive->len);
		abort();
	}
	if (message->len)
		memcpy(receive->bytes, message->bytes, message->len);
	receive->matched = true;
	receive->done = message->arrives > sim.now ? message->arrives : sim.now;
	if (message->sender) {
		struct process *from = peer_of(message->peer);

		message->sender->done = receive->done + draw_delay(sim.wire_delay);
		if (from)
			wake(from);
	} else {
		free(message->bytes);
	}
	free(message);
	wake(to);
}

/* The bytes are copied now, or when the receiver has asked for them, which is when the send is
 * complete. */
static void
start_send(struct request *r)
{
	struct process *to = peer_of(r->peer);
	struct mpi *m = own();
	struct request *message, **x;
	bool early = draw(2);
	int64_t *last = &m->last[r->peer];

	*last = (*last > sim.now ? *last : sim.now) + draw_delay(sim.wire_delay);
	if (draw_one_in(200) && sim.pause_one_in)
		*last += (int64_t)draw((uint64_t)sim.pause_max);
	r->done = early ? sim.now : NEVER;
	r->matched = true;
	if (!to || to->ended || !to->mpi) {
		r->failed = sim.faults && sim.faults->report_deaths;
		return;
	}
	message = mem_zalloc(1, sizeof *message);
	*message = (struct request){ .context = r->context,
		.peer = m->world.rank,
		.tag = r->tag,
		.len = r->len,
		.bytes = r->bytes,
		.sender = early ? NULL : r,
		.arrives = *last };
	if (early) {
		message->bytes = mem_alloc(r->len + 1, 1);
		if (r->len)
			memcpy(message->bytes, r->bytes, r->len);
	}
	for (x = &to->mpi->posted; *x; x = &(*x)->next)
		if (matches(*x, message)) {
			struct request *receive = *x;

			unlink_request(&to->mpi->posted, receive);
			meet(to, receive, message);
			return;
		}
	append(&to->mpi->arrived, message);
}

static void
start_receive(struct request *r)
{
	struct process *self = sim.current->process, *from = peer_of(r->peer);
	struct mpi *m = own();

	r->done = NEVER;
	for (struct request *x = m->arrived; x; x = x->next)
		if (matches(r, x)) {
			unlink_request(&m->arrived, x);
			meet(self, r, x);
			return;
		}
	if (sim.faults && sim.faults->report_deaths && from && from->ended)
		r->failed = true;
	append(&m->posted, r);
}

/* The peer is given as a rank of the group. */
static struct request *
start(const struct group *g, bool send, const void *bytes, size_t len, int peer, int tag)
{
	struct request *r = mem_zalloc(1, sizeof *r);

	*r = (struct request){ .send = send,
		.context = g->context,
		.peer = g->member[peer],
		.tag = tag,
		.bytes = (char *)(uintptr_t)bytes,
		.len = len };
	if (send)
		log_event("message", NULL, g->member[peer], (int64_t)hash_bytes(0, bytes, len));
	(send ? start_send : start_receive)(r);
	return r;
}

/* Waits until it is complete, and frees it. */
static int
finish(struct request *r)
{
	struct mpi *m = own();
	struct thread *self = sim.current;
	bool failed;

	while (!r->failed && (r->done == NEVER || r->done > sim.now)) {
		self->ready = r->done;
		m->waiter = self;
		schedule();
		m->waiter = NULL;
	}
	failed = r->failed;
	if (failed) { /* a message may still come for it */
		call_begin(CALL_WAIT, "failed", r->peer);
		return MPI_ERR_OTHER;
	}
	free(r);
	return MPI_SUCCESS;
}

int
sim_MPI_Isend(const void *bytes, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r)
{
	(void)t;
	call_begin(CALL_SEND, NULL, n);
	*r = (MPI_Request)(void *)start(group_of(c), true, bytes, (size_t)n, to, tag);
	return MPI_SUCCESS;
}

int
sim_MPI_Irecv(void *bytes, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r)
{
	(void)t;
	call_begin(CALL_RECEIVE, NULL, n);
	*r = (MPI_Request)(void *)start(group_of(c), false, bytes, (size_t)n, from, tag);
	return MPI_SUCCESS;
}

int
sim_MPI_Waitall(int n, MPI_Request r[], MPI_Status status[])
{
	int rc = MPI_SUCCESS;

	(void)status;
	call_begin(CALL_WAIT, "messages", n);
	for (int i = 0; i < n && rc == MPI_SUCCESS; i++)
		rc = finish((struct request *)(void *)r[i]);
	return rc;
}

/* --- collectives ------------------------------------------------------------------------------ */

/* Different calls never meet: the ranks wait for ever, as they would. */
enum kind { ALLGATHER, ALLGATHERV, BROADCAST, GATHER, BARRIER, SPLIT, FREE, BEGIN, END, KINDS };

/* Ranks exchange what is theirs: give goes to each other rank that `to` says, take comes from each
 * that `from` says, at take + rank * stride. */
struct swap {
	const void *give;
	size_t give_len;
	char *take;
	size_t take_len, stride;
	int root; /* of a call in which one rank alone gives or takes; -1: all do both */
	bool root_gives;
	enum kind kind;
};

static int
swap(struct group *g, const struct swap *s, const size_t *lens, const size_t *starts)
{
	struct request *r[2 * MEMBERS];
	int n = 0, rc = MPI_SUCCESS, tag = COLLECTIVE_TAG + g->calls++ * KINDS + (int)s->kind;
	bool root = s->root == g->rank, all = s->root < 0;

	for (int i = 0; i < g->size; i++) {
		bool from = all || (s->root_gives ? i == s->root : root);

		if (i != g->rank && from)
			r[n++] =
			    start(g, false, s->take + (starts ? starts[i] : (size_t)i * s->stride),
				lens ? lens[i] : s->take_len, i, tag);
	}
	for (int i = 0; i < g->size; i++) {
		bool to = all || (s->root_gives ? root : i == s->root);

		if (i != g->rank && to)
			r[n++] = start(g, true, s->give, s->give_len, i, tag);
	}
	for (int i = 0; i < n && rc == MPI_SUCCESS; i++)
		rc = finish(r[i]);
	return rc;
}

static size_t
size_of(MPI_Datatype t)
{
	return t == MPI_BYTE ? 1 : t == MPI_UINT64_T ? 8 : ((struct type *)(void *)t)->bytes;
}

/* In place with a type whose parts lie further apart than they are long, or from `in` to `out`. */
int
sim_MPI_Allgather(
    const void *in, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u, MPI_Comm c)
{
	struct group *g = group_of(c);
	bool derived = u != MPI_BYTE && u != MPI_UINT64_T;
	size_t len = (size_t)m * size_of(u);
	size_t stride = derived ? ((struct type *)(void *)u)->stride : len;
	char *mine = (char *)out + (size_t)g->rank * stride;

	(void)n;
	(void)t;
	call_begin(CALL_SEND, "allgather", (int64_t)len);
	if (in != MPI_IN_PLACE && len)
		memmove(mine, in, len);
	return swap(g,
	    &(struct swap){ .give = mine,
		.give_len = len,
		.take = out,
		.take_len = len,
		.stride = stride,
		.root = -1,
		.kind = ALLGATHER },
	    NULL, NULL);
}

/* In place. */
int
sim_MPI_Allgatherv(const void *in, int n, MPI_Datatype t, void *out, const int count[],
    const int start_of[], MPI_Datatype u, MPI_Comm c)
{
	struct group *g = group_of(c);
	size_t len[MEMBERS], at[MEMBERS];

	(void)in;
	(void)n;
	(void)t;
	(void)u;
	call_begin(CALL_SEND, "allgatherv", count[0]);
	for (int i = 0; i < g->size; i++) {
		len[i] = (size_t)count[i];
		at[i] = (size_t)start_of[i];
	}
	return swap(g,
	    &(struct swap){ .give = (char *)out + at[g->rank],
		.give_len = len[g->rank],
		.take = out,
		.root = -1,
		.kind = ALLGATHERV },
	    len, at);
}

int
sim_MPI_Bcast(void *bytes, int n, MPI_Datatype t, int root, MPI_Comm c)
{
	size_t len = (size_t)n * size_of(t);

	call_begin(CALL_SEND, "broadcast", n);
	return swap(group_of(c),
	    &(struct swap){ .give = bytes,
		.give_len = len,
		.take = bytes,
		.take_len = len,
		.root = root,
		.root_gives = true,
		.kind = BROADCAST },
	    NULL, NULL);
}

int
sim_MPI_Gather(
    const void *in, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u, int root, MPI_Comm c)
{
	struct group *g = group_of(c);
	size_t len = (size_t)n * size_of(t);

	(void)m;
	(void)u;
	call_begin(CALL_SEND, "gather", n);
	if (g->rank == root)
		memcpy((char *)out + (size_t)root * len, in, len);
	return swap(g,
	    &(struct swap){ .give = in,
		.give_len = len,
		.take = out,
		.take_len = len,
		.stride = len,
		.root = root,
		.kind = GATHER },
	    NULL, NULL);
}

static int
meet_all(struct group *g, enum kind kind)
{
	return swap(
	    g, &(struct swap){ .give = "", .take = NULL, .root = -1, .kind = kind }, NULL, NULL);
}

int
sim_MPI_Barrier(MPI_Comm c)
{
	call_begin(CALL_SEND, "barrier", 0);
	return meet_all(group_of(c), BARRIER);
}

/* --- communicators ---------------------------------------------------------------------------- */

struct bid {
	int color, key, context;
};

/* The number of the new communicator is that which the first of the old one's ranks has drawn, plus
 * the color. */
static int
split(MPI_Comm c, struct bid own_bid, MPI_Comm *out)
{
	struct group *g = group_of(c), *part = mem_zalloc(1, sizeof *part);
	struct bid bid[MEMBERS];
	int rc;

	own_bid.context = ++num_contexts * COMMS;
	bid[g->rank] = own_bid;
	rc = swap(g,
	    &(struct swap){ .give = &bid[g->rank],
		.give_len = sizeof *bid,
		.take = (char *)bid,
		.take_len = sizeof *bid,
		.stride = sizeof *bid,
		.root = -1,
		.kind = SPLIT },
	    NULL, NULL);
	*out = MPI_COMM_NULL;
	if (rc != MPI_SUCCESS || own_bid.color < 0)
		return rc;
	part->context = bid[0].context + 1 + own_bid.color;
	for (int i = 0; i < g->size; i++) {
		int at = part->size;

		if (bid[i].color != own_bid.color)
			continue;
		while (at > 0 && bid[i].key < bid[part->member[at - 1]].key) {
			part->member[at] = part->member[at - 1];
			at--;
		}
		part->member[at] = i;
		part->size++;
	}
	for (int i = 0; i < part->size; i++) {
		if (part->member[i] == g->rank)
			part->rank = i;
		part->member[i] = g->member[part->member[i]];
	}
	*out = (MPI_Comm)(void *)part;
	return MPI_SUCCESS;
}

int
sim_MPI_Comm_split(MPI_Comm c, int color, int key, MPI_Comm *out)
{
	call_begin(CALL_SEND, "split", color);
	return split(
	    c, (struct bid){ .color = color == MPI_UNDEFINED ? -1 : color, .key = key }, out);
}

int
sim_MPI_Comm_free(MPI_Comm *c)
{
	int rc;

	call_begin(CALL_SEND, "free", 0);
	rc = meet_all(group_of(*c), FREE);
	free((void *)*c);
	*c = MPI_COMM_NULL;
	return rc;
}

int
sim_MPI_Comm_rank(MPI_Comm c, int *rank)
{
	*rank = group_of(c)->rank;
	return MPI_SUCCESS;
}

int
sim_MPI_Comm_size(MPI_Comm c, int *size)
{
	*size = group_of(c)->size;
	return MPI_SUCCESS;
}

int
sim_MPI_Comm_set_errhandler(MPI_Comm c, MPI_Errhandler e)
{
	(void)c;
	(void)e;
	return MPI_SUCCESS;
}

/* --- types ------------------------------------------------------------------------------------ */

int
sim_MPI_Type_contiguous(int n, MPI_Datatype of, MPI_Datatype *out)
{
	struct type *t = mem_zalloc(1, sizeof *t);

	t->bytes = t->stride = (size_t)n * size_of(of);
	*out = (MPI_Datatype)(void *)t;
	return MPI_SUCCESS;
}

int
sim_MPI_Type_create_resized(MPI_Datatype of, MPI_Aint low, MPI_Aint extent, MPI_Datatype *out)
{
	struct type *t = mem_zalloc(1, sizeof *t);

	(void)low;
	t->bytes = size_of(of);
	t->stride = (size_t)extent;
	*out = (MPI_Datatype)(void *)t;
	return MPI_SUCCESS;
}

int
sim_MPI_Type_commit(MPI_Datatype *t)
{
	(void)t;
	return MPI_SUCCESS;
}

int
sim_MPI_Type_free(MPI_Datatype *t)
{
	free((void *)*t);
	*t = MPI_DATATYPE_NULL;
	return MPI_SUCCESS;
}

/* --- beginning and end ------------------------------------------------------------------------ */

/* A program that no launcher started is a world of one. */
int
sim_MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided)
{
	(void)argc;
	(void)argv;
	call_begin(CALL_OTHER, "MPI_Init", 0);
	if (!own())
		mpi_process_begin(sim.current->process, 1);
	own()->begun = true;
	*provided = wanted;
	return meet_all(&own()->world, BEGIN);
}

int
sim_MPI_Query_thread(int *provided)
{
	*provided = MPI_THREAD_FUNNELED;
	return MPI_SUCCESS;
}

int
sim_MPI_Initialized(int *flag)
{
	*flag = own() && own()->begun;
	return MPI_SUCCESS;
}

int
sim_MPI_Finalized(int *flag)
{
	*flag = own() && own()->ended;
	return MPI_SUCCESS;
}

int
sim_MPI_Finalize(void)
{
	int rc;

	call_begin(CALL_OTHER, "MPI_Finalize", 0);
	rc = meet_all(&own()->world, END);
	own()->ended = true;
	return rc;
}

int
sim_MPI_Abort(MPI_Comm c, int status)
{
	(void)c;
	call_begin(CALL_OTHER, "MPI_Abort", status);
	launcher_abort(sim.current->process, status);
}

int
sim_MPI_Error_string(int code, char *text, int *len)
{
	*len = snprintf(text, MPI_MAX_ERROR_STRING, "a peer has gone (%d)", code);
	return MPI_SUCCESS;
}

int
sim_MPI_Get_library_version(char *text, int *len)
{
	*len = snprintf(text, MPI_MAX_LIBRARY_VERSION_STRING, "simulated MPI");
	return MPI_SUCCESS;
}

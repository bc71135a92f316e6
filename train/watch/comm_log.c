/*
 * comm_log.c - wraps a table of operations, recording each call before making it
 *
 * Each communicator has a ring of its last calls. Calls of one communicator end in order, since it
 * queues on one stream at a time, so one number says which have ended: for calls that block, the
 * writer advances it; for queued calls, the reader does, by the events recorded after them. The
 * number of a slot is zero while it is written; a reader that finds zero, or another number after
 * reading, treats the slot as overwritten.
 */
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "train/watch/comm_log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* More calls than the host can be ahead of the device: the driver lets it queue about a thousand
 * kernels. */
enum { SLOTS = 512 };

/* More places than a step, its log and its save have calls of all ranks at. */
enum { COURSES = 32 };

struct slot {
	atomic_uint_fast64_t number, bytes;
	atomic_int role;
	_Atomic(const char *) kind, site;
	_Atomic double begun;
	/* before and after the call on its stream; NULL: not made yet */
	_Atomic(struct event *) reached, passed;
	atomic_bool queued; /* what comes before it on a stream is marked by `reached` */
};

/* The calls of one communicator. */
struct comm_history {
	const struct comm_ops *inner;
	struct comm_group group;
	struct comm_log *log;
	struct comm_history *next;
	bool closed; /* its device may be gone; under the log's lock */
	/* the number of calls made; of queued calls, those that have their event; those that have
	 * ended */
	atomic_uint_fast64_t begun, queued, ended;
	double moved; /* when the reader last saw a queued call end */
	struct slot slot[SLOTS];
};

/* A call by what it has in common with the same one of another step. */
struct call {
	const char *site;
	enum comm_role role;
	uint64_t bytes;
};

/* The calls from one of all ranks, made at `site`, to the next of all ranks, that one included. */
struct course {
	const char *site;
	bool known; /* it has been gone through once */
	struct call *call;
	size_t count, room;
};

struct comm_log {
	pthread_mutex_t lock; /* of the list and of `closed` */
	struct comm_history *first;
	atomic_int call_group;
	atomic_bool unusual;
	void (*hold)(void *ctx);
	void *ctx;
	/* used by the writer alone */
	struct course course[COURSES], *now; /* now: NULL before the first call of all ranks */
	size_t at;                           /* calls of it that have been made */
};

const char *const comm_role_name[COMM_ROLES] = {
	[COMM_WORLD] = "all ranks",
	[COMM_LOGITS] = "ranks of the same logits",
	[COMM_TENSOR] = "tensor ranks",
	[COMM_CONTEXT] = "context ranks",
	[COMM_DATA] = "data ranks",
	[COMM_PIPELINE] = "pipeline stages",
	[COMM_STAGE] = "ranks of a stage",
	[COMM_EXPERTS] = "expert ranks",
	[COMM_EXPERT_DATA] = "data ranks of experts",
	[COMM_HEADS] = "tensor ranks of a group of heads",
	[COMM_TABLE] = "stages that share a table",
};

/* --- the writer ------------------------------------------------------------------------------- */

#define PUT(at, value) atomic_store_explicit(at, value, memory_order_relaxed)
#define GET(at) atomic_load_explicit(at, memory_order_relaxed)

/* The course that begins at this place; the last one serves all that find no room. */
static struct course *
course_from(struct comm_log *log, const char *site)
{
	struct course *c = log->course;

	while (c < &log->course[COURSES - 1] && c->site && c->site != site)
		c++;
	if (c->site != site)
		c->known = false;
	c->site = site;
	return c;
}

/* Compares a call with the one at its place in the course, which it replaces there. Source
 * positions are told apart by their addresses. */
static void
follow_course(struct comm_log *log, struct call call)
{
	struct course *c = log->now;
	struct call *last;

	if (c->room == log->at) {
		c->room = 2 * c->room + 64;
		c->call = mem_realloc(c->call, c->room, sizeof *c->call);
	}
	last = &c->call[log->at];
	if (log->at == 0)
		PUT(&log->unusual, false);
	if (c->known &&
	    (log->at >= c->count || last->site != call.site || last->role != call.role ||
		last->bytes != call.bytes))
		PUT(&log->unusual, true);
	*last = call;
	log->at++;
}

/* A rank that has left out a call notices it here: the next one is not the one that came there the
 * last time. Texts, which only all ranks gather, are longer at one time than at another. Nothing is
 * learnt from two calls of all ranks without another between them: what is only done at some steps.
 */
static void
note_course(struct comm_log *log, enum comm_role role, const char *site, uint64_t bytes)
{
	bool all = role == COMM_WORLD;

	if (log->now && !(all && log->at == 0))
		follow_course(log, (struct call){ site, role, all ? 0 : bytes });
	if (!all)
		return;
	if (log->now && log->at > 0) {
		log->now->count = log->at;
		log->now->known = true;
	}
	log->now = course_from(log, site);
	log->at = 0;
}

static void
begin(struct comm_history *h, struct comm_record r)
{
	struct slot *s;

	note_course(h->log, h->group.role, r.site, r.bytes);
	r.number = GET(&h->begun) + 1;
	s = &h->slot[r.number % SLOTS];
	PUT(&s->number, 0);
	atomic_thread_fence(memory_order_release);
	PUT(&s->bytes, r.bytes);
	PUT(&s->role, (int)r.role);
	PUT(&s->kind, r.kind);
	PUT(&s->site, r.site ? r.site : "no place");
	PUT(&s->begun, clock_seconds());
	atomic_store_explicit(&s->number, r.number, memory_order_release);
	atomic_store_explicit(&h->begun, r.number, memory_order_release);
}

/* The event of a place in a slot, made on first use. */
static struct event *
event_of(struct comm_history *h, _Atomic(struct event *) *place)
{
	if (!GET(place))
		atomic_store_explicit(
		    place, h->group.backend->event(h->group.device), memory_order_release);
	return GET(place);
}

/* From its event on the latest call has ended. st: what it was queued on. */
static void
end(struct comm_history *h, struct stream *st)
{
	const struct backend *b = h->group.backend;
	uint64_t number = GET(&h->begun);

	if (!b) {
		atomic_store_explicit(&h->ended, number, memory_order_release);
		return;
	}
	b->record(st, event_of(h, &h->slot[number % SLOTS].passed));
	atomic_store_explicit(&h->queued, number, memory_order_release);
}

/* Begins the record of a call, marks its place on the stream, which is NULL for one on the host,
 * and uses up the caller's source position. */
static struct comm_history *
begin_call(struct comm *c, struct stream *st, const char *kind, size_t bytes)
{
	struct comm_history *h = c->history;
	const struct backend *b = h->group.backend;
	struct slot *s = &h->slot[(GET(&h->begun) + 1) % SLOTS];

	if (b && st)
		b->record(st, event_of(h, &s->reached));
	PUT(&s->queued, b && st);
	begin(h, (struct comm_record){ 0, h->group.role, kind, c->site, bytes, 0 });
	c->site = NULL;
	return h;
}

/* A call that blocks the host, also where other calls are queued. */
static void
end_at_once(struct comm_history *h)
{
	if (!h->group.backend)
		end(h, NULL);
}

static struct comm *
logged_split(struct comm *c, int color, int key, struct err *e)
{
	struct comm_history *h = begin_call(c, NULL, "split", 0);
	struct comm *part = h->inner->split(c, color, key, e);

	end_at_once(h);
	return part;
}

/* On the host, and once: the caller tells of it, as of the connection. */
static bool
logged_share(struct comm *c, const struct comm_memory *piece, int count, struct err *why)
{
	return c->history->inner->share(c, piece, count, why);
}

/* Not recorded where calls are queued: there it belongs to the host, and the engine uses the
 * world's. */
static void
logged_barrier(struct comm *c)
{
	struct comm_history *h = c->history;

	if (h->group.backend) {
		h->inner->barrier(c);
		return;
	}
	begin_call(c, NULL, "barrier", 0);
	h->inner->barrier(c);
	end(h, NULL);
}

static char *
logged_gather_bytes(struct comm *c, const void *bytes, size_t len, int root, size_t *total)
{
	struct comm_history *h = begin_call(c, NULL, "gather", len);
	char *all = h->inner->gather_bytes(c, bytes, len, root, total);

	end_at_once(h);
	return all;
}

static void logged_abort(struct comm *c, int status) __attribute__((noreturn));

static void
logged_abort(struct comm *c, int status)
{
	struct comm_log *log = c->history->log;

	if (log->hold)
		log->hold(log->ctx);
	c->history->inner->abort(c, status);
	abort(); /* not reached */
}

/* The history stays readable; its events are no longer queried. */
static void
logged_free(struct comm *c)
{
	struct comm_history *h = c->history;

	pthread_mutex_lock(&h->log->lock);
	h->closed = h->group.backend != NULL;
	pthread_mutex_unlock(&h->log->lock);
	begin_call(c, NULL, "end", 0);
	c->ops = h->inner;
	h->inner->free(c);
	end_at_once(h);
}

#define CALL(call, type) \
	static void logged_##call(struct comm *c, struct stream *st, const struct type *a) \
	{ \
		struct comm_call (*describe)(int, const struct type *) = describe_##call; \
		struct comm_call made = describe(c->size, a); \
		struct comm_history *h = begin_call(c, st, made.kind, made.bytes); \
\
		h->inner->call(c, st, a); \
		end(h, st); \
	}

#include "train/comm_list.h"

static const struct comm_ops logged_ops = {
#define CALL(call, type) .call = logged_##call,
#include "train/comm_list.h"
	.split = logged_split,
	.share = logged_share,
	.barrier = logged_barrier,
	.gather_bytes = logged_gather_bytes,
	.abort = logged_abort,
	.free = logged_free,
};

/* --- the log ---------------------------------------------------------------------------------- */

static void
follow(struct comm_log *log, struct comm *c, const struct comm_group *g)
{
	struct comm_history *h;

	if (c->size == 1)
		return;
	h = mem_zalloc(1, sizeof *h);
	h->inner = c->ops;
	h->group = *g;
	h->log = log;
	c->history = h;
	c->ops = &logged_ops;
	pthread_mutex_lock(&log->lock);
	h->next = log->first;
	log->first = h;
	pthread_mutex_unlock(&log->lock);
}

struct comm_log *
comm_log_new(struct comm *world)
{
	struct comm_log *log = mem_zalloc(1, sizeof *log);

	pthread_mutex_init(&log->lock, NULL);
	follow(log, world, &(struct comm_group){ .role = COMM_WORLD });
	return log;
}

void
comm_log_free(struct comm_log *log)
{
	while (log->first) {
		struct comm_history *next = log->first->next;

		free(log->first);
		log->first = next;
	}
	for (int i = 0; i < COURSES; i++)
		free(log->course[i].call);
	pthread_mutex_destroy(&log->lock);
	free(log);
}

void
comm_log_join(struct comm *world, struct comm *c, const struct comm_group *g)
{
	if (world->history)
		follow(world->history->log, c, g);
}

void
comm_log_call_group(struct comm *world, int call_group)
{
	if (world->history)
		PUT(&world->history->log->call_group, call_group);
}

void
comm_log_on_abort(struct comm_log *log, void (*hold)(void *ctx), void *ctx)
{
	log->hold = hold;
	log->ctx = ctx;
}

void
comm_log_begin(struct comm *world, enum comm_role role, const char *kind)
{
	if (world->history)
		begin(world->history, (struct comm_record){ 0, role, kind, world->site, 0, 0 });
	world->site = NULL;
}

void
comm_log_end(struct comm *world)
{
	if (world->history)
		end(world->history, NULL);
}

/* --- the reader ------------------------------------------------------------------------------- */

/* False when the call is no longer in the ring. */
static bool
read_slot(const struct comm_history *h, uint64_t number, struct comm_record *r)
{
	const struct slot *s = &h->slot[number % SLOTS];

	if (number == 0 || atomic_load_explicit(&s->number, memory_order_acquire) != number)
		return false;
	*r = (struct comm_record){ number, (enum comm_role)GET(&s->role), GET(&s->kind),
		GET(&s->site), GET(&s->bytes), GET(&s->begun) };
	atomic_thread_fence(memory_order_acquire);
	return GET(&s->number) == number;
}

/* Advances `ended` over the calls that the device has passed. Calls that have left the ring count
 * as ended, since later calls of the same stream are in the ring. */
static void
ask_device(struct comm_history *h)
{
	const struct comm_group *g = &h->group;
	uint64_t queued = atomic_load_explicit(&h->queued, memory_order_acquire);
	uint64_t number = GET(&h->ended);

	if (queued > SLOTS && number < queued - SLOTS)
		number = queued - SLOTS;
	while (number < queued &&
	    g->backend->passed(g->device, GET(&h->slot[(number + 1) % SLOTS].passed)))
		number++;
	if (number != GET(&h->ended))
		h->moved = clock_seconds();
	PUT(&h->ended, number);
}

/* Whether the device is still at what comes before the call: it computes and waits for nobody. */
static bool
is_ahead(const struct comm_history *h, uint64_t number)
{
	const struct slot *s = &h->slot[number % SLOTS];
	struct event *reached = atomic_load_explicit(&s->reached, memory_order_acquire);

	return GET(&s->queued) && reached && !h->group.backend->passed(h->group.device, reached);
}

/* The state of one communicator. A call that is overwritten while it is read has ended. */
static void
state_of(struct comm_history *h, struct comm_state *out)
{
	uint64_t begun, ended;

	if (h->group.backend && !h->closed)
		ask_device(h);
	ended = atomic_load_explicit(&h->ended, memory_order_acquire);
	begun = atomic_load_explicit(&h->begun, memory_order_acquire);
	*out = (struct comm_state){ .waits = !h->closed && ended < begun };
	out->computes = out->waits && is_ahead(h, ended + 1);
	out->waits &= !out->computes;
	if (out->waits && read_slot(h, ended + 1, &out->at)) {
		out->since = out->at.begun > h->moved ? out->at.begun : h->moved;
		return;
	}
	out->waits = false;
	if (!read_slot(h, ended, &out->at))
		out->at.number = 0;
}

/* True when a describes the rank's position better than b: the older wait, else the later call. */
static bool
tells_more(const struct comm_state *a, const struct comm_state *b)
{
	if (a->waits != b->waits)
		return a->waits;
	if (a->waits)
		return a->since < b->since;
	return a->at.number && (!b->at.number || a->at.begun > b->at.begun);
}

/* The calls that each role has begun, and the role of the latest. The lock is held. */
static struct comm_call_counts
call_counts(const struct comm_log *log)
{
	struct comm_call_counts t = { .call_group = GET(&log->call_group),
		.unusual = GET(&log->unusual) };
	double latest = 0;

	for (const struct comm_history *h = log->first; h; h = h->next)
		t.calls[h->group.role] += atomic_load_explicit(&h->begun, memory_order_acquire);
	for (const struct comm_history *h = log->first; h; h = h->next) {
		struct comm_record r;

		if (!read_slot(h, GET(&h->begun), &r) || r.begun <= latest)
			continue;
		latest = r.begun;
		t.last = (int32_t)h->group.role;
	}
	return t;
}

void
comm_log_state(struct comm_log *log, struct comm_state *out)
{
	bool computes = false;

	*out = (struct comm_state){ 0 };
	pthread_mutex_lock(&log->lock);
	for (struct comm_history *h = log->first; h; h = h->next) {
		struct comm_state s;

		state_of(h, &s);
		computes |= s.computes;
		if (tells_more(&s, out))
			*out = s;
	}
	out->computes = computes && !out->waits;
	out->made = call_counts(log);
	pthread_mutex_unlock(&log->lock);
}

/* activation_offload.c - units that leave the device, on a device whose streams run apart: every
 * read finds what was saved, and events order each use of a place, and of the host's memory, after
 * those before it, whatever the schedule, the recomputation and the number of layers that leave */
#include "train/engine/activation_offload.h"

#include "lib/model/family.h"
#include "tests/check.h"
#include "tests/sized_model.h"
#include "train/engine/timing.h"

enum { COMPUTE, OUT, IN, STREAMS, EVENTS = 16, UNITS = 64, MICROBATCHES = 6, STEPS = 3 };

/* How far each stream is known to have come. */
struct clock {
	long at[STREAMS];
};

struct event {
	struct clock clock;
};

/* A place or a unit on the host: what is in it, and the last use of each kind by each stream. */
struct region {
	long holds, written[STREAMS], read[STREAMS];
};

static struct stream streams[STREAMS];
static struct clock clocks[STREAMS];
static struct event events[EVENTS];
static int num_events, copies;
static struct region place[3], host[UNITS];
static struct engine e;

/* --- the device ------------------------------------------------------------------------------- */

static int
index_of(const struct stream *st)
{
	return (int)(st - streams);
}

static struct event *
new_event(struct device *d)
{
	(void)d;
	return &events[num_events++];
}

static struct stream *
stream_of(struct device *d, int index)
{
	(void)d;
	return &streams[index == STREAM_OFFLOAD ? OUT : index == STREAM_RELOAD ? IN : COMPUTE];
}

static void
record(struct stream *st, struct event *ev)
{
	ev->clock = clocks[index_of(st)];
}

static void
wait_for(struct stream *st, struct event *ev)
{
	for (int i = 0; i < STREAMS; i++)
		if (ev->clock.at[i] > clocks[index_of(st)].at[i])
			clocks[index_of(st)].at[i] = ev->clock.at[i];
}

/* Uses of a region that this one must come after are known to be over. */
static void
use(int stream, struct region *r, bool writes)
{
	struct clock *c = &clocks[stream];

	for (int i = 0; i < STREAMS; i++)
		CHECK(i == stream ||
		    (r->written[i] <= c->at[i] && (!writes || r->read[i] <= c->at[i])));
	(writes ? r->written : r->read)[stream] = ++c->at[stream];
}

static void
copy(struct stream *st, struct region *to, struct region *from)
{
	use(index_of(st), from, false);
	use(index_of(st), to, true);
	to->holds = from->holds;
	copies++;
}

/* The place or the unit on the host at an address. */
static struct region *
region_at(const void *at, size_t bytes)
{
	const struct memory_plan *m = &e.mem;
	uint64_t from = (uint64_t)((const char *)at - e.arena[ARENA_SAVED]);

	CHECK(bytes > 0 && bytes <= m->offload_bytes);
	if (from >= m->offload_base && from < m->arena[ARENA_SAVED])
		return &place[(from - m->offload_base) / m->offload_bytes];
	from = (uint64_t)((const char *)at - e.arena[ARENA_HOST]);
	for (int i = 0; i < m->use.slots * m->activation_offload.copied; i++)
		if (from ==
		    memory_offloaded(m, i / (int)m->activation_offload.copied,
			i % (int)m->activation_offload.copied)
			.host)
			return &host[i];
	BUG("a copy at %llu", (unsigned long long)from);
}

static void
copy_to(struct stream *st, void *to, const void *from, size_t bytes)
{
	copy(st, region_at(to, bytes), region_at(from, bytes));
}

/* --- passes ----------------------------------------------------------------------------------- */

/* What a unit saves has a number of its own. */
static long
content(const struct step *s, int number)
{
	return (((long)s->iteration * MICROBATCHES + s->microbatch) * 8 + s->chunk) * 64 + number;
}

/* A move writes its unit and the next block's, or reads its own. A backward pass may write too
 * while the unit is still on its way to the host, from where nothing needs it any more. */
static void
compute(const struct step *s, const struct pass_item *m)
{
	const struct block *b = &e.mem.block[m->block];
	bool more = m->block + 1 < e.mem.chunk[s->chunk].end;
	const int of[] = { b->activation_offload,
		more && m->kind == ITEM_FORWARD ? b[1].activation_offload : -1 };

	for (int i = 0; i < 2; i++) {
		struct region *r = &place[of[i] >= 0 ? of[i] % e.mem.activation_offload.places : 0];

		if (of[i] < 0)
			continue;
		use(COMPUTE, r, m->kind == ITEM_FORWARD);
		if (m->kind == ITEM_FORWARD)
			r->holds = s->training ? content(s, of[i]) : -1;
		else
			CHECK(r->holds == content(s, of[i]));
	}
}

static void
pass(const struct action *a, int iteration, bool training)
{
	bool back = a->kind == ACTION_BACKWARD;
	const struct pass_items *m = &e.items[a->chunk][back];
	struct step s = { .e = &e,
		.microbatch = a->microbatch,
		.chunk = a->chunk,
		.slot = a->slot,
		.tail = a->tail,
		.training = training,
		.iteration = (uint32_t)iteration };
	bool segments = activation_offload_begin(&s, back) && m->num_segments > 2;

	CHECK(!segments || training);
	for (int i = segments ? 1 : 0; i < (segments ? m->num_segments : 1); i++) {
		activation_offload_enter(&s, m, &m->segment[i]);
		for (int k = m->segment[i].first; k < m->segment[i].end; k++)
			compute(&s, &m->item[k]);
		activation_offload_leave(&s, m, &m->segment[i]);
	}
}

static void
passes(const struct layout *l, int stage, int iteration, bool training)
{
	struct schedule_shape shape = memory_schedule(&e.mem, l, MICROBATCHES, training);
	struct schedule_use counts;
	struct action *list;
	int n = schedule_make(&shape, stage, &list, &counts);

	for (int i = 0; i < n; i++)
		if (list[i].kind <= ACTION_BACKWARD)
			pass(&list[i], iteration, training);
	free(list);
}

/* --- runs ------------------------------------------------------------------------------------- */

static struct model_config
eight_layers(void)
{
	return sized_model((struct model_sizes){ 8, 16, 2, 2, 16, 8, 50 });
}

static void
begin(const struct layout *l, const struct train_shape *s, int stage)
{
	static const struct backend backend = { .event = new_event,
		.stream = stream_of,
		.record = record,
		.wait = wait_for,
		.copy_in = copy_to,
		.copy_out = copy_to };
	struct model_config c = eight_layers();
	int coord[AX_COUNT] = { [AX_PP] = stage };

	memset(clocks, 0, sizeof clocks);
	memset(events, 0, sizeof events);
	memset(place, 0, sizeof place);
	memset(host, 0, sizeof host);
	num_events = copies = 0;
	e = (struct engine){
		.backend = &backend, .stream = &streams[COMPUTE], .timing = timing_new()
	};
	memory_plan(&e.mem, &c, l, s, coord);
	CHECK(e.mem.use.slots * e.mem.activation_offload.moved <= UNITS);
	for (int a = ARENA_SAVED; a < ARENA_COUNT; a++)
		e.arena[a] = calloc(1, e.mem.arena[a] + 1);
	e.items = calloc((size_t)layout_chunks(l), sizeof *e.items);
	for (int i = 0; i < 2 * layout_chunks(l); i++)
		pass_items_init(
		    &e.items[i / 2][i % 2], &e.mem, i / 2, i % 2 ? PASS_BACKWARD : PASS_FORWARD);
	e.activation_offload = activation_offload_open(&e);
	CHECK((e.activation_offload != NULL) == (e.mem.activation_offload.copied > 0));
}

static void
end(const struct layout *l)
{
	activation_offload_close(e.activation_offload);
	for (int i = 0; i < 2 * layout_chunks(l); i++)
		pass_items_release(&e.items[i / 2][i % 2]);
	free(e.items);
	for (int a = ARENA_SAVED; a < ARENA_COUNT; a++)
		free(e.arena[a]);
	timing_free(e.timing);
	memory_release(&e.mem);
}

/* Evaluations run between steps. Alone, a micro batch finds units in the places that it left last,
 * and what is copied is copied once each way. */
static void
run(const struct layout *l, const struct train_shape *s)
{
	for (int stage = 0; stage < l->pipeline_model_parallel_size; stage++) {
		begin(l, s, stage);
		for (int i = 0; i < STEPS; i++) {
			passes(l, stage, i, true);
			passes(l, stage, i, false);
		}
		if (e.mem.use.slots == 1)
			CHECK(copies == STEPS * MICROBATCHES * 2 * e.mem.activation_offload.copied);
		end(l);
	}
}

int
main(void)
{
	static const struct recompute how[] = {
		{ RECOMPUTE_NONE, RECOMPUTE_UNIFORM, 1 },
		{ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 1 },
		{ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 2 },
		{ RECOMPUTE_FULL, RECOMPUTE_BLOCK, 2 },
	};
	struct layout l[] = { { 1, 1, 1, 1 }, { 1, 1, 1, 2 }, { 1, 1, 1, 4 }, { 1, 1, 1, 2 } };

	l[3].virtual_stages = 2;
	l[3].overlap_p2p = true;
	for (int i = 0; i < 4 * 4 * 8; i++) {
		struct train_shape s = { .seq_length = 8,
			.micro_batch_size = 1,
			.num_microbatches = MICROBATCHES,
			.dtype = DTYPE_F32,
			.recompute = how[i / 4 % 4],
			.offloaded_layers = i / 16 };

		run(&l[i % 4], &s);
	}
	return check_done();
}

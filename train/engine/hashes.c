/*
 * hashes.c - hashes of gradients and weights in BUF_HASHES
 *
 * Two rows, each with the loss and then every shard. Gradients use one row per run, weights the
 * first.
 */
#include "lib/base/mem.h"
#include "train/engine/hashes.h"
#include "train/engine/dp_comm.h"

#include <stdio.h>
#include <stdlib.h>

struct hashes {
	int64_t *host; /* both rows */
	int run;       /* the watched run, or the next one; -1: none */
	int next;      /* the bucket that the backward pass completes next */
	bool both;     /* two runs have been watched and not yet compared */
};

struct hashes *
hashes_new(const struct engine *e)
{
	struct tensor rows = engine_buffer(e, BUF_HASHES);
	struct hashes *h;

	if (!rows.data)
		return NULL;
	h = mem_zalloc(1, sizeof *h);
	h->host = mem_zalloc((size_t)tensor_elements(&rows), sizeof *h->host);
	h->run = -1;
	return h;
}

void
hashes_free(struct hashes *h)
{
	if (!h)
		return;
	free(h->host);
	free(h);
}

/* The place of the hash of shard i; -1 is the loss. */
static struct tensor
place(const struct engine *e, int run, int i)
{
	struct tensor rows = engine_buffer(e, BUF_HASHES);

	return tensor_rows(&rows, (int64_t)run * (1 + e->mem.shards.count) + 1 + i, 1);
}

/* Queued on the compute stream. */
static void
hash_shard(const struct engine *e, bool grad, int run, int i)
{
	const struct shard *s = &e->mem.shards.item[i];
	struct tensor t = engine_bucket(e, grad, s->bucket), to = place(e, run, i);

	t = tensor_rows(&t, s->offset - e->mem.shards.bucket[s->bucket].first, s->count);
	e->ops->hash(e->stream, &(struct pair){ to, t });
}

/* Copies to the host, after the device has finished its queue. */
static void
read_rows(const struct engine *e)
{
	struct tensor rows = engine_buffer(e, BUF_HASHES);

	e->backend->copy_out(e->stream, e->hashes->host, rows.data, tensor_bytes(&rows));
	engine_sync(e);
}

/* --- two runs of a micro batch ---------------------------------------------------------------- */

void
hashes_expect(struct engine *e, int run)
{
	e->hashes->run = run;
	e->hashes->next = e->mem.shards.num_buckets - 1;
}

bool
hashes_watches(const struct step *s)
{
	const struct hashes *h = s->e->hashes;

	return h && h->run >= 0 && s->microbatch == 0;
}

/* At the start of the first backward pass the loss is that of the first micro batch alone. */
static void
hash_loss(const struct engine *e, int run)
{
	struct tensor scalars = engine_buffer(e, BUF_SCALARS), to = place(e, run, -1);
	struct tensor loss = tensor_rows(&scalars, SCALAR_LOSS, 1);

	e->ops->hash(e->stream, &(struct pair){ to, loss });
}

void
hashes_backward_leave(const struct step *s, int layer)
{
	struct engine *e = s->e;
	const struct shards *sh = &e->mem.shards;
	struct hashes *h = e->hashes;

	if (!hashes_watches(s))
		return;
	if (h->next == sh->num_buckets - 1)
		hash_loss(e, h->run);
	for (; h->next >= 0 && sh->bucket[h->next].first_layer >= layer; h->next--)
		for (int i = 0; i < sh->count; i++)
			if (sh->item[i].bucket == h->next)
				hash_shard(e, true, h->run, i);
	if (h->next >= 0)
		return;
	h->both = h->run == 1;
	h->run = -1;
}

bool
hashes_differ(struct engine *e, char name[128])
{
	const struct shards *sh = &e->mem.shards;
	const int64_t *run[2];
	int i = sh->count;

	if (!e->hashes || !e->hashes->both)
		return false;
	e->hashes->both = false;
	read_rows(e);
	run[0] = e->hashes->host;
	run[1] = run[0] + 1 + sh->count;
	if (run[0][0] != run[1][0]) {
		snprintf(name, 128, "the loss");
		return true;
	}
	while (i > 0 && run[0][i] == run[1][i])
		i--;
	if (i > 0)
		snprintf(name, 128, "the gradient of '%s'", e->table[sh->item[i - 1].param].name);
	return i > 0;
}

/* --- weights ---------------------------------------------------------------------------------- */

void
hashes_of_weights(struct engine *e, int64_t *out)
{
	dp_comm_settle(e);
	for (int i = 0; i < e->mem.shards.count; i++)
		hash_shard(e, false, 0, i);
	read_rows(e);
	for (int i = 0; i < e->mem.shards.count; i++)
		out[i] = e->hashes->host[1 + i];
}

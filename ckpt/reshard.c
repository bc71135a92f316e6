/*
 * reshard.c - mckpt reshard
 *
 * Each rank of the new layout gets a file as mtrain would write it: the same shards, the same parts
 * of the buckets, the same order. It is filled from whatever pieces of the source cover the rank's
 * boxes, so source and target layouts are independent. Memory is one piece.
 */
#include "ckpt/import.h"
#include "ckpt/reshard.h"
#include "ckpt/table.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/model/bucket.h"
#include "lib/model/layout_text.h"

#include <stdlib.h>
#include <string.h>

/* State of a reshard; src and table are owned by reshard(). */
struct job {
	const struct reshard_options *o;
	struct layout layout;
	struct ckpt *src;
	struct table table;
	const struct optim_rule *rule; /* the rule whose states are kept; NULL: none */
	char tmp[1024];
	struct str manifest;
	struct err *e;
};

/* The parts that one rank owns. */
struct rank_share {
	struct shards shards;
	int replica, replicas;
};

typedef int piece_fn(
    struct job *j, struct ckpt_writer *w, const char *name, const struct slice *box);

/* First pass over the pieces: the header of the file needs them all. */
static int
declare_piece(struct job *j, struct ckpt_writer *w, const char *name, const struct slice *box)
{
	const struct ckpt_tensor *t = ckpt_find(j->src, name);

	ckpt_declare(w, name, t->dtype, t->ndim, t->shape, box);
	return 0;
}

/* Second pass: reads the box from the source, whatever its pieces, and writes it. */
static int
copy_piece(struct job *j, struct ckpt_writer *w, const char *name, const struct slice *box)
{
	const struct ckpt_tensor *t = ckpt_find(j->src, name);
	void *bytes = mem_alloc((size_t)slice_elements(box), dtype_size(t->dtype));
	int rc = ckpt_read(j->src, name, box, t->dtype, bytes, j->e);

	if (rc == 0)
		rc = ckpt_write(w, bytes, j->e);
	free(bytes);
	return rc;
}

/* Calls fn for every piece of a rank, in the order of its file. */
static int
each_piece(struct job *j, const struct rank_share *r, struct ckpt_writer *w, piece_fn *fn)
{
	for (int state = 0; state <= optim_num_states(j->rule); state++)
		for (int i = 0; i < r->shards.count; i++) {
			const struct shard *s = &r->shards.item[i];
			struct slice box[SLICE_FLAT_MAX];
			struct part own = shard_part(&r->shards, s, r->replica, r->replicas);
			int n = s->owner ? shard_pieces(s, &own, box) : 0;
			char name[128];

			tensor_name(&j->table.param[s->param], j->rule, state, name);
			for (int k = 0; k < n; k++)
				if (fn(j, w, name, &box[k]) < 0)
					return -1;
		}
	return 0;
}

/*
 * Declares every piece, then writes them in the same order. With a distributed optimizer each data
 * rank owns an equal part of each bucket; resharding always writes that form, as a reader sees
 * only boxes.
 */
static int
write_rank(struct job *j, int rank)
{
	const struct layout *l = &j->layout;
	struct rank_share r;
	struct ckpt_writer *w = ckpt_writer_new(j->tmp, rank, j->e);
	int coord[AX_COUNT], rc;

	if (!w)
		return -1;
	layout_coord(l, rank, coord);
	shards_init(&r.shards,
	    &(struct shards_of){ j->table.param, j->table.count, &j->table.config, l, 0 }, coord);
	r.replica = layout_replica(l, coord);
	r.replicas = (int)layout_replicas(l);
	each_piece(j, &r, w, declare_piece);
	rc = each_piece(j, &r, w, copy_piece);
	if (rc == 0)
		rc = ckpt_writer_finish(w, &j->manifest, j->e);
	else
		ckpt_writer_abort(w);
	shards_release(&r.shards);
	return rc;
}

/* Writes all ranks' files and commits. */
static int
write_all(struct job *j)
{
	struct str options = { 0 };
	struct ckpt_commit c = { .save = j->o->save,
		.iteration = ckpt_state(j->src)->iteration,
		.state = ckpt_state_text(j->src) };
	int rc = 0;

	if (ckpt_begin(c.save, c.iteration, true, j->tmp, j->e) < 0)
		return -1;
	for (int64_t rank = 0; rank < layout_world(&j->layout) && rc == 0; rank++)
		rc = write_rank(j, (int)rank);
	if (rc < 0) {
		io_remove_tree(j->tmp, NULL);
		return -1;
	}
	layout_replace(ckpt_options_text(j->src), &j->layout, &j->o->split, &options);
	c.manifest = j->manifest.buf;
	c.options = options.buf;
	rc = ckpt_commit(&c, j->e);
	str_release(&options);
	return rc;
}

/* The source and the layout are checked before anything is written. How long the reader's samples
 * are is not known: its default split may be another, which costs it nothing, as it reads boxes. */
int
reshard(const struct reshard_options *o, struct err *e)
{
	struct job j = { .o = o, .layout = o->layout, .e = e };
	int rc = -1;

	if (save_is_free(o->save, o->force, e) < 0)
		return -1;
	j.src = ckpt_open(o->src, e);
	if (j.src && table_open(&j.table, j.src, e) == 0 &&
	    table_require(&j.table, j.src, e) == 0 &&
	    layout_check(&o->layout, &j.table.config, e) == 0 &&
	    split_resolve(&o->split, &j.table.config, j.table.config.max_position_embeddings,
		&j.layout, e) == 0) {
		j.rule = o->no_optim ? NULL : j.table.rule;
		rc = write_all(&j);
	}
	str_release(&j.manifest);
	table_release(&j.table);
	ckpt_close(j.src);
	return rc;
}

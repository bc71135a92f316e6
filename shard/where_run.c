/*
 * where_run.c - what the checkpoints of a run say of its data and batches
 *
 * A checkpoint has the options of the run that saved it, how the orders of its corpora continue,
 * and its iteration and samples. The iterations between two checkpoints had the batches of the
 * later one.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/ckpt/ckpt.h"
#include "lib/token/options.h"
#include "shard/maps_options.h"
#include "shard/where.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 64 << 20 };

/* The options of mtrain that its data and batches follow from. */
struct options {
	struct maps_config maps; /* first */
	struct opt_list skips;
	struct reading_config reading;
	int64_t train_iters, train_samples, pad, bos;
	int loss_mask;
	bool eod_mask_loss, apart, fim;
};

#define AT(field) .off = offsetof(struct options, field)

static const char *const loss_masks[] = { "use", "ignore", NULL };
static const struct opt rows[] = { MAPS_OPTS(offsetof(struct options, maps)),
	MAPS_BATCH_OPTS(offsetof(struct options, maps)),
	READING_OPTS(offsetof(struct options, reading)),
	{ .name = "train-iters", .type = OPT_INT, AT(train_iters), .max = 1e15 },
	{ .name = "train-samples", .type = OPT_INT, AT(train_samples), .max = 1e15 },
	{ .name = "iterations-to-skip", .type = OPT_LIST, AT(skips) },
	{ .name = "loss-mask",
	    .type = OPT_CHOICE,
	    AT(loss_mask),
	    .choices = loss_masks,
	    .def = "use" },
	{ .name = "eod-mask-loss", .type = OPT_FLAG, AT(eod_mask_loss) },
	{ .name = "dataloader-inter-document-masking", .type = OPT_FLAG, AT(apart) },
	{ .name = "fim-data", .type = OPT_FLAG, AT(fim) },
	{ .name = "pad-token-id", .type = OPT_INT, AT(pad), .min = -1, .max = 1e9, .def = "-1" },
	{ .name = "bos-token-id", .type = OPT_INT, AT(bos), .min = -1, .max = 1e9, .def = "-1" },
	TOKENIZER_OPTS, OPT_END };

/* All others concern what is computed, not what is read. */
static int
pass_over(const char *name, const char *value, struct err *e)
{
	(void)name;
	(void)value;
	(void)e;
	return 0;
}

/* A text of a checkpoint, with its path for messages; free() it. */
static char *
read_text(const char *save, int64_t iteration, const char *name, struct str *path, struct err *e)
{
	char dir[IO_PATH], *text;

	ckpt_iter_dir(save, iteration, dir);
	str_addf(path, "%s/%s", dir, name);
	return io_read_regular(path->buf, TEXT_MAX, &text, NULL, e) < 0 ? NULL : text;
}

/* The options of a checkpoint; *p owns their strings. */
static int
read_options(
    const char *save, int64_t iteration, struct options *o, struct opt_parse *p, struct err *e)
{
	struct str path = { 0 };
	char *text = read_text(save, iteration, "options.conf", &path, e);
	int rc;

	memset(o, 0, sizeof *o);
	opt_begin(p, rows, o);
	p->unknown = pass_over;
	rc = text ? opt_text(p, path.buf, text, false, e) : -1;
	str_release(&path);
	free(text);
	return rc;
}

static int
read_state(const char *save, int64_t iteration, struct run_state *s, struct err *e)
{
	struct str path = { 0 };
	char *text = read_text(save, iteration, "state.conf", &path, e);
	int rc = -1;

	if (text)
		rc = state_parse(s, text, path.buf, e);
	else
		state_init(s);
	str_release(&path);
	free(text);
	return rc;
}

/* Adds a checkpoint's iterations. */
static int
add_point(struct where_run *r, const char *save, int64_t iteration, struct err *e)
{
	struct where_point *p = &r->point[r->points];
	struct options o;
	struct opt_parse parse;
	struct run_state s;
	int rc = read_options(save, iteration, &o, &parse, e);

	if (rc == 0)
		rc = shard_maps_batches(&o.maps, &p->ramp, e);
	if (rc == 0)
		rc = read_state(save, iteration, &s, e);
	else
		state_init(&s);
	if (rc == 0) {
		p->iteration = s.iteration;
		p->consumed = s.consumed_train_samples;
		p->micro_batch_size = o.reading.micro_batch_size;
		p->data_ranks = s.data_ranks == STATE_NONE ? 1 : s.data_ranks;
		r->reached = p->consumed;
		r->points++;
	}
	state_release(&s);
	opt_release(&parse);
	return rc;
}

/* "5-9 12-12", of --rewind-on-spike, and the numbers of --iterations-to-skip. */
static int
read_passed(struct where_run *r, const struct options *o, const char *rewound, struct err *e)
{
	int64_t *skip = mem_alloc((size_t)o->skips.count + 1, sizeof *skip);
	size_t ranges = 1;
	int rc = opt_numbers("iterations-to-skip", &o->skips, 1, skip, e);

	for (const char *p = rewound; p && *p; p++)
		ranges += *p == '-';
	r->passed = mem_alloc(ranges + (size_t)o->skips.count, sizeof *r->passed);
	for (int i = 0; i < o->skips.count && rc == 0; i++)
		r->passed[r->num_passed++] = (struct where_range){ skip[i], skip[i] };
	for (const char *p = rewound; p && *p && rc == 0;) {
		long long first, last;
		int n = 0;

		if (sscanf(p, "%18lld-%18lld%n", &first, &last, &n) != 2)
			rc = err_set(e, "state.conf: 'rewound' is damaged");
		else
			r->passed[r->num_passed++] = (struct where_range){ first, last };
		p += n + (p[n] == ' ');
	}
	free(skip);
	return rc;
}

/* How the orders of the corpora of the list continue, and where stages begin. */
static int
read_orders(struct where_run *r, const struct run_state *s, struct err *e)
{
	struct stage_record *stage = NULL;
	int stages = 0, rc = 0;
	struct err why;

	r->kept = mem_zalloc((size_t)s->data_corpora + 1, sizeof *r->kept);
	for (int64_t i = 0; i < s->data_corpora; i++) {
		long long first, asked;

		if (sscanf(s->data_corpus[i], "%*s %*s %lld %lld", &first, &asked) != 2)
			return err_set(
			    e, "state.conf: 'data_corpus_%lld' is damaged", (long long)i);
		r->kept[i] = (struct blend_kept){ first, asked, true };
	}
	if (s->data_stages &&
	    (rc = stage_records_parse(s->data_stages, s->data_corpora, &stage, &stages, &why)) < 0)
		err_set(e, "state.conf: 'data_stages': %s", why.msg);
	if (stages)
		r->stage_first = mem_alloc((size_t)stages, sizeof *r->stage_first);
	for (int k = 0; k < stages; k++)
		r->stage_first[k] = stage[k].first - s->data_start;
	stage_records_free(stage, stages);
	return rc;
}

/* The order of a checkpoint. */
static int
take_order(struct where_run *r, const char *save, int64_t iteration, struct err *e)
{
	struct options o;
	struct run_state s;
	int64_t wanted;
	int rc;

	r->parse = mem_zalloc(1, sizeof *r->parse);
	rc = read_options(save, iteration, &o, r->parse, e);
	if (rc < 0)
		state_init(&s);
	else
		rc = read_state(save, iteration, &s, e);
	if (rc == 0 && s.data_corpora == STATE_NONE)
		rc = err_set(e, "%s: the checkpoint of iteration %lld does not record its data",
		    save, (long long)iteration);
	else if (rc == 0 && s.data_corpora == 0)
		rc = err_set(
		    e, "%s: the run was trained on mock data, which has no documents", save);
	if (rc == 0)
		rc = read_passed(r, &o, s.rewound, e);
	if (rc == 0)
		rc = read_orders(r, &s, e);
	if (rc == 0) {
		const struct where_point *end = &r->point[r->points - 1];

		r->maps = o.maps;
		r->start = s.data_start;
		r->sampler = (struct sampler_config){ .type = (enum sampler_type)o.reading.loader,
			.no_data_sharding = o.reading.no_data_sharding };
		r->eod_mask_loss = o.eod_mask_loss;
		r->apart = o.apart || o.maps.packing == PACKING_BEST_FIT;
		r->rearranged = o.fim;
		r->ignores_masks = o.loss_mask == 1;
		r->pad = o.pad;
		r->bos = o.bos;
		r->last = o.train_iters
		    ? o.train_iters
		    : end->iteration + batch_steps(&end->ramp, end->consumed, o.train_samples);
		o.train_iters = r->last > end->iteration ? r->last - end->iteration : 0;
		wanted = o.train_samples ? o.train_samples
					 : batch_end(&end->ramp, end->consumed, o.train_iters);
		snprintf(r->num_samples, sizeof r->num_samples, "%lld,0,0",
		    (long long)(wanted - r->start));
		r->maps.num_samples = r->num_samples;
		rc = shard_maps_load(&r->maps, &r->lists, e);
	}
	state_release(&s);
	return rc;
}

int
where_run_read(struct where_run *r, const char *save, struct err *e)
{
	int64_t *all;
	int n = ckpt_iterations(save, &all, e), rc = n < 0 ? -1 : 0;

	*r = (struct where_run){ .reached = -1, .last = -1 };
	if (rc == 0)
		r->point = mem_zalloc((size_t)n, sizeof *r->point);
	for (int i = 0; i < n && rc == 0; i++)
		if (all[i] > 0)
			rc = add_point(r, save, all[i], e);
	if (rc == 0 && r->points == 0)
		rc = err_set(e, "--run %s: holds no checkpoint of a step", save);
	free(all);
	return rc;
}

int
where_run_order(struct where_run *r, const char *save, int64_t last, struct err *e)
{
	int i = 0;

	while (i < r->points - 1 && r->point[i].iteration < last)
		i++;
	return take_order(r, save, r->point[i].iteration, e);
}

int
where_run_options(struct where_run *r, const struct where_config *c, struct err *e)
{
	int64_t wanted = shard_maps_wanted(&c->maps, SPLIT_TRAIN);

	*r = (struct where_run){ .reached = -1,
		.last = -1,
		.maps = c->maps,
		.points = 1,
		.point = mem_zalloc(1, sizeof *r->point),
		.sampler = { .type = (enum sampler_type)c->reading.loader,
		    .no_data_sharding = c->reading.no_data_sharding },
		.apart = c->maps.packing == PACKING_BEST_FIT,
		.pad = -1,
		.bos = -1 };
	r->point->micro_batch_size = c->reading.micro_batch_size;
	r->point->data_ranks = 1;
	if (shard_maps_batches(&c->maps, &r->point->ramp, e) < 0)
		return -1;
	if (wanted >= 0)
		r->last = batch_steps(&r->point->ramp, 0, wanted);
	return 0;
}

void
where_run_release(struct where_run *r)
{
	if (r->parse)
		opt_release(r->parse);
	free(r->parse);
	free(r->lists);
	free(r->point);
	free(r->kept);
	free(r->stage_first);
	free(r->passed);
}

/* The point whose iterations these are: the last one's hold for all later ones. */
static const struct where_point *
point_of(const struct where_run *r, int64_t iteration, int64_t *before, int64_t *consumed)
{
	int i = 0;

	while (i < r->points - 1 && r->point[i].iteration < iteration)
		i++;
	*before = i ? r->point[i - 1].iteration : 0;
	*consumed = i ? r->point[i - 1].consumed : 0;
	if (r->point[i].iteration && r->point[i].iteration < iteration) {
		*before = r->point[i].iteration;
		*consumed = r->point[i].consumed;
	}
	return &r->point[i];
}

const struct where_point *
where_run_at(const struct where_run *r, int64_t iteration, int64_t *first)
{
	int64_t before, consumed;
	const struct where_point *p = point_of(r, iteration, &before, &consumed);

	*first = batch_end(&p->ramp, consumed, iteration - 1 - before);
	return p;
}

int64_t
where_run_iteration(const struct where_run *r, int64_t sample)
{
	int64_t before = 0, consumed = 0;
	int i = 0;

	while (i < r->points && r->point[i].iteration && r->point[i].consumed <= sample) {
		before = r->point[i].iteration;
		consumed = r->point[i++].consumed;
	}
	i -= i == r->points;
	return before + batch_steps(&r->point[i].ramp, consumed, sample) + 1;
}

bool
where_run_passes(const struct where_run *r, int64_t iteration)
{
	for (int i = 0; i < r->num_passed; i++)
		if (r->passed[i].first <= iteration && iteration <= r->passed[i].last)
			return true;
	return false;
}

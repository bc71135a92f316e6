/*
 * split.c - layers distributed over virtual stages
 *
 * The numbers come from a text that lists every stage, from options that make all stages except the
 * first and the last equal, or from balancing the blocks' work (work.h). A head over a large
 * vocabulary costs as much as several layers, so with equal stages all wait for the last one.
 */
#include "lib/model/split.h"
#include "lib/model/work.h"

#include <string.h>

/* --- by work ---------------------------------------------------------------------------------- */

/* Flops of a micro batch in the blocks of a layer, as in struct param. */
static double
work_at(const struct model_config *c, const struct layout *l, int64_t seq_length, int64_t layer)
{
	const struct train_shape s = { .seq_length = seq_length > 0 ? seq_length : 1,
		.micro_batch_size = 1 };
	double sum = 0;

	for (const struct block_kind *const *k = block_first(c, layer); *k;
	     k = block_next(k, c, layer)) {
		struct work w;

		work_of(&w, *k, c, l, &s);
		sum += work_flops(&w);
	}
	return sum;
}

struct share {
	double work;
	int64_t layers;
};

/* Gives each of n layers to the share with the least work, the last of equals or the first. Layers
 * are equal, so this minimises the largest share. */
static void
spread(int64_t n, double layer, struct share *share, int count, bool last)
{
	for (; n > 0; n--) {
		int least = 0;

		for (int i = 1; i < count; i++)
			if (share[i].work < share[least].work ||
			    (last && share[i].work == share[least].work))
				least = i;
		share[least].layers++;
		share[least].work += layer;
	}
}

/* The work of a layer and of the two ends; layers after the head are on its stage. */
struct costs {
	double embedding, layer, head;
};

/* Distributes the layers of one stage over its chunks. */
static void
spread_chunks(struct layout *l, int stage, int64_t layers, const struct costs *cost)
{
	int p = (int)l->pipeline_model_parallel_size, v = layout_chunks(l);
	struct share share[SPLIT_MAX];

	for (int j = 0; j < v; j++) {
		bool first = stage == 0 && j == 0, last = stage == p - 1 && j == v - 1;
		struct share *s = &share[j];

		s->layers = !last;
		s->work = (double)s->layers * cost->layer + (first ? cost->embedding : 0) +
		    (last ? cost->head : 0);
		layers -= s->layers;
	}
	spread(layers, cost->layer, share, v, true);
	for (int j = 0; j < v; j++)
		l->split[j * p + stage] = (int)share[j].layers;
}

void
split_balance(const struct model_config *c, int64_t seq_length, struct layout *l)
{
	int p = (int)l->pipeline_model_parallel_size, v = layout_chunks(l);
	struct costs cost = { work_at(c, l, seq_length, -1), work_at(c, l, seq_length, 0), 0 };
	struct share share[SPLIT_MAX];
	int64_t left = c->num_layers;

	for (int64_t i = c->num_layers; i <= model_end(c); i++)
		cost.head += work_at(c, l, seq_length, i);
	for (int r = 0; r < p; r++) {
		share[r].layers = v - (r == p - 1);
		share[r].work = (double)share[r].layers * cost.layer +
		    (r == 0 ? cost.embedding : 0) + (r == p - 1 ? cost.head : 0);
		left -= share[r].layers;
	}
	spread(left, cost.layer, share, p, v == 1);
	for (int r = 0; r < p; r++)
		spread_chunks(l, r, share[r].layers, &cost);
}

/* --- equal but for the ends ------------------------------------------------------------------- */

/* Checks that v, an option's value or the remainder after it, is a multiple. */
static int
divides(const char *what, int64_t v, const char *rule, int64_t by, struct err *e)
{
	if (v % by == 0)
		return 0;
	return err_set(e, "%s %lld: must be a multiple of %s %lld (try %lld)", what, (long long)v,
	    rule, (long long)by, (long long)(v < by ? by : v / by * by));
}

/* Layers of the first, of each middle and of the last stage, including ends that count as
 * layers. */
struct ends {
	int64_t first, middle, last;
};

/* Stages without a typed number of layers share the rest equally. */
static int
typed_ends(const struct split_options *o, const struct model_config *c, int64_t p, struct ends *out,
    struct err *e)
{
	int64_t first = o->decoder_first_pipeline_num_layers,
		last = o->decoder_last_pipeline_num_layers, typed = first ? first : last,
		left = c->num_layers - first - last, others = p - (first > 0) - (last > 0),
		most = others && left > others ? left / others * others : others;
	const char *which = first ? "first" : "last";

	if (p < 2)
		return err_set(e,
		    "--decoder-%s-pipeline-num-layers %lld: needs --pipeline-model-parallel-size "
		    "of at least 2",
		    which, (long long)typed);
	if (left != most)
		return err_set(e,
		    "--decoder-%s-pipeline-num-layers %lld: leaves %lld layers to %lld other "
		    "stages: must be %s (try %lld)",
		    which, (long long)typed, (long long)left, (long long)others,
		    others ? "a multiple" : "0",
		    (long long)(typed + left - most > 1 ? typed + left - most : 1));
	out->middle = others ? left / others : 0;
	out->first = first ? first : out->middle;
	out->last = last ? last : out->middle;
	return 0;
}

/* All stages equal, counting the layers and the ends that count as one. */
static int
equal_ends(const struct split_options *o, const struct model_config *c, int64_t p, struct ends *out,
    struct err *e)
{
	int64_t n = c->num_layers + o->account_for_embedding_in_pipeline_split +
	    o->account_for_loss_in_pipeline_split;

	if (divides(n == c->num_layers ? "--num-layers" : "--num-layers with the ends counted", n,
		"--pipeline-model-parallel-size", p, e) < 0)
		return -1;
	*out = (struct ends){ n / p, n / p, n / p };
	return 0;
}

/* The chunks of a stage are equal, except that an end may count as a layer. */
static int
cut_equally(const struct split_options *o, const struct ends *ends, struct layout *l, struct err *e)
{
	int p = (int)l->pipeline_model_parallel_size, v = layout_chunks(l), n = p * v;

	for (int r = 0; r < p; r++) {
		int64_t layers = r == 0 ? ends->first : r == p - 1 ? ends->last : ends->middle;

		if (divides("layers of a stage,", layers, "--num-virtual-stages-per-pipeline-rank",
			v, e) < 0)
			return -1;
		for (int j = 0; j < v; j++)
			l->split[j * p + r] = (int)(layers / v);
	}
	l->split[0] -= o->account_for_embedding_in_pipeline_split;
	l->split[n - 1] -= o->account_for_loss_in_pipeline_split;
	return l->split[0] >= 0 && l->split[n - 1] >= 0
	    ? 0
	    : err_set(e, "--account-for-loss-in-pipeline-split: one stage cannot count both ends");
}

/* --- as a text -------------------------------------------------------------------------------- */

/* The state of reading a text. */
struct reading {
	struct layout *l;
	const struct model_config *model;
	int stage;                   /* the current one */
	int64_t layers;              /* so far, in all stages */
	int64_t later;               /* layers that predict later tokens, so far */
	bool embedding, head, holds; /* seen so far; holds: this stage is not empty */
	const char *why;             /* the reason for stopping; NULL: none */
};

enum { TIMES_MAX = 1 << 20 };

/* Reads one letter of the text; -1 with the reason. */
static int
read_sign(struct reading *r, char sign)
{
	r->why = !strchr("EtmL|", sign)     ? "signs are E, t, m, L, |, x*n, (...)*n"
	    : r->head                       ? "L must be the last sign"
	    : (sign == 'E') == r->embedding ? "E must be the first sign, once"
	    : r->later && !strchr("mL", sign)
	    ? "m must be on the last stage, before L: layers after the head are on its stage"
	    : sign == 'm' && r->later == r->model->mtp_num_layers ? "more m than --mtp-num-layers"
	    : sign == 't' && r->layers == r->model->num_layers    ? "more t than --num-layers"
	    : sign == '|' && !r->holds                            ? "a stage holds nothing"
	    : sign == '|' && r->stage == SPLIT_MAX - 1            ? "too many stages"
								  : NULL;
	if (r->why)
		return -1;
	r->embedding = true;
	r->head = sign == 'L';
	r->holds = sign != '|';
	r->stage += sign == '|';
	r->l->split[r->stage] += sign == 't';
	r->layers += sign == 't';
	r->later += sign == 'm';
	return 0;
}

/* The number after a '*' at *at, which is advanced past it; 1 where there is none, -1 where it is
 * not a number or is far too large. */
static int64_t
read_times(const char **at)
{
	int64_t n = 0;

	if (**at != '*')
		return 1;
	if (*++*at < '0' || **at > '9')
		return -1;
	for (; **at >= '0' && **at <= '9'; ++*at)
		n = n < TIMES_MAX ? n * 10 + **at - '0' : n;
	return n < TIMES_MAX ? n : -1;
}

/* Reads the letters in [at, end), each as often as its number says; commas have no meaning. */
static int
read_signs(struct reading *r, const char *at, const char *end)
{
	while (at < end) {
		char sign = *at++;
		int64_t n = sign == ',' ? 0 : read_times(&at);

		r->why = "a '*' needs a number";
		if (n < 0)
			return -1;
		while (n-- > 0)
			if (read_sign(r, sign) < 0)
				return -1;
	}
	return 0;
}

/* Reads letters and groups of them. Groups do not nest and contain no numbers. */
static int
read_text(struct reading *r, const char *at)
{
	while (*at) {
		const char *open = at + strcspn(at, "("), *close = open + strcspn(open, ")");
		int64_t n;

		if (read_signs(r, at, open) < 0)
			return -1;
		if (!*open)
			return 0;
		r->why = "a group is (...)*n";
		if (close[0] != ')' || close[1] != '*')
			return -1;
		at = close + 1;
		if ((n = read_times(&at)) < 0)
			return -1;
		while (n-- > 0)
			if (read_signs(r, open + 1, close) < 0)
				return -1;
	}
	return 0;
}

/* Reads a text that lists every virtual stage. */
static int
split_as_text(const char *text, const struct model_config *c, struct layout *l, struct err *e)
{
	struct reading r = { .l = l, .model = c };
	int64_t p = l->pipeline_model_parallel_size;

	if (read_text(&r, text) < 0)
		return err_set(e, "--pipeline-model-parallel-layout '%s': %s", text, r.why);
	if (!r.head)
		return err_set(
		    e, "--pipeline-model-parallel-layout '%s': must end with L, the head", text);
	if (r.layers != c->num_layers)
		return err_set(e,
		    "--pipeline-model-parallel-layout '%s': has %lld t: must be --num-layers %lld",
		    text, (long long)r.layers, (long long)c->num_layers);
	if (r.later && r.later != c->mtp_num_layers)
		return err_set(e,
		    "--pipeline-model-parallel-layout '%s': has %lld m: must be none, or "
		    "--mtp-num-layers %lld",
		    text, (long long)r.later, (long long)c->mtp_num_layers);
	if ((r.stage + 1) % p)
		return err_set(e,
		    "--pipeline-model-parallel-layout '%s': has %d stages: must be a multiple of "
		    "--pipeline-model-parallel-size %lld",
		    text, r.stage + 1, (long long)p);
	l->virtual_stages = (r.stage + 1) / p;
	return 0;
}

/* Appends a letter, or several as x*n. */
static void
add_sign(struct str *out, char sign, int64_t n)
{
	if (n > 0)
		str_addc(out, sign);
	if (n > 1)
		str_addf(out, "*%lld", (long long)n);
}

void
split_text(const struct layout *l, const struct model_config *c, struct str *out)
{
	int n = layout_stages(l);

	str_addc(out, 'E');
	for (int i = 0; i < n; i++) {
		int64_t first, count;

		layout_layers(l, c, i, &first, &count);
		add_sign(out, '|', i > 0);
		add_sign(out, 't', count);
	}
	add_sign(out, 'm', c->mtp_num_layers);
	str_addc(out, 'L');
}

/* --- the options ------------------------------------------------------------------------------ */

/* Options that exclude each other: at most one of each row may be given. */
static int
check_exclusive(const struct split_options *o, struct err *e)
{
	const struct {
		const char *name;
		bool given;
	} layout = { "pipeline-model-parallel-layout", o->pipeline_model_parallel_layout },
	  each = { "num-layers-per-virtual-pipeline-stage",
		  o->num_layers_per_virtual_pipeline_stage },
	  chunks = { "num-virtual-stages-per-pipeline-rank",
		  o->num_virtual_stages_per_pipeline_rank },
	  first = { "decoder-first-pipeline-num-layers", o->decoder_first_pipeline_num_layers },
	  last = { "decoder-last-pipeline-num-layers", o->decoder_last_pipeline_num_layers },
	  embedding = { "account-for-embedding-in-pipeline-split",
		  o->account_for_embedding_in_pipeline_split },
	  loss = { "account-for-loss-in-pipeline-split", o->account_for_loss_in_pipeline_split },
	  pair[][2] = { { layout, each }, { layout, chunks }, { layout, first }, { layout, last },
		  { layout, embedding }, { layout, loss }, { each, chunks }, { each, first },
		  { each, last }, { first, embedding }, { first, loss }, { last, embedding },
		  { last, loss } };

	struct str all = { 0 };
	int rc = 0;

	for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
		if (pair[i][0].given && pair[i][1].given)
			str_addf(&all, "%s--%s and --%s exclude each other: give one of them",
			    all.len ? "; " : "", pair[i][0].name, pair[i][1].name);
	if (all.len)
		rc = err_set(e, "%s", all.buf);
	str_release(&all);
	return rc;
}

/* Each virtual stage must have a layer, except the last, and the first where the options give it
 * the embedding alone. */
static int
check_chunks(const struct split_options *o, const struct layout *l, const struct model_config *c,
    struct err *e)
{
	bool alone =
	    o->account_for_embedding_in_pipeline_split || o->pipeline_model_parallel_layout;
	int64_t p = l->pipeline_model_parallel_size, v = l->virtual_stages,
		stages = c->num_layers + 1 + alone,
		most = (stages < SPLIT_MAX ? stages : SPLIT_MAX) / p;

	if (v == 1)
		return 0;
	if (p == 1)
		return err_set(e,
		    "--num-virtual-stages-per-pipeline-rank %lld: needs "
		    "--pipeline-model-parallel-size of at least 2 (try 1)",
		    (long long)v);
	if (v > most)
		return err_set(e,
		    "--num-virtual-stages-per-pipeline-rank %lld: must be at most %lld, so that "
		    "%lld stages of them have layers (try %lld)",
		    (long long)v, (long long)most, (long long)p, (long long)most);
	return 0;
}

bool
split_given(const struct split_options *o)
{
	return o->num_layers_per_virtual_pipeline_stage ||
	    o->num_virtual_stages_per_pipeline_rank ||
	    o->microbatch_group_size_per_virtual_pipeline_stage ||
	    o->decoder_first_pipeline_num_layers || o->decoder_last_pipeline_num_layers ||
	    o->account_for_embedding_in_pipeline_split || o->account_for_loss_in_pipeline_split ||
	    o->pipeline_model_parallel_layout;
}

int
split_resolve(const struct split_options *o, const struct model_config *c, int64_t seq_length,
    struct layout *l, struct err *e)
{
	int64_t p = l->pipeline_model_parallel_size,
		each = o->num_layers_per_virtual_pipeline_stage;
	bool typed = o->decoder_first_pipeline_num_layers || o->decoder_last_pipeline_num_layers,
	     counted = o->account_for_embedding_in_pipeline_split ||
	    o->account_for_loss_in_pipeline_split;
	struct ends ends;

	memset(l->split, 0, sizeof l->split);
	l->virtual_stages = 1;
	if (o->num_virtual_stages_per_pipeline_rank)
		l->virtual_stages = o->num_virtual_stages_per_pipeline_rank;
	l->microbatch_group = o->microbatch_group_size_per_virtual_pipeline_stage;
	if (check_exclusive(o, e) < 0)
		return -1;
	/* A group keeps all stages busy. */
	if (l->microbatch_group && l->microbatch_group < p)
		return err_set(e,
		    "--microbatch-group-size-per-virtual-pipeline-stage %lld: must be at least "
		    "--pipeline-model-parallel-size %lld (try %lld)",
		    (long long)l->microbatch_group, (long long)p, (long long)p);
	if (o->pipeline_model_parallel_layout &&
	    split_as_text(o->pipeline_model_parallel_layout, c, l, e) < 0)
		return -1;
	if ((each || typed || counted) && (typed ? typed_ends : equal_ends)(o, c, p, &ends, e) < 0)
		return -1;
	if (each &&
	    divides("layers of a stage,", ends.first, "--num-layers-per-virtual-pipeline-stage",
		each, e) < 0)
		return -1;
	if (each)
		l->virtual_stages = ends.first / each;
	if (check_chunks(o, l, c, e) < 0)
		return -1;
	if (each || typed || counted)
		return cut_equally(o, &ends, l, e);
	if (!o->pipeline_model_parallel_layout)
		split_balance(c, seq_length, l);
	return 0;
}

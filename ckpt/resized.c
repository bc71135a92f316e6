/*
 * resized.c - a model for another tokenizer
 *
 * A table is read whole, in its own type: rows may come from anywhere in it.
 */
#include "ckpt/resized.h"
#include "ckpt/slab.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/rng.h"
#include "lib/base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A new row with noise costs a pass over the table. */
enum { NORMAL_MAX = 20000 };
static const double noise = 1e-9; /* of the covariance, as transformers has it */

const char *const row_inits[] = { "subword-mean", "mean", "normal", "zero", "last", NULL };

/* An old table, or a state of one. */
struct old_table {
	const struct param *param; /* NULL: none is read */
	const char *state;
	enum dtype dtype;
	void *raw;
	size_t raw_bytes; /* of the room, which the next table takes over */
	double *mean;     /* of the rows of tokens; NULL: not computed yet */
};

struct resized {
	struct derived d;
	struct tokenizer *before, *after;
	struct vocab_map map;
	const struct param *input, *output; /* of the old model; output: NULL where they are tied */
	struct old_table table;
	int64_t *equal; /* [map.count]: the lowest new row with the same numbers; -1: none */
};

static const struct resized_rule *
rule_of(const struct derived *d)
{
	return d->rule;
}

static struct resized *
resized_of(struct derived *d)
{
	return (struct resized *)d;
}

/* The old table of a parameter; NULL: it is none. */
static const struct param *
old_table_of(const struct derived *d, const struct param *p)
{
	const struct resized *r = (const struct resized *)d;

	if (param_is(p, r->input->in_layer) && p->layer < 0)
		return r->input;
	return r->output && param_is(p, r->output->in_layer) ? r->output : NULL;
}

static bool
is_moment(const char *state)
{
	return state && strcmp(state, STATE_AVERAGE);
}

/* --- rows ------------------------------------------------------------------------------------- */

static int64_t
width(const struct old_table *t)
{
	return t->param->shape[1];
}

/* Some columns of an old row, in fp64. */
static void
old_row(const struct old_table *t, int64_t row, const int64_t columns[2], double *dst)
{
	size_t at = (size_t)(row * width(t) + columns[0]) * dtype_size(t->dtype);

	dtype_convert(dst, DTYPE_F64, (const char *)t->raw + at, t->dtype, columns[1]);
}

static void
old_table_release(struct old_table *t)
{
	free(t->raw);
	free(t->mean);
	*t = (struct old_table){ 0 };
}

/* Reads a table, unless it is the one that was read last. */
static int
need_table(struct resized *r, const struct param *p, const char *state, struct err *e)
{
	struct source *last = derived_last(&r->d);
	struct source_part whole = { p, state, 0, slice_whole(p->ndim, p->shape) };
	struct old_table *t = &r->table;
	struct slabs w = { 0 };
	char *at;
	size_t bytes;
	int rc = 0;

	if (t->param == p && (t->state ? state && !strcmp(t->state, state) : !state))
		return 0;
	t->dtype = source_dtype(last, p, state);
	bytes = (size_t)param_elements(p) * dtype_size(t->dtype);
	if (t->raw_bytes != bytes) {
		free(t->raw);
		t->raw = mem_alloc(bytes, 1);
	}
	free(t->mean);
	*t = (struct old_table){ .dtype = t->dtype, .raw = t->raw, .raw_bytes = bytes };
	at = t->raw;
	slabs_add(&w, &whole);
	for (int64_t i = 0; i < w.count && rc == 0; i++) {
		rc = last->kind->read(last, &w.item[i], at, e);
		at += (size_t)slice_elements(&w.item[i].slice) * dtype_size(t->dtype);
	}
	slabs_release(&w);
	if (rc < 0)
		return rc;
	t->param = p;
	t->state = state;
	return 0;
}

/* The mean of the rows of tokens, which padding is not among. */
static const double *
need_mean(struct resized *r)
{
	struct old_table *t = &r->table;
	int64_t n = tokenizer_vocab_size(r->before), h = width(t), all[2] = { 0, h };
	double *row;

	if (t->mean)
		return t->mean;
	t->mean = mem_zalloc((size_t)h, sizeof *t->mean);
	row = mem_alloc((size_t)h, sizeof *row);
	for (int64_t i = 0; i < n; i++) {
		old_row(t, i, all, row);
		for (int64_t k = 0; k < h; k++)
			t->mean[k] += row[k];
	}
	for (int64_t k = 0; k < h; k++)
		t->mean[k] /= (double)n;
	free(row);
	return t->mean;
}

/* dst = the mean of the rows of the pieces. */
static void
mean_of_pieces(struct resized *r, const struct vocab_row *v, const int64_t columns[2], double *dst)
{
	const uint32_t *id = r->map.pieces.id + v->first;
	double *row = mem_alloc((size_t)columns[1], sizeof *row);

	old_row(&r->table, id[0], columns, dst);
	for (size_t i = 1; i < v->count; i++) {
		old_row(&r->table, id[i], columns, row);
		for (int64_t k = 0; k < columns[1]; k++)
			dst[k] += row[k];
	}
	for (int64_t k = 0; k < columns[1]; k++)
		dst[k] /= (double)v->count;
	free(row);
}

/*
 * Adds a draw from N(0, noise * covariance of the rows E of n tokens), which is the sum of
 * z_j sqrt(noise / n) (E_j - mean) with z_j from N(0, 1).
 */
static void
add_noise(struct resized *r, int64_t id, const int64_t columns[2], double *dst)
{
	int64_t n = tokenizer_vocab_size(r->before);
	const double *mean = need_mean(r) + columns[0];
	uint32_t stream = rng_stream(r->table.param->name);
	double *z = mem_alloc((size_t)n, sizeof *z),
	       *row = mem_alloc((size_t)columns[1], sizeof *row);

	rng_normal(rule_of(&r->d)->seed, (uint64_t)(id * n), n, stream, 0, z);
	for (int64_t j = 0; j < n; j++) {
		double scale = sqrt(noise / (double)n) * z[j];

		old_row(&r->table, j, columns, row);
		for (int64_t k = 0; k < columns[1]; k++)
			dst[k] += scale * (row[k] - mean[k]);
	}
	free(z);
	free(row);
}

/* Some columns of a new row of weights or of their average. */
static void
new_row(struct resized *r, int64_t id, const int64_t columns[2], double *dst)
{
	const struct vocab_row *v = &r->map.row[id];
	size_t bytes = (size_t)columns[1] * sizeof *dst;

	if (v->count) {
		mean_of_pieces(r, v, columns, dst);
		return;
	}
	switch (rule_of(&r->d)->init) {
	case INIT_ZERO: memset(dst, 0, bytes); break;
	case INIT_LAST:
		old_row(&r->table, tokenizer_vocab_size(r->before) - 1, columns, dst);
		break;
	case INIT_SUBWORD_MEAN:
	case INIT_MEAN: memcpy(dst, need_mean(r) + columns[0], bytes); break;
	case INIT_NORMAL:
		memcpy(dst, need_mean(r) + columns[0], bytes);
		add_noise(r, id, columns, dst);
		break;
	}
}

/* Some columns of a new row of weights, their average or moments, in the type of the table. */
static void
round_new_row(struct resized *r, const struct source_part *p, int64_t id, void *dst)
{
	const int64_t columns[2] = { p->slice.start[1], p->slice.count[1] };
	double *row = mem_zalloc((size_t)columns[1], sizeof *row);

	if (!is_moment(p->state))
		new_row(r, id, columns, row);
	derived_round(&r->d, (struct dtype_array){ dst, r->table.dtype }, row, columns[1]);
	free(row);
}

/* Old rows are copied in their own type. */
static int
gather(struct derived *d, const struct source_part *p, void *dst, struct err *e)
{
	struct resized *r = resized_of(d);
	const int64_t *start = p->slice.start, *count = p->slice.count;
	const struct old_table *t = &r->table;
	char *to = dst;
	size_t size, bytes;

	if (need_table(r, old_table_of(d, p->param), p->state, e) < 0)
		return -1;
	size = dtype_size(t->dtype);
	bytes = (size_t)count[1] * size;
	for (int64_t i = start[0]; i < start[0] + count[0]; i++, to += bytes) {
		const struct vocab_row *v = &r->map.row[i];

		if (vocab_row_is_new(v))
			round_new_row(r, p, i, to);
		else
			memcpy(to, (char *)t->raw + (size_t)(v->old * width(t) + start[1]) * size,
			    bytes);
	}
	return 0;
}

static bool
find_origin(const struct derived *d, const struct source_part *p, struct derived_origin *out)
{
	const struct source *last = derived_last(d);
	const struct param *table = old_table_of(d, p->param);
	int i = table ? -1 : source_index(last, p->param);

	if (!table && i < 0)
		BUG("'%s' is of no parameter of the old model", p->param->name);
	out->param = table ? table : &last->param[i];
	out->state = p->state;
	if (!table)
		out->from = derived_last(d);
	else
		out->dtype = source_dtype(last, table, p->state);
	return out->from || out->dtype != DTYPE_NONE;
}

/* --- new rows that are alike ------------------------------------------------------------------ */

struct row_sum {
	uint64_t sum;
	int64_t id;
};

static int
compare_sums(const void *a, const void *b)
{
	const struct row_sum *x = a, *y = b;

	if (x->sum != y->sum)
		return x->sum < y->sum ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* The sums of the new rows of the embedding in the type that is stored. Returns how many. */
static int64_t
sum_rows(struct resized *r, struct row_sum *out)
{
	const struct old_table *t = &r->table;
	int64_t h = width(t), all[2] = { 0, h }, n = 0;
	size_t size = dtype_size(t->dtype);
	double *row = mem_alloc((size_t)h, sizeof *row);
	void *stored = mem_alloc((size_t)h, size);

	for (int64_t i = 0; i < r->map.count; i++) {
		if (!vocab_row_is_new(&r->map.row[i]))
			continue;
		new_row(r, i, all, row);
		dtype_convert(stored, t->dtype, row, DTYPE_F64, h);
		out[n++] = (struct row_sum){ hash_xxh3(stored, (size_t)h * size), i };
	}
	free(row);
	free(stored);
	return n;
}

/* Which new rows are equal, with a note. */
static int
find_equal(struct resized *r, struct err *e)
{
	int64_t most = r->map.of[ROW_MEAN_OF] + r->map.of[ROW_NEW], n, equal = 0;
	struct row_sum *x;

	r->equal = mem_alloc((size_t)r->map.count, sizeof *r->equal);
	for (int64_t i = 0; i < r->map.count; i++)
		r->equal[i] = -1;
	if (most == 0)
		return 0;
	if (need_table(r, r->input, NULL, e) < 0)
		return -1;
	x = mem_alloc((size_t)most, sizeof *x);
	n = sum_rows(r, x);
	qsort(x, (size_t)n, sizeof *x, compare_sums);
	for (int64_t i = 0, first = 0; i < n; i++) {
		bool same = i > 0 && x[i].sum == x[i - 1].sum;

		first = same ? first : i;
		if (same)
			r->equal[x[i].id] = x[first].id;
		equal += same || (i + 1 < n && x[i + 1].sum == x[i].sum);
	}
	free(x);
	str_addf(&r->d.s.notes, "%lld of %lld new rows are equal to another\n", (long long)equal,
	    (long long)n);
	return 0;
}

/* --- the model -------------------------------------------------------------------------------- */

/* The old tokenizer, which is that of the run where this is known. */
static int
open_before(struct resized *r, struct err *e)
{
	const struct source *last = derived_last(&r->d);
	struct tokenizer_spec spec = *rule_of(&r->d)->before;
	const char *want = last->state.tokenizer;

	if (!spec.model && !spec.vocab) {
		if (last->kind != &source_hf)
			return err_at(e, last->path, 0,
			    "--old-tokenizer-model: needed: no tokenizer lies beside the weights");
		spec.model = last->path;
	}
	r->before = tokenizer_open(&spec, e);
	if (!r->before)
		return -1;
	if (want && strcmp(want, tokenizer_hash(r->before)))
		return err_at(e, last->path, 0,
		    "the old tokenizer has hash %s, but the weights are of one with %s",
		    tokenizer_hash(r->before), want);
	if (tokenizer_vocab_size(r->before) > last->config.vocab_size)
		return err_at(e, last->path, 0,
		    "%lld rows of the vocabulary are fewer than the %lld tokens of the old "
		    "tokenizer",
		    (long long)last->config.vocab_size, (long long)tokenizer_vocab_size(r->before));
	return 0;
}

static int
open_tokenizers(struct resized *r, struct err *e)
{
	if (open_before(r, e) < 0)
		return -1;
	r->after = tokenizer_open(rule_of(&r->d)->after, e);
	if (!r->after)
		return -1;
	if (!tokenizer_has_text(r->before) || !tokenizer_has_text(r->after))
		return err_set(e, "tokens of a NullTokenizer have no text: rows cannot be matched");
	return 0;
}

/* A special id of the options for the new tokens. */
static int64_t
follow(const struct resized *r, int64_t old, enum tokenizer_special which)
{
	int64_t id = old < 0 ? -1 : vocab_map_find(&r->map, old);

	return old < 0 || id >= 0 ? id : tokenizer_special(r->after, which);
}

static void
set_config(struct resized *r)
{
	struct model_config *c = &r->d.s.config;
	struct id_list ends = { 0 };
	struct err unused;

	c->vocab_size = r->map.count;
	c->bos_token_id = follow(r, c->bos_token_id, TOKENIZER_BOS);
	c->pad_token_id = follow(r, c->pad_token_id, TOKENIZER_PAD);
	for (int i = 0; i < c->eos_token_id.count; i++) {
		int64_t id = follow(r, c->eos_token_id.id[i], TOKENIZER_EOS);
		bool has = id < 0;

		for (int k = 0; k < ends.count; k++)
			has = has || ends.id[k] == id;
		if (!has)
			id_list_add(&ends, id, &unused);
	}
	c->eos_token_id = ends;
}

static void
add_notes(struct resized *r)
{
	const struct vocab_map *m = &r->map;
	const int64_t *of = m->of;
	struct str *notes = &r->d.s.notes;
	bool adam = derived_last(&r->d)->rule;

	str_addf(notes,
	    "%lld rows: %lld same, %lld moved, %lld role, %lld map, %lld mean-of, %lld %s, %lld "
	    "kept\n",
	    (long long)m->count, (long long)of[ROW_SAME], (long long)of[ROW_MOVED],
	    (long long)of[ROW_ROLE], (long long)of[ROW_MAP], (long long)of[ROW_MEAN_OF],
	    (long long)of[ROW_NEW],
	    rule_of(&r->d)->init ? row_inits[rule_of(&r->d)->init] : row_inits[INIT_MEAN],
	    (long long)of[ROW_KEPT]);
	if (m->doubles)
		str_addf(
		    notes, "%lld tokens have the same bytes as another\n", (long long)m->doubles);
	if (m->lost)
		str_addf(notes, "rows of %lld old tokens are of no new token%s\n",
		    (long long)m->lost, rule_of(&r->d)->shrink ? " and are lost" : "");
	if (adam && of[ROW_MEAN_OF] + of[ROW_NEW])
		str_adds(notes,
		    "moments of new rows are 0 while the number of steps is not: warm up, or "
		    "--no-optim\n");
}

static int
set_model(struct derived *d, struct err *e)
{
	struct resized *r = resized_of(d);
	const struct resized_rule *rule = rule_of(d);
	const struct source *last = derived_last(d);
	struct vocab_map_rule how = { rule->init == INIT_SUBWORD_MEAN, rule->shrink, rule->map };
	int64_t added;

	r->input = source_param(last, "embedding.word_embeddings.weight");
	r->output = source_param(last, "output_layer.weight");
	if (open_tokenizers(r, e) < 0)
		return -1;
	r->map.before = r->before;
	r->map.after = r->after;
	r->map.old_rows = last->config.vocab_size;
	if (vocab_map_make(&r->map, &how, e) < 0)
		return -1;
	added = r->map.of[ROW_MEAN_OF] + r->map.of[ROW_NEW];
	if (rule->init == INIT_NORMAL && added > NORMAL_MAX)
		return err_set(
		    e, "--init normal: %lld new rows: at most %d", (long long)added, NORMAL_MAX);
	set_config(r);
	add_notes(r);
	return find_equal(r, e);
}

/* A run that continues must not take the old tokenizer. */
static int
set_state(struct derived *d, struct err *e)
{
	(void)e;
	state_edit(&d->s.state_text, "tokenizer", "%s", tokenizer_hash(resized_of(d)->after));
	return 0;
}

static void
release(struct derived *d)
{
	struct resized *r = resized_of(d);

	vocab_map_release(&r->map);
	tokenizer_close(r->before);
	tokenizer_close(r->after);
	old_table_release(&r->table);
	free(r->equal);
}

/* --- the report ------------------------------------------------------------------------------- */

/* A piece in one field: control characters and bytes that are not UTF-8 are escaped. */
static void
add_piece(struct str *out, const struct tokenizer *t, int64_t id)
{
	struct str text = { 0 };
	char *escaped;

	tokenizer_surface(t, id, &text);
	escaped = mem_alloc(8 * text.len + 8, 1);
	utf8_escape(text.buf ? text.buf : "", text.len, escaped, 8 * text.len + 8);
	str_adds(out, escaped);
	free(escaped);
	str_release(&text);
}

static void
add_line(const struct resized *r, int64_t id, struct str *out)
{
	static const char *const words[] = { "same", "moved", "role", "map", "mean-of", NULL,
		"kept" };
	const struct vocab_row *v = &r->map.row[id];
	enum row_init init = rule_of(&r->d)->init;
	uint32_t old = (uint32_t)v->old;
	const uint32_t *ids = v->count ? r->map.pieces.id + v->first : &old;
	size_t n = v->count ? v->count : v->old >= 0;

	str_addf(out, "%lld\t", (long long)id);
	if (v->from != ROW_KEPT)
		add_piece(out, r->after, id);
	str_addf(out, "\t%s\t",
	    v->from != ROW_NEW ? words[v->from] : row_inits[init ? init : INIT_MEAN]);
	for (size_t i = 0; i < n; i++)
		str_addf(out, "%s%u", i ? " " : "", ids[i]);
	str_addc(out, '\t');
	for (size_t i = 0; i < n && v->from != ROW_KEPT; i++) {
		str_adds(out, i ? "|" : "");
		add_piece(out, r->before, ids[i]);
	}
	str_addc(out, '\t');
	if (r->equal[id] >= 0)
		str_addf(out, "%lld", (long long)r->equal[id]);
	str_addc(out, '\n');
}

int
resized_report(struct derived *d, const char *path, struct err *e)
{
	const struct resized *r = resized_of(d);
	struct str text = { 0 };
	int rc;

	str_adds(&text, "id\tpiece\tfrom\told_ids\told_pieces\tequal_to\n");
	for (int64_t i = 0; i < r->map.count; i++)
		add_line(r, i, &text);
	rc = outfile_write(path, text.buf, text.len, e);
	str_release(&text);
	return rc;
}

const struct derived_kind derived_resized = {
	.name = "model for another tokenizer",
	.size = sizeof(struct resized),
	.keeps = KEEPS_OPTIM | KEEPS_AVERAGE | KEEPS_HISTORIES | KEEPS_RUN_OPTIONS,
	.model = set_model,
	.origin = find_origin,
	.gather = gather,
	.state = set_state,
	.release = release,
};

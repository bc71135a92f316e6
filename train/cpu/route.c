/*
 * route.c - the router of experts: top-k, weights, order of rows, and their gradients. Source:
 * docs/math.md 5
 *
 * Rows are computed in parallel; the order of rows and the sums over rows come after, by one thread
 * in the order of rows, so that nothing depends on the number of threads.
 */
#include "train/cpu/real.h"

enum { ROWS = 16 };                                        /* of an item */
enum { BALANCE, SQUARE, ENTROPY, ROUNDS, RECEIVED, SUMS }; /* in the order of struct route_grad */

static const int32_t *
ints(const struct tensor *t, int64_t row)
{
	return (const int32_t *)t->data + row * t->stride[0];
}

static real *
reals(const struct tensor *t, int64_t row)
{
	return (real *)t->data + row * t->stride[0];
}

static int64_t
first_of(int64_t item)
{
	return item * ROWS;
}

static int64_t
end_of(int64_t item, int64_t rows)
{
	return int64_min(rows, (item + 1) * ROWS);
}

/* --- one row ---------------------------------------------------------------------------------- */

/* What experts are chosen by, or without the bias. */
static void
scores(const struct route *r, const real *z, bool biased, real *out)
{
	int64_t n = r->logits.shape[1];
	real buf[CPU_SPAN];
	const real *bias =
	    biased && r->bias.data ? span_load(&r->bias, &(struct span){ 0, 0, n }, buf) : NULL;

	for (int64_t i = 0; i < n; i++)
		out[i] =
		    (r->score == ROUTE_SIGMOID ? real_sigmoid(z[i]) : z[i]) + (bias ? bias[i] : 0);
}

/* log Σ exp of the logits. */
static real
log_sum(const real *z, int64_t n)
{
	real max = row_max(z, n, -INFINITY), sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += real_exp(z[i] - max);
	return max + real_math(log)(sum);
}

/* The k highest scores, in rising order of experts. One that is chosen gets NaN, which is above
 * nothing; where nothing is left that compares, the first ones that are not chosen follow. */
static void
choose(real *score, int64_t n, int32_t *topk, int64_t k)
{
	for (int64_t j = 0; j < k; j++) {
		int64_t best = -1, at = j;

		for (int64_t i = 0; i < n; i++)
			if (!isnan(score[i]) && (best < 0 || score[i] > score[best]))
				best = i;
		for (int64_t i = 0; best < 0 && i < n; i++) {
			int64_t c = 0;

			while (c < j && topk[c] != i)
				c++;
			best = c == j ? i : best;
		}
		score[best] = NAN;
		for (; at > 0 && topk[at - 1] > best; at--)
			topk[at] = topk[at - 1];
		topk[at] = (int32_t)best;
	}
}

/* The sum of the highest of n scores, less lse where they are logits of a softmax. */
static real
group_score(const struct route *r, const real *score, int64_t n, real lse)
{
	int32_t best[CPU_SPAN];
	real left[CPU_SPAN], sum = 0;

	memcpy(left, score, (size_t)n * sizeof *left);
	choose(left, n, best, r->group_scores);
	for (int64_t j = 0; j < r->group_scores; j++)
		sum +=
		    r->score == ROUTE_PRE_SOFTMAX ? real_exp(score[best[j]] - lse) : score[best[j]];
	return sum;
}

/* Experts outside of the best groups have no score any more. */
static void
limit_groups(const struct route *r, const real *z, real *score)
{
	int64_t n = r->logits.shape[1], size = n / r->groups, j = 0;
	real groups[CPU_SPAN], lse = r->score == ROUTE_PRE_SOFTMAX ? log_sum(z, n) : 0;
	int32_t best[CPU_SPAN];

	for (int64_t g = 0; g < r->groups; g++)
		groups[g] = group_score(r, score + g * size, size, lse);
	choose(groups, r->groups, best, r->group_topk);
	for (int64_t g = 0; g < r->groups; g++) {
		if (j < r->group_topk && best[j] == g)
			j++;
		else
			for (int64_t i = 0; i < size; i++)
				score[g * size + i] = NAN;
	}
}

/* p [n]: the softmax, or the sigmoids divided by their sum, which is returned. */
static real
shares(const struct route *r, const real *z, real *p)
{
	int64_t n = r->logits.shape[1];
	real lse = r->score == ROUTE_SIGMOID ? 0 : log_sum(z, n), sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += p[i] = r->score == ROUTE_SIGMOID ? real_sigmoid(z[i]) : real_exp(z[i] - lse);
	for (int64_t i = 0; r->score == ROUTE_SIGMOID && i < n; i++)
		p[i] /= sum;
	return sum;
}

/* The weights of the chosen; returns the sum that divides sigmoids. */
static real
weigh(const struct route *r, const real *z, const int32_t *topk, real *w)
{
	int64_t k = r->topk.shape[1];
	real max = -INFINITY, sum = 0, scale = (real)r->scale;

	if (r->score == ROUTE_PRE_SOFTMAX) {
		real lse = log_sum(z, r->logits.shape[1]);

		for (int64_t j = 0; j < k; j++)
			w[j] = scale * real_exp(z[topk[j]] - lse);
		return 1;
	}
	for (int64_t j = 0; j < k; j++)
		max = z[topk[j]] > max ? z[topk[j]] : max;
	for (int64_t j = 0; j < k; j++)
		sum += w[j] = r->score == ROUTE_SIGMOID ? real_sigmoid(z[topk[j]])
							: real_exp(z[topk[j]] - max);
	if (r->score == ROUTE_SIGMOID)
		sum = k == 1 ? 1 : sum + (real)1e-20;
	for (int64_t j = 0; j < k; j++)
		w[j] = scale * (w[j] / sum);
	return sum;
}

/* --- the forward pass ------------------------------------------------------------------------- */

/* Whether loads are of other experts than those that are chosen. */
static bool
loads_apart(const struct route *r)
{
	return r->bias.data || r->groups > 0;
}

/* With a bias or groups the top-k indices without them are left in the row's permutation, until
 * these are made. */
static void
route_rows(const void *ctx, int64_t item, void *scratch)
{
	const struct route *r = ctx;
	int64_t n = r->logits.shape[1];

	for (int64_t i = first_of(item); i < end_of(item, r->logits.shape[0]); i++) {
		const real *z = reals(&r->logits, i);
		int32_t *topk = (int32_t *)r->topk.data + i * r->topk.stride[0];

		if (!r->chosen) {
			scores(r, z, true, scratch);
			if (r->groups)
				limit_groups(r, z, scratch);
			choose(scratch, n, topk, r->topk.shape[1]);
		}
		if (loads_apart(r)) {
			scores(r, z, false, scratch);
			choose(scratch, n,
			    (int32_t *)r->permutation.data + i * r->permutation.stride[0],
			    r->topk.shape[1]);
		}
		weigh(r, z, topk, reals(&r->weight, i));
	}
}

/* How many ranks share each expert. */
static int64_t
slices_of(const struct route *r)
{
	return r->permutation.shape[1] / r->topk.shape[1];
}

/* The number of rows for a slice of an expert. */
static int32_t *
count_of(const struct route *r, const struct tensor *counts, int64_t expert, int64_t slice)
{
	int64_t local = counts->shape[1], rank = expert / local * slices_of(r) + slice;

	return (int32_t *)counts->data + rank * local + expert % local;
}

/* Rows of each expert by balancing group, of the top-k indices without bias and groups. */
static void
count_load(const struct route *r)
{
	const struct tensor *topk = loads_apart(r) ? &r->permutation : &r->topk;
	int64_t n = r->logits.shape[1], k = r->topk.shape[1], groups = r->load.shape[0];
	int32_t *load = r->load.data;

	memset(load, 0, (size_t)(n * groups) * sizeof *load);
	for (int64_t i = 0; i < r->topk.shape[0]; i++)
		for (int64_t j = 0; j < k; j++)
			load[i % groups * n + ints(topk, i)[j]]++;
}

/* Counts, of experts from `first` on, and the place of every row whose place is not below 0: a sort
 * by counting. Item i is number i % slices of top-k index i / slices. */
static void
sort_rows(const struct route *r, const struct tensor *counts, int64_t first)
{
	int64_t n = slices_of(r), items = tensor_elements(&r->permutation),
		slices = tensor_elements(counts);
	int32_t *count = counts->data, *permutation = r->permutation.data, before = 0;
	const int32_t *topk = r->topk.data;

	memset(count, 0, (size_t)slices * sizeof *count);
	for (int64_t i = 0; i < items; i++)
		if (permutation[i] >= 0)
			++*count_of(r, counts, topk[i / n] - first, i % n);
	for (int64_t x = 0; x < slices; x++) {
		before += count[x];
		count[x] = before - count[x];
	}
	for (int64_t i = 0; i < items; i++)
		if (permutation[i] >= 0)
			permutation[i] = (*count_of(r, counts, topk[i / n] - first, i % n))++;
	for (int64_t x = slices; x-- > 1;)
		count[x] -= count[x - 1];
}

static void
check(const struct route *r)
{
	ops_require(r->logits.dtype == REAL_DTYPE && r->weight.dtype == REAL_DTYPE);
	ops_require(r->topk.dtype == DTYPE_I32 && r->permutation.dtype == DTYPE_I32);
	ops_require(r->counts.dtype == DTYPE_I32 && r->load.dtype == DTYPE_I32);
	ops_require(r->logits.shape[1] <= CPU_SPAN && r->topk.shape[1] <= r->logits.shape[1]);
	ops_require(r->topk.shape[0] == r->logits.shape[0] &&
	    tensor_same_shape(&r->weight, &r->topk) && r->permutation.shape[0] == r->topk.shape[0]);
	ops_require(r->permutation.shape[1] % r->topk.shape[1] == 0 && r->counts.ndim == 2 &&
	    tensor_elements(&r->counts) == r->logits.shape[1] * slices_of(r));
	ops_require(!r->groups ||
	    (r->logits.shape[1] % r->groups == 0 && r->group_topk <= r->groups &&
		r->group_scores <= r->logits.shape[1] / r->groups));
}

void
cpu_name(route)(struct stream *st, const struct route *r)
{
	check(r);
	cpu_for(st, int64_div_up(r->logits.shape[0], ROWS), route_rows, r);
	count_load(r);
	memset(r->permutation.data, 0, tensor_bytes(&r->permutation));
	sort_rows(r, &r->counts, 0);
}

void
cpu_name(place_rows)(struct stream *st, const struct place_rows *p)
{
	struct route r = { .topk = p->choice, .permutation = p->permutation };
	const int32_t *choice = p->choice.data;
	int32_t *permutation = p->permutation.data;
	int64_t n = slices_of(&r), end = p->first + tensor_elements(&p->counts) / n;

	(void)st;
	ops_require(p->choice.dtype == DTYPE_I32 && p->permutation.dtype == DTYPE_I32 &&
	    p->counts.dtype == DTYPE_I32 && p->counts.ndim == 2 && p->first >= 0);
	ops_require(p->permutation.shape[0] == p->choice.shape[0] &&
	    p->permutation.shape[1] == n * p->choice.shape[1]);
	for (int64_t i = 0; i < tensor_elements(&p->permutation); i++)
		permutation[i] = choice[i / n] < p->first || choice[i / n] >= end ? -1 : 0;
	sort_rows(&r, &p->counts, p->first);
}

/* --- capacities ------------------------------------------------------------------------------- */

/* Of the rows that chose an expert, the lowest of the `capacity` highest weights, by its bits,
 * which are in the order of numbers since no weight is below 0; and how many rows of just that
 * weight are among these. Without more rows than capacity it is 0. */
struct least {
	uint64_t bits[CPU_SPAN];
	int64_t equal[CPU_SPAN];
};

static uint64_t
weight_bits(const struct drop_rows *d, int64_t i)
{
	real w = d->by_position ? 0 : ((const real *)d->route.weight.data)[i];
	uint64_t bits = 0;

	memcpy(&bits, &w, sizeof w);
	return bits;
}

/* From the highest bit down: it is set where that leaves enough rows. */
static void
find_least(const struct drop_rows *d, struct least *l)
{
	const int32_t *expert = d->route.topk.data;
	int64_t all = tensor_elements(&d->route.topk), n = d->route.logits.shape[1];

	memset(l, 0, sizeof *l);
	for (int bit = 8 * (int)sizeof(real); bit-- > 0;) {
		memset(l->equal, 0, sizeof l->equal);
		for (int64_t i = 0; i < all; i++)
			l->equal[expert[i]] +=
			    weight_bits(d, i) >= (l->bits[expert[i]] | (uint64_t)1 << bit);
		for (int64_t x = 0; x < n; x++)
			if (l->equal[x] >= d->capacity)
				l->bits[x] |= (uint64_t)1 << bit;
	}
	for (int64_t x = 0; x < n; x++)
		l->equal[x] = d->capacity;
	for (int64_t i = 0; i < all; i++)
		l->equal[expert[i]] -= weight_bits(d, i) > l->bits[expert[i]];
}

void
cpu_name(drop_rows)(struct stream *st, const struct drop_rows *d)
{
	const struct route *r = &d->route;
	const int32_t *expert = r->topk.data;
	int32_t *permutation = r->permutation.data;
	real *kept = d->kept.data;
	int64_t all = tensor_elements(&r->topk), slices = slices_of(r);
	struct least l;

	(void)st;
	check(r);
	ops_require(d->kept.dtype == REAL_DTYPE && tensor_same_shape(&d->kept, &r->topk));
	ops_require(d->capacity > 0 && tensor_same_shape(&d->taken, &r->counts));
	ops_require(!d->choice.data ||
	    (d->choice.dtype == DTYPE_I32 && tensor_same_shape(&d->choice, &r->topk)));
	if (!r->chosen)
		find_least(d, &l);
	for (int64_t i = 0; i < all && !r->chosen; i++) {
		uint64_t bits = weight_bits(d, i), least = l.bits[expert[i]];

		kept[i] = bits > least || (bits == least && l.equal[expert[i]]-- > 0);
	}
	for (int64_t i = 0; i < all * slices; i++)
		permutation[i] = kept[i / slices] > 0 ? 0 : -1;
	for (int64_t i = 0; d->choice.data && i < all; i++)
		((int32_t *)d->choice.data)[i] = kept[i] > 0 ? expert[i] : -1;
	sort_rows(r, &d->taken, 0);
}

/* --- the backward pass ------------------------------------------------------------------------ */

/* dz [n], of zeros: that of the weights w of the chosen. Σ dw w is the same for all three: what
 * the division by the sum takes back, times the scale. */
static void
weights_grad(const struct route *r, int64_t row, const real *dw, real *dz)
{
	const real *z = reals(&r->logits, row), *w = reals(&r->weight, row);
	const int32_t *topk = ints(&r->topk, row);
	int64_t n = r->logits.shape[1], k = r->topk.shape[1];
	real p[CPU_SPAN], fresh[CPU_SPAN], sum, mean = row_dot(dw, w, k), scale = (real)r->scale;

	switch (r->score) {
	case ROUTE_SOFTMAX:
		for (int64_t j = 0; j < k; j++)
			dz[topk[j]] = w[j] * (dw[j] - mean / scale);
		return;
	case ROUTE_PRE_SOFTMAX:
		shares(r, z, p);
		for (int64_t i = 0; i < n; i++)
			dz[i] = -p[i] * mean;
		for (int64_t j = 0; j < k; j++)
			dz[topk[j]] += w[j] * dw[j];
		return;
	case ROUTE_SIGMOID:
		sum = weigh(r, z, topk, fresh);
		for (int64_t j = 0; j < k; j++) {
			real s = real_sigmoid(z[topk[j]]);

			dz[topk[j]] = (scale * dw[j] - (k > 1 ? mean : 0)) / sum * s * (1 - s);
		}
	}
}

/* What a row adds to the sums over rows. */
struct row_sums {
	double balance, square, entropy;
};

/* What multiplies both losses. */
static double
factor_of(const struct route_grad *g)
{
	return g->factor.data ? *(const double *)g->factor.data : 1;
}

/* What the balance of a row counts of an expert: the load of its group, or the total. */
static double
load_of(const struct route_grad *g, int64_t row, int64_t expert)
{
	return g->total.data ? ((const double *)g->total.data)[expert]
			     : ints(&g->fwd.load, row % g->fwd.load.shape[0])[expert];
}

/* dz += those of the two losses. */
static struct row_sums
losses_grad(const struct route_grad *g, int64_t row, real *dz)
{
	const struct route *r = &g->fwd;
	const real *z = reals(&r->logits, row);
	int64_t n = r->logits.shape[1];
	real p[CPU_SPAN], lse = log_sum(z, n), sum = shares(r, z, p),
			  balance = (real)(g->balance * factor_of(g)),
			  square = (real)(2 * g->z * factor_of(g));
	struct row_sums out = { .square = (double)lse * (double)lse };

	for (int64_t i = 0; i < n; i++) {
		out.balance += (double)p[i] * load_of(g, row, i);
		out.entropy -= p[i] > 0 ? (double)p[i] * log((double)p[i]) : 0;
	}
	for (int64_t i = 0; i < n; i++) {
		real s = p[i] * sum, slope = r->score == ROUTE_SIGMOID ? s * (1 - s) / sum : p[i];

		dz[i] += balance * slope * ((real)load_of(g, row, i) - (real)out.balance) +
		    square * lse * real_exp(z[i] - lse);
	}
	return out;
}

static void
grad_rows(const void *ctx, int64_t item, void *scratch)
{
	const struct route_grad *g = ctx;
	size_t bytes = (size_t)g->fwd.logits.shape[1] * sizeof(real);

	(void)scratch;
	for (int64_t i = first_of(item); i < end_of(item, g->fwd.logits.shape[0]); i++) {
		real *dz = reals(&g->dlogits, i);

		memset(dz, 0, bytes);
		weights_grad(&g->fwd, i, reals(&g->dweight, i), dz);
		losses_grad(g, i, dz);
	}
}

/* The load joins the total, if there is one; returns what multiplies that to a mean of loads. */
static double
add_load(const struct route_grad *g)
{
	double *total = g->total.data, one = 0, all = 0;

	if (!total)
		return 1;
	for (int64_t i = 0; i < g->total.shape[0]; i++) {
		total[i] += ints(&g->fwd.load, 0)[i];
		one += ints(&g->fwd.load, 0)[i];
		all += total[i];
	}
	return one / all;
}

/* The sums over rows, which are in double: computed again, in order, into a row that is thrown
 * away. Loads are multiplied by `share`. */
static void
add_sums(const struct route_grad *g, double share)
{
	int64_t n = g->fwd.logits.shape[1], received = round_rows(&g->received, 0, INT64_MAX);
	double *sums = g->sums.data;
	real unused[CPU_SPAN] = { 0 };

	for (int64_t i = 0; i < n; i++)
		sums[i] += *count_of(&g->fwd, &g->fwd.counts, i, 0);
	for (int64_t i = 0; i < g->fwd.logits.shape[0]; i++) {
		struct row_sums s = losses_grad(g, i, unused);

		sums[n + BALANCE] += s.balance * share;
		sums[n + SQUARE] += s.square;
		sums[n + ENTROPY] += s.entropy;
	}
	sums[n + ROUNDS] += (double)int64_max(1, int64_div_up(received, g->round));
	sums[n + RECEIVED] = fmax(sums[n + RECEIVED], (double)received);
}

void
cpu_name(route_grad)(struct stream *st, const struct route_grad *g)
{
	struct route_grad mean = *g;
	double share;

	check(&g->fwd);
	ops_require(tensor_same_shape(&g->dlogits, &g->fwd.logits) &&
	    tensor_same_shape(&g->dweight, &g->fwd.weight));
	ops_require(g->received.dtype == DTYPE_I32 && g->round > 0);
	ops_require(!g->factor.data || g->factor.dtype == DTYPE_F64);
	ops_require(!g->total.data ||
	    (g->total.dtype == DTYPE_F64 && g->total.shape[0] == tensor_elements(&g->fwd.load)));
	ops_require(
	    g->sums.dtype == DTYPE_F64 && g->sums.shape[0] == g->fwd.logits.shape[1] + SUMS);
	share = add_load(g);
	mean.balance *= share;
	cpu_for(st, int64_div_up(g->fwd.logits.shape[0], ROWS), grad_rows, &mean);
	add_sums(&mean, share);
	for (int64_t i = 0; g->dbias.data && i < g->dbias.shape[0]; i++)
		*real_at(&g->dbias, i) = (g->accumulate ? *real_at(&g->dbias, i) : 0) +
		    (real)*count_of(&g->fwd, &g->fwd.counts, i, 0);
}

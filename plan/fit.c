/*
 * fit.c - least squares over the constants of the time model
 */
#include "plan/fit.h"
#include "plan/time.h"

#include <stdlib.h>
#include <string.h>

#define CONSTANT(option, field, ...) \
	{ \
		option, offsetof(struct hardware, field), __VA_ARGS__ \
	}

const struct fit_constant fit_constants[FIT_CONSTANTS] = {
	CONSTANT("gemm-efficiency", gemm_efficiency, 0.2, 1, 0.2, false),
	CONSTANT("fp8-efficiency", fp8_efficiency, 0.3, 1.5, 0.2, false),
	CONSTANT("attention-efficiency", attention_efficiency, 0.05, 1, 0.5, false),
	CONSTANT("memory-efficiency", memory_efficiency, 0.1, 1, 0.4, false),
	CONSTANT("link-efficiency", link_efficiency, 0.1, 1, 0.4, false),
	CONSTANT("network-efficiency", network_efficiency, 0.1, 1, 0.4, false),
	CONSTANT("kernel-us", kernel_us, 0, 60, 15, true),
	CONSTANT("host-us", host_us, 0, 200, 20, true),
	CONSTANT("step-ms", step_ms, 0, 100, 20, true),
	CONSTANT("dp-overlap", dp_overlap, 0, 1, 0.4, true),
	CONSTANT("layer-overlap", layer_overlap, 0, 1, 0.4, true),
	CONSTANT("stage-exposed", stage_exposed, 0, 1, 0.4, true),
};

/* What a row's measurement and the model may well differ by, and the least that counts in a
 * weight. */
static const double noise = 0.1, least_gap = 0.02;
enum { ROUNDS = 20 };

static double *
field(struct hardware *hw, int i)
{
	return (double *)((char *)hw + fit_constants[i].off);
}

void
fit_of(const struct hardware *hw, struct fitted *out)
{
	struct hardware copy = *hw;

	for (int i = 0; i < FIT_CONSTANTS; i++) {
		out->value[i] = *field(&copy, i);
		out->known[i] = false;
	}
}

/* A device with these constants. */
static struct hardware
device_of(const struct hardware *hw, const struct fitted *f)
{
	struct hardware out = *hw;

	for (int i = 0; i < FIT_CONSTANTS; i++)
		*field(&out, i) = f->value[i];
	return out;
}

double
fit_seconds(const struct measured_row *r, const struct fitted *f)
{
	struct hardware hw = device_of(&r->hw, f);
	struct run_case c = rows_case(r, &hw);
	struct step_time t;

	time_step(&c, &t);
	return t.total;
}

/* The same, fast. */
static double
quick_seconds(const struct measured_row *r, const struct fitted *f)
{
	struct hardware hw = device_of(&r->hw, f);
	struct run_case c = rows_case(r, &hw);
	struct block_costs costs;

	time_blocks(&c, &costs);
	return time_bound(&c, &costs) * (r->over_bound > 0 ? r->over_bound : 1);
}

void
fit_prepare(struct measured_rows *rows, const struct fitted *start)
{
	for (int i = 0; i < rows->count; i++) {
		struct measured_row *r = &rows->item[i];

		r->over_bound = 0;
		r->over_bound = fit_seconds(r, start) / quick_seconds(r, start);
	}
}

/* --- least squares ---------------------------------------------------------------------------- */

/* A constant as the number of scales that it lies from where the fit starts, and back. */
static double
moved_by(int i, double start, double u)
{
	const struct fit_constant *c = &fit_constants[i];
	double value = c->linear ? start + u * c->scale : start * exp(u * c->scale);

	return fmin(fmax(value, c->least), c->most);
}

struct problem {
	const struct measured_rows *rows;
	const bool *use;
	const struct fitted *start;
	bool held[FIT_CONSTANTS]; /* stay as they start */
	double u[FIT_CONSTANTS];
	double gap[FIT_CONSTANTS + 1]; /* of a row: log(time / measured), and its slopes */
	double a[FIT_CONSTANTS][FIT_CONSTANTS], b[FIT_CONSTANTS];
};

static void
values(const struct problem *p, const double *u, struct fitted *out)
{
	for (int i = 0; i < FIT_CONSTANTS; i++)
		out->value[i] = moved_by(i, p->start->value[i], u[i]);
}

/* The gap of a row and its slopes by differences. */
static void
row_gaps(struct problem *p, const struct measured_row *r)
{
	enum { PART = 50 }; /* of a scale */
	struct fitted f;
	double base;

	values(p, p->u, &f);
	base = log(quick_seconds(r, &f) / r->seconds);
	p->gap[FIT_CONSTANTS] = base;
	for (int i = 0; i < FIT_CONSTANTS; i++) {
		double u = p->u[i], kept = f.value[i], side = kept < fit_constants[i].most ? 1 : -1;

		p->gap[i] = 0;
		if (p->held[i])
			continue;
		f.value[i] = moved_by(i, p->start->value[i], u + side / PART);
		if (f.value[i] != kept)
			p->gap[i] = (log(quick_seconds(r, &f) / r->seconds) - base) * side * PART;
		f.value[i] = kept;
	}
}

/* The normal equations at u: rows weighed so that the sum of their absolute gaps counts, and the
 * prior. */
static void
gather(struct problem *p)
{
	memset(p->a, 0, sizeof p->a);
	for (int i = 0; i < FIT_CONSTANTS; i++) {
		p->a[i][i] = 1;
		p->b[i] = -p->u[i];
	}
	for (int r = 0; r < p->rows->count; r++) {
		double weight;

		if (!p->use[r])
			continue;
		row_gaps(p, &p->rows->item[r]);
		weight = 1 / (noise * fmax(fabs(p->gap[FIT_CONSTANTS]), least_gap));
		for (int i = 0; i < FIT_CONSTANTS; i++) {
			p->b[i] -= weight * p->gap[i] * p->gap[FIT_CONSTANTS];
			for (int j = 0; j < FIT_CONSTANTS; j++)
				p->a[i][j] += weight * p->gap[i] * p->gap[j];
		}
	}
}

/* x of a x = b by elimination; a is positive definite, and is lost. */
static void
solve(double a[FIT_CONSTANTS][FIT_CONSTANTS], double *b)
{
	for (int k = 0; k < FIT_CONSTANTS; k++)
		for (int i = k + 1; i < FIT_CONSTANTS; i++) {
			double share = a[i][k] / a[k][k];

			for (int j = k; j < FIT_CONSTANTS; j++)
				a[i][j] -= share * a[k][j];
			b[i] -= share * b[k];
		}
	for (int k = FIT_CONSTANTS; k-- > 0;) {
		for (int j = k + 1; j < FIT_CONSTANTS; j++)
			b[k] -= a[k][j] * b[j];
		b[k] /= a[k][k];
	}
}

/* What is made small. */
static double
cost(const struct problem *p, const double *u)
{
	double sum = 0;
	struct fitted f;

	values(p, u, &f);
	for (int r = 0; r < p->rows->count; r++)
		if (p->use[r]) {
			double gap = fabs(
			    log(quick_seconds(&p->rows->item[r], &f) / p->rows->item[r].seconds));

			sum += fmax(gap, least_gap) / noise;
		}
	for (int i = 0; i < FIT_CONSTANTS; i++)
		sum += u[i] * u[i] / 2;
	return sum;
}

/* A step by the slopes, shortened until it makes the cost smaller; the cost after it. */
static double
slide(struct problem *p, double now)
{
	double step[FIT_CONSTANTS], u[FIT_CONSTANTS];

	gather(p);
	memcpy(step, p->b, sizeof step);
	solve(p->a, step);
	for (double share = 1; share > 0.05; share /= 2) {
		double then;

		for (int i = 0; i < FIT_CONSTANTS; i++)
			u[i] = p->held[i] ? p->u[i] : p->u[i] + share * step[i];
		then = cost(p, u);
		if (then < now) {
			memcpy(p->u, u, sizeof u);
			return then;
		}
	}
	return now;
}

/* Each constant alone, near and far, which finds what has no slope where the fit is: a floor that
 * lies below. */
static double
probe(struct problem *p, double now, double reach)
{
	static const double shares[] = { 1, -1, 0.5, -0.5, 0.25, -0.25 };

	for (int i = 0; i < FIT_CONSTANTS; i++) {
		double kept = p->u[i], best = kept;

		for (size_t k = 0; k < sizeof shares / sizeof *shares && !p->held[i]; k++) {
			double then;

			p->u[i] = kept + shares[k] * reach;
			then = cost(p, p->u);
			if (then < now) {
				now = then;
				best = p->u[i];
			}
		}
		p->u[i] = best;
	}
	return now;
}

static void
descend(struct problem *p, double reach)
{
	double now = cost(p, p->u);

	for (int round = 0; round < ROUNDS; round++) {
		double before = now;

		now = probe(p, now, reach);
		now = slide(p, now);
		if (now > before * (1 - 1e-3))
			reach /= 4;
		if (reach < 0.05)
			break;
	}
}

/* Rows determine a constant if they leave less than half of the prior's variance to it. */
static void
find_known(struct problem *p, struct fitted *out)
{
	gather(p);
	for (int i = 0; i < FIT_CONSTANTS; i++) {
		double a[FIT_CONSTANTS][FIT_CONSTANTS], unit[FIT_CONSTANTS] = { 0 };

		memcpy(a, p->a, sizeof a);
		unit[i] = 1;
		solve(a, unit);
		out->known[i] = unit[i] < 0.5;
	}
}

/* The inverse of moved_by. */
static double
distance(int i, double start, double value)
{
	const struct fit_constant *c = &fit_constants[i];

	return c->linear ? (value - start) / c->scale : log(value / start) / c->scale;
}

void
fit_rows(const struct measured_rows *rows, const bool *use, const struct fitted *start,
    const struct fitted *near, struct fitted *out)
{
	enum { FAR = 4 }; /* scales, to which a constant is probed from the start */
	struct problem p = { .rows = rows, .use = use, .start = start };

	for (int i = 0; near && i < FIT_CONSTANTS; i++)
		p.u[i] = distance(i, start->value[i], near->value[i]);
	descend(&p, near ? 0.5 : FAR);
	find_known(&p, out);
	for (int i = 0; i < FIT_CONSTANTS; i++) {
		p.held[i] = !out->known[i];
		if (p.held[i])
			p.u[i] = 0;
	}
	descend(&p, 0.5);
	values(&p, p.u, out);
}

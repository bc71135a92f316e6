/*
 * rules.c - update rules by their definitions: schedules, clipping, AdamW, SGD, Muon, and the
 * biases of experts
 *
 * Sources: Loshchilov & Hutter 2019 arXiv:1711.05101; Jordan 2024, kellerjordan.github.io/posts/
 * muon; Wang 2024 arXiv:2408.15664; Megatron-LM's core/optimizer/{clip_grads,
 * emerging_optimizers}.py and optimizer_param_scheduler.py.
 */
#include "tests/oracle/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The rate of step 1, 2 and so on: a warm-up from 0, then a cosine down to the least or none. */
static double
rate_at(const struct setup *s, int step)
{
	double done = step - 1;

	if (s->warmup > 0 && done <= s->warmup)
		return s->lr * done / s->warmup;
	if (!s->cosine)
		return s->lr;
	done = (done - s->warmup) / (STEPS - s->warmup);
	return s->min_lr + (s->lr - s->min_lr) * (1 + cos(4 * atan(1) * done)) / 2;
}

static void
adam(const struct setup *s, struct weights *w, double lr, int step)
{
	for (int i = 0; i < w->count; i++) {
		double m, v;

		w->m[i] = s->beta1 * w->m[i] + (1 - s->beta1) * w->grad[i];
		w->v[i] = s->beta2 * w->v[i] + (1 - s->beta2) * w->grad[i] * w->grad[i];
		m = w->m[i] / (1 - pow(s->beta1, step));
		v = w->v[i] / (1 - pow(s->beta2, step));
		w->value[i] -=
		    lr * (m / (sqrt(v) + s->adam_epsilon) + (w->rows ? s->decay : 0) * w->value[i]);
	}
}

static void
sgd(const struct setup *s, struct weights *w, double lr)
{
	for (int i = 0; i < w->count; i++) {
		w->m[i] =
		    s->momentum * w->m[i] + w->grad[i] + (w->rows ? s->decay : 0) * w->value[i];
		w->value[i] -= lr * w->m[i];
	}
}

/* Five steps of Newton-Schulz towards the nearest orthogonal matrix, x [rows, columns]. */
static void
orthogonalize(double *x, int rows, int columns)
{
	static const double p[5][3] = { { 4.0848, -6.8946, 2.9270 }, { 3.9505, -6.3029, 2.6377 },
		{ 3.7418, -5.5913, 2.3037 }, { 2.8769, -3.1427, 1.2046 },
		{ 2.8366, -3.0525, 1.2012 } };
	static double a[WIDE][WIDE], b[WIDE][WIDE], next[WIDE * WIDE];
	double norm = 0;

	for (int i = 0; i < rows * columns; i++)
		norm += x[i] * x[i];
	for (int i = 0; i < rows * columns; i++)
		x[i] /= fmax(sqrt(norm), 1e-7);
	for (int step = 0; step < 5; step++) {
		memset(a, 0, sizeof a);
		memset(b, 0, sizeof b);
		for (int i = 0; i < rows; i++)
			for (int j = 0; j < rows; j++)
				for (int k = 0; k < columns; k++)
					a[i][j] += x[i * columns + k] * x[j * columns + k];
		for (int i = 0; i < rows; i++)
			for (int j = 0; j < rows; j++) {
				for (int k = 0; k < rows; k++)
					b[i][j] += p[step][2] * a[i][k] * a[k][j];
				b[i][j] += p[step][1] * a[i][j];
			}
		for (int i = 0; i < rows; i++)
			for (int j = 0; j < columns; j++) {
				next[i * columns + j] = p[step][0] * x[i * columns + j];
				for (int k = 0; k < rows; k++)
					next[i * columns + j] += b[i][k] * x[k * columns + j];
			}
		memcpy(x, next, (size_t)(rows * columns) * sizeof *x);
	}
}

static void
muon(const struct setup *s, struct weights *w, double lr)
{
	double x[WIDE * WIDE], scale = sqrt(w->rows > w->columns ? w->rows : w->columns);

	for (int i = 0; i < w->count; i++) {
		w->m[i] = s->momentum * w->m[i] + (1 - s->momentum) * w->grad[i];
		x[i] =
		    s->nesterov ? s->momentum * w->m[i] + (1 - s->momentum) * w->grad[i] : w->m[i];
	}
	orthogonalize(x, w->rows, w->columns);
	for (int i = 0; i < w->count; i++)
		w->value[i] -= lr * (scale * x[i] + s->decay * w->value[i]);
}

/* The biases of a layer's experts, by how many rows chose each. */
static void
move_biases(const struct model *m, struct weights *w)
{
	int layer = atoi(w->name + strlen("decoder.layers."));
	double mean = 0;

	for (int i = 0; i < w->count; i++)
		mean += m->load[layer][i] / w->count;
	for (int i = 0; i < w->count; i++) {
		double off = mean - m->load[layer][i];

		w->value[i] += m->s.bias_rate * ((off > 0) - (off < 0));
	}
}

void
rule_update(struct model *m, double norm, int step)
{
	const struct setup *s = &m->s;
	double lr = rate_at(s, step), factor = 1;

	if (s->clip > 0 && s->clip / (norm + 1e-6) < 1)
		factor = s->clip / (norm + 1e-6);
	for (int k = 0; k < m->num_weights; k++) {
		struct weights *w = &m->weights[k];

		for (int i = 0; i < w->count; i++)
			w->grad[i] *= factor;
		if (strstr(w->name, "expert_bias"))
			move_biases(m, w);
		else if (s->rule == SGD)
			sgd(s, w, lr);
		else if (s->rule == MUON && w->rows && strstr(w->name, "decoder.layers."))
			muon(s, w, lr);
		else
			adam(s, w, lr, step);
	}
}

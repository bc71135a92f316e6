/* made_checkpoint.h - checkpoints of random numbers with optimizer states, for tests of what reads
 * them */
#ifndef TESTS_MADE_CHECKPOINT_H
#define TESTS_MADE_CHECKPOINT_H

#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/source.h"
#include "lib/model/fields.h"
#include "lib/model/optim_rule.h"

#include <stdlib.h>
#include <string.h>

struct made_checkpoint {
	const char *save;
	const struct model_config *config;
	int iteration;    /* after 16 samples each */
	enum dtype dtype; /* of the weights; states are fp32 */
	int states;       /* of Adam's, and one more for an average of the weights */
	uint64_t seed;
	bool missing; /* the first tensor is */
	bool extra;   /* the last one has another name */
	bool shape;   /* the first one has a row less than the model says */
	bool large;   /* the last one has a number that fp16 cannot hold */
};

/* Writes one tensor, some of it at a time. */
static inline int
made_tensor(struct ckpt_writer *w, const struct made_checkpoint *m, const char *name, enum dtype t,
    int64_t count, bool large, struct err *e)
{
	enum { AT_ONCE = 1 << 20 };
	double *x = mem_alloc(AT_ONCE, sizeof *x);
	char *bytes = mem_alloc(AT_ONCE, dtype_size(t));
	int rc = 0;

	for (int64_t at = 0, n; at < count && rc == 0; at += n) {
		n = count - at < AT_ONCE ? count - at : AT_ONCE;
		rng_normal(m->seed, (uint64_t)at, n, rng_stream(name), 0, x);
		if (large && at == 0)
			x[0] = 1e6;
		dtype_convert(bytes, t, x, DTYPE_F64, n);
		rc = ckpt_write_part(w, bytes, (uint64_t)n * dtype_size(t), e);
	}
	free(x);
	free(bytes);
	return rc;
}

/* Declares or writes all tensors. */
static inline int
made_tensors(struct ckpt_writer *w, const struct made_checkpoint *m, const struct param *p, int n,
    bool write, struct err *e)
{
	int rc = 0;

	for (int i = m->missing; i < n && rc == 0; i++)
		for (int s = 0; s <= m->states && rc == 0; s++) {
			const char *state = s > optim_num_states(optim_rules) ? STATE_AVERAGE
			    : s ? optim_rules->states[s - 1]
				: NULL;
			struct slice whole = slice_whole(p[i].ndim, p[i].shape);
			enum dtype t = s ? DTYPE_F32 : m->dtype;
			char name[128];

			source_name(&p[i], state, name);
			if (write)
				rc = made_tensor(w, m, name, t, param_elements(&p[i]),
				    m->large && i == n - 1, e);
			else
				ckpt_declare(w, name, t, p[i].ndim, p[i].shape, &whole);
		}
	return rc;
}

/* Writes SAVE/iter_*, one piece per tensor. */
static inline int
made_write(const struct made_checkpoint *m, struct err *e)
{
	struct str options = { 0 }, manifest = { 0 }, state = { 0 };
	struct ckpt_commit commit = { .save = m->save, .iteration = m->iteration };
	struct param *p;
	char tmp[IO_PATH];
	int n = model_params(m->config, &p), rc;
	struct ckpt_writer *w;

	if (ckpt_begin(m->save, m->iteration, tmp, e) < 0 || !(w = ckpt_writer_new(tmp, 0, e)))
		return -1;
	if (m->extra)
		strcpy(p[n - 1].name, "decoder.final_norm.weight");
	if (m->shape)
		p[0].shape[0]--;
	if (made_tensors(w, m, p, n, false, e) < 0 || made_tensors(w, m, p, n, true, e) < 0 ||
	    ckpt_writer_finish(w, &manifest, e) < 0)
		return -1;
	str_adds(&options,
	    "lr 1e-4\nbf16\ntensor-model-parallel-size 1\npipeline_model_parallel_size "
	    "1\ndata-path 1 \"a b\"\n");
	model_dump(m->config, &options);
	str_addf(&state,
	    "iteration %d\nconsumed_train_samples %d\noptimizer_steps %d\nskipped_iterations "
	    "0\ndtype BF16\noptimizer adam\n",
	    m->iteration, 16 * m->iteration, m->iteration);
	commit.tmp = tmp;
	commit.manifest = manifest.buf;
	commit.options = options.buf;
	commit.state = state.buf;
	rc = ckpt_commit(&commit, e);
	free(p);
	str_release(&options);
	str_release(&manifest);
	str_release(&state);
	return rc;
}

#endif

/*
 * finite.c - parameters that hold NaN or infinity
 *
 * Such a model has no finite loss, and the run that would notice may be days away; verify and
 * import read all weights anyway.
 */
#include "ckpt/finite.h"
#include "ckpt/source.h"
#include "lib/base/mem.h"
#include "lib/model/optim_rule.h"

#include <stdlib.h>

enum { CHUNK = 1 << 20 }; /* elements of a tensor read at once */

int
finite_report(struct str *problems, const char *dir, const char *name, int64_t bad, int64_t count)
{
	if (bad)
		str_addf(problems, "%s: tensor '%s': %lld of %lld elements are not finite\n", dir,
		    name, (long long)bad, (long long)count);
	return bad > 0;
}

/* Tensor i of a checkpoint, a chunk at a time. */
static int
check_tensor(const struct named *s, int i, void *chunk, struct str *problems)
{
	struct named_tensor t;
	struct err e;
	int64_t bad = 0;

	named_at(s, i, &t);
	if (optim_state_of(NULL, t.name) || !dtype_is_float(t.dtype))
		return 0;
	for (int64_t first = 0; first < t.elements; first += CHUNK) {
		int64_t n = t.elements - first < CHUNK ? t.elements - first : CHUNK;

		if (named_read(s, i, first, n, chunk, &e) < 0) {
			str_addf(problems, "%s\n", e.msg);
			return 1;
		}
		bad += dtype_count_nonfinite(chunk, t.dtype, n);
	}
	return finite_report(problems, ckpt_dir(s->ckpt), t.name, bad, t.elements);
}

int
finite_checkpoint(struct ckpt *c, struct str *problems)
{
	const struct named s = { .ckpt = c };
	void *chunk = mem_alloc(CHUNK, sizeof(double));
	int wrong = 0;

	for (int i = 0; i < named_count(&s); i++)
		wrong += check_tensor(&s, i, chunk, problems);
	free(chunk);
	return wrong;
}

int
finite_model(const struct hf_model *m, struct str *problems)
{
	int wrong = 0;

	for (int i = 0; i < m->count; i++) {
		struct family_place place;
		struct err e;
		const struct safetensors_entry *t = hf_model_find(m, i, &place, &e);
		int64_t n = param_elements(&m->param[i]);
		void *read = mem_alloc((size_t)n, sizeof(double));

		if (t && hf_model_read(m, i, read, &e) == 0) {
			wrong += finite_report(problems, m->path, m->param[i].name,
			    dtype_count_nonfinite(read, t->dtype, n), n);
		} else {
			str_addf(problems, "%s\n", e.msg);
			wrong++;
		}
		free(read);
	}
	return wrong;
}

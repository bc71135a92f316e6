/* torch_dir.c - fuzz target: any bytes as the only file of a checkpoint in Megatron-LM's torch
 * format; of what is accepted every parameter and state is read */
#include "lib/ckpt/source.h"
#include "tests/fuzz/input.h"

/* Parameters above this are not read: their memory would be the time of a run. */
enum { ELEMENTS_MAX = 1 << 20 };

static void
read_part(struct source *s, const struct param *p, const char *state)
{
	const struct source_part part = {
		.param = p, .state = state, .box = slice_whole(p->ndim, p->shape)
	};
	int64_t n = param_elements(p);
	struct err e;
	float *to;

	if (n > ELEMENTS_MAX)
		return;
	to = malloc((size_t)n * sizeof *to);
	source_read(s, &part, DTYPE_F32, to, &e);
	free(to);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char dir[INPUT_DIR], path[INPUT_DIR + 64];
	struct source *s;
	struct err e;

	if (!*dir) {
		input_dir(dir);
		snprintf(path, sizeof path, "%s/mp_rank_00", dir);
		if (mkdir(path, 0777) < 0)
			abort();
		snprintf(path, sizeof path, "%s/mp_rank_00/model_optim_rng.pt", dir);
		input_small_pages();
	}
	if (io_write_file(path, data, size, &e) < 0)
		abort();
	s = source_open(dir, &e);
	for (int i = 0; s && s->num_problems == 0 && i < s->count; i++)
		for (int k = 0; k == 0 || (s->rule && s->rule->states[k - 1]); k++)
			read_part(s, &s->param[i], k ? s->rule->states[k - 1] : NULL);
	source_close(s);
	return 0;
}

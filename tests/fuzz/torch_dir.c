/* torch_dir.c - fuzz target: any bytes as the only file of a checkpoint in Megatron-LM's torch
 * format; every parameter and state that it has is read, also where something else is wrong, first
 * with the checksums, which no mutation keeps right, and then without */
#include "lib/base/outfile.h"
#include "lib/ckpt/source.h"
#include "tests/fuzz/input.h"

/* Parameters above this are not read: their memory would be the time of a run. */
enum { ELEMENTS_MAX = 1 << 20 };

static void
read_part(struct source *s, const struct param *p, const char *state)
{
	const struct source_part part = {
		.param = p, .state = state, .slice = slice_whole(p->ndim, p->shape)
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

static void
read_all(struct source *s)
{
	struct source_tensor *all;
	int count = source_tensors(s, &all);

	for (int i = 0; i < count; i++)
		read_part(s, all[i].part.param, all[i].part.state);
	free(all);
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
	if (outfile_write(path, data, size, &e) < 0)
		abort();
	s = source_open(dir, &e);
	if (s) {
		read_all(s);
		/* another rank compares the checksums */
		if (s->kind->share(s, 1, 1 << 30, &e) < 0)
			abort();
		read_all(s);
	}
	source_close(s);
	return 0;
}

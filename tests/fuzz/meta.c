/* meta.c - fuzz target: a params.json, which ends with a NUL, and one file of weights, of
 * torch.save or safetensors, in the form of Meta and Mistral; every parameter that it has is read
 */
#include "lib/base/outfile.h"
#include "lib/ckpt/source.h"
#include "tests/fuzz/input.h"

/* Parameters above this are not read: their memory would be the time of a run. */
enum { ELEMENTS_MAX = 1 << 20 };

static void
read_all(struct source *s)
{
	for (int i = 0; i < s->count; i++) {
		const struct param *p = &s->param[i];
		const struct source_part part = { .param = p,
			.slice = slice_whole(p->ndim, p->shape) };
		int64_t n = param_elements(p);
		struct err e;
		float *to;

		if (n > ELEMENTS_MAX)
			continue;
		to = malloc((size_t)n * sizeof *to + 1);
		source_read(s, &part, DTYPE_F32, to, &e);
		free(to);
	}
}

static void
put(const char *dir, const char *name, const uint8_t *bytes, size_t size)
{
	char path[INPUT_DIR + 64];
	struct err e;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	if (outfile_write(path, (const char *)bytes, size, &e) < 0)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char dir[INPUT_DIR], other[INPUT_DIR];
	const uint8_t *end = size ? memchr(data, 0, size) : NULL;
	size_t text = end ? (size_t)(end - data) : size, rest = end ? size - text - 1 : 0;
	const uint8_t *file = end ? end + 1 : data;
	bool zip = rest >= 2 && !memcmp(file, "PK", 2);
	struct source *s;
	struct err e;

	if (!*dir) {
		input_dir(dir);
		input_dir(other);
		input_small_pages();
	}
	put(zip ? dir : other, "params.json", data, text);
	put(zip ? dir : other, zip ? "consolidated.00.pth" : "consolidated.safetensors", file,
	    rest);
	s = source_open(zip ? dir : other, &e);
	if (s)
		read_all(s);
	source_close(s);
	return 0;
}

/*
 * hf_decode.c - fuzz target: any safetensors file as quantised weights; of what is decoded all is
 * read, and a part
 *
 * The first byte chooses MXFP4, fp8 with one factor, or the blocks of fp8, the rest is the file.
 */
#include "lib/ckpt/hfdir.h"
#include "tests/fuzz/input.h"

enum { MOST = 1 << 22 /* elements that are read at once */ };

static void
read_box(const struct hfdir_tensor *t, const struct slice *slice, bool transposed)
{
	const struct hfdir_box box = { *slice, DTYPE_F32, transposed };
	int64_t n = slice_elements(slice);
	struct err e;
	void *out;

	if (n > MOST)
		return;
	out = malloc((size_t)n * sizeof(float) + 1);
	hfdir_read(t, &box, out, &e);
	free(out);
}

static void
read_tensor(const struct hfdir_tensor *t)
{
	struct slice box = slice_whole(t->ndim, t->shape);

	read_box(t, &box, false);
	read_box(t, &box, true);
	for (int k = 0; k < box.ndim; k++)
		if (box.count[k] > 1) {
			box.start[k]++;
			box.count[k] -= 1 + (box.count[k] > 2);
		}
	read_box(t, &box, false);
	for (int k = 0; k < box.ndim; k++)
		box.count[k] = box.count[k] > 3 ? 3 : box.count[k];
	read_box(t, &box, true);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct input file;
	static char dir[INPUT_DIR];
	struct config_quantised how = { "fp8", true, { 0, 0 } };
	char path[INPUT_DIR + 32];
	struct hfdir *d;
	struct err e;

	if (size < 1)
		return 0;
	if (data[0] == 'm')
		strcpy(how.method, "mxfp4");
	else if (data[0] != 'o')
		how.block[0] = how.block[1] = 1 + data[0] % 32;
	if (!file.made) {
		input_file(&file, data, 0);
		input_dir(dir);
		snprintf(path, sizeof path, "%s/model.safetensors", dir);
		if (symlink(file.path, path) < 0)
			abort();
	}
	input_file(&file, data + 1, size - 1);
	d = hfdir_open(dir, &e);
	if (d)
		hfdir_decode(d, &how);
	for (int i = 0; d && i < hfdir_count(d) && i < 100; i++)
		if (hfdir_at(d, i)->decode.code != HF_STORED && !hfdir_at(d, i)->why)
			read_tensor(hfdir_at(d, i));
	hfdir_close(d);
	return 0;
}

/*
 * hf_decoded.c - hf_decoded DIR METHOD ROWS COLUMNS TYPE NAME: prints the elements of a quantised
 * tensor of a Hugging Face directory
 *
 * METHOD is fp8 or mxfp4, ROWS and COLUMNS the block of fp8 (0: none), TYPE F32 or BF16, NAME that
 * of the decoded tensor. For comparing with other decoders; needs no config.json.
 */
#include "lib/base/mem.h"
#include "lib/ckpt/hfdir.h"

#include <stdlib.h>
#include <string.h>

static int
print(const struct hfdir *dir, enum dtype as, const char *name, struct err *e)
{
	const struct hfdir_tensor *t = hfdir_find(dir, name);
	struct hfdir_box box = { .as = as };
	size_t n;
	void *out;
	int rc;

	if (!t || t->why)
		return err_set(e, "tensor '%s': %s", name, t ? t->why : "there is none");
	box.slice = slice_whole(t->ndim, t->shape);
	n = (size_t)slice_elements(&box.slice);
	out = mem_alloc(n, dtype_size(as));
	rc = hfdir_read(t, &box, out, e);
	if (rc == 0 && fwrite(out, dtype_size(as), n, stdout) != n)
		rc = err_set(e, "cannot write");
	free(out);
	return rc;
}

int
main(int argc, char **argv)
{
	struct config_quantised how = { .decoded = true };
	struct hfdir *dir;
	struct err e;
	int rc;

	if (argc != 7)
		return 2;
	snprintf(how.method, sizeof how.method, "%s", argv[2]);
	how.block[0] = strtoll(argv[3], NULL, 10);
	how.block[1] = strtoll(argv[4], NULL, 10);
	dir = hfdir_open(argv[1], &e);
	if (dir)
		hfdir_decode(dir, &how);
	rc = dir ? print(dir, dtype_from_name(argv[5]), argv[6], &e) : -1;
	if (rc < 0)
		fprintf(stderr, "%s\n", e.msg);
	hfdir_close(dir);
	return rc < 0 || fflush(stdout) ? 1 : 0;
}

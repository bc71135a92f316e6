/*
 * seal.c - mckpt seal
 *
 * The only way to edit a checkpoint's texts. It prints which texts had changed, so that sealing an
 * unintended change does not go unnoticed.
 */
#include "ckpt/seal.h"
#include "lib/ckpt/ckpt.h"

int
seal_texts(const char *dir, FILE *out, struct err *e)
{
	struct str changed = { 0 };
	int rc = ckpt_seal(dir, &changed, e);

	if (rc == 0)
		fprintf(out, "%s: sealed: %s\n", dir,
		    changed.len ? changed.buf : "no text had changed");
	str_release(&changed);
	return rc;
}

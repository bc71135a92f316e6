/*
 * seal.c - mckpt seal
 *
 * The one way to edit a checkpoint's texts. It says what had changed, since sealing what nobody
 * meant to change is a mistake that should be seen.
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
		    changed.len ? changed.buf : "nothing had changed");
	str_release(&changed);
	return rc;
}

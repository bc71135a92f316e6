/*
 * verify.c - mckpt verify
 *
 * Reports every problem, not only the first, to show how much is lost. Each check relies on those
 * before it, so a checkpoint that does not open has just one problem.
 */
#include "ckpt/finite.h"
#include "ckpt/hf.h"
#include "ckpt/table.h"
#include "ckpt/verify.h"
#include "lib/ckpt/hfdir.h"

/* Adds the reason in e; returns 1. */
static int
problem(struct str *problems, const struct err *e)
{
	str_addf(problems, "%s\n", e->msg);
	return 1;
}

/*
 * First compares the bytes of every file with checksums and headers, then the tensors with the
 * model that the options describe, then checks their values.
 */
static int
verify_checkpoint(const char *dir, FILE *out, struct str *problems)
{
	struct err e;
	struct ckpt *c = ckpt_open(dir, &e);
	struct table t;
	int wrong = 0;

	if (!c)
		return problem(problems, &e);
	for (int i = 0; i < ckpt_num_files(c); i++)
		if (ckpt_verify_file(c, i, &e) < 0)
			wrong += problem(problems, &e);
	wrong += table_open(&t, c, &e) < 0 ? problem(problems, &e) : table_check(&t, c, problems);
	if (wrong == 0)
		wrong = finite_checkpoint(c, problems);
	if (wrong == 0)
		fprintf(out, "%s: ok: %d tensors in %d files\n", ckpt_dir(c), ckpt_count(c),
		    ckpt_num_files(c));
	table_release(&t);
	ckpt_close(c);
	return wrong;
}

/* A Hugging Face directory: opening checks safetensors and index; then the tensors are compared
 * with config.json. */
static int
verify_hf(const char *dir, FILE *out, struct str *problems)
{
	struct err e;
	struct hf_model m;
	struct str notes = { 0 };
	int wrong = hf_model_open(&m, dir, &e) < 0 ? problem(problems, &e)
						   : hf_model_check(&m, problems, &notes);

	if (wrong == 0)
		wrong = finite_model(&m, problems);
	if (wrong == 0)
		fprintf(out, "%s: ok: %d tensors in %d files\n", dir, hfdir_count(m.dir),
		    hfdir_num_files(m.dir));
	hf_model_release(&m);
	str_release(&notes);
	return wrong;
}

/*
 * Returns the number of problems, each of which is a line of problems. A directory of neither kind
 * goes to the checkpoint reader, which says what it is.
 */
int
verify_dir(const char *dir, FILE *out, struct str *problems)
{
	return hfdir_is(dir) ? verify_hf(dir, out, problems)
			     : verify_checkpoint(dir, out, problems);
}

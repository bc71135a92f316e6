/*
 * repair.c - repairing a damaged dataset and reporting the repairs
 */
#include "lib/data/dataset_repair.h"
#include "shard/shard.h"

#include <string.h>

/* Nothing is changed in place without --in-place. */
int
shard_repair_check(const struct repair_config *c, struct err *e)
{
	if (c->output && c->in_place)
		return err_set(e, "repair needs only one of --output and --in-place");
	if (!c->output && !c->in_place)
		return err_set(e, "repair needs one of --output and --in-place");
	return c->output ? shard_check_output(c->output, e) : 0;
}

/* Writes the repaired dataset with notes that keep the tokenizer, and opens it, so that a dataset
 * that is still damaged never passes for repaired. */
static int
save(const struct repair_config *c, struct dataset_repair *r, const char *prefix, struct lock *lock,
    struct err *e)
{
	struct notes_input input = { prefix, dataset_repair_bin_bytes(r), -1 };
	struct notes_origin origin = { c->made_by, &input, 1 };
	const char *output = c->in_place ? NULL : c->output;
	struct dataset_counts counts = dataset_repair_counts(r);
	struct dataset *d = NULL;
	struct str text = { 0 };
	struct str mask = { 0 };
	struct notes n;
	int rc;

	if (dataset_repair_has_mask(r) && !output)
		return err_set(e, "--in-place: %s has a mask; --output repairs both", prefix);
	if (notes_read(prefix, &n, e) >= 0) {
		struct repair_target to = { .output = output, .lock = lock, .replace = c->force };

		if (dataset_repair_has_mask(r)) {
			const char *slash = strrchr(output, '/');

			str_addf(&mask, "%s_mask", slash ? slash + 1 : output);
			n.mask = mask.buf;
		}

		notes_text(&n, &origin, &counts, &text);
		to.notes = text.buf;
		if (dataset_repair_save(r, &to, e) == 0)
			d = shard_open(output ? output : prefix, e);
	}
	notes_release(&n);
	str_release(&text);
	str_release(&mask);
	rc = d ? 0 : -1;
	dataset_close(d);
	return rc;
}

/* Takes the lock of the dataset that is written, and checks its names. */
static int
claim(const struct repair_config *c, const char *prefix, struct lock **lock, struct err *e)
{
	if (!c->in_place && shard_same(c->output, prefix))
		return err_set(
		    e, "--output %s: is what is to be repaired; --in-place does it", c->output);
	*lock = dataset_claim(c->in_place ? prefix : c->output, &shard_lock, e);
	if (!*lock)
		return -1;
	return c->in_place ? 0 : dataset_check_target(c->output, c->force, e);
}

/* A sound dataset stays unchanged, and nothing is written for it. Each line about a fault is
 * printed after the name of the dataset. */
int
shard_repair(const struct repair_config *c, const char *prefix, FILE *out, struct err *e)
{
	struct str found = { 0 };
	struct dataset_repair *r = NULL;
	struct lock *lock = NULL;
	int rc = claim(c, prefix, &lock, e);

	if (rc == 0) {
		r = dataset_repair_open(prefix, &found, e);
		rc = r ? 0 : -1;
	}
	if (rc == 0 && found.len)
		rc = save(c, r, prefix, lock, e);
	if (rc == 0 && !found.len)
		fprintf(out, "%s: sound, nothing to repair\n", prefix);
	for (const char *p = rc == 0 ? found.buf : NULL, *feed; p && (feed = strchr(p, '\n'));
	     p = feed + 1)
		fprintf(out, "%s: %.*s\n", prefix, (int)(feed - p), p);
	dataset_repair_close(r);
	lock_release(lock);
	str_release(&found);
	return rc;
}

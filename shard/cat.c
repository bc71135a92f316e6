/*
 * cat.c - merging several datasets
 *
 * One input is open at a time, and its tokens are copied as they are stored: neither memory nor
 * descriptors grow with the number or the size of the inputs. All are examined before anything is
 * written, and each is checked again when it is added.
 */
#include "lib/base/mem.h"
#include "lib/base/temp_sweep.h"
#include "shard/shard.h"

#include <stdlib.h>
#include <string.h>

/* The request, and the findings of the first pass over the inputs. */
struct plan {
	const struct cat_config *c;
	char **prefix; /* [count] */
	int count;
	enum dtype type;              /* of the result */
	struct notes notes;           /* what all inputs have in common */
	struct notes_input *input;    /* [count] */
	char type_name[64], hash[17]; /* the first known tokenizer */
	int known;                    /* the input with it; -1: none so far */
	struct shard_meter meter;
	int unknown, differ; /* inputs without a tokenizer in their notes; inputs with a different
			      * one */
	bool mask;           /* an input has one: tokens of those without count all */
	int first;           /* the first input that has sequences; -1: none so far */
	bool modes;          /* of that one */
};

/* One byte of mode per sequence, for all or for none; an input without sequences fits either. Types
 * may differ with --widen: ids keep their values in a wider type. */
static int
add_form(struct plan *p, int i, const struct dataset *d, struct err *e)
{
	enum dtype t = dataset_dtype(d);
	bool modes = dataset_has_modes(d), empty = dataset_num_sequences(d) == 0;

	if (!empty && p->first < 0) {
		p->first = i;
		p->modes = modes;
	}
	if (!empty && modes != p->modes)
		return err_at(e, p->prefix[i], 0,
		    "has %s, but %s has %s: either all sequences have modes or none",
		    modes ? "modes (multimodal data)" : "no modes", p->prefix[p->first],
		    modes ? "none" : "some");
	if (p->type == DTYPE_NONE)
		p->type = t;
	if (t != p->type && !p->c->widen)
		return err_at(e, dataset_prefix(d), 0,
		    "tokens of %s, but those of %s are %s; --widen merges them",
		    dtype_torch_name(t), p->prefix[0], dtype_torch_name(p->type));
	p->type = dataset_common_type(p->type, t);
	return 0;
}

/* Ids of two tokenizers in one dataset are meaningless to both, so such a mix is refused. */
static int
add_tokenizer(struct plan *p, int i, const struct notes *n, struct err *e)
{
	p->unknown += !n->type;
	if (n->type && p->known < 0) {
		p->known = i;
		snprintf(p->type_name, sizeof p->type_name, "%s", n->type);
		memcpy(p->hash, n->hash, sizeof p->hash);
	}
	if (!n->type || !strcmp(n->hash, p->hash))
		return 0;
	p->differ++;
	if (p->c->mix_tokenizers)
		return 0;
	return err_at(e, p->prefix[i], 0,
	    "made with a %s with hash %s, but %s with a %s with hash %s; --mix-tokenizers merges "
	    "them anyway",
	    n->type, n->hash, p->prefix[p->known], p->type_name, p->hash);
}

/* Opens one input, as training would, and adds it to the plan. The notes of the result keep what
 * all inputs have in common. */
static int
look_at(struct plan *p, int i, struct err *e)
{
	const char *prefix = p->prefix[i];
	struct dataset *d = shard_open(prefix, e);
	struct notes n;
	int rc;

	if (!d)
		return -1;
	rc = add_form(p, i, d, e);
	p->input[i] = (struct notes_input){ prefix, (int64_t)dataset_bin_bytes(d), -1 };
	p->meter.total += dataset_bin_bytes(d);
	p->mask |= dataset_mask(d) != NULL;
	dataset_close(d);
	if (rc < 0)
		return -1;
	rc = notes_read(prefix, &n, e) < 0 ? -1 : add_tokenizer(p, i, &n, e);
	if (rc == 0 && i == 0) {
		p->notes = n;
		return 0;
	}
	if (rc == 0)
		notes_merge(&p->notes, &n);
	notes_release(&n);
	return rc;
}

/* Adds all documents of each input, whose index is checked again on opening, and commits the
 * result; a failure leaves no part of it, and an existing dataset unchanged. */
static int
merge(struct plan *p, struct lock *lock, struct err *e)
{
	const struct notes_origin origin = { p->c->made_by, p->input, p->count };
	struct dataset_writer *w;
	int rc = 0;

	temp_sweep_beside(p->c->output);
	w = dataset_writer_new(p->c->output, p->type, e);
	if (!w)
		return -1;
	dataset_writer_guard(w, lock, p->c->force);
	if (p->mask)
		rc = dataset_writer_add_mask(w, lock, e);
	for (int i = 0; i < p->count && rc == 0; i++) {
		struct dataset *d = shard_open(p->prefix[i], e);

		rc = d ? shard_add_documents(
			     w, d, (int64_t[]){ 0, dataset_num_documents(d) }, &p->meter, e)
		       : -1;
		dataset_close(d);
	}
	if (rc < 0) {
		dataset_abort(w);
		return -1;
	}
	notes_describe(w, &p->notes, &origin);
	return dataset_commit(w, e);
}

/* The result has no default name: a dataset is too large to be written by accident. */
int
shard_cat_check(const struct cat_config *c, struct err *e)
{
	return c->output ? shard_check_output(c->output, e)
			 : err_set(e, "--output is needed: the prefix of the merged dataset");
}

/* Creates nothing unless all inputs are sound and fit together. Says what the notes of the result
 * cannot record. */
int
shard_cat(const struct cat_config *c, int count, char **prefix, struct err *e)
{
	struct plan p = { .c = c,
		.prefix = prefix,
		.count = count,
		.type = DTYPE_NONE,
		.known = -1,
		.first = -1,
		.meter.tell = c->progress,
		.input = mem_zalloc((size_t)count, sizeof *p.input) };
	struct lock *lock = dataset_claim(c->output, &shard_lock, e);
	int rc = lock ? dataset_check_target(c->output, c->force, e) : -1;

	notes_init(&p.notes);
	for (int i = 0; rc == 0 && i < count; i++)
		rc = look_at(&p, i, e);
	if (rc == 0)
		rc = merge(&p, lock, e);
	lock_release(lock);
	if (rc == 0 && p.differ)
		str_addf(
		    c->said, "%s: made with several tokenizers: its notes name none\n", c->output);
	else if (rc == 0 && p.unknown && p.unknown < count)
		str_addf(c->said,
		    "%s: %d of %d inputs do not record their tokenizer: its notes name none\n",
		    c->output, p.unknown, count);
	notes_release(&p.notes);
	free(p.input);
	return rc;
}

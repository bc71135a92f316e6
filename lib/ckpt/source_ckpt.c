/*
 * source_ckpt.c - a checkpoint of ours as a source
 *
 * The options in the checkpoint describe its model, whose parameter table lists the tensors that it
 * must have. The comparison works both ways: none may be missing, and none may be left over.
 */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/source.h"
#include "lib/model/options.h"

#include <stdlib.h>
#include <string.h>

struct ckpt_source {
	struct source s;
	struct ckpt *ckpt;
};

static struct ckpt *
ckpt_of(const struct source *s)
{
	return ((const struct ckpt_source *)s)->ckpt;
}

static bool
is_checkpoint(const char *path)
{
	char dir[IO_PATH];

	return ckpt_find_dir(path, dir, NULL) == 0;
}

/* The length of a tensor's name before the state that it ends in, or of all of it. */
static size_t
before_state(const char *name, const char *state)
{
	const char *dot = strrchr(name, '.');

	return dot && !strcmp(dot + 1, state) ? (size_t)(dot - name) : strlen(name);
}

/* True if any tensor has the state. */
static bool
has_state(const void *ckpt, const char *state)
{
	const struct ckpt *c = ckpt;
	bool has = false;

	for (int i = 0; i < ckpt_count(c) && !has; i++) {
		const char *name = ckpt_at(c, i)->name;

		has = before_state(name, state) < strlen(name);
	}
	return has;
}

/* Compares one tensor of the table with the checkpoint's. */
static void
check_one(struct source *s, const struct param *p, const char *state)
{
	struct str want = { 0 }, have = { 0 };
	const struct ckpt_tensor *t;
	char name[128];

	source_name(p, state, name);
	t = ckpt_find(ckpt_of(s), name);
	if (!t) {
		source_problem(s, "tensor '%s' is missing", name);
	} else if (!param_has_shape(p, t->ndim, t->shape)) {
		source_print_shape(&have, t->ndim, t->shape);
		source_print_shape(&want, p->ndim, p->shape);
		source_problem(
		    s, "tensor '%s' has shape %s, the model needs %s", name, have.buf, want.buf);
		str_release(&want);
		str_release(&have);
	} else if (!dtype_is_float(t->dtype)) {
		source_problem(s, "tensor '%s' is %s; F64, F32, BF16 and F16 are read", name,
		    dtype_name(t->dtype));
	}
}

/* Order of parameters by name. */
static int
compare_params(const void *a, const void *b)
{
	return strcmp(((const struct param *)a)->name, ((const struct param *)b)->name);
}

/* Whether a tensor is a parameter of the sorted table, or a state that is kept of one. */
static bool
belongs(const struct source *s, const struct param *sorted, const char *name)
{
	size_t len = strlen(name);
	const struct param *p;
	struct param key = { 0 };
	int k = source_num_states(s);

	while (k > 0 && before_state(name, source_state(s, k)) == len)
		k--;
	if (k > 0)
		len = before_state(name, source_state(s, k));
	snprintf(key.name, sizeof key.name, "%.*s", (int)len, name);
	if (len >= sizeof key.name)
		return false;
	p = bsearch(&key, sorted, (size_t)s->count, sizeof key, compare_params);
	return p && source_keeps(s, p, k);
}

/* Whether a tensor may be a state of a parameter, whatever the rule. */
static bool
may_be_state(const struct source *s, const char *name)
{
	const char *dot = strrchr(name, '.');

	for (int i = 0; dot && i < s->count; i++)
		if (strlen(s->param[i].name) == (size_t)(dot - name) &&
		    !strncmp(name, s->param[i].name, (size_t)(dot - name)))
			return true;
	return false;
}

/* Tensors that no parameter of the model owns, nor the run. States of a rule that this build lacks
 * are one problem. The search needs a sorted copy of the table, whose own order is the model's. */
static void
check_foreign(struct source *s)
{
	struct param *sorted = mem_alloc((size_t)s->count, sizeof *sorted);
	struct err why;
	bool lacks = optim_rule_known(ckpt_state(ckpt_of(s))->optimizer, &why) < 0, said = false;

	memcpy(sorted, s->param, (size_t)s->count * sizeof *sorted);
	qsort(sorted, (size_t)s->count, sizeof *sorted, compare_params);
	for (int i = 0; i < s->num_tensors; i++) {
		const char *name = ckpt_at(ckpt_of(s), i)->name;

		if (belongs(s, sorted, name) || source_of_run(s, name))
			continue;
		if (!lacks || !may_be_state(s, name))
			source_problem(s, "tensor '%s' does not belong to the model", name);
		else if (!said)
			source_problem(s, "%s", why.msg);
		said = said || lacks;
	}
	free(sorted);
}

/* The model is that of the options in the checkpoint. */
static int
describe(struct source *s, struct err *e)
{
	const struct ckpt *c = ckpt_of(s);
	char name[CKPT_PATH_BYTES];

	snprintf(s->path, sizeof s->path, "%s", ckpt_dir(c));
	ckpt_join(name, s->path, "options.conf");
	if (model_from_text(name, ckpt_options_text(c), &s->config, &s->layout, e) < 0)
		return -1;
	str_adds(&s->options, ckpt_options_text(c));
	str_adds(&s->state_text, ckpt_state_text(c));
	source_set_model(s);
	s->rule = optim_rule_of(ckpt_state(c)->optimizer, has_state, c);
	s->averaged = has_state(c, STATE_AVERAGE);
	s->num_tensors = ckpt_count(c);
	s->num_files = ckpt_num_files(c);
	if (!ckpt_sealed(c))
		str_addf(&s->notes,
		    "%s: of an earlier version, which holds no checksums of options.conf, "
		    "state.conf and manifest.tsv\n",
		    s->path);
	return 0;
}

static struct source *
open_checkpoint(const char *path, struct err *e)
{
	struct source *s = source_new(&source_ckpt, sizeof(struct ckpt_source), path);
	struct ckpt *c = ckpt_open(path, e);

	((struct ckpt_source *)s)->ckpt = c;
	if (!c || describe(s, e) < 0) {
		source_close(s);
		return NULL;
	}
	for (int i = 0; i < s->count; i++)
		for (int k = 0; k <= source_num_states(s); k++)
			if (source_keeps(s, &s->param[i], k))
				check_one(s, &s->param[i], source_state(s, k));
	/* Of the tensors of the run, the number of columns is theirs. */
	for (int i = 0; i < FP8_STATES; i++) {
		struct param p = fp8_state_param(&s->config, (enum fp8_state)i, 0);
		const struct ckpt_tensor *t = ckpt_find(c, p.name);

		if (!t)
			continue;
		p.shape[1] = t->ndim == 2 ? t->shape[1] : 0;
		s->of_run[s->num_of_run++] = p;
		check_one(s, &p, NULL);
	}
	check_foreign(s);
	return s;
}

/* The tensor, when it can be read as the part; a checkpoint holds each number once. */
static const struct ckpt_tensor *
tensor_of(const struct source *s, const struct source_part *p)
{
	const struct ckpt_tensor *t;
	char name[128];

	source_name(p->param, p->state, name);
	t = p->copy ? NULL : ckpt_find(ckpt_of(s), name);
	return t && param_has_shape(p->param, t->ndim, t->shape) && dtype_is_float(t->dtype) ? t
											     : NULL;
}

static bool
find_part(const struct source *s, const struct source_part *p, struct source_stored *out)
{
	const struct ckpt_tensor *t = tensor_of(s, p);

	if (t)
		*out = (struct source_stored){ t->dtype, 1, t->num_pieces };
	return t;
}

static int
read_part(struct source *s, const struct source_part *p, void *dst, struct err *e)
{
	const struct ckpt_tensor *t = tensor_of(s, p);
	int rc = ckpt_read(ckpt_of(s), t->name, &p->slice, dst, e);

	s->damaged |= ckpt_damaged(ckpt_of(s));
	return rc;
}

static int
lend_part(struct source *s, const struct source_part *p, const void **at, struct err *e)
{
	int rc = ckpt_lend(ckpt_of(s), tensor_of(s, p)->name, &p->slice, at, e);

	s->damaged |= ckpt_damaged(ckpt_of(s));
	return rc;
}

static void
give_back_part(struct source *s, const struct source_part *p)
{
	ckpt_give_back(ckpt_of(s), tensor_of(s, p)->name, &p->slice);
}

static void
expect_part(struct source *s, const struct source_part *p)
{
	ckpt_expect(ckpt_of(s), tensor_of(s, p)->name, &p->slice);
}

bool
source_has_files(const struct source *s)
{
	return s->kind == &source_ckpt && ckpt_sealed(ckpt_of(s));
}

int
source_clone(const struct source *s, const char *tmp_dir, struct str *manifest, struct err *e)
{
	return ckpt_clone(ckpt_of(s), tmp_dir, manifest, e);
}

/* Compares the bytes of every file with its header and the checksums. */
static int
verify_files(struct source *s, struct str *problems)
{
	struct err e;
	int wrong = 0;

	for (int i = 0; i < s->num_files; i++)
		if (ckpt_verify_file(ckpt_of(s), i, &e) < 0) {
			str_addf(problems, "%s\n", e.msg);
			wrong++;
		}
	return wrong;
}

static uint64_t
manifest_hash(const struct source *s)
{
	return ckpt_of(s)->manifest_sum;
}

static int
check_share(struct source *s, int rank, int num_ranks, struct err *e)
{
	int rc = ckpt_check_share(ckpt_of(s), rank, num_ranks, e);

	s->damaged |= ckpt_damaged(ckpt_of(s));
	return rc;
}

static void
release(struct source *s)
{
	ckpt_close(ckpt_of(s));
}

const struct source_kind source_ckpt = {
	.name = "checkpoint",
	.is = is_checkpoint,
	.open = open_checkpoint,
	.find = find_part,
	.read = read_part,
	.lend = lend_part,
	.give_back = give_back_part,
	.expect = expect_part,
	.verify = verify_files,
	.hash = manifest_hash,
	.share = check_share,
	.close = release,
};

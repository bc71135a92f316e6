/*
 * table.c - compares a checkpoint with the parameter table of its model
 *
 * A checkpoint's options describe its model, whose parameter table lists the tensors that it must
 * have. The comparison works both ways: no tensor may be missing and none may be left over.
 */
#include "ckpt/table.h"
#include "lib/model/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* [2, 3], as people write shapes; [] for a scalar. */
void
print_shape(struct str *out, int ndim, const int64_t *shape)
{
	str_addc(out, '[');
	for (int i = 0; i < ndim; i++)
		str_addf(out, "%s%lld", i ? ", " : "", (long long)shape[i]);
	str_addc(out, ']');
}

/*
 * State 0 is the weight itself; the others follow its name, so that a sorted list keeps them
 * together.
 */
void
tensor_name(const struct param *p, const struct optim_rule *r, int state, char out[128])
{
	if (state == 0)
		snprintf(out, 128, "%s", p->name);
	else
		snprintf(out, 128, "%s.%s", p->name, r->states[state - 1]);
}

/* True if any tensor has the state. */
static bool
has_state(const void *ckpt, const char *state)
{
	const struct ckpt *c = ckpt;
	bool has = false;

	for (int i = 0; i < ckpt_count(c) && !has; i++) {
		const char *name = ckpt_at(c, i)->name;
		size_t len = optim_state_of(NULL, name);

		has = len && !strcmp(name + len + 1, state);
	}
	return has;
}

/* Every parameter must have all states of the rule. */
int
table_open(struct table *t, const struct ckpt *c, struct err *e)
{
	char name[1100];

	memset(t, 0, sizeof *t);
	snprintf(name, sizeof name, "%s/options.conf", ckpt_dir(c));
	if (model_from_text(name, ckpt_options_text(c), &t->config, &t->layout, e) < 0)
		return -1;
	t->count = model_params(&t->config, &t->param);
	t->rule = optim_rule_of(ckpt_state(c)->optimizer, has_state, c);
	return 0;
}

/* Also releases a table whose opening failed. */
void
table_release(struct table *t)
{
	free(t->param);
	memset(t, 0, sizeof *t);
}

/* Checks one tensor of the table. Returns 1 when it has a problem. */
static int
check_one(const struct table *t, int param, int state, const struct ckpt *c, struct str *problems)
{
	const struct param *p = &t->param[param];
	char name[128];
	const struct ckpt_tensor *found;

	tensor_name(p, t->rule, state, name);
	found = ckpt_find(c, name);
	if (!found) {
		str_addf(problems, "%s: tensor '%s' is missing\n", ckpt_dir(c), name);
		return 1;
	}
	if (param_has_shape(p, found->ndim, found->shape))
		return 0;
	str_addf(problems, "%s: tensor '%s' has shape ", ckpt_dir(c), name);
	print_shape(problems, found->ndim, found->shape);
	str_adds(problems, ", the model needs ");
	print_shape(problems, p->ndim, p->shape);
	str_addc(problems, '\n');
	return 1;
}

/* Order of parameters by name. */
static int
compare_params(const void *a, const void *b)
{
	return strcmp(((const struct param *)a)->name, ((const struct param *)b)->name);
}

/*
 * Tensors that no parameter of the model owns. The table is sorted for the search, in a copy, since
 * its own order is the model's.
 */
static int
check_foreign(const struct table *t, const struct ckpt *c, struct str *problems)
{
	struct param *sorted = mem_alloc((size_t)t->count, sizeof *sorted), key = { 0 };
	int wrong = 0;

	memcpy(sorted, t->param, (size_t)t->count * sizeof *sorted);
	qsort(sorted, (size_t)t->count, sizeof *sorted, compare_params);
	for (int i = 0; i < ckpt_count(c); i++) {
		const char *name = ckpt_at(c, i)->name;
		size_t state = t->rule ? optim_state_of(t->rule, name) : 0,
		       len = state ? state : strlen(name);

		snprintf(key.name, sizeof key.name, "%.*s", (int)len, name);
		if (len < sizeof key.name &&
		    bsearch(&key, sorted, (size_t)t->count, sizeof key, compare_params))
			continue;
		str_addf(
		    problems, "%s: tensor '%s' does not belong to the model\n", ckpt_dir(c), name);
		wrong++;
	}
	free(sorted);
	return wrong;
}

/* Parameters in the order of the model, then what is left over. */
int
table_check(const struct table *t, const struct ckpt *c, struct str *problems)
{
	int wrong = 0;

	for (int i = 0; i < t->count; i++)
		for (int state = 0; state <= optim_num_states(t->rule); state++)
			wrong += check_one(t, i, state, c, problems);
	return wrong + check_foreign(t, c, problems);
}

/* Reports one problem and the number of the others, which mckpt verify lists. */
int
table_require(const struct table *t, const struct ckpt *c, struct err *e)
{
	struct str problems = { 0 };
	int wrong = table_check(t, c, &problems);

	if (wrong == 1)
		err_set(e, "%.*s", (int)strcspn(problems.buf, "\n"), problems.buf);
	else if (wrong > 1)
		err_set(e, "%.*s (and %d more; mckpt verify lists them)",
		    (int)strcspn(problems.buf, "\n"), problems.buf, wrong - 1);
	str_release(&problems);
	return wrong ? -1 : 0;
}

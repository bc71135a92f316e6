/* table.h - compares a checkpoint with the parameter table of the model in its options.conf */
#ifndef CKPT_TABLE_H
#define CKPT_TABLE_H

#include "lib/base/str.h"
#include "lib/ckpt/ckpt.h"
#include "lib/model/optim_rule.h"
#include "lib/model/params.h"

struct table {
	struct model_config config;
	/* of the run that wrote it; data_parallel_size is unknown and set to 1 */
	struct layout layout;
	int count;
	struct param *param;
	const struct optim_rule *rule; /* the rule whose states the checkpoint holds; NULL: none */
};

/* Reads the model and lists its parameters; table_release in every case. */
int table_open(struct table *t, const struct ckpt *c, struct err *e);
void table_release(struct table *t);
/* Compares the tensors with the table: missing, of another shape, foreign. Appends a line for each
 * and returns their number. */
int table_check(const struct table *t, const struct ckpt *c, struct str *problems);
/* The same check, reported as one error that names the first problem. */
int table_require(const struct table *t, const struct ckpt *c, struct err *e);

/* "[4, 64]" */
void print_shape(struct str *out, int ndim, const int64_t *shape);
/* The name of a parameter's tensor: state 0 is the weight itself, k its k-th state under the
 * rule. */
void tensor_name(const struct param *p, const struct optim_rule *r, int state, char out[128]);

#endif

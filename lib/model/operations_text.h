/*
 * operations_text.h - the operations of a step, one after another and as a table
 *
 * Source: docs/planning.md 2.
 */
#ifndef MODEL_OPERATIONS_TEXT_H
#define MODEL_OPERATIONS_TEXT_H

#include "lib/base/str.h"
#include "lib/model/operations.h"
#include "lib/model/options.h"

/* Called with the kind of block, or "step", an operation and how many times a step has it. */
struct operation_visitor {
	void (*visit)(void *ctx, const char *block, const struct operation *o, int64_t times);
	void *ctx;
};
/* Of the first rank of a stage, whose plan is in held. */
void operations_visit(const struct operation_visitor *v, const struct run_plan *plan,
    struct memory_stages *held, int stage);

/* Appends tab-separated rows under a header line: of the first rank of each stage, each operation
 * with the number of times that a step has it. */
void operations_text(const struct run_plan *plan, struct str *out);

#endif

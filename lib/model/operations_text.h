/*
 * operations_text.h - the operations of a step as a table
 *
 * Source: docs/planning.md 2.
 */
#ifndef MODEL_OPERATIONS_TEXT_H
#define MODEL_OPERATIONS_TEXT_H

#include "lib/base/str.h"
#include "lib/model/operations.h"
#include "lib/model/options.h"

/* Appends tab-separated rows under a header line: of the first rank of each stage, each operation
 * with the number of times that a step has it. */
void operations_text(const struct run_plan *plan, struct str *out);

#endif

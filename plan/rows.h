/*
 * rows.h - measured steps of runs, as a table has them
 *
 * The table is tab-separated, a step to a row, and its header line names the columns: those of
 * published measurements of training (model, layout, batch, device, seconds or rate). A row
 * becomes the options of a run, so that it is priced as any other.
 * Source: docs/planning.md 8.
 */
#ifndef PLAN_ROWS_H
#define PLAN_ROWS_H

#include "lib/model/options.h"
#include "plan/price.h"

struct measured_row {
	char id[32], source[16], model[64]; /* source: of the id, what comes before '-' */
	char gpu[16];                       /* by its name in hardware_names */
	bool fp8;
	double seconds; /* of a step */
	double gib;     /* of the fullest rank, by the allocator's counter; 0: not known */
	struct run_plan plan;
	struct hardware hw; /* the device and its cluster */
	struct operation_owned owned;
	/* the simulated step over its bound, by which a fit takes the latter; 0: 1 (fit_prepare) */
	double over_bound;
};

struct measured_rows {
	struct measured_row *item; /* owned */
	int count;
	int left; /* rows without what a run needs, or which no run here can have */
};

/* What is wanted of a table: rows whose id begins with one of these, or all, on this device or all;
 * why: gets a line for each that is left out; may be NULL. */
struct rows_wanted {
	const struct opt_list *ids;
	const char *gpu;
	struct str *why;
};

/* Adds a step with its plan, device and seconds; its saved activations stay on the device. */
void rows_add(struct measured_rows *r, const struct measured_row *row);
/* Adds the rows of a table, or from a file of mtrain --metrics-file, whose name ends in .jsonl, its
 * run on the device that is wanted, with the median of its steps; -1 with the reason. */
int rows_read(
    struct measured_rows *r, const char *path, const struct rows_wanted *wanted, struct err *e);
void rows_release(struct measured_rows *r);
/* The case of a row with the constants of a program in place of the device's. */
struct run_case rows_case(const struct measured_row *r, const struct hardware *hw);

#endif

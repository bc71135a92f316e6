/*
 * rankfile.h - which rank is on which host and cores, as launchers read it
 *
 * Open MPI 4.1 and 5 read lines "rank N=HOST slot=CORES", with --rankfile FILE and with --map-by
 * rankfile:file=FILE; Slurm's srun --distribution=arbitrary a line with the host of each task, from
 * the file that SLURM_HOSTFILE names.
 */
#ifndef PLAN_RANKFILE_H
#define PLAN_RANKFILE_H

#include "lib/base/str.h"
#include "lib/model/hardware.h"
#include "lib/model/options.h"

enum launcher { LAUNCHER_OPENMPI_4, LAUNCHER_OPENMPI_5, LAUNCHER_SLURM };
extern const char *const launchers[]; /* their names */

struct rankfile_options {
	int launcher;
	const char *hostfile; /* NULL: hosts are numbered */
	int64_t cores;        /* of a host; 0: as many as it has ranks */
};

struct rankfile {
	struct str text; /* of the file */
	struct str how;  /* the launcher's command that reads it, up to the program */
};

/* Appends to both, for a file of this name. -1 with the reason: hosts are too few or have other
 * slots, or tensor ranks would be on two hosts. */
int rankfile_make(const struct rankfile_options *o, const struct run_plan *plan,
    const struct hardware *hw, const char *file, struct rankfile *out, struct err *e);

#endif

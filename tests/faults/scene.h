/*
 * scene.h - the runs that faults are injected into: tiny ones in several layouts, from several
 * beginnings, with their undisturbed results
 *
 * Under the base directory: tiny.conf, shim.so; LAYOUT.BEGINNING, the state before a run;
 * LAYOUT.BEGINNING.end, the state after it, with the log of its calls; work, where the disturbed
 * run is. In each C is the --save directory, m the metrics.
 */
#ifndef FAULTS_SCENE_H
#define FAULTS_SCENE_H

#include "tests/faults/command.h"
#include "tests/faults/oplog.h"

#include <stdint.h>

enum { SCENE_RANKS = 2, SCENE_STEPS = 6, SCENE_HALF = 4 };

/* An empty directory; two checkpoints of three; one, and a second whose save was cut off by a
 * kill. */
enum beginning { BEGIN_EMPTY, BEGIN_HALF, BEGIN_CUT, BEGIN_COUNT };

struct scene_layout {
	const char *name;
	int ranks;
	const char *options;
};
enum { SCENE_LAYOUTS = 6, SCENE_ONE_RANK = 1 << 0 | 1 << 1 }; /* the first two */
extern const struct scene_layout scene_layouts[SCENE_LAYOUTS];

/* What a run makes of a beginning: how many calls of each kind on each rank. */
struct scene_start {
	bool known;
	int calls[SCENE_RANKS][CALL_COUNT];
};

struct scene {
	char base[256];
	struct scene_start start[SCENE_LAYOUTS][BEGIN_COUNT];
};

/* Makes the base directory, below $TMPDIR, /dev/shm or /tmp; shim.so is in the program's directory.
 * -1 with a reason. */
int scene_open(struct scene *s, struct err *e);
void scene_close(struct scene *s); /* removes it */

/* The command line of a run; extra: more options. with_shim: the shim is loaded into every rank. */
struct scene_run {
	const struct scene_layout *layout;
	bool with_shim;
	const char *extra[SCENE_RANKS]; /* of each rank; "" for none */
};
void scene_words(const struct scene_run *r, struct str *words);

/* Makes, once, the beginning of a layout and what comes of it. NULL with a reason. */
const struct scene_start *scene_start(struct scene *s, int layout, enum beginning b, struct err *e);
/* Runs in dir with the shim, which appends to BASE/log. fault: a string "FAULT=...", or NULL. The
 * exit status, as command_wait's. */
int scene_record(const struct scene *s, int layout, const char *dir, const char *fault);
/* Puts the beginning into `work`. */
int scene_set(const struct scene *s, int layout, enum beginning b, struct err *e);
/* BASE/LAYOUT.0.end/NAME: of where an undisturbed run of the layout ended. */
void scene_reference(const struct scene *s, int layout, const char *name, struct str *path);
/* cp -a, which merges directories. */
int scene_copy(const char *from, const char *to, struct err *e);

#endif

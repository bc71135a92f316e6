/* scene.h - the tiny runs that are simulated, and what each comes to undisturbed */
#ifndef SIM_SCENE_H
#define SIM_SCENE_H

#include "tests/sim/launcher.h"

struct layout {
	const char *name;
	int ranks;
	const char *options;
	/* of another tool than mtrain, whose arguments are all in options */
	const char *tool;
	int (*main)(int, char **);
	bool apart;    /* the ranks are runs of it on one target: one must succeed */
	bool recorded; /* its result holds its command line, --force too */
	bool corpora;  /* reads datasets; else tokens drawn at random */
	int retained;  /* of older checkpoints only multiples of it are kept; 0: all */
	bool rewinds;  /* steps may be trained once more, and checkpoints be moved aside */
};
/* The last ones are not drawn, since they are known to fail: --layout alone runs them. */
enum { LAYOUTS = 24, LAYOUTS_DRAWN = 21 };
extern const struct layout layouts[];

/* The directory of every run is /run; its checkpoints are in C, its metrics in m. */
void scene_disk(void);
/* Makes what a layout reads: datasets, a checkpoint; the exit status. */
int scene_prepare(const struct layout *x, struct str *said);
/* A run of mtrain; extra: more options. */
struct job *scene_start(const struct layout *x, const char *extra, struct str *said);

/* Everything below the disk's root, as text in memory: what another world begins with. */
struct image {
	size_t len, cap;
	char *bytes;
};
void image_save(struct image *m, const struct node *n);
/* Puts it below a directory. */
void image_load(const struct image *m, const char *dir);

#endif

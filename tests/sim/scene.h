/* scene.h - the tiny runs that are simulated, and what each comes to undisturbed */
#ifndef SIM_SCENE_H
#define SIM_SCENE_H

#include "tests/sim/launcher.h"

enum { OTHERS = 3 };

struct layout {
	const char *name;
	int ranks;
	const char *options;
	/* of another tool than mtrain, whose arguments are all in options */
	const char *tool;
	int (*main)(int, char **);
	bool apart;    /* the ranks are runs of it on one target: one must succeed */
	bool beside;   /* they are runs of it with targets of their own, by the rank, on one host */
	bool recorded; /* its result holds its command line, --force too */
	bool corpora;  /* reads datasets; else tokens drawn at random */
	bool samples;  /* its length is counted in samples */
	int retained;  /* of older checkpoints only multiples of it are kept; 0: all */
	bool rewinds;  /* steps may be trained once more, and checkpoints be moved aside */
	/* what a start may have in place of the options, and what then is that of other starts */
	struct {
		int ranks;
		const char *options;
	} other[OTHERS];
	enum { SAME_BYTES, SAME_BITS, SAME_LOSSES } same;
};
enum { LAYOUTS = 29 };
extern const struct layout layouts[];
/* One of these: the more there is that may happen in a layout, the more likely it is. */
int scene_draw(void);

/* The directory of every run is /run; its checkpoints are in SAVE, its metrics in m. */
#define SAVE "s/C"
void scene_disk(void);
/* Makes what a layout reads: datasets, a checkpoint; the exit status. */
int scene_prepare(const struct layout *x, struct str *said);
/* A run of it; other: 0, or 1 + the number of other options; extra: more options. srun: ranks live
 * on when one has died. */
struct job *scene_start(
    const struct layout *x, int other, const char *extra, bool srun, struct str *said);

/* Everything below the disk's root, as text in memory: what another world begins with. */
struct image {
	size_t len, cap;
	char *bytes;
};
void image_save(struct image *m, const struct node *n);
/* Puts it below a directory. */
void image_load(const struct image *m, const char *dir);

#endif

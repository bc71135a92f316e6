/*
 * disk.h - files and directories in memory, and what is left of them after a loss of power
 *
 * A file is what programs see and what its last sync left on the disk; between the two lie changes,
 * in order. A directory likewise, with names for bytes: a name is on the disk for good once the
 * directory is synced. A loss of power keeps of the changes since then what is drawn: none, all, a
 * prefix of all calls' changes cut at a sector, each sector and name by itself, or only what the
 * last call has changed, as by a disk that writes in another order.
 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include "lib/base/err.h"
#include "tests/sim/world.h"

enum { SECTOR = 512, NAME_SIZE = 256 };

struct node;

/* A name of a directory. */
struct entry {
	char name[NAME_SIZE];
	struct node *node;
};

/* Bytes of a file (a size alone where bytes is NULL), or a name of a directory: node NULL, removed.
 */
struct change {
	long number; /* of the call */
	size_t offset, len;
	char *bytes;
	char *name;
	struct node *node;
};

struct names {
	struct entry *entry; /* sorted by name */
	size_t count, cap;
};

struct node {
	int number;
	bool dir, proc; /* proc: made by the kernel for one reader */
	int links;
	int64_t modified; /* ns since 1970 */
	char *bytes, *durable;
	size_t len, cap, durable_len;
	struct names names, durable_names;
	struct change *change;
	size_t num_changes, cap_changes;
	const void *flock; /* the open file that holds it */
	struct node *next; /* of all nodes */
};

struct node *node_new(bool dir);
struct node *names_find(const struct names *n, const char *name);
/* Lets a name stand for a node, or for none. number: the call's, the same for both names of a
 * rename. */
void node_name(struct node *dir, const char *name, struct node *node, long number);
void node_write(struct node *n, size_t at, const void *bytes, size_t len);
void node_truncate(struct node *n, size_t len);
/* All changes are on the disk; false: they are dropped from the list, and only programs see them,
 * as after a sync that failed. */
void node_sync(struct node *n, bool reached);
/* The number of the next call that changes something. */
long disk_call(void);

enum loss { LOSS_ALL, LOSS_NONE, LOSS_PREFIX, LOSS_ANY, LOSS_BUT_LAST, LOSS_KINDS };
/* Power is lost: what is left of everything below root is drawn. */
void disk_lose_power(struct node *root, enum loss how);

/* The node of an absolute path below root, or NULL. */
struct node *disk_find(struct node *root, const char *path);
/* Makes it, durable, with its directories. For the scene, outside simulated time. */
struct node *disk_put(struct node *root, const char *path, const char *bytes, size_t len);
/* Copies everything below into a directory of this machine. */
int disk_export(const struct node *n, const char *dir, struct err *e);

#endif

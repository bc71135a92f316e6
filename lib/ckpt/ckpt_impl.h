/* ckpt_impl.h - shared by the files of checkpoints: finding (ckpt_dir.c), opening (ckpt.c), reading
 * (ckpt_read.c), writing (ckpt_write.c) and keeping (ckpt_keep.c) */
#ifndef CKPT_CKPT_IMPL_H
#define CKPT_CKPT_IMPL_H

#include "lib/base/map.h"
#include "lib/ckpt/checker.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/manifest.h"

/* Of a name in a directory of a checkpoint: nothing is cut off, and the system refuses what is too
 * long. */
enum { CKPT_PATH_BYTES = IO_PATH + 400 };
#define CKPT_TRACKER "latest_checkpointed_iteration.txt"

/* An open checkpoint. Reading fills the maps and the marks. */
struct ckpt {
	char dir[IO_PATH];
	struct manifest m;
	uint64_t manifest_sum; /* XXH3-64 of manifest.tsv */
	struct map *map;       /* one per file; size is set on opening, base on first use */
	bool *checked; /* one per checksum of the manifest: the bytes were compared with it, or will
			* be */
	bool damaged;  /* a checksum differed */
	struct checker *checker;           /* NULL before it is needed */
	bool edited;                       /* the checksums of the texts may differ */
	uint64_t text_sum[MANIFEST_TEXTS]; /* their actual checksums */
	char *options, *state_text;
	struct run_state state;
};

/* dir/name; false when it does not fit. */
bool ckpt_join(char out[CKPT_PATH_BYTES], const char *dir, const char *name);
/* Whether dir holds an entry whose name begins and ends with these, without overlap. A directory
 * that cannot be read holds none. */
bool ckpt_has_entry(const char *dir, const char *prefix, const char *suffix);
/*
 * The iter_* directory that dir stands for: dir itself if it has a manifest, else the one that its
 * tracker names. Iterations that the tracker does not name are not considered: their save may have
 * been cut off.
 */
int ckpt_find_dir(const char *dir, char out[IO_PATH], struct err *e);
/* Removes a directory or a file of save, which may be missing. It gets a temporary name first, and
 * that is put on disk: half removed it never looks like a checkpoint, also after a loss of power. A
 * process that is stopped meanwhile, and loses the lock, removes nothing that its successor has
 * under the first name. -1 with a reason, also when the lock is lost before. */
int ckpt_remove(const char *save, const char *path, struct lock *lock, struct err *e);
/* Renames a checkpoint, or whatever has its name, to iter_0000500.aside-1 and so on. */
int ckpt_move_aside(const char *save, int64_t iteration, char to[IO_PATH], struct err *e);
/* Readers see the old number or the new one, unless the lock of save is lost. */
int ckpt_put_tracker(const char *save, int64_t iteration, struct lock *lock, struct err *e);
/* Like ckpt_open, but accepts changed texts. */
struct ckpt *ckpt_open_edited(const char *dir, struct err *e);

#endif

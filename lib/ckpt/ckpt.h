/*
 * ckpt.h - the checkpoint: a directory of safetensors pieces with a manifest
 *
 *   SAVE/latest_checkpointed_iteration.txt      decimal iteration, written last
 *   SAVE/lock                                   who may write into it; base/lock.h
 *   SAVE/iter_0000500/manifest.tsv              one line per piece: tensor, dtype, global shape,
 *                                               slice, file, offset, bytes, XXH3-64
 *   SAVE/iter_0000500/pieces-00000.safetensors  one file per writer
 *   SAVE/iter_0000500/options.conf              the options of the run, readable by --config
 *   SAVE/iter_0000500/state.conf                "key value" lines: iteration, consumed samples,
 *                                               loss scale, fingerprints; state.h
 *
 * Tensors are logical and global; files are pieces, so any layout reads what any other wrote. State
 * S of the update rule for a parameter X is the tensor X.S. Writing goes to a temporary directory;
 * ckpt_commit syncs and renames it. A manifest is checked whole on opening: pieces must tile every
 * tensor exactly, without overlap, inside their files. It holds the checksums of the texts, of
 * itself, and of the blocks of the pieces, which are compared when they are read.
 */
#ifndef CKPT_CKPT_H
#define CKPT_CKPT_H

#include "lib/base/dtype.h"
#include "lib/base/err.h"
#include "lib/base/io.h"
#include "lib/base/lock.h"
#include "lib/base/slice.h"
#include "lib/base/str.h"
#include "lib/ckpt/piece.h"
#include "lib/ckpt/state.h"

#include <stdbool.h>

struct ckpt;

/* dir is an iter_* directory, or a SAVE directory whose tracker names one. A ckpt is for one thread
 * at a time: files are mapped when first read. */
struct ckpt *ckpt_open(const char *dir, struct err *e);
void ckpt_close(struct ckpt *c);
const char *ckpt_dir(const struct ckpt *c); /* the iter_* directory */
int ckpt_count(const struct ckpt *c);
const struct ckpt_tensor *ckpt_at(const struct ckpt *c, int i);              /* sorted by name */
const struct ckpt_tensor *ckpt_find(const struct ckpt *c, const char *name); /* or NULL */
int ckpt_num_files(const struct ckpt *c);
/* The contents of state.conf, and both texts whole, for copying; all live as long as c. */
const struct run_state *ckpt_state(const struct ckpt *c);
const char *ckpt_state_text(const struct ckpt *c);
const char *ckpt_options_text(const struct ckpt *c);
/* Whether the manifest holds checksums of the texts, of itself and of each block. Version 1 has one
 * per piece. */
bool ckpt_sealed(const struct ckpt *c);

/*
 * Reads a box of a tensor in its own type, row-major and dense into dst. Any box inside the global
 * shape. Every block that holds a part of it is compared with its checksum, once; the message names
 * file and tensor. source.h converts.
 */
int ckpt_read(struct ckpt *c, const char *name, const struct slice *want, void *dst, struct err *e);
/*
 * The same without a copy: *at is where the box lies so in a file, at any alignment, until
 * ckpt_give_back; NULL where it lies in several pieces, not dense, or under a checksum of more than
 * a block. -1 when its bytes are damaged.
 */
int ckpt_lend(
    struct ckpt *c, const char *name, const struct slice *want, const void **at, struct err *e);
void ckpt_give_back(struct ckpt *c, const char *name, const struct slice *want);
/* Has a disk begin with a box that will be read. What is wrong with it, the read says. */
void ckpt_expect(struct ckpt *c, const char *name, const struct slice *want);
/*
 * For many ranks that read one checkpoint of version 1, whose checksums cover whole pieces:
 * compares this rank's share of the pieces, and relies on the other ranks for the rest, so that no
 * rank reads a whole piece for a part of it. Does nothing for a sealed one.
 */
int ckpt_check_share(struct ckpt *c, int rank, int num_ranks, struct err *e);
/* Whether a read or a check has found damaged bytes. */
bool ckpt_damaged(const struct ckpt *c);
/* Compares all checksums of one file's pieces, but those that a read has compared; the message
 * names file and tensor. */
int ckpt_verify_file(struct ckpt *c, int file, struct err *e);

/* --- writing: each process its own pieces file, one process the rest -------------------------- */
struct ckpt_writer;

/* Creates a temporary directory for iteration `iteration` under save, with a name that no other run
 * has: its path in out, which the caller tells its other processes. Another run never writes there;
 * the lock's next holder removes what is left of it. */
int ckpt_begin(const char *save, int64_t iteration, char out[IO_PATH], struct err *e);
/* Makes the directory of a save, unless it is there; -1 when it cannot be written. */
int ckpt_make_save(const char *save, struct err *e);
/* Takes the lock of a save, SAVE/lock, which its one writer holds, and removes the remains of
 * interrupted saves; never a part of a checkpoint. Of the terms only by_force, say and give_up
 * count. NULL with the reason; lock_release releases it. */
struct lock *ckpt_claim(const char *save, const struct lock_terms *how, struct err *e);
struct ckpt_writer *ckpt_writer_new(const char *tmp_dir, int file_number, struct err *e);
/* The same for copies of checkpoints, past the file cache: see outfile_open_direct. */
struct ckpt_writer *ckpt_writer_direct(const char *tmp_dir, int file_number, struct err *e);
/* Declares a piece; pieces are then written in the declared order, each by one ckpt_write of its
 * dense bytes. */
void ckpt_declare(struct ckpt_writer *w, const char *name, enum dtype t, int ndim,
    const int64_t *shape, const struct slice *slice);
int ckpt_write(struct ckpt_writer *w, const void *bytes, struct err *e);
/* The same in several calls: the next bytes of the piece. */
int ckpt_write_part(struct ckpt_writer *w, const void *bytes, uint64_t len, struct err *e);
/* Syncs the file and appends this writer's manifest lines to `manifest`; frees w in every case. A
 * writer with no piece writes no file. */
int ckpt_writer_finish(struct ckpt_writer *w, struct str *manifest, struct err *e);
void ckpt_writer_abort(struct ckpt_writer *w);

struct ckpt_commit {
	const char *save, *tmp; /* tmp: the directory of ckpt_begin */
	int64_t iteration;
	const char *manifest;        /* the lines of all writers, any order */
	const char *options, *state; /* texts of options.conf and state.conf */
	bool fresh;                  /* an iter_* of the same number is an error */
	/* an iter_* of this number is of somebody else: it is moved aside, and its new path is
	 * appended; NULL: it is replaced, unless fresh */
	struct str *aside;
	struct lock *lock; /* of save: an error when it is lost before names change; NULL: none */
};
/* Writes manifest and texts, checks that the whole opens, renames the directory, then the tracker.
 * After an error the previous checkpoint is intact. */
int ckpt_commit(const struct ckpt_commit *c, struct err *e);

/* Copies the files of an open checkpoint as they are, into the directory of ckpt_begin, where the
 * file system shares their bytes without copying any, and appends their lines of the manifest,
 * whose sums are not compared. -1 with the reason; also for a checkpoint of an earlier version. */
int ckpt_clone(const struct ckpt *c, const char *tmp_dir, struct str *manifest, struct err *e);

/* The last step of it, for formats of others whose files are complete in tmp: renames it, then
 * writes the tracker. Manifest and texts do not count. */
int ckpt_publish(const struct ckpt_commit *c, struct err *e);

/* Accepts edited texts of a checkpoint: renews their checksums in the manifest. Appends the names
 * of those that had changed, separated by blanks. A checkpoint that ckpt_open would refuse for
 * another reason stays as it is. */
int ckpt_seal(const char *dir, struct str *changed, struct err *e);

/* Renames checkpoints of save that are later than `iteration` to iter_0000500.aside-1 and so on,
 * after setting the tracker back. Returns how many, and the new path of the first; -1 with a
 * reason, also when the lock is lost. */
int ckpt_set_aside(
    const char *save, int64_t iteration, struct lock *lock, char first[IO_PATH], struct err *e);
enum { CKPT_READ = 4 };
struct ckpt_retention {
	const char *save;
	int64_t iteration, interval;
	/* that others read, which stay */
	int64_t read[CKPT_READ];
	int num_read;
	/* INT64_MAX at first; where checkpoints had to stay, those after this one are looked at
	 * again the next time */
	int64_t since;
	struct lock *lock; /* of save: nothing is removed once it is lost; NULL: none */
};
/* Removes the checkpoints after the last multiple of interval before `iteration` and before it. -1
 * with a reason when any remains that nobody reads. */
int ckpt_retain(struct ckpt_retention *r, struct err *e);

/* The tracker: 1 and *iteration, 0 when there is none, -1 with a reason. */
int ckpt_tracker(const char *save, int64_t *iteration, struct err *e);
/* For a directory without a tracker, which the very first save leaves when it is cut off before its
 * last rename: the iter_* with the highest number. 1; 0 when there is none, or it is no checkpoint;
 * -1 with a reason when that cannot be told or the checkpoint does not open. */
int ckpt_highest(const char *save, char out[IO_PATH], struct err *e);
/* The tracker of such a directory: writes it, if the directory has this iteration. */
int ckpt_add_tracker(const char *save, int64_t iteration, struct lock *lock, struct err *e);
/* True when the directory has an iter_* entry. */
bool ckpt_has_iterations(const char *save);
void ckpt_iter_dir(const char *save, int64_t iteration, char out[IO_PATH]);
/* The number in "iter_0000500"; -1 for a name of another form. */
int64_t ckpt_name_iteration(const char *name);
/* The numbers of the iter_* directories of save, sorted: how many, or -1 when there is none. The
 * caller frees *out, also after a failure. */
int ckpt_iterations(const char *save, int64_t **out, struct err *e);
/* The newest checkpoint next to dir that is older and opens. dir is as in ckpt_open, but need not
 * open. */
bool ckpt_older(const char *dir, char out[IO_PATH]);

#endif

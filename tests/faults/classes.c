/*
 * classes.c - the classes of faults: what may happen, how it is caused, and how the run must end
 *
 * The table is the specification: with a fault of a class a run ends with one of these statuses and
 * says this. That it then resumes bitwise holds for all classes.
 */
#include "tests/faults/strike.h"

#include <errno.h>
#include <signal.h>

#define CALL(c) (1u << CALL_##c)
#define WRITING \
	(CALL(OPEN) | CALL(WRITE) | CALL(FSYNC) | CALL(CLOSE) | CALL(RENAME) | CALL(MKDIR) | \
	    CALL(UNLINK))

enum {
	ONE = SCENE_ONE_RANK,
	ANY = (1 << SCENE_LAYOUTS) - 1,
	TWO = ANY & ~ONE,
	EMPTY = 1 << BEGIN_EMPTY,
	HALF = 1 << BEGIN_HALF,
	CUT = 1 << BEGIN_CUT,
	EVERY = EMPTY | HALF | CUT,
	/* Which of the ranks that lose a peer reports first is random. */
	KILLED = STATUS_KILLED | STATUS(4),
	/* 2: one of the ranks cannot read what the others can, and they compare what they have
	 * read. */
	UNREAD = STATUS(1) | STATUS(2),
};

const struct fault_class fault_classes[] = {
	/* One call fails. */
	{ "write fails", strike_call, ANY, EVERY, CALL(WRITE), ACTION_FAIL, { ENOSPC, EIO, EDQUOT },
	    0, STATUS(1), NULL, true },
	{ "fsync fails", strike_call, ANY, EVERY, CALL(FSYNC), ACTION_FAIL, { EIO, ENOSPC, EDQUOT },
	    0, STATUS(1), NULL, true },
	{ "mkdir fails", strike_call, ANY, EVERY, CALL(MKDIR), ACTION_FAIL, { EIO, ENOSPC, EACCES },
	    0, STATUS(1), NULL },
	{ "mmap fails", strike_call, ANY, HALF | CUT, CALL(MMAP), ACTION_FAIL, { ENOMEM, EACCES },
	    0, STATUS(1), NULL },
	/* Nothing depends on some of these: files that are only examined or tidied, or a lock that
	 * is removed. */
	{ "rename fails", strike_call, ANY, EVERY, CALL(RENAME), ACTION_FAIL,
	    { EIO, ENOSPC, EACCES }, 0, STATUS(0) | STATUS(1), NULL, true },
	{ "close fails", strike_call, ANY, EVERY, CALL(CLOSE), ACTION_FAIL, { EIO, ENOSPC, EDQUOT },
	    0, STATUS(0) | STATUS(1), NULL },
	{ "open fails", strike_call, ANY, EVERY, CALL(OPEN), ACTION_FAIL, { EMFILE, EIO, EACCES },
	    0, STATUS(0) | UNREAD, NULL },
	{ "read fails", strike_call, ANY, HALF | CUT, CALL(READ), ACTION_FAIL, { EIO, EISDIR }, 0,
	    STATUS(0) | UNREAD, NULL },
	{ "unlink fails", strike_call, ANY, CUT, CALL(UNLINK), ACTION_FAIL, { EIO, EACCES, EBUSY },
	    0, STATUS(0) | STATUS(1), NULL },
	/* From one call on. */
	{ "disk fills", strike_call, ANY, EVERY, CALL(WRITE), ACTION_FAIL_ON, { ENOSPC, EDQUOT }, 0,
	    STATUS(1), NULL, true },
	{ "disk becomes read-only", strike_call, ANY, EVERY, CALL(CHANGE), ACTION_FAIL_ON,
	    { EROFS }, 0, STATUS(1), NULL },
	{ "file size limited", strike_call, ANY, EVERY, CALL(RENAME), ACTION_LIMIT,
	    { 8192, 12000, 30000 }, 0, STATUS(0) | STATUS(1), "File too large", true },
	{ "small disk", strike_small_disk, ANY, EMPTY, 0, NULL, { 0 }, 0, STATUS(1),
	    "No space left on device", true },
	/* Signals, before a call or at a time. */
	{ "killed at a call", strike_call, ANY, EVERY, WRITING, ACTION_SIGNAL, { SIGKILL }, 0,
	    KILLED, NULL },
	{ "killed at a time", strike_time, ANY, EVERY, 0, NULL, { SIGKILL }, 1, STATUS(0) | KILLED,
	    NULL },
	{ "stands still", strike_call, ANY, EVERY, WRITING, ACTION_SIGNAL, { SIGSTOP }, 0,
	    STATUS(0), NULL },
	{ "asked to stop at a call", strike_call, ANY, EVERY, WRITING, ACTION_SIGNAL,
	    { SIGUSR1, SIGUSR2, SIGTERM, SIGINT }, 0, STATUS(0) | STATUS(3),
	    "; the same command " },
	/* A signal that comes before main cannot be caught. */
	{ "asked to stop at a time", strike_time, ANY, EVERY, 0, NULL,
	    { SIGUSR1, SIGUSR2, SIGTERM, SIGINT }, 1, STATUS(0) | STATUS(3) | KILLED,
	    "; the same command " },
	{ "told to stop at once", strike_time, ONE, EVERY, 0, NULL, { SIGTERM, SIGINT }, 2,
	    STATUS(0) | STATUS(1) | STATUS(3) | KILLED, NULL },
	/* A checkpoint is not what was saved. */
	{ "bit flipped", strike_flip, ANY, HALF, 0, NULL, { 0 }, 0, STATUS(0) | STATUS(1), NULL },
	{ "file cut off", strike_cut, ANY, HALF, 0, NULL, { 0 }, 0, STATUS(1), NULL },
	{ "block of zeroes", strike_zeroes, ANY, HALF, 0, NULL, { 0 }, 0, STATUS(0) | STATUS(1),
	    NULL },
	{ "file removed", strike_removal, ANY, HALF, 0, NULL, { 0 }, 0, STATUS(0) | STATUS(1),
	    NULL },
	/* Two runs, or one with different ranks. */
	{ "ranks disagree", strike_disagreement, TWO, EMPTY | HALF, 0, NULL, { 0 }, 0, STATUS(2),
	    "must be the same on all ranks" },
	{ "two runs at once", strike_second_run, ONE, EMPTY | HALF, CALL(RENAME), ACTION_SIGNAL,
	    { SIGSTOP }, 0, STATUS(1), "--save C" },
};
const int fault_num_classes = sizeof fault_classes / sizeof *fault_classes;

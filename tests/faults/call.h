/*
 * call.h - what the shim and its readers agree on: which calls count, how a fault is asked for
 *
 * The shim reads the environment:
 *   FAULT_ROOT   the directory of which it watches what lies in FAULT_ROOT/C, and FAULT_ROOT itself
 *   FAULT        "CALL NTH ACTION ARGUMENT": what happens at the NTH watched call, from 1 on
 *   FAULT_RANK   the rank that it happens on, 0 by default
 *   FAULT_LOG    a file to which all ranks append every watched call that succeeded
 *   FAULT_STRUCK a file that is made when the fault happens
 *
 * A record of the log is a line "RANK CALL ARGUMENT BYTES", one line for each of two paths (below
 * FAULT_ROOT, "." for itself; the second is empty for calls with one path), and that many bytes.
 */
#ifndef FAULTS_CALL_H
#define FAULTS_CALL_H

/* The argument of an open is its flags, of a write, read or truncate the offset, of a rename
 * renameat2's flags. */
/* clang-format off */
#define CALLS(X) \
	X(OPEN, "open") X(READ, "read") X(WRITE, "write") X(TRUNCATE, "truncate") \
	X(FSYNC, "fsync") X(CLOSE, "close") X(RENAME, "rename") X(LINK, "link") \
	X(UNLINK, "unlink") X(MKDIR, "mkdir") X(MMAP, "mmap") X(SAY, "say")
/* clang-format on */

#define CALL_ENUM(c, name) CALL_##c,
/* CALL_CHANGE counts all that a read-only file system refuses, and is never logged. */
enum call { CALLS(CALL_ENUM) CALL_CHANGE, CALL_COUNT };
#undef CALL_ENUM

#define CALL_NAME(c, name) name,
static const char *const call_names[CALL_COUNT] = { CALLS(CALL_NAME) "change" };
#undef CALL_NAME

/*
 * fail: this one call, with an errno; fail-on: this and every later one; signal: a signal before
 * the call is made; signal-after: one when it was made; limit: from before it on no file grows
 * beyond so many bytes (not from the start, or MPI's own files could not be made).
 */
#define ACTION_FAIL "fail"
#define ACTION_FAIL_ON "fail-on"
#define ACTION_SIGNAL "signal"
#define ACTION_SIGNAL_AFTER "signal-after"
#define ACTION_LIMIT "limit"

#endif

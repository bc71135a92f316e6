/*
 * output.h - what a run writes: a dataset and its notes for every key, and the list of bad lines
 *
 * Everything appears under its name when the run commits, the datasets' indexes last. With resume,
 * the temporary files keep their names from run to run and a state file says how much of them
 * counts; without, they are removed when the run does not commit.
 */
#ifndef TOK_OUTPUT_H
#define TOK_OUTPUT_H

#include "tok/encoding.h"
#include "tok/errors.h"
#include "tok/resume.h"
#include "tok/sidecar.h"

struct output;

/* Takes the lock of the prefix, PREFIX.lock, and those of its datasets, which output_close
 * releases; for another writer it waits a few seconds, with a note. NULL with a reason. */
struct output *output_claim(const struct encode_config *c, struct err *e);
/* -1 with the reason when another run has taken the lock. */
int output_check(const struct output *o, struct err *e);
struct lock *output_lock(const struct output *o); /* of the prefix; o keeps it */
/* The result of the last look at the lock, which a thread takes now and then; false for NULL. */
bool output_lost(const struct output *o);
/* Checks that no target exists, then opens the temporary files. from: the state to continue from,
 * or NULL. */
int output_open(struct output *o, enum dtype t, const struct resume_state *from, struct err *e);
/* Writes the documents of a job, key by key, in the order of the input. */
int output_job(struct output *o, const struct job *j, struct err *e);
/* Records a bad line that was skipped. */
void output_bad(struct output *o, const struct error_row *row);
/* Brings everything to the disk and puts its sizes into *state. */
int output_sync(struct output *o, struct resume_state *state, struct err *e);
/* Puts everything under its name. */
int output_commit(struct output *o, const struct sidecar *notes, struct err *e);
/* keep: leave the temporary files to a later run. NULL is closed already. */
void output_close(struct output *o, bool keep);

#endif

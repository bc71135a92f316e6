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

/* Checks that no target exists, then opens the temporary files. from: the state to continue from,
 * or NULL. On failure NULL with a reason, and nothing is created. */
struct output *output_open(
    const struct encode_config *c, enum dtype t, const struct resume_state *from, struct err *e);
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

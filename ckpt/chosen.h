/*
 * chosen.h - some tensors of a source in a safetensors file, for programs that want these alone
 */
#ifndef CKPT_CHOSEN_H
#define CKPT_CHOSEN_H

#include "ckpt/derived.h"

/*
 * Writes the parameters and states whose names match a pattern of the shell into job->save, under
 * the names of our checkpoints, weights in job->dtype. The file appears whole or not at all, and
 * replaces one only by force. A few slabs are in memory at a time. Prints what there is to note,
 * also after a failure, and closes d.
 */
int chosen_write(
    struct derived *d, const struct derived_job *job, const char *pattern, struct err *e);

#endif

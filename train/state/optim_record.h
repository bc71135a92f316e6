/* optim_record.h - the update rule's constants in a checkpoint */
#ifndef TRAIN_STATE_OPTIM_RECORD_H
#define TRAIN_STATE_OPTIM_RECORD_H

#include "lib/base/str.h"
#include "lib/ckpt/state.h"
#include "lib/model/optim_options.h"

/* optim_record puts the update rule and its constants into the state; optim_differences lists what
 * differs from a state of the same rule: "--adam-beta2 is 0.95 and was 0.999", separated by
 * commas. */
void optim_record(const struct optim_options *o, struct run_state *s);
void optim_differences(const struct optim_options *o, const struct run_state *s, struct str *out);

#endif

/*
 * start.h - where a run starts from, and how it goes on
 */
#ifndef TRAIN_CONFIG_START_H
#define TRAIN_CONFIG_START_H

#include "train/config/train_config.h"

/* The rules of --load, --save, --finetune and --pretrained-checkpoint; sets start and
 * weights_from. */
int train_start(struct train_config *c, struct err *e);
/* Appends what --load and --save hold, as far as a start depends on it: the same text means the
 * same start. */
void train_seen(const struct train_config *c, struct str *out);
/* What a rank starts from, to be compared with others: lines "NAME<tab>VALUE" on the checkpoint,
 * the tokenizer and the model. */
void train_start_text(struct train_config *c, struct str *out);
/* True when the same command line resumes what this run saves. */
bool train_continues(const struct train_config *c);
/* And the command as it was typed is that command line. */
bool train_repeats(const struct train_config *c);
/* How to continue from what this run saves, in words. */
const char *train_way_on(const struct train_config *c);
/* The position of the checkpoint that a run resumes from; 0 and 0 for any other run. -1 with a
 * reason. */
int train_progress(struct train_config *c, int64_t *iteration, int64_t *consumed, struct err *e);
/* The model of the checkpoint, when --use-checkpoint-args asks for it or no shape was typed; 0 when
 * that does not apply, 1 when *m is filled. --use-checkpoint-args takes the sequence length too
 * where none was typed. */
int train_checkpoint_model(struct train_config *c, struct model_config *m, struct err *e);
/* Opens what --load or --pretrained-checkpoint names; where it is damaged, the reason names an
 * older checkpoint that opens. */
struct source *train_open_source(const char *dir, struct err *e);
/* Adds to the reason of a damaged checkpoint which older one opens, and how to check the whole of
 * that. */
void train_name_older(const char *dir, struct err *e);
/* Compares the architecture of a checkpoint with this run's. The reason names the first option that
 * differs. */
int train_same_model(const struct train_config *c, const char *name,
    const struct model_config *theirs, struct err *e);
/* Appends a line for each field that is another one than theirs all the same, in a run that begins
 * with the weights alone. */
void train_note_changes(const struct train_config *c, const char *name,
    const struct model_config *theirs, struct str *notes);

#endif

/*
 * deepspeed.h - DeepSpeed's file of options, and lengths in tokens
 */
#ifndef TRAIN_CONFIG_DEEPSPEED_H
#define TRAIN_CONFIG_DEEPSPEED_H

#include "train/config/train_config.h"

/* After the words are parsed: lengths in tokens become options in samples. What is wrong joins the
 * other errors. */
void deepspeed_tokens(struct train_config *c);
/* The option in samples that one in tokens stands for; NULL: it is none. */
const char *deepspeed_samples(const char *tokens);
/* Reads the file of --deepspeed-config, if it was given: a difference to an option is an error, and
 * an option that was not given takes the file's value. */
void deepspeed_read(struct train_config *c);
/* Whether DeepSpeed would drop tokens of experts though no option says so. */
void deepspeed_experts(const struct train_config *c);

#endif

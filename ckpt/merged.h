/* merged.h - a model merged of others by their weights, as a source (derived.h) */
#ifndef CKPT_MERGED_H
#define CKPT_MERGED_H

#include "ckpt/derived.h"
#include "ckpt/merge_rule.h"

/* derived_job.rule is a struct merge_rule. */
extern const struct derived_kind derived_merged;

#endif

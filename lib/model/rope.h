/* rope.h - tables of rotary angles */
#ifndef MODEL_ROPE_H
#define MODEL_ROPE_H

#include "lib/base/str.h"
#include "lib/model/config.h"

/* cos and sin of every position and angle in sequences of this length: out[position][angle][2],
 * rotary_dim / 2 angles. Source: docs/math.md 2.4. */
void model_rope_table(const struct model_config *c, enum rope_table table, int64_t length,
    int64_t positions, double *out);
/* Which of its two lists of factors a model with longrope takes in such sequences; nothing for
 * other models. */
void longrope_words(const struct model_config *c, int64_t length, struct str *out);

#endif

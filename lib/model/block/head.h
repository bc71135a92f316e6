/* head.h - in which pieces the head takes the logits */
#ifndef MODEL_BLOCK_HEAD_H
#define MODEL_BLOCK_HEAD_H

#include "lib/model/memory.h"

/* Token rows of logits that are held at once; at most those of a micro batch, rounded up to whole
 * tiles where they are many. Depends on the model and the shape alone, so that the order of the
 * sums does not depend on the layout. */
int64_t head_rows(const struct model_config *c, const struct train_shape *s);

#endif

/* embedding.c - token and position embeddings: what they hold */
#include "lib/model/block/attention.h"
#include "lib/model/block/block.h"
#include "lib/model/block/rows.h"
#include "lib/model/work.h"

#include <stddef.h>

static const struct param_row params[] = {
	{ "embedding.word_embeddings.weight", ROLE_WORD_EMBEDDINGS, ALWAYS, { D_VOCAB, D_HIDDEN },
	    SHARD_VOCAB, 0, INIT_NORMAL, 0, { SUM_ENDS, SUM_ENDS } },
	{ "embedding.position_embeddings.weight", ROLE_POSITION_EMBEDDINGS, IF_LEARNED,
	    { D_POSITIONS, D_HIDDEN }, SHARD_NONE, 0, INIT_NORMAL, 0, { 0, 0 } },
	{ .name = NULL },
};

/* Before the layers. */
static bool
in(const struct model_config *c, int64_t layer)
{
	(void)c;
	return layer < 0;
}

/* Forward reads and writes rows of the table; backward adds to them. */
static void
work(struct work *w, const struct model_config *c, const int64_t *dim)
{
	(void)c;
	w->elements = 4.0 * (double)dim[D_HIDDEN] * (double)dim[D_TOKENS];
	w->reductions = 1;
	w->scatters = 2;
}

const struct block_kind block_embedding = { "embedding", in, params, NULL, ATTENTION_INPUT, NULL,
	NULL, NULL, work };

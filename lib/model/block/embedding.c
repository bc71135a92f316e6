/* embedding.c - token and position embeddings: what they hold */
#include "lib/model/block/embedding.h"
#include "lib/model/block/attention.h"
#include "lib/model/block/block.h"
#include "lib/model/block/rows.h"
#include "lib/model/work.h"

static void
params(struct param_list *to, const struct model_config *c)
{
	int64_t h = c->hidden_size;
	const struct param_row rows[] = {
		{ "embedding.word_embeddings.weight", EMBEDDING_WORDS, true, { c->vocab_size, h },
		    SHARD_VOCAB, 0, INIT_NORMAL, 0, { SUM_ENDS, SUM_ENDS } },
		{ "embedding.position_embeddings.weight", EMBEDDING_POSITIONS,
		    c->position == POSITION_LEARNED, { c->max_position_embeddings, h }, SHARD_NONE,
		    0, INIT_NORMAL, 0, { 0, 0 } },
	};

	state_params(to, rows, sizeof rows / sizeof *rows);
}

/* Before the layers. */
static bool
in(const struct model_config *c, int64_t layer)
{
	(void)c;
	return layer < 0;
}

/* Forward reads and writes rows of the table; backward adds to them. */
static void
work(struct work *w, const struct sizes *z)
{
	w->forward.act = 2.0 * (double)z->hidden * (double)z->tokens;
	w->forward.kernels = 1;
	w->backward.act = w->forward.act;
	w->backward.kernels = 2;
	w->reductions = 1;
	w->scatters = 2;
}

const struct block_kind block_embedding = { "embedding", in, params, NULL, ATTENTION_INPUT, NULL,
	NULL, NULL, work };

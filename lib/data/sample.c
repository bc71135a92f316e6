/*
 * sample.c - from tokens to inputs, labels, positions and loss mask
 *
 * Labels are the tokens shifted by one. The loss mask is computed for each sample, because it
 * depends on the sample's padding. The mask of a dataset belongs to a token where it is the label:
 * what is read may be any token.
 */
#include "lib/data/samples.h"

/*
 * Padding in Megatron-LM's order: the loss mask reads the labels before pad ids become 0. A pad id
 * of -1 means "none" and also marks the padding itself, since no token has it.
 */
void
sample_assemble(const struct sample_options *o, const struct sample_tokens *t, int64_t seq_length,
    struct sample *out)
{
	const int64_t *tokens = t->id;
	int64_t count = t->count;
	int64_t given = seq_length + (o->add_extra_token ? 1 : 0);
	int32_t position = 0, document = 0;

	for (int64_t i = 0; i < seq_length; i++) {
		int64_t token = i < count ? tokens[i] : o->pad;
		/* Without the extra token the last label is padding. */
		bool there = i + 1 < count && i + 1 < given;
		int64_t label = there ? tokens[i + 1] : o->pad;
		bool is_eod = o->eod >= 0 && token == o->eod;
		bool masked = label == o->pad || (o->eod_mask_loss && is_eod) ||
		    (there && t->mask && !t->mask[i + 1]) ||
		    (there && t->begin && t->begin[i + 1] == i + 1);

		if (t->begin) {
			document = (int32_t)(i < count ? t->begin[i] : count);
			position = o->reset_position_ids ? (int32_t)i - document : (int32_t)i;
			is_eod = false;
		}

		out->tokens[i] = token == o->pad ? 0 : (int32_t)token;
		out->labels[i] = label == o->pad ? 0 : (int32_t)label;
		out->loss_mask[i] = masked ? 0.0f : 1.0f;
		out->position_ids[i] = position++;
		if (o->reset_position_ids && is_eod)
			position = 0;
		if (out->documents)
			out->documents[i] = document;
		if (is_eod)
			document = (int32_t)i + 1;
	}
}

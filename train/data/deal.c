/* deal.c - the rows of samples that a rank has */
#include "train/data/deal.h"

/* The weight of the label so many tokens on: 0 where there is none, or attention keeps to documents
 * and it is of another one. */
static float
later_weight(const struct deal *d, const struct sample *one, int64_t t, int64_t shift)
{
	int64_t at = t + shift;

	if (at >= d->plan->shape.seq_length ||
	    (one->documents && one->documents[at] != one->documents[t]))
		return 0;
	return one->loss_mask[at];
}

void
deal_later(const struct deal *d, const struct sample *one, int64_t i, const struct batch *out)
{
	const struct run_plan *p = d->plan;
	int64_t length = p->shape.seq_length, rows = run_rows(p), row;
	struct position_range has[POSITION_RANGES];
	int n = layout_positions(&p->layout, length, d->context, has);

	for (int64_t j = 0; out->later_mask && j < p->model.mtp_num_layers; j++) {
		row = j * rows + i;
		for (int k = 0; k < n; k++)
			for (int64_t t = has[k].first; t < has[k].first + has[k].count;
			     t++, row += d->samples) {
				int64_t at = t + j + 1;

				out->later_labels[row] = at < length ? one->labels[at] : 0;
				out->later_positions[row] = at < length ? one->position_ids[at] : 0;
				out->later_mask[row] = later_weight(d, one, t, j + 1);
			}
	}
}

double
deal_sample(const struct deal *d, const struct sample *one, int64_t i, const struct batch *out)
{
	const struct run_plan *p = d->plan;
	int64_t b = d->samples, row = i;
	double weight = 0;
	struct position_range has[POSITION_RANGES];
	int n = layout_positions(&p->layout, p->shape.seq_length, d->context, has);

	for (int k = 0; k < n; k++)
		for (int64_t t = has[k].first; t < has[k].first + has[k].count; t++, row += b) {
			out->tokens[row] = one->tokens[t];
			out->labels[row] = one->labels[t];
			out->positions[row] = one->position_ids[t];
			out->loss_mask[row] = one->loss_mask[t];
			weight += (double)one->loss_mask[t];
		}
	if (!out->documents)
		return weight;
	if (p->shape.context_form == CONTEXT_HEADS) {
		has[0] = (struct position_range){ 0, p->shape.seq_length };
		n = 1;
	}
	row = i;
	for (int k = 0; k < n; k++)
		for (int64_t t = has[k].first; t < has[k].first + has[k].count; t++, row += b)
			out->documents[row] = one->documents[t];
	return weight;
}

void
deal_padding(struct sample *one, int64_t first, int64_t seq_length)
{
	for (int64_t t = first; t < seq_length; t++) {
		one->tokens[t] = one->labels[t] = 0;
		one->position_ids[t] = (int32_t)(t - first);
		one->loss_mask[t] = 0;
		if (one->documents)
			one->documents[t] = (int32_t)first;
	}
}

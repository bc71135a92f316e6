/* activation_offload.c - units of saved activations, spread over a chunk */
#include "lib/model/activation_offload.h"
#include "lib/base/int64.h"

/* One place is computed in while another is copied. Where fewer than two units lie between those
 * that leave, two places are too few: a place is taken at the start of the unit before, which
 * writes the input of the next one. */
struct activation_offload_plan
activation_offload_plan(int64_t layers, int64_t num_layers, int64_t together, int slots)
{
	struct activation_offload_plan p = { .layers = int64_max(together, 1) };

	p.units = int64_div_up(num_layers, p.layers);
	p.moved = int64_max(int64_min(int64_div_up(layers, p.layers), p.units - 1), 0);
	p.places = (int)int64_min(p.moved, 3 * p.moved > p.units - 1 ? 3 : 2);
	p.copied = p.moved - (slots == 1 ? p.places : 0);
	return p;
}

int64_t
activation_offload_before(const struct activation_offload_plan *p, int64_t unit)
{
	return p->moved && unit > 0 ? int64_div_up((unit - 1) * p->moved, p->units - 1) : 0;
}

int
activation_offload_number(const struct activation_offload_plan *p, int64_t layer)
{
	int64_t unit = layer / p->layers, before = activation_offload_before(p, unit);

	return activation_offload_before(p, unit + 1) > before ? (int)before : -1;
}

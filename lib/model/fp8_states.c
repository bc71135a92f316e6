/* fp8_states.c - tensors of a run that belong to no parameter of its model */
#include "lib/model/fp8_states.h"
#include "lib/model/fp8.h"

#include <stdio.h>

struct param
fp8_state_param(const struct model_config *c, enum fp8_state state, int64_t columns)
{
	static const char *const names[FP8_STATES] = {
		[FP8_SCALE] = "fp8.scale", [FP8_HISTORY] = "fp8.amax_history"
	};
	struct param p = { .in_layer = names[state],
		.number = -1,
		.layer = -1,
		.expert = -1,
		.ndim = 2,
		.shape = { fp8_num_slots(c), columns } };

	snprintf(p.name, sizeof p.name, "%s", names[state]);
	return p;
}

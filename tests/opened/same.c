/* same.c - an object of this build with a backend that has a name alone */
#include "lib/base/prog.h"
#include "train/backend.h"

static const struct backend backend_toy = { .name = "toy" };

extern const struct backend_object mikoshi_backend;
const struct backend_object mikoshi_backend = {
	.build = PROG_BUILD,
	.size = sizeof(struct backend),
	.backend = &backend_toy,
};

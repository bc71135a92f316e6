/* other.c - an object of another build, whose backend nobody may touch */
#include "train/backend.h"

extern const struct backend_object mikoshi_backend;
const struct backend_object mikoshi_backend = {
	.build = "0.0.1, commit 01234567",
	.size = sizeof(struct backend),
	.backend = NULL,
};

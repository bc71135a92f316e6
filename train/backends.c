/*
 * backends.c - the registry of devices
 *
 * The only place where the build decides which devices there are; the order is that of
 * preference for "auto".
 */
#include "train/backend.h"

#include <string.h>

const struct backend *const backends[] = {
#ifdef HAVE_CUDA
	&backend_cuda,
#endif
	&backend_cpu,
	NULL,
};

/* The backend of this name. NULL with a reason, which tells one that is not built in from one
 * without a usable device, since the user's next step differs. */
static const struct backend *
named(const char *name, struct err *e)
{
	struct err why;

	for (int i = 0; backends[i]; i++) {
		if (strcmp(backends[i]->name, name) != 0)
			continue;
		if (backends[i]->available(&why))
			return backends[i];
		err_set(e, "backend '%s' cannot be used: %s", name, why.msg);
		return NULL;
	}
	err_set(e, "backend '%s' is not built in (see --version)", name);
	return NULL;
}

/* A name asks for one backend; "auto" takes what there is. The CPU is last and always available,
 * so "auto" does not fail. The result is static. */
const struct backend *
backend_choose(const char *name, struct err *e)
{
	if (strcmp(name, "auto") != 0)
		return named(name, e);
	for (int i = 0; backends[i]; i++)
		if (backends[i]->available(e))
			return backends[i];
	return NULL;
}

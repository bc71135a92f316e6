/*
 * backends.c - the registry of devices
 *
 * The only place where the build decides which devices there are. The CPU's is in the program. That
 * of GPUs is an object of its own, opened when it is asked for, so the program also runs where
 * CUDA's libraries are absent; a call through a table costs the same wherever the table lies.
 */
#include "lib/base/prog.h"
#include "lib/base/str.h"
#include "train/backend.h"

#include <dlfcn.h>
#include <string.h>

const char *const backend_names[] = {
#ifdef HAVE_CUDA
	"cuda",
#endif
	"cpu",
	NULL,
};

/* The object stays open, since its table is used until the end; opened again, it is the same. */
const struct backend *
backend_opened(const char *object, struct err *e)
{
	void *library = dlopen(object, RTLD_NOW | RTLD_LOCAL);
	const struct backend_object *o = library ? dlsym(library, BACKEND_OBJECT) : NULL;

	if (o && strcmp(o->build, prog_build()) == 0 && o->size == sizeof(struct backend))
		return o->backend;
	if (o)
		err_set(e, "%s is of another build: %s", object, o->build);
	else
		err_set(e, "%s", dlerror());
	if (library)
		(void)dlclose(library);
	return NULL;
}

const struct backend *
backend_find(const char *name, struct err *e)
{
	char object[64];

	if (strcmp(name, backend_cpu.name) == 0)
		return &backend_cpu;
	snprintf(object, sizeof object, "mikoshi-%s.so", name);
	return backend_opened(object, e);
}

/* The libraries that a device finds at run time, or the one that it misses. */
void
backend_words(struct str *text)
{
	str_adds(text, "backends:");
	for (int i = 0; backend_names[i]; i++) {
		struct err why;
		const struct backend *b = backend_find(backend_names[i], &why);
		char libraries[256];

		str_addf(text, " %s", backend_names[i]);
		if (b && b->describe)
			b->describe(libraries, sizeof libraries);
		if (!b)
			str_addf(text, " (not on this host: %s)", why.msg);
		else if (b->describe)
			str_addf(text, " (%s)", libraries);
	}
}

/* One that is not built in is told from one without libraries or a usable device, since the user's
 * next step differs. */
static const struct backend *
named(const char *name, struct err *e)
{
	const struct backend *b;
	struct err why;
	int i = 0;

	while (backend_names[i] && strcmp(backend_names[i], name) != 0)
		i++;
	if (!backend_names[i]) {
		err_set(e, "backend '%s' is not built in (see --version)", name);
		return NULL;
	}
	b = backend_find(name, &why);
	if (b && b->available(&why))
		return b;
	err_set(e, "backend '%s' cannot be used: %s", name, why.msg);
	return NULL;
}

/* A name asks for one backend; "auto" takes what there is. The CPU is last and always available,
 * so "auto" does not fail. */
const struct backend *
backend_choose(const char *name, struct err *e)
{
	if (strcmp(name, "auto") != 0)
		return named(name, e);
	for (int i = 0; backend_names[i]; i++) {
		const struct backend *b = backend_find(backend_names[i], e);

		if (b && b->available(e))
			return b;
	}
	return NULL;
}

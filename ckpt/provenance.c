/* provenance.c - where a checkpoint comes from, as lines of its state.conf */
#include "ckpt/provenance.h"
#include "lib/base/cli.h"
#include "lib/base/hash.h"

#include <stdlib.h>
#include <string.h>

void
provenance_add(struct str *state, const char *verb, const struct opt_parse *given,
    const struct provenance_sources *of)
{
	static const char key[] = "provenance_";
	struct str options = { 0 };
	char sum[17], *rest;
	int before = 0;

	for (const char *p = state->buf; *p; p += strcspn(p, "\n"), p += *p == '\n')
		before += !strncmp(p, key, sizeof key - 1);
	str_addf(state, "%s%d %s", key, before, verb);
	opt_dump(given, true, &options);
	for (char *line = options.buf ? strtok_r(options.buf, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest))
		str_addf(state, " --%s", line);
	if (of->how)
		str_addf(state, "; %s", of->how);
	for (int i = 0; i < of->count; i++) {
		const struct source *s = of->from[i];

		str_addf(state, "%s %s %s", i ? "," : ";", s->kind->name,
		    hash_text(s->kind->hash(s), sum));
		if (of->weight)
			str_addf(state, " %.10g", of->weight[i]);
	}
	str_addf(state, "; %s\n", cli_release());
	str_release(&options);
}

/* options.c - fuzz target: option files for model, layout and batch, and the configurations they
 * resolve to */
#include "lib/model/options.h"

#include <stdlib.h>
#include <string.h>

struct config {
	struct run_options run;
};

static const struct opt table[] = { RUN_OPTS(struct config, run), OPT_END };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A configuration that resolves has a memory plan and a count of steps, and its dump parses again.
 */
static void
use(const struct opt_parse *p, const struct config *cfg)
{
	struct config again = { 0 };
	struct opt_parse q;
	struct str notes = { 0 }, dump = { 0 };
	struct run_plan plan;
	struct err e;

	opt_dump(p, true, &dump);
	opt_begin(&q, table, &again);
	if (dump.len && opt_text(&q, "dump", dump.buf, false, &e) < 0)
		abort();
	opt_release(&q);
	/* With a model file the result would depend on the machine. */
	if (!cfg->run.model.path && run_resolve(p, &cfg->run, 8, 0, &plan, &notes, &e) == 0 &&
	    plan.model.num_layers < 100) {
		int coord[AX_COUNT] = { 0 };
		struct memory_plan m;

		memory_plan(&m, &plan.model, &plan.layout, &plan.shape, coord);
		memory_release(&m);
		if (batch_steps(&plan.ramp, 0, batch_end(&plan.ramp, 0, 100)) != 100)
			abort();
	}
	str_release(&dump);
	str_release(&notes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config cfg = { 0 };
	struct opt_parse p;
	struct err e;
	char *text = mem_strndup((const char *)data, size);

	opt_begin(&p, table, &cfg);
	if (opt_text(&p, "fuzz", text, false, &e) == 0)
		use(&p, &cfg);
	opt_release(&p);
	free(text);
	return 0;
}

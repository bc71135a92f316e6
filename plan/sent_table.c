/* sent_table.c - the bytes that a rank sends in a step, as a table */
#include "plan/sent_table.h"
#include "lib/model/sent.h"

void
sent_print(const struct run_plan *plan, const struct sent_options *o, FILE *f)
{
	const struct host_places where = { .ranks_per_host = o->ranks_per_host };
	struct sent t[SENT_AXES];

	sent_of(t, plan, &where);
	if (!o->json)
		fprintf(f, "axis\tbytes_inside\tbytes_between\n");
	for (int a = 0; a < SENT_AXES; a++)
		if (t[a].inside > 0 || t[a].between > 0)
			fprintf(f,
			    o->json ? "{\"axis\": \"%s\", \"bytes_inside\": %.0f, "
				      "\"bytes_between\": %.0f}\n"
				    : "%s\t%.0f\t%.0f\n",
			    sent_axis_name[a], t[a].inside, t[a].between);
}

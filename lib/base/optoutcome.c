/*
 * optoutcome.c - what became of each option of a command line, after it was parsed
 */
#include "lib/base/opt_impl.h"

/* The first error of an option tells why it cannot be used. */
static bool
wrong(const struct opt_parse *p, int place, struct opt_outcome *out)
{
	for (int i = 0; i < p->errors->count; i++) {
		const struct opt_error *x = &p->errors->item[i];

		if (x->place != place)
			continue;
		out->fate = OPT_WRONG;
		out->why = x->why ? x->why : x->text;
		out->row = x->why ? opt_foreign_find(p->foreign, x->text) : NULL;
		return true;
	}
	return false;
}

/* A row that is given twice is told where it was given last. */
static void
unread(const struct opt_parse *p, int place, struct opt_outcome *out)
{
	for (size_t i = 0; p->errors->unread && p->table[i].type != OPT_END_TYPE; i++) {
		if (p->place[i] != place || !p->errors->unread[i])
			continue;
		out->fate = OPT_UNREAD;
		out->why = p->errors->unread[i];
	}
}

struct opt_outcome
opt_outcome(const struct opt_parse *p, int place)
{
	struct opt_outcome out = { OPT_KEPT, NULL, NULL, NULL };

	if (wrong(p, place, &out))
		return out;
	for (int i = 0; i < p->met_count; i++) {
		const struct opt_met *m = &p->met[i];

		if (m->place != place)
			continue;
		out.row = m->row;
		out.to = m->to;
		out.why = m->why;
		out.fate = m->to                             ? OPT_RENAMED
		    : m->row && m->row->kind == FOREIGN_SAME ? OPT_SAME
							     : OPT_NOTHING;
	}
	if (out.fate == OPT_KEPT)
		unread(p, place, &out);
	return out;
}

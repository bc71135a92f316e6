/*
 * port.h - what becomes of the options of a launch of another program
 *
 * The rows are made of what the parser of mtrain's own command line decides, so that they cannot
 * say anything else.
 */
#ifndef TRAIN_CONFIG_PORT_H
#define TRAIN_CONFIG_PORT_H

#include "lib/base/mem.h"
#include "lib/script/script.h"

enum port_fate {
	PORT_KEPT,
	PORT_RENAMED,
	PORT_SAME,    /* without effect for its value */
	PORT_NOTHING, /* without effect */
	PORT_UNREAD,  /* read by nothing in this run */
	PORT_UNKNOWN, /* only a run, or the user, knows the value */
	PORT_REFUSED,
	PORT_FATES,
};

/* One option with its values, in the order of the launch. Strings are as people see them. */
struct port_row {
	enum port_fate fate;
	int count;
	const char **word; /* the option as given */
	int here_count;    /* 0: it is left out */
	const char **here; /* the words for mtrain */
	const char *kind;  /* of a refusal: what the option asks for; may be NULL */
	const char *why;   /* NULL: kept or renamed */
};

struct port {
	struct port_row *row;
	int rows, cap;
	int tally[PORT_FATES];
	struct str rules; /* what is wrong with the options together, a line each */
	struct mem_pool pool;
};

/* Makes the rows of a launch that was read. */
void port_make(struct port *p, const struct script *s);
void port_release(struct port *p);
/* "kept", "renamed": the name of a fate. */
const char *port_fate_name(enum port_fate f);

#endif

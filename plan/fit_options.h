/* fit_options.h - the options of mplan fit */
#ifndef PLAN_FIT_OPTIONS_H
#define PLAN_FIT_OPTIONS_H

#include "lib/base/opt.h"

struct fit_options {
	struct opt_list rows; /* beginnings of ids; none: all rows */
	bool each;
	const char *output;
	bool force;
};

#endif

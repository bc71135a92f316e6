/* hub.h - names of a model hub, which are no paths here: nothing is downloaded */
#ifndef BASE_HUB_H
#define BASE_HUB_H

#include "lib/base/err.h"

/* When path does not exist and has the form of a hub's name, OWNER/NAME: -1 with the reason, which
 * ends in what to give, such as "a directory with its config.json". Else 0. */
int hub_check(const char *path, const char *give, struct err *e);

#endif

/*
 * batch.h - what a script asks of the batch system
 */
#ifndef SCRIPT_BATCH_H
#define SCRIPT_BATCH_H

#include "lib/script/script.h"

/* Sets nodes, tasks, tasks_per_node and gpus_per_node of what the lines say. */
void batch_lines(struct script *s, const char *text);

#endif

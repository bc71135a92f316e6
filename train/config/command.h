/* command.h - the command line as a shell takes it */
#ifndef TRAIN_CONFIG_COMMAND_H
#define TRAIN_CONFIG_COMMAND_H

#include "lib/base/str.h"

/* Appends "cd DIR && WORD ...", which does the same from any directory. */
void command_text(int argc, char *const *words, struct str *out);

#endif

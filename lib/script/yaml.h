/*
 * yaml.h - the mapping MODEL_ARGS of a YAML file
 */
#ifndef SCRIPT_YAML_H
#define SCRIPT_YAML_H

struct shell;

/* Sets the options of sh->out. -1 with the line of what is no plain mapping. */
int yaml_arguments(struct shell *sh, const char *text);

#endif

/*
 * fit_print.h - mplan fit: the constants of a program from measured steps, and how far they carry
 */
#ifndef PLAN_FIT_PRINT_H
#define PLAN_FIT_PRINT_H

#include "plan/fit_options.h"

/* mplan fit over these files; p's table has HARDWARE_OPTS and the options. Returns an exit status,
 * or CLI_FAILED or CLI_USAGE with the reason. */
int fit_run(
    const struct opt_parse *p, const struct fit_options *o, int argc, char **argv, struct err *e);

#endif

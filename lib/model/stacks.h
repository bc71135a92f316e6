/*
 * stacks.h - the constants of other training programs, as option files
 *
 * A line is an option of lib/model/hardware.h and, after '#', where its value is from. They are
 * what mplan fit finds from published steps of a program, on the device that is named there.
 * Source: docs/planning.md 8.
 */
#ifndef MODEL_STACKS_H
#define MODEL_STACKS_H

/* The text of a program's options; NULL: the name is not known. */
const char *stack_text(const char *name);
/* The names, ended by NULL. */
extern const char *const stack_names[];

#endif

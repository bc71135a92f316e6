/*
 * check.c - what must hold of the files that a run has left: a program of the simulated machine
 *
 * check saved DIR PROMISED: checkpoints of these iterations (bits) and the latest one are whole.
 * check same WANT GOT: the files of a finished run are those of the undisturbed one.
 * check steps WANT GOT: so are the figures of each step.
 * check bits WANT GOT: so are all values, however they are laid out.
 * check losses WANT GOT TOLERANCE: so are the losses, up to this part of them.
 * It prints one line per problem.
 */
#include "tests/faults/saved.h"

#include <stdlib.h>
#include <string.h>

int
main(int argc, char **argv)
{
	struct str problems = { 0 };

	if (argc == 4 && !strcmp(argv[1], "saved"))
		saved_check(argv[2], strtoull(argv[3], NULL, 10), &problems);
	else if (argc == 4 && !strcmp(argv[1], "same"))
		saved_same(argv[2], argv[3], &problems);
	else if (argc == 4 && !strcmp(argv[1], "steps"))
		saved_same_steps(argv[2], argv[3], &problems);
	else if (argc == 4 && !strcmp(argv[1], "bits"))
		saved_same_bits(argv[2], argv[3], &problems);
	else if (argc == 5 && !strcmp(argv[1], "losses"))
		saved_near_losses(argv[2], argv[3], strtod(argv[4], NULL), &problems);
	else
		str_adds(&problems, "check: three arguments\n");
	if (problems.len)
		fputs(problems.buf, stdout);
	fflush(stdout);
	return problems.len != 0;
}

/*
 * preload.h - what preloaded libraries of the tests share
 */
#ifndef TESTS_PARITY_PRELOAD_H
#define TESTS_PARITY_PRELOAD_H

#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* The function of this name that the program would call without the library. */
static inline void *
next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

/* The file of this rank, before the end of MPI: the path that a variable of the environment has, a
 * point and the rank; NULL where it cannot be made. */
static inline FILE *
rank_file(const char *variable)
{
	char path[4096];
	int rank;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	snprintf(path, sizeof path, "%s.%d", getenv(variable), rank);
	return fopen(path, "w");
}

#endif

/*
 * syncs.c - a preloaded library that counts how often a rank's main thread waits for its GPU
 *
 * At the end of MPI each rank writes the number into the file SYNCS.RANK, SYNCS from the
 * environment: 0 without a GPU.
 */
#include "tests/parity/preload.h"

#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static long waits;

static int
is_runtime(struct dl_phdr_info *info, size_t size, void *name)
{
	(void)size;
	if (!strstr(info->dlpi_name, "libcudart"))
		return 0;
	*(const char **)name = info->dlpi_name;
	return 1;
}

/* CUDA's own, whose library is opened by the program, so that it is not among the next ones. */
static void *
real(const char *call)
{
	const char *name = NULL;

	dl_iterate_phdr(is_runtime, &name);
	return dlsym(dlopen(name, RTLD_LAZY | RTLD_NOLOAD), call);
}

static void
count(void)
{
	waits += syscall(SYS_gettid) == getpid();
}

int
cudaStreamSynchronize(void *stream)
{
	static int (*wait)(void *);

	if (!wait)
		*(void **)&wait = real("cudaStreamSynchronize");
	count();
	return wait(stream);
}

int
cudaEventSynchronize(void *event)
{
	static int (*wait)(void *);

	if (!wait)
		*(void **)&wait = real("cudaEventSynchronize");
	count();
	return wait(event);
}

int
cudaDeviceSynchronize(void)
{
	static int (*wait)(void);

	if (!wait)
		*(void **)&wait = real("cudaDeviceSynchronize");
	count();
	return wait();
}

int
MPI_Finalize(void)
{
	FILE *f = rank_file("SYNCS");
	int (*end)(void);

	*(void **)&end = next("MPI_Finalize");
	if (f) {
		fprintf(f, "%ld\n", waits);
		fclose(f);
	}
	return end();
}

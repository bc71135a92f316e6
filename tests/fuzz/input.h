/*
 * input.h - inputs of fuzz targets as files, without a disk
 *
 * A target runs thousands of times per second, so its file is in memory and is reused, and its
 * directory is in memory if the system has such a file system. Huge pages are turned off, since
 * clearing one takes longer than most inputs.
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include "lib/base/io.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { INPUT_DIR = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	bool made;
	int fd;
	char path[32]; /* of the file in memory; valid in this process */
};

/* Turns off huge pages for the whole process. */
static inline void
input_small_pages(void)
{
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

/* Writes bytes to the file, which the first call creates. f is static and starts as zeroes. */
static inline const char *
input_file(struct input *f, const void *bytes, size_t size)
{
	if (!f->made) {
		f->fd = memfd_create("input", MFD_CLOEXEC);
		snprintf(f->path, sizeof f->path, "/proc/self/fd/%d", f->fd);
		input_small_pages();
		f->made = true;
	}
	if (f->fd < 0 || ftruncate(f->fd, 0) < 0 || lseek(f->fd, 0, SEEK_SET) < 0 ||
	    io_write_all(f->fd, bytes, size) < 0)
		abort();
	return f->path;
}

/* Makes an empty directory; io_remove_tree takes it away. */
static inline void
input_dir(char dir[INPUT_DIR])
{
	strcpy(dir, "/dev/shm/mikoshi-fuzz-XXXXXX");
	if (mkdtemp(dir))
		return;
	strcpy(dir, "/tmp/mikoshi-fuzz-XXXXXX");
	if (!mkdtemp(dir))
		abort();
}

#endif

/* driver.c - runs a fuzz target over the files of a corpus directory, so that the corpus is an
 * ordinary test */
#include "lib/base/io.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
main(int argc, char **argv)
{
	DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *de;
	int count = 0;

	if (!d) {
		fprintf(stderr, "usage: %s CORPUS_DIRECTORY\n", argv[0]);
		return 2;
	}
	while ((de = readdir(d))) {
		char path[4096], *bytes;
		size_t len;
		struct err e;

		if (de->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", argv[1], de->d_name);
		if (io_read_file(path, 0, &bytes, &len, &e) < 0) {
			fprintf(stderr, "%s\n", e.msg);
			return 1;
		}
		LLVMFuzzerTestOneInput((const uint8_t *)bytes, len);
		free(bytes);
		count++;
	}
	closedir(d);
	printf("%d inputs\n", count);
	return count == 0;
}

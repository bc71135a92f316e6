/*
 * header.c make FILE N - writes a safetensors file of N tensors of one byte each, with unsorted
 * names
 * header.c open FILE - opens it as every tool does
 */
#include "lib/base/outfile.h"
#include "lib/base/str.h"
#include "lib/ckpt/safetensors.h"

#include <stdlib.h>
#include <string.h>

static int
make(const char *path, long long count, struct err *e)
{
	struct str file = { 0 };
	uint64_t bytes;

	str_add(&file, "\0\0\0\0\0\0\0\0", 8);
	for (long long i = 0; i < count; i++)
		str_addf(&file,
		    "%c\"t%lld\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%lld,%lld]}",
		    i ? ',' : '{', i * 7919 % count, i, i + 1);
	str_addc(&file, '}');
	bytes = file.len - 8;
	memcpy(file.buf, &bytes, sizeof bytes);
	for (long long i = 0; i < count; i++)
		str_addc(&file, 'x');
	return outfile_write(path, file.buf, file.len, e);
}

int
main(int argc, char **argv)
{
	struct err e = { "usage: header make FILE N | open FILE" };
	int rc = -1;

	if (argc == 4 && !strcmp(argv[1], "make")) {
		rc = make(argv[2], atoll(argv[3]), &e);
	} else if (argc == 3 && !strcmp(argv[1], "open")) {
		struct safetensors *s = safetensors_open(argv[2], &e);

		rc = s ? 0 : -1;
		safetensors_close(s);
	}
	if (rc < 0)
		fprintf(stderr, "header: %s\n", e.msg);
	return rc < 0;
}

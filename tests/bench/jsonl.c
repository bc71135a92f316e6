/*
 * jsonl.c - the cost of mtok's input: `jsonl FILE [KEY]` reads the file once as mtok does, extracts
 * the member from every line and prints user and system nanoseconds per byte, and the number of
 * lines
 */
#include "tok/input.h"
#include "tok/jsonl.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static double
seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

int
main(int argc, char **argv)
{
	struct input_file file = { .name = argc > 1 ? argv[1] : "-", .end = -1 };
	struct input *in = input_new(&(struct input_list){ &file, 1 }, INT64_MAX, -1);
	const char *key = argc > 2 ? argv[2] : "text";
	struct jsonl *j = jsonl_new(&(struct opt_list){ 1, &key }, INT64_MAX);
	struct batch b = { 0 };
	struct rusage used;
	struct err e;
	long long lines = 0, good = 0, bytes = 0;
	int rc;

	while ((rc = input_next(in, 512 * 1024, &b, &e)) > 0) {
		const char *line;
		size_t pos = 0, len;

		bytes += (long long)b.text.len;
		for (; batch_line(&b, &pos, &line, &len); lines++)
			good += jsonl_parse(j, line, len) == JSONL_OK;
	}
	if (rc < 0 || bytes == 0 || getrusage(RUSAGE_SELF, &used) < 0) {
		fprintf(stderr, "%s\n", rc < 0 ? e.msg : "no input");
		return EXIT_FAILURE;
	}
	printf("%.3f %.3f %lld %lld\n", seconds(used.ru_utime) * 1e9 / (double)bytes,
	    seconds(used.ru_stime) * 1e9 / (double)bytes, lines, good);
	jsonl_free(j);
	input_free(in);
	str_release(&b.text);
	return 0;
}

/* paths.c - fuzz target: any bytes as a file of corpora, as JSON lists per split, and as --split;
 * an accepted list is valid */
#include "lib/data/samples.h"
#include "tests/fuzz/input.h"

#include <math.h>

/* Traps on an invalid list. */
static void
check(const struct path_list *l)
{
	for (int i = 0; i < l->count; i++)
		if (!*l->prefix[i] || (l->weight && !(isfinite(l->weight[i]) && l->weight[i] > 0)))
			__builtin_trap();
}

/* Reads the file in one way. */
static void
read_as(const struct path_options *o)
{
	struct data_paths p;
	struct err e;

	if (data_paths_read(o, &p, &e) < 0)
		return;
	for (int i = 0; i < SPLIT_COUNT; i++)
		check(&p.list[i]);
	data_paths_release(&p);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct input file;
	const char *path = input_file(&file, data, size);
	char *text = malloc(size + 1);
	struct split_matrix m;

	if (!text)
		abort();
	read_as(&(struct path_options){ .data_args_path = path });
	read_as(&(struct path_options){ .per_split_data_args_path = path });
	for (size_t i = 0; i < size; i++)
		text[i] = (char)data[i];
	text[size] = '\0';
	if (split_parse(text, &m, NULL) == 0)
		for (int i = 0; i < SPLIT_COUNT; i++) {
			int64_t begin, end;

			split_range(&m, (enum split)i, 1000003, &begin, &end);
			if (begin < 0 || begin > end || end > 1000003)
				__builtin_trap();
		}
	free(text);
	return 0;
}

/* megatron_dir.c - finding a checkpoint of Megatron-LM by its tracker */
#include "lib/base/io.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/megatron_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
megatron_find_dir(const char *path, const char *entry, char out[IO_PATH])
{
	char name[CKPT_PATH_BYTES], word[32], *text, *end;
	long long iteration;
	struct err e;
	bool found;

	if (strlen(path) > 1000)
		return false;
	snprintf(out, IO_PATH, "%s", path);
	if (ckpt_has_entry(out, entry, ""))
		return true;
	if (!ckpt_join(name, path, CKPT_TRACKER) || !io_exists(name) ||
	    io_read_regular(name, 4096, &text, NULL, &e) < 0)
		return false;
	found = sscanf(text, " %31s", word) == 1;
	free(text);
	if (!found)
		return false;
	iteration = strtoll(word, &end, 10);
	if (!strcmp(word, "release"))
		snprintf(out, IO_PATH, "%.4000s/release", path);
	else if (!*end && iteration >= 0)
		ckpt_iter_dir(path, iteration, out);
	else
		return false;
	return ckpt_has_entry(out, entry, "");
}

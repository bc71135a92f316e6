/* megatron_dir.c - finding a checkpoint of Megatron-LM by its tracker */
#include "lib/base/io.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/megatron_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The word of a tracker, without the blanks around it; false when there is none. */
static bool
read_word(const char *path, char word[32])
{
	char name[CKPT_PATH_BYTES], *text;
	struct err e;
	bool found;

	if (!ckpt_join(name, path, CKPT_TRACKER) || !io_exists(name) ||
	    io_read_regular(name, 4096, &text, NULL, &e) < 0)
		return false;
	found = sscanf(text, " %31s", word) == 1;
	free(text);
	return found;
}

bool
megatron_find_dir(const char *path, const char *entry, char out[1024])
{
	char word[32], *end;
	long long iteration;

	if (strlen(path) > 1000)
		return false;
	snprintf(out, 1024, "%s", path);
	if (ckpt_has_entry(out, entry, ""))
		return true;
	if (!read_word(path, word))
		return false;
	iteration = strtoll(word, &end, 10);
	if (!strcmp(word, "release"))
		snprintf(out, 1024, "%.1000s/release", path);
	else if (!*end && iteration >= 0)
		ckpt_iter_dir(path, iteration, out);
	else
		return false;
	return ckpt_has_entry(out, entry, "");
}

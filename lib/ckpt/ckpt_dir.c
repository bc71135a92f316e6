/*
 * ckpt_dir.c - finds the iteration in a directory, or says what the directory holds instead
 *
 * SAVE holds iter_* directories and a tracker that names the newest.
 */
#include "lib/base/io.h"
#include "lib/ckpt/ckpt_impl.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Our own names always fit, as directories are shorter than IO_PATH bytes. */
bool
ckpt_join(char out[CKPT_PATH_BYTES], const char *dir, const char *name)
{
	return snprintf(out, CKPT_PATH_BYTES, "%s/%s", dir, name) < CKPT_PATH_BYTES;
}

bool
ckpt_has_entry(const char *dir, const char *prefix, const char *suffix)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	bool found = false;

	while (d && !found && (de = readdir(d))) {
		size_t n = strlen(de->d_name), p = strlen(prefix), s = strlen(suffix);

		found = n >= p + s && !strncmp(de->d_name, prefix, p) &&
		    !strcmp(de->d_name + n - s, suffix);
	}
	if (d)
		closedir(d);
	return found;
}

/* What a directory without a manifest is, by a name in it; the first that fits. */
static const struct {
	const char *prefix, *suffix, *what;
} strangers[] = {
	{ "mp_rank_", "_model_states.pt",
	    "is a checkpoint of DeepSpeed (mp_rank_*_model_states.pt), which is not read" },
	{ "layer_", "-model_states.pt",
	    "is a checkpoint of DeepSpeed by layers (layer_*-model_states.pt), which is not read" },
	{ "zero_pp_rank_", "_optim_states.pt",
	    "is a checkpoint of DeepSpeed's ZeRO (zero_pp_rank_*_optim_states.pt), which is not "
	    "read" },
	{ "bf16_zero_pp_rank_", "_optim_states.pt",
	    "is a checkpoint of DeepSpeed's ZeRO (bf16_zero_pp_rank_*_optim_states.pt), which is "
	    "not read" },
	{ "global_step", "", "holds checkpoints of DeepSpeed (global_step*), which are not read" },
	{ "mp_rank_", "", "is a Megatron-LM checkpoint: mckpt import reads it" },
	/* written last */
	{ "metadata.json", "", "is a Megatron-LM checkpoint: mckpt import reads it" },
	{ "__", ".distcp",
	    "lacks .metadata or metadata.json: an incomplete checkpoint of Megatron-LM" },
	{ "config.json", "", "is a Hugging Face model: mckpt import reads it" },
	{ "model", ".safetensors", "is a Hugging Face model: mckpt import reads it" },
	{ "pytorch_model", ".bin", "is a Hugging Face model: mckpt import reads it" },
	{ "pieces-", ".safetensors", "has no manifest.tsv: an incomplete checkpoint" },
	{ "iter_", "",
	    "has iter_* directories but no latest_checkpointed_iteration.txt: name one of them" },
};

/* A wrong path is the usual mistake, and the most useful message names what was found.
 * Returns -1. */
static int
refuse(const char *dir, struct err *e)
{
	for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
		if (ckpt_has_entry(dir, strangers[i].prefix, strangers[i].suffix))
			return err_set(e, "'%s' %s", dir, strangers[i].what);
	return err_set(e, "no checkpoint in '%s'", dir);
}

/* Any such name counts, whether or not it is a checkpoint. */
bool
ckpt_has_iterations(const char *save)
{
	return ckpt_has_entry(save, "iter_", "");
}

/* Megatron-LM's form: at least seven digits. */
void
ckpt_iter_dir(const char *save, int64_t iteration, char out[IO_PATH])
{
	if (snprintf(out, IO_PATH, "%s/iter_%07lld", save, (long long)iteration) >= IO_PATH)
		out[0] = '\0';
}

/* 18 digits always fit 63 bits. */
int64_t
ckpt_name_iteration(const char *name)
{
	const char *digits = name + 5;

	if (strncmp(name, "iter_", 5) || !*digits || strlen(digits) > 18 ||
	    digits[strspn(digits, "0123456789")])
		return -1;
	return strtoll(digits, NULL, 10);
}

/* Order of qsort: ascending. */
static int
compare_numbers(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Other names are ignored: users keep files of their own next to checkpoints. *missing, with -1:
 * the directory is. */
static int
list_iterations(const char *save, int64_t **out, bool *missing, struct err *e)
{
	DIR *d = opendir(save);
	struct dirent *de;
	int n = 0, cap = 0, failed;

	*out = NULL;
	*missing = !d && (errno == ENOENT || errno == ENOTDIR);
	if (!d)
		return err_sys(e, "open directory", save);
	while (errno = 0, (de = readdir(d))) {
		int64_t iteration = ckpt_name_iteration(de->d_name);

		if (iteration < 0)
			continue;
		if (n == cap) {
			cap = cap ? 2 * cap : 16;
			*out = mem_realloc(*out, (size_t)cap, sizeof **out);
		}
		(*out)[n++] = iteration;
	}
	failed = errno;
	closedir(d);
	errno = failed;
	if (failed)
		return err_sys(e, "read directory", save);
	if (n)
		qsort(*out, (size_t)n, sizeof **out, compare_numbers);
	return n;
}

int
ckpt_iterations(const char *save, int64_t **out, struct err *e)
{
	bool missing;
	int n = list_iterations(save, out, &missing, e);

	return n ? n : err_set(e, "no iter_* directory in '%s'", save);
}

/* A file that cannot be looked at is not a missing one. It is small; above 4096 bytes it is
 * refused. Blanks may surround the number, of which 18 digits always fit 63 bits. */
int
ckpt_tracker(const char *save, int64_t *iteration, struct err *e)
{
	char path[CKPT_PATH_BYTES], *text, *word;
	struct stat st;
	size_t n;
	int rc = 1;

	if (!ckpt_join(path, save, CKPT_TRACKER))
		return err_set(e, "path too long: '%.60s...'", save);
	if (stat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, "look at", path);
	if (io_read_regular(path, 4096, &text, NULL, e) < 0)
		return -1;
	word = text + strspn(text, " \t\r\n");
	n = strlen(word);
	while (n > 0 && strchr(" \t\r\n", word[n - 1]))
		word[--n] = '\0';
	if (!strcmp(word, "release"))
		rc = err_at(e, path, 0, "names a release of Megatron-LM: mckpt import reads it");
	else if (n == 0 || n > 18 || strspn(word, "0123456789") != n)
		rc = err_at(e, path, 0, "not the number of an iteration: '%.40s'", word);
	else
		*iteration = strtoll(word, NULL, 10);
	free(text);
	return rc;
}

/* True when dir holds a manifest. */
static bool
has_manifest(const char *dir)
{
	char path[CKPT_PATH_BYTES];

	return ckpt_join(path, dir, "manifest.tsv") && io_exists(path);
}

/* The message names what was found instead of a checkpoint. */
int
ckpt_find_dir(const char *dir, char out[IO_PATH], struct err *e)
{
	struct stat st;
	int64_t iteration;
	int rc;

	if (stat(dir, &st) < 0)
		return err_sys(e, "open", dir);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, "cannot open '%s': not a directory", dir);
	if (strlen(dir) >= IO_PATH)
		return err_set(e, "path too long: '%.60s...'", dir);
	snprintf(out, IO_PATH, "%s", dir);
	if (has_manifest(dir))
		return 0;
	rc = ckpt_tracker(dir, &iteration, e);
	if (rc <= 0)
		return rc < 0 ? rc : refuse(dir, e);
	ckpt_iter_dir(dir, iteration, out);
	if (!io_is_dir(out))
		return err_set(
		    e, "'%s' is missing, though latest_checkpointed_iteration.txt names it", out);
	return has_manifest(out) ? 0 : refuse(out, e);
}

/* The directory need not be there, nor hold a checkpoint. */
static int64_t
split_dir(const char *dir, char save[IO_PATH])
{
	char path[IO_PATH], *slash;
	size_t n = strlen(dir);
	int64_t iteration;

	while (n > 1 && dir[n - 1] == '/')
		n--;
	snprintf(path, sizeof path, "%.*s", (int)n, dir);
	slash = strrchr(path, '/');
	iteration = ckpt_name_iteration(slash ? slash + 1 : path);
	if (iteration < 0) {
		snprintf(save, IO_PATH, "%s", path);
		return ckpt_tracker(dir, &iteration, NULL) == 1 ? iteration : -1;
	}
	if (slash)
		*slash = '\0';
	snprintf(save, IO_PATH, "%s", !slash ? "." : slash == path ? "/" : path);
	return iteration;
}

/* From the newest down, the first that opens. */
bool
ckpt_older(const char *dir, char out[IO_PATH])
{
	char save[IO_PATH];
	int64_t before = split_dir(dir, save), *iteration;
	int n = before < 0 ? 0 : ckpt_iterations(save, &iteration, NULL);
	bool found = false;

	for (int i = n - 1; i >= 0 && !found; i--) {
		struct ckpt *c = NULL;

		ckpt_iter_dir(save, iteration[i], out);
		if (iteration[i] < before)
			c = ckpt_open(out, NULL);
		found = c != NULL;
		ckpt_close(c);
	}
	if (before >= 0)
		free(iteration);
	return found;
}

/* A save renames a complete directory, so a highest one that does not open came from elsewhere,
 * perhaps incomplete; earlier ones are not tried then. Without a manifest it is no checkpoint. */
int
ckpt_highest(const char *save, char out[IO_PATH], struct err *e)
{
	char path[CKPT_PATH_BYTES];
	int64_t *iteration;
	struct ckpt *c;
	bool missing;
	int n = list_iterations(save, &iteration, &missing, e);

	if (n > 0)
		ckpt_iter_dir(save, iteration[n - 1], out);
	free(iteration);
	if (n <= 0)
		return missing ? 0 : n;
	n = ckpt_join(path, out, "manifest.tsv") ? io_there(path, e) : 0;
	if (n <= 0)
		return n;
	c = ckpt_open(out, e);
	ckpt_close(c);
	return c ? 1 : -1;
}

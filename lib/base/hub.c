/* hub.c - names of a model hub, which are no paths here, and what its tools leave on disk */
#include "lib/base/hub.h"
#include "lib/base/str.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* One slash between two words of letters, digits and "-_.". */
static bool
has_form(const char *text)
{
	static const char words[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t owner = strspn(text, words), name;

	if (owner == 0 || *text == '.' || text[owner] != '/')
		return false;
	name = strspn(text + owner + 1, words);
	return name > 0 && text[owner + 1 + name] == '\0';
}

int
hub_check(const char *path, const char *give, struct err *e)
{
	if (io_exists(path) || !has_form(path))
		return 0;
	return err_set(e,
	    "cannot open '%s': no such file or directory; nothing is downloaded from a hub: give "
	    "%s",
	    path, give);
}

/* path/name; false when it does not fit. */
static bool
join(char out[IO_PATH], const char *path, const char *name)
{
	return snprintf(out, IO_PATH, "%s/%s", path, name) < IO_PATH;
}

/* The commit that refs/main names; false when it names none that is here. */
static bool
main_snapshot(const char *root, char out[IO_PATH])
{
	char path[IO_PATH], *text = NULL;
	size_t len;
	bool found = false;

	if (!join(path, root, "refs/main") || io_read_regular(path, 200, &text, &len, NULL) < 0)
		return false;
	text[strcspn(text, "\r\n")] = '\0';
	if (io_is_file_name(text) && snprintf(path, sizeof path, "snapshots/%s", text) > 0)
		found = join(out, root, path) && io_is_dir(out);
	free(text);
	return found;
}

/* The names of the snapshots, and their number; the first is in out. */
static int
list_snapshots(const char *root, char out[IO_PATH], struct str *names)
{
	char path[IO_PATH];
	struct dirent *de;
	DIR *d = join(path, root, "snapshots") ? opendir(path) : NULL;
	int n = 0;

	while (d && (de = readdir(d))) {
		char entry[IO_PATH];

		if (*de->d_name == '.' || !join(entry, path, de->d_name) || !io_is_dir(entry))
			continue;
		if (n++ == 0)
			snprintf(out, IO_PATH, "%s", entry);
		str_addf(names, "%s%s", n > 1 ? ", " : "", de->d_name);
	}
	if (d)
		closedir(d);
	return n;
}

int
hub_snapshot(const char *path, char out[IO_PATH], struct err *e)
{
	char part[IO_PATH];
	struct str names = { 0 };
	int n;

	if (!join(part, path, "snapshots") || !io_is_dir(part) ||
	    !((join(part, path, "blobs") && io_is_dir(part)) ||
		(join(part, path, "refs") && io_is_dir(part))))
		return snprintf(out, IO_PATH, "%s", path) < IO_PATH
		    ? 0
		    : err_set(e, "path too long: '%.60s...'", path);
	if (main_snapshot(path, out))
		return 0;
	n = list_snapshots(path, out, &names);
	if (n == 0)
		err_at(e, path, 0, "is the root of a hub's cache without a snapshot");
	else if (n > 1)
		err_at(e, path, 0,
		    "is the root of a hub's cache, whose refs/main names none of its snapshots; "
		    "give one: %.200s",
		    names.buf);
	str_release(&names);
	return n == 1 ? 0 : -1;
}

int
hub_check_pointer(const char *path, struct err *e)
{
	static const char begins[] = "version https://git-lfs.github.com/spec/v1";
	struct stat st;
	char *text = NULL, *size;
	size_t len;
	int rc = 0;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > 1000 ||
	    io_read_regular(path, 1000, &text, &len, NULL) < 0)
		return 0;
	if (!strncmp(text, begins, sizeof begins - 1)) {
		size = strstr(text, "\nsize ");
		rc = err_at(e, path, 0,
		    "is a Git LFS pointer to a file of %lld bytes, not that file: git lfs pull "
		    "fetches it",
		    size ? strtoll(size + 6, NULL, 10) : 0);
	}
	free(text);
	return rc;
}

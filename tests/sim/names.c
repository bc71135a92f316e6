/* names.c - calls that take paths: what they lead to, and how names come and go */
#include "lib/base/mem.h"
#include "tests/sim/names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char memory_root[] = "/dev/shm";

enum { PATH_SIZE = 512 };

/* Appends the parts of a path to an absolute one of *n characters; what is too long is cut off. */
static void
append(char out[PATH_SIZE], size_t *n, const char *path)
{
	for (size_t len; *path; path += len) {
		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len == 2 && !strncmp(path, "..", 2)) {
			*n = *n ? (size_t)(strrchr(out, '/') - out) : 0;
		} else if (len && (len > 1 || *path != '.') && *n + 2 < PATH_SIZE) {
			size_t fits = PATH_SIZE - *n - 2;

			out[*n] = '/';
			memcpy(out + *n + 1, path, len < fits ? len : fits);
			*n += 1 + (len < fits ? len : fits);
		}
		out[*n] = '\0';
	}
}

/* Writes the absolute form. */
static void
absolute(const char *path, char out[PATH_SIZE])
{
	size_t n = 0;

	out[0] = '\0';
	if (*path != '/')
		append(out, &n, sim.current->process->cwd);
	append(out, &n, path);
}

/* The root that a path is below, and the path from there. */
static struct node *
root_of(const char **path)
{
	size_t n = sizeof memory_root - 1;

	if (strncmp(*path, memory_root, n) || ((*path)[n] && (*path)[n] != '/'))
		return sim.disk;
	*path += n;
	return sim.memory[sim.current->process->host];
}

void
place_find(struct place *p, const char *path)
{
	const char *at = p->path;
	struct node *n;

	*p = (struct place){ .err = ENOENT };
	if (strlen(path) >= sizeof p->path) {
		p->err = ENAMETOOLONG;
		return;
	}
	absolute(path, p->path);
	n = root_of(&at);
	p->node = n;
	while (*at) {
		size_t len = strcspn(++at, "/");

		p->dir = n;
		p->node = NULL;
		if (!n || !n->dir || len >= NAME_SIZE) {
			p->err = !n ? ENOENT : !n->dir ? ENOTDIR : ENAMETOOLONG;
			p->dir = NULL;
			return;
		}
		memcpy(p->name, at, len);
		p->name[len] = '\0';
		p->node = n = names_find(&n->names, p->name);
		at += len;
	}
}

/* --- looking ---------------------------------------------------------------------------------- */

static void
describe(const struct node *n, struct stat *st)
{
	*st = (struct stat){ .st_dev = 1,
		.st_ino = (ino_t)n->number,
		.st_mode = n->dir ? S_IFDIR | 0755 : S_IFREG | 0644,
		.st_nlink = (nlink_t)n->links,
		.st_size = (off_t)n->len,
		.st_blksize = 4096,
		.st_mtim = { n->modified / SECOND, n->modified % SECOND } };
}

int
sim_stat(const char *path, struct stat *st)
{
	int err = call_begin(CALL_LOOK, path, 0);
	struct place p;

	if (err)
		return fail(err);
	place_find(&p, path);
	if (!p.node)
		return fail(p.dir ? ENOENT : p.err);
	describe(p.node, st);
	return 0;
}

/* There are no links. */
int
sim_lstat(const char *path, struct stat *st)
{
	return sim_stat(path, st);
}

int
sim_fstat(int fd, struct stat *st)
{
	struct file *f = file_of(fd);
	int err = call_begin(CALL_LOOK, f ? f->path : NULL, fd);

	if (err || !f)
		return fail(err ? err : EBADF);
	*st = (struct stat){ .st_mode = S_IFIFO | 0644 };
	if (f->node)
		describe(f->node, st);
	return 0;
}

int
sim_access(const char *path, int mode)
{
	struct stat st;

	(void)mode;
	return sim_stat(path, &st);
}

int
sim_chmod(const char *path, mode_t mode)
{
	struct stat st;

	(void)mode;
	return sim_stat(path, &st);
}

/* A kernel that does not have it. */
int
sim_statx(int dir, const char *path, int flags, unsigned mask, struct statx *out)
{
	(void)dir;
	(void)path;
	(void)flags;
	(void)mask;
	(void)out;
	return fail(ENOSYS);
}

/* No file has a name that a pattern finds. */
int
sim_glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *out)
{
	(void)pattern;
	(void)flags;
	(void)failed;
	*out = (glob_t){ 0 };
	return GLOB_NOMATCH;
}

void
sim_globfree(glob_t *g)
{
	(void)g;
}

char *
sim_realpath(const char *path, char *out)
{
	struct place p;
	int err = call_begin(CALL_LOOK, path, 0);

	place_find(&p, path);
	if (err || !p.node) {
		errno = err ? err : p.err;
		return NULL;
	}
	return out ? strcpy(out, p.path) : mem_strdup(p.path);
}

ssize_t
sim_readlink(const char *path, char *to, size_t n)
{
	ssize_t rc = proc_link(path, to, n);

	return rc < 0 ? fail(EINVAL) : rc;
}

/* --- names ------------------------------------------------------------------------------------ */

int
sim_mkdir(const char *path, mode_t mode)
{
	int err = call_begin(CALL_MKDIR, path, 0);
	struct place p;

	(void)mode;
	place_find(&p, path);
	if (err || !p.dir || p.node)
		return fail(err ? err : p.node ? EEXIST : p.err);
	node_name(p.dir, p.name, node_new(true), disk_call());
	return 0;
}

static int
remove_name(const struct place *p)
{
	if (!p->node || !p->dir)
		return fail(p->dir ? ENOENT : p->err);
	if (p->node->dir && p->node->names.count)
		return fail(ENOTEMPTY);
	node_name(p->dir, p->name, NULL, disk_call());
	return 0;
}

int
sim_unlink(const char *path)
{
	int err = call_begin(CALL_UNLINK, path, 0);
	struct place p;

	place_find(&p, path);
	if (!err && p.node && p.node->dir)
		err = EISDIR;
	return err ? fail(err) : remove_name(&p);
}

int
sim_remove(const char *path)
{
	int err = call_begin(CALL_UNLINK, path, 1);
	struct place p;

	place_find(&p, path);
	return err ? fail(err) : remove_name(&p);
}

int
sim_link(const char *from, const char *to)
{
	int err = call_begin(CALL_LINK, to, 0);
	struct place a, b;

	place_find(&a, from);
	place_find(&b, to);
	if (err || !a.node || !b.dir || b.node)
		return fail(err ? err : b.node ? EEXIST : ENOENT);
	node_name(b.dir, b.name, a.node, disk_call());
	return 0;
}

static int
move(const char *from, const char *to, unsigned flags)
{
	int err = call_begin(CALL_RENAME, to, flags);
	struct place a, b;
	long number = disk_call();

	place_find(&a, from);
	place_find(&b, to);
	if (err || !a.node || !a.dir || !b.dir)
		return fail(err ? err : !a.node ? (a.dir ? ENOENT : a.err) : b.err);
	if (flags & RENAME_EXCHANGE && !b.node)
		return fail(ENOENT);
	if (flags & RENAME_NOREPLACE && b.node)
		return fail(EEXIST);
	if (a.node == b.node)
		return 0;
	if (!(flags & RENAME_EXCHANGE) && b.node) {
		if (b.node->dir != a.node->dir)
			return fail(b.node->dir ? EISDIR : ENOTDIR);
		if (b.node->dir && b.node->names.count)
			return fail(ENOTEMPTY);
	}
	node_name(b.dir, b.name, a.node, number);
	node_name(a.dir, a.name, flags & RENAME_EXCHANGE ? b.node : NULL, number);
	return 0;
}

int
sim_rename(const char *from, const char *to)
{
	return move(from, to, 0);
}

int
sim_renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
	(void)a;
	(void)b;
	return move(from, to, flags);
}

int
sim_mkstemp(char *path)
{
	char *x = path + strlen(path) - 6;
	int fd;

	do {
		for (int i = 0; i < 6; i++)
			x[i] = (char)('a' + draw(6)); /* spots leave these letters out */
		fd = sim_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	} while (fd < 0 && errno == EEXIST);
	return fd;
}

/* --- lists ------------------------------------------------------------------------------------ */

/* The names as they were when it was opened, in an order that is drawn. */
struct listing {
	struct dirent entry;
	char (*name)[NAME_SIZE];
	size_t count, at;
};

DIR *
sim_opendir(const char *path)
{
	int err = call_begin(CALL_LIST, path, 0);
	struct listing *l;
	struct place p;

	place_find(&p, path);
	if (err || !p.node || !p.node->dir) {
		errno = err ? err : !p.node ? p.err : ENOTDIR;
		return NULL;
	}
	l = mem_zalloc(1, sizeof *l);
	l->name = mem_zalloc(p.node->names.count + 2, NAME_SIZE);
	strcpy(l->name[l->count++], ".");
	strcpy(l->name[l->count++], "..");
	for (size_t i = 0; i < p.node->names.count; i++) {
		size_t other = draw(l->count + 1);

		memcpy(l->name[l->count], l->name[other], NAME_SIZE);
		strcpy(l->name[other], p.node->names.entry[i].name);
		l->count++;
	}
	return (DIR *)l;
}

struct dirent *
sim_readdir(DIR *d)
{
	struct listing *l = (struct listing *)d;

	if (l->at == l->count)
		return NULL;
	strcpy(l->entry.d_name, l->name[l->at++]);
	l->entry.d_type = DT_UNKNOWN;
	return &l->entry;
}

int
sim_closedir(DIR *d)
{
	struct listing *l = (struct listing *)d;

	free(l->name);
	free(l);
	return 0;
}

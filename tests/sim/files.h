/* files.h - open files, and the calls that calls.txt renames and other files here need */
#ifndef SIM_FILES_H
#define SIM_FILES_H

#include "tests/sim/disk.h"
#include "tests/sim/world.h"

#include <sys/types.h>

enum file_kind { FILE_NODE, FILE_OUTPUT, FILE_SOCKET, FILE_NULL, FILE_EVENT, FILE_SIGNALS };

struct file {
	enum file_kind kind;
	int flags;
	int64_t at;
	struct node *node;
	struct str *out; /* FILE_OUTPUT; NULL: thrown away */
	struct socket *socket;
	uint64_t signals; /* FILE_SIGNALS: as bits */
	char path[512];
};

/* Standard input, output and error of a process. */
void files_begin(struct process *p);
/* Closes all; frees what only open files kept. */
void files_end(struct process *p);
/* A descriptor for it, or -1 with EMFILE. */
int file_add(struct file *f);
/* NULL with EBADF. */
struct file *file_of(int fd);

int sim_open(const char *path, int flags, ...);
int sim_close(int fd);
ssize_t sim_read(int fd, void *to, size_t n);
ssize_t sim_write(int fd, const void *from, size_t n);
off_t sim_lseek(int fd, off_t at, int whence);
void sim_exit(int status) __attribute__((noreturn));
void sim__exit(int status) __attribute__((noreturn));

/* poll.c: events and signals */
ssize_t poll_read(struct file *f, void *to, size_t n);
ssize_t poll_write(struct file *f, size_t n);

/* proc.c: a file of /proc, or NULL. */
struct node *proc_file(const char *path);
/* A link of /proc; -1: none. */
ssize_t proc_link(const char *path, char *to, size_t n);

#endif

/* streams.c - stdio over simulated descriptors */
#include "tests/sim/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

/* What the product knows as stdin, stdout and stderr: those of the process that runs. */
FILE *sim_stdout, *sim_stderr, *sim_stdin;

void
streams_use(struct process *p)
{
	sim_stdout = p->out;
	sim_stderr = p->err;
	sim_stdin = p->in;
}

static ssize_t
stream_read(void *cookie, char *to, size_t n)
{
	return sim_read((int)(intptr_t)cookie, to, n);
}

/* Goes on after a write that is cut short, as the C library's own streams do; less than all tells
 * of a failure. */
static ssize_t
stream_write(void *cookie, const char *from, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t w = sim_write((int)(intptr_t)cookie, from + done, n - done);

		if (w <= 0)
			break;
		done += (size_t)w;
	}
	return (ssize_t)done;
}

static int
stream_seek(void *cookie, off64_t *at, int whence)
{
	off_t to = sim_lseek((int)(intptr_t)cookie, *at, whence);

	if (to < 0)
		return -1;
	*at = to;
	return 0;
}

static int
stream_close(void *cookie)
{
	return sim_close((int)(intptr_t)cookie);
}

/* The modes that fopencookie knows. */
static void
plain_mode(const char *mode, char out[4])
{
	bool plus = strchr(mode, '+') != NULL;

	snprintf(out, 4, "%c%s", mode[0], plus ? "+" : "");
}

static FILE *
stream_add(struct process *p, int fd, const char *mode)
{
	const cookie_io_functions_t functions = { stream_read, stream_write, stream_seek,
		stream_close };
	char plain[4];
	FILE *f;

	plain_mode(mode, plain);
	f = fopencookie((void *)(intptr_t)fd, plain, functions);
	for (int i = 0; f && i < STREAMS; i++)
		if (!p->stream[i].f) {
			p->stream[i].f = f;
			p->stream[i].fd = fd;
			return f;
		}
	errno = EMFILE;
	return NULL;
}

void
streams_begin(struct process *p)
{
	p->in = stream_add(p, 0, "r");
	p->out = stream_add(p, 1, "w");
	p->err = stream_add(p, 2, "w");
	setvbuf(p->err, NULL, _IONBF, 0);
	if (!sim_stdout)
		streams_use(p);
}

/* As exit() does. */
void
streams_flush(struct process *p)
{
	for (int i = 0; i < STREAMS; i++)
		if (p->stream[i].f)
			fflush(p->stream[i].f);
}

FILE *
sim_fdopen(int fd, const char *mode)
{
	return file_of(fd) ? stream_add(sim.current->process, fd, mode) : NULL;
}

FILE *
sim_fopen(const char *path, const char *mode)
{
	int flags = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
	int fd;

	if (mode[0] == 'w')
		flags |= O_CREAT | O_TRUNC;
	if (mode[0] == 'a')
		flags |= O_CREAT | O_APPEND;
	if (strchr(mode, 'x'))
		flags |= O_EXCL;
	fd = sim_open(path, flags, 0666);
	return fd < 0 ? NULL : stream_add(sim.current->process, fd, mode);
}

/* Only standard output is ever reopened, and that at /dev/null. */
FILE *
sim_freopen(const char *path, const char *mode, FILE *f)
{
	(void)path;
	(void)mode;
	sim.current->process->fd[1]->out = NULL;
	return f;
}

int
sim_fileno(FILE *f)
{
	struct process *p = sim.current->process;

	for (int i = 0; i < STREAMS; i++)
		if (p->stream[i].f == f)
			return p->stream[i].fd;
	return fail(EBADF);
}

int
sim_fclose(FILE *f)
{
	struct process *p = sim.current->process;

	for (int i = 0; i < STREAMS; i++)
		if (p->stream[i].f == f)
			p->stream[i].f = NULL;
	return fclose(f);
}

int
sim_printf(const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vfprintf(sim_stdout, format, ap);
	va_end(ap);
	return n;
}

int
sim_puts(const char *text)
{
	return fprintf(sim_stdout, "%s\n", text);
}

int
sim_putchar(int c)
{
	return fputc(c, sim_stdout);
}

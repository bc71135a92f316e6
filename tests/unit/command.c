/*
 * command.c - the commands that faults are injected into: signals that come before the program runs
 *
 * Under the name of mpirun this program is a launcher whose child takes its time before it becomes
 * the rank, with the launcher's handlers until then.
 */
#include "tests/check.h"
#include "tests/faults/command.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STARTS = 50 };

static void
leave(int sig)
{
	_exit(sig ? 1 : 0);
}

static int
launch(char **argv)
{
	int status;
	pid_t pid;

	signal(SIGINT, leave);
	pid = fork();
	if (pid == 0) {
		usleep(200000);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 126;
	return WIFEXITED(status) ? WEXITSTATUS(status) : COMMAND_KILLED + WTERMSIG(status);
}

/* A program that has not begun yet has said nothing, whatever another one has said into the file.
 */
static void
says_nothing_yet(const char *dir)
{
	const struct command c = { .dir = dir, .out = "out", .words = "true" };
	struct str said = { 0 };

	for (int i = 0; i < STARTS; i++) {
		FILE *f = fopen("out", "w");
		pid_t pid;

		CHECK(f && fputs("saved iteration 6\n", f) > 0 && fclose(f) == 0);
		pid = command_start(&c);
		command_said(dir, "out", &said);
		CHECK(said.len == 0);
		CHECK(command_wait(&c, pid) == 0);
		str_clear(&said);
	}
	str_release(&said);
}

/* The rank gets the signal, and not the copy of the launcher that becomes it. */
static void
signals_the_rank(const char *dir)
{
	const struct command c = {
		.dir = dir, .out = "out", .words = "mpirun sleep 60", .signal = SIGINT, .times = 1
	};

	CHECK(command_wait(&c, command_start(&c)) == COMMAND_KILLED + SIGINT);
}

int
main(int argc, char **argv)
{
	char dir[] = "/tmp/mikoshi-command.XXXXXX", self[4096], path[4200];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	if (argc > 1)
		return launch(argv);
	CHECK(n > 0 && mkdtemp(dir) && chdir(dir) == 0);
	self[n] = '\0';
	CHECK(symlink(self, "mpirun") == 0);
	snprintf(path, sizeof path, "%s:%.4000s", dir, getenv("PATH"));
	setenv("PATH", path, 1);
	says_nothing_yet(dir);
	signals_the_rank(dir);
	unlink("mpirun");
	unlink("out");
	rmdir(dir);
	return check_done();
}

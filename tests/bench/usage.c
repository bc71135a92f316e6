/*
 * usage.c COMMAND... - runs a command without its output; prints its elapsed and CPU milliseconds
 * and its peak resident KB
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A CPU time in milliseconds. */
static long long
ms(struct timeval t)
{
	return (long long)t.tv_sec * 1000 + t.tv_usec / 1000;
}

int
main(int argc, char **argv)
{
	struct timespec begin, end;
	struct rusage use;
	int status;
	pid_t pid;

	if (argc < 2) {
		fprintf(stderr, "usage: usage COMMAND...\n");
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);

		if (null < 0 || dup2(null, 1) < 0)
			_exit(127);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &use) != pid || status != 0) {
		fprintf(stderr, "usage: %s failed\n", argv[1]);
		return 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%lld\t%lld\t%ld\n",
	    (long long)(end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000,
	    ms(use.ru_utime) + ms(use.ru_stime), use.ru_maxrss);
	return 0;
}

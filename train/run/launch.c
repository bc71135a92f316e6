/*
 * launch.c - starting the ranks of a run: mtrain --ranks N, or --launch 'WORDS'
 *
 * Open MPI's mpirun answers INT, TERM and HUP with a KILL to every rank two seconds later, and
 * returns 1 whatever the ranks return. USR1 it passes on, and then waits for them. So the launcher
 * is started in a process group of its own, which a terminal's Ctrl-C does not reach, and every
 * request becomes a USR1 to it. A USR1 that comes before the ranks catch it ends them, or is lost
 * when there are none yet: it is sent again, and a run that it ended had nothing to save.
 */
#include "lib/base/prog.h"
#include "train/config/start.h"
#include "train/run/launch.h"
#include "train/run/leave.h"
#include "train/watch/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Nanoseconds. Launchers and terminals send a request twice; a lost request is sent again. */
static const int64_t second = 1000000000, again = 5000000000;

/* Requests as stop.c has them; only HUP may have been left ignored by a parent. */
static const int requests[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU };

enum { MPIRUN = 8 }; /* words of add_mpirun, and the end */

struct launcher {
	pid_t pid;
	int64_t asked,
	    urgent;          /* when the first request, and the last INT or TERM came; 0: not yet */
	int64_t sent;        /* when USR1 was sent last */
	int64_t limit;       /* nanoseconds from a request to TERM; 0: none */
	int ends;            /* signals sent after USR1: TERM, then KILL */
	const char *command; /* that continues a run that was stopped; NULL: another one does */
};

/* --- what is started -------------------------------------------------------------------------- */

/* How many words of a command line an option with one value takes at argv[0]; 0: it is another
 * option. */
static int
takes(char *const *argv, const char *name)
{
	const char *word = argv[0];

	if (strncmp(word, "--", 2))
		return 0;
	for (word += 2; *name && (*word == *name || (*word == '_' && *name == '-')); word++)
		name++;
	if (*name)
		return 0;
	return *word == '=' ? 1 : *word == '\0' && argv[1] ? 2 : 0;
}

/* The words of the program without those of this file, appended. Returns how many of them start a
 * launcher. */
static int
add_program(char **argv, char **word, int *n)
{
	int found = 0;

	word[(*n)++] = argv[0];
	for (argv++; *argv;) {
		int starts = takes(argv, "ranks") + takes(argv, "launch"),
		    skipped = starts + takes(argv, "stop-timeout");

		found += starts > 0;
		argv += skipped;
		if (!skipped)
			word[(*n)++] = *argv++;
	}
	word[*n] = NULL;
	return found;
}

/* mpirun for ranks on this host. Ranks are not bound to cores, since a rank has threads. */
static void
add_mpirun(const struct train_options *o, char number[24], char **word, int *n)
{
	snprintf(number, 24, "%lld", (long long)o->ranks);
	word[(*n)++] = "mpirun";
	word[(*n)++] = "-np";
	word[(*n)++] = number;
	word[(*n)++] = "--bind-to";
	word[(*n)++] = "none";
	if (o->ranks > sysconf(_SC_NPROCESSORS_ONLN)) {
		word[(*n)++] = "--oversubscribe";
		setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
	}
	if (getuid() == 0) {
		setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
		setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
	}
}

/* Cuts the words of --launch at blanks, in place. */
static void
add_words(char *text, char **word, int *n)
{
	char *rest = NULL;

	for (char *w = strtok_r(text, " \t\n", &rest); w; w = strtok_r(NULL, " \t\n", &rest))
		word[(*n)++] = w;
}

/* In the child: the launcher and its ranks are asked to stop when this process is killed. A
 * terminal stops processes of another group that read it. Writes errno to `failed` when the
 * launcher cannot be started. */
static void __attribute__((noreturn)) become(char **word, int failed)
{
	sigset_t none;
	int null = isatty(STDIN_FILENO) ? open("/dev/null", O_RDONLY) : -1;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	if (null >= 0)
		dup2(null, STDIN_FILENO);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(word[0], word);
	(void)!write(failed, &errno, sizeof errno);
	_exit(EXIT_USAGE);
}

/* Both set the group, since either may come first. -1 with a reason. */
static pid_t
start(char **word, struct err *e)
{
	int failed[2], why = 0;
	pid_t pid;

	if (pipe2(failed, O_CLOEXEC) < 0)
		return err_set(e, "cannot start '%s': %s", word[0], strerror(errno));
	pid = fork();
	if (pid == 0)
		become(word, failed[1]);
	if (pid > 0)
		setpgid(pid, pid);
	else
		why = errno;
	close(failed[1]);
	if (pid > 0 && read(failed[0], &why, sizeof why) == sizeof why)
		waitpid(pid, NULL, 0);
	close(failed[0]);
	return why ? err_set(e, "cannot start '%s': %s", word[0], strerror(why)) : pid;
}

/* --- until it has ended ----------------------------------------------------------------------- */

static int64_t
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * second + t.tv_nsec;
}

static void
send_request(struct launcher *l)
{
	l->sent = now();
	kill(l->pid, SIGUSR1);
}

/* After a request: TERM, which leaves the ranks about a second, and then KILL. */
static void
end_launcher(struct launcher *l)
{
	kill(l->pid, l->ends++ ? SIGKILL : SIGTERM);
}

/* A second INT or TERM counts when it comes a second after the first, as it does in a rank. */
static void
answer(struct launcher *l, int sig)
{
	int64_t t = now();
	bool urgent = sig == SIGINT || sig == SIGTERM, second_one = urgent && l->urgent;

	if (second_one && t - l->urgent < second)
		return;
	if (urgent)
		l->urgent = t;
	if (second_one) {
		end_launcher(l);
	} else if (!l->asked) {
		l->asked = t;
		note("%s: the run saves after this step and ends; Ctrl-C or TERM once more ends it "
		     "at once",
		    stop_signal_name(sig));
		send_request(l);
	}
}

/* Once in a while. */
static void
remind(struct launcher *l)
{
	int64_t t = now();

	if (!l->asked || l->ends)
		return;
	if (l->limit && t - l->asked > l->limit) {
		warn("--stop-timeout: the run has not stopped in %.0f seconds: ending it",
		    (double)l->limit / (double)second);
		end_launcher(l);
	} else if (t - l->sent > again) {
		send_request(l);
	}
}

/* USR1 ends a rank, or the launcher, that does not catch it yet; launchers report 128 and the
 * number for a rank. */
static int
status_of(const struct launcher *l, int status)
{
	int by = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;

	if (l->asked && !l->ends && by == SIGUSR1) {
		note("stopped before the first step: nothing was trained, so nothing is saved; the "
		     "same command starts again");
		return EXIT_STOPPED;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_STOPPED && l->command)
		note("to continue: %s", l->command);
	return WIFSIGNALED(status) ? 128 + by : WEXITSTATUS(status);
}

static int
wait_for(struct launcher *l, const sigset_t *signals)
{
	const struct timespec tenth = { 0, 100000000 };
	int status;

	while (waitpid(l->pid, &status, WNOHANG) == 0) {
		int sig = sigtimedwait(signals, NULL, &tenth);

		if (sig > 0 && sig != SIGCHLD)
			answer(l, sig);
		remind(l);
	}
	return status_of(l, status);
}

/* The signals are blocked from now on; what has come before is answered, too. */
static void
block_requests(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGCHLD);
	for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
		struct sigaction a;

		sigaction(requests[i], NULL, &a);
		if (a.sa_handler != SIG_IGN)
			sigaddset(signals, requests[i]);
	}
	sigprocmask(SIG_BLOCK, signals, NULL);
	stop_default_signals();
}

char **
launch_words(int argc, char **argv)
{
	char **words = mem_alloc((size_t)argc + 1, sizeof *words);

	memcpy(words, argv, ((size_t)argc + 1) * sizeof *words);
	return words;
}

/* The launcher's words and the program's into `word`. text: those of --launch, which are cut. */
static int
compose(const struct train_options *o, char **words, char *text, char **word, struct err *e)
{
	static char number[24];
	int n = 0;

	if (o->launch && o->ranks)
		return err_set(e,
		    "--ranks and --launch: give one of them; the words of --launch say how many "
		    "ranks there are");
	if (o->launch)
		add_words(text, word, &n);
	else
		add_mpirun(o, number, word, &n);
	if (!n)
		return err_set(e, "--launch: needs the words that start ranks, as 'mpirun -np 8'");
	if (!add_program(words, word, &n))
		return err_set(e, "--%s: belongs on the command line: the ranks read the file, too",
		    o->launch ? "launch" : "ranks");
	return 0;
}

void
launch_run(const struct train_config *c, char **words)
{
	const struct train_options *o = &c->o;
	struct launcher l = { .limit = (int64_t)(o->stop_timeout * (double)second) };
	char *text = mem_strdup(o->launch ? o->launch : ""), **word;
	size_t n = 0;
	sigset_t signals;
	struct err err;

	l.command = train_repeats(c) ? c->command.buf : NULL;
	while (words[n])
		n++;
	word = mem_alloc(n + strlen(text) + MPIRUN, sizeof *word);
	if (compose(o, words, text, word, &err) < 0)
		die_usage("%s", err.msg);
	setenv(LEAVE_LAUNCHED, isatty(STDERR_FILENO) ? LEAVE_TERMINAL : "log", 1);
	block_requests(&signals);
	l.pid = start(word, &err);
	if (l.pid < 0)
		die_usage("%s", err.msg);
	prog_exit(wait_for(&l, &signals));
}

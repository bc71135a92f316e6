/*
 * writers.c - pairs of writers of one dataset, stopped, killed and continued at random
 *
 * writers [--count N] [--seed S] [--jobs J]
 *
 * Each pair of mtok (plain, --resume, --force) or mshard cat (plain, --force) has a directory of
 * its own, which holds nothing, a verified dataset or what a killed run has left. The second begins
 * at a random time; both get signals at random times; sometimes the first one is stopped and its
 * locks look like those of another host whose job has been restarted, so that the second takes
 * over. A dataset that a writer has finished is compared with that of an undisturbed one, and must
 * not change unless one that was told to replace it finishes; whatever is left must not keep
 * another run from finishing. The ends are counted by kind.
 */
#include "lib/base/io.h"
#include "lib/base/lock.h"
#include "lib/base/outfile.h"
#include "lib/base/rng.h"
#include "lib/base/str.h"
#include "tests/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXTS = 3, EVENTS = 5, LINES = 30000 };
enum mode { PLAIN, RESUME, FORCE, CAT, CAT_FORCE, MODES };
static const char *const mode_name[] = { "plain", "--resume", "--force", "cat", "cat --force" };
enum before { NOTHING, DATASET, PARTS, BEFORES };

/* How a writer ended; what it says decides. */
enum end { DONE, EXISTS, HELD, UNFINISHED, LOST, KILLED, OTHER, ENDS };
static const char *const end_name[] = { "finished", "refused: exists", "refused: held",
	"refused: a state of another run", "lost its lock", "killed", "other" };

static char top[4000]; /* holds the inputs and what becomes of each alone */

struct pair {
	unsigned long seed;
	char dir[64];
	enum mode mode[2];
	int text[2]; /* which input */
	enum before before;
	int found; /* the text of the dataset that the pair finds, -1: none */
	bool takeover;
	bool long_stop; /* the first is stopped for longer than the second waits */
	pid_t pid[2];
	enum end end[2];
};

struct tally {
	long ends[MODES][ENDS], takeovers, finished_later, failures;
};

/* --- running ---------------------------------------------------------------------------------- */

/* Starts a command in the current directory, whose words follow in err. restarted: as the batch
 * system's job 7 after it was restarted. */
static pid_t
start(char *const argv[], const char *err, bool restarted)
{
	pid_t pid = fork();

	if (pid == 0) {
		int fd = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0666);

		if (fd < 0 || dup2(fd, 2) < 0 || dup2(fd, 1) < 0)
			_exit(127);
		setenv("SLURM_JOB_ID", "7", 1);
		setenv("SLURM_RESTART_COUNT", restarted ? "1" : "0", 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	return pid;
}

/* Starts one of the pair, or another run after it. */
static pid_t
start_writer(enum mode mode, int text, const char *err, bool restarted)
{
	char input[4100], other[4100];
	char *mtok[] = { "mtok", "-o", "d", "--workers", "1", "--tokenizer-type", "NullTokenizer",
		"--vocab-size", "60000", "--resume-interval", "0.01", input, NULL, NULL };
	char *cat[] = { "mshard", "cat", "-o", "d_text_document", other, NULL, NULL };

	snprintf(input, sizeof input, "%s/%d.jsonl", top, text);
	snprintf(other, sizeof other, "%s/%d_text_document", top, text);
	if (mode == CAT || mode == CAT_FORCE) {
		cat[5] = mode == CAT_FORCE ? "--force" : NULL;
		return start(cat, err, restarted);
	}
	mtok[12] = mode == RESUME ? "--resume" : mode == FORCE ? "--force" : NULL;
	return start(mtok, err, restarted);
}

/* Why it ended, from its status and its words. */
static enum end
end_of(int status, const char *err)
{
	static const struct {
		const char *words;
		enum end end;
	} words[] = { { "no longer belongs", LOST }, { "is running", HELD }, { "renews it", HELD },
		{ "that stopped", UNFINISHED }, { "exists", EXISTS }, { "File exists", EXISTS } };
	enum end end = OTHER;
	char *text;

	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGKILL ? KILLED : OTHER;
	if (WEXITSTATUS(status) == 0)
		return DONE;
	if (io_read_file(err, 0, &text, NULL, NULL) < 0)
		return OTHER;
	for (size_t i = 0; i < sizeof words / sizeof *words && end == OTHER; i++)
		if (strstr(text, words[i].words))
			end = words[i].end;
	free(text);
	return end;
}

static enum end
finish(pid_t pid, const char *err)
{
	int status = 0;

	CHECK(waitpid(pid, &status, 0) == pid);
	return end_of(status, err);
}

/* --- looking ---------------------------------------------------------------------------------- */

/* True when two files hold the same bytes. */
static bool
same_file(const char *a, const char *b)
{
	char *x = NULL, *y = NULL;
	size_t n = 0, m = 1;
	bool same = io_read_file(a, 0, &x, &n, NULL) == 0 &&
	    io_read_file(b, 0, &y, &m, NULL) == 0 && n == m && !memcmp(x, y, n);

	free(x);
	free(y);
	return same;
}

/* Which text the dataset is that of, all of it; -1: none, or damaged. */
static int
dataset_is(void)
{
	char bin[4100], idx[4100];

	for (int t = 0; t < TEXTS; t++) {
		snprintf(bin, sizeof bin, "%s/%d_text_document.bin", top, t);
		snprintf(idx, sizeof idx, "%s/%d_text_document.idx", top, t);
		if (same_file(bin, "d_text_document.bin") && same_file(idx, "d_text_document.idx"))
			return t;
	}
	return -1;
}

/* --- a pair ----------------------------------------------------------------------------------- */

/* A number below n. */
static unsigned
draw(struct mt19937 *r, unsigned n)
{
	return (unsigned)mt19937_interval(r, n - 1);
}

/* Makes what the pair finds. A run that is to leave parts may have finished, or be between the
 * renames, when it is killed. */
static void
prepare(struct pair *p, struct mt19937 *r)
{
	pid_t pid;

	p->found = p->before == DATASET ? 0 : -1;
	if (p->before == DATASET)
		CHECK(finish(start_writer(PLAIN, 0, "before", false), "before") == DONE);
	if (p->before != PARTS)
		return;
	pid = start_writer(RESUME, p->text[0], "before", false);
	usleep(20000 + draw(r, 200000));
	kill(pid, SIGKILL);
	(void)finish(pid, "before");
	if (io_exists("d_text_document.idx") || io_exists("d_text_document.idx.new"))
		p->found = p->text[0];
}

/* Rewrites a process's lock as that of another host, of the same job. */
static void
move_lock(const char *path, pid_t pid)
{
	struct str to = { 0 };
	char *text, *rest, mine[40];

	if (io_read_file(path, 0, &text, NULL, NULL) < 0)
		return;
	snprintf(mine, sizeof mine, "\nprocess %ld\n", (long)pid);
	rest = strstr(text, mine);
	if (!strncmp(text, "host ", 5) && rest) {
		str_addf(&to, "host elsewhere\nboot other%s", rest);
		(void)outfile_write(path, to.buf, to.len, NULL);
	}
	str_release(&to);
	free(text);
}

/* Sends signals at random times and ends with both continued. */
static void
disturb(struct pair *p, struct mt19937 *r)
{
	static const int signals[] = { SIGSTOP, SIGCONT, SIGSTOP, SIGKILL, SIGCONT };
	int events = (int)draw(r, EVENTS + 1);
	unsigned most = 5000u << draw(r, 6);

	if (p->takeover) {
		usleep(draw(r, most));
		kill(p->pid[0], SIGSTOP);
		usleep(2000);
		move_lock("d.lock", p->pid[0]);
		move_lock("d_text_document.lock", p->pid[0]);
		p->pid[1] = start_writer(p->mode[1], p->text[1], "err1", true);
	}
	for (int i = 0; i < events; i++) {
		usleep(draw(r, most));
		if (!p->pid[1])
			p->pid[1] = start_writer(p->mode[1], p->text[1], "err1", false);
		else {
			pid_t pid = p->pid[draw(r, 2)];

			kill(pid, signals[draw(r, 5)]);
		}
	}
	if (!p->pid[1])
		p->pid[1] = start_writer(p->mode[1], p->text[1], "err1", false);
	usleep(draw(r, most));
	if (p->long_stop) {
		kill(p->pid[0], SIGSTOP);
		kill(p->pid[1], SIGCONT);
		usleep((LOCK_ENDING + 1) * 1000000);
	}
	kill(p->pid[0], SIGCONT);
	kill(p->pid[1], SIGCONT);
}

/* The dataset is that of a writer that finished or, where none did, what was there before. One that
 * was killed or lost its lock may have finished just before that, unless another has taken over
 * from it. A kill between the renames leaves a dataset that is complete, which the next writer
 * finishes. */
static void
check_dataset(const struct pair *p, struct tally *n)
{
	char *repair[] = { "mshard", "repair", "--in-place", "d_text_document", NULL };
	bool allowed[TEXTS] = { 0 }, done = false;
	int is;

	if (io_exists("d_text_document.idx.new")) {
		n->finished_later++;
		CHECK(p->end[0] == KILLED || p->end[1] == KILLED || p->before == PARTS);
		CHECK(finish(start(repair, "repair", false), "repair") == DONE);
	}
	for (int i = 0; i < 2; i++) {
		bool over = i == 0 && p->takeover && p->end[1] == DONE;

		done |= p->end[i] == DONE;
		if (p->end[i] == DONE || p->end[i] == KILLED || p->end[i] == LOST)
			allowed[p->text[i]] |= !over || p->end[i] != LOST;
	}
	is = dataset_is();
	if (is < 0)
		CHECK(!done && p->found < 0 && !io_exists("d_text_document.idx"));
	else
		CHECK(allowed[is] || (is == p->found && !done));
}

/* Whatever is left, the next run finishes: the one that the words ask for, then one by force. */
static void
check_next(const struct pair *p)
{
	enum end end = finish(start_writer(RESUME, p->text[0], "next", false), "next");

	if (end == DONE)
		CHECK(dataset_is() == p->text[0]);
	CHECK(end == DONE || end == EXISTS || end == UNFINISHED);
	CHECK(finish(start_writer(FORCE, 2, "next", false), "next") == DONE && dataset_is() == 2);
	for (const char *const *left = (const char *const[]){ "d.lock", "d_text_document.lock",
		 "d.resume", "d_text_document.bin.part", "d_text_document.lengths.part",
		 "d_text_document.documents.part", "d_text_document.bin.new", NULL };
	     *left; left++)
		CHECK(!io_exists(*left));
}

/* Draws a pair from its seed and runs it; true when all held. */
static bool
run_pair(struct pair *p, struct tally *n)
{
	long failures = check_failures;
	struct mt19937 r;

	mt19937_seed(&r, (uint32_t)p->seed);
	for (int i = 0; i < 2; i++) {
		p->mode[i] = (enum mode)draw(&r, MODES);
		p->text[i] = (int)draw(&r, 2);
	}
	p->before = (enum before)draw(&r, BEFORES);
	p->takeover = draw(&r, 4) == 0;
	if (draw(&r, 4) == 0) /* the pair that shares temporary files */
		p->mode[0] = p->mode[1] = RESUME;
	if (p->mode[0] == RESUME && p->mode[1] == RESUME)
		p->text[1] = p->text[0];
	p->long_stop = draw(&r, 32) == 0;
	snprintf(p->dir, sizeof p->dir, "pair-%lu", p->seed);
	CHECK(io_mkdir_p(p->dir, NULL) == 0 && chdir(p->dir) == 0);
	prepare(p, &r);
	p->pid[0] = start_writer(p->mode[0], p->text[0], "err0", false);
	p->pid[1] = 0;
	disturb(p, &r);
	for (int i = 0; i < 2; i++) {
		char err[] = { 'e', 'r', 'r', (char)('0' + i), 0 };

		p->end[i] = finish(p->pid[i], err);
		n->ends[p->mode[i]][p->end[i]]++;
	}
	n->takeovers += p->takeover;
	check_dataset(p, n);
	if (check_failures == failures) /* a failed pair leaves its files as they are */
		check_next(p);
	CHECK(chdir("..") == 0);
	if (check_failures == failures)
		return io_remove_tree(p->dir, NULL) == 0;
	fprintf(stderr, "pair %lu: before %d, %s of %d %s, %s of %d %s%s; see %s/%s\n", p->seed,
	    p->before, mode_name[p->mode[0]], p->text[0], end_name[p->end[0]],
	    mode_name[p->mode[1]], p->text[1], end_name[p->end[1]],
	    p->takeover ? ", taken over" : "", top, p->dir);
	return false;
}

/* --- all -------------------------------------------------------------------------------------- */

/* The inputs, and what an undisturbed run makes of each. */
static void
make_texts(void)
{
	for (int t = 0; t < TEXTS; t++) {
		char *mtok[] = { "mtok", "-q", "-o", NULL, "--tokenizer-type", "NullTokenizer",
			"--vocab-size", "60000", NULL, NULL };
		struct str name = { 0 }, text = { 0 }, path = { 0 };

		for (int i = 0; i < LINES; i++) {
			str_adds(&text, "{\"text\": \"1");
			for (int k = 0; k < 60; k++)
				str_addf(&text, " %d", (i * 61 + k * 7 + t) % 59999);
			str_adds(&text, "\"}\n");
		}
		str_addf(&name, "%d", t);
		str_addf(&path, "%d.jsonl", t);
		CHECK(outfile_write(path.buf, text.buf, text.len, NULL) == 0);
		mtok[3] = name.buf;
		mtok[8] = path.buf;
		CHECK(finish(start(mtok, "alone", false), "alone") == DONE);
		str_release(&name);
		str_release(&text);
		str_release(&path);
	}
}

/* A share of the pairs in a process of its own, which sends its tally. */
static void
share(unsigned long seed, long count, long first, long step, int to)
{
	struct tally n = { 0 };

	for (long i = first; i < count; i += step) {
		struct pair p = { .seed = seed + (unsigned long)i };

		n.failures += !run_pair(&p, &n);
		if (chdir(top) < 0)
			break;
	}
	_exit(write(to, &n, sizeof n) == (ssize_t)sizeof n && check_failures == 0 ? 0 : 1);
}

/* How each kind of writer ended. */
static void
print_tally(const struct tally *n, long count, unsigned long seed)
{
	printf(
	    "%ld pairs from seed %lu, %ld taken over, %ld finished by the next writer, %ld wrong\n",
	    count, seed, n->takeovers, n->finished_later, n->failures);
	printf("writer");
	for (int e = 0; e < ENDS; e++)
		printf("\t%s", end_name[e]);
	for (int m = 0; m < MODES; m++) {
		printf("\n%s", mode_name[m]);
		for (int e = 0; e < ENDS; e++)
			printf("\t%ld", n->ends[m][e]);
	}
	printf("\n");
}

int
main(int argc, char **argv)
{
	unsigned long seed = 1;
	long count = 12, jobs = 4;
	char dir[] = "/tmp/mikoshi-writers-XXXXXX";
	struct tally all = { 0 }, n;
	int ends[2], status;

	for (int i = 1; i + 1 < argc; i += 2) {
		seed = !strcmp(argv[i], "--seed") ? strtoul(argv[i + 1], NULL, 10) : seed;
		count = !strcmp(argv[i], "--count") ? strtol(argv[i + 1], NULL, 10) : count;
		jobs = !strcmp(argv[i], "--jobs") ? strtol(argv[i + 1], NULL, 10) : jobs;
	}
	CHECK(mkdtemp(dir) != NULL && chdir(dir) == 0 && pipe(ends) == 0);
	snprintf(top, sizeof top, "%s", dir);
	make_texts();
	fflush(stdout);
	for (long j = 0; j < jobs; j++)
		if (fork() == 0)
			share(seed, count, j, jobs, ends[1]);
	close(ends[1]);
	while (read(ends[0], &n, sizeof n) == (ssize_t)sizeof n) {
		for (int i = 0; i < MODES * ENDS; i++)
			all.ends[i / ENDS][i % ENDS] += n.ends[i / ENDS][i % ENDS];
		all.takeovers += n.takeovers;
		all.finished_later += n.finished_later;
		all.failures += n.failures;
	}
	for (long j = 0; j < jobs; j++) {
		CHECK(wait(&status) > 0);
		CHECK(status == 0);
	}
	print_tally(&all, count, seed);
	CHECK(all.failures == 0);
	if (check_failures == 0)
		CHECK(io_remove_tree(dir, NULL) == 0);
	return check_done();
}

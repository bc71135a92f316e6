/*
 * world.h - the simulated cluster: one process of this machine, one seed, no real time
 *
 * The product's objects are linked unchanged; every call that leaves them (calls.txt) is renamed to
 * sim_NAME, which this directory defines. One thread of one simulated process runs at a time, until
 * it makes such a call. Each call costs time, drawn from the seed, and the thread whose time is the
 * earliest runs next: so the order of events, and all else, is a function of the seed.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "lib/base/str.h"

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

enum {
	HOSTS = 8,
	FDS = 256,
	RANKS = 16,
	SIGNALS = 65,
	STREAMS = 128,
	BLOCKS = 64,
	JOB_NONE = -1,
	LAUNCHER_PID = 2
};
#define NEVER INT64_MAX
#define SECOND INT64_C(1000000000)
#define MILLISECOND INT64_C(1000000)

/* The calls that are counted, and may fail. */
/* clang-format off */
#define CALLS(X) \
	X(OPEN, "open") X(READ, "read") X(WRITE, "write") X(TRUNCATE, "truncate") \
	X(FSYNC, "fsync") X(CLOSE, "close") X(RENAME, "rename") X(LINK, "link") \
	X(UNLINK, "unlink") X(MKDIR, "mkdir") X(MMAP, "mmap") X(LOOK, "look") X(LIST, "list") \
	X(FLOCK, "lock") X(MEMORY, "malloc") X(THREAD, "thread") \
	X(SEND, "send") X(RECEIVE, "receive") X(WAIT, "wait") X(MUTEX, "mutex") \
	X(COND, "cond") X(CLOCK, "clock") X(SLEEP, "sleep") X(SOCKET, "socket") \
	X(SIGNAL, "signal") X(OTHER, "other")
/* clang-format on */
#define CALL_ENUM(c, name) CALL_##c,
enum call { CALLS(CALL_ENUM) CALL_COUNT, CALL_ANY = CALL_COUNT, CALL_CHANGE };
#undef CALL_ENUM
/* CALL_ANY and CALL_CHANGE, what changes the disk or syncs it, are of faults, not of calls. */
extern const char *const call_names[CALL_COUNT];

/* What else disturbs a run and is counted; the losses are in the order of enum loss. */
/* clang-format off */
#define COUNTS(X) \
	X(SHORT, "reads and writes cut short") X(PAUSE, "thread paused") \
	X(LOST_ALL, "power lost, nothing kept") X(LOST_NONE, "power lost, all kept") \
	X(LOST_PREFIX, "power lost, a prefix kept") X(LOST_ANY, "power lost, any sectors kept") \
	X(LOST_BUT_LAST, "power lost, the last change kept") \
	X(OUTLIVED, "ranks outlive a death") X(REPORTED, "MPI reports a death") \
	X(OTHER_LAYOUT, "started on another layout") X(MIDWAY, "begun with checkpoints") \
	X(ROW, "calls fail in a row")
/* clang-format on */
#define COUNT_ENUM(c, name) COUNT_##c,
enum count { COUNTS(COUNT_ENUM) COUNT_COUNT };
#undef COUNT_ENUM
extern const char *const count_names[COUNT_COUNT];

struct process;
struct file;
struct node;
struct mpi;

struct thread {
	struct process *process;
	struct thread *next; /* of all threads */
	int number;          /* in its process, the first has 0 */
	bool begun, ended;
	int64_t ready;         /* when it runs again; NEVER: another thread must wake it */
	const void *waits_for; /* the mutex, condition or thread; NULL: none, or it was woken */
	int err;               /* its errno while it does not run */
	sigset_t mask;
	uint64_t about;   /* the path of its last call: see spots.h */
	bool interrupted; /* a handler ran during the last wait */
	void *(*start)(void *);
	void *arg, *result;
	void *stack;
	ucontext_t context; /* until it has begun, jump after that */
	jmp_buf jump;
	void *fiber; /* of the sanitizer */
};

/* A large piece of memory. */
struct block {
	char *at; /* NULL: none */
	size_t bytes;
};

struct process {
	struct process *next; /* of all processes, the newest first */
	int number, pid, host, job, rank;
	uint64_t start; /* ticks, as in /proc/PID/stat */
	bool ended, stopped;
	int status; /* exit status, or 128 + signal */
	double slow;
	void *state; /* the product's writable data while another process runs */
	int num_threads;
	struct thread *thread; /* the first */
	struct file *fd[FDS];
	struct {
		FILE *f;
		int fd;
	} stream[STREAMS];
	FILE *in, *out, *err;
	struct str *said; /* what it writes to standard output and error */
	char **env;
	char cwd[64];
	struct sigaction action[SIGNALS];
	pid_t sender[SIGNALS]; /* of the last signal of each number; 0: nobody's */
	uint64_t pending;      /* signals, as bits */
	struct thread *alarm;  /* of the launcher's process: rests until it is time; NULL: none */
	struct mpi *mpi;
	int (*main)(int, char **);
	int argc;
	char **argv;
	struct block block[BLOCKS];
	long calls[CALL_COUNT];
	int64_t time_offset;
};

/* What disturbs a run: see faults.h; where: see spots.h. */
struct faults;
struct spots;

struct world {
	uint64_t seed, drawn;
	uint32_t word[4];
	int64_t now; /* nanoseconds */
	long yields; /* calls so far */
	uint64_t hash;
	long events;
	bool trace;
	long until; /* the event that ends a replay; 0: none */
	struct thread *threads, *current, *root;
	struct process *processes;
	struct process *init; /* the launcher's, with the scenario */
	int num_processes;
	bool stuck; /* nothing can run any more */
	struct faults *faults;
	struct spots *spots; /* NULL, or told of each call */
	long count[COUNT_COUNT];
	/* of this seed */
	int64_t call_cost;             /* the mean, ns */
	int pause_one_in;              /* calls; 0: never */
	int64_t pause_max, wire_delay; /* ns */
	char boot[HOSTS][40];
	int next_pid[HOSTS];
	bool down[HOSTS];                  /* no power */
	int64_t realtime;                  /* of the clock at 0, ns since 1970 */
	struct node *disk, *memory[HOSTS]; /* roots */
};
extern struct world sim;

/* draw.c: from 0 to n - 1; true once in n; from 0 to 1. */
uint64_t draw(uint64_t n);
bool draw_one_in(int n);
double draw_unit(void);
void draw_begin(uint64_t seed);
/* Writes one line of the log, of which the hash is made; text may be NULL. */
void log_event(const char *what, const char *text, int64_t a, int64_t b);
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n);

/* schedule.c */
void world_begin(uint64_t seed);
/* Runs fn as the launcher's thread until it returns. */
void world_run(void (*fn)(void));
/* Lets others run until this thread is ready. True when a signal's handler ran meanwhile. */
bool schedule(void);
struct thread *thread_new(struct process *p, void *(*start)(void *), void *arg);
void thread_wake(struct thread *t, int64_t delay);
/* Sleeps in simulated time. */
void rest(int64_t ns);
int64_t draw_delay(int64_t mean);

/* call.c: the beginning of every simulated call: costs time, lets others run. Returns 0, or the
 * errno that it fails with. what: the path, or NULL. */
int call_begin(enum call c, const char *what, int64_t argument);
int fail(int err); /* -1 with errno */

/* process.c */
struct program {
	const char *name;
	int (*main)(int, char **);
	const char *words; /* arguments, separated by blanks */
	int host, job, rank;
	struct str *said;
	const char *const *env; /* NAME=VALUE, ended by NULL; may be NULL */
};
struct process *process_begin(const struct program *x);
/* Ends it now: nothing of it runs again. */
void process_end(struct process *p, int status);
void process_signal(struct process *p, int sig);
void process_signal_from(struct process *p, int sig, pid_t sender);
void process_deliver(struct thread *t);
/* The launcher's thread waits for its end. */
int process_wait(struct process *p);
struct process *process_find(int host, int pid);

/* memory.c */
void memory_end(struct process *p);
void *block_new(size_t n);
bool block_end(void *p); /* false: it is none */

/* launcher.c: told of each end of a process of a job. */
void launcher_ended(struct process *p, bool finalized);
void launcher_abort(struct process *p, int status) __attribute__((noreturn));

/* mpi.c */
void mpi_process_begin(struct process *p, int size);
void mpi_process_ended(struct process *p);
bool mpi_started_not_finalized(const struct process *p);
enum { JOBS = 64 };

/* net.c */
struct socket;
void socket_free(struct socket *s);
int64_t socket_ready(const struct socket *s); /* when a datagram is there; NEVER: none is sent */

/* poll.c: threads that poll look once more */
void poll_wake(const struct process *p);

/* streams.c */
void streams_begin(struct process *p);
void streams_flush(struct process *p);
void streams_use(struct process *p);

#endif

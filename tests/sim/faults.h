/* faults.h - what disturbs a run, drawn from the seed or asked for */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include "tests/sim/world.h"

enum { STRIKES = 8 };

/* What happens at a call of the run. */
/* clang-format off */
#define STRIKE_KINDS(X) \
	X(KILL, "rank killed") X(HOST, "host lost") X(POWER, "power lost") X(TERM, "SIGTERM") \
	X(STOP, "rank stopped for a while") X(SLOW, "rank slow") X(FAIL, "call fails") \
	X(FAIL_ON, "calls fail from one on") X(LEAP, "clock leaps")
/* clang-format on */
#define STRIKE_ENUM(k, name) STRIKE_##k,
enum strike_kind { STRIKE_KINDS(STRIKE_ENUM) STRIKE_KIND_COUNT };
#undef STRIKE_ENUM
extern const char *const strike_names[STRIKE_KIND_COUNT];

/* At the call of that number, of the kind `call` and of the rank, where these are given. */
struct strike {
	enum strike_kind kind;
	int rank;       /* -1: of whichever calls */
	enum call call; /* CALL_COUNT: of any kind */
	long at;        /* 1: the first one */
	int err;        /* of a call that fails */
	/* */
	long count;
	bool struck;
};

struct faults {
	struct strike strike[STRIKES];
	int count;
	bool calm;          /* nothing happens any more */
	int short_one_in;   /* reads and writes that are cut short; 0: none */
	bool report_deaths; /* MPI's calls fail when a peer has died; else they wait for ever */
	/* told when everything ends at once; set by the launcher */
	void (*power_lost)(void);
	void (*host_lost)(int host);
	long happened[STRIKE_KIND_COUNT];
};

/* At a call: an errno, or 0. May end the process, and not return. */
int faults_at(enum call c, const char *path);

#endif

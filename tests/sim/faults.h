/* faults.h - what disturbs a run, drawn from the seed or asked for */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include "lib/base/err.h"
#include "tests/sim/spots.h"
#include "tests/sim/world.h"

enum { STRIKES = 16 };

/* What happens at a call of the run. */
/* clang-format off */
#define STRIKE_KINDS(X) \
	X(KILL, "kill", "rank killed") X(HOST, "host", "host lost") \
	X(POWER, "power", "power lost") X(TERM, "term", "SIGTERM") \
	X(STOP, "stop", "rank stopped for a while") X(SLOW, "slow", "rank slow") \
	X(FAIL, "fail", "call fails") X(FAIL_ON, "fail-on", "calls fail from one on") \
	X(LEAP, "leap", "clock leaps") X(SHORT, "short", "read or write brings one byte")
/* clang-format on */
#define STRIKE_ENUM(k, name, words) STRIKE_##k,
enum strike_kind { STRIKE_KINDS(STRIKE_ENUM) STRIKE_KIND_COUNT };
#undef STRIKE_ENUM
extern const char *const strike_names[STRIKE_KIND_COUNT];

/* At the call of that number, of the kind `call`, of the spot and of the rank, where these are
 * given. */
struct strike {
	enum strike_kind kind;
	int rank;             /* -1: of whichever calls */
	enum call call;       /* or CALL_ANY or CALL_CHANGE */
	uint64_t about;       /* of the spot; 0: of whichever path */
	char path[SPOT_PATH]; /* one of these, for words */
	long at;              /* 1: the first one */
	long more;            /* calls after it that it happens at too */
	int err;              /* of a call that fails */
	bool then;            /* calls count once the one before it has happened */
	long later;           /* it happens at so manieth change of that rank after it; 0: at it */
	bool here;            /* what fails from one on does so at its spot alone */
	bool dropped;         /* it does not happen */
	/* set by faults_at */
	long count;
	bool struck;
};

struct faults {
	struct strike strike[STRIKES];
	int count;
	bool calm;          /* nothing happens any more */
	bool cut;           /* the call under way brings one byte */
	int short_one_in;   /* reads and writes that are cut short; 0: none */
	bool report_deaths; /* MPI's calls fail when a peer has died; else they wait for ever */
	bool srun;          /* ranks live on when one has died */
	bool dark;          /* power is lost as soon as all is done */
	/* told when everything ends at once; set by the launcher */
	void (*power_lost)(void);
	void (*host_lost)(int host);
	/* NULL, or told of each call that the fault, the only one, may strike: true in a process of
	 * its own, in which it strikes this one; false in the other, where no fault happens */
	bool (*branch)(struct strike *s);
	long happened[STRIKE_KIND_COUNT], at[CALL_COUNT]; /* strikes, by kind and by call */
};

/* The kinds of calls, as bits, that a strike of this `call` may happen at: memory is of none but
 * its own. */
uint64_t faults_calls(enum call c);

/* Reads KIND:CALL[@PATH]:N[:RANK[:ERRNO[:TIMES]]], several after commas:
 * "fail:fsync:3:0:28,power:any:4000"; TIMES calls from the N-th on; "kill:write@m:2" counts those
 * of a spot. With "then-" before KIND its calls count once the one before it has happened. Returns
 * the number of strikes, or -1 with a reason. */
int faults_parse(const char *text, struct strike out[STRIKES], struct err *e);
/* At a call: an errno, or 0. May end the process, and not return. */
int faults_at(enum call c, const char *path);

#endif

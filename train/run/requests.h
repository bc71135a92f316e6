/*
 * requests.h - prompts that are continued: their tokens, where they end, and what is printed
 *
 * Rank 0 reads them, once and to the end, since a pipe can be read only once; every rank has all of
 * them, and adds the same tokens.
 */
#ifndef TRAIN_RUN_REQUESTS_H
#define TRAIN_RUN_REQUESTS_H

#include "lib/data/prompts.h"
#include "train/comm.h"
#include "train/config/train_config.h"

struct request {
	const struct prompt *prompt;
	const char *wrong;    /* the line cannot be continued, and why; NULL: it can */
	struct token_ids ids; /* of the prompt, and then those that were generated */
	int64_t length;       /* of the prompt */
	int64_t most;         /* tokens that may follow it */
	uint64_t seed;
	struct str before; /* the text of the prompt's tokens */
	double logprob;    /* the sum of those of the tokens that were generated */
	bool done, stopped;
};

struct requests {
	struct request *item;
	int64_t count;
	struct prompts prompts;
	const struct train_config *c;
	struct tokenizer_worker *worker;
	char *text; /* what was read */
};

/* Collective; world NULL: this process alone reads, for a plan. The tokenizer must be open. A
 * prompt that cannot be continued fails only where it is the one of --prompt-file. Releases what it
 * made where it fails. */
int requests_read(
    struct requests *r, const struct train_config *c, struct comm *world, struct err *err);
void requests_release(struct requests *r);
/* Of those that can be continued their number, the longest prompt, the most tokens that follow one,
 * and the longest of both together; 1, 1 and 2 where there is none. */
struct request_lengths {
	int64_t count, prompt, new, total;
};
struct request_lengths requests_lengths(const struct requests *r);
/* A token follows a request that is not done, and may be its last; one that ends it is not kept. */
int request_add(struct requests *r, struct request *q, int64_t id, struct err *err);
/* The logarithm of the probability that a token had which followed it; one that ended the request
 * has none. */
void request_weigh(const struct requests *r, struct request *q, int64_t id, double logprob);
/* Prints a request that is done or wrong: text, or a line of JSON. */
int request_print(struct requests *r, const struct request *q, struct err *err);

#endif

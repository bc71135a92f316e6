/*
 * batch.c - the batch size of each step
 *
 * Steps are counted in stretches of equal size, never one by one: a run may have more steps than it
 * is practical to loop over.
 */
#include "lib/base/scaled.h"
#include "lib/model/batch.h"

#include <stdlib.h>
#include <string.h>

struct batch_ramp
batch_constant(int64_t size)
{
	return (struct batch_ramp){ .count = 1, .step = { { 0, size } } };
}

/* --- from text -------------------------------------------------------------------------------- */

int
batch_linear(struct batch_ramp *r, const struct opt_list *words, int64_t size, struct err *e)
{
	int64_t number[3];

	memset(r, 0, sizeof *r);
	if (words->count != 3)
		return err_set(e,
		    "--rampup-batch-size: takes START INCREMENT SAMPLES, not %d words",
		    words->count);
	if (opt_numbers("rampup-batch-size", words, 1, number, e) < 0)
		return -1;
	r->start = number[0];
	r->increment = number[1];
	r->samples = number[2];
	if (r->start >= size)
		return err_set(e,
		    "--rampup-batch-size %lld: must be less than --global-batch-size %lld",
		    (long long)r->start, (long long)size);
	if ((size - r->start) % r->increment)
		return err_set(e,
		    "--rampup-batch-size %lld %lld: steps of %lld do not lead to "
		    "--global-batch-size %lld (try an increment of %lld)",
		    (long long)r->start, (long long)r->increment, (long long)r->increment,
		    (long long)size, (long long)(size - r->start));
	r->num_increments = (size - r->start) / r->increment;
	return 0;
}

/* Inserts one entry into the table, which is sorted by first sample. */
static int
add_entry(struct batch_ramp *r, const char *entry, int64_t seq_length, struct err *e)
{
	int64_t tokens, size;
	const char *at = entry;
	int i = r->count;

	if (!scaled_read(&at, ':', &tokens) || !scaled_read(&at, '\0', &size) || size < 1)
		return err_set(e,
		    "--step-batch-size-schedule: '%.60s': must be TOKENS:SIZE, such as 250B:1536",
		    entry);
	if (r->count == BATCH_TABLE_MAX)
		return err_set(
		    e, "--step-batch-size-schedule: has more than %d entries", BATCH_TABLE_MAX);
	for (; i > 0 && r->step[i - 1].first > tokens / seq_length; i--)
		r->step[i] = r->step[i - 1];
	if (i > 0 && r->step[i - 1].first == tokens / seq_length)
		return err_set(e,
		    "--step-batch-size-schedule: '%.60s' begins at the same sample as another "
		    "entry, %lld",
		    entry, (long long)(tokens / seq_length));
	r->step[i].first = tokens / seq_length;
	r->step[i].size = size;
	r->count++;
	return 0;
}

int
batch_table(struct batch_ramp *r, const char *text, int64_t seq_length, struct err *e)
{
	static const char between[] = " \t\n,";
	char *copy = mem_strdup(text), *rest, *entry = strtok_r(copy, between, &rest);
	int rc = 0;

	memset(r, 0, sizeof *r);
	for (; entry && rc == 0; entry = strtok_r(NULL, between, &rest))
		rc = add_entry(r, entry, seq_length, e);
	free(copy);
	if (rc < 0)
		return -1;
	return r->count && r->step[0].first == 0
	    ? 0
	    : err_set(e, "--step-batch-size-schedule: needs an entry 0:SIZE, the first size");
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* As Megatron-LM computes it: in doubles, and all increments only after the last sample. */
static int64_t
increments_at(const struct batch_ramp *r, int64_t consumed)
{
	double each = (double)r->samples / (double)r->num_increments;

	return consumed > r->samples ? r->num_increments : (int64_t)((double)consumed / each);
}

/* The last entry of the table that has started. */
static int
entry_at(const struct batch_ramp *r, int64_t consumed)
{
	int i = r->count - 1;

	while (i > 0 && r->step[i].first > consumed)
		i--;
	return i;
}

int64_t
batch_at(const struct batch_ramp *r, int64_t consumed)
{
	return r->num_increments ? r->start + r->increment * increments_at(r, consumed)
				 : r->step[entry_at(r, consumed)].size;
}

int64_t
batch_largest(const struct batch_ramp *r)
{
	int64_t most = r->start + r->increment * r->num_increments;

	for (int i = 0; i < r->count; i++)
		most = r->step[i].size > most ? r->step[i].size : most;
	return most;
}

int64_t
batch_size(const struct batch_ramp *r, int64_t i)
{
	if (r->num_increments)
		return i <= r->num_increments ? r->start + i * r->increment : 0;
	return i < r->count ? r->step[i].size : 0;
}

int64_t
batch_uneven(const struct batch_ramp *r, int64_t unit)
{
	if (r->start % unit)
		return r->start;
	if (r->increment % unit)
		return r->start + r->increment;
	for (int i = 0; i < r->count; i++)
		if (r->step[i].size % unit)
			return r->step[i].size;
	return 0;
}

/* Steps of the size at `from` that begin before the size changes, if it ever does. */
static int64_t
range_steps(const struct batch_ramp *r, int64_t from)
{
	int64_t end = INT64_MAX, k = r->num_increments ? increments_at(r, from) : 0;

	if (!r->num_increments) {
		int next = entry_at(r, from) + 1;

		end = next < r->count ? r->step[next].first : INT64_MAX;
	} else if (k < r->num_increments) {
		double each = (double)r->samples / (double)r->num_increments;

		/* The quotient is rounded, so start one below it and search. */
		end = (int64_t)((double)(k + 1) * each) - 1;
		end = end > from ? end : from;
		while (increments_at(r, end) == k)
			end++;
	}
	return (end - from - 1) / batch_at(r, from) + 1;
}

int64_t
batch_steps(const struct batch_ramp *r, int64_t from, int64_t to)
{
	int64_t steps = 0, n;

	do {
		int64_t whole_ones = from < to ? (to - from) / batch_at(r, from) : 0;

		n = range_steps(r, from);
		n = n < whole_ones ? n : whole_ones;
		from += n * batch_at(r, from);
		steps += n;
	} while (n > 0);
	return steps;
}

int64_t
batch_reach(const struct batch_ramp *r, int64_t from, int64_t to)
{
	int64_t at = batch_end(r, from, batch_steps(r, from, to));

	return at < to ? at + batch_at(r, at) : at;
}

int64_t
batch_end(const struct batch_ramp *r, int64_t from, int64_t steps)
{
	while (steps > 0) {
		int64_t n = range_steps(r, from);

		n = n < steps ? n : steps;
		from += n * batch_at(r, from);
		steps -= n;
	}
	return from;
}

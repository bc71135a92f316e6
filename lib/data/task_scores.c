/* task_scores.c - what the answers of a model make of its tasks */
#include "lib/data/task_scores.h"

#include <math.h>

/* What an item adds to each sum of its task. */
enum { SUMS_MAX = 3 };

/* Characters, where the text is UTF-8: bytes that continue none. */
static double
characters(const struct task_text *s)
{
	int64_t n = 0;

	for (size_t i = 0; i < s->len; i++)
		n += (s->text[i] & 0xc0) != 0x80;
	return (double)n;
}

static double
by_one(const struct task_text *s)
{
	(void)s;
	return 1;
}

static double
bytes(const struct task_text *s)
{
	return (double)s->len;
}

/* The choice of the largest log-likelihood over a measure of the bare text. */
static int64_t
largest(const struct task_item *item, const struct task_answer *answers,
    double (*measure)(const struct task_text *))
{
	const struct task_answer *a = answers + item->first_pair;
	int64_t best = 0;
	double most = 0;

	for (int64_t i = 0; i < item->num_pairs; i++) {
		double ll = a[i].ll / measure(&item->choice[i]);

		if (i == 0 || ll > most) {
			best = i;
			most = ll;
		}
	}
	return best;
}

int64_t
task_chosen(const struct task_item *item, const struct task_answer *answers)
{
	return largest(item, answers, by_one);
}

static double
is_gold(const struct task_item *item, int64_t choice)
{
	for (int64_t i = 0; i < item->num_gold; i++)
		if (item->gold[i] == choice)
			return 1;
	return 0;
}

static void
add_choices(const struct task_item *item, const struct task_answer *answers, double *out)
{
	out[0] = is_gold(item, largest(item, answers, by_one));
	out[1] = is_gold(item, largest(item, answers, characters));
	out[2] = is_gold(item, largest(item, answers, bytes));
}

static void
add_pair(const struct task_item *item, const struct task_answer *answers, double *out)
{
	out[0] = answers[item->first_pair].greedy;
	out[1] = answers[item->first_pair].ll;
}

static void
add_rolling(const struct task_item *item, const struct task_answer *answers, double *out)
{
	out[0] = answers[item->first_pair].ll;
	out[1] = (double)item->words;
	out[2] = (double)item->bytes;
}

static void (*const add[TASK_TYPES])(const struct task_item *, const struct task_answer *,
    double *) = { add_choices, add_pair, add_rolling };

/* The mean of n numbers that are 0 or 1, whose squares are they themselves. */
static struct task_score
share(const char *metric, double sum, double n)
{
	double mean = sum / n, squares = sum * (1 - mean) * (1 - mean) + (n - sum) * mean * mean;

	return (struct task_score){ metric, mean, sqrt(squares / (n - 1)) / sqrt(n) };
}

static int
finish(enum task_type type, const double *sum, double n, struct task_score *out)
{
	switch (type) {
	case TASK_MULTIPLE_CHOICE:
		out[0] = share("acc", sum[0], n);
		out[1] = share("acc_norm", sum[1], n);
		out[2] = share("acc_bytes", sum[2], n);
		return 3;
	case TASK_LOGLIKELIHOOD:
		out[0] = share("acc", sum[0], n);
		out[1] = (struct task_score){ "perplexity", exp(-(sum[1] / n)), NAN };
		return 2;
	default:
		out[0] = (struct task_score){ "word_perplexity", exp(-(sum[0] / sum[1])), NAN };
		out[1] = (struct task_score){ "byte_perplexity", exp(-(sum[0] / sum[2])), NAN };
		out[2] = (struct task_score){ "bits_per_byte", -(sum[0] / sum[2]) / log(2), NAN };
		return 3;
	}
}

int
task_scores(const struct tasks *t, int task, const struct task_answer *answers,
    struct task_score out[TASK_SCORES_MAX], int64_t *samples)
{
	enum task_type type = t->task[task].type;
	double sum[SUMS_MAX] = { 0 };

	*samples = 0;
	for (int64_t i = 0; i < t->count; i++) {
		double own[SUMS_MAX] = { 0 };

		if (t->item[i].task != task)
			continue;
		add[type](&t->item[i], answers, own);
		for (int k = 0; k < SUMS_MAX; k++)
			sum[k] += own[k];
		++*samples;
	}
	return finish(type, sum, (double)*samples, out);
}

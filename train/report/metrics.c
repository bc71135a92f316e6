/*
 * metrics.c - log lines, JSON Lines, and the scalars of TensorBoard and W&B
 *
 * Lives on rank 0 alone and takes totals that the ranks have agreed on already. The log line is
 * Megatron-LM's, with tokens per second added at its end, so that scripts which read it keep
 * working; programs do better to read the JSON Lines. What could not be written is said at once, as
 * the run may be killed, and is its status at the end: a full disk does not end a training run that
 * can still save.
 */
#include "lib/base/clock.h"
#include "lib/base/int64.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/model/work.h"
#include "train/config/config.h"
#include "train/report/feed.h"
#include "train/report/metrics.h"
#include "train/report/scalars.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Bytes at the end of a metrics file that hold a line, unless lines of experts are longer. */
enum { END_BYTES = 1 << 14 };

/* The time left is told by the mean of so many steps. */
enum { LAPS = 20 };
struct lap {
	double seconds;
	int64_t samples;
};

/* Where the figures go, and the sums since the last log line. */
struct metrics {
	FILE *json;
	int lost;  /* errno of the first line of it that could not be written; 0: all are there */
	bool torn; /* its last line may lack its end */
	struct feed *feed;
	struct scalars *scalars; /* NULL: none are asked for */
	const struct train_options *o;
	bool decoupled; /* vocabulary tables have a learning rate of their own */
	int64_t train_iters, seq_length, world;
	double flops;              /* of a sample */
	int64_t later_layers;      /* that predict later tokens */
	int64_t ranks[WAIT_COUNT]; /* in a group of each kind */
	/* over the log interval */
	int64_t steps, samples, skipped, nan;
	double loss, zloss, seconds, joules, exposed[WAIT_COUNT];
	double balance, square, rounds, dropped; /* of routers */
	double later[MODEL_MTP_MAX];
	double fullest;       /* the maximum */
	struct lap lap[LAPS]; /* of the last steps, in no order */
	int64_t laps;
	/* the model has some; a loss balances them; ranks share them; they drop rows */
	bool experts, balanced, shared, drops;
};

/* Whose communication a rank waits for, in fields' names. */
static const char *const exposed[WAIT_COUNT] = { [WAIT_DATA] = "data",
	[WAIT_TENSOR] = "tensor",
	[WAIT_CONTEXT] = "context",
	[WAIT_PIPELINE] = "pipeline" };

/* The end of a file, at most `room` bytes; 0: it is empty, a pipe, or cannot be read. */
static size_t
read_end(const char *path, char *out, size_t room)
{
	struct stat st;
	struct err ignored;
	int fd = io_open_regular(path, &st, &ignored);
	size_t n = 0;

	if (fd < 0)
		return 0;
	n = (uint64_t)st.st_size < room ? (size_t)st.st_size : room;
	if (io_pread_all(fd, out, n, st.st_size - (int64_t)n) < 0)
		n = 0;
	close(fd);
	return n;
}

/* Whether the last line of a file lacks its end; a pipe has none. */
static bool
cut_off(const char *path)
{
	char last = '\n';

	return read_end(path, &last, 1) == 1 && last != '\n';
}

int64_t
metrics_last(const char *path)
{
	static const char key[] = "{\"iteration\": ";
	char text[END_BYTES + 1];
	size_t n = path ? read_end(path, text, END_BYTES) : 0;
	int64_t last = 0;

	text[n] = '\0';
	for (const char *at = text; (at = strstr(at, key));) {
		at += sizeof key - 1;
		last = strtoll(at, NULL, 10);
	}
	return last;
}

/* Ends a line and flushes it at once. What is left of a line before that was cut off gets a line of
 * its own. */
static void
put_line(struct metrics *m, struct str *line)
{
	str_adds(line, "}\n");
	if (m->feed)
		feed_line(m->feed, line->buf, line->len);
	errno = 0;
	if (m->json)
		m->torn = (m->torn && fputc('\n', m->json) < 0) || fputs(line->buf, m->json) < 0 ||
		    fflush(m->json) != 0;
	if (m->json && m->torn && !m->lost) {
		m->lost = errno ? errno : EIO;
		prog_progress_end();
		note("'%s' lacks a line: %s; the run continues", m->o->metrics_file,
		    strerror(m->lost));
	}
	str_release(line);
}

/* "resumed_on_ranks" tells the line from the others. */
static void
write_resume(struct metrics *m, int64_t iteration)
{
	struct str line = { 0 };

	if (!m->json && !m->feed)
		return;
	str_addf(&line, "{\"iteration\": %lld, \"resumed_on_ranks\": %lld, \"time\": %.3f",
	    (long long)iteration, (long long)m->world, clock_unix());
	put_line(m, &line);
}

/* Appends on resume, replaces otherwise. Keeps the options, which stay the caller's. NULL with a
 * reason when an output cannot be created, before any step has been computed. */
struct metrics *
metrics_open(const struct train_config *c, int64_t world_size, int64_t iteration, struct err *e)
{
	struct metrics *m = mem_zalloc(1, sizeof *m);

	m->train_iters = c->train_iters;
	m->o = &c->o;
	m->decoupled = lr_decoupled(&c->schedule);
	m->ranks[WAIT_DATA] = layout_data_ranks(&c->plan.layout);
	m->ranks[WAIT_TENSOR] = int64_max(
	    c->plan.layout.tensor_model_parallel_size, layout_expert_holders(&c->plan.layout));
	m->ranks[WAIT_CONTEXT] = c->plan.layout.context_parallel_size;
	m->ranks[WAIT_PIPELINE] = c->plan.layout.pipeline_model_parallel_size;
	m->seq_length = c->plan.shape.seq_length;
	m->later_layers = c->plan.model.mtp_num_layers;
	m->experts = model_routers(&c->plan.model) > 0;
	m->shared = layout_expert_ranks(&c->plan.layout) > 1;
	m->drops = c->plan.shape.expert_capacity > 0;
	m->balanced = m->experts && c->plan.model.moe_router_load_balancing_type != BALANCING_NONE;
	m->world = world_size;
	m->flops = model_flops(
	    &c->plan.model, 1, m->seq_length, layout_vocab(&c->plan.layout, &c->plan.model));
	if (c->o.metrics_file &&
	    !(m->json = fopen(c->o.metrics_file, c->start == START_RESUME ? "a" : "w"))) {
		err_sys(e, "create", c->o.metrics_file);
		free(m);
		return NULL;
	}
	m->torn = c->o.metrics_file && c->start == START_RESUME && cut_off(c->o.metrics_file);
	if (c->o.metrics_command && !(m->feed = feed_open(c->o.metrics_command, e))) {
		if (m->json)
			fclose(m->json);
		free(m);
		return NULL;
	}
	if (scalars_open(&m->scalars, c, iteration, e) < 0) {
		if (m->json)
			fclose(m->json);
		feed_close(m->feed);
		free(m);
		return NULL;
	}
	if (c->start == START_RESUME)
		write_resume(m, iteration);
	return m;
}

/* Of the whole world. A step too short for the clock gives 0, not infinity, which JSON cannot
 * hold. */
static double
tokens_per_second(const struct metrics *m, double seconds, int64_t samples)
{
	return seconds > 0 ? (double)(samples * m->seq_length) / seconds : 0;
}

/* Per rank, from the arithmetic of the model (lib/model/work), not from what the device did. */
double
metrics_tflops(const struct metrics *m, double seconds, int64_t samples)
{
	return seconds > 0 ? m->flops * (double)samples / seconds / 1e12 / (double)m->world : 0;
}

/* The model's FLOP/s as a share of the measured attainable rate; NAN where they are not known. */
static double
attainable_share(
    const struct metrics *m, const struct step_metrics *s, double seconds, int64_t samples)
{
	double reached = metrics_tflops(m, seconds, samples) * 1e12 * (double)m->world;

	return s->attainable > 0 ? reached / s->attainable : NAN;
}

/* The mean power of a rank, in watts. */
static double
watts(const struct metrics *m, double seconds, double joules)
{
	return seconds > 0 ? joules / seconds / (double)m->world : 0;
}

/* NaN and infinity, which JSON cannot hold, become null: the norm of a skipped step is not
 * finite. */
static void
number(struct str *s, const char *key, double v)
{
	str_addf(s, ", \"%s\": ", key);
	if (isfinite(v))
		str_addf(s, "%.17g", v);
	else
		str_adds(s, "null");
}

/* With %.17g every double is read back exactly. Flushed each step, so that a follower sees it and a
 * killed run loses nothing. */
static void
json_line(struct metrics *m, const struct step_metrics *s)
{
	const struct metrics_routers *r = &s->routers;
	struct str line = { 0 };
	char key[32];
	int64_t samples = s->left_out ? 0 : s->samples;

	str_addf(&line, "{\"iteration\": %lld, \"consumed_samples\": %lld", (long long)s->iteration,
	    (long long)s->consumed_samples);
	number(&line, "lm_loss", s->left_out ? NAN : s->lm_loss);
	if (m->o->use_z_loss)
		number(&line, "z_loss", s->left_out ? NAN : s->z_loss);
	for (int64_t i = 0; i < m->later_layers; i++) {
		snprintf(key, sizeof key, "mtp_%lld_loss", (long long)i + 1);
		number(&line, key, s->left_out ? NAN : s->later_loss[i]);
	}
	number(&line, "grad_norm", s->skipped ? NAN : s->grad_norm);
	if (m->o->log_num_zeros_in_grad)
		number(&line, "num_zeros", s->skipped ? NAN : s->num_zeros);
	if (m->o->log_params_norm)
		number(&line, "params_norm", s->params_norm);
	number(&line, "lr", s->lr);
	if (m->decoupled)
		number(&line, "decoupled_lr", s->vocab_lr);
	number(&line, "weight_decay", s->weight_decay);
	number(&line, "loss_scale", s->loss_scale);
	str_addf(&line, ", \"skipped\": %s", s->skipped ? "true" : "false");
	number(&line, "tokens_per_second", tokens_per_second(m, s->seconds, samples));
	number(&line, "tflops_per_rank", metrics_tflops(m, s->seconds, samples));
	if (s->fill > 0)
		number(&line, "fill", s->fill);
	if (m->o->log_attainable)
		number(&line, "ceiling_share", attainable_share(m, s, s->seconds, samples));
	if (m->o->log_energy) {
		number(&line, "joules", s->joules);
		number(&line, "watts_per_rank", watts(m, s->seconds, s->joules));
	}
	if (m->experts && !s->left_out) {
		if (m->balanced)
			number(&line, "load_balancing_loss", r->balance);
		number(&line, "router_z_loss", r->square);
		number(&line, "router_entropy", r->entropy);
		number(&line, "max_expert_load", r->busiest);
		if (m->shared) {
			number(&line, "expert_rounds", r->rounds);
			number(&line, "max_rank_load", r->fullest);
		}
		if (m->drops)
			number(&line, "dropped_rows", r->dropped);
	}
	if (m->o->log_memory_to_tensorboard) {
		number(&line, "planned_bytes", (double)s->planned_bytes);
		number(&line, "used_bytes", (double)s->used_bytes);
	}
	number(&line, "seconds", s->seconds);
	number(&line, "data_wait_seconds", s->data_wait);
	for (int w = WAIT_DATA; w <= WAIT_PIPELINE; w++) {
		snprintf(key, sizeof key, "exposed_%s_comm_ms", exposed[w]);
		number(&line, key, s->exposed[w] * 1e3);
	}
	str_addf(&line, ", \"time\": %.3f", clock_unix());
	put_line(m, &line);
}

/* Tags are Megatron-LM's (training_log of megatron/training/training.py); a step that is skipped
 * has neither norm nor zeros of gradients. Errors are kept and reported when the scalars
 * are closed. */
static void
add_scalars(struct metrics *m, const struct step_metrics *s)
{
	const struct train_options *o = m->o;
	const struct {
		bool wanted;
		const char *tag;
		double value;
	} point[] = {
		{ true, "learning-rate", s->lr },
		{ m->decoupled, "decoupled-learning-rate", s->vocab_lr },
		{ true, "batch-size", (double)s->samples },
		{ true, "lm loss", s->lm_loss },
		{ true, "loss-scale", s->loss_scale },
		{ o->log_world_size_to_tensorboard, "world-size", (double)m->world },
		{ !s->skipped, "grad-norm", s->grad_norm },
		{ !s->skipped && o->log_num_zeros_in_grad, "num-zeros", s->num_zeros },
		{ o->log_params_norm, "params-norm", s->params_norm },
		{ m->balanced, "load_balancing_loss", s->routers.balance },
		{ m->experts, "router z_loss", s->routers.square },
		{ m->experts, "router entropy", s->routers.entropy },
		{ m->experts, "max expert load", s->routers.busiest },
		{ m->shared, "expert rounds", s->routers.rounds },
		{ m->shared, "max rank load", s->routers.fullest },
		{ m->drops, "dropped rows", s->routers.dropped },
	};
	struct scalars_at at = { s->iteration, s->consumed_samples };
	char tag[32];

	for (int64_t i = 0; i < m->later_layers; i++) {
		snprintf(tag, sizeof tag, "mtp_%lld loss", (long long)i + 1);
		scalars_add(m->scalars, tag, s->iteration, s->later_loss[i]);
	}
	for (size_t i = 0; i < sizeof point / sizeof *point; i++)
		if (point[i].wanted)
			scalars_add_both(m->scalars, point[i].tag, at, point[i].value);
	if (o->log_memory_to_tensorboard) {
		scalars_add(
		    m->scalars, "mem-planned-bytes", s->iteration, (double)s->planned_bytes);
		scalars_add(m->scalars, "mem-used-bytes", s->iteration, (double)s->used_bytes);
	}
	scalars_add(m->scalars, "iteration-time", s->iteration, s->seconds);
	scalars_add(
	    m->scalars, "throughput", s->iteration, metrics_tflops(m, s->seconds, s->samples));
	if (s->attainable > 0)
		scalars_add(m->scalars, "ceiling-share", s->iteration,
		    attainable_share(m, s, s->seconds, s->samples));
	if (o->log_energy && !isnan(s->joules)) {
		scalars_add(
		    m->scalars, "iter-energy/gpu", s->iteration, s->joules / (double)m->world);
		scalars_add(m->scalars, "power/gpu", s->iteration, watts(m, s->seconds, s->joules));
	}
	scalars_flush(m->scalars);
}

/* A reader that has left, such as head, ends the log and not the run. Any other failure of standard
 * output is reported when the program ends. */
static void
flush_log(void)
{
	if (fflush(stdout) == 0 || errno != EPIPE || !freopen("/dev/null", "w", stdout))
		return;
	note("standard output is closed: the log ends here, and the run continues");
}

/* The fields from the loss to the norms. Averages are over the successful steps of the interval;
 * without any, no loss is printed, nor is what a skipped step lacks, as in Megatron-LM. The
 * learning rate, the batch and the norms are those of the last step. */
static void
add_losses(struct str *line, const struct metrics *m, const struct step_metrics *s)
{
	int64_t good = m->steps - m->skipped;

	if (good)
		str_addf(line, " lm loss: %.6E |", m->loss / (double)good);
	if (good && m->o->use_z_loss)
		str_addf(line, " z_loss: %.6E |", m->zloss / (double)good);
	if (good && m->balanced)
		str_addf(line, " load_balancing_loss: %.6E |", m->balance / (double)good);
	if (good && m->experts)
		str_addf(line, " router z_loss: %.6E |", m->square / (double)good);
	if (good && m->shared)
		str_addf(line, " expert rounds: %.3f | max rank load: %.3f |",
		    m->rounds / (double)good, m->fullest);
	if (good && m->drops)
		str_addf(line, " dropped rows: %.4f |", m->dropped / (double)good);
	for (int64_t i = 0; good && i < m->later_layers; i++)
		str_addf(
		    line, " mtp_%lld loss: %.6E |", (long long)i + 1, m->later[i] / (double)good);
	str_addf(line, " loss scale: %.1f |", s->loss_scale);
	if (!s->skipped)
		str_addf(line, " grad norm: %.3f |", s->grad_norm);
	if (!s->skipped && m->o->log_num_zeros_in_grad)
		str_addf(line, " num zeros: %.0f |", s->num_zeros);
	if (m->o->log_params_norm)
		str_addf(line, " params norm: %.3f |", s->params_norm);
}

void
metrics_stamp(struct str *line)
{
	time_t now = time(NULL);
	char when[32];
	struct tm tm;

	localtime_r(&now, &tm);
	strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
	str_addf(line, " [%s]", when);
}

static void
begin_interval(struct metrics *m)
{
	m->steps = m->samples = m->skipped = m->nan = 0;
	m->loss = m->zloss = m->seconds = m->joules = 0;
	m->balance = m->square = m->rounds = m->dropped = m->fullest = 0;
	memset(m->later, 0, sizeof m->later);
	memset(m->exposed, 0, sizeof m->exposed);
}

/* Fields are in Megatron-LM's order. Begins the next interval. */
static void
log_line(struct metrics *m, const struct step_metrics *s)
{
	struct str line = { 0 };

	metrics_stamp(&line);
	str_addf(&line, " iteration %8lld/%8lld | consumed samples: %12lld |",
	    (long long)s->iteration, (long long)m->train_iters, (long long)s->consumed_samples);
	if (s->passed_samples > 0)
		str_addf(&line, " skipped samples: %12lld |", (long long)s->passed_samples);
	str_addf(&line, " elapsed time per iteration (ms): %.1f |",
	    m->seconds * 1000 / (double)m->steps);
	str_addf(&line, " throughput per GPU (TFLOP/s/GPU): %.3f |",
	    metrics_tflops(m, m->seconds, m->samples));
	if (m->o->log_energy && !isnan(m->joules))
		str_addf(&line,
		    " energy per GPU (J/iter/GPU): %.1f | power per GPU (W/GPU): %.1f |",
		    m->joules / (double)m->steps / (double)m->world,
		    watts(m, m->seconds, m->joules));
	str_addf(&line, " learning rate: %.6E |", s->lr);
	if (m->decoupled)
		str_addf(&line, " decoupled learning rate: %.6E |", s->vocab_lr);
	str_addf(&line, " global batch size: %5lld |", (long long)s->samples);
	add_losses(&line, m, s);
	str_addf(&line, " number of skipped iterations: %3lld | number of nan iterations: %3lld |",
	    (long long)m->skipped, (long long)m->nan);
	str_addf(&line, " tokens per second: %.0f |", tokens_per_second(m, m->seconds, m->samples));
	if (s->attainable > 0)
		str_addf(&line, " share of ceiling (%%): %.2f |",
		    100 * attainable_share(m, s, m->seconds, m->samples));
	for (int w = WAIT_DATA; w <= WAIT_PIPELINE; w++)
		if (m->ranks[w] > 1)
			str_addf(&line, " exposed %s comm (ms): %.2f |", exposed[w],
			    m->exposed[w] * 1e3 / (double)m->steps);
	prog_progress_end();
	puts(line.buf);
	flush_log();
	str_release(&line);
	if (m->scalars)
		scalars_summary(m->scalars);
	begin_interval(m);
}

/* One line, with the means of the last steps. */
static void
progress(struct metrics *m, const struct step_metrics *s)
{
	struct lap *now = &m->lap[m->laps++ % LAPS];
	int64_t n = m->laps < LAPS ? m->laps : LAPS, samples = 0, left;
	double seconds = 0, rate;

	*now = (struct lap){ s->seconds, s->left_out ? 0 : s->samples };
	for (int64_t i = 0; i < n; i++) {
		seconds += m->lap[i].seconds;
		samples += m->lap[i].samples;
	}
	rate = tokens_per_second(m, seconds, samples);
	left = (int64_t)ceil(seconds / (double)n * (double)(m->train_iters - s->iteration));
	prog_progress("step %lld/%lld  %lld %%  loss %.2f  %.*f%s tokens/s  %lld:%02lld left",
	    (long long)s->iteration, (long long)m->train_iters,
	    (long long)(s->iteration * 100 / m->train_iters), s->lm_loss, rate < 1e3 ? 0 : 1,
	    rate < 1e3       ? rate
		: rate < 1e6 ? rate / 1e3
			     : rate / 1e6,
	    rate < 1e3       ? ""
		: rate < 1e6 ? "k"
			     : "M",
	    (long long)(left / 60), (long long)(left % 60));
}

/* Skipped steps count in time and number, not in the mean of the loss. The last step writes a
 * log line in any case. */
void
metrics_step(struct metrics *m, const struct step_metrics *s)
{
	m->steps++;
	m->samples += s->left_out ? 0 : s->samples;
	m->skipped += s->skipped;
	m->nan += s->skipped && !isfinite(s->lm_loss);
	m->seconds += s->seconds;
	m->joules += s->joules;
	for (int w = 0; w < WAIT_COUNT; w++)
		m->exposed[w] += s->exposed[w];
	if (!s->skipped) {
		m->loss += s->lm_loss;
		m->zloss += s->z_loss;
		for (int64_t i = 0; i < m->later_layers; i++)
			m->later[i] += s->later_loss[i];
		m->balance += s->routers.balance;
		m->square += s->routers.square;
		m->rounds += s->routers.rounds;
		m->dropped += s->routers.dropped;
		m->fullest = fmax(m->fullest, s->routers.fullest);
	}
	progress(m, s);
	if (m->json || m->feed)
		json_line(m, s);
	if (m->scalars && !s->left_out && s->iteration % m->o->tensorboard_log_interval == 0)
		add_scalars(m, s);
	if (s->iteration % m->o->log_interval == 0 || s->iteration == m->train_iters)
		log_line(m, s);
}

void
metrics_text(const char *text)
{
	prog_progress_end();
	puts(text);
	flush_log();
}

/* Megatron-LM's tag. */
void
metrics_timer(struct metrics *m, int64_t iteration, const char *name, double seconds)
{
	struct str tag = { 0 };

	if (!m->scalars)
		return;
	str_addf(&tag, "%s-time", name);
	scalars_add(m->scalars, tag.buf, iteration, seconds);
	str_release(&tag);
}

/* A string member. */
static void
text(struct str *s, const char *key, const char *value)
{
	str_addf(s, ", \"%s\": ", key);
	str_add_json(s, value, strlen(value));
}

/* The exponent is cut off at 20, as in Megatron-LM, so that the perplexity of an untrained model
 * stays printable. "split" tells the lines from those of steps in the JSON. The log line
 * is Megatron-LM's, which calls the test one more validation; tags in TensorBoard tell the two
 * apart. */
void
metrics_evaluation(struct metrics *m, const struct metrics_evaluation *e)
{
	struct str line = { 0 }, name = { 0 }, tag = { 0 };
	struct scalars_at at = { e->iteration, e->consumed_samples };
	double ppl = exp(fmin(20, e->lm_loss));

	str_adds(&name, !strcmp(e->split, "valid") ? "validation" : e->split);
	if (e->set)
		str_addf(&name, "-%s", e->set);
	prog_progress_end();
	printf(" validation%s%s loss at iteration %lld%s | lm loss value: %.6E | lm loss PPL: "
	       "%.6E | \n",
	    e->set ? "-" : "", e->set ? e->set : "", (long long)e->iteration,
	    !strcmp(e->split, "test") ? " on test set"
		: e->last             ? " on validation set"
				      : "",
	    e->lm_loss, ppl);
	flush_log();
	if (m->json || m->feed) {
		str_addf(&line, "{\"iteration\": %lld", (long long)e->iteration);
		text(&line, "split", e->split);
		if (e->set)
			text(&line, "set", e->set);
		number(&line, "lm_loss", e->lm_loss);
		number(&line, "ppl", ppl);
		put_line(m, &line);
	}
	if (m->scalars) {
		str_addf(&tag, "lm loss %s", name.buf);
		scalars_add_both(m->scalars, tag.buf, at, e->lm_loss);
		str_adds(&tag, " ppl");
		scalars_add_both(m->scalars, tag.buf, at, ppl);
		str_release(&tag);
	}
	str_release(&name);
}

/* A line of a figure; "task" tells it from the others. */
static void
task_line(struct metrics *m, const struct metrics_task *t, const struct task_score *s)
{
	struct str line = { 0 };

	if (!m->json && !m->feed)
		return;
	str_addf(&line, "{\"iteration\": %lld", (long long)t->iteration);
	text(&line, "task", t->name);
	text(&line, "metric", s->metric);
	number(&line, "value", s->value);
	number(&line, "stderr", s->error);
	str_addf(&line, ", \"samples\": %lld", (long long)t->samples);
	put_line(m, &line);
}

/* Figures have the digits that lm-evaluation-harness prints. */
void
metrics_task(struct metrics *m, const struct metrics_task *t)
{
	struct str line = { 0 }, tag = { 0 };

	str_addf(&line, " task %s at iteration %lld | samples: %lld |", t->name,
	    (long long)t->iteration, (long long)t->samples);
	for (int i = 0; i < t->count; i++) {
		const struct task_score *s = &t->score[i];

		str_addf(&line, " %s: %.4f", s->metric, s->value);
		if (isfinite(s->error))
			str_addf(&line, " +- %.4f", s->error);
		str_adds(&line, " |");
		task_line(m, t, s);
		str_clear(&tag);
		str_addf(&tag, "eval/%s/%s", t->name, s->metric);
		if (m->scalars)
			scalars_add(m->scalars, tag.buf, t->iteration, s->value);
	}
	metrics_text(line.buf);
	str_release(&line);
	str_release(&tag);
}

/* "layer" tells the lines from the others. */
void
metrics_loads(struct metrics *m, int64_t iteration, const struct metrics_load *l)
{
	struct str line = { 0 };

	if (!m->json && !m->feed)
		return;
	str_addf(&line, "{\"iteration\": %lld, \"layer\": %lld, \"expert_load\": [",
	    (long long)iteration, (long long)l->layer);
	for (int i = 0; i < l->count; i++)
		str_addf(&line, "%s%.4f", i ? ", " : "", l->load[i]);
	str_addc(&line, ']');
	put_line(m, &line);
}

/* "corpus" tells the lines from the others. */
void
metrics_corpus(struct metrics *m, int64_t iteration, const struct metrics_corpus *c)
{
	struct str line = { 0 };

	if (!m->json && !m->feed)
		return;
	str_addf(&line, "{\"iteration\": %lld", (long long)iteration);
	text(&line, "corpus", c->name);
	str_addf(&line, ", \"consumed_samples\": %lld, \"consumed_tokens\": %lld",
	    (long long)c->consumed_samples, (long long)c->consumed_tokens);
	if (c->trained_tokens >= 0)
		str_addf(&line, ", \"trained_tokens\": %lld", (long long)c->trained_tokens);
	if (c->stage)
		str_addf(&line, ", \"stage\": %d", c->stage);
	number(&line, "epochs", c->epochs);
	if (c->tokens > 0) {
		number(&line, "lm_loss", c->lm_loss);
		number(&line, "tokens", c->tokens);
	}
	put_line(m, &line);
}

/* "rewind_to" tells the lines from the others. A spike that is not a number is an iteration of the
 * next log line. */
void
metrics_rewind(struct metrics *m, const struct metrics_rewind *r)
{
	struct str line = { 0 };

	prog_progress_end();
	note("iteration %lld: a loss of %g, and a median of %g before it: back to iteration %lld; "
	     "iterations %lld to %lld are passed over",
	    (long long)r->spike.iteration, r->spike.loss, r->spike.median, (long long)r->to,
	    (long long)r->passed.first, (long long)r->passed.last);
	begin_interval(m);
	m->nan = !isfinite(r->spike.loss);
	if (!m->json && !m->feed)
		return;
	str_addf(&line, "{\"iteration\": %lld, \"rewind_to\": %lld", (long long)r->spike.iteration,
	    (long long)r->to);
	str_addf(&line, ", \"passed_first\": %lld, \"passed_last\": %lld",
	    (long long)r->passed.first, (long long)r->passed.last);
	number(&line, "lm_loss", r->spike.loss);
	number(&line, "median_loss", r->spike.median);
	put_line(m, &line);
}

/* "stopped_by" tells the line from the others. */
void
metrics_stop(struct metrics *m, int64_t iteration, const char *why)
{
	struct str line = { 0 };

	if (!m->json && !m->feed)
		return;
	str_addf(&line, "{\"iteration\": %lld", (long long)iteration);
	text(&line, "stopped_by", why);
	str_addf(&line, ", \"time\": %.3f", clock_unix());
	put_line(m, &line);
}

/* -1 with the first path on which anything written was lost. NULL is closed already. */
int
metrics_close(struct metrics *m, int status, struct err *e)
{
	int rc = 0;

	if (!m)
		return 0;
	feed_close(m->feed);
	if (m->json && fclose(m->json) != 0 && !m->lost)
		m->lost = errno;
	if (m->lost) {
		errno = m->lost;
		rc = err_sys(e, "write", m->o->metrics_file);
	}
	if (scalars_close(m->scalars, status, e) < 0)
		rc = -1;
	free(m);
	return rc;
}

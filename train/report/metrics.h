/*
 * metrics.h - the reports of a run: log lines, JSON Lines, TensorBoard, W&B
 *
 * Standard output gets one line per log interval in Megatron-LM's form and order of fields; the
 * learning rate is the one used. --metrics-file gets one JSON object per step with full precision:
 * iteration, consumed_samples, lm_loss, z_loss, mtp_1_loss and so forth, grad_norm, num_zeros,
 * params_norm, lr, decoupled_lr, weight_decay, loss_scale, skipped, tokens_per_second,
 * tflops_per_rank, ceiling_share, joules, watts_per_rank, load_balancing_loss, router_z_loss, router_entropy,
 * max_expert_load, expert_rounds, max_rank_load, dropped_rows, planned_bytes, used_bytes, seconds,
 * data_wait_seconds, exposed_data_comm_ms, exposed_tensor_comm_ms, exposed_context_comm_ms,
 * exposed_pipeline_comm_ms, time; one per evaluation: iteration, split, set (of several), lm_loss,
 * ppl; one per figure of a task: iteration, task, metric, value, stderr, samples; one per corpus at
 * log steps, and one per layer with experts (layer, expert_load); one per
 * rewind; and one where a run resumes (resumed_on_ranks) and where it is stopped (stopped_by).
 * Only one rank writes.
 */
#ifndef TRAIN_REPORT_METRICS_H
#define TRAIN_REPORT_METRICS_H

#include "lib/data/task_scores.h"
#include "train/config/train_config.h"
#include "train/engine/timing.h"

struct metrics;

/* Of models with experts, means over layers and tokens: the loss that balances their load, which
 * is 1 at perfect balance, the square of the router's log-sum-exp and its entropy in nats; and the
 * load of the busiest expert of any layer, where 1 is the mean. Where ranks share experts, of a
 * layer in a micro batch: the rounds in which a rank takes its rows, on average, and the most rows
 * of a rank, where 1 is the mean. Where experts have a capacity: the share of rows that are
 * dropped. */
struct metrics_routers {
	double balance, square, entropy, busiest, rounds, fullest, dropped;
};

/* Loads of the experts of a layer, where 1 is the mean. */
struct metrics_load {
	int64_t layer;
	int count;
	const double *load;
};

struct step_metrics {
	int64_t iteration, consumed_samples, samples; /* samples: of the step */
	int64_t passed_samples; /* of the consumed, in steps that were passed over */
	double lm_loss, z_loss, grad_norm, lr, vocab_lr, weight_decay, loss_scale, seconds;
	double later_loss[MODEL_MTP_MAX]; /* of each layer that predicts later tokens */
	double params_norm, num_zeros;    /* on request, as are the bytes of rank 0 */
	uint64_t planned_bytes, used_bytes;
	double joules;              /* over all ranks; NAN: not known */
	double attainable;          /* FLOP/s that all ranks reach; 0 or NAN: not known */
	double fill;                /* of packed samples, the share that is no padding; else 0 */
	double data_wait;           /* seconds of the step that rank 0 waited for batches */
	double exposed[WAIT_COUNT]; /* and that it only waited for communication of each kind */
	struct metrics_routers routers;
	bool skipped;
	bool left_out; /* passed over: nothing was computed */
};

/* set: the name of one of several validation sets, or NULL. last: after training. */
struct metrics_evaluation {
	int64_t iteration, consumed_samples;
	const char *split, *set;
	bool last;
	double lm_loss;
};

/* What an evaluation makes of a task of so many samples. */
struct metrics_task {
	int64_t iteration, samples;
	const char *name;
	int count;
	struct task_score score[TASK_SCORES_MAX];
};

/* What a training corpus has given so far, and where tokens is not 0 its loss since the last such
 * line. */
struct metrics_corpus {
	const char *name;
	int64_t consumed_samples, consumed_tokens;
	int64_t trained_tokens; /* those that counted; -1: not known */
	int stage;              /* of a schedule, from 1 on; 0: none */
	double epochs, lm_loss, tokens;
};

/* Training went back to iteration `to` because of a spike; from there it passes over these. */
struct metrics_rewind {
	struct spike spike;
	int64_t to;
	struct spike_range passed;
};

/* The iteration of the last step that a metrics file has; 0 without one. path may be NULL. */
int64_t metrics_last(const char *path);
/* iteration: where the run stands. A resumed run appends to the same file. */
struct metrics *metrics_open(
    const struct train_config *c, int64_t world_size, int64_t iteration, struct err *e);
void metrics_step(struct metrics *m, const struct step_metrics *s);
void metrics_evaluation(struct metrics *m, const struct metrics_evaluation *e);
void metrics_task(struct metrics *m, const struct metrics_task *t);
void metrics_loads(struct metrics *m, int64_t iteration, const struct metrics_load *l);
void metrics_corpus(struct metrics *m, int64_t iteration, const struct metrics_corpus *c);
/* A note and a line; a new log interval begins. */
void metrics_rewind(struct metrics *m, const struct metrics_rewind *r);
/* The run is stopped after this iteration, which is saved. */
void metrics_stop(struct metrics *m, int64_t iteration, const char *why);
/* TFLOP/s of a rank that takes `seconds` for its share of `samples`. */
double metrics_tflops(const struct metrics *m, double seconds, int64_t samples);
/* Appends " [DATE TIME]", the beginning of a log line. */
void metrics_stamp(struct str *line);
/* Lines after the last log line. */
void metrics_text(const char *text);
/* Seconds of a timer, for TensorBoard and W&B alone. */
void metrics_timer(struct metrics *m, int64_t iteration, const char *name, double seconds);
/* status: the run's. -1 when anything written was lost. m may be NULL. */
int metrics_close(struct metrics *m, int status, struct err *e);

#endif

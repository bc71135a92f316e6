/* megatron_run.c - the state and the options of a run, from Megatron-LM's counters */
#include "lib/ckpt/megatron_args.h"
#include "lib/ckpt/megatron_run.h"
#include "lib/ckpt/torchzip.h"
#include "lib/model/lr.h"

#include <string.h>

/* The first of the names that is there: versions differ. */
static const struct pickle_value *
get_any(const struct pickle_value *v, const char *const *names)
{
	const struct pickle_value *found = NULL;

	for (; *names && !found; names++)
		found = pickle_get(v, *names);
	return found;
}

/* --- progress --------------------------------------------------------------------------------- */

/* A count among the args. */
static int64_t
count_of(const struct pickle_value *args, const char *name)
{
	int64_t n;

	return pickle_int(pickle_get(args, name), &n) && n > 0 ? n : 0;
}

/* The samples that training, or validation, has consumed. */
static int64_t
samples_of(const struct megatron_run *r, bool validation)
{
	if (r->args)
		return count_of(
		    r->args, validation ? "consumed_valid_samples" : "consumed_train_samples");
	return validation ? r->valid_samples : r->samples;
}

/* The schedule does not advance in steps without an update, and in those that are passed over,
 * which alone are counted in the args. */
static void
take_skipped(const struct megatron_run *r, struct run_state *st, struct source *s)
{
	static const char *const positions[] = { "num_steps", "num_iters", NULL };
	int64_t at, skipped;

	if (!pickle_int(get_any(r->scheduler, positions), &at))
		return;
	skipped = st->consumed_train_samples - at;
	if (skipped >= st->skipped_iterations &&
	    skipped <= st->consumed_train_samples - st->optimizer_steps &&
	    (skipped == 0 || st->skipped_iterations > 0)) {
		st->skipped_samples = skipped;
		st->passed_samples = count_of(r->args, "skipped_train_samples");
		if (st->passed_samples > skipped)
			st->passed_samples = STATE_NONE;
		return;
	}
	str_addf(&s->notes,
	    "%s: num_steps %lld of its schedule does not fit consumed_train_samples %lld and "
	    "skipped_iterations %lld: the learning rate follows these\n",
	    s->path, (long long)at, (long long)st->consumed_train_samples,
	    (long long)st->skipped_iterations);
}

/* False when the run has to be taken for one that begins. */
static bool
take_progress(const struct megatron_run *r, struct run_state *st, struct source *s)
{
	int64_t samples = samples_of(r, false), steps = r->optimizer_steps;
	bool known = r->iteration > 0 && samples >= r->iteration;

	st->iteration = known ? r->iteration : 0;
	st->consumed_train_samples = known ? samples : 0;
	st->optimizer_steps = steps < 0 || steps > st->iteration ? st->iteration : steps;
	st->skipped_iterations = st->iteration - st->optimizer_steps;
	if (known)
		take_skipped(r, st, s);
	else if (r->iteration > 0)
		str_addf(&s->notes,
		    "%s: iteration %lld has fewer consumed samples: taken for the start of a run\n",
		    s->path, (long long)r->iteration);
	if (known && samples_of(r, true))
		st->consumed_valid_samples = samples_of(r, true);
	return known;
}

/* --- the schedule ----------------------------------------------------------------------------- */

/* The numbers of opt_param_scheduler, with the names that they had in earlier versions. */
static const struct {
	const char *names[4];
	size_t off;
	bool whole;
} numbers[] = {
	{ { "max_lr", "start_lr" }, offsetof(struct lr_schedule, lr), false },
	{ { "min_lr" }, offsetof(struct lr_schedule, min_lr), false },
	{ { "start_wd" }, offsetof(struct lr_schedule, start_weight_decay), false },
	{ { "end_wd" }, offsetof(struct lr_schedule, end_weight_decay), false },
	{ { "lr_warmup_steps", "warmup_steps", "warmup_iter" },
	    offsetof(struct lr_schedule, warmup_samples), false },
	{ { "lr_decay_steps", "decay_steps", "end_iter" },
	    offsetof(struct lr_schedule, decay_samples), true },
	{ { "wd_incr_steps" }, offsetof(struct lr_schedule, wd_samples), true },
};

/* The line of the state, when the schedule is saved and one that we have. What opt_param_scheduler
 * does not have is in the args: the first rate, those of the vocabulary tables, and the tail of
 * WSD, in steps of a batch or in samples. */
static bool
print_schedule(const struct megatron_run *r, struct str *line)
{
	static const char *const styles[] = { "lr_decay_style", "decay_style", NULL };
	const struct pickle_value *args = r->args;
	struct lr_schedule l = { 0 };
	struct err e;

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		const struct pickle_value *v = get_any(r->scheduler, numbers[i].names);
		void *at = (char *)&l + numbers[i].off;

		if (numbers[i].whole ? !pickle_int(v, at) : !pickle_double(v, at))
			return false;
	}
	l.style = lr_index(lr_styles, pickle_string(get_any(r->scheduler, styles)));
	l.wd_style = lr_index(wd_styles, pickle_string(pickle_get(r->scheduler, "wd_incr_style")));
	pickle_double(pickle_get(args, "lr_warmup_init"), &l.lr_warmup_init);
	if (!pickle_double(pickle_get(args, "decoupled_lr"), &l.vocab_lr))
		l.vocab_lr = l.lr;
	if (!pickle_double(pickle_get(args, "decoupled_min_lr"), &l.vocab_min_lr))
		l.vocab_min_lr = l.min_lr;
	l.wsd_style = lr_index(wsd_styles, pickle_string(pickle_get(args, "lr_wsd_decay_style")));
	if (l.wsd_style < 0)
		l.wsd_style = lr_index(wsd_styles, "exponential");
	l.wsd_decay_samples = count_of(args, "train_samples")
	    ? count_of(args, "lr_wsd_decay_samples")
	    : count_of(args, "lr_wsd_decay_iters") * count_of(args, "global_batch_size");
	if (l.style < 0 || l.wd_style < 0 || lr_check(&l, &e) < 0)
		return false;
	lr_print(&l, line);
	return true;
}

void
megatron_run_state(const struct megatron_run *r, struct source *s)
{
	enum dtype dtype = torch_dtype(pickle_get(r->args, "params_dtype"));
	struct run_state st;
	struct str schedule = { 0 };

	state_init(&st);
	if (take_progress(r, &st, s) && print_schedule(r, &schedule))
		st.schedule = schedule.buf;
	else if (st.iteration > 0 && r->scheduler)
		str_addf(&s->notes,
		    "%s: its schedule is not read: a run takes that of its options\n", s->path);
	st.seed = pickle_int(pickle_get(r->args, "seed"), &st.seed) ? st.seed : STATE_NONE;
	if (st.seed < 0 || st.seed > UINT32_MAX)
		st.seed = STATE_NONE;
	if (dtype != DTYPE_NONE)
		st.dtype = dtype_name(dtype);
	if (r->adam) {
		st.optimizer = optim_rule_with(OPTIM_OF_MEGATRON)->name;
		st.weight_decay_form = "decoupled";
		pickle_double(pickle_get(r->args, "adam_beta1"), &st.adam_beta1);
		pickle_double(pickle_get(r->args, "adam_beta2"), &st.adam_beta2);
		pickle_double(pickle_get(r->args, "adam_eps"), &st.adam_eps);
	}
	state_print(&st, &s->state_text);
	str_release(&schedule);
}

void
megatron_run_left_out(
    struct source *s, bool (*has)(const void *ctx, const char *name), const void *ctx)
{
	static const struct {
		const char *name, *what;
	} states[] = {
		{ "rng_state", "the state of random numbers" },
		{ "rerun_state_machine", "the record of repeated steps" },
	};

	for (size_t i = 0; i < sizeof states / sizeof *states; i++)
		if (has(ctx, states[i].name))
			str_addf(&s->notes, "%s: %s is not read\n", s->path, states[i].what);
}

/* --- options ---------------------------------------------------------------------------------- */

/* The options of training that both have, and the runs that they are for: Megatron-LM also saves
 * what it derives from others. */
static const struct {
	const char *option;
	enum { ANY_RUN, OF_STEPS, OF_SAMPLES, STEADY_DECAY, GROWING_DECAY } runs;
} options[] = {
	{ "seq-length", ANY_RUN },
	{ "micro-batch-size", ANY_RUN },
	{ "global-batch-size", ANY_RUN },
	{ "bf16", ANY_RUN },
	{ "fp16", ANY_RUN },
	{ "train-iters", OF_STEPS },
	{ "train-samples", OF_SAMPLES },
	{ "seed", ANY_RUN },
	{ "lr", ANY_RUN },
	{ "min-lr", ANY_RUN },
	{ "lr-decay-style", ANY_RUN },
	{ "lr-decay-iters", OF_STEPS },
	{ "lr-decay-samples", OF_SAMPLES },
	{ "lr-warmup-iters", OF_STEPS },
	{ "lr-warmup-samples", OF_SAMPLES },
	{ "lr-warmup-fraction", ANY_RUN },
	{ "lr-warmup-init", ANY_RUN },
	{ "lr-wsd-decay-style", ANY_RUN },
	{ "lr-wsd-decay-iters", OF_STEPS },
	{ "lr-wsd-decay-samples", OF_SAMPLES },
	{ "weight-decay", STEADY_DECAY },
	{ "start-weight-decay", GROWING_DECAY },
	{ "end-weight-decay", GROWING_DECAY },
	{ "weight-decay-incr-style", ANY_RUN },
	{ "adam-beta1", ANY_RUN },
	{ "adam-beta2", ANY_RUN },
	{ "adam-eps", ANY_RUN },
	{ "clip-grad", ANY_RUN },
};

void
megatron_run_options(const struct pickle_value *args, struct str *out)
{
	const char *growth = pickle_string(pickle_get(args, "weight_decay_incr_style"));
	int style = lr_index(wd_styles, growth);
	bool samples = count_of(args, "train_samples"),
	     grows = growth && !(style >= 0 && wd_is_steady(style));
	const bool applies[] = { [ANY_RUN] = true,
		[OF_STEPS] = !samples,
		[OF_SAMPLES] = samples,
		[STEADY_DECAY] = !grows,
		[GROWING_DECAY] = grows };

	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (applies[options[i].runs])
			megatron_args_line(args, options[i].option, out);
}

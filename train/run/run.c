/*
 * run.c - a whole run after its options
 *
 * Only this file decides which ranks print and with which status the program ends; everything below
 * returns errors. The ranks agree on a failure before any of them leaves, so that none waits for a
 * rank that has ended.
 */
#include "lib/base/outfile.h"
#include "lib/base/prog.h"
#include "lib/ckpt/ckpt.h"
#include "lib/model/evaluation.h"
#include "lib/model/gpu.h"
#include "lib/model/hardware.h"
#include "lib/model/hosts.h"
#include "lib/model/layout_text.h"
#include "lib/model/rope.h"
#include "lib/model/sent.h"
#include "lib/model/operations_text.h"
#include "train/config/files.h"
#include "train/config/options.h"
#include "train/data/corpus_log.h"
#include "train/data/sample_losses.h"
#include "train/optim/optim.h"
#include "train/run/attainable.h"
#include "train/run/begin.h"
#include "train/run/calibrate.h"
#include "train/run/fits.h"
#include "train/run/generate.h"
#include "train/run/infer.h"
#include "train/run/leave.h"
#include "train/run/loop.h"
#include "train/run/rails.h"
#include "train/run/run.h"
#include "train/state/claim.h"
#include "train/state/hooks.h"
#include "train/state/preflight.h"
#include "train/state/saver.h"
#include "train/step/open.h"
#include "train/watch/comm_log.h"
#include "train/watch/stop.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Processes that were started together but not joined by MPI would each train the same model into
 * the same directory. The launchers' variables show it. */
int
train_check_launch(int world_size, struct err *e)
{
	static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS",
		"PBS_NP" };

	for (size_t i = 0; world_size == 1 && i < sizeof names / sizeof *names; i++) {
		const char *v = getenv(names[i]);

		if (v && strtol(v, NULL, 10) > 1)
			return err_set(e,
			    "%s says %s processes, but MPI reports one: start with mpirun, or "
			    "srun --mpi=pmix",
			    names[i], v);
	}
	return 0;
}

void
train_limits(const struct train_options *o, struct watchdog_config *c)
{
	struct watchdog_limit *start = &c->start, *steady = &c->steady;

	snprintf(start->name, sizeof start->name, "--distributed-timeout-minutes %g",
	    o->timeout_minutes);
	start->seconds = o->timeout_minutes * 60;
	*steady = *start;
	if (!o->timeout_seconds)
		return;
	snprintf(steady->name, sizeof steady->name, "--distributed-timeout-seconds-after-init %lld",
	    (long long)o->timeout_seconds);
	steady->seconds = (double)o->timeout_seconds;
}

/* Threads of a rank when the user gives none: its share of the machine's cores. */
static int
threads(const struct train_config *c, const struct comm *world)
{
	int local_size;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	mpi_local_rank(world, &local_size);
	if (c->o.num_threads)
		return (int)c->o.num_threads;
	return cores / local_size > 1 ? (int)(cores / local_size) : 1;
}

/* What a rank takes beside its arenas. A GPU backend that is named need not have its devices here,
 * nor a device that --gpu names: a plan is made for other machines. On the CPU, the staging buffers
 * of communication count. */
static uint64_t
other_bytes(const struct train_config *c, int pp)
{
	const char *name = mtrain_backends[c->o.backend];
	struct err err;
	bool gpu = opt_given(&c->parse, "gpu") && strcmp(hardware_names[c->o.gpu], "cpu") != 0;
	const struct backend *b =
	    strcmp(name, "cuda") != 0 && !gpu ? backend_choose(name, &err) : NULL;
	struct device_config d = { .num_threads = c->o.num_threads ? (int)c->o.num_threads : 1,
		.dtype = c->plan.shape.dtype,
		.deterministic = c->o.deterministic_mode };

	if (b && b->workspace)
		return b->workspace(&d) + mpi_staging_bytes();
	return gpu_workspace(&c->plan.layout, &c->plan.model, &c->plan.shape, pp);
}

int64_t
train_planned_ranks(const struct train_config *c, int world_size)
{
	return c->o.world_size ? c->o.world_size : c->o.ranks ? c->o.ranks : world_size;
}

/* --operations; returns the exit status. */
static int
write_operations(const struct train_config *c)
{
	struct str text = { 0 };
	struct err e;
	int rc = 0;

	if (c->o.operations) {
		operations_text(&c->plan, &text);
		rc = outfile_write(c->o.operations, text.buf, text.len, &e);
	}
	if (rc < 0)
		warn("--operations: %s", e.msg);
	str_release(&text);
	return rc < 0 ? EXIT_FAILED : EXIT_DONE;
}

/* TSV on stdout, one line per rank, in rank order; no memory is taken and no peer is asked.
 * engine_open takes its memory by the same plan, so the figures are those of a run. Tensor and data
 * ranks of a stage hold equally much, so each stage is planned once. */
int
train_dry_run(struct train_config *c, int64_t world_size)
{
	int64_t stages = c->plan.layout.pipeline_model_parallel_size;
	struct memory_plan *of;
	uint64_t *other;
	struct memory_stages held;
	struct err err;
	int status = infer_planned(c, &err);

	if (status != EXIT_DONE) {
		warn("%s", err.msg);
		return status;
	}
	of = mem_zalloc((size_t)stages, sizeof *of);
	other = mem_alloc((size_t)stages, sizeof *other);
	memory_stages_init(&held, &c->plan.model, &c->plan.layout, &c->plan.shape);
	for (int i = 0; i < stages; i++) {
		run_memory_stage(&of[i], &held, &c->plan, i);
		other[i] = other_bytes(c, i);
	}
	printf("rank\ttp\tcp\tdp\tpp\tparams_bytes\tsaved_bytes\tscratch_bytes\tworkspace_bytes\t"
	       "total_bytes\thost_bytes\n");
	for (int64_t rank = 0; rank < world_size; rank++) {
		int coord[AX_COUNT];
		const struct memory_plan *m;

		layout_coord(&c->plan.layout, rank, coord);
		m = &of[coord[AX_PP]];
		printf("%lld\t%d\t%d\t%d\t%d\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\n",
		    (long long)rank, coord[AX_TP], coord[AX_CP], coord[AX_DP], coord[AX_PP],
		    (unsigned long long)m->arena[ARENA_PARAMS],
		    (unsigned long long)m->arena[ARENA_SAVED],
		    (unsigned long long)m->arena[ARENA_SCRATCH],
		    (unsigned long long)other[coord[AX_PP]],
		    (unsigned long long)(memory_total(m) + other[coord[AX_PP]]),
		    (unsigned long long)m->arena[ARENA_HOST]);
	}
	for (int64_t i = 0; i < stages; i++) {
		other[i] += memory_total(&of[i]);
		memory_release(&of[i]);
	}
	memory_stages_release(&held);
	status = fits(c, world_size, other);
	if (status == EXIT_DONE)
		status = write_operations(c);
	free(other);
	free(of);
	return status;
}

static void
announce_experts(const struct run_plan *p)
{
	const struct model_config *c = &p->model;
	struct received_rows a = capacity_received(c, &p->layout, &p->shape);

	note("%lld of %lld layers have %lld experts, %lld for a token: %.1f M active "
	     "parameters",
	    (long long)model_expert_layers(c), (long long)c->num_layers, (long long)c->num_experts,
	    (long long)c->moe_router_topk, (double)model_active_parameters(c) / 1e6);
	if (a.rounds > 1)
		note("the experts of a rank take %lld rows of a micro batch at once, of at most "
		     "%lld, in up to %lld rounds (--moe-expert-rank-capacity-factor)",
		    (long long)a.round, (long long)a.most, (long long)a.rounds);
}

/* What the rank of each axis that sends the most sends to other hosts. */
static void
announce_sent(const struct run_plan *p, const struct comm *world)
{
	const struct host_places where = { .host = mpi_hosts(world) };
	struct sent t[SENT_AXES];
	struct str words = { 0 };

	sent_of(t, p, &where);
	for (int a = 0; a < SENT_AXES; a++)
		if (t[a].between > 0)
			str_addf(&words, "%s%s %.3g GB", words.len ? ", " : "", sent_axis_name[a],
			    t[a].between * 1e-9);
	if (words.len)
		note("to other hosts a step and rank: %s", words.buf);
	str_release(&words);
}

/* How rows go to experts of other hosts. */
static void
announce_expert_hosts(const struct run_plan *p, const struct comm *world)
{
	const struct host_places where = { .host = mpi_hosts(world) };
	int64_t hosts = layout_expert_hosts(&p->layout);

	if (!p->model.num_experts)
		return;
	if (hosts > 1)
		note("experts of a layer are on %lld hosts: a row goes to each once, and comes "
		     "back once",
		    (long long)hosts);
	else if (hosts_part_experts(&p->layout, &where))
		warn("experts of a layer exchange rows between hosts as messages, a row for each "
		     "of its experts, for which GPUs wait for the host: ranks that share an "
		     "expert must be on one host, and as many neighbours on each");
}

/* Where the ranks are, if there are several hosts, and what goes between them. */
static void
announce_hosts(const struct train_config *c, const struct comm *world, const struct rails *rails)
{
	struct str words = { 0 };

	hosts_words(&c->plan.layout, mpi_hosts(world), world->size, &words);
	if (strncmp(words.buf, "1 host ", 7)) {
		note("%s%s", words.buf, c->o.pretend_hosts > 1 ? " (--pretend-hosts)" : "");
		announce_expert_hosts(&c->plan, world);
		if (!c->plan.shape.forward_only)
			announce_sent(&c->plan, world);
		rails_say(rails);
	}
	str_release(&words);
}

/* On rank 0: what runs, with -v on which libraries, and where it differs from Megatron-LM, which is
 * in every run's log because it explains differences from Megatron-LM's loss. With -v every other
 * rank reports its memory in the words of rank 0's line. */
static void
announce(const struct train_config *c, const struct engine *e, const struct rails *rails)
{
	const struct run_plan *p = &c->plan;
	const uint64_t *arena = e->mem.arena;
	struct str words = { 0 };
	char memory[160], text[256];
	int n;

	n = snprintf(memory, sizeof memory, "parameters %llu, saved %llu, scratch %llu bytes",
	    (unsigned long long)arena[ARENA_PARAMS], (unsigned long long)arena[ARENA_SAVED],
	    (unsigned long long)arena[ARENA_SCRATCH]);
	if (arena[ARENA_HOST])
		snprintf(memory + n, sizeof memory - (size_t)n, ", and %llu on the host",
		    (unsigned long long)arena[ARENA_HOST]);
	if (e->rank != 0) {
		if (prog_level() > 0)
			note("memory of rank %d: %s", e->rank, memory);
		return;
	}
	layout_words(&p->layout, &words);
	note("%d ranks (%s) on %s, %.1f M parameters, %s; memory of rank 0: %s",
	    e->groups.world->size, words.buf, e->backend->name,
	    (double)model_num_parameters(&p->model) / 1e6, dtype_name(p->shape.dtype), memory);
	announce_hosts(c, e->groups.world, rails);
	if (!c->o.generate) {
		str_clear(&words);
		longrope_words(&p->model, p->shape.seq_length, &words);
		if (words.len)
			note("%s", words.buf);
	}
	if (prog_level() > 0 && e->backend->describe) {
		e->backend->describe(text, sizeof text);
		note("%s uses %s", e->backend->name, text);
	}
	if (p->layout.pipeline_model_parallel_size > 1) {
		str_clear(&words);
		split_text(&p->layout, &p->model, &words);
		note("pipeline stages hold --pipeline-model-parallel-layout '%s'", words.buf);
	}
	str_release(&words);
	if (p->model.num_experts)
		announce_experts(p);
	if (p->shape.forward_only && c->start == START_FRESH)
		note("the weights are random: neither --load nor --pretrained-checkpoint names "
		     "others");
	if (!p->shape.forward_only)
		note("unlike Megatron-LM: padding of the vocabulary is masked, the loss is a mean "
		     "over tokens, randomness depends on the seed alone (man mikoshi)");
}

/* Returns an exit status, or -1 on all ranks when it failed on one. */
static int
infer(struct run *r, struct requests *requests, int num_threads, struct err *err)
{
	int rc;

	stop_default_signals();
	if (begin_run(r, err) < 0)
		return -1;
	rc = r->c->o.tokens_file ? infer_logits(r->e, r->c, err)
				 : generate(r->e, requests, num_threads, err);
	if (rc > 0)
		return rc;
	return comm_agree(COMM_HERE(r->e->groups.world), rc, err) ? -1 : 0;
}

/* --calibrate; likewise. */
static int
measure(struct run *r, struct err *err)
{
	stop_default_signals();
	return comm_agree(COMM_HERE(r->e->groups.world), calibrate(r->e, r->c, err), err) ? -1 : 0;
}

/* Makes a claimed --save that of a run that continues from a checkpoint. What rank 0 opens after it
 * belongs to who holds the lock, wherever it is. */
static int
take_over(struct run *r, struct err *err)
{
	struct train_config *c = r->c;
	int64_t at = r->at.iteration;

	if (lock_check(r->lock, err) < 0)
		return -1;
	if (!r->lock || c->start != START_RESUME)
		return 0;
	if (at < c->train_iters && claim_set_aside(c, at, err) < 0)
		return -1;
	return ckpt_add_tracker(c->o.save, at, r->lock, err);
}

/* Opens what rank 0 will write to, so that it fails now rather than at the first checkpoint. Rank 0
 * alone; the caller spreads the result. */
static int
open_outputs(struct run *r, struct err *err)
{
	struct train_config *c = r->c;

	if (c->start != START_FRESH)
		note("%s %s at iteration %lld",
		    c->start == START_RESUME ? "resuming" : "weights from", c->weights_from,
		    (long long)r->at.iteration);
	if (take_over(r, err) < 0)
		return -1;
	leave_begin();
	leave_lost(r);
	if (!c->o.skip_train && hooks_open(c, &r->hooks, err) < 0)
		return -1;
	r->metrics = metrics_open(c, r->e->groups.world->size, r->at.iteration, err);
	return r->metrics ? 0 : -1;
}

/* The steps, and what only they need. Saves run in the background on a GPU unless the user would
 * rather wait; on a CPU, where the copies double the memory of a run, only on request. Returns the
 * exit status. */
static int
train_steps(struct run *r)
{
	struct train_config *c = r->c;
	bool first = r->e->rank == 0,
	     background = !c->o.wait_for_save && (c->o.async_save || r->e->backend->pin);
	int status;

	if (r->at.iteration >= c->train_iters && first)
		note("iteration %lld is already the last: nothing to train",
		    (long long)r->at.iteration);
	r->sample_losses = sample_losses_open(r->data, r->e, r->at.iteration);
	if (c->o.profile && first)
		r->profile = profile_new(r->e,
		    &(struct profile_config){
			c->o.profile_prefix, c->o.profile_step_start, c->o.profile_step_end });
	if (c->o.log_attainable)
		r->attainable = attainable_measure(r->e);
	r->timers = timers_new(&c->o, r->e);
	if (c->o.log_energy)
		r->energy = energy_new(r->e);
	r->routers = routers_new(r->e);
	if (c->o.save)
		r->saver = saver_new(r->e, c, r->lock, r->hooks, background);
	status = loop_train(r);
	saver_free(r->saver);
	hooks_close(r->hooks);
	profile_free(r->profile);
	timers_free(r->timers);
	energy_free(r->energy);
	sample_losses_close(r->sample_losses);
	routers_free(r->routers);
	return status;
}

/* Returns an exit status, or -1 with a reason and r->failure. Signals are caught since the
 * program began; evaluation alone has nothing to save. */
static int
train(struct run *r, struct err *err)
{
	struct train_config *c = r->c;
	struct comm *world = r->e->groups.world;
	bool first = world->rank == 0;
	int status;

	if (c->o.skip_train)
		stop_default_signals();
	else
		stop_catch_signal(c->o.exit_signal);
	if (c->o.save && !c->o.skip_train && preflight(r->e, c, err) < 0)
		return -1;
	if (!train_tasks_alone(c) && !(r->data = data_open(c, world, &r->failure, err)))
		return -1;
	if (begin_run(r, err) < 0)
		return -1;
	if (r->data) {
		r->audit = audit_start(r->data);
		r->prefetch = prefetch_new(r->e, r->data, iteration_counts_first(r));
		prefetch_start(r->prefetch, r->at.consumed_samples);
	}
	if (c->o.cuda_graphs)
		r->replay = replay_new(r->e);
	if (!c->o.skip_train)
		r->corpora = corpus_log_open(r->data, r->e, r->at.consumed_samples, err);
	if (!c->o.skip_train && !r->corpora)
		return -1;
	if (comm_agree(COMM_HERE(world), first ? open_outputs(r, err) : 0, err))
		return -1;
	status = c->o.skip_train ? loop_evaluate(r) : train_steps(r);
	return metrics_close(r->metrics, status < 0 ? r->failure : status, err) < 0 ? -1 : status;
}

/* Every rank is about to leave for the same reason, which rank 0 prints: comm_agree has set its
 * err->msg, whichever rank failed. */
static int
leave(const struct comm *world, int status, const struct err *err)
{
	if (world->rank == 0)
		warn("%s", err->msg);
	return status;
}

/* What --attention-backend names. */
static const enum attention_choice attentions[] = { ATTENTION_BEST, ATTENTION_LIBRARY,
	ATTENTION_TILED, ATTENTION_PLAIN, ATTENTION_PLAIN, ATTENTION_HOPPER };

/* Collective. Returns the exit status of the program. Inference shapes the plan before the engine
 * takes memory by it. */
int
train_run(struct train_config *c, struct comm *world, struct watchdog *watchdog)
{
	struct engine engine;
	struct run r = { .c = c,
		.e = &engine,
		.lock = c->lock,
		.watchdog = watchdog,
		.watch.clock = clock_seconds,
		.failure = EXIT_FAILED };
	struct err err = { "" };
	struct engine_config ec = {
		.plan = &c->plan,
		.backend = backend_choose(mtrain_backends[c->o.backend], &err),
		.num_threads = threads(c, world),
		.seed = (uint64_t)c->o.seed,
		.z_loss = c->o.use_z_loss ? c->o.z_loss : 0,
		.deterministic = c->o.deterministic_mode,
		.attention = attentions[c->o.attention_backend],
		.overlap_grad_reduce = c->o.overlap_grad_reduce,
		.overlap_param_gather = c->o.overlap_param_gather,
	};
	bool able = ec.backend && optim_check_uses(c->o.run.optimizer, ec.backend, &err) == 0 &&
	    engine_check_uses(&c->plan.model, ec.backend, &err) == 0;
	bool infers = c->o.tokens_file || c->o.generate;
	struct requests requests = { 0 };
	struct task_requests tasks = { 0 };
	struct rails rails;
	int status;

	if (comm_agree(COMM_HERE(world), able ? 0 : -1, &err))
		return leave(world, EXIT_USAGE, &err);
	status = infer_plan(c, world, &requests, &err);
	if (comm_agree(COMM_HERE(world), status == EXIT_DONE ? 0 : -1, &err)) {
		requests_release(&requests);
		return leave(world, status == EXIT_DONE ? EXIT_FAILED : status, &err);
	}
	if (c->plan.tasks) {
		r.tasks = &tasks;
		if (comm_agree(
			COMM_HERE(world), task_requests_open(&tasks, c, world, &err), &err)) {
			task_requests_release(&tasks);
			return leave(world, EXIT_FAILED, &err);
		}
	}
	if (!c->plan.shape.forward_only)
		signal(SIGPIPE, SIG_IGN); /* a run with something to save outlives its readers */
	if (engine_open(&engine, &ec, world, &err) < 0)
		return leave(world, EXIT_FAILED, &err);
	r.planned_bytes = memory_total(&engine.mem) + other_bytes(c, engine.coord[AX_PP]);
	fault_join(c->fault, &engine);
	rails = rails_measure(&engine);
	announce(c, &engine, &rails);
	rails_release(&rails);
	status = c->o.calibrate ? measure(&r, &err)
	    : infers            ? infer(&r, &requests, ec.num_threads, &err)
				: train(&r, &err);
	if (status < 0)
		status = leave(world, r.failure, &err);
	corpus_log_close(r.corpora);
	prefetch_free(r.prefetch);
	audit_free(r.audit);
	replay_free(r.replay);
	data_close(r.data);
	engine_close(&engine);
	free(r.scores);
	requests_release(&requests);
	task_requests_release(&tasks);
	return status;
}

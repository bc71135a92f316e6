/* train.c - a checkpoint's description of a run is read back; which models are equal; where micro
 * batches start */
#include "lib/model/family.h"
#include "tests/check.h"
#include "tests/sized_model.h"
#include "train/engine/pipeline.h"
#include "train/run/config.h"

static struct err e;

static void
test_schedule_line(void)
{
	struct lr_schedule s = { LR_WSD, WSD_MINUS_SQRT, WD_COSINE, 1.0 / 3, 1e-300, 1.0 / 7, 1e-9,
		0.1, 5e-324, 1.7976931348623157e308, 1, INT64_MAX, 12345678901, 0 },
			   back;
	struct str line = { 0 }, again = { 0 };

	lr_print(&s, &line);
	CHECK(!strchr(line.buf, '\n'));
	CHECK(lr_parse(line.buf, &back) == 0);
	CHECK(
	    back.style == s.style && back.wsd_style == s.wsd_style && back.wd_style == s.wd_style);
	CHECK(
	    back.lr == s.lr && back.min_lr == s.min_lr && back.lr_warmup_init == s.lr_warmup_init);
	CHECK(back.vocab_lr == s.vocab_lr && back.vocab_min_lr == s.vocab_min_lr);
	CHECK(back.start_weight_decay == s.start_weight_decay &&
	    back.end_weight_decay == s.end_weight_decay);
	CHECK(back.warmup_samples == s.warmup_samples && back.decay_samples == s.decay_samples);
	CHECK(back.wsd_decay_samples == s.wsd_decay_samples && back.wd_samples == s.wd_samples);
	lr_print(&back, &again);
	CHECK_STR(again.buf, line.buf);
	*strrchr(line.buf, ' ') = '\0';
	CHECK(lr_parse(line.buf, &back) == -1);
	*strrchr(line.buf, ' ') = '\0';
	CHECK(lr_parse(line.buf, &back) == 0 && back.vocab_lr == s.lr &&
	    back.vocab_min_lr == s.min_lr);
	*strrchr(line.buf, ' ') = '\0';
	CHECK(lr_parse(line.buf, &back) == -1);
	CHECK(lr_parse("", &back) == -1);
	CHECK(lr_parse("0 0 0 lr 0 0 0 0 1 2 3 4", &back) == -1);
	CHECK(lr_parse("5 0 0 1 0 0 0 0 1 2 3 4", &back) == -1);
	str_clear(&line);
	lr_describe(&(struct lr_schedule){ LR_WSD, WSD_LINEAR, WD_COSINE, 0.01, 0.001, 0, 0.01,
			0.002, 0.1, 0.2, 6.4, 128, 32, 256 },
	    &line);
	CHECK_STR(line.buf,
	    "lr 0.01\nmin-lr 0.001\ndecoupled-min-lr 0.002\nlr-warmup-init 0.0\n"
	    "lr-warmup-samples 6.4\n"
	    "lr-decay-style WSD\nlr-decay-samples 128\nlr-wsd-decay-style linear\n"
	    "lr-wsd-decay-samples 32\nstart-weight-decay 0.1\nend-weight-decay 0.2\n"
	    "weight-decay-incr-style cosine\n");
	str_release(&line);
	str_release(&again);
}

/* A run of a small GPT-2. */
static struct train_config
small(void)
{
	struct train_config c = { .eod = -1 };
	struct model_config *m = &c.plan.model;

	*m = sized_model((struct model_sizes){ 2, 32, 4, 4, 128, 16, 100 });
	m->qkv_bias = m->proj_bias = m->mlp_bias = true;
	return c;
}

/* Compares the run with a checkpoint of the model that `text` describes: 0, or -1 and the
 * reason. */
static int
same_model(const struct train_config *run, const struct train_config *saved)
{
	e.msg[0] = '\0';
	return train_same_model(run, "options.conf", &saved->plan.model, &e);
}

static void
test_same_model(void)
{
	struct train_config run = small(), saved = small();

	CHECK(same_model(&run, &saved) == 0);
	saved.plan.model.hidden_dropout = 0.5;
	saved.plan.model.init_method_std = 0.1;
	saved.plan.model.eos_token_id = (struct id_list){ 2, { 3, 5 } };
	CHECK(same_model(&run, &saved) == 0);
	saved.plan.model.max_position_embeddings = 32;
	CHECK(same_model(&run, &saved) == -1);
	CHECK_STR(e.msg, "options.conf: the checkpoint has max-position-embeddings 32, the run 16");
	run.plan.model.position = saved.plan.model.position = POSITION_ROPE;
	CHECK(same_model(&run, &saved) == 0);
	saved.plan.model.num_layers = 3;
	CHECK(same_model(&run, &saved) == -1);
	CHECK(strstr(e.msg, "num-layers") && strstr(e.msg, "3") &&
	    strstr(e.msg, "--use-checkpoint-args"));
	saved = run;
	saved.plan.model.untie_embeddings_and_output_weights = true;
	CHECK(same_model(&run, &saved) == -1);
	CHECK(strstr(e.msg, "untie-embeddings-and-output-weights"));
	saved = run;
	saved.plan.model.rotary_base = 500000;
	CHECK(same_model(&run, &saved) == -1);
	CHECK(strstr(e.msg, "rotary-base"));
}

static void
test_first_sample(void)
{
	struct run_plan p = { .layout = { 1, 1, 4, 1 }, .shape = { .micro_batch_size = 2 } };

	CHECK(pipeline_first_sample(&p, 0, 0, 0) == 0);
	CHECK(pipeline_first_sample(&p, 0, 0, 3) == 6);
	CHECK(pipeline_first_sample(&p, 0, 1, 0) == 8);
	CHECK(pipeline_first_sample(&p, 160, 2, 1) == 178);
	CHECK(pipeline_first_sample(&p, (int64_t)1 << 40, 1 << 20, 3) ==
	    ((int64_t)1 << 40) + ((int64_t)8 << 20) + 6);
}

int
main(void)
{
	test_schedule_line();
	test_same_model();
	test_first_sample();
	return check_done();
}

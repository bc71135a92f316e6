/* train.c - a checkpoint's description of a run is read back; which models are equal; where micro
 * batches start */
#include "lib/model/family.h"
#include "tests/check.h"
#include "tests/sized_model.h"
#include "train/config/start.h"
#include "train/step/pipeline.h"

static struct err e;

/* The styles of these words, and numbers that are no short decimal. */
static struct lr_schedule
schedule(const char *style, const char *tail, const char *decay)
{
	return (struct lr_schedule){ lr_index(lr_styles, style), lr_index(wsd_styles, tail),
		lr_index(wd_styles, decay), 1.0 / 3, 1e-300, 1.0 / 7, 1e-9, 0.1, 5e-324,
		1.7976931348623157e308, 1, INT64_MAX, 12345678901, 0 };
}

/* A line that is not read, and the reason. */
static void
refused_line(const char *line, const char *why)
{
	struct lr_schedule s;

	e.msg[0] = '\0';
	CHECK(lr_parse(line, &s, &e) == -1);
	CHECK_STR(e.msg, why);
}

static void
test_schedule_line(void)
{
	struct lr_schedule s = schedule("WSD", "minus_sqrt", "cosine"), back;
	struct str line = { 0 };

	lr_print(&s, &line);
	CHECK(strncmp(line.buf, "WSD minus_sqrt cosine 0.3", 25) == 0 && !strchr(line.buf, '\n'));
	CHECK(lr_parse(line.buf, &back, &e) == 0);
	CHECK(
	    back.style == s.style && back.wsd_style == s.wsd_style && back.wd_style == s.wd_style);
	CHECK(
	    back.lr == s.lr && back.min_lr == s.min_lr && back.lr_warmup_init == s.lr_warmup_init);
	CHECK(back.vocab_lr == s.vocab_lr && back.vocab_min_lr == s.vocab_min_lr);
	CHECK(back.start_weight_decay == s.start_weight_decay &&
	    back.end_weight_decay == s.end_weight_decay);
	CHECK(back.warmup_samples == s.warmup_samples && back.decay_samples == s.decay_samples);
	CHECK(back.wsd_decay_samples == s.wsd_decay_samples && back.wd_samples == s.wd_samples);
	CHECK(lr_same(&s, &back));
	*strrchr(line.buf, ' ') = '\0';
	CHECK(lr_parse(line.buf, &back, &e) == -1);
	*strrchr(line.buf, ' ') = '\0';
	CHECK(lr_parse(line.buf, &back, &e) == 0 && back.vocab_lr == s.lr &&
	    back.vocab_min_lr == s.min_lr);
	CHECK(!lr_same(&s, &back));
	*strrchr(line.buf, ' ') = '\0';
	CHECK(lr_parse(line.buf, &back, &e) == -1);
	refused_line("", "'' is not three styles and 9 or 11 numbers");
	refused_line("linear linear linear lr 0 0 0 0 1 2 3 4",
	    "'linear linear linear lr 0 0 0 0 1 2 3 4' is not three styles and 9 or 11 numbers");
	CHECK(lr_parse("WSD linear linear 1 0 0 0 0 1 2 3 4 x", &s, &e) == -1);
	CHECK(lr_parse("WSD linear linear 1 0 0 0 0 1 2 3 4 5 6 7", &s, &e) == -1);
	refused_line("1-sqrt2 linear linear 1 0 0 0 0 1 2 3 4",
	    "no style '1-sqrt2' in this build, which has constant, linear, cosine, "
	    "inverse-square-root, WSD");
	refused_line("WSD steep linear 1 0 0 0 0 1 2 3 4",
	    "no tail 'steep' in this build, which has exponential, linear, cosine, minus_sqrt");
	refused_line("WSD linear steep 1 0 0 0 0 1 2 3 4",
	    "no style of weight decay 'steep' in this build, which has constant, linear, cosine");
	str_release(&line);
}

/* Lines of versions that wrote numbers of styles: the numbers mean what they meant then. */
static void
test_old_schedule_line(void)
{
	static const char *const styles[] = { "constant", "linear", "cosine", "inverse-square-root",
		"WSD" };
	static const char *const tails[] = { "exponential", "linear", "cosine", "minus_sqrt" };
	static const char *const decays[] = { "constant", "linear", "cosine" };

	for (int i = 0; i < 5 * 4 * 3; i++) {
		int style = i / 12, tail = i / 3 % 4, decay = i % 3;
		struct lr_schedule s = { 0 },
				   want = schedule(styles[style], tails[tail], decays[decay]);
		struct str line = { 0 };

		str_addf(&line,
		    "%d %d %d 0.33333333333333331 1.0000000000000001e-300 0.14285714285714285 "
		    "4.9406564584124654e-324 1.7976931348623157e+308 1 9223372036854775807 "
		    "12345678901 0 1.0000000000000001e-09 0.10000000000000001",
		    style, tail, decay);
		CHECK(lr_parse(line.buf, &s, &e) == 0 && lr_same(&s, &want));
		str_release(&line);
	}
	refused_line("5 0 0 1 0 0 0 0 1 2 3 4", "style has no number 5");
	refused_line("0 4 0 1 0 0 0 0 1 2 3 4", "tail has no number 4");
	refused_line("0 0 3 1 0 0 0 0 1 2 3 4", "style of weight decay has no number 3");
	refused_line("00 0 0 1 0 0 0 0 1 2 3 4", "style has no number 00");
}

static void
test_schedule_options(void)
{
	struct lr_schedule s = { lr_index(lr_styles, "WSD"), lr_index(wsd_styles, "linear"),
		lr_index(wd_styles, "cosine"), 0.01, 0.001, 0, 0.01, 0.002, 0.1, 0.2, 6.4, 128, 32,
		256 };
	struct str line = { 0 };

	lr_describe(&s, &line);
	CHECK_STR(line.buf,
	    "lr 0.01\nmin-lr 0.001\ndecoupled-min-lr 0.002\nlr-warmup-init 0.0\n"
	    "lr-warmup-samples 6.4\n"
	    "lr-decay-style WSD\nlr-decay-samples 128\nlr-wsd-decay-style linear\n"
	    "lr-wsd-decay-samples 32\nstart-weight-decay 0.1\nend-weight-decay 0.2\n"
	    "weight-decay-incr-style cosine\n");
	str_release(&line);
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
	test_old_schedule_line();
	test_schedule_options();
	test_same_model();
	test_first_sample();
	return check_done();
}

/* state.c - tests of lib/ckpt/state: a printed state is parsed back, and each rule is tested with a
 * text that breaks it */
#include "lib/ckpt/state.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

/* A valid text; each case replaces one part of it. */
static const char good[] =
    "iteration 20\nconsumed_train_samples 80\noptimizer_steps 18\nskipped_iterations 2\n"
    "skipped_samples 8\npassed_samples 4\nrecent_losses 1 0.5\nrewound 3-4\nloss_scale 65536.5\n"
    "loss_scale_of mean\nloss_scale_growth 3\nloss_scale_hysteresis -1\nseed 1234\ndtype "
    "F16\nschedule 1 2 3\n"
    "tokenizer 0123456789abcdef\noptimizer adam\nadam_beta1 0.5\nadam_beta2 0.25\nadam_eps 0.125\n"
    "weight_decay_form gradient\ndata_corpora 2\ndata_start 8\ndata_seed 1\ndata_seq_length "
    "16\ndata_loader 2\n"
    "data_split 99,1\ndata_packing cut\ndata_stages 0 0 0:1\ndata_trained 5 -1\n"
    "data_corpus_0 a b\ndata_corpus_1 c\n"
    "origin /a b\norigin_files 1\norigin_file_0 0123456789abcdef c d\n";

static const struct {
	const char *from, *to, *reason;
} cases[] = {
	{ "iteration 20", "iteration", "s:1: not a key and a value: 'iteration'" },
	{ "iteration 20", "iteration 99999999999999999999",
	    "s:1: iteration 99999999999999999999: must be a whole number from 0 to "
	    "9007199254740992" },
	{ "iteration 20", "iteration 2e1",
	    "s:1: iteration 2e1: must be a whole number from 0 to 9007199254740992" },
	{ "iteration 20", "iteration 0",
	    "s: optimizer_steps 18 and skipped_iterations 2 do not make iteration 0" },
	{ "iteration 20\n", "", "s: no 'iteration'" },
	{ "steps 18", "steps 5",
	    "s: optimizer_steps 5 and skipped_iterations 2 do not make iteration 20" },
	{ "samples 80", "samples 19",
	    "s: consumed_train_samples 19 cannot be those of iteration 20" },
	{ "samples 80", "samples 9223372036854775807",
	    "s:2: consumed_train_samples 9223372036854775807: must be a whole number from 0 to "
	    "9007199254740992" },
	{ "samples 80", "samples -4",
	    "s:2: consumed_train_samples -4: must be a whole number from 0 to 9007199254740992" },
	{ "skipped_samples 8", "skipped_samples 1",
	    "s: skipped_samples 1 cannot be those of 2 skipped iterations" },
	{ "skipped_samples 8", "skipped_samples 63",
	    "s: skipped_samples 63 cannot be those of 2 skipped iterations" },
	{ "passed_samples 4", "passed_samples 9",
	    "s: passed_samples 9: more than skipped_samples" },
	{ "skipped_samples 8\n", "", "s: passed_samples 4: more than skipped_samples" },
	{ "optimizer_steps", "optimiser_steps", "s:3: unknown key 'optimiser_steps'" },
	{ "65536.5", "nan", "s:9: loss_scale nan: must be a number from 1e-300 to 1e+300" },
	{ "65536.5", "1x", "s:9: loss_scale 1x: must be a number from " },
	{ "_of mean", "_of sum", "s:10: loss_scale_of sum: must be one of mean" },
	{ "loss_scale_growth 3\n", "", "s: 'loss_scale_hysteresis' without 'loss_scale_growth'" },
	{ "loss_scale_growth 3\nloss_scale_hysteresis -1\n", "",
	    "s: 'loss_scale' without 'loss_scale_growth'" },
	{ "seed 1234", "seed 4294967296",
	    "s:13: seed 4294967296: must be a whole number from 0 to 4294967295" },
	{ "dtype F16", "dtype F8", "s:14: dtype F8: must be one of F64, F32, BF16, F16" },
	{ "dtype F16", "seed 1", "s:14: 'seed' twice" },
	{ "beta2 0.25", "beta2 1.25", "s:19: adam_beta2 1.25: must be a number from 0 to 1" },
	{ "data_corpora 2", "data_corpora 3", "s: no 'data_corpus_2', though data_corpora is 3" },
	{ "data_corpora 2", "data_corpora 1", "s: 'data_corpus_1', though data_corpora is 1" },
	{ "origin /a b\n", "", "s: 'origin_files' without 'origin'" },
	{ "origin_files 1", "origin_files 2", "s: no 'origin_file_1', though origin_files is 2" },
	{ "origin_files 1\n", "", "s: 'origin_file_0', though origin_files is 0" },
	{ "data_corpora 2\n", "", "s: 'data_start' without 'data_corpora'" },
	{ "data_seed 1\n", "", "s: 'data_corpora' without 'data_seed'" },
	{ "data_split 99,1\n", "", "s: 'data_corpora' without 'data_split'" },
	{ "data_start 8", "data_start 81",
	    "s: data_start 81: more than consumed_train_samples, 80" },
	{ "data_loader 2", "data_loader 3",
	    "s:26: data_loader 3: must be a whole number from 0 to 2" },
	{ "data_corpus_1", "data_corpus_0", "s:32: 'data_corpus_0' twice" },
	{ "data_corpus_1", "data_corpus_01", "s:32: unknown key 'data_corpus_01'" },
	{ "data_corpus_1", "data_corpus_9999999", "s:32: unknown key 'data_corpus_9999999'" },
};

static void
test_cases(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *at = strstr(good, cases[i].from);
		struct str text = { 0 };
		struct run_state s;
		struct err e = { "" };

		str_add(&text, good, (size_t)(at - good));
		str_adds(&text, cases[i].to);
		str_adds(&text, at + strlen(cases[i].from));
		CHECK(state_parse(&s, text.buf, "s", &e) < 0);
		if (strncmp(e.msg, cases[i].reason, strlen(cases[i].reason)))
			CHECK_STR(e.msg, cases[i].reason);
		state_release(&s);
		str_release(&text);
	}
}

static void
test_round_trip(void)
{
	struct str out = { 0 };
	struct run_state s;
	struct err e = { "" };

	CHECK(state_parse(&s, good, "s", &e) == 0);
	CHECK_STR(e.msg, "");
	CHECK(s.iteration == 20 && s.loss_scale == 65536.5 && s.loss_scale_hysteresis == -1 &&
	    s.data_corpora == 2);
	CHECK_STR(s.data_corpus[1], "c");
	CHECK(s.origin_files == 1);
	CHECK_STR(s.origin_file[0], "0123456789abcdef c d");
	state_print(&s, &out);
	CHECK_STR(out.buf, good);
	state_release(&s);
	str_release(&out);
	CHECK(state_parse(&s,
		  "\n# more\niteration 0\nconsumed_train_samples "
		  "0\noptimizer_steps\t0\nskipped_iterations  0",
		  "s", &e) == 0);
	CHECK(isnan(s.loss_scale) && s.data_corpora == STATE_NONE && !s.schedule);
	state_release(&s);
	state_print(&s, &out);
	CHECK(out.len == 0);
	str_release(&out);
}

/* A line is replaced wherever it is, and one that only begins so stays. */
static void
test_edit(void)
{
	struct str text = { 0 };

	str_adds(&text, "iteration 2\nseed 1\niterations_ 5");
	state_edit(&text, "iteration", "%d", 7);
	CHECK_STR(text.buf, "seed 1\niterations_ 5\niteration 7\n");
	state_edit(&text, "dtype", "%s", "F32");
	CHECK_STR(text.buf, "seed 1\niterations_ 5\niteration 7\ndtype F32\n");
	str_release(&text);
}

int
main(void)
{
	test_round_trip();
	test_cases();
	test_edit();
	return check_done();
}

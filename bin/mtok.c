/* mtok - text to token datasets and back; SentencePiece models from text */
#include "lib/base/cli.h"
#include "lib/base/clock.h"
#include "lib/base/prog.h"
#include "tok/decode.h"
#include "tok/encode.h"
#include "tok/info.h"
#include "tok/options.h"
#include "tok/report.h"
#include "tok/signals.h"
#include "tok/train.h"

#include <string.h>

struct watch {
	double start; /* by clock_seconds, a little early, so that no elapsed time is 0 */
	int64_t log_interval;
	struct str line;
};

/* Updates the line on a terminal, and prints a note after every log_interval documents. */
static void
progress(void *ctx, const struct encode_counts *c)
{
	struct watch *w = ctx;
	double t = clock_seconds() - w->start;

	str_clear(&w->line);
	report_progress(c, t, &w->line);
	prog_progress("%s", w->line.buf);
	if (w->log_interval && c->documents >= w->log_interval) {
		note("Processed %lld documents (%.1f docs/s, %.3f MB/s).", (long long)c->documents,
		    (double)c->documents / t, (double)(c->input_bytes - c->input_before) / 1e6 / t);
		w->log_interval += w->log_interval * (c->documents / w->log_interval);
	}
}

/* Reports which parts of the tokenizer have no effect, what was not encoded, and then what was. */
static void
summarise(const struct encode *x, double seconds)
{
	const struct encode_counts *c = encode_counts(x);
	struct str s = { 0 };

	tokenizer_notes(encode_tokenizer(x, 0), &s);
	cli_say(&s, note);
	report_skipped(c, &s);
	if (s.len)
		warn("skipped bad lines: %s", s.buf);
	if (c->blank)
		note("skipped blank lines: %lld", (long long)c->blank);
	str_clear(&s);
	report_summary(c, seconds, &s);
	note("%s", s.buf);
	str_release(&s);
}

/* encode and count: the same work, with and without datasets. A signal ends the program as usual,
 * after cleaning up, or with the status that says "submit again" when the run can be resumed. */
static int
run_encode(struct encode_config *c, int argc, char **argv, struct err *e)
{
	struct watch w = { .log_interval = c->log_interval };
	struct mem_pool pool = { 0 };
	struct encode *x;
	int rc = CLI_USAGE, stopped;

	w.start = clock_seconds() - 1e-9;
	options_add_operands(&c->input, &pool, argc, argv);
	c->version = prog_release();
	c->stop_fd = c->output_prefix ? signals_hold() : -1;
	x = encode_open(c, e);
	if (x)
		rc = encode_run(x, progress, &w, e) < 0 ? CLI_FAILED : EXIT_DONE;
	prog_progress_end();
	if (rc == EXIT_DONE) {
		report_run(c, x, clock_seconds() - w.start, stdout);
		summarise(x, clock_seconds() - w.start);
	}
	stopped = rc == CLI_FAILED && encode_interrupted(x);
	if (stopped && encode_can_resume(x)) {
		note("interrupted; --resume continues");
		rc = EXIT_STOPPED;
	}
	encode_close(x);
	str_release(&w.line);
	mem_pool_release(&pool);
	if ((stopped && rc == CLI_FAILED) || rc == CLI_USAGE)
		signals_raise(c->stop_fd);
	return rc;
}

static int
mtok_encode(const void *cfg, int argc, char **argv, struct err *e)
{
	struct encode_config c = *(const struct encode_config *)cfg;

	if (!c.output_prefix) {
		err_set(e, "--output-prefix is needed; `mtok count' only counts");
		return CLI_USAGE;
	}
	return run_encode(&c, argc, argv, e);
}

static int
mtok_count(const void *cfg, int argc, char **argv, struct err *e)
{
	struct encode_config c = *(const struct encode_config *)cfg;

	c.eod_id = -1;
	return run_encode(&c, argc, argv, e);
}

/* Operands are datasets; without any, and without --ids, or for -, ids come from standard input. */
static int
mtok_decode(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct decode_config *c = cfg;
	struct tokenizer *t = tokenizer_open(&c->tokenizer, e);
	int rc;

	if (!t)
		return CLI_USAGE;
	rc = c->ids.count ? decode_ids(c, t, stdout, e)
	    : argc        ? EXIT_DONE
			  : decode_lines(c, t, stdin, stdout, e);
	for (int i = 0; i < argc && rc == EXIT_DONE; i++)
		rc = strcmp(argv[i], "-") ? decode_dataset(c, t, argv[i], stdout, e)
					  : decode_lines(c, t, stdin, stdout, e);
	tokenizer_close(t);
	return rc < 0 ? CLI_FAILED : EXIT_DONE;
}

static int
mtok_info(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct info_config *c = cfg;
	struct tokenizer *t = argc ? NULL : tokenizer_open(&c->tokenizer, e);
	int rc = t && info_report(t, c, stdout, e) < 0 ? CLI_FAILED : EXIT_DONE;

	if (argc)
		err_set(e, "unexpected operand '%s'", argv[0]);
	if (!t)
		return CLI_USAGE;
	tokenizer_close(t);
	return rc;
}

static int
mtok_train(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	struct train_config c = *(const struct train_config *)p->cfg;
	struct train_counts n = { 0 };
	struct mem_pool pool = { 0 };

	tokenizer_train_defaults(&c, opt_given(p, "normalization-rule-name"));
	if (tokenizer_train_check(&c, e) < 0)
		return CLI_USAGE;
	options_add_operands(&c.input, &pool, argc, argv);
	c.verbose = prog_level() > 0;
	int rc = tokenizer_train_run(&c, &n, e) < 0 ? CLI_FAILED : EXIT_DONE;
	cli_say(&n.lost, warn);
	if (n.skipped)
		warn("skipped bad lines: %lld", (long long)n.skipped);
	if (rc == EXIT_DONE)
		note("%s: %lld pieces from %lld sentences, %.1f MB", c.output, (long long)n.pieces,
		    (long long)n.sentences, (double)n.bytes / 1e6);
	mem_pool_release(&pool);
	return rc;
}

static const struct verb *const verbs[] = {
	&(const struct verb){ "encode", "FILE ...", "Turn JSON Lines or text into token datasets",
	    encode_opts, sizeof(struct encode_config), mtok_encode, .common = COMMON_ENCODE },
	&(const struct verb){ "count", "FILE ...", "Count documents and tokens", count_opts,
	    sizeof(struct encode_config), mtok_count, .common = COMMON_COUNT },
	&(const struct verb){ "decode", "PREFIX ...", "Turn datasets or ids into text", decode_opts,
	    sizeof(struct decode_config), mtok_decode, .common = COMMON_DECODE },
	&(const struct verb){ "train", "FILE ...", "Train a SentencePiece model", train_opts,
	    sizeof(struct train_config), .run_given = mtok_train, .common = COMMON_TRAIN },
	&(const struct verb){ "info", "", "Describe a tokenizer", info_opts,
	    sizeof(struct info_config), mtok_info, .common = COMMON_INFO },
	NULL,
};

int
main(int argc, char **argv)
{
	static const struct tool mtok = {
		.name = "mtok",
		.summary = "Text to tokens and back",
		.built_in = "SentencePiece, byte-level BPE, tokenizer.json, rank files",
		.libraries = tokenizer_libraries,
		.default_verb = "encode",
		.verbs = verbs,
		.foreign = &encode_foreign,
	};

	return cli_main(&mtok, argc, argv);
}

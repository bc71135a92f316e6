/* foreign.c - the table of other programs' options: sorted, no duplicates, no option that exists or
 * that the public scripts use, no alias of what does not exist; both spellings of an alias give one
 * configuration, and a setting that nothing reads changes its own line alone
 *
 * foreign notes | unread | read: prints the options without effect, the settings that nothing reads
 * in the run of `line`, or all settings of a switch, each with a value, and the last with options
 * that read it, for scripts that run them. */
#include "train/config/foreign.h"

#include "lib/base/prog.h"
#include "tests/check.h"
#include "train/config/config.h"
#include "train/config/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Options of the public launch scripts that must be accepted. */
static const char *const promised[] = {
	"tensor-model-parallel-size",
	"pipeline-model-parallel-size",
	"context-parallel-size",
	"sequence-parallel",
	"use-distributed-optimizer",
	"num-layers",
	"hidden-size",
	"ffn-hidden-size",
	"num-attention-heads",
	"group-query-attention",
	"num-query-groups",
	"seq-length",
	"max-position-embeddings",
	"micro-batch-size",
	"global-batch-size",
	"train-iters",
	"tokenizer-type",
	"tokenizer-model",
	"load",
	"finetune",
	"save",
	"data-path",
	"split",
	"distributed-backend",
	"init-method-std",
	"lr",
	"min-lr",
	"lr-decay-style",
	"lr-decay-iters",
	"weight-decay",
	"clip-grad",
	"lr-warmup-iters",
	"optimizer",
	"adam-beta1",
	"adam-beta2",
	"adam-eps",
	"log-interval",
	"save-interval",
	"eval-interval",
	"eval-iters",
	"bf16",
	"use-checkpoint-args",
	"untie-embeddings-and-output-weights",
	"no-position-embedding",
	"position-embedding-type",
	"rope-theta",
	"disable-bias-linear",
	"use-mcore-models",
	"normalization",
	"norm-epsilon",
	"no-masked-softmax-fusion",
	"attention-dropout",
	"hidden-dropout",
	"swiglu",
	"use-flash-attn",
	"attention-softmax-in-fp32",
	"recompute-activations",
	"recompute-granularity",
	"transformer-impl",
	"fp8-format",
	"fp8-amax-compute-algo",
	"fp8-amax-history-len",
	"fp8-param-gather",
	"use-z-loss",
	"log-throughput",
	"wandb-name",
	"wandb-project",
	"wandb-entity",
	"fp16",
	"vocab-file",
	"merge-file",
	"tensorboard-dir",
	"kv-channels",
	"rotary-base",
	"rotary-percent",
	"attention-backend",
	"apply-layernorm-1p",
	"train-samples",
	"lr-decay-samples",
	"lr-warmup-samples",
	"decoupled-lr",
	"decoupled-min-lr",
	"grad-reduce-in-bf16",
	"cross-entropy-loss-fusion",
	"calculate-per-token-loss",
	"manual-gc",
	"empty-unused-memory-level",
	"exit-duration-in-mins",
	"overlap-grad-reduce",
	"overlap-param-gather",
	"mock-data",
	"vocab-size",
	"data-cache-path",
	"tiktoken-pattern",
	"no-create-attention-mask-in-dataloader",
	"no-mmap-bin-files",
	"num-workers",
	"profile",
	"profile-step-start",
	"profile-step-end",
	"ckpt-format",
	"distributed-timeout-minutes",
};

/* True for a name that option parsing can match: dashes only inside, no underscore. */
static void
check_name(const char *name)
{
	size_t len = strlen(name);

	CHECK(len > 0 && name[0] != '-' && name[len - 1] != '-');
	for (size_t i = 0; i < len; i++)
		CHECK(isalnum((unsigned char)name[i]) || name[i] == '-');
}

/* Options as they are typed, whose names exist. */
static void
check_to(const char *name, const char *to, size_t len)
{
	int options = 0;

	for (size_t i = 0; i < len;) {
		size_t n = strcspn(to + i, " ;");
		bool found = false;

		for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++)
			found = found ||
			    (o->name && n > 2 && strlen(o->name) == n - 2 &&
				!strncmp(o->name, to + i + 2, n - 2));
		options += to[i] == '-';
		if (to[i] == '-' && !found) {
			fprintf(stderr, "--%s: no option '%.*s'\n", name, (int)n, to + i);
			CHECK(0);
		}
		i += n + (i + n < len);
	}
	CHECK(options > 0);
}

static void
check_values(const struct opt_foreign *f)
{
	for (const char *at = f->values; *at; at += strspn(at, "; ")) {
		size_t len = strcspn(at, ";"), v = strcspn(at, ";=");
		bool found = false;

		for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++)
			found = found ||
			    (o->name && strlen(o->name) == v - 1 &&
				!strncmp(o->name, at + 1, v - 1));
		CHECK(v > 0 && (*at != '@' || found));
		if (v < len)
			check_to(f->name, at + v + 1, len - v - 1);
		at += len;
	}
}

/* Each kind has what it needs, and nothing else. */
static void
check_row(const struct opt_foreign *f)
{
	CHECK((f->kind == FOREIGN_ALIAS) == (f->to != NULL));
	CHECK((f->kind == FOREIGN_SAME) == (f->values != NULL));
	CHECK((f->kind == FOREIGN_ALIAS) == (f->why == NULL));
	if (f->to)
		check_to(f->name, f->to, strlen(f->to));
	if (f->values)
		check_values(f);
	if (f->why)
		CHECK(strlen(f->why) < 130 && f->why[strlen(f->why) - 1] != '.');
}

static void
test_table(void)
{
	const struct opt_foreign *r = mtrain_foreign.row;

	for (int n = 0; n < mtrain_foreign.count; n++) {
		check_name(r[n].name);
		for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++)
			if (o->name && !strcmp(o->name, r[n].name)) {
				fprintf(stderr, "--%s is another program's and built\n", o->name);
				CHECK(0);
			}
		if (n && strcmp(r[n - 1].name, r[n].name) >= 0) {
			fprintf(stderr, "--%s is not in its place\n", r[n].name);
			CHECK(0);
		}
		CHECK(opt_foreign_find(&mtrain_foreign, r[n].name) == &r[n]);
		check_row(&r[n]);
	}
	CHECK(mtrain_foreign.count > 850);
}

/* Of three words after the name the option takes those that it takes in its program. */
static void
check_taken(const struct opt_foreign *f)
{
	struct train_config c;
	struct opt_parse p;
	struct err e;
	char name[80], *argv[] = { name, "1", "2", "3" }, **rest = argv;
	int argc = 4, left = f->words == OPT_MANY ? 0 : f->words == 0 ? 3 : 2;

	memset(&c, 0, sizeof c);
	snprintf(name, sizeof name, "--%s", f->name);
	opt_begin(&p, mtrain_opts, &c.o);
	p.foreign = &mtrain_foreign;
	opt_argv(&p, &argc, &rest, &e);
	if (argc != left)
		fprintf(stderr, "--%s leaves %d words\n", f->name, argc);
	CHECK(argc == left);
	opt_release(&p);
}

static void
test_taken(void)
{
	for (int n = 0; n < mtrain_foreign.count; n++) {
		const struct opt_foreign *f = &mtrain_foreign.row[n];

		check_taken(f);
		CHECK(!f->to || (f->words == 1) == (strchr(f->to, '$') != NULL));
		CHECK(!f->values || f->words == 1 || f->words == OPT_MANY);
	}
}

static void
test_words(void)
{
	for (const struct opt_word *w = mtrain_foreign.words; w->word; w++) {
		struct str option = { 0 };

		CHECK(!opt_foreign_find(&mtrain_foreign, w->word));
		str_addf(&option, "--%s", w->ours);
		check_to(w->word, option.buf, option.len);
		str_release(&option);
	}
}

static enum foreign
kind(const char *name)
{
	const struct opt_foreign *f = opt_foreign_find(&mtrain_foreign, name);

	CHECK(f != NULL);
	return f ? f->kind : FOREIGN_SCOPE;
}

static void
test_kinds(void)
{
	for (size_t i = 0; i < sizeof promised / sizeof *promised; i++) {
		bool found = opt_foreign_find(&mtrain_foreign, promised[i]) &&
		    kind(promised[i]) <= FOREIGN_ALIAS;

		for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++)
			found = found || (o->name && !strcmp(o->name, promised[i]));
		if (!found)
			fprintf(stderr, "--%s is not taken\n", promised[i]);
		CHECK(found);
	}
	CHECK(kind("use_mpi") == FOREIGN_NOTE);
	CHECK(kind("persistent-save-interval") == FOREIGN_ALIAS);
	CHECK(kind("spec") == FOREIGN_SAME);
	CHECK(kind("fp4-format") == FOREIGN_MATHS);
	CHECK(kind("yaml-cfg") == FOREIGN_LACKS);
	CHECK(kind("override-ckpt-iteration") == FOREIGN_LACKS);
	CHECK(kind("universal-checkpoint") == FOREIGN_LACKS);
	CHECK(kind("load-tag") == FOREIGN_LACKS);
	CHECK(kind("grpo-iterations") == FOREIGN_SCOPE);
	CHECK(!opt_foreign_find(&mtrain_foreign, "num-experts"));
}

/* --- configurations --------------------------------------------------------------------------- */

static const char line[] = "mtrain -q --mock-data --num-layers 2 --hidden-size 32 "
			   "--num-attention-heads 4 --vocab-size 100 --seq-length 16 "
			   "--global-batch-size 4 --lr 1e-3 --train-iters 3 --num-threads 1 "
			   "--eval-iters 0 --log-interval 1";

/* Parses the line with these words; *text holds the words while c is used. */
static int
parse(struct train_config *c, const char *more, struct str *text, struct err *e)
{
	static char *argv[64];
	char *rest, *word;
	int argc = 0;

	str_addf(text, "%s %s", line, more);
	word = strtok_r(text->buf, " ", &rest);
	for (; word && argc < 64; word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	return train_parse(c, argc, argv, e);
}

/* The options that were given, as a file. */
static char *
dump_of(const char *more)
{
	struct train_config c;
	struct str text = { 0 }, dump = { 0 };
	struct err e = { "" };

	if (parse(&c, more, &text, &e) < 0) {
		fprintf(stderr, "%s: %s\n", more, e.msg);
		CHECK(0);
	}
	opt_dump(&c.parse, true, &dump);
	train_release(&c);
	str_release(&text);
	return str_detach(&dump);
}

/* A value that the row takes, and that is not its default. */
static void
value_of(const struct opt *o, char *out, size_t cap)
{
	static const char *const numbers[] = { "1e-4", "0.5", "2", "7" };

	out[0] = '\0';
	if (o->type == OPT_INT)
		snprintf(out, cap, "%d", o->min > 3 ? (int)o->min + 1 : 3);
	if (o->type == OPT_STRING)
		snprintf(out, cap, "%s", strstr(o->name, "freq") ? "1" : "/dev/null");
	if (o->type == OPT_LIST)
		snprintf(out, cap, "7");
	for (int i = 0; o->type == OPT_CHOICE && !out[0] && o->choices[i]; i++)
		if (!o->def || strcmp(o->choices[i], o->def))
			snprintf(out, cap, "%s", o->choices[i]);
	for (int i = 0; o->type == OPT_NUMBER && !out[0]; i++)
		if (atof(numbers[i]) >= o->min && (!o->def || atof(o->def) != atof(numbers[i])))
			snprintf(out, cap, "%s", numbers[i]);
}

static const struct opt *
row_of(const char *name, size_t len)
{
	for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++)
		if (o->name && strlen(o->name) == len && !strncmp(o->name, name, len))
			return o;
	return NULL;
}

/* Both spellings: --name VALUE, and `to` with VALUE in the place of $. */
static void
check_alias(const char *name, const char *to, size_t len, const char *given)
{
	const char *dollar = memchr(to, '$', len), *option = dollar;
	char value[64] = "", *one, *two;
	struct str a = { 0 }, b = { 0 };

	if (dollar) {
		while (option[-1] != '-' || option[-2] != '-')
			option--;
		value_of(row_of(option, (size_t)(dollar - option) - 1), value, sizeof value);
	}
	if (given)
		snprintf(value, sizeof value, "%s", given);
	str_addf(&a, "--%s %s", name, value);
	str_addf(&b, "%.*s%s%.*s", (int)(dollar ? dollar - to : (int)len), to, dollar ? value : "",
	    dollar ? (int)(to + len - dollar) - 1 : 0, dollar ? dollar + 1 : "");
	one = dump_of(a.buf);
	two = dump_of(b.buf);
	CHECK_STR(one, two);
	free(one);
	free(two);
	str_release(&a);
	str_release(&b);
}

static void
test_aliases(void)
{
	for (int n = 0; n < mtrain_foreign.count; n++) {
		const struct opt_foreign *f = &mtrain_foreign.row[n];

		if (f->to)
			check_alias(f->name, f->to, strlen(f->to), NULL);
		for (const char *at = f->values; at && *at; at += strspn(at, "; ")) {
			size_t len = strcspn(at, ";"), v = strcspn(at, ";=");
			char value[64];

			snprintf(value, sizeof value, "%.*s", *at == '*' ? 1 : (int)v,
			    *at == '*' ? "2" : at);
			if (v < len)
				check_alias(f->name, at + v + 1, len - v - 1, value);
			at += len;
		}
	}
}

/* Configures `line` with the words; the notes go to *notes and the dump to *dump. */
static int
configure(const char *more, struct str *notes, struct str *dump, struct err *e)
{
	struct train_config c;
	struct str text = { 0 };
	int rc;

	memset(&c, 0, sizeof c);
	rc = parse(&c, more, &text, e);
	rc |= train_check(&c, 1, e);
	str_adds(notes, c.parse.notes.len ? c.parse.notes.buf : "");
	if (rc == 0)
		train_dump(&c, false, dump);
	train_release(&c);
	str_release(&text);
	return rc;
}

/* A line of a setting that this run does not read, also where another option has set it. */
static bool
may_differ(const char *at, const char *name)
{
	size_t len = strcspn(at, " \n");
	const struct opt *o = row_of(at, len);

	return (len == strlen(name) && !strncmp(at, name, len)) || (o && o->needs);
}

/* The lines of both are the same but for those that may differ. */
static bool
differs_in(const char *all, const char *base, const char *name)
{
	for (;;) {
		while (*all && may_differ(all, name))
			all += strcspn(all, "\n") + 1;
		while (*base && may_differ(base, name))
			base += strcspn(base, "\n") + 1;
		if (!*all || !*base || strncmp(all, base, strcspn(all, "\n") + 1))
			return !*all && !*base;
		all += strcspn(all, "\n") + 1;
		base += strcspn(base, "\n") + 1;
	}
}

/* The row is given in a run that does not read it: a note, and its own line in the dump. print: the
 * option is printed instead. */
static void
unread(const struct opt *o, const char *base, bool print)
{
	struct str notes = { 0 }, dump = { 0 }, want = { 0 }, more = { 0 };
	struct err e = { "" };
	char value[64];

	value_of(o, value, sizeof value);
	str_addf(&more, "--%s %s", o->name, value);
	str_addf(&want, "read by nothing in this run: --%s (needs --", o->name);
	if (configure(more.buf, &notes, &dump, &e) < 0) {
		fprintf(stderr, "%s: %s\n", more.buf, e.msg);
		CHECK(0);
	} else if (notes.len && strstr(notes.buf, want.buf)) {
		if (print)
			printf("%s\n", more.buf);
		if (!differs_in(dump.buf, base, o->name))
			fprintf(stderr, "%s: %s", more.buf, dump.buf);
		CHECK(differs_in(dump.buf, base, o->name));
	}
	str_release(&notes);
	str_release(&dump);
	str_release(&want);
	str_release(&more);
}

static void
test_unread(bool print)
{
	struct str notes = { 0 }, base = { 0 };
	struct err e = { "" };
	int rows = 0;

	CHECK(configure("", &notes, &base, &e) == 0);
	for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++)
		if (o->needs && !(o->type == OPT_CHOICE && !o->choices[1])) {
			unread(o, base.buf, print);
			rows++;
		}
	CHECK(rows > 70);
	str_release(&notes);
	str_release(&base);
}

/* Options with which the row is read: of each group the first alternative. */
static void
context_of(const struct opt *o, struct str *out)
{
	for (const char *at = o->needs; *at; at += *at == '&') {
		size_t name = strcspn(at, "=>|&"), len = strcspn(at, "|&");
		const struct opt *other = row_of(at, name);
		char value[64];

		value_of(other, value, sizeof value);
		if (at[name] == '=' || at[name] == '>')
			snprintf(value, sizeof value, "%.*s", (int)(len - name) - 1, at + name + 1);
		str_addf(out, " --%s %s", other->name, value);
		at += strcspn(at, "&");
	}
}

static void
print_read(void)
{
	for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++) {
		struct str context = { 0 };
		char value[64];

		if (!o->needs || (o->type == OPT_CHOICE && !o->choices[1]))
			continue;
		context_of(o, &context);
		value_of(o, value, sizeof value);
		printf("--%s %s\t%s\n", o->name, value, context.buf + 1);
		str_release(&context);
	}
}

static void
print_notes(void)
{
	for (int n = 0; n < mtrain_foreign.count; n++) {
		const struct opt_foreign *f = &mtrain_foreign.row[n];
		size_t len = f->values ? strcspn(f->values, ";=") : 0;

		if (f->kind == FOREIGN_NOTE)
			printf("--%s%s\n", f->name, f->words ? " 1" : "");
		else if (f->kind == FOREIGN_SAME && f->values[len] != '=' && f->values[0] == '*')
			printf("--%s gpt_layer\n", f->name);
		else if (f->kind == FOREIGN_SAME && f->values[len] != '=' && f->values[0] != '@')
			printf("--%s %.*s\n", f->name, (int)len, f->values);
		else if (!strcmp(f->name, "embedding-init-method-std"))
			printf("--%s 0.02\n", f->name);
		else if (!strcmp(f->name, "decoder-seq-length"))
			printf("--%s 16\n", f->name);
		else if (!strcmp(f->name, "moe-eval-capacity-factor"))
			printf("--%s 0\n", f->name);
	}
}

int
main(int argc, char **argv)
{
	prog_quiet(-1);
	if (argc > 1 && !strcmp(argv[1], "notes")) {
		print_notes();
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "read")) {
		print_read();
		return 0;
	}
	if (argc > 1) {
		test_unread(true);
		return check_done();
	}
	test_table();
	test_taken();
	test_words();
	test_kinds();
	test_aliases();
	test_unread(false);
	return check_done();
}

/*
 * port.c - the rows of a ported launch
 *
 * The words are parsed as mtrain's own. A value that only a run knows cannot be parsed as a number,
 * so such an option is a row of its own kind, and the name of a file of options is not read.
 */
#include "train/config/port.h"
#include "lib/base/prog.h"
#include "train/config/config.h"
#include "train/config/deepspeed.h"
#include "train/config/foreign.h"
#include "train/config/options.h"

#include <stdlib.h>
#include <string.h>

/* What the parser is given: words, and the row of each. */
struct words {
	char **word;
	int *row, count;
};

const char *
port_fate_name(enum port_fate f)
{
	static const char *const names[] = { "kept", "renamed", "without effect with its value",
		"without effect", "not read in this run", "not known", "refused" };

	return names[f];
}

/* Text in the rows' pool. */
static const char *
keep(struct port *p, const struct str *s)
{
	return mem_pool_strndup(&p->pool, s->buf ? s->buf : "", s->len);
}

/* A word as people see it. */
static const char *
shown(struct port *p, const char *word)
{
	struct str s = { 0 };
	const char *text;

	script_show(&s, word);
	text = keep(p, &s);
	str_release(&s);
	return text;
}

/* The row of the table for a word "--name" or "--name=value"; NULL: there is none. */
static const struct opt *
table_row(const char *word)
{
	char name[80];

	word += strspn(word, "-");
	snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
	return opt_find(mtrain_opts, name);
}

/* A row from the option at i, with the words up to the next option. */
static struct port_row *
add_row(struct port *p, const struct script *s, int i)
{
	struct port_row *r;
	int n = i + 1;

	while (n < s->options && !opt_is_option(s->option[n]))
		n++;
	if (p->rows == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 64;
		p->row = mem_realloc(p->row, (size_t)p->cap, sizeof *p->row);
	}
	r = &p->row[p->rows++];
	*r = (struct port_row){ .count = n - i };
	r->word = mem_pool_alloc(&p->pool, (size_t)r->count, sizeof *r->word);
	for (int k = 0; k < r->count; k++)
		r->word[k] = shown(p, s->option[i + k]);
	return r;
}

/* The highest argument of the script in the holes of the words; 0: none. */
static int
last_argument(const char *const *word, int count)
{
	int most = 0;

	for (int i = 0; i < count; i++)
		for (const char *s = strchr(word[i], '$'); s; s = strchr(s + 1, '$')) {
			int n = script_has_hole(word[i]) ? atoi(s + 1 + (s[1] == '{')) : 0;

			most = n > most ? n : most;
		}
	return most;
}

/* What fills the holes of the words. */
static const char *
how_to_fill(struct port *p, const char *const *word, int count)
{
	struct str names = { 0 }, s = { 0 };
	int argument = last_argument(word, count);
	const char *why;

	for (int i = 0; i < count; i++)
		if (script_has_hole(word[i]))
			script_names(&names, word[i]);
	if (argument)
		str_addf(&s, "argument %d", argument);
	for (const char *at = names.buf; at && *at; at += strcspn(at + 1, " ") + 1)
		str_addf(&s, "%s%.*s=VALUE", s.len ? " " : "", (int)strcspn(at + 1, " "), at + 1);
	if (s.len)
		str_adds(&s, " after the script says it");
	else
		str_adds(&s, "to be written in the place of <...>");
	why = keep(p, &s);
	str_release(&names);
	str_release(&s);
	return why;
}

static bool
any_hole(const char *const *word, int count)
{
	for (int i = 0; i < count; i++)
		if (script_has_hole(word[i]))
			return true;
	return false;
}

/* Rows that the parser cannot take: a value that must be a number or a choice and is not known, a
 * word that may be an option or none, a file of options. */
static bool
is_apart(const struct port_row *r, const char *const *word)
{
	const struct opt *o = opt_is_option(word[0]) ? table_row(word[0]) : NULL;

	if (o && o->type == OPT_CONFIG)
		return true;
	if (!any_hole(word, r->count))
		return false;
	return !opt_is_option(word[0]) || (o && o->type != OPT_STRING && o->type != OPT_LIST);
}

/* A value that names a file, which no rule between options reads. */
static bool
is_path(const char *word)
{
	static const char *const units[] = { "DIR", "FILE", "PREFIX" };
	const struct opt *o = opt_is_option(word) ? table_row(word) : NULL;

	for (size_t i = 0; o && o->unit && i < sizeof units / sizeof *units; i++)
		if (strstr(o->unit, units[i]))
			return o->type == OPT_STRING || o->type == OPT_LIST;
	return false;
}

/* All words of the launch into rows; those that are parsed into w. */
static void
cut(struct port *p, const struct script *s, struct words *w)
{
	w->word = mem_alloc((size_t)s->options + 1, sizeof *w->word);
	w->row = mem_alloc((size_t)s->options + 1, sizeof *w->row);
	for (int i = 0; i < s->options;) {
		struct port_row *r = add_row(p, s, i);
		const char *const *word = s->option + i;

		if (any_hole(word, r->count)) {
			r->fate = PORT_UNKNOWN;
			r->why = how_to_fill(p, word, r->count);
		}
		for (int k = 0; !is_apart(r, word) && k < r->count; k++) {
			w->row[w->count] = p->rows - 1;
			w->word[w->count++] = (char *)r->word[k];
		}
		i += r->count;
	}
}

/* "--name value: why" without the option, which the row has. */
static const char *
reason(const struct port_row *r, const char *why)
{
	size_t n = strlen(r->word[0]);
	const char *colon;

	if (strncmp(why, r->word[0], n) != 0)
		return why;
	colon = strstr(why + n, ": ");
	return colon ? colon + 2 : why;
}

static void
refuse(struct port *p, const struct opt_outcome *o, struct port_row *r)
{
	static const char *const kinds[] = { [FOREIGN_SAME] = NULL,
		[FOREIGN_MATHS] = "mathematics",
		[FOREIGN_LACKS] = "another way",
		[FOREIGN_SCOPE] = "out of scope" };
	const char *why = reason(r, o->why);

	r->kind = o->row ? kinds[o->row->kind] : NULL;
	r->why = mem_pool_strndup(&p->pool, why, strlen(why));
}

/* The blank-separated words of `to`, in which the value that was given stays one word. */
static void
set_here(struct port *p, struct port_row *r, const char *to)
{
	const char *value = r->count == 2 ? r->word[1] : "";
	size_t blanks = 1, len = strlen(value);

	for (const char *s = to; *s; s++)
		blanks += *s == ' ';
	r->here = mem_pool_alloc(&p->pool, blanks, sizeof *r->here);
	r->here_count = 0;
	for (const char *s = to; *s; s += strspn(s, " ")) {
		bool given = len && !strncmp(s, value, len) && (!s[len] || s[len] == ' ');
		size_t n = given ? len : strcspn(s, " ");

		r->here[r->here_count++] = mem_pool_strndup(&p->pool, s, n);
		s += n;
	}
}

static void
set_fate(struct port *p, const struct opt_outcome *o, struct port_row *r)
{
	static const enum port_fate fates[] = { [OPT_KEPT] = PORT_KEPT,
		[OPT_RENAMED] = PORT_RENAMED,
		[OPT_SAME] = PORT_SAME,
		[OPT_NOTHING] = PORT_NOTHING,
		[OPT_UNREAD] = PORT_UNREAD,
		[OPT_WRONG] = PORT_REFUSED };
	enum port_fate fate = fates[o->fate];

	if (fate == PORT_RENAMED)
		set_here(p, r, o->to);
	/* What is left out needs no value; of the rest a missing one is told first. */
	if (r->fate == PORT_UNKNOWN && fate != PORT_NOTHING && fate != PORT_SAME)
		return;
	r->fate = fate;
	if (fate == PORT_REFUSED)
		refuse(p, o, r);
	else
		r->why = o->why && (fate == PORT_NOTHING || fate == PORT_UNREAD)
		    ? mem_pool_strndup(&p->pool, o->why, strlen(o->why))
		    : NULL;
}

/* A program that trains another kind of model is a row like a refused option. */
static void
refuse_program(struct port *p, const struct script *s)
{
	static const char *const others[] = { "bert", "t5", "ict", "realm", "retro", "vision",
		"vlm", "dino", "multimodal" };
	const struct script program = { .option = (const char *[]){ s->program }, .options = 1 };
	const char *name = strrchr(s->program, '/');

	name = name ? name + 1 : s->program;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (strstr(name, others[i]) && !strstr(name, "gpt")) {
			struct port_row *r = add_row(p, &program, 0);

			r->fate = PORT_REFUSED;
			r->kind = "out of scope";
			r->why = "decoder models are trained here";
			return;
		}
}

/* Parses the words. c->parse has pointers into them. */
static void
parse_words(struct train_config *c, const struct words *w)
{
	char **argv = mem_alloc((size_t)w->count + 1, sizeof *argv);
	char **rest = argv;
	int argc = w->count;
	struct err e;

	memcpy(argv, w->word, (size_t)w->count * sizeof *argv);
	opt_begin(&c->parse, mtrain_opts, &c->o);
	c->parse.foreign = &mtrain_foreign;
	c->parse.no_operands = "mtrain takes no operands";
	opt_argv(&c->parse, &argc, &rest, &e);
	free(argv);
}

/* Sets the fate of each row as the parser found it: that of its first word, unless another one is
 * wrong, as one that the option does not take. */
static void
set_fates(struct port *p, const struct train_config *c, const struct words *w)
{
	for (int i = 0; i < w->count; i++) {
		const struct opt_outcome out = opt_outcome(&c->parse, i + 1);
		struct port_row *r = &p->row[w->row[i]];

		if (i == 0 || w->row[i] != w->row[i - 1] ||
		    (out.fate == OPT_WRONG && r->fate != PORT_REFUSED))
			set_fate(p, &out, r);
	}
}

/* Whether a setting is read depends on the model, which is known once the rules hold. */
static void
set_unread(struct port *p, const struct train_config *c, const struct words *w)
{
	for (int i = 0; i < w->count; i++) {
		struct port_row *r = &p->row[w->row[i]];
		const struct opt_outcome out = opt_outcome(&c->parse, i + 1);

		if (r->fate == PORT_KEPT && out.fate == OPT_UNREAD)
			set_fate(p, &out, r);
	}
}

/* The row without effect, for this reason. */
static void
leave_out(struct port_row *r, const char *why)
{
	r->fate = PORT_NOTHING;
	r->why = why;
}

/* A length in tokens: the option in samples, whose value the parser has found. */
static void
set_length(struct port *p, const struct train_config *c, const char *samples, struct port_row *r)
{
	const struct opt *o = opt_find(mtrain_opts, samples);
	struct str to = { 0 };

	if (!opt_given(&c->parse, samples))
		return;
	str_adds(&to, "--");
	opt_dump_row(o, &c->o, &to);
	to.buf[to.len - 1] = '\0';
	set_here(p, r, to.buf);
	r->fate = PORT_RENAMED;
	str_release(&to);
}

/* What DeepSpeed's options stand for. Its configuration, which scripts write just before they start
 * it, is read by the run alone. */
static void
set_deepspeed(struct port *p, struct train_config *c)
{
	int64_t before = c->o.train_samples;
	bool tokens = opt_given(&c->parse, "train-tokens"), first;

	deepspeed_tokens(c);
	first = tokens && c->o.train_samples != before;
	for (int i = 0; i < p->rows; i++) {
		struct port_row *r = &p->row[i];
		const struct opt *o = r->fate == PORT_KEPT ? table_row(r->word[0]) : NULL;
		const char *samples = o ? deepspeed_samples(o->name) : NULL;

		if (!o)
			continue;
		if (!strcmp(o->name, "deepspeed-config")) {
			r->fate = PORT_UNKNOWN;
			r->why = "its settings are compared with the options when mtrain starts";
		} else if (!strcmp(o->name, "train-tokens") && !first) {
			leave_out(r, "the run ends before, by its steps or samples");
		} else if (samples) {
			set_length(p, c, samples, r);
		} else if (first &&
		    (!strcmp(o->name, "train-iters") || !strcmp(o->name, "train-samples"))) {
			leave_out(r, "the run ends before, by --train-tokens");
		}
	}
}

/* Counts the rows of each fate; what is neither renamed nor left out is as it was given. */
static void
finish_rows(struct port *p)
{
	memset(p->tally, 0, sizeof p->tally);
	for (int i = 0; i < p->rows; i++) {
		struct port_row *r = &p->row[i];

		if (!r->here_count && r->fate != PORT_SAME && r->fate != PORT_NOTHING) {
			r->here = r->word;
			r->here_count = r->count;
		}
		p->tally[r->fate]++;
	}
}

/* Whether the model is given by options alone, so that no file is needed to check it. */
static bool
has_shape(const struct train_config *c)
{
	return opt_given(&c->parse, "num-layers") && opt_given(&c->parse, "hidden-size") &&
	    opt_given(&c->parse, "num-attention-heads") && !opt_given(&c->parse, "model");
}

/* The rules between options, as a plan for that many ranks, without any file: neither a tokenizer,
 * whose size of the vocabulary does not matter to them, nor a checkpoint. True when they hold. */
static bool
check_rules(struct port *p, struct train_config *c, const char *world)
{
	static const char nowhere[] = "/dev/null/nothing";
	struct train_options *o = &c->o;
	int level = prog_level();
	struct err e;

	for (int i = 0; i < p->rows; i++)
		if (p->row[i].fate == PORT_UNKNOWN && !is_path(p->row[i].word[0]))
			return false;
	if (p->tally[PORT_REFUSED] || c->o.deepspeed_config || script_has_hole(world) ||
	    !has_shape(c))
		return false;
	o->dry_run = true;
	o->tokenizer_type = o->tokenizer_model = o->vocab_file = o->merge_file = NULL;
	o->load = o->load ? nowhere : NULL;
	o->save = o->save ? nowhere : NULL;
	o->pretrained_checkpoint = NULL;
	o->use_checkpoint_args = false;
	if (!o->run.model.typed.vocab_size)
		o->run.model.typed.vocab_size = 50304;
	prog_quiet(-1);
	if (train_configure(c, atoll(world), &e) < 0)
		str_addf(&p->rules, "%s\n", e.msg);
	prog_quiet(level);
	for (size_t i = 0; i < p->rules.len; i++)
		if (p->rules.buf[i] == ERR_LINE)
			p->rules.buf[i] = '\n';
	return !p->rules.len;
}

void
port_make(struct port *p, const struct script *s)
{
	struct train_config c;
	struct words w = { 0 };

	memset(p, 0, sizeof *p);
	memset(&c, 0, sizeof c);
	refuse_program(p, s);
	cut(p, s, &w);
	parse_words(&c, &w);
	set_fates(p, &c, &w);
	set_deepspeed(p, &c);
	finish_rows(p);
	if (check_rules(p, &c, s->world)) {
		set_unread(p, &c, &w);
		finish_rows(p);
	}
	train_release(&c);
	free(w.word);
	free(w.row);
}

void
port_release(struct port *p)
{
	free(p->row);
	str_release(&p->rules);
	mem_pool_release(&p->pool);
}

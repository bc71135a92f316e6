/*
 * state.c - state.conf, by a table of its keys
 *
 * A value that is out of bounds or inconsistent with others is damage or an editing mistake: a run
 * that continued from it would silently train on other data or take other steps.
 */
#include "lib/base/dtype.h"
#include "lib/ckpt/state.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Keys of the last two end in a number; provenance is for people, and not kept. */
enum state_type { WHOLE, NUMBER, WORD, TEXT, LIST, PROVENANCE };

/* A key. Bounds apply to numbers: integers are exact in a double up to 2^53, the limit of a run's
 * counters. */
struct row {
	const char *key;
	enum state_type type;
	size_t off;
	double min, max;
	const char *const *words; /* of a WORD */
	bool needed;
	size_t length; /* of a LIST: the WHOLE that says how many items it has */
};

#define MOST 0x1p53
#define FIELD(f) offsetof(struct run_state, f)

enum { LIST_MAX = 1 << 20 };

static const char *const means[] = { "mean", NULL };
static const char *const dtypes[] = { "F64", "F32", "BF16", "F16", NULL };
static const char *const forms[] = { "decoupled", "gradient", NULL };

static const struct row rows[] = {
	{ "iteration", WHOLE, FIELD(iteration), 0, MOST, .needed = true },
	{ "consumed_train_samples", WHOLE, FIELD(consumed_train_samples), 0, MOST, .needed = true },
	{ "optimizer_steps", WHOLE, FIELD(optimizer_steps), 0, MOST, .needed = true },
	{ "skipped_iterations", WHOLE, FIELD(skipped_iterations), 0, MOST, .needed = true },
	{ "skipped_samples", WHOLE, FIELD(skipped_samples), 0, MOST },
	{ "passed_samples", WHOLE, FIELD(passed_samples), 0, MOST },
	{ "consumed_valid_samples", WHOLE, FIELD(consumed_valid_samples), 0, MOST },
	{ "recent_losses", TEXT, FIELD(recent_losses) },
	{ "rewound", TEXT, FIELD(rewound) },
	{ "loss_scale", NUMBER, FIELD(loss_scale), 1e-300, 1e300 },
	{ "loss_scale_of", WORD, FIELD(loss_scale_of), .words = means },
	{ "loss_scale_growth", WHOLE, FIELD(loss_scale_growth), 0, MOST },
	{ "loss_scale_hysteresis", WHOLE, FIELD(loss_scale_hysteresis), -MOST, MOST },
	{ "seed", WHOLE, FIELD(seed), 0, UINT32_MAX },
	{ "dtype", WORD, FIELD(dtype), .words = dtypes },
	{ "schedule", TEXT, FIELD(schedule) },
	{ "tokenizer", TEXT, FIELD(tokenizer) },
	{ "optimizer", TEXT, FIELD(optimizer) },
	{ "adam_beta1", NUMBER, FIELD(adam_beta1), 0, 1 },
	{ "adam_beta2", NUMBER, FIELD(adam_beta2), 0, 1 },
	{ "adam_eps", NUMBER, FIELD(adam_eps), 0, 1 },
	{ "weight_decay_form", WORD, FIELD(weight_decay_form), .words = forms },
	{ "sgd_momentum", NUMBER, FIELD(sgd_momentum), 0, 1 },
	{ "muon_momentum", NUMBER, FIELD(muon_momentum), 0, 1 },
	{ "data_corpora", WHOLE, FIELD(data_corpora), 0, LIST_MAX },
	{ "data_start", WHOLE, FIELD(data_start), 0, MOST },
	{ "data_seed", WHOLE, FIELD(data_seed), 0, UINT32_MAX },
	{ "data_seq_length", WHOLE, FIELD(data_seq_length), 1, MOST },
	{ "data_loader", WHOLE, FIELD(data_loader), 0, 2 },
	{ "data_ranks", WHOLE, FIELD(data_ranks), 1, MOST },
	{ "data_bos", WHOLE, FIELD(data_bos), 0, 1 },
	{ "data_split", TEXT, FIELD(data_split) },
	{ "data_packing", TEXT, FIELD(data_packing) },
	{ "data_stages", TEXT, FIELD(data_stages) },
	{ "data_trained", TEXT, FIELD(data_trained) },
	{ "data_corpus_", LIST, FIELD(data_corpus), .length = FIELD(data_corpora) },
	{ "origin", TEXT, FIELD(origin) },
	{ "origin_files", WHOLE, FIELD(origin_files), 0, LIST_MAX },
	{ "origin_file_", LIST, FIELD(origin_file), .length = FIELD(origin_files) },
	{ "provenance_", PROVENANCE },
};

enum { ROWS = sizeof rows / sizeof *rows };

/* Keys that a text must have together or not at all: a reader of the first needs the others. */
static const struct {
	size_t a, b;
} together[] = {
	{ FIELD(loss_scale_growth), FIELD(loss_scale_hysteresis) },
	{ FIELD(data_corpora), FIELD(data_start) },
	{ FIELD(data_corpora), FIELD(data_seed) },
	{ FIELD(data_corpora), FIELD(data_seq_length) },
	{ FIELD(data_corpora), FIELD(data_loader) },
};

/* The items of a LIST. */
struct items {
	int64_t count, cap; /* count: one more than the highest number */
	const char **item;
};

/* State of parsing. */
struct parse {
	struct run_state *s;
	const char *name;
	long line;
	bool seen[ROWS];
	struct items list[ROWS];
	struct err *e;
};

static int64_t *
whole_at(const struct run_state *s, size_t off)
{
	return (int64_t *)(void *)((char *)(uintptr_t)s + off);
}

static double *
number_at(const struct run_state *s, size_t off)
{
	return (double *)(void *)((char *)(uintptr_t)s + off);
}

static const char **
text_at(const struct run_state *s, size_t off)
{
	return (const char **)(void *)((char *)(uintptr_t)s + off);
}

static const char ***
list_at(const struct run_state *s, size_t off)
{
	return (const char ***)(void *)((char *)(uintptr_t)s + off);
}

/* The key whose number is stored at that offset. */
static const char *
key_at(size_t off)
{
	int i = 0;

	while (rows[i].off != off)
		i++;
	return rows[i].key;
}

void
state_init(struct run_state *s)
{
	*s = (struct run_state){ 0 };
	for (int i = 0; i < ROWS; i++)
		if (rows[i].type == WHOLE)
			*whole_at(s, rows[i].off) = STATE_NONE;
		else if (rows[i].type == NUMBER)
			*number_at(s, rows[i].off) = NAN;
}

/* --- parsing ---------------------------------------------------------------------------------- */

/* The key's row; *number receives the number that it ends in. NULL for an unknown key. */
static const struct row *
find_row(const char *key, int64_t *number)
{
	for (int i = 0; i < ROWS; i++) {
		size_t n = strlen(rows[i].key);
		const char *digits = key + n;

		if (rows[i].type < LIST && !strcmp(key, rows[i].key))
			return &rows[i];
		if (rows[i].type < LIST || strncmp(key, rows[i].key, n))
			continue;
		*number = strtoll(digits, NULL, 10);
		if (*digits && strlen(digits) <= 7 &&
		    strspn(digits, "0123456789") == strlen(digits) &&
		    (*digits != '0' || !digits[1]) && *number < LIST_MAX)
			return &rows[i];
	}
	return NULL;
}

/* Whole numbers have no point and no exponent; 18 digits fit 63 bits. */
static int
parse_number(struct parse *p, const struct row *r, const char *text)
{
	const char *digits = text + (*text == '-');
	bool whole =
	    *digits && strlen(digits) <= 18 && strspn(digits, "0123456789") == strlen(digits);
	char *end;
	double x = strtod(text, &end);

	if (*end || !(x >= r->min && x <= r->max) || (r->type == WHOLE && !whole))
		return err_at(p->e, p->name, p->line,
		    "%s %.60s: must be a %snumber from %.16g to %.16g", r->key, text,
		    r->type == WHOLE ? "whole " : "", r->min, r->max);
	if (r->type == WHOLE)
		*whole_at(p->s, r->off) = strtoll(text, NULL, 10);
	else
		*number_at(p->s, r->off) = x;
	return 0;
}

/* One of a few words. */
static int
parse_word(struct parse *p, const struct row *r, const char *text)
{
	struct str known = { 0 };

	for (int i = 0; r->words[i]; i++) {
		if (!strcmp(text, r->words[i])) {
			*text_at(p->s, r->off) = r->words[i];
			str_release(&known);
			return 0;
		}
		str_addf(&known, "%s%s", i ? ", " : "", r->words[i]);
	}
	err_at(p->e, p->name, p->line, "%s %.60s: must be one of %s", r->key, text, known.buf);
	str_release(&known);
	return -1;
}

/* An item of a list, by its number. */
static int
parse_item(struct parse *p, const struct row *r, int64_t number, const char *text)
{
	struct items *l = &p->list[r - rows];

	if (number >= l->cap) {
		int64_t cap = 2 * number + 16;

		l->item = mem_realloc(l->item, (size_t)cap, sizeof *l->item);
		memset(l->item + l->cap, 0, (size_t)(cap - l->cap) * sizeof *l->item);
		l->cap = cap;
	}
	if (l->item[number])
		return err_at(p->e, p->name, p->line, "'%s%lld' twice", r->key, (long long)number);
	l->item[number] = text;
	l->count = number < l->count ? l->count : number + 1;
	return 0;
}

/* A key, blanks, the value; the line belongs to the pool and is modified. */
static int
parse_line(struct parse *p, char *line)
{
	size_t n = strcspn(line, " \t");
	const struct row *r;
	const char *value;
	int64_t number = 0;

	if (*line == '\0' || *line == '#')
		return 0;
	value = line + n + strspn(line + n, " \t");
	if (n == 0 || !*value)
		return err_at(p->e, p->name, p->line, "not a key and a value: '%.60s'", line);
	line[n] = '\0';
	r = find_row(line, &number);
	if (!r)
		return err_at(p->e, p->name, p->line, "unknown key '%.60s'", line);
	if (r->type == LIST)
		return parse_item(p, r, number, value);
	if (r->type == PROVENANCE)
		return 0;
	if (p->seen[r - rows])
		return err_at(p->e, p->name, p->line, "'%s' twice", line);
	p->seen[r - rows] = true;
	if (r->type == WORD)
		return parse_word(p, r, value);
	if (r->type != TEXT)
		return parse_number(p, r, value);
	*text_at(p->s, r->off) = value;
	return 0;
}

/* --- what goes together ----------------------------------------------------------------------- */

/* Reports missing lines. */
static int
check_present(const struct parse *p)
{
	const struct run_state *s = p->s;

	for (int i = 0; i < ROWS; i++)
		if (rows[i].needed && !p->seen[i])
			return err_at(p->e, p->name, 0, "no '%s'", rows[i].key);
	for (size_t i = 0; i < sizeof together / sizeof *together; i++) {
		bool a = *whole_at(s, together[i].a) != STATE_NONE,
		     b = *whole_at(s, together[i].b) != STATE_NONE;

		if (a != b)
			return err_at(p->e, p->name, 0, "'%s' without '%s'",
			    key_at(a ? together[i].a : together[i].b),
			    key_at(a ? together[i].b : together[i].a));
	}
	if (!isnan(s->loss_scale) && s->loss_scale_growth == STATE_NONE)
		return err_at(p->e, p->name, 0, "'loss_scale' without 'loss_scale_growth'");
	if (s->data_corpora != STATE_NONE && !s->data_split)
		return err_at(p->e, p->name, 0, "'data_corpora' without 'data_split'");
	if (s->origin_files != STATE_NONE && !s->origin)
		return err_at(p->e, p->name, 0, "'origin_files' without 'origin'");
	return 0;
}

/* A list must have each of its items, and no other. */
static int
check_list(const struct parse *p, const struct row *r)
{
	int64_t n = *whole_at(p->s, r->length), count = p->list[r - rows].count;

	n = n == STATE_NONE ? 0 : n;
	for (int64_t i = 0; i < n; i++)
		if (i >= count || !p->list[r - rows].item[i])
			return err_at(p->e, p->name, 0, "no '%s%lld', though %s is %lld", r->key,
			    (long long)i, key_at(r->length), (long long)n);
	if (count > n)
		return err_at(p->e, p->name, 0, "'%s%lld', though %s is %lld", r->key,
		    (long long)count - 1, key_at(r->length), (long long)n);
	return 0;
}

static int
check_lists(const struct parse *p)
{
	for (int i = 0; i < ROWS; i++)
		if (rows[i].type == LIST && check_list(p, &rows[i]) < 0)
			return -1;
	return 0;
}

/* What the lists are is the pool's, as their texts are. */
static void
take_lists(struct parse *p)
{
	for (int i = 0; i < ROWS; i++) {
		const struct items *l = &p->list[i];
		const char **item;

		if (l->count == 0)
			continue;
		item = mem_pool_alloc(&p->s->pool, (size_t)l->count, sizeof *item);
		memcpy(item, l->item, (size_t)l->count * sizeof *item);
		*list_at(p->s, rows[i].off) = item;
	}
}

/* Every iteration consumes at least one sample, and either was an optimizer step or was skipped. */
static int
check_progress(const struct parse *p)
{
	const struct run_state *s = p->s;

	if (s->optimizer_steps + s->skipped_iterations != s->iteration)
		return err_at(p->e, p->name, 0,
		    "optimizer_steps %lld and skipped_iterations %lld do not make iteration %lld",
		    (long long)s->optimizer_steps, (long long)s->skipped_iterations,
		    (long long)s->iteration);
	if (s->consumed_train_samples < s->iteration ||
	    (s->iteration == 0 && s->consumed_train_samples > 0))
		return err_at(p->e, p->name, 0,
		    "consumed_train_samples %lld cannot be those of iteration %lld",
		    (long long)s->consumed_train_samples, (long long)s->iteration);
	if (s->skipped_samples != STATE_NONE &&
	    (s->skipped_samples < s->skipped_iterations ||
		s->skipped_samples > s->consumed_train_samples - s->optimizer_steps ||
		(s->skipped_iterations == 0 && s->skipped_samples > 0)))
		return err_at(p->e, p->name, 0,
		    "skipped_samples %lld cannot be those of %lld skipped iterations",
		    (long long)s->skipped_samples, (long long)s->skipped_iterations);
	if (s->passed_samples > s->skipped_samples)
		return err_at(p->e, p->name, 0, "passed_samples %lld: more than skipped_samples",
		    (long long)s->passed_samples);
	if (s->data_start != STATE_NONE && s->data_start > s->consumed_train_samples)
		return err_at(p->e, p->name, 0,
		    "data_start %lld: more than consumed_train_samples, %lld",
		    (long long)s->data_start, (long long)s->consumed_train_samples);
	return 0;
}

/* Every line, then every rule. */
int
state_parse(struct run_state *s, const char *text, const char *name, struct err *e)
{
	struct parse p = { .s = s, .name = name, .e = e };
	char *line, *next;
	int rc = 0;

	state_init(s);
	for (line = mem_pool_strndup(&s->pool, text, strlen(text)); line && rc == 0; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		p.line++;
		rc = parse_line(&p, line);
	}
	if (rc == 0 && (check_present(&p) < 0 || check_lists(&p) < 0 || check_progress(&p) < 0))
		rc = -1;
	if (rc == 0)
		take_lists(&p);
	for (int i = 0; i < ROWS; i++)
		free(p.list[i].item);
	return rc;
}

/* --- printing --------------------------------------------------------------------------------- */

/* The items of a list, numbered. */
static void
print_list(const struct run_state *s, const struct row *r, struct str *out)
{
	const char **item = *list_at(s, r->off);

	for (int64_t i = 0; item && i < *whole_at(s, r->length); i++)
		str_addf(out, "%s%lld %s\n", r->key, (long long)i, item[i]);
}

void
state_print(const struct run_state *s, struct str *out)
{
	for (int i = 0; i < ROWS; i++) {
		const struct row *r = &rows[i];

		if (r->type == WHOLE && *whole_at(s, r->off) != STATE_NONE)
			str_addf(out, "%s %lld\n", r->key, (long long)*whole_at(s, r->off));
		if (r->type == NUMBER && !isnan(*number_at(s, r->off)))
			str_addf(out, "%s %.17g\n", r->key, *number_at(s, r->off));
		if ((r->type == WORD || r->type == TEXT) && *text_at(s, r->off))
			str_addf(out, "%s %s\n", r->key, *text_at(s, r->off));
		if (r->type == LIST)
			print_list(s, r, out);
	}
}

void
state_print_origin(const struct run_state *s, struct str *out)
{
	struct run_state only;

	state_init(&only);
	only.origin = s->origin;
	only.origin_files = s->origin_files;
	only.origin_file = s->origin_file;
	state_print(&only, out);
}

void
state_release(struct run_state *s)
{
	mem_pool_release(&s->pool);
	state_init(s);
}

void
state_edit(struct str *text, const char *key, const char *fmt, ...)
{
	struct str out = { 0 };
	size_t len = strlen(key);
	char value[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(value, sizeof value, fmt, ap);
	va_end(ap);
	for (const char *line = text->buf; line && *line;) {
		size_t n = strcspn(line, "\n");

		n += line[n] == '\n';
		if (strcspn(line, " \t") != len || strncmp(line, key, len))
			str_add(&out, line, n);
		line += n;
	}
	if (out.len && out.buf[out.len - 1] != '\n')
		str_addc(&out, '\n');
	str_addf(&out, "%s %s\n", key, value);
	str_release(text);
	*text = out;
}

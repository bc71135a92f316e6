/*
 * argv.c - fuzz target: a command line of mtrain, its words ended by NULs, against the whole table
 * of options and that of other programs' options
 *
 * Nothing is opened: words that name an option file are left out.
 */
#include "train/config/foreign.h"
#include "train/config/options.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS_MOST = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The words of the input that name no option file. */
static int
split(char *text, size_t size, char **word)
{
	int n = 0;

	for (size_t i = 0; i < size && n < WORDS_MOST; i += strlen(text + i) + 1)
		if (strncmp(text + i, "--config", 8) != 0)
			word[n++] = text + i;
	return n;
}

/* A value that is a whole word of the command line is no option. */
static void
check_value(const char *value, char *const *word, int count)
{
	for (int i = 0; i < count; i++)
		if (value == word[i] && !strncmp(value, "--", 2))
			abort();
}

static void
check_values(const struct opt_parse *p, char *const *word, int count)
{
	for (const struct opt *o = p->table; o->type != OPT_END_TYPE; o++) {
		const void *field = (const char *)p->cfg + o->off;
		const struct opt_list *l = field;

		if (o->type == OPT_STRING && *(const char *const *)field)
			check_value(*(const char *const *)field, word, count);
		for (int i = 0; o->type == OPT_LIST && i < l->count; i++)
			check_value(l->item[i], word, count);
	}
}

/* An option file of what was given is read back to the same. */
static void
check_dump(const struct opt_parse *p)
{
	struct train_options again;
	struct str one = { 0 }, two = { 0 };
	struct opt_parse q;
	struct err e;

	memset(&again, 0, sizeof again);
	opt_dump(p, true, &one);
	opt_begin(&q, mtrain_opts, &again);
	if (one.len && opt_text(&q, "dump", one.buf, false, &e) < 0)
		abort();
	opt_dump(&q, true, &two);
	if (one.len != two.len || (one.len && memcmp(one.buf, two.buf, one.len) != 0))
		abort();
	opt_release(&q);
	str_release(&one);
	str_release(&two);
}

/* Every word has a fate, and one that is wrong makes the answer. */
static void
check_outcomes(const struct opt_parse *p, int count, int rc)
{
	for (int i = 0; i < count; i++) {
		struct opt_outcome out = opt_outcome(p, i + 1);

		if (out.fate == OPT_WRONG && (!out.why || (rc == 0 && !p->want_help)))
			abort();
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = mem_strndup((const char *)data, size), *word[WORDS_MOST], *kept[WORDS_MOST];
	char **rest = kept;
	struct train_options o;
	struct opt_parse p;
	struct str notes = { 0 };
	struct err e, again;
	int count, argc, rc;

	count = argc = split(text, size, word);
	memcpy(kept, word, sizeof *word * (size_t)count);
	memset(&o, 0, sizeof o);
	opt_begin(&p, mtrain_opts, &o);
	p.foreign = &mtrain_foreign;
	if (size % 2)
		p.no_operands = "no operands";
	rc = opt_argv(&p, &argc, &rest, &e);
	if (argc < 0 || argc > count || (rc < 0 && opt_answer(&p, &again) == 0))
		abort();
	check_values(&p, word, count);
	opt_unread(&p, NULL, &notes);
	check_outcomes(&p, count, rc);
	if (rc == 0 && !p.errors->count && !memchr(data, '\n', size))
		check_dump(&p);
	str_release(&notes);
	opt_release(&p);
	free(text);
	return 0;
}

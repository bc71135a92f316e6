/* words.c - command lines of random words: none crashes the parser, and no value is read from an
 * option; SEED chooses the words */
#include "tests/check.h"
#include "train/config/config.h"
#include "train/config/foreign.h"
#include "train/config/options.h"

#include <stdlib.h>
#include <string.h>

enum { LINES = 4000, WORDS = 12, PLAIN = 11 };

static uint64_t state;

static uint64_t
draw(uint64_t below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % below;
}

/* A name of ours. */
static const char *
own(void)
{
	static size_t rows;

	while (mtrain_opts[rows].type != OPT_END_TYPE)
		rows++;
	for (;;) {
		const struct opt *o = &mtrain_opts[draw(rows)];

		if (o->name && o->type != OPT_CONFIG && o->type != OPT_HELP)
			return o->name;
	}
}

/* One word: an option of some table, its beginning, a value, or what is neither. */
static void
word(char *out, size_t cap)
{
	static const char *const values[] = { "1", "-5", "-", "1_000", "1__0", "1e-3", "adam",
		"16 16 2", "", "=", "-q", "--", "---", "--=", "-x", "x y", "\x1e", "\xff", "0.5",
		"gpt", "a/b" };

	switch (draw(6)) {
	case 0:
	case 1: snprintf(out, cap, "--%s", own()); break;
	case 2:
		snprintf(out, cap, "--%s",
		    mtrain_foreign.row[draw((uint64_t)mtrain_foreign.count)].name);
		break;
	case 3:
		snprintf(out, cap, "--%s", own());
		out[2 + draw(strlen(out) - 1)] = '\0';
		break;
	case 4: snprintf(out, cap, "--%s=%s", own(), values[draw(PLAIN)]); break;
	default: snprintf(out, cap, "%s", values[draw(sizeof values / sizeof *values)]);
	}
}

/* No value begins with two dashes: none of those that are typed with '=' does. */
static void
check_values(const struct train_config *c)
{
	for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++) {
		const void *field = (const char *)&c->o + o->off;
		const struct opt_list *l = field;

		if (o->type == OPT_STRING && *(const char *const *)field)
			CHECK(strncmp(*(const char *const *)field, "--", 2) != 0);
		for (int i = 0; o->type == OPT_LIST && i < l->count; i++)
			CHECK(strncmp(l->item[i], "--", 2) != 0);
	}
}

static void
one_line(void)
{
	static char text[WORDS + 1][160];
	char *argv[WORDS + 1] = { text[0] };
	struct train_config c;
	struct err e = { "" };
	int n = 1 + (int)draw(WORDS), rc;

	snprintf(text[0], sizeof text[0], "mtrain");
	for (int i = 1; i <= n; i++) {
		word(text[i], sizeof text[i]);
		argv[i] = text[i];
	}
	rc = train_parse(&c, n + 1, argv, &e);
	CHECK((rc < 0) == (e.msg[0] != '\0'));
	check_values(&c);
	train_release(&c);
}

int
main(void)
{
	const char *seed = getenv("SEED");

	state = seed ? strtoull(seed, NULL, 10) : 1;
	for (int i = 0; i < LINES; i++)
		one_line();
	return check_done();
}

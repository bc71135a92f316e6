/*
 * explain.c - printing a ported launch: the command, a table, what is not known
 *
 * Options that have no effect are left out of the command. One that is refused stays in it, so that
 * mtrain refuses the command for the same reason.
 */
#include "train/run/explain.h"
#include "lib/base/outfile.h"
#include "lib/base/prog.h"
#include "train/config/port.h"

#include <stdlib.h>
#include <string.h>

/* Words as a shell takes them; what only a run knows stays visible as <...>. */
static void
add_shell_word(struct str *out, const char *word)
{
	bool plain = *word != '\0';

	for (const char *s = word; *s; s++)
		plain &= !strchr(" \t\n'\"\\$`*?[](){}|&;#!", *s);
	if (plain || strchr(word, '<')) {
		str_adds(out, word);
		return;
	}
	if (strchr(word, '\'') && !strpbrk(word, "\"$`\\!")) {
		str_addf(out, "\"%s\"", word);
		return;
	}
	str_addc(out, '\'');
	for (const char *s = word; *s; s++)
		if (*s == '\'')
			str_adds(out, "'\\''");
		else
			str_addc(out, *s);
	str_addc(out, '\'');
}

/* As option files have it. */
static void
add_file_word(struct str *out, const char *word)
{
	if (*word && !strpbrk(word, " \t\"#")) {
		str_adds(out, word);
		return;
	}
	str_addc(out, '"');
	for (const char *s = word; *s; s++) {
		if (*s == '"' || *s == '\\')
			str_addc(out, '\\');
		str_addc(out, *s);
	}
	str_addc(out, '"');
}

static void
add_words(struct str *out, int count, const char *const *word,
    void (*add)(struct str *out, const char *word))
{
	for (int i = 0; i < count; i++) {
		if (i)
			str_addc(out, ' ');
		add(out, word[i]);
	}
}

/* One option a line; an alias of several options is on one. */
static void
add_command(struct str *out, const struct port *p, const char *world)
{
	str_adds(out, "mpirun -np ");
	str_adds(out, world);
	str_adds(out, " mtrain");
	for (int i = 0; i < p->rows; i++) {
		const struct port_row *r = &p->row[i];

		if (!r->here_count)
			continue;
		str_adds(out, " \\\n\t");
		add_words(out, r->here_count, r->here, add_shell_word);
	}
	str_addc(out, '\n');
}

/* The option file; a word that is no option is a comment in it. */
static void
add_file(struct str *out, const struct port *p, const char *from, const char *world)
{
	str_addf(out, "# from %s: mpirun -np %s mtrain --config FILE\n", from, world);
	for (int i = 0; i < p->rows; i++) {
		const struct port_row *r = &p->row[i];

		for (int k = 0; k < r->here_count; k++) {
			const char *word = r->here[k];
			bool option = word[0] == '-' && word[1] == '-';
			const char *equal = option ? strchr(word, '=') : NULL;

			if (option)
				str_addf(out, "%s%.*s", k ? "\n" : "",
				    equal ? (int)(equal - word) - 2 : (int)strlen(word), word + 2);
			else if (!k)
				str_adds(out, "#");
			if (!option || equal) {
				str_addc(out, ' ');
				add_file_word(out, equal ? equal + 1 : word);
			}
		}
		if (r->here_count)
			str_addc(out, '\n');
	}
}

/* Cells are as wide as the longest that is shown, up to WIDTH; a longer one is shortened, since the
 * command has it whole. */
enum { WIDTH = 48 };

static void
add_cell(struct str *out, const char *text, int width)
{
	if (strlen(text) > WIDTH)
		str_addf(out, "%.*s...  ", WIDTH - 3, text);
	else
		str_addf(out, "%-*s  ", width, text);
}

/* The two cells of a row before its fate. */
static void
cells(const struct port_row *r, struct str *given, struct str *here)
{
	str_clear(given);
	str_clear(here);
	add_words(given, r->count, r->word, str_adds);
	if (r->here == r->word)
		str_adds(here, "the same");
	else
		add_words(here, r->here_count, r->here, str_adds);
	if (!here->len)
		str_adds(here, "-");
}

static int
wider(int width, size_t len)
{
	len = len > WIDTH ? WIDTH : len;
	return (int)len > width ? (int)len : width;
}

/* "without effect", "refused (mathematics)". */
static void
add_what(struct str *out, const struct port_row *r)
{
	str_adds(out, port_fate_name(r->fate));
	if (r->kind)
		str_addf(out, " (%s)", r->kind);
}

/* Kept options are counted, and listed with -v. */
static void
add_table(struct str *out, const struct port *p)
{
	bool all = prog_level() > 0;
	struct str given = { 0 }, here = { 0 };
	int given_width = 5, here_width = 4;

	for (int i = 0; i < p->rows; i++) {
		if (!all && p->row[i].fate == PORT_KEPT)
			continue;
		cells(&p->row[i], &given, &here);
		given_width = wider(given_width, given.len);
		here_width = wider(here_width, here.len);
	}
	if (given.len) {
		add_cell(out, "given", given_width);
		add_cell(out, "here", here_width);
		str_adds(out, "what\n");
	}
	for (int i = 0; i < p->rows; i++) {
		const struct port_row *r = &p->row[i];

		if (!all && r->fate == PORT_KEPT)
			continue;
		cells(r, &given, &here);
		add_cell(out, given.buf, given_width);
		add_cell(out, here.buf, here_width);
		add_what(out, r);
		str_addf(out, "%s%s\n", r->why ? ": " : "", r->why ? r->why : "");
	}
	str_release(&given);
	str_release(&here);
}

/* "24 options: 20 kept, 4 without effect". */
static void
add_counts(struct str *out, const struct port *p)
{
	str_addf(out, "%d option%s:", p->rows, p->rows == 1 ? "" : "s");
	for (int f = 0, n = 0; f < PORT_FATES; f++)
		if (p->tally[f])
			str_addf(out, "%s %d %s", n++ ? "," : "", p->tally[f],
			    port_fate_name((enum port_fate)f));
	str_addc(out, '\n');
}

/* Where the number of ranks is from, or how to give it. */
static void
add_world(struct str *out, const struct script *s, const char *world)
{
	if (!s->world_from)
		str_adds(out,
		    "ranks: 1, since nothing says how many; WORLD_SIZE=N after the script does\n");
	else if (script_has_hole(s->world))
		str_addf(out,
		    "ranks: %s is not known (%s); WORLD_SIZE=N after the script says it\n", world,
		    s->world_from);
	else
		str_addf(out, "ranks: %s (%s)\n", world, s->world_from);
}

static void
add_member(struct str *out, const char *name, const char *value)
{
	str_addf(out, "%s\"%s\": ", *name == 'g' ? "{" : ", ", name);
	str_add_json(out, value, strlen(value));
}

/* An object a row: given, here (empty where it is left out), what, why. */
static void
add_json(struct str *out, const struct port *p)
{
	for (int i = 0; i < p->rows; i++) {
		const struct port_row *r = &p->row[i];
		struct str given = { 0 }, here = { 0 }, what = { 0 };

		add_words(&given, r->count, r->word, str_adds);
		add_words(&here, r->here_count, r->here, str_adds);
		add_what(&what, r);
		add_member(out, "given", given.buf);
		add_member(out, "here", here.len ? here.buf : "");
		add_member(out, "what", what.buf);
		add_member(out, "why", r->why ? r->why : "");
		str_adds(out, "}\n");
		str_release(&what);
		str_release(&given);
		str_release(&here);
	}
}

/* Prints, and writes the file; false when that failed. */
static int
print(const struct train_config *c, const struct script *s, const struct port *p, struct err *e)
{
	struct str out = { 0 }, world = { 0 }, file = { 0 };
	int rc = 0;

	script_show(&world, s->world);
	if (c->o.output) {
		add_file(&file, p, *c->operands.word[0] == '-' ? "options" : c->operands.word[0],
		    world.buf);
		rc = outfile_write(c->o.output, file.buf, file.len, e);
	}
	if (c->o.json) {
		add_json(&out, p);
	} else {
		if (!c->o.output) {
			add_command(&out, p, world.buf);
			str_addc(&out, '\n');
		}
		add_table(&out, p);
		add_counts(&out, p);
		add_world(&out, s, world.buf);
		str_adds(&out, p->rules.buf ? p->rules.buf : "");
		str_adds(&out, s->notes.buf ? s->notes.buf : "");
	}
	str_put(&out, stdout);
	str_release(&out);
	str_release(&world);
	str_release(&file);
	return rc;
}

/* A script, or options that stand after "--". */
static int
read_launch(const struct train_config *c, struct script *s, struct err *e)
{
	struct script_request r = { .name = c->operands.word[0],
		.word = (const char **)c->operands.word + 1,
		.words = c->operands.count - 1,
		.follow = true };

	if (*c->operands.word[0] != '-')
		return script_read(s, &r, e);
	*s = (struct script){ .option = (const char **)c->operands.word,
		.options = c->operands.count,
		.program = "mtrain",
		.world = "1" };
	return 0;
}

int
train_explain(const struct train_config *c)
{
	struct script s;
	struct port p;
	struct err e;
	int status;

	if (!c->operands.count)
		die_usage("--explain: needs a script, or options after --");
	if (read_launch(c, &s, &e) < 0)
		die_usage("%s", e.msg);
	port_make(&p, &s);
	status = p.tally[PORT_UNKNOWN] || p.tally[PORT_REFUSED] || p.rules.len ||
		script_has_hole(s.world)
	    ? EXIT_FAILED
	    : EXIT_DONE;
	if (print(c, &s, &p, &e) < 0)
		die("%s", e.msg);
	port_release(&p);
	script_release(&s);
	return status;
}

/*
 * agree.c - comparing what the ranks were given, and handing out what only one can read, before any
 * rank depends on it
 *
 * Ranks with different options would wait for each other for ever, or train one model with two
 * learning rates. One reduction of 16 bytes shows the difference.
 */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/config/agree.h"
#include "train/config/config.h"
#include "train/config/start.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- which options ---------------------------------------------------------------------------- */

/* The strings and lists of lib/model/options.h, whose rows know of no ranks, except a model's
 * fields; option_list.h has a column of it. */
static const struct {
	const char *name;
	enum agree_on on;
} sorted[] = {
	{ "model", AGREE_PRESENCE },
	{ "pipeline-model-parallel-layout", AGREE_VALUE },
	{ "rampup-batch-size", AGREE_VALUE },
	{ "step-batch-size-schedule", AGREE_VALUE },
	{ "recompute-modules", AGREE_VALUE },
};

enum agree_on
agree_on(const struct opt *o)
{
	if (o->tag >> AGREE_SHIFT)
		return (enum agree_on)((o->tag >> AGREE_SHIFT) - 1);
	for (size_t i = 0; i < sizeof sorted / sizeof *sorted; i++)
		if (!strcmp(sorted[i].name, o->name))
			return sorted[i].on;
	return (o->type == OPT_STRING || o->type == OPT_LIST) && !(o->tag & MODEL_DUMPED)
	    ? AGREE_UNSORTED
	    : AGREE_VALUE;
}

/* The row of an option's name; NULL where there is no such option. */
static const struct opt *
row(const char *name, size_t len)
{
	const struct opt *o = mtrain_opts;

	for (; o->type != OPT_END_TYPE; o++)
		if (o->name && strlen(o->name) == len && !memcmp(o->name, name, len))
			return o;
	return NULL;
}

/* --- the first difference --------------------------------------------------------------------- */

/* The line of a text that begins at `at`: its length without the newline, and its name's length. */
struct line {
	const char *at;
	size_t len, name;
};

static struct line
line_at(const char *at)
{
	return (struct line){ at, strcspn(at, "\n"), strcspn(at, "\t\n") };
}

static const char *
next_line(const struct line *l)
{
	return l->at + l->len + (l->at[l->len] == '\n');
}

/* True when a text has a line of that name. */
static bool
has_name(const char *text, const struct line *of)
{
	for (struct line l = line_at(text); *l.at; l = line_at(next_line(&l)))
		if (l.name == of->name && !memcmp(l.at, of->at, l.name))
			return true;
	return false;
}

/* The first line in which two texts differ, and what each rank has on it: the value, or where there
 * is none whether it has the line. The texts are equal up to there, so either both have a line of
 * that name or one of them lacks it. */
static void
add_difference(struct str *out, const char *text[2], const char *where[2])
{
	enum { LONGEST = 200 };
	struct line l[2] = { line_at(text[0]), line_at(text[1]) };
	bool has[2] = { true, true };
	const struct line *name;

	while (*l[0].at && l[0].len == l[1].len && !memcmp(l[0].at, l[1].at, l[0].len))
		for (int i = 0; i < 2; i++)
			l[i] = line_at(next_line(&l[i]));
	if (l[0].name != l[1].name || memcmp(l[0].at, l[1].at, l[0].name)) {
		has[0] = *l[0].at && !has_name(l[1].at, &l[0]);
		has[1] = !has[0];
	}
	name = &l[has[0] ? 0 : 1];
	str_addf(out, "%.*s: ", (int)name->name, name->at);
	for (int i = 0; i < 2; i++) {
		size_t value = has[i] && l[i].len > l[i].name ? l[i].len - l[i].name - 1 : 0;

		if (value)
			str_addf(out, "%.*s", (int)(value < LONGEST ? value : LONGEST),
			    l[i].at + l[i].name + 1);
		else
			str_adds(out, has[i] ? "given" : "not given");
		str_addf(out, " on %s%s", where[i], i ? "" : ", ");
	}
}

/* The text after this one. */
static const char *
after(const char *text)
{
	return text + strlen(text) + 1;
}

/* Appends the names of more hosts with ranks that differ from rank 0, each once, besides that of
 * `known`. */
static void
add_others(struct str *out, const char *all, const char *end, const char *known)
{
	enum { MOST = 8 };
	const char *named[MOST] = { known };
	int count = 1;

	for (const char *host = all; host < end; host = after(after(host))) {
		int i = 0;

		while (i < count && strcmp(named[i], host))
			i++;
		if (i < count || count == MOST || !strcmp(after(host), after(all)))
			continue;
		str_addf(out, "%s%s", count == 1 ? "; others differ too, on " : ", ", host);
		named[count++] = host;
	}
}

/* On rank 0: all holds "HOST<NUL>TEXT<NUL>" of every rank, up to end. Rank 0 is compared with the
 * first rank that differs from it; the hosts of others are named. */
static void
describe(const char *all, const char *end, struct err *e)
{
	const char *host[2] = { all }, *text[2] = { after(all) }, *where[2];
	struct str place[2] = { { 0 } }, out = { 0 };
	int rank = 0;

	text[1] = text[0];
	while (!strcmp(text[0], text[1])) {
		host[1] = after(text[1]);
		text[1] = after(host[1]);
		rank++;
	}
	for (int i = 0; i < 2; i++) {
		str_addf(&place[i], "rank %d (%s)", i ? rank : 0, host[i]);
		where[i] = place[i].buf;
	}
	add_difference(&out, text, where);
	add_others(&out, all, end, host[1]);
	str_adds(&out, ": must be the same on all ranks");
	err_set(e, "%s", out.buf);
	for (int i = 0; i < 2; i++)
		str_release(&place[i]);
	str_release(&out);
}

/* --- agreement -------------------------------------------------------------------------------- */

/* The greatest hash, and the greatest complement, which belongs to the least hash, in one
 * reduction. */
int
agree_text(struct comm *world, const char *text, struct err *e)
{
	const char *own = text ? text : "";
	uint64_t sum = hash_xxh3(own, strlen(own)) >> 1;
	int64_t ends[2] = { (int64_t)sum, -(int64_t)sum };
	struct tensor t = tensor_1d(ends, DTYPE_I64, 2);
	struct str mine = { 0 };
	char host[256] = "", *all;
	size_t total;

	world->ops->all_reduce(COMM_HERE(world), NULL, &(struct comm_reduce){ t, REDUCE_MAX });
	if (ends[0] == -ends[1])
		return 0;
	gethostname(host, sizeof host - 1);
	str_adds(&mine, host);
	str_addc(&mine, '\0');
	str_adds(&mine, own);
	all = world->ops->gather_bytes(COMM_HERE(world), mine.buf, mine.len + 1, 0, &total);
	if (all)
		describe(all, all + total, e);
	free(all);
	str_release(&mine);
	return -1;
}

/* Options after which no other counts: there is always a line of each. */
static void
add_answer(struct str *out, const char *name, bool given)
{
	str_addf(out, "--%s\t%s\n", name, given ? "given" : "not given");
}

/* Compares the options that have a value, in the order of the table: of each a line of its name and
 * what is compared of it. */
int
agree_options(struct comm *world, const struct train_config *c, struct err *e)
{
	struct str text = { 0 }, dump = { 0 };
	int rc;

	/* the options of a rank that cannot read their file differ for that reason alone */
	if (comm_agree(COMM_HERE(world), c->parse.unread ? -1 : 0, e))
		return -1;
	str_addf(&text, "version\t%s\n", prog_build());
	add_answer(&text, "help", c->parse.want_help);
	add_answer(&text, "version", c->parse.want_version);
	add_answer(&text, "mdoc", c->want_mdoc);
	opt_dump(&c->parse, false, &dump);
	for (const char *at = dump.buf; at && *at;) {
		size_t len = strcspn(at, "\n"), name = strcspn(at, " \n"),
		       value = len > name ? len - name - 1 : 0;
		const struct opt *o = row(at, name);
		enum agree_on on = o ? agree_on(o) : AGREE_VALUE;

		if (on != AGREE_NOTHING)
			str_addf(&text, "--%.*s\t%.*s\n", (int)name, at,
			    on == AGREE_PRESENCE ? 0 : (int)value, at + name + 1);
		at += len + (at[len] == '\n');
	}
	rc = agree_text(world, text.buf, e);
	str_release(&dump);
	str_release(&text);
	return rc;
}

int
agree_bytes(struct comm *world, int rc, char **text, size_t *len, struct err *e)
{
	int64_t bytes = world->rank == 0 && rc == 0 ? (int64_t)*len : 0;
	struct tensor length = tensor_1d(&bytes, DTYPE_I64, 1), all;

	if (comm_agree(COMM_HERE(world), rc, e))
		return -1;
	world->ops->broadcast(COMM_HERE(world), NULL, &(struct comm_broadcast){ length, 0 });
	if (world->rank != 0)
		*text = mem_zalloc((size_t)bytes + 1, 1);
	all = tensor_1d(*text, DTYPE_U8, bytes);
	if (bytes)
		world->ops->broadcast(COMM_HERE(world), NULL, &(struct comm_broadcast){ all, 0 });
	*len = (size_t)bytes;
	return 0;
}

int
agree_lists(struct comm *world, struct train_config *c, struct err *e)
{
	struct path_options *o = &c->o.paths;
	int rc = 0;

	if (!train_reads_data(c) || !path_options_file(o))
		return 0;
	if (world->rank == 0)
		rc = data_paths_load(o, &c->lists, &o->text_bytes, e);
	rc = agree_bytes(world, rc, &c->lists, &o->text_bytes, e);
	o->text = c->lists;
	return rc;
}

/* A difference between MPI libraries is worth a note, and no more. */
int
agree_start(struct comm *world, struct train_config *c, struct err *e)
{
	struct str text = { 0 };
	struct err why = { "" };
	const struct backend *b = backend_choose(mtrain_backends[c->o.backend], &why);
	char libraries[256] = "";
	int rc;

	str_addf(&text, "backend\t%s\n", b ? b->name : why.msg);
	if (b && b->describe)
		b->describe(libraries, sizeof libraries);
	str_addf(&text, "libraries\t%s\n", libraries);
	train_start_text(c, &text);
	rc = agree_text(world, text.buf, e);
	if (rc == 0) {
		str_clear(&text);
		str_adds(&text, "MPI library\t");
		mpi_describe(&text);
		if (agree_text(world, text.buf, &why) < 0 && world->rank == 0)
			note("%s", why.msg);
	}
	str_release(&text);
	return rc;
}

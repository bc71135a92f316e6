/*
 * stages.c - --data-schedule: lists of corpora that change at given tokens
 *
 * A line is a stage, "TOKENS WEIGHT PREFIX WEIGHT PREFIX ...": from so many tokens of the run on,
 * its corpora with these weights. A '#' at the beginning of a word makes the rest of the line a
 * comment. The first stage begins at 0, and each later one after the one before it.
 */
#include "lib/base/mem.h"
#include "lib/base/scaled.h"
#include "lib/base/str.h"
#include "lib/data/paths.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The words of a line. */
struct words {
	const char **word;
	int count, cap;
};

/* Cuts a line into its words, up to a comment. */
static void
cut_words(char *line, struct words *w)
{
	char *save = NULL;

	w->count = 0;
	for (char *p = strtok_r(line, " \t\v\f\r", &save); p && *p != '#';
	     p = strtok_r(NULL, " \t\v\f\r", &save)) {
		if (w->count == w->cap)
			w->word = mem_realloc(
			    w->word, (size_t)(w->cap = 2 * w->cap + 64), sizeof *w->word);
		w->word[w->count++] = p;
	}
}

/* Whether a list names a prefix. */
static bool
has(const struct path_list *l, const char *prefix)
{
	for (int i = 0; i < l->count; i++)
		if (!strcmp(l->prefix[i], prefix))
			return true;
	return false;
}

/* Adds the corpora of a stage that no earlier one has to the list of all. */
static void
join(struct path_list *all, const struct path_list *l)
{
	all->prefix =
	    mem_realloc(all->prefix, (size_t)all->count + (size_t)l->count, sizeof *all->prefix);
	for (int i = 0; i < l->count; i++)
		if (!has(all, l->prefix[i]))
			all->prefix[all->count++] = mem_strdup(l->prefix[i]);
}

/* The rule that the corpora of a stage follow. */
static int
check_list(const struct path_list *l, const char *name, struct err *e)
{
	if (!l->weight)
		return err_set(e,
		    "%s: a stage is TOKENS WEIGHT PREFIX WEIGHT PREFIX ...: every "
		    "prefix needs a weight",
		    name);
	for (int i = 1; i < l->count; i++)
		for (int k = 0; k < i; k++)
			if (!strcmp(l->prefix[i], l->prefix[k]))
				return err_set(
				    e, "%s: '%s' twice in one stage", name, l->prefix[i]);
	return 0;
}

/* Adds the stage of a line of words. */
static int
add_stage(const struct words *w, const char *name, struct data_paths *out, struct err *e)
{
	struct data_stage *s;
	const char *at = w->word[0];
	int64_t tokens, before = out->num_stages ? out->stage[out->num_stages - 1].tokens : -1;

	if (!scaled_read(&at, '\0', &tokens))
		return err_set(e,
		    "%s: '%.60s': a stage begins with its first token, a number such as 0, 250B "
		    "or 1.2T",
		    name, w->word[0]);
	if (out->num_stages == 0 && tokens != 0)
		return err_set(
		    e, "%s: the first stage begins at %.60s tokens: must be 0", name, w->word[0]);
	if (tokens <= before)
		return err_set(e,
		    "%s: begins at %lld tokens: must be more than the %lld of the "
		    "stage before it",
		    name, (long long)tokens, (long long)before);
	out->stage = mem_realloc(out->stage, (size_t)out->num_stages + 1, sizeof *out->stage);
	s = &out->stage[out->num_stages];
	if (path_list_parse(w->count - 1, w->word + 1, name, &s->list, e) < 0)
		return -1;
	s->tokens = tokens;
	out->num_stages++;
	if (check_list(&s->list, name, e) < 0)
		return -1;
	join(&out->list[SPLIT_TRAIN], &s->list);
	return 0;
}

int
data_stages_parse(const char *text, const char *path, struct data_paths *out, struct err *e)
{
	char *copy = mem_strdup(text);
	struct words w = { 0 };
	struct str name = { 0 };
	int rc = 0;
	long number = 0;

	for (char *line = copy, *next; line && rc == 0; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		cut_words(line, &w);
		str_clear(&name);
		str_addf(&name, "%s:%ld", path, ++number);
		if (w.count)
			rc = add_stage(&w, name.buf, out, e);
	}
	if (rc == 0 && out->num_stages == 0)
		rc = err_at(e, path, 0, "has no stage: a line is TOKENS WEIGHT PREFIX ...");
	str_release(&name);
	free(w.word);
	free(copy);
	return rc;
}

int64_t
data_stage_samples(const struct data_stage *s, int64_t seq_length)
{
	return (s->tokens + seq_length - 1) / seq_length;
}

/* --- in checkpoints --------------------------------------------------------------------------- */

/* Reads a whole number from 0 to 2^53 and the byte after it. */
static bool
read_whole(const char **at, char end, int64_t *out)
{
	size_t n = strspn(*at, "0123456789");

	if (n == 0 || n > 16 || (*at)[n] != end)
		return false;
	*out = strtoll(*at, NULL, 10);
	*at += n + (end != '\0');
	return *out <= 1LL << 53;
}

/* Reads "CORPUS:WEIGHT" up to a blank or the end. */
static bool
read_share(const char **at, int64_t corpora, struct stage_record *r)
{
	int64_t corpus;
	char *end;
	double w;

	if (!read_whole(at, ':', &corpus) || corpus >= corpora || !strchr("0123456789", **at))
		return false;
	w = strtod(*at, &end);
	if (end == *at || (*end && *end != ' ') || !isfinite(w) || !(w > 0))
		return false;
	r->corpus = mem_realloc(r->corpus, (size_t)r->count + 1, sizeof *r->corpus);
	r->weight = mem_realloc(r->weight, (size_t)r->count + 1, sizeof *r->weight);
	r->corpus[r->count] = (int)corpus;
	r->weight[r->count++] = w;
	*at = end + (*end == ' ');
	return true;
}

/* A stage, up to the bar after it or the end; samples and tokens rise. */
static bool
read_record(
    const char **at, int64_t corpora, const struct stage_record *before, struct stage_record *r)
{
	if (!read_whole(at, ' ', &r->first) || !read_whole(at, ' ', &r->tokens) ||
	    (before && (r->first < before->first || r->tokens <= before->tokens)))
		return false;
	while (**at && **at != '|')
		if (!read_share(at, corpora, r))
			return false;
	if (**at == '|') {
		if ((*at)[1] != ' ' || !(*at)[2])
			return false;
		*at += 2;
	}
	return r->count > 0;
}

int
stage_records_parse(
    const char *text, int64_t corpora, struct stage_record **out, int *count, struct err *e)
{
	const char *at = text;

	*out = NULL;
	*count = 0;
	while (*at) {
		struct stage_record *r;

		*out = mem_realloc(*out, (size_t)*count + 1, sizeof **out);
		r = &(*out)[(*count)++];
		*r = (struct stage_record){ 0 };
		if (!read_record(&at, corpora, *count > 1 ? r - 1 : NULL, r))
			return err_set(e, "stage %d is damaged", *count);
	}
	return 0;
}

void
stage_records_free(struct stage_record *r, int count)
{
	for (int i = 0; i < count; i++) {
		free(r[i].corpus);
		free(r[i].weight);
	}
	free(r);
}

char *
stage_records_text(const struct data_paths *p, const int64_t *first)
{
	const struct path_list *all = &p->list[SPLIT_TRAIN];
	struct str out = { 0 };

	for (int k = 0; k < p->num_stages; k++) {
		const struct data_stage *s = &p->stage[k];

		str_addf(
		    &out, "%s%lld %lld", k ? " | " : "", (long long)first[k], (long long)s->tokens);
		for (int i = 0; i < s->list.count; i++)
			for (int c = 0; c < all->count; c++)
				if (!strcmp(all->prefix[c], s->list.prefix[i]))
					str_addf(&out, " %d:%.17g", c, s->list.weight[i]);
	}
	return str_detach(&out);
}

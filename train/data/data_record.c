/*
 * data_record.c - what checkpoints record of the data, and how the order of samples continues
 *
 * A checkpoint holds, in state.conf, what the order of samples follows from: seed, length, split,
 * loader, and for each corpus of the training list its fingerprint, weight, request and the samples
 * consumed. A resumed run compares. When something differs, --data-change decides:
 *
 *   restart: the new list begins with its first sample, as a run of the steps that are left would
 *   exclude-seen: the new list too, but each corpus continues in the order it had (maps of the same
 *     request) after the samples that were drawn of it, and begins that order again only when all
 *     of it has been drawn
 *   mask: only masks may differ; the order continues, and its tokens count as the new masks say
 *
 * Corpora are identified by content, not by path: a dataset may be moved. Later checkpoints record
 * where the order began, so that they resume as any other.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/ckpt/source.h"
#include "lib/model/batch.h"
#include "train/config/start.h"
#include "train/data/data_impl.h"

#include <stdlib.h>
#include <string.h>

/* The loader in a record: its type, and whether the cyclic one is sharded. */
static int64_t
loader(const struct train_config *c)
{
	return c->o.dataloader_type +
	    (c->o.dataloader_type == SAMPLER_CYCLIC && c->o.no_data_sharding);
}

/* --- reading and writing ---------------------------------------------------------------------- */

/* Moves the fingerprint of the mask, after a '+', from that of the tokens. */
static void
take_mask(struct corpus_record *c, const char *both)
{
	const char *mask = strchr(both, '+');
	int len = mask ? (int)(mask - both) : (int)strlen(both);

	snprintf(c->fingerprint, sizeof c->fingerprint, "%.*s", len, both);
	snprintf(c->mask, sizeof c->mask, "%s", mask ? mask + 1 : "");
}

/* "FINGERPRINT[+MASK] WEIGHT FIRST ASKED EPOCHS SEPARATE CONSUMED PREFIX" */
static int
read_corpus(const struct source *s, int i, struct corpus_record *c, struct err *e)
{
	const long long most = 1LL << 53; /* samples of a run, see config.c */
	long long first, asked, epochs, consumed;
	int separate, at = 0;
	const char *text = s->state.data_corpus[i];
	char print[2 * SUMS_FINGERPRINT];

	if (sscanf(text, "%127s %lf %lld %lld %lld %d %lld %n", print, &c->weight, &first, &asked,
		&epochs, &separate, &consumed, &at) != 7 ||
	    !at || !text[at] || first < 0 || first > consumed || consumed > most || asked < -1)
		return err_set(e, "%s: state.conf: 'data_corpus_%d' is damaged", s->path, i);
	take_mask(c, print);
	c->first = first;
	c->num_samples = asked;
	c->epochs = epochs;
	c->separate = separate != 0;
	c->consumed = consumed;
	c->prefix = mem_strdup(text + at);
	return 0;
}

/* "N N ...", of each corpus; nothing: not known. */
static int
read_trained(const struct source *s, struct data_record *r, struct err *e)
{
	const char *at = s->state.data_trained;
	char *end;

	for (int i = 0; i < r->count; i++)
		r->corpus[i].trained = -1;
	for (int i = 0; at && i < r->count; i++, at = end) {
		r->corpus[i].trained = strtoll(at, &end, 10);
		if (end == at || r->corpus[i].trained < -1 || (*end && *end != ' '))
			return err_set(e, "%s: state.conf: 'data_trained' is damaged", s->path);
	}
	return 0;
}

/* What state.conf says of the data. */
static int
read_record(const struct source *s, struct data_record *r, struct err *e)
{
	const struct run_state *from = &s->state;
	struct err why;

	r->start = from->data_start;
	r->seed = from->data_seed;
	r->seq_length = from->data_seq_length;
	r->loader = from->data_loader;
	r->split = mem_strdup(from->data_split);
	r->packing = from->data_packing ? mem_strdup(from->data_packing) : NULL;
	r->corpus = mem_zalloc((size_t)from->data_corpora + 1, sizeof *r->corpus);
	for (int i = 0; i < from->data_corpora; i++) {
		r->count = i + 1;
		if (read_corpus(s, i, &r->corpus[i], e) < 0)
			return -1;
	}
	if (from->data_stages &&
	    stage_records_parse(from->data_stages, r->count, &r->stage, &r->num_stages, &why) < 0)
		return err_set(e, "%s: state.conf: 'data_stages': %s", s->path, why.msg);
	return read_trained(s, r, e);
}

static void
release_record(struct data_record *r)
{
	for (int i = 0; i < r->count; i++)
		free(r->corpus[i].prefix);
	free(r->corpus);
	free(r->split);
	free(r->packing);
	stage_records_free(r->stage, r->num_stages);
}

/* Reads what data_state writes; only a run that resumes training does. */
int
data_record_read(struct data *d, struct err *e)
{
	struct data_record *r = &d->record;
	struct source *s;
	int rc = 0;

	if (d->c->start != START_RESUME || d->c->o.skip_train)
		return 0;
	s = train_open_source(d->c->weights_from, e);
	if (!s)
		return -1;
	r->iteration = s->state.iteration;
	r->consumed = s->state.consumed_train_samples;
	r->any = s->state.data_corpora != STATE_NONE;
	if (r->any)
		rc = read_record(s, r, e);
	source_close(s);
	return rc;
}

/* Where the counts are not known, the record has none. */
static int
read_counts(const struct train_config *c, struct data_record *r, struct err *e)
{
	struct source *s = train_open_source(c->weights_from, e);
	int rc = 0;

	if (!s)
		return -1;
	if (s->state.data_corpora != STATE_NONE)
		rc = read_record(s, r, e);
	source_close(s);
	return rc;
}

/* After a rewind the run begins with another checkpoint than d->record is of. A corpus that a list
 * names twice is found in the order of its mentions. */
int
data_record_trained(const struct data *d, int64_t *out, struct err *e)
{
	int n = data_train_list(d)->count, rc = 0;
	bool resumes = d->c->start == START_RESUME && !d->c->o.skip_train;
	struct data_record r = { 0 };

	if (resumes)
		rc = read_counts(d->c, &r, e);
	for (int k = 0; k < n; k++) {
		out[k] = resumes && r.count == 0 ? -1 : 0;
		for (int i = 0; i < r.count; i++)
			if (r.corpus[i].prefix[0] &&
			    sums_same(r.corpus[i].fingerprint, data_corpus_fingerprint(d, k))) {
				out[k] = r.corpus[i].trained;
				r.corpus[i].prefix[0] = '\0';
				break;
			}
	}
	release_record(&r);
	return rc;
}

/* One corpus, as read_corpus reads it. */
static char *
corpus_text(const struct corpus_record *c)
{
	struct str out = { 0 };

	str_addf(&out, "%s%s%s %.17g %lld %lld %lld %d %lld %s", c->fingerprint,
	    c->mask[0] ? "+" : "", c->mask, c->weight, (long long)c->first,
	    (long long)c->num_samples, (long long)c->epochs, c->separate, (long long)c->consumed,
	    c->prefix);
	return out.buf;
}

/* The training set's record of corpus k of the list. */
static struct corpus_record
record_of(const struct data *d, int k, int64_t consumed)
{
	const struct path_list *l = data_train_list(d);
	struct corpus_record r = {
		.weight = l->weight ? l->weight[k] : 0, .prefix = l->prefix[k], .consumed = consumed
	};
	struct blend_corpus b;

	blend_corpus(d->set[SPLIT_TRAIN].blend, k, &b);
	snprintf(r.fingerprint, sizeof r.fingerprint, "%s", data_corpus_fingerprint(d, k));
	snprintf(r.mask, sizeof r.mask, "%s", data_corpus_mask(d, k));
	r.first = b.first;
	r.num_samples = b.num_samples;
	r.epochs = samples_num_epochs(b.samples);
	r.separate = samples_separate_final_epoch(b.samples);
	return r;
}

/* How sequences become samples, in a record; NULL: they are cut, as in records without it. */
static const char *
packing_text(const struct train_config *c)
{
	return c->o.sample_packing == PACKING_CUT ? NULL
						  : long_documents_names[c->o.long_documents];
}

/* Mock data has no corpora. */
void
data_state(const struct data *d, const int64_t *counts, const int64_t *trained, struct str *out)
{
	const struct blend *b = d->set[SPLIT_TRAIN].blend;
	int n = b ? blend_num_corpora(b) : 0, all = n + (b ? d->num_gone : 0);
	char **text = mem_zalloc((size_t)all + 1, sizeof *text);
	char *stages =
	    d->stage_first && b ? stage_records_text(&d->c->paths, d->stage_first) : NULL;
	struct str tokens = { 0 };
	struct run_state s;

	state_init(&s);
	s.data_corpora = all;
	s.data_start = d->set[SPLIT_TRAIN].start;
	s.data_seed = d->c->o.seed;
	s.data_seq_length = d->c->plan.shape.seq_length;
	s.data_loader = loader(d->c);
	s.data_bos = d->bos;
	s.data_ranks = d->c->plan.layout.data_parallel_size;
	s.data_packing = packing_text(d->c);
	s.data_split = d->c->paths.per_split ? "-" : d->c->o.split;
	for (int k = 0; k < n; k++) {
		struct corpus_record r = record_of(d, k, counts[k]);

		text[k] = corpus_text(&r);
	}
	for (int k = n; k < all; k++)
		text[k] = corpus_text(d->gone[k - n]);
	for (int k = 0; k < all; k++)
		str_addf(&tokens, "%s%lld", k ? " " : "",
		    (long long)(k < n ? trained[k] : d->gone[k - n]->trained));
	s.data_stages = stages;
	s.data_trained = tokens.buf;
	s.data_corpus = (const char **)(void *)text;
	state_print(&s, out);
	str_release(&tokens);
	free(stages);
	for (int k = 0; k < all; k++)
		free(text[k]);
	free(text);
}

/* The record owns the prefixes. */
void
data_record_release(struct data *d)
{
	release_record(&d->record);
	free(d->kept);
	free(d->gone);
	free(d->stage_first);
}

/* --- comparing -------------------------------------------------------------------------------- */

/* Corpora of the record that were in its list. */
static int
listed(const struct data_record *r)
{
	int n = 0;

	while (n < r->count && r->corpus[n].weight >= 0)
		n++;
	return n;
}

/* Options other than the lists that make the order; these cannot change with exclude-seen. */
static int
compare_options(const struct data *d, struct err *why)
{
	const struct data_record *r = &d->record;
	const struct train_config *c = d->c;
	const char *split = c->paths.per_split ? "-" : c->o.split, *packing = packing_text(c);

	if (!r->packing != !packing || (packing && strcmp(r->packing, packing)))
		return err_set(why, "--sample-packing or --long-documents differs");
	if (r->seed != c->o.seed)
		return err_set(
		    why, "--seed is %lld and was %lld", (long long)c->o.seed, (long long)r->seed);
	if (r->seq_length != c->plan.shape.seq_length)
		return err_set(why, "--seq-length is %lld and was %lld",
		    (long long)c->plan.shape.seq_length, (long long)r->seq_length);
	if (strcmp(r->split, split))
		return err_set(why, "--split is '%s' and was '%s'", split, r->split);
	if (r->loader != loader(c))
		return err_set(why, "--dataloader-type or --no-data-sharding differs");
	return 0;
}

/* Compares the weights of the list and of the record bit by bit, because any difference could
 * change the choice. */
static int
compare_weights(const struct data *d, struct err *why)
{
	const struct path_list *l = data_train_list(d);
	int n = l->count, rc = 0;
	double *mine = mem_alloc((size_t)n, sizeof *mine),
	       *theirs = mem_alloc((size_t)n, sizeof *theirs);

	for (int k = 0; k < n; k++) {
		mine[k] = l->weight ? l->weight[k] : 1;
		theirs[k] = d->record.corpus[k].weight > 0 ? d->record.corpus[k].weight : 1;
	}
	blend_normalise(mine, n, mine);
	blend_normalise(theirs, n, theirs);
	if ((l->weight != NULL) != (d->record.corpus[0].weight > 0))
		rc = err_set(why, "the list has %s",
		    l->weight ? "weights and had none" : "no weights and had some");
	for (int k = 0; k < n && rc == 0; k++)
		if (mine[k] != theirs[k])
			rc = err_set(why, "the share of %s is %.6g and was %.6g", l->prefix[k],
			    mine[k], theirs[k]);
	free(mine);
	free(theirs);
	return rc;
}

/* Compares stage k of the schedule with that of the record. */
static int
compare_stage(const struct data *d, int k, struct err *why)
{
	const struct data_stage *now = &d->c->paths.stage[k];
	const struct stage_record *was = &d->record.stage[k];
	const struct path_list *l = &now->list;

	if (now->tokens != was->tokens)
		return err_set(why, "stage %d begins at %lld tokens and began at %lld", k + 1,
		    (long long)now->tokens, (long long)was->tokens);
	if (l->count != was->count)
		return err_set(
		    why, "stage %d has %d corpora and had %d", k + 1, l->count, was->count);
	for (int i = 0; i < l->count; i++) {
		const struct corpus_record *c = &d->record.corpus[was->corpus[i]];

		if (!sums_same(
			c->fingerprint, d->fingerprint[corpora_find(d->corpora, l->prefix[i])]))
			return err_set(why, "corpus %d of stage %d, %s, is not what %s was", i + 1,
			    k + 1, l->prefix[i], c->prefix);
		if (l->weight[i] != was->weight[i])
			return err_set(why, "the weight of %s in stage %d is %.6g and was %.6g",
			    l->prefix[i], k + 1, l->weight[i], was->weight[i]);
	}
	return 0;
}

/* The stages of the record from which samples were drawn. */
static int
used_stages(const struct data_record *r)
{
	int n = 0;

	while (n < r->num_stages && r->stage[n].first < r->consumed)
		n++;
	return n;
}

/* Compares schedules from stage `first` to before `end`, or whether there are as many. */
static int
compare_stages(const struct data *d, int first, int end, struct err *why)
{
	const struct data_record *r = &d->record;
	int n = d->c->paths.num_stages;

	for (int k = first; k < end && k < n && k < r->num_stages; k++)
		if (compare_stage(d, k, why) < 0)
			return -1;
	if (n < end || r->num_stages < end)
		return err_set(why, "the schedule has %d stages and had %d", n, r->num_stages);
	return 0;
}

static int
compare_lists(const struct data *d, struct err *why)
{
	const struct path_list *l = data_train_list(d);
	const struct data_record *r = &d->record;
	int n = listed(r), now = d->c->paths.num_stages;

	if (n == 0)
		return err_set(why, "it was trained on mock data");
	if (!now != !r->num_stages)
		return err_set(why, "%s", now ? "it had no schedule" : "it had a schedule");
	if (now)
		return compare_stages(d, 0, now > r->num_stages ? now : r->num_stages, why);
	for (int k = 0; k < n && k < l->count; k++)
		if (!sums_same(r->corpus[k].fingerprint, data_corpus_fingerprint(d, k)))
			return err_set(why, "corpus %d of the list, %s, is not what %s was", k + 1,
			    l->prefix[k], r->corpus[k].prefix);
	if (n != l->count)
		return err_set(why, "the list has %d corpora and had %d", l->count, n);
	return compare_weights(d, why);
}

/* Compares the masks of equal lists, which a schedule has where its lines are equal. */
static int
compare_masks(const struct data *d, struct err *why)
{
	const struct path_list *l = data_train_list(d);

	for (int k = 0; k < l->count && k < d->record.count; k++) {
		const char *now = data_corpus_mask(d, k), *was = d->record.corpus[k].mask;

		if (!*now != !*was)
			return err_set(why, "%s has %s", l->prefix[k],
			    *now ? "a mask and had none" : "no mask and had one");
		if (*now && !sums_same(now, was))
			return err_set(why, "the mask of %s is not what it was", l->prefix[k]);
	}
	return 0;
}

/* --- continuing ------------------------------------------------------------------------------- */

/* Continues each corpus of the list from its record; at_end: from the end of what was consumed,
 * else from where its present order began, with the maps that it had if same_maps. A corpus that a
 * list names twice is continued in the order of its mentions. Corpora of the record that are not in
 * the list stay in later records. */
static void
take_up(struct data *d, bool at_end, bool same_maps)
{
	const struct data_record *r = &d->record;
	int n = data_train_list(d)->count;
	bool *taken = mem_zalloc((size_t)r->count + 1, sizeof *taken);

	free(d->kept);
	free(d->gone);
	d->kept = mem_zalloc((size_t)n, sizeof *d->kept);
	d->gone = mem_zalloc((size_t)r->count + 1, sizeof(struct corpus_record *));
	d->num_gone = 0;
	for (int k = 0; k < n; k++)
		for (int i = 0; i < r->count; i++) {
			const struct corpus_record *c = &r->corpus[i];

			if (taken[i] || !sums_same(c->fingerprint, data_corpus_fingerprint(d, k)))
				continue;
			taken[i] = true;
			d->kept[k] = (struct blend_kept){ at_end ? c->consumed : c->first,
				c->num_samples, same_maps && c->consumed > 0 };
			break;
		}
	for (int i = 0; i < r->count; i++)
		if (!taken[i] && r->corpus[i].consumed > 0) {
			r->corpus[i].weight = -1;
			d->gone[d->num_gone++] = &r->corpus[i];
		}
	free(taken);
}

/* Where each stage of a schedule begins. Those that gave samples keep their places; the others
 * begin with a step of this run. */
static void
place_stages(struct data *d, bool same)
{
	const struct data_record *r = &d->record;
	const struct data_paths *p = &d->c->paths;
	int used = same ? used_stages(r) : 0;
	int64_t from = r->any ? r->consumed : 0;

	if (!p->num_stages)
		return;
	free(d->stage_first);
	d->stage_first = mem_alloc((size_t)p->num_stages, sizeof *d->stage_first);
	for (int k = 0; k < p->num_stages; k++)
		d->stage_first[k] = k < used
		    ? r->stage[k].first
		    : batch_reach(&d->c->plan.ramp, from,
			  data_stage_samples(&p->stage[k], d->c->plan.shape.seq_length));
}

/* The list starts here, each corpus after the samples drawn from it. Stages of a schedule that gave
 * samples stay in it, so that the one under way continues, with the maps of the checkpoint. */
void
data_record_keep(struct data *d)
{
	bool under_way = d->stage_first && d->record.num_stages;

	d->set[SPLIT_TRAIN].start = under_way ? d->record.start : d->record.consumed;
	d->record.continues = false;
	take_up(d, !under_way, under_way);
}

/* Whether a schedule may differ as it does: only in lines from which nothing was drawn, which begin
 * after all that was. */
static int
check_ahead(const struct data *d, struct err *why)
{
	const struct data_record *r = &d->record;
	const struct data_paths *p = &d->c->paths;
	int64_t length = d->c->plan.shape.seq_length;
	int used = used_stages(r);

	if (compare_stages(d, 0, used, why) < 0)
		return -1;
	for (int k = used; k < p->num_stages; k++)
		if (batch_reach(&d->c->plan.ramp, 0, data_stage_samples(&p->stage[k], length)) <
		    r->consumed)
			return err_set(why,
			    "stage %d begins at %lld tokens, and the run has consumed %lld", k + 1,
			    (long long)p->stage[k].tokens, (long long)(r->consumed * length));
	return 0;
}

/* The data differ, and --data-change says how to continue; options: even in what orders follow from
 * besides the lists. */
static int
resolve_change(struct data *d, bool options, const struct err *why, struct err *e)
{
	struct data_record *r = &d->record;
	const char *dir = d->c->weights_from;
	struct err ahead;

	if (d->c->o.data_change == DATA_CHANGE_EXCLUDE_SEEN) {
		if (options || d->c->o.dataloader_type != SAMPLER_SINGLE)
			return err_set(e,
			    "%s: --data-change exclude-seen: corpora keep their order only with "
			    "the same seed, length and split and the single loader, but %s; "
			    "--data-change restart begins the new order",
			    dir, options ? why->msg : "the loader is cyclic");
		if (r->num_stages && d->c->paths.num_stages && check_ahead(d, &ahead) < 0)
			return err_set(e,
			    "%s: --data-change exclude-seen: lines of the schedule that were used "
			    "must stay as they were, but %s; --data-change restart begins the new "
			    "order",
			    dir, ahead.msg);
		place_stages(d, true);
		data_record_keep(d);
		return 0;
	}
	place_stages(d, false);
	d->set[SPLIT_TRAIN].start = r->consumed;
	return 0;
}

/* All ranks reach the same result from the same files. */
int
data_record_resolve(struct data *d, struct err *e)
{
	struct data_record *r = &d->record;
	struct err why;
	bool options, lists;

	place_stages(d, false);
	if (!r->any || data_train_list(d)->count == 0)
		return 0;
	options = listed(r) > 0 && compare_options(d, &why) < 0;
	lists = !options && compare_lists(d, &why) == 0;
	if (lists && (d->c->o.data_change == DATA_CHANGE_MASK || compare_masks(d, &why) == 0)) {
		r->continues = true;
		d->set[SPLIT_TRAIN].start = r->start;
		place_stages(d, true);
		take_up(d, false, false);
		return 0;
	}
	if (d->c->o.data_change == DATA_CHANGE_REFUSE || d->c->o.data_change == DATA_CHANGE_MASK)
		return err_set(e,
		    "%s: the data changed since this checkpoint was saved: %s; %s--data-change "
		    "restart begins the new order, "
		    "--data-change exclude-seen draws no sample twice",
		    d->c->weights_from, why.msg,
		    lists ? "--data-change mask keeps the order, " : "");
	return resolve_change(d, options, &why, e);
}

/* Another number of samples changes only the number of epochs and the last epoch's shuffle in the
 * maps of a corpus. */
bool
data_record_reordered(const struct data *d, bool say)
{
	const struct data_record *r = &d->record;
	const struct blend *b = d->set[SPLIT_TRAIN].blend;
	bool any = false;

	/* a longer run of packed samples reads the same first */
	if (d->c->o.sample_packing == PACKING_BEST_FIT)
		return false;
	for (int k = 0; r->continues && r->consumed > r->start && k < blend_num_corpora(b); k++) {
		const struct corpus_record *was = &r->corpus[k];
		struct corpus_record now = record_of(d, k, 0);

		if (now.epochs == was->epochs && now.separate == was->separate)
			continue;
		any = true;
		if (say)
			note("data: %s: %lld epochs%s where the checkpoint has %lld%s: its samples "
			     "have another order from here on, and some that were seen come again; "
			     "--data-change exclude-seen keeps the order",
			    now.prefix, (long long)now.epochs,
			    now.separate ? ", the last by itself," : "", (long long)was->epochs,
			    was->separate ? ", the last by itself" : "");
	}
	return any;
}

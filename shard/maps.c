/*
 * maps.c - from options to the samples of each split, for the verbs index and blend
 *
 * The work is done by lib/data/blend, which training calls too: the same options give the same
 * names and the same files.
 */
#include "lib/base/mem.h"
#include "lib/token/identity.h"
#include "shard/maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 16 };

/* "100,all,0": three counts; all is one epoch, as -1. The whole text must match: "1,2,3,4" and
 * "1,2" are both refused. */
static int
parse_counts(const char *text, int64_t count[SPLIT_COUNT], struct err *e)
{
	const char *p = text;

	for (int i = 0; i < SPLIT_COUNT; i++) {
		char want = i + 1 < SPLIT_COUNT ? ',' : '\0', *end;
		bool all = !strncmp(p, "all", 3);

		errno = 0;
		count[i] = all ? -1 : strtoll(p, &end, 10);
		if (all)
			end = strchr(p, 'l') + 2;
		if (end == p || errno || *end != want || (!all && count[i] < 0))
			return err_set(e,
			    "--num-samples %s: must be TRAIN,VALID,TEST, each a number from 0 or "
			    "all",
			    text);
		p = end + 1;
	}
	return 0;
}

/* True when a split is to be built: a blend of no samples is skipped, but a single corpus then
 * gives one epoch. */
static bool
present(const struct data_paths *p, const struct split_matrix *m, enum split which, int64_t wanted)
{
	const struct path_list *l = data_paths_list(p, which);
	bool blend = l->count > 1 || (l->weight && !p->per_split);

	return l->count > 0 && (p->per_split || m->present[which]) && !(blend && wanted == 0);
}

int
shard_maps_load(struct maps_config *c, char **text, struct err *e)
{
	int rc = data_paths_load(&c->paths, text, &c->paths.text_bytes, e);

	c->paths.text = *text;
	return rc;
}

int64_t
shard_maps_wanted(const struct maps_config *c, enum split which)
{
	int64_t count[SPLIT_COUNT];
	struct err e;

	if (parse_counts(c->num_samples, count, &e) < 0)
		BUG("unchecked options: %s", e.msg);
	return count[which];
}

int
shard_maps_batches(const struct maps_config *c, struct batch_ramp *r, struct err *e)
{
	if (c->step_schedule && (c->global_batch_size || c->rampup.count))
		return err_set(e, "--step-batch-size-schedule: excludes --%s: give one of them",
		    c->global_batch_size ? "global-batch-size" : "rampup-batch-size");
	if (c->step_schedule)
		return batch_table(r, c->step_schedule, c->seq_length, e);
	if (c->global_batch_size == 0)
		return err_set(e, "--global-batch-size is needed: the samples of an iteration");
	if (c->rampup.count)
		return batch_linear(r, &c->rampup, c->global_batch_size, e);
	*r = batch_constant(c->global_batch_size);
	return 0;
}

/* The first sample of each stage: that of the first iteration which begins with so many tokens or
 * more. free() it; NULL: there are no stages. */
static int64_t *
find_stages(const struct maps_config *c, const struct data_paths *paths)
{
	int64_t *first;
	struct batch_ramp ramp;
	struct err e;

	if (!paths->num_stages)
		return NULL;
	if (shard_maps_batches(c, &ramp, &e) < 0)
		BUG("unchecked options: %s", e.msg);
	first = mem_alloc((size_t)paths->num_stages, sizeof *first);
	for (int k = 0; k < paths->num_stages; k++)
		first[k] =
		    batch_reach(&ramp, 0, data_stage_samples(&paths->stage[k], c->seq_length));
	return first;
}

/* True when options give the tokenizer entries of the names, in place of a tokenizer. */
static bool
names_given(const struct maps_config *c)
{
	return c->tokenizer_class || c->tokenizer_path || c->tokenizer_option.count > 0;
}

/* Wrong usage and an unreadable dataset have different exit statuses, so all checks of only the
 * options are here. */
int
shard_maps_check(const struct maps_config *c, struct err *e)
{
	struct tokenizer_identity id;
	struct data_paths paths;
	int64_t count[SPLIT_COUNT];
	struct split_matrix m;
	struct batch_ramp ramp;

	if (data_paths_read(&c->paths, &paths, e) < 0)
		return -1;
	data_paths_release(&paths);
	if (c->seq_length == 0)
		return err_set(e, "--seq-length is needed: the tokens of a sample");
	if (c->paths.data_schedule && shard_maps_batches(c, &ramp, e) < 0)
		return -1;
	for (int i = 0; i < c->tokenizer_option.count; i++)
		if (!strchr(c->tokenizer_option.item[i], '='))
			return err_set(e, "--tokenizer-option %s: must be KEY=VALUE",
			    c->tokenizer_option.item[i]);
	if (names_given(c) && (c->spec.type || c->spec.model || c->spec.vocab))
		return err_set(e,
		    "--tokenizer-class, --tokenizer-path and --tokenizer-option: replace a "
		    "tokenizer, but one is given too");
	if (tokenizer_identity(&c->spec, &id, e) < 0)
		return -1;
	tokenizer_identity_release(&id);
	if (parse_counts(c->num_samples, count, e) < 0)
		return -1;
	return split_parse(c->split, &m, e);
}

/* What is open during the loop over the splits. */
struct opened {
	const struct data_paths *paths;
	struct corpora *corpora;
	struct str *notes;
	const char *head; /* the part not yet printed */
};

/* Training, validation and test, in this order, as far as they are present. */
static int
run_splits(const struct maps_run *r, struct opened *o, struct blend_config *cfg, struct err *e)
{
	int64_t count[SPLIT_COUNT];
	struct split_matrix m;
	int rc = 0;

	if (parse_counts(r->c->num_samples, count, e) < 0 || split_parse(r->c->split, &m, e) < 0)
		BUG("unchecked options: %s", e->msg);
	for (int i = 0; i < SPLIT_COUNT && rc == 0; i++) {
		struct blend *b;

		if (r->one ? i != (int)r->which : !present(o->paths, &m, (enum split)i, count[i]))
			continue;
		cfg->samples.which = (enum split)i;
		cfg->samples.num_samples = count[i];
		cfg->samples.drop_last_partial = i != SPLIT_VALID || r->c->drop_last_partial;
		b = blend_open(o->corpora, o->paths, cfg, e);
		if (!b)
			return -1;
		if (blend_notes(b))
			str_adds(o->notes, blend_notes(b));
		fputs(o->head, r->out);
		o->head = "";
		rc = r->row(r, b, cfg->samples.which, e);
		blend_close(b);
	}
	if (rc == 0)
		fputs(o->head, r->out);
	return rc;
}

/* The files of all splits are renamed together; the rows are printed after that. */
static int
write_splits(const struct maps_run *r, struct opened *o, struct blend_config *cfg, struct err *e)
{
	struct maps_run kept = *r;
	char *rows = NULL;
	size_t len;
	int rc;

	kept.out = open_memstream(&rows, &len);
	if (!kept.out)
		return err_sys(e, "keep", "rows");
	cfg->cache = map_cache_new();
	rc = run_splits(&kept, o, cfg, e);
	if (fclose(kept.out) != 0 && rc == 0)
		rc = err_sys(e, "keep", "rows");
	if (rc == 0)
		rc = map_cache_commit(cfg->cache, e);
	else
		map_cache_abort(cfg->cache);
	if (rc == 0)
		fwrite(rows, 1, len, r->out);
	free(rows);
	return rc;
}

/* The tokenizer for the names: from the options for it, or the one that training would use. */
static int
name_tokenizer(const struct maps_config *c, struct str *out, struct err *e)
{
	struct tokenizer_identity id;

	if (names_given(c)) {
		samples_tokenizer(c->tokenizer_class, c->tokenizer_path, c->tokenizer_option.item,
		    c->tokenizer_option.count, out);
		return 0;
	}
	if (tokenizer_identity(&c->spec, &id, e) < 0)
		return -1;
	samples_tokenizer(NULL, id.path, (const char *const *)id.argument, id.count, out);
	tokenizer_identity_release(&id);
	return 0;
}

/* Opens the corpora of all splits once. Threads are by default the machine's cores, up to a number
 * that one disk can serve. */
int
shard_maps_run(const struct maps_run *r, struct str *notes, struct err *e)
{
	const struct maps_config *c = r->c;
	long cores = sysconf(_SC_NPROCESSORS_ONLN),
	     threads = cores < 1  ? 1
	    : cores > THREADS_MAX ? THREADS_MAX
				  : cores;
	struct data_paths paths;
	struct opened o = { .paths = &paths, .notes = notes, .head = r->head ? r->head : "" };
	struct str tokenizer = { 0 };
	struct blend_config cfg;
	int64_t *stage_first;
	int rc = -1;

	if (name_tokenizer(c, &tokenizer, e) < 0)
		return -1;
	if (data_paths_read(&c->paths, &paths, e) < 0) {
		str_release(&tokenizer);
		return -1;
	}
	stage_first = r->stage_first ? NULL : find_stages(c, &paths);
	cfg = (struct blend_config){
		.samples = {
			.split = c->split,
			.seq_length = c->seq_length,
			.seed = c->seed,
			.add_extra_token = c->add_extra_token,
			.packing = (enum sample_packing)c->packing,
			.long_documents = (enum long_documents)c->long_documents,
			.tokenizer_json = tokenizer.buf,
			.cache_dir = c->cache_dir,
			.write_cache = r->write,
			.trust_cache = r->trust,
		},
		.kept = r->kept,
		.surplus = c->surplus,
		.pool = pool_new((int)(c->threads ? c->threads : threads)),
		.plan_only = r->plan_only,
		.stage_first = r->stage_first ? r->stage_first : stage_first,
	};
	o.corpora =
	    corpora_open(&paths, &(struct dataset_options){ .mask = r->masks }, cfg.pool, e);
	if (o.corpora)
		rc = r->write ? write_splits(r, &o, &cfg, e) : run_splits(r, &o, &cfg, e);
	str_release(&tokenizer);
	corpora_close(o.corpora);
	pool_free(cfg.pool);
	free(stage_first);
	data_paths_release(&paths);
	return rc;
}

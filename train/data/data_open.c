/*
 * data_open.c - opening the data of a run: corpora, index maps, agreement of all ranks
 *
 * Every rank opens every corpus, since every rank may read any sample. The index maps are built, or
 * found in the cache and checked, by one process per file system: rank 0, and a rank of each host
 * that does not see a file which rank 0 creates next to the maps. Then the first ranks of the other
 * hosts check the maps that they see, and last all others use the maps unchecked. A failure on one
 * rank fails on all, with the reason on rank 0.
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/prog.h"
#include "lib/data/notes.h"
#include "lib/token/identity.h"
#include "train/data/data_impl.h"
#include "train/watch/stop.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 16 };

/* A rank's role in opening the maps, and the phase in which it opens them. */
enum duty { BUILDS, CHECKS, TRUSTS, PARTS };

/* An opening under way. */
struct opening {
	struct data *d;
	struct comm *world;
	struct pool *pool;
	struct split_matrix matrix;
	struct str tokenizer;    /* in the form used in the names of the maps */
	struct map_cache *cache; /* of this phase; NULL: other ranks' turn */
	enum duty part;
	enum exit_status status; /* to exit with when it fails */
};

/* A rank's place, as doubles because they go through a gather. */
struct place {
	double host; /* hash of its name */
	double sees; /* the file that rank 0 made */
};

/* --- who builds ------------------------------------------------------------------------------- */

/* A random number that is the same on all ranks. */
static double
make_nonce(struct comm *world)
{
	struct timespec t;
	double nonce;
	struct tensor all = tensor_1d(&nonce, DTYPE_F64, 1);

	clock_gettime(CLOCK_REALTIME, &t);
	nonce = (double)(((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec +
			     (uint64_t)getpid()) >>
	    8);
	world->ops->broadcast(COMM_HERE(world), NULL, &(struct comm_broadcast){ all, 0 });
	return nonce;
}

/* The role of a rank follows from the places of all, which every rank knows. */
static enum duty
part_of(const struct place *all, int rank)
{
	int first = 0, first_blind = 0;

	while (all[first].host != all[rank].host)
		first++;
	while (first_blind < rank &&
	    (all[first_blind].host != all[rank].host || all[first_blind].sees != 0))
		first_blind++;
	if (rank == 0 || (all[rank].sees == 0 && first_blind == rank))
		return BUILDS;
	return rank == first ? CHECKS : TRUSTS;
}

/* Collective. A file system counts as shared if the file that rank 0 makes is visible; its name
 * does not matter. If the directory is not writable no rank sees the file, and every host then
 * builds its own maps. */
static enum duty
find_part(const struct data *d, struct comm *world)
{
	struct place mine = { 0 }, *all = mem_alloc((size_t)world->size, sizeof *all);
	struct tensor in = tensor_1d(&mine, DTYPE_F64, 2),
		      out = tensor_1d(all, DTYPE_F64, 2 * world->size);
	struct str dir = { 0 }, probe = { 0 };
	char host[256] = "";
	struct err ignored;
	enum duty part;

	if (d->c->o.data_cache_path)
		str_adds(&dir, d->c->o.data_cache_path);
	else
		str_addf(&dir, "%s/cache/GPTDataset_indices",
		    dataset_prefix(corpora_dataset(d->corpora, 0)));
	str_addf(&probe, "%s/.mikoshi-probe-%.0f", dir.buf, make_nonce(world));
	if (world->rank == 0 && io_mkdir_p(dir.buf, &ignored) == 0)
		(void)outfile_write(probe.buf, "", 0, &ignored);
	world->ops->barrier(COMM_HERE(world));
	gethostname(host, sizeof host - 1);
	mine.host = (double)(hash_xxh3(host, strlen(host)) >> 12);
	mine.sees = io_exists(probe.buf);
	world->ops->all_gather(COMM_HERE(world), NULL, &(struct comm_gather){ out, in });
	if (world->rank == 0)
		unlink(probe.buf);
	part = part_of(all, world->rank);
	str_release(&dir);
	str_release(&probe);
	free(all);
	return part;
}

/* --- what is opened --------------------------------------------------------------------------- */

/*
 * The samples requested of each split: Megatron-LM's numbers, so that the maps are the same.
 * Evaluations are counted as in Megatron-LM, one more than fit between the steps. A run that
 * continues with another batch size may read more.
 */
static void
wanted(const struct data *d, int64_t out[SPLIT_COUNT])
{
	const struct train_config *c = d->c;
	const struct data_record *r = &d->record;
	int64_t b = c->plan.eval_batch_size, evals = c->train_iters / c->o.eval_interval + 1;
	int64_t end = batch_end(&c->plan.ramp, r->consumed, c->train_iters - r->iteration);

	out[SPLIT_TRAIN] =
	    c->o.train_samples ? c->o.train_samples : batch_end(&c->plan.ramp, 0, c->train_iters);
	if (end > out[SPLIT_TRAIN] && c->train_iters > r->iteration)
		out[SPLIT_TRAIN] = end;
	out[SPLIT_TRAIN] -= d->set[SPLIT_TRAIN].start;
	out[SPLIT_VALID] = evals * c->o.eval_iters * b;
	out[SPLIT_TEST] = c->o.eval_iters * b;
	if (c->o.full_validation && c->o.eval_iters > 0)
		out[SPLIT_VALID] = -1;
}

/* Evaluation alone needs no training map; a split without a request is left out. */
static bool
needs(const struct data *d, enum split which, int64_t num_samples)
{
	return num_samples != 0 &&
	    !(which == SPLIT_TRAIN && (d->c->o.skip_train || num_samples < 0));
}

static void
note_not_kept(const struct opening *o, const struct err *why)
{
	if (o->world->rank == 0)
		note("data: index maps are not kept, each rank builds its own: %s", why->msg);
}

/* A map that cannot be written is an error only if the user named the directory. Otherwise every
 * rank reads it from the cache or builds it in memory, with the same content. */
static struct blend *
open_blend(
    const struct opening *o, const struct data_paths *paths, struct blend_config *b, struct err *e)
{
	struct blend *blend = blend_open(o->d->corpora, paths, b, e);
	struct err why = *e;

	if (blend || !b->samples.write_cache || b->samples.cache_dir)
		return blend;
	b->samples.write_cache = false;
	blend = blend_open(o->d->corpora, paths, b, e);
	if (blend)
		note_not_kept(o, &why);
	return blend;
}

/* Batches of an evaluation: --eval-iters, or fewer when the set has fewer samples. */
static int64_t
evaluation(const struct data *d, const struct set *s)
{
	int64_t b = d->c->plan.eval_batch_size, all = (s->count + b - 1) / b;

	if (d->c->o.eval_iters == 0 || s->which == SPLIT_TRAIN)
		return 0;
	if (d->c->o.full_validation && s->which == SPLIT_VALID)
		return all;
	/* The cyclic loader starts over at the end. */
	if (d->c->o.dataloader_type == SAMPLER_CYCLIC)
		return d->c->o.eval_iters;
	return all < d->c->o.eval_iters ? all : d->c->o.eval_iters;
}

/* The cyclic loader's rules are checked before the first step. */
static int
check_sampler(const struct data *d, const struct set *s, struct err *e)
{
	struct sampler_config sc = {
		.type = SAMPLER_CYCLIC,
		.no_data_sharding = d->c->o.no_data_sharding,
		.total = s->count,
		.micro_batch_size = data_micro_batch(d, s->which),
		.data_parallel_size = d->c->plan.layout.data_parallel_size,
	};
	int64_t consumed = s->which == SPLIT_TRAIN ? d->record.consumed - s->start : 0;
	struct sampler *sampler;
	struct err why;
	int rc = 0;

	if (d->c->o.dataloader_type != SAMPLER_CYCLIC ||
	    (d->c->o.full_validation && s->which == SPLIT_VALID))
		return 0;
	sampler = sampler_new(&sc, &why);
	if (!sampler)
		return err_set(e, "the %s split: %s", split_name[s->which], why.msg);
	if (consumed % sampler_active(sampler) % data_group(d))
		rc = err_set(e,
		    "--dataloader-type cyclic: %lld samples were consumed, but with micro batches "
		    "of %lld on %lld data ranks an epoch continues only at multiples of %lld; the "
		    "checkpoint's batch and layout continue it",
		    (long long)consumed, (long long)sc.micro_batch_size,
		    (long long)sc.data_parallel_size, (long long)data_group(d));
	sampler_free(sampler);
	return rc;
}

/* Opens one set; a training set must have enough samples. */
static int
open_set(const struct opening *o, struct set *s, const struct data_paths *paths,
    int64_t num_samples, struct err *e)
{
	const struct train_config *c = o->d->c;
	int64_t *stage_first =
	    paths->num_stages ? mem_alloc((size_t)paths->num_stages, sizeof *stage_first) : NULL;
	struct blend_config b = {
		.samples = {
			.which = s->which,
			.split = c->o.split,
			.num_samples = num_samples,
			.seq_length = c->plan.shape.seq_length,
			.seed = c->o.seed,
			.add_extra_token = true,
			.drop_last_partial = s->which != SPLIT_VALID || c->o.drop_last_partial,
			.packing = (enum sample_packing)c->o.sample_packing,
			.long_documents = (enum long_documents)c->o.long_documents,
			.tokenizer_json = o->tokenizer.buf,
			.cache_dir = c->o.data_cache_path,
			.write_cache = o->part == BUILDS,
			.trust_cache = o->part == TRUSTS,
		},
		.cache = o->cache,
		.surplus = c->o.surplus,
		.pool = o->pool,
		.kept = s->which == SPLIT_TRAIN ? o->d->kept : NULL,
		.stage_first = stage_first,
	};

	for (int k = 0; stage_first && k < paths->num_stages; k++)
		stage_first[k] = o->d->stage_first[k] - s->start;
	s->blend = open_blend(o, paths, &b, e);
	free(stage_first);
	if (!s->blend)
		return -1;
	s->count = blend_count(s->blend);
	s->batches = evaluation(o->d, s);
	if (s->which == SPLIT_TRAIN && s->count < num_samples &&
	    c->o.dataloader_type == SAMPLER_SINGLE)
		return err_set(e,
		    "the train split has %lld samples, but the run takes %lld: a list without "
		    "weights gives every sample "
		    "once; give weights, or train at most %lld iterations",
		    (long long)s->count, (long long)num_samples,
		    (long long)batch_steps(&c->plan.ramp, 0, s->start + s->count));
	return check_sampler(o->d, s, e);
}

/* True when the split has a list and a share. */
static bool
is_present(const struct opening *o, enum split which)
{
	const struct data_paths *p = &o->d->c->paths;

	return data_paths_list(p, which)->count > 0 && (p->per_split || o->matrix.present[which]);
}

/* Set number i; training comes first. Splits without a share or a request get no blend and a count
 * of 0, so evaluation skips them. A set with a name is one corpus of the validation list by itself:
 * a list of one. Orders of the training set that would differ from the checkpoint's are kept if
 * requested. */
static int
open_number(const struct opening *o, int i, struct err *e)
{
	struct data *d = o->d;
	struct set *s = &d->set[i];
	const struct data_paths *all = &d->c->paths;
	struct data_paths alone = { .per_split = all->per_split };
	char **prefix = data_paths_list(all, SPLIT_VALID)->prefix;
	int64_t n[SPLIT_COUNT];
	bool trains = s->which == SPLIT_TRAIN, present = is_present(o, s->which),
	     keep = d->c->o.data_change == DATA_CHANGE_EXCLUDE_SEEN;

	wanted(d, n);
	if (!needs(d, s->which, n[s->which]) || (!trains && !present))
		return 0;
	if (!present)
		return err_set(e, "no samples to train on: %s; --skip-train only evaluates",
		    all->per_split ? "--train-data-path is not given"
				   : "--split gives training no share");
	if (s->name) {
		prefix += i < SPLIT_COUNT ? 0 : i - SPLIT_COUNT + 1;
		alone.list[all->per_split ? SPLIT_VALID : SPLIT_TRAIN] =
		    (struct path_list){ 1, prefix, NULL };
		return open_set(o, s, &alone, n[s->which], e);
	}
	if (open_set(o, s, all, n[s->which], e) < 0)
		return -1;
	if (!trains || !data_record_reordered(d, !keep && o->world->rank == 0) || !keep)
		return 0;
	blend_close(s->blend);
	s->blend = NULL;
	data_record_keep(d);
	wanted(d, n);
	return open_set(o, s, all, n[s->which], e);
}

/* --- tokenizers ------------------------------------------------------------------------------- */

/* What the notes of corpus k say of bos joins what those before it said. */
static void
add_bos(struct data *d, int k, int64_t bos_id)
{
	int64_t bos = bos_id == NOTES_UNKNOWN ? STATE_NONE : bos_id >= 0;

	d->bos = k == 0 || d->bos == bos ? bos : STATE_NONE;
}

/* On rank 0: finds a dataset that was made with a different tokenizer than this run's, or than an
 * earlier dataset's, where both are known. Ids of two tokenizers mean different texts, so a mix
 * cannot be trained on. Sets d->bos. */
static int
check_tokenizers(struct data *d, struct err *e)
{
	const char *mine = d->c->tokenizer ? tokenizer_hash(d->c->tokenizer) : NULL, *whose = NULL;
	struct notes known, n;
	int rc = 0;

	for (int k = 0; k < corpora_count(d->corpora) && rc == 0; k++) {
		const char *prefix = dataset_prefix(corpora_dataset(d->corpora, k));

		rc = notes_read(prefix, &n, e) < 0 ? -1 : 0;
		if (rc == 0 && n.type && mine && strcmp(n.hash, mine))
			rc = err_set(e,
			    "%s was made with another tokenizer (%s, hash %s) than the one of this "
			    "run (hash %s)",
			    prefix, n.type, n.hash, mine);
		else if (rc == 0 && whose && !notes_agree(&known, &n))
			rc = err_set(e,
			    "%s was made with another tokenizer (%s, hash %s) than %s (%s, hash "
			    "%s)",
			    prefix, n.type, n.hash, whose, known.type, known.hash);
		add_bos(d, k, n.bos_id);
		if (rc == 0 && n.type && !whose) {
			whose = prefix;
			known = n;
		} else {
			notes_release(&n);
		}
	}
	if (whose)
		notes_release(&known);
	return rc;
}

/* Notes masks that were found without being named. */
static int
check_masks(struct data *d, bool say, struct err *e)
{
	for (int k = 0; k < corpora_count(d->corpora); k++) {
		const struct dataset *set = corpora_dataset(d->corpora, k),
				     *mask = dataset_mask(set);

		if (!mask)
			continue;
		d->masked = true;
		if (d->c->o.fim.on)
			return err_set(e,
			    "%s: has a mask, but --fim-data moves its tokens: --loss-mask ignore "
			    "counts them all",
			    dataset_prefix(set));
		if (say && !dataset_mask_named(set))
			note("data: %s is the mask of %s, though the notes do not name it; "
			     "--loss-mask ignore counts all tokens",
			    dataset_prefix(mask), dataset_prefix(set));
	}
	return 0;
}

/* --- all of it -------------------------------------------------------------------------------- */

/* Reads the index of every corpus, on every rank. The tokenizer is part of the names of maps that
 * mshard or Megatron-LM made. */
static int
open_corpora(struct opening *o, struct err *e)
{
	struct data *d = o->d;
	struct dataset_options options = { .no_mmap_bin = d->c->o.no_mmap_bin_files,
		.mask = d->c->o.loss_mask == LOSS_MASK_USE };
	struct tokenizer_identity id;

	if (split_parse(d->c->o.split, &o->matrix, e) < 0 ||
	    tokenizer_identity(&d->c->spec, &id, e) < 0)
		return -1;
	samples_tokenizer(NULL, id.path, (const char *const *)id.argument, id.count, &o->tokenizer);
	tokenizer_identity_release(&id);
	d->corpora = corpora_open(&d->c->paths, &options, o->pool, e);
	if (!d->corpora || check_masks(d, o->world->rank == 0, e) < 0)
		return -1;
	contents_examine(d, o->pool);
	return o->world->rank == 0 ? check_tokenizers(d, e) : 0;
}

/* Collective, after work that may have taken long: -1 when it failed on any rank, or any rank was
 * asked to stop meanwhile. */
static int
done(struct opening *o, int rc, struct err *e)
{
	if (comm_agree(COMM_HERE(o->world), rc, e))
		return -1;
	if (stop_agree(o->world, e) == 0)
		return 0;
	o->status = EXIT_STOPPED;
	return -1;
}

/* Collective; fails on all ranks when it does on one. The ranks of one phase open the sets, one
 * after the other, and commit the new maps of all of them together. */
static int
open_real(struct opening *o, struct err *e)
{
	bool differ;
	int rc;

	if (done(o, open_corpora(o, e), e) < 0)
		return -1;
	if (contents_agree(o->d, o->world, &differ, e) < 0) {
		o->status = differ ? EXIT_USAGE : EXIT_FAILED;
		return -1;
	}
	if (comm_agree(COMM_HERE(o->world), data_record_resolve(o->d, e), e))
		return -1;
	o->part = find_part(o->d, o->world);
	for (int phase = BUILDS; phase < PARTS; phase++) {
		bool turn = phase == (int)o->part;

		o->cache = turn ? map_cache_new() : NULL;
		for (int i = 0; i < o->d->num_sets; i++)
			if (done(o, turn ? open_number(o, i, e) : 0, e) < 0) {
				map_cache_abort(o->cache);
				return -1;
			}
		rc = turn ? map_cache_commit(o->cache, e) : 0;
		if (rc < 0 && !o->d->c->o.data_cache_path) {
			note_not_kept(o, e);
			rc = 0;
		}
		if (done(o, rc, e) < 0)
			return -1;
	}
	return 0;
}

/* The number of threads that open and build, when all ranks of a host do so at the same time. */
static int
thread_count(const struct data *d)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN), mine = cores / d->host_size;

	return mine < 1 ? 1 : mine > THREADS_MAX ? THREADS_MAX : (int)mine;
}

/* The names of validation sets: as given, or the last parts of their prefixes where those
 * differ. */
static char *
set_name(const struct train_config *c, const struct path_list *l, int k)
{
	const char *slash = strrchr(l->prefix[k], '/'), *base = slash ? slash + 1 : l->prefix[k];

	if (c->o.validation_set_names.count)
		return mem_strdup(c->o.validation_set_names.item[k]);
	for (int i = 0; i < l->count; i++) {
		const char *other = strrchr(l->prefix[i], '/');

		if (i != k && !strcmp(other ? other + 1 : l->prefix[i], base))
			return mem_strdup(l->prefix[k]);
	}
	return mem_strdup(base);
}

/* The three splits, and any further validation sets. */
static void
make_sets(struct data *d)
{
	const struct path_list *l = data_paths_list(&d->c->paths, SPLIT_VALID);
	int alone = d->c->o.multiple_validation_sets && !d->c->o.mock_data ? l->count : 0;

	d->num_sets = SPLIT_COUNT + (alone > 1 ? alone - 1 : 0);
	d->set = mem_zalloc((size_t)d->num_sets, sizeof *d->set);
	for (int i = 0; i < d->num_sets; i++)
		d->set[i].which = i < SPLIT_COUNT ? (enum split)i : SPLIT_VALID;
	for (int k = 0; k < alone; k++)
		d->set[k ? SPLIT_COUNT + k - 1 : SPLIT_VALID].name = set_name(d->c, l, k);
}

/* The number of mock samples requested; for validation, those of one evaluation when all are
 * requested. */
static int
open_mock(struct data *d, struct err *e)
{
	int64_t n[SPLIT_COUNT];

	wanted(d, n);
	for (int w = 0; w < SPLIT_COUNT; w++) {
		d->set[w].count = n[w] > 0 ? n[w] : n[w] < 0 ? n[SPLIT_TEST] : 0;
		d->set[w].batches = evaluation(d, &d->set[w]);
		if (needs(d, (enum split)w, n[w]) && check_sampler(d, &d->set[w], e) < 0)
			return -1;
	}
	return 0;
}

/* Collective over world unless the data is mock data. */
struct data *
data_open(const struct train_config *c, struct comm *world, int *status, struct err *e)
{
	struct data *d = mem_zalloc(1, sizeof *d);
	struct opening o = { .d = d, .world = world, .status = EXIT_FAILED };
	int64_t pad = c->o.run.model.typed.pad_token_id;
	int rc;

	d->c = c;
	/* as in Megatron-LM: an id that has another meaning pads nothing */
	if (pad == c->eod || pad == c->o.run.model.typed.bos_token_id)
		pad = -1;
	d->options = (struct sample_options){ .eod = c->eod,
		.pad = pad,
		.add_extra_token = true,
		.eod_mask_loss = c->o.eod_mask_loss,
		/* Megatron-LM computes rotary positions from the place in the sample */
		.reset_position_ids = (c->o.reset_position_ids || train_documents_apart(&c->o)) &&
		    c->plan.model.position == POSITION_LEARNED };
	make_sets(d);
	rc = comm_agree(COMM_HERE(world), data_record_read(d, e), e) ? -1 : 0;
	if (rc == 0 && c->o.mock_data) {
		rc = open_mock(d, e);
	} else if (rc == 0) {
		d->host_rank = mpi_local_rank(world, &d->host_size);
		o.pool = pool_new(thread_count(d));
		rc = open_real(&o, e);
		str_release(&o.tokenizer);
		pool_free(o.pool);
	}
	if (rc == 0) {
		if (world->rank == 0 && c->o.reset_position_ids && !d->options.reset_position_ids)
			note("--reset-position-ids: changes nothing, as in Megatron-LM: the model "
			     "has no learned positions");
		if (world->rank == 0)
			data_report(d);
		return d;
	}
	if (status)
		*status = o.status;
	data_close(d);
	return NULL;
}

/* NULL is allowed. */
void
data_close(struct data *d)
{
	if (!d)
		return;
	for (int i = 0; i < d->num_sets; i++) {
		blend_close(d->set[i].blend);
		free(d->set[i].name);
	}
	free(d->set);
	for (int k = 0; d->sums && k < corpora_count(d->corpora); k++)
		sums_close(d->sums[k]);
	free(d->sums);
	free(d->why);
	free(d->mask);
	corpora_close(d->corpora);
	data_record_release(d);
	free(d->fingerprint);
	free(d);
}

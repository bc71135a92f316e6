/*
 * contents.c - what the corpora of a run contain
 *
 * Every rank reads a few blocks of every corpus, the same ones, which takes milliseconds: ranks
 * with other tokens under the same index, and tokens that are not those that were written, are
 * found before the first step. All blocks are compared later (audit.c).
 */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/config/agree.h"
#include "train/data/contents.h"
#include "train/data/data_impl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The values of this rank's blocks of a mask, and their checksums where there are any. */
static int
check_mask(const struct data *d, const struct dataset *mask, const struct sums *s, struct err *e)
{
	int64_t bytes = (int64_t)dataset_bin_bytes(mask), blocks = sums_count((uint64_t)bytes);
	void *room = mem_alloc(SUMS_BLOCK, 1);
	int rc = 0;

	for (int64_t b = d->host_rank; b < blocks && rc == 0; b += d->host_size) {
		int64_t at = b * SUMS_BLOCK, n = bytes - at < SUMS_BLOCK ? bytes - at : SUMS_BLOCK;
		const void *p = dataset_bytes(mask, (uint64_t)at, (size_t)n, room, e);

		rc = p ? dataset_mask_values(mask, p, at, n, e) : -1;
		if (rc == 0 && s)
			rc = sums_compare(s, b, hash_xxh3(p, (size_t)n), e);
	}
	free(room);
	return rc;
}

static int
examine_mask(struct data *d, const struct dataset *mask, int k, struct err *e)
{
	uint64_t index = dataset_index_hash(mask);
	struct sums *sums = NULL;
	int rc = sums_open(&sums, mask, index, e) < 0 ? -1 : 0;

	if (rc == 0)
		rc = sums_fingerprint(mask, index, sums, d->mask[k], e);
	if (rc == 0)
		rc = check_mask(d, mask, sums, e);
	sums_close(sums);
	return rc;
}

static void
examine(void *ctx, int k)
{
	struct data *d = ctx;
	const struct dataset *set = corpora_dataset(d->corpora, k);
	uint64_t index = dataset_index_hash(set);

	if (sums_open(&d->sums[k], set, index, &d->why[k]) >= 0 &&
	    sums_fingerprint(set, index, d->sums[k], d->fingerprint[k], &d->why[k]) == 0 &&
	    dataset_mask(set))
		(void)examine_mask(d, dataset_mask(set), k, &d->why[k]);
}

void
contents_examine(struct data *d, struct pool *pool)
{
	size_t n = (size_t)corpora_count(d->corpora);

	d->fingerprint = mem_zalloc(n, sizeof *d->fingerprint);
	d->sums = mem_zalloc(n, sizeof *d->sums);
	d->why = mem_zalloc(n, sizeof *d->why);
	d->mask = mem_zalloc(n, sizeof *d->mask);
	pool_run(pool, (int)n, examine, d);
}

void
data_name_rank(const struct comm *world, struct err *e)
{
	struct err why = *e;
	char host[256] = "";

	if (world->size == 1)
		return;
	gethostname(host, sizeof host - 1);
	err_set(e, "%s (rank %d, on %s)", why.msg, world->rank, host);
}

/* The first corpus whose tokens or checksums are wrong; -1 with the reason. */
static int
check(const struct data *d, const struct comm *world, struct err *e)
{
	for (int k = 0; k < corpora_count(d->corpora); k++)
		if (d->why[k].msg[0]) {
			*e = d->why[k];
			data_name_rank(world, e);
			return -1;
		}
	return 0;
}

/* On rank 0, once: which datasets are known only by a few blocks. */
static void
note_unsealed(const struct data *d)
{
	int n = corpora_count(d->corpora), without = 0, first = 0;

	for (int k = n - 1; k >= 0; k--)
		if (!d->sums[k]) {
			without++;
			first = k;
		}
	if (without)
		note("data: %s%s: no checksums of the tokens, so most changes of them would not be "
		     "noticed; mshard verify --seal makes them",
		    dataset_prefix(corpora_dataset(d->corpora, first)),
		    without > 1 ? " and others" : "");
}

/* --- between ranks ---------------------------------------------------------------------------- */

/* Calls fn for every entry of the lists, in an order that all ranks have. at: the entries before.
 */
static void
each_entry(struct data *d, void (*fn)(struct data *, int w, int k, int64_t at, void *), void *ctx)
{
	int64_t at = 0;

	for (int w = 0; w < SPLIT_COUNT; w++)
		for (int k = 0; k < d->c->paths.list[w].count; k++)
			fn(d, w, k, at++, ctx);
}

/* The corpus of an entry, in the order of d->fingerprint. */
static int
corpus_of(const struct data *d, int w, int k)
{
	return corpora_find(d->corpora, d->c->paths.list[w].prefix[k]);
}

/* Where the checksums' own begins in a fingerprint; NULL: it has none. */
static char *
own_sum(const struct data *d, int corpus)
{
	return d->sums[corpus] ? strrchr(d->fingerprint[corpus], '-') + 1 : NULL;
}

/* The lines of one entry: its weight, and its contents without the checksums' own. */
static void
add_entry(struct data *d, int w, int k, int64_t at, void *ctx)
{
	const struct path_list *l = &d->c->paths.list[w];
	int corpus = corpus_of(d, w, k);
	const char *print = d->fingerprint[corpus], *own = own_sum(d, corpus);
	struct str *text = ctx;

	(void)at;
	str_addf(text, "corpus %d of the %s data\tcontents %.*s\n", k + 1, split_name[w],
	    own ? (int)(own - 1 - print) : (int)strlen(print), print);
	if (d->mask[corpus][0])
		str_addf(text, "corpus %d of the %s data\tmask %s\n", k + 1, split_name[w],
		    d->mask[corpus]);
	str_addf(text, "weight of corpus %d of the %s data\t", k + 1, split_name[w]);
	str_add_double(text, l->weight ? l->weight[k] : 1);
	str_addc(text, '\n');
}

/* The two halves of the checksums' own, which as integers have a maximum. */
static void
put_own(struct data *d, int w, int k, int64_t at, void *ctx)
{
	const char *own = own_sum(d, corpus_of(d, w, k));
	int64_t *half = ctx;
	uint64_t sum = 0;

	if (own)
		(void)hash_read(own, &sum);
	half[2 * at] = (int64_t)(sum >> 32);
	half[2 * at + 1] = (int64_t)(sum & UINT32_MAX);
}

/* A rank without the file takes over what the others have. */
static void
take_own(struct data *d, int w, int k, int64_t at, void *ctx)
{
	int corpus = corpus_of(d, w, k);
	const int64_t *half = ctx;
	char *print = d->fingerprint[corpus];
	size_t len = strlen(print);

	if (!d->sums[corpus] && (half[2 * at] | half[2 * at + 1]) && len + 18 <= SUMS_FINGERPRINT &&
	    len > 17 && print[len - 9] == '-')
		snprintf(print + len, SUMS_FINGERPRINT - len, "-%08x%08x", (unsigned)half[2 * at],
		    (unsigned)half[2 * at + 1]);
}

static void
add_whole(struct data *d, int w, int k, int64_t at, void *ctx)
{
	(void)at;
	str_addf(ctx, "checksums of corpus %d of the %s data\t%s\n", k + 1, split_name[w],
	    d->fingerprint[corpus_of(d, w, k)]);
}

/* Names the corpus that a message of agree_text is about as rank 0 knows it. */
static void
name_corpus(struct data *d, int w, int k, int64_t at, void *ctx)
{
	struct err *e = ctx, why = *e;
	char name[64];

	(void)at;
	snprintf(name, sizeof name, "corpus %d of the %s data", k + 1, split_name[w]);
	if (strstr(why.msg, name))
		err_set(e, "%s: %s", d->c->paths.list[w].prefix[k], why.msg);
}

/* Collective: compares the lists, which then have as many entries on every rank, and the checksums
 * of the corpora that have them on several. A rank may lack them: its tokens may be the same, and
 * it decides by the others' whether the data are a checkpoint's. */
static int
agree(struct data *d, struct comm *world, struct err *e)
{
	struct str text = { 0 };
	int64_t count = 0, *half;
	struct tensor all;
	int rc;

	for (int w = 0; w < SPLIT_COUNT; w++) {
		count += d->c->paths.list[w].count;
		str_addf(&text, "corpora of the %s data\t%d\n", split_name[w],
		    d->c->paths.list[w].count);
	}
	each_entry(d, add_entry, &text);
	rc = agree_text(world, text.buf, e);
	if (rc == 0) {
		half = mem_zalloc(2 * (size_t)count + 1, sizeof *half);
		all = tensor_1d(half, DTYPE_I64, 2 * count);
		each_entry(d, put_own, half);
		world->ops->all_reduce(
		    COMM_HERE(world), NULL, &(struct comm_reduce){ all, REDUCE_MAX });
		each_entry(d, take_own, half);
		free(half);
		str_clear(&text);
		each_entry(d, add_whole, &text);
		rc = agree_text(world, text.buf, e);
	}
	if (rc < 0 && world->rank == 0)
		each_entry(d, name_corpus, e);
	str_release(&text);
	return rc;
}

/* Where both fail, the rank with the damage tells more. */
int
contents_agree(struct data *d, struct comm *world, bool *differ, struct err *e)
{
	struct err why = { "" };
	int rc = agree(d, world, e);

	*differ = rc < 0;
	if (comm_agree(COMM_HERE(world), check(d, world, &why), &why)) {
		*e = why;
		*differ = false;
		rc = -1;
	}
	free(d->why);
	d->why = NULL;
	if (rc == 0 && world->rank == 0)
		note_unsealed(d);
	return rc;
}

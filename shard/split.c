/*
 * split.c - dividing a dataset between documents, or leaving some out
 *
 * The cuts are computed from the index before anything is written, so that existing names and wrong
 * counts are reported at once. The concatenated pieces are the dataset.
 */
#include "lib/base/mem.h"
#include "lib/base/temp_sweep.h"
#include "shard/mask_list.h"
#include "shard/shard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PIECES = 100000 }; /* names have five digits, so that they sort */

/* The cuts: piece i is the documents [at[i], at[i + 1]); of --without, the one piece is those of
 * every pair from an even place on. */
struct cuts {
	int64_t *at;
	int64_t count;
};

static void
add_cut(struct cuts *c, int64_t at)
{
	if ((c->count & (c->count - 1)) == 0)
		c->at = mem_realloc(c->at, (size_t)(2 * c->count + 2), sizeof *c->at);
	c->at[c->count++] = at;
}

/* A share: a number from 0; the whole word must be one. */
static int
parse_share(const char *word, size_t len, double *out)
{
	char text[64], *end;

	if (len == 0 || len >= sizeof text)
		return -1;
	memcpy(text, word, len);
	text[len] = '\0';
	*out = strtod(text, &end);
	return *end || !isfinite(*out) || *out < 0 ? -1 : 0;
}

/* The shares of --proportion, separated by commas, divided by their sum; free() *share. */
static int
parse_shares(const char *text, double **share, int64_t *count, struct err *e)
{
	double sum = 0;

	*count = 0;
	*share = NULL;
	for (const char *p = text; p;) {
		size_t n = strcspn(p, ",");

		*share = mem_realloc(*share, (size_t)*count + 1, sizeof **share);
		if (parse_share(p, n, &(*share)[*count]) < 0)
			return err_set(e,
			    "--proportion %s: '%.*s' is not a share: must be numbers from 0, such "
			    "as "
			    "90,5,5",
			    text, n > 40 ? 40 : (int)n, p);
		sum += (*share)[(*count)++];
		p = p[n] ? p + n + 1 : NULL;
	}
	if (!(sum > 0 && isfinite(sum)))
		return err_set(
		    e, "--proportion %s: the shares must have a finite sum above 0", text);
	if (*count > MAX_PIECES)
		return err_set(e, "--proportion: more than %d pieces", MAX_PIECES);
	for (int64_t i = 0; i < *count; i++)
		(*share)[i] /= sum;
	return 0;
}

/* Exactly one way to cut, and a prefix for the pieces, must be given. */
int
shard_split_check(const struct split_config *c, struct err *e)
{
	int64_t count;
	double *share;
	int ways = (c->documents > 0) + (c->tokens > 0) + (c->proportion != NULL) +
	    (c->without != NULL),
	    rc = 0;

	if (!c->output)
		return err_set(e, "--output is needed: the prefix of the pieces");
	if (shard_check_output(c->output, e) < 0)
		return -1;
	if (ways != 1)
		return err_set(e,
		    "split needs one of --documents, --tokens, --proportion and --without, not %s",
		    ways ? "several" : "none");
	if (c->corpus && !c->without)
		return err_set(e, "--corpus needs --without");
	if (c->proportion) {
		rc = parse_shares(c->proportion, &share, &count, e);
		free(share);
	}
	return rc;
}

/* Like --split: cuts at the sums of the shares, halves rounded to even. */
static void
cut_by_share(const struct split_config *c, int64_t documents, struct cuts *out)
{
	double *share, sum = 0;
	int64_t count;
	struct err e;

	if (parse_shares(c->proportion, &share, &count, &e) < 0)
		BUG("unchecked options: %s", e.msg);
	add_cut(out, 0);
	for (int64_t i = 0; i < count; i++) {
		sum += share[i];
		add_cut(
		    out, i + 1 == count ? documents : (int64_t)nearbyint(sum * (double)documents));
	}
	free(share);
}

/* A piece ends before the document that would exceed the limit; a document longer than the limit is
 * its own piece. */
static void
cut_by_size(const struct split_config *c, const struct dataset *d, struct cuts *out)
{
	int64_t documents = dataset_num_documents(d), limit = c->tokens, begin = 0;

	add_cut(out, 0);
	for (int64_t k = 0; k < documents; k++) {
		int64_t first = out->at[out->count - 1],
			end = dataset_sequence_start(d, dataset_document_start(d, k + 1));

		if (k > first && (limit ? end - begin > limit : k - first >= c->documents)) {
			add_cut(out, k);
			begin = dataset_sequence_start(d, dataset_document_start(d, k));
		}
		if (out->count > MAX_PIECES)
			return;
	}
	add_cut(out, documents);
}

static int
by_document(const void *x, const void *y)
{
	const struct mask_span *a = x, *b = y;

	return a->document < b->document ? -1 : a->document > b->document;
}

/* The documents between those of the list; each of it is left out whole. */
static int
cut_out(const struct split_config *c, const struct dataset *d, struct cuts *out, struct err *e)
{
	int64_t documents = dataset_num_documents(d), begin = 0;
	struct mask_list list;
	int rc = mask_list_read(c->without, c->corpus, d, &list, e);

	if (rc == 0 && list.count)
		qsort(list.span, (size_t)list.count, sizeof *list.span, by_document);
	for (int64_t i = 0; rc == 0 && i <= list.count; i++) {
		int64_t end = i < list.count ? list.span[i].document : documents;

		if (end > begin) {
			add_cut(out, begin);
			add_cut(out, end);
		}
		begin = end + 1;
	}
	free(list.span);
	if (rc == 0 && out->count == 0)
		rc = err_at(e, c->without, 0, "has all documents of %s", dataset_prefix(d));
	return rc;
}

/* Computes the cuts; a dataset without documents is an error. */
static int
find_cuts(const struct split_config *c, const struct dataset *d, struct cuts *out, struct err *e)
{
	if (dataset_num_documents(d) == 0)
		return err_at(e, dataset_prefix(d), 0, "it has no documents to split");
	if (c->without)
		return cut_out(c, d, out, e);
	if (c->proportion)
		cut_by_share(c, dataset_num_documents(d), out);
	else
		cut_by_size(c, d, out);
	if (out->count - 1 > MAX_PIECES || out->at[out->count - 1] != dataset_num_documents(d))
		return err_at(
		    e, dataset_prefix(d), 0, "more than %d pieces: make them larger", MAX_PIECES);
	return 0;
}

static int64_t
num_pieces(const struct split_config *c, const struct cuts *cuts)
{
	return c->without ? 1 : cuts->count - 1;
}

/* The name of a piece. */
static const char *
piece_name(const struct split_config *c, int64_t i, struct str *name)
{
	str_clear(name);
	str_adds(name, c->output);
	if (!c->without)
		str_addf(name, "_%05lld", (long long)i);
	return name->buf;
}

/* Removes a piece that this run made, and holds the lock for. */
static int
remove_piece(const char *piece, struct lock *lock)
{
	static const char *const suffix[] = { ".idx", ".bin", ".sum", ".json", "_mask.idx",
		"_mask.bin", "_mask.sum" };
	struct str path = { 0 };
	int rc = 0;

	for (size_t i = 0; i < sizeof suffix / sizeof *suffix && rc == 0; i++) {
		str_clear(&path);
		str_addf(&path, "%s%s", piece, suffix[i]);
		rc = lock_unlink(lock, path.buf, NULL);
	}
	str_release(&path);
	return rc;
}

/* What all pieces have in common. */
struct whole {
	const struct split_config *c;
	const struct dataset *d;
	struct notes notes;
	struct shard_meter meter;
	struct lock *lock; /* of all pieces */
};

/* The cuts of a piece: ranges of documents, and what they hold. */
struct piece {
	const int64_t *cut; /* [2 * ranges] */
	int64_t ranges, documents, sequences, tokens;
};

static struct piece
piece_of(const struct whole *x, const struct cuts *cuts, int64_t i)
{
	const struct dataset *d = x->d;
	struct piece p = { .cut = cuts->at + i, .ranges = 1 };

	if (x->c->without)
		p.ranges = cuts->count / 2;
	for (int64_t k = 0; k < p.ranges; k++) {
		int64_t begin = p.cut[2 * k], end = p.cut[2 * k + 1],
			s0 = dataset_document_start(d, begin), s1 = dataset_document_start(d, end);

		p.documents += end - begin;
		p.sequences += s1 - s0;
		p.tokens += dataset_sequence_start(d, s1) - dataset_sequence_start(d, s0);
	}
	return p;
}

/* Writes one piece and its notes, or neither. The one of --without has the name that is locked
 * already. The lock of all is looked at also once that of a piece is there: another run that has
 * taken both in the meantime may be done with the piece. */
static int
write_piece(struct whole *x, const struct piece *p, const char *name, struct err *e)
{
	const struct dataset *d = x->d;
	struct notes_input input = { dataset_prefix(d), (int64_t)dataset_bin_bytes(d),
		x->c->without ? -1 : p->cut[0] };
	struct notes_origin origin = { x->c->made_by, &input, 1 };
	struct lock *lock = lock_check(x->lock, e) < 0 ? NULL
	    : x->c->without                            ? x->lock
						       : dataset_claim(name, &shard_lock, e);
	struct dataset_writer *w = lock && lock_check(x->lock, e) == 0
	    ? dataset_writer_new(name, dataset_dtype(d), e)
	    : NULL;
	int rc = w ? 0 : -1;

	if (rc == 0 && dataset_mask(d))
		rc = dataset_writer_add_mask(w, lock, e);
	for (int64_t k = 0; rc == 0 && k < p->ranges; k++)
		rc = shard_add_documents(w, d, p->cut + 2 * k, &x->meter, e);
	if (rc == 0) {
		dataset_writer_guard(w, lock, x->c->force);
		notes_describe(w, &x->notes, &origin);
		rc = dataset_commit(w, e);
	} else {
		dataset_abort(w);
	}
	if (lock != x->lock)
		lock_release(lock);
	return rc;
}

/* Writes all pieces or none, since some of them could be mistaken for the whole. Prints rows only
 * when all are written. */
static int
write_pieces(struct whole *x, const struct cuts *cuts, FILE *out, struct err *e)
{
	const struct split_config *c = x->c;
	struct str name = { 0 }, rows = { 0 };
	int rc = notes_read(dataset_prefix(x->d), &x->notes, e) < 0 ? -1 : 0;
	int64_t made = 0;

	temp_sweep_beside(c->output);
	while (rc == 0 && made < num_pieces(c, cuts)) {
		struct piece p = piece_of(x, cuts, made);

		rc = write_piece(x, &p, piece_name(c, made, &name), e);
		str_addf(&rows, "%s\t%lld\t%lld\t%lld\n", name.buf, (long long)p.documents,
		    (long long)p.sequences, (long long)p.tokens);
		made += rc == 0;
	}
	while (rc < 0 && made > 0 && remove_piece(piece_name(c, --made, &name), x->lock) == 0)
		;
	if (rc == 0)
		fprintf(out, "dataset\tdocuments\tsequences\ttokens\n%s", rows.buf);
	notes_release(&x->notes);
	str_release(&name);
	str_release(&rows);
	return rc;
}

/* All names, before anything is written. A piece that replaced the source would be all that is left
 * of it. */
static int
check_targets(const struct whole *x, const struct cuts *cuts, struct err *e)
{
	struct str name = { 0 };
	int rc = 0;

	for (int64_t i = 0; i < num_pieces(x->c, cuts) && rc == 0; i++) {
		if (shard_same(piece_name(x->c, i, &name), dataset_prefix(x->d)))
			rc = err_set(e, "--output %s: '%s' would be replaced by a piece of it",
			    x->c->output, dataset_prefix(x->d));
		else
			rc = dataset_check_target(name.buf, x->c->force, e);
	}
	str_release(&name);
	return rc;
}

/* A dataset with more sequences than training can number may be read here, since splitting it is
 * the remedy. The writer keeps every piece below that bound. */
int
shard_split(const struct split_config *c, const char *prefix, FILE *out, struct err *e)
{
	struct dataset_options o = { .no_mmap_bin = true, .any_count = true, .mask = true };
	struct dataset *d = dataset_open_with(prefix, &o, e);
	struct whole x = { .c = c, .d = d };
	struct cuts cuts = { 0 };
	int rc;

	if (!d)
		return -1;
	x.meter = (struct shard_meter){ c->progress, 0, dataset_bin_bytes(d) };
	rc = find_cuts(c, d, &cuts, e);
	if (rc == 0)
		rc = (x.lock = dataset_claim(c->output, &shard_lock, e)) ? 0 : -1;
	if (rc == 0)
		rc = check_targets(&x, &cuts, e);
	if (rc == 0)
		rc = write_pieces(&x, &cuts, out, e);
	lock_release(x.lock);
	free(cuts.at);
	dataset_close(d);
	return rc;
}

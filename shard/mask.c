/*
 * mask.c - taking documents out of the loss: writing the mask of a dataset
 *
 * The tokens stay where they are, and so do all samples; only what the loss counts changes, which a
 * resumed run accepts with --data-change mask.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "shard/mask_list.h"
#include "shard/shard.h"

#include <stdlib.h>
#include <string.h>

enum { NOTES_MAX = 1 << 30, BATCH = 1 << 20 };

/* The list as stretches of tokens of the .bin, in order. */
struct stretch {
	int64_t begin, end;
};

/* A mask being written. */
struct masking {
	struct dataset *d;
	struct dataset_writer *w;
	struct stretch *stretch;
	int64_t stretches, next; /* next: the first that may not be over yet */
	int64_t counted;
	/* documents that wait to be written */
	struct str mask, lengths, per_document;
};

int
shard_mask_check(const struct mask_config *c, struct err *e)
{
	return c->documents ? 0 : err_set(e, "--documents is needed: the list of documents");
}

static int
by_begin(const void *x, const void *y)
{
	const struct stretch *a = x, *b = y;

	return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* From documents to tokens; those of a span must be there. */
static int
place_spans(struct masking *m, const struct mask_span *span, const char *list, struct err *e)
{
	const struct dataset *d = m->d;

	m->stretch = mem_alloc((size_t)m->stretches + 1, sizeof *m->stretch);
	for (int64_t i = 0; i < m->stretches; i++) {
		const struct mask_span *s = &span[i];
		int64_t begin, end;

		begin = dataset_sequence_start(d, dataset_document_start(d, s->document));
		end = dataset_sequence_start(d, dataset_document_start(d, s->document + 1));
		if (s->count >= 0 && (s->first > end - begin || s->count > end - begin - s->first))
			return err_at(e, list, s->line,
			    "document %lld: tokens [%lld, +%lld) of %lld", (long long)s->document,
			    (long long)s->first, (long long)s->count, (long long)(end - begin));
		m->stretch[i] = (struct stretch){ begin + s->first,
			s->count < 0 ? end : begin + s->first + s->count };
	}
	qsort(m->stretch, (size_t)m->stretches, sizeof *m->stretch, by_begin);
	return 0;
}

static int
read_list(struct masking *m, const struct mask_config *c, struct err *e)
{
	struct mask_list list;
	int rc = mask_list_read(c->documents, c->corpus, m->d, &list, e);

	m->stretches = list.count;
	if (rc == 0)
		rc = place_spans(m, list.span, c->documents, e);
	free(list.span);
	return rc;
}

/* Writes the documents that wait. */
static int
flush_documents(struct masking *m, struct err *e)
{
	struct dataset_batch b = { .tokens = m->mask.buf,
		.lengths = (const int32_t *)(const void *)m->lengths.buf,
		.per_document = (const int32_t *)(const void *)m->per_document.buf,
		.sequences = (int64_t)(m->lengths.len / sizeof(int32_t)),
		.documents = (int64_t)(m->per_document.len / sizeof(int32_t)) };
	int rc = dataset_add_batch(m->w, &b, e);

	str_clear(&m->mask);
	str_clear(&m->lengths);
	str_clear(&m->per_document);
	return rc;
}

/* Sets the bytes of tokens from `at` on to 0 where the list has them. */
static void
take_out(struct masking *m, int64_t at, int64_t len, uint8_t *mask)
{
	while (m->next < m->stretches && m->stretch[m->next].end <= at)
		m->next++;
	for (int64_t i = m->next; i < m->stretches && m->stretch[i].begin < at + len; i++) {
		int64_t begin = m->stretch[i].begin - at, end = m->stretch[i].end - at;

		begin = begin < 0 ? 0 : begin;
		end = end > len ? len : end;
		if (end > begin)
			memset(mask + begin, 0, (size_t)(end - begin));
	}
}

static int
add_sequence(struct masking *m, int64_t sequence, struct err *e)
{
	int64_t len = dataset_length(m->d, sequence);
	int32_t stored = (int32_t)len;
	uint8_t *mask;

	str_reserve(&m->mask, (size_t)len + 1);
	mask = (uint8_t *)m->mask.buf + m->mask.len;
	if (dataset_weights(m->d, sequence, 0, len, mask, e) < 0)
		return -1;
	take_out(m, dataset_sequence_start(m->d, sequence), len, mask);
	for (int64_t i = 0; i < len; i++)
		m->counted += mask[i];
	m->mask.len += (size_t)len;
	str_add(&m->lengths, &stored, sizeof stored);
	return 0;
}

static int
add_documents(struct masking *m, struct err *e)
{
	int rc = 0;

	for (int64_t k = 0; k < dataset_num_documents(m->d) && rc == 0; k++) {
		int64_t begin = dataset_document_start(m->d, k),
			end = dataset_document_start(m->d, k + 1);
		int32_t sequences = (int32_t)(end - begin);

		for (int64_t s = begin; s < end && rc == 0; s++)
			rc = add_sequence(m, s, e);
		str_add(&m->per_document, &sequences, sizeof sequences);
		if (rc == 0 && (m->mask.len >= BATCH || m->per_document.len >= BATCH))
			rc = flush_documents(m, e);
	}
	return rc == 0 ? flush_documents(m, e) : rc;
}

/* Notes that do not name the mask get the member, after their opening brace. */
static int
name_mask(const char *prefix, const char *mask, struct lock *lock, struct err *e)
{
	const char *slash = strrchr(mask, '/'), *name = slash ? slash + 1 : mask;
	struct str path = { 0 }, out = { 0 };
	char *text = NULL;
	size_t len;
	int rc;

	str_addf(&path, "%s.json", prefix);
	rc = io_there(path.buf, e);
	if (rc > 0)
		rc = io_read_regular(path.buf, NOTES_MAX, &text, &len, e) < 0 ? -1 : 1;
	if (rc > 0 && len > 2 && !memcmp(text, "{\n", 2) && !strstr(text, "\n  \"mask\": ")) {
		str_adds(&out, "{\n  \"mask\": ");
		str_add_json(&out, name, strlen(name));
		str_adds(&out, ",\n");
		str_add(&out, text + 2, len - 2);
		rc = outfile_write_held(path.buf, out.buf, out.len, lock, e);
	}
	free(text);
	str_release(&path);
	str_release(&out);
	return rc < 0 ? -1 : 0;
}

/* Opens the dataset, whose mask may only be changed on request. */
static struct dataset *
open_masked(const struct mask_config *c, const char *prefix, struct err *e)
{
	struct dataset *d = shard_open(prefix, e);

	if (d && dataset_mask(d) && !c->force) {
		err_set(e, "'%s' exists; --force takes more out of it",
		    dataset_prefix(dataset_mask(d)));
		dataset_close(d);
		return NULL;
	}
	return d;
}

/* The mask under the lock of its dataset. */
static int
write_mask(const struct mask_config *c, struct masking *m, const char *name, struct lock *lock,
    struct err *e)
{
	int rc = read_list(m, c, e);

	if (rc == 0 && dataset_check_target(name, c->force, e) < 0)
		rc = -1;
	if (rc == 0)
		rc = (m->w = dataset_writer_new(name, DTYPE_U8, e)) ? 0 : -1;
	if (rc == 0)
		rc = add_documents(m, e);
	if (rc < 0) {
		dataset_abort(m->w);
		return -1;
	}
	dataset_writer_guard(m->w, lock, c->force);
	return dataset_commit(m->w, e);
}

int
shard_mask(const struct mask_config *c, const char *prefix, FILE *out, struct err *e)
{
	struct lock *lock = dataset_claim(prefix, &shard_lock, e);
	struct masking m = { .d = lock ? open_masked(c, prefix, e) : NULL };
	struct str name = { 0 };
	int rc = m.d ? 0 : -1;

	if (rc == 0) {
		if (dataset_mask(m.d))
			str_adds(&name, dataset_prefix(dataset_mask(m.d)));
		else
			str_addf(&name, "%s_mask", prefix);
		rc = write_mask(c, &m, name.buf, lock, e);
	}
	if (rc == 0)
		rc = name_mask(prefix, name.buf, lock, e);
	if (rc == 0)
		fprintf(out, "dataset\tmask\ttokens\tcounted\n%s\t%s\t%lld\t%lld\n", prefix,
		    name.buf, (long long)dataset_num_tokens(m.d), (long long)m.counted);
	dataset_close(m.d);
	lock_release(lock);
	free(m.stretch);
	str_release(&m.mask);
	str_release(&m.lengths);
	str_release(&m.per_document);
	str_release(&name);
	return rc;
}

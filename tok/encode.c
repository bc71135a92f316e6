/*
 * encode.c - JSON Lines to datasets: batches of lines through workers, documents out in order
 *
 * A job is a batch of lines and what they gave for each key. Workers convert ids to the dataset's
 * type, so that the one thread that writes has only bytes to pass on. A bad line ends its job
 * there; the writer meets the jobs in order, so the line that is reported is the first bad one of
 * the input, however many workers there are.
 */
#include "tok/encode.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/format/dataset.h"
#include "tok/input.h"
#include "tok/pipeline.h"
#include "tok/sidecar.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH_BYTES = 512 * 1024, PATH_BYTES = 1024 };

/* What a batch gives for one key: documents as runs of sequences, tokens in the dataset's type. */
struct part {
	struct str tokens, lengths, sequences;  /* elements of the dtype; int32 a sequence; int32 a document */
	struct key_counts counts;
};

/* One slot of the pipeline. */
struct job {
	struct batch batch;
	struct part *part;                      /* a key */
	int64_t documents, blank, bad[JSONL_CLASSES];
	bool failed;
	struct err why;
};

/* What a worker keeps between batches: nothing of it is shared, so workers need no lock. */
struct scratch {
	struct tokenizer_worker *tokenizer;
	struct jsonl *jsonl;
	struct token_ids ids;
};

/* A run. Workers only read it; counts and writers are touched by the thread that writes. */
struct encode {
	const struct encode_config *c;
	struct tokenizer *tokenizer;
	struct opt_list files, stdin_alone;
	const char *stdin_name;
	int64_t eod;
	enum dtype dtype;
	struct input *input;
	struct dataset_writer **writer;         /* a key; NULL when counting */
	struct job *job;
	void **slot;
	int num_jobs, num_workers, num_keys;
	struct scratch *scratch;                /* a worker */
	struct encode_counts counts;
	void (*progress)(void *ctx, const struct encode_counts *);
	void *progress_ctx;
};

/* PREFIX_KEY_document, the name of a key's dataset. Room is left for the longest suffix that the
 * callers append. */
static int
dataset_name(const struct encode *x, int key, char out[PATH_BYTES], struct err *e)
{
	int n = snprintf(
	    out, PATH_BYTES, "%s_%s_document", x->c->output_prefix, x->c->json_keys.item[key]);

	return n < PATH_BYTES - 8 ? 0 : err_set(e, "--output-prefix: too long");
}

/* Keys must differ: two would be one dataset. Names are compared as bytes, as members are. */
static int
check_keys(const struct opt_list *keys, struct err *e)
{
	for (int i = 0; i < keys->count; i++)
		for (int k = 0; k < i; k++)
			if (!strcmp(keys->item[i], keys->item[k]))
				return err_set(
				    e, "--json-keys: '%s' is there twice", keys->item[i]);
	return 0;
}

/* Inputs must be readable files before anything starts. A mistyped last name should not cost the
 * hours that the first files take. */
static int
check_inputs(const struct opt_list *files, struct err *e)
{
	for (int i = 0; i < files->count; i++) {
		if (!strcmp(files->item[i], "-"))
			continue;
		if (access(files->item[i], R_OK) < 0)
			return err_sys(e, "open", files->item[i]);
		if (io_is_dir(files->item[i]))
			return err_set(e, "cannot read '%s': it is a directory", files->item[i]);
	}
	return 0;
}

/* All names of all keys, before any of them is created. --force leaves this out: the writer
 * replaces the files when it commits. */
static int
check_targets(const struct encode *x, struct err *e)
{
	static const char *const suffix[] = { ".bin", ".idx", ".json" };
	char path[PATH_BYTES];

	for (int k = 0; k < x->num_keys; k++)
		for (int i = 0; i < 3 && !x->c->force; i++) {
			if (dataset_name(x, k, path, e) < 0)
				return -1;
			strcat(path, suffix[i]);
			if (io_exists(path))
				return err_set(e, "'%s' exists; --force replaces it", path);
		}
	return 0;
}

/* Opens the tokenizer and settles eod and element type. An eod beyond the vocabulary widens the
 * type if it must; training's padded vocabulary may hold it. */
static int
open_tokenizer(struct encode *x, struct err *e)
{
	const struct encode_config *c = x->c;
	int64_t size;

	x->tokenizer = tokenizer_open(&c->tokenizer, e);
	if (!x->tokenizer)
		return -1;
	size = tokenizer_vocab_size(x->tokenizer);
	x->eod = c->eod_id >= 0 ? c->eod_id : tokenizer_special(x->tokenizer, TOKENIZER_EOS);
	if (c->append_eod && x->eod < 0)
		return err_set(
		    e, "--append-eod: this tokenizer has no end-of-document id; give --eod-id");
	x->dtype = dataset_dtype_for(c->append_eod && x->eod >= size ? x->eod + 1 : size);
	return 0;
}

/* One dataset a key. Each writes to temporary files beside the result until it commits. */
static int
open_writers(struct encode *x, struct err *e)
{
	char name[PATH_BYTES];

	if (check_targets(x, e) < 0)
		return -1;
	x->writer = mem_zalloc((size_t)x->num_keys, sizeof(struct dataset_writer *));
	for (int k = 0; k < x->num_keys; k++) {
		if (dataset_name(x, k, name, e) < 0)
			return -1;
		x->writer[k] = dataset_writer_new(name, x->dtype, e);
		if (!x->writer[k])
			return -1;
	}
	return 0;
}

/* Threads' scratch and the slots. Two slots a worker and one more: while a worker has one, the
 * reader fills its next, and the writer has one. */
static void
open_jobs(struct encode *x)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	x->num_workers = x->c->workers > 0 ? (int)x->c->workers : cores > 0 ? (int)cores : 1;
	x->num_jobs = 2 * x->num_workers + 1;
	x->job = mem_zalloc((size_t)x->num_jobs, sizeof *x->job);
	x->slot = mem_zalloc((size_t)x->num_jobs, sizeof *x->slot);
	for (int i = 0; i < x->num_jobs; i++) {
		x->job[i].part = mem_zalloc((size_t)x->num_keys, sizeof *x->job[i].part);
		x->slot[i] = &x->job[i];
	}
	x->scratch = mem_zalloc((size_t)x->num_workers, sizeof *x->scratch);
	for (int i = 0; i < x->num_workers; i++) {
		x->scratch[i].tokenizer = tokenizer_worker_new(x->tokenizer);
		x->scratch[i].jsonl = jsonl_new(&x->c->json_keys);
	}
	x->counts.num_keys = x->num_keys;
	x->counts.key = mem_zalloc((size_t)x->num_keys, sizeof *x->counts.key);
	x->input = input_new(&x->files);
}

/* Nothing is read from the inputs yet. NULL with a reason, and nothing created. c must outlive
 * x. */
struct encode *
encode_open(const struct encode_config *c, struct err *e)
{
	struct encode *x = mem_zalloc(1, sizeof *x);

	x->c = c;
	x->num_keys = c->json_keys.count;
	x->stdin_name = "-";
	x->stdin_alone = (struct opt_list){ 1, &x->stdin_name };
	x->files = c->input.count ? c->input : x->stdin_alone;
	if (check_keys(&c->json_keys, e) < 0 || check_inputs(&x->files, e) < 0 ||
	    open_tokenizer(x, e) < 0 || (c->output_prefix && open_writers(x, e) < 0)) {
		encode_close(x);
		return NULL;
	}
	open_jobs(x);
	return x;
}

/* Frees what one slot has grown to. */
static void
close_job(struct job *j, int num_keys)
{
	str_release(&j->batch.text);
	for (int k = 0; k < num_keys; k++) {
		str_release(&j->part[k].tokens);
		str_release(&j->part[k].lengths);
		str_release(&j->part[k].sequences);
	}
	free(j->part);
}

/* Datasets that were not committed leave nothing behind. NULL is closed already. */
void
encode_close(struct encode *x)
{
	if (!x)
		return;
	for (int k = 0; x->writer && k < x->num_keys; k++)
		if (x->writer[k])
			dataset_abort(x->writer[k]);
	for (int i = 0; i < x->num_jobs; i++)
		close_job(&x->job[i], x->num_keys);
	for (int i = 0; i < x->num_workers; i++) {
		tokenizer_worker_free(x->scratch[i].tokenizer);
		jsonl_free(x->scratch[i].jsonl);
		token_ids_release(&x->scratch[i].ids);
	}
	input_free(x->input);
	tokenizer_close(x->tokenizer);
	free(x->writer);
	free(x->job);
	free(x->slot);
	free(x->scratch);
	free(x->counts.key);
	free(x);
}

/* Complete when encode_run has returned 0; before that it is what has been written so far. Lives
 * as long as x. */
const struct encode_counts *
encode_counts(const struct encode *x)
{
	return &x->counts;
}

/* In the machine's byte order, which the dataset's format takes over (little-endian machines
 * alone). */
static void
add_int32(struct str *s, int32_t v)
{
	str_add(s, &v, sizeof v);
}

/* Appends ids in the dataset's type; they are below the vocabulary size, or the eod that the type
 * was chosen for. */
static void
add_tokens(struct str *s, enum dtype t, const uint32_t *id, size_t count)
{
	if (t == DTYPE_U16) {
		str_reserve(s, 2 * count);
		for (size_t i = 0; i < count; i++) {
			uint16_t v = (uint16_t)id[i];

			memcpy(s->buf + s->len + 2 * i, &v, sizeof v);
		}
		s->len += 2 * count;
		return;
	}
	for (size_t i = 0; i < count; i++)
		add_int32(s, (int32_t)id[i]);
}

/* Encodes the strings of one document and key. Strings of a list are sequences of one document;
 * empty ones are left out, and eod lengthens the last sequence instead of making one. */
static int
encode_value(const struct encode *x, struct scratch *s, struct part *part, int key, struct err *e)
{
	size_t num_texts, sequences = 0;
	const struct jsonl_text *text = jsonl_value(s->jsonl, key, &num_texts);

	for (size_t i = 0; i < num_texts; i++) {
		s->ids.count = 0;
		if (tokenizer_encode(s->tokenizer, text[i].bytes, text[i].len, &s->ids, e) < 0)
			return -1;
		part->counts.bytes += (int64_t)text[i].len;
		if (s->ids.count >= INT32_MAX)
			return err_set(e, "a text of %zu tokens: at most 2147483646 fit a sequence",
			    s->ids.count);
		if (s->ids.count == 0)
			continue;
		add_tokens(&part->tokens, x->dtype, s->ids.id, s->ids.count);
		add_int32(&part->lengths, (int32_t)s->ids.count);
		part->counts.tokens += (int64_t)s->ids.count;
		sequences++;
	}
	if (x->c->append_eod && sequences) {
		uint32_t eod = (uint32_t)x->eod;
		int32_t last;

		memcpy(&last, part->lengths.buf + part->lengths.len - sizeof last, sizeof last);
		last++;
		memcpy(part->lengths.buf + part->lengths.len - sizeof last, &last, sizeof last);
		add_tokens(&part->tokens, x->dtype, &eod, 1);
		part->counts.tokens++;
	}
	add_int32(&part->sequences, (int32_t)sequences);
	part->counts.sequences += (int64_t)sequences;
	return 0;
}

/* Takes back what the keys before the refused one have added for this document. Buffers keep
 * their memory; only what counts is set back. */
static void
undo(struct part *part, const struct part *before)
{
	part->tokens.len = before->tokens.len;
	part->lengths.len = before->lengths.len;
	part->sequences.len = before->sequences.len;
	part->counts = before->counts;
}

/* All keys of the parsed line, or none. A document must be in the datasets of all keys or of
 * none, or their numbers would part. */
static int
encode_document(const struct encode *x, struct scratch *s, struct job *j, struct err *e)
{
	struct part before[16],
	    *saved = x->num_keys <= 16 ? before : mem_alloc((size_t)x->num_keys, sizeof *saved);
	int rc = 0;

	memcpy(saved, j->part, (size_t)x->num_keys * sizeof *saved);
	for (int k = 0; k < x->num_keys && rc == 0; k++)
		rc = encode_value(x, s, &j->part[k], k, e);
	for (int k = 0; k < x->num_keys && rc < 0; k++)
		undo(&j->part[k], &saved[k]);
	if (saved != before)
		free(saved);
	return rc;
}

/* Parses and encodes one line. -1: it is bad and bad lines stop the run. Blank lines are no
 * fault in either mode; they are counted apart. */
static int
encode_line(const struct encode *x, struct scratch *s, struct job *j, const struct jsonl_text *line,
    int64_t number)
{
	enum jsonl_class class = jsonl_parse(s->jsonl, line->bytes, line->len);
	const char *detail = jsonl_detail(s->jsonl);
	struct err why;

	if (class == JSONL_BLANK) {
		j->blank++;
		return 0;
	}
	if (class == JSONL_OK && encode_document(x, s, j, &why) < 0) {
		class = JSONL_REFUSED;
		detail = why.msg;
	}
	if (class == JSONL_OK) {
		j->documents++;
		return 0;
	}
	j->bad[class]++;
	if (x->c->on_error == ON_ERROR_SKIP)
		return 0;
	j->failed = true;
	return err_at(
	    &j->why, j->batch.file, (long)number, "%s: %s", jsonl_class_name[class], detail);
}

/* Pipeline: fills a slot with lines. */
static int
read_job(void *ctx, void *slot, struct err *e)
{
	struct encode *x = ctx;

	return input_next(x->input, BATCH_BYTES, &((struct job *)slot)->batch, e);
}

/* Pipeline: encodes the lines of a slot. Stops at a line that ends the run; what the slot holds
 * is not written then. */
static void
work_job(void *ctx, int worker, void *slot)
{
	const struct encode *x = ctx;
	struct job *j = slot;
	struct jsonl_text line;
	int64_t number = j->batch.first_line;
	size_t pos = 0;

	for (int k = 0; k < x->num_keys; k++)
		undo(&j->part[k], &(struct part){ 0 });
	memset(j->bad, 0, sizeof j->bad);
	j->documents = j->blank = 0;
	j->failed = false;
	for (; batch_line(&j->batch, &pos, &line.bytes, &line.len); number++)
		if (encode_line(x, &x->scratch[worker], j, &line, number) < 0)
			return;
}

/* Writes the documents of one key. Reads the lengths as encode_value left them; a document
 * without sequences is written as an empty one. */
static int
write_part(struct dataset_writer *w, const struct part *part, size_t width, struct err *e)
{
	const char *tokens = part->tokens.buf, *lengths = part->lengths.buf;

	for (size_t i = 0; i < part->sequences.len; i += sizeof(int32_t)) {
		int32_t sequences;
		int64_t count = 0;

		memcpy(&sequences, part->sequences.buf + i, sizeof sequences);
		for (int32_t s = 0; s < sequences; s++) {
			int32_t n;

			memcpy(&n, lengths + (size_t)s * sizeof n, sizeof n);
			count += n;
		}
		if (sequences &&
		    dataset_add_raw(
			w, tokens, (const int32_t *)(const void *)lengths, sequences, e) < 0)
			return -1;
		if (dataset_end_document(w, e) < 0)
			return -1;
		tokens += (size_t)count * width;
		lengths += (size_t)sequences * sizeof(int32_t);
	}
	return 0;
}

/* Pipeline: writes a slot and adds up its counts. Called in the order of the input, by one
 * thread. */
static int
write_job(void *ctx, void *slot, struct err *e)
{
	struct encode *x = ctx;
	const struct job *j = slot;

	if (j->failed)
		return err_set(e, "%s", j->why.msg);
	for (int k = 0; k < x->num_keys; k++) {
		struct key_counts *sum = &x->counts.key[k];

		if (x->writer && write_part(x->writer[k], &j->part[k], dtype_size(x->dtype), e) < 0)
			return -1;
		sum->sequences += j->part[k].counts.sequences;
		sum->tokens += j->part[k].counts.tokens;
		sum->bytes += j->part[k].counts.bytes;
	}
	for (int i = 0; i < JSONL_CLASSES; i++)
		x->counts.bad[i] += j->bad[i];
	x->counts.documents += j->documents;
	x->counts.blank += j->blank;
	x->counts.input_bytes += (int64_t)j->batch.text.len;
	if (x->progress)
		x->progress(x->progress_ctx, &x->counts);
	return 0;
}

/* Pipeline: wakes the reader. */
static void
stop_jobs(void *ctx)
{
	input_stop(((struct encode *)ctx)->input);
}

/* Commits every key's dataset and the notes beside it. If one fails, the keys before it are
 * there and those after it are not: -1 says so to the caller. */
static int
commit(struct encode *x, struct err *e)
{
	struct sidecar s = { x->c, x->tokenizer, &x->files, x->input, &x->counts, x->eod };
	char name[PATH_BYTES];

	for (int k = 0; k < x->num_keys; k++) {
		struct dataset_writer *w = x->writer[k];

		x->writer[k] = NULL;
		if (dataset_commit(w, e) < 0 || dataset_name(x, k, name, e) < 0 ||
		    sidecar_write(&s, k, name, e) < 0)
			return -1;
	}
	return 0;
}

/* Counting is the same without writers. -1 with the first bad line of the input, or what could
 * not be read or written; encode_close then leaves nothing behind. progress is called by the
 * thread that writes, after each batch. */
int
encode_run(struct encode *x, void (*progress)(void *ctx, const struct encode_counts *), void *ctx,
    struct err *e)
{
	struct pipeline p = {
		.ctx = x, .slot = x->slot, .num_slots = x->num_jobs, .num_workers = x->num_workers,
		.read = read_job, .work = work_job, .write = write_job, .stop = stop_jobs,
	};

	x->progress = progress;
	x->progress_ctx = ctx;
	if (line_pipeline_run(&p, e) < 0)
		return -1;
	return x->writer ? commit(x, e) : 0;
}

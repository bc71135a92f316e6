/*
 * encode.c - from JSON Lines to datasets: workers take batches of lines, and documents come out in
 * order
 *
 * Jobs come to the writer in the order of the input, so the line that is reported is the first bad
 * one whatever the number of workers. The writer numbers the lines: it adds up the lines of earlier
 * batches, so the reader need not count.
 */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/data/dataset.h"
#include "tok/encode.h"
#include "tok/errors.h"
#include "tok/files.h"
#include "tok/output.h"
#include "tok/pipeline.h"
#include "tok/resume.h"
#include "tok/sidecar.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * A batch that is read, encoded and written by one thread stays in its cache with the tokenizer's
 * tables; with several threads, larger batches make waits rare.
 */
enum { ALONE_BYTES = 64 * 1024, SHARED_BYTES = 256 * 1024, TOKENIZERS_MAX = 64 };

/* A run. Workers only read the plan; only the thread that writes, one at a time, touches counts and
 * outputs. */
struct encode {
	const struct encode_config *c;
	struct mem_pool pool;
	struct tokenizer *tokenizer[TOKENIZERS_MAX];
	struct document_plan plan;
	enum chat_kind kind;
	struct chat *chat; /* NULL: all is trained */
	int64_t eod;       /* also when none is appended */
	struct input_list files;
	struct input *input;
	struct output *output; /* NULL when counting */
	struct job *job;
	void **slot;
	int num_jobs, num_workers;
	struct scratch **scratch; /* a worker */
	struct encode_counts counts;
	struct resume_place at; /* after the last job that was written */
	int64_t lines_before;   /* of the open file, before at.first; -1: not yet counted */
	char *state_path;       /* NULL: the run cannot be resumed */
	struct str described;
	struct resume_state state;
	bool have_state, done;
	double marked;
	void (*progress)(void *ctx, const struct encode_counts *);
	void *progress_ctx;
};

/* A line that says what is trained is one document of one sequence. */
static int
check_chat(const struct encode_config *c, struct err *e)
{
	static const char *const option[] = { "", "mask-key", "segments", "spans-key",
		"chat-format" };
	enum chat_kind kind;
	const char *other;

	if (chat_check(&c->chat, &kind, e) < 0 || kind == CHAT_NONE)
		return kind == CHAT_NONE ? 0 : -1;
	if (c->json_keys.count > 1)
		return err_set(
		    e, "--%s: takes one of --json-keys, not %d", option[kind], c->json_keys.count);
	other = kind == CHAT_IDS ? c->chat.mask_key : kind == CHAT_SPANS ? c->chat.spans_key : NULL;
	if (other && !strcmp(other, c->json_keys.item[0]))
		return err_set(
		    e, "--%s %s: must differ from that of --json-keys", option[kind], other);
	return c->split_sentences
	    ? err_set(e, "--%s and --split-sentences exclude each other", option[kind])
	    : 0;
}

/*
 * An option that has no effect without another one is a usage error. Keys must differ: equal ones
 * would be one dataset; names are compared as bytes, as members are. A list option takes all words
 * up to the next option, so a file after it would become a key, and the run would wait for standard
 * input; keys are rarely names of existing files.
 */
static int
check_options(const struct encode_config *c, struct err *e)
{
	const struct opt_list *keys = &c->json_keys;
	const char *last = keys->count ? keys->item[keys->count - 1] : "";

	if (c->keep_newlines && !c->split_sentences)
		return err_set(e, "--keep-newlines needs --split-sentences");
	if (c->error_list && c->on_error != ON_ERROR_SKIP)
		return err_set(e, "--error-list needs --on-error skip");
	if (check_chat(c, e) < 0)
		return -1;
	if (c->histogram && c->json)
		return err_set(
		    e, "--histogram and --json exclude each other: --json includes the histogram");
	for (int i = 0; i < keys->count; i++)
		for (int k = 0; k < i; k++)
			if (!strcmp(keys->item[i], keys->item[k]))
				return err_set(e, "--json-keys: '%s' occurs twice", keys->item[i]);
	if (!c->input.count && !c->files_from && strpbrk(last, "./") && io_exists(last))
		return err_set(e,
		    "--json-keys: '%s' is taken for a key, but it is a file: give files by "
		    "--input, or "
		    "after `--'",
		    last);
	return 0;
}

/* Decides what is added to documents, and the element type: the end-of-document id is the requested
 * one, else the tokenizer's. An id beyond the vocabulary may widen the type; training's padded
 * vocabulary may hold it. */
static int
settle_ids(struct encode *x, struct err *e)
{
	const struct encode_config *c = x->c;
	const struct tokenizer *t = x->tokenizer[0];
	int64_t size = tokenizer_vocab_size(t), bos = tokenizer_special(t, TOKENIZER_BOS);

	if (c->eod_token && c->eod_id >= 0)
		return err_set(e, "--eod-id and --eod-token exclude each other: give one of them");
	x->eod = c->eod_id;
	if (c->eod_token) {
		x->eod = tokenizer_find_piece(t, c->eod_token, strlen(c->eod_token));
		if (x->eod < 0)
			return err_set(
			    e, "--eod-token: the tokenizer has no piece '%s'", c->eod_token);
	}
	if (x->eod < 0)
		x->eod = tokenizer_special(t, TOKENIZER_EOS);
	if (c->append_eod && x->eod < 0)
		return err_set(e,
		    "--append-eod: this tokenizer has no end-of-document id; give --eod-id or "
		    "--eod-token");
	if (c->prepend_bos && bos < 0)
		return err_set(e, "--prepend-bos: this tokenizer has no beginning-of-document id");
	x->plan.eod = c->append_eod && x->eod != tokenizer_after(t) ? x->eod : -1;
	x->plan.bos = c->prepend_bos && !tokenizer_adds_bos(t) ? bos : -1;
	x->plan.dtype = dataset_dtype_for(x->plan.eod >= size ? x->plan.eod + 1 : size);
	return 0;
}

/* The tokenizer of the options, and those to compare it with. */
static int
open_tokenizers(struct encode *x, struct err *e)
{
	const struct encode_config *c = x->c;
	int n = 0;

	if (c->compare.count >= TOKENIZERS_MAX)
		return err_set(e, "--compare: at most %d tokenizers", TOKENIZERS_MAX - 1);
	struct tokenizer_spec own = c->tokenizer;

	/* a chat template has all special tokens itself */
	own.hf_no_include_special_tokens |= x->kind != CHAT_NONE;
	x->tokenizer[n] = tokenizer_open(&own, e);
	if (!x->tokenizer[n++])
		return -1;
	if (x->kind != CHAT_NONE &&
	    !(x->chat = chat_open(&c->chat, c->json_keys.item[0], x->tokenizer[0], e)))
		return -1;
	for (int i = 0; i < c->compare.count; i++) {
		struct tokenizer_spec spec = { .model = c->compare.item[i],
			.unigram_ties = c->tokenizer.unigram_ties,
			.like = c->tokenizer.like,
			.hf_no_include_special_tokens = x->kind != CHAT_NONE,
			.special_as_text = c->tokenizer.special_as_text };

		x->tokenizer[n] = tokenizer_open(&spec, e);
		if (!x->tokenizer[n++])
			return -1;
	}
	x->plan = (struct document_plan){
		.keys = &c->json_keys,
		.tokenizer = x->tokenizer,
		.num_tokenizers = n,
		.chat = x->chat,
		.discard = !c->output_prefix,
		.prefix = c->output_prefix,
		.stop_at_bad = c->on_error == ON_ERROR_STOP,
		.max_bytes = c->max_document_bytes,
		.split_sentences = c->split_sentences,
		.keep_newlines = c->keep_newlines,
	};
	return settle_ids(x, e);
}

/* Lists the input files and examines them. */
static int
open_files(struct encode *x, struct err *e)
{
	struct opt_list names = x->c->input;
	struct files_request request = { .names = &names,
		.format = x->c->format,
		.document_by = x->c->document_by,
		.separator = x->c->document_separator };

	if (part_parse(x->c->part, &request.part, e) < 0 ||
	    (x->c->files_from && files_from(x->c->files_from, &names, &x->pool, e) < 0) ||
	    files_open(&request, &x->files, &x->pool, e) < 0)
		return -1;
	for (int i = 0; i < x->files.count; i++) {
		const struct input_file *f = &x->files.item[i];

		if (f->text && x->kind != CHAT_NONE)
			return err_set(e,
			    "'%s' is plain text, which does not say what is trained: --format "
			    "jsonl is for JSON Lines",
			    f->name);
		if (f->text && x->c->json_keys.count > 1)
			return err_set(e,
			    "--json-keys: '%s' is plain text, which has one member: give one "
			    "name, or --format jsonl",
			    f->name);
		if (f->size < 0 && x->c->resume)
			return err_set(e, "--resume: '%s' cannot be read a second time; give files",
			    input_file_name(f));
		x->counts.stored_total = f->size < 0 || x->counts.stored_total < 0
		    ? -1
		    : x->counts.stored_total + (f->end < 0 ? f->size : f->end) - f->begin;
	}
	return 0;
}

/* A stopped run leaves a state, which --resume reads; without --resume it is an error. Where there
 * is none, that of an earlier run may be removed and not so on disk, and would come back beside the
 * files of this one. */
static int
open_state(struct encode *x, struct err *e)
{
	char *path = resume_path(x->c->output_prefix);
	int rc = 0;

	x->state.key = mem_zalloc((size_t)x->counts.num_keys, sizeof *x->state.key);
	if (!x->c->resume) {
		rc = x->c->force ? 0 : io_there(path, e);
		if (rc > 0)
			rc = err_set(e,
			    "'%s' belongs to a run that stopped; --resume continues it, --force "
			    "drops it",
			    path);
		free(path);
		return rc;
	}
	x->state_path = path;
	resume_describe(x->c, x->tokenizer[0], x->plan.eod, &x->files, &x->described);
	rc = resume_read(path, &x->described, &x->state, &x->counts, e);
	x->have_state = rc > 0;
	if (rc == 0)
		rc = io_sync_parent(path, e);
	if (rc > 0 && x->state.at.file > x->files.count)
		return err_set(e, "--resume: '%s' is damaged", path);
	return rc < 0 ? -1 : 0;
}

/* Opens the outputs, and the input at the place where reading begins. */
static int
open_ends(struct encode *x, struct err *e)
{
	if (x->c->output_prefix) {
		x->output = output_claim(x->c, e);
		if (!x->output || open_state(x, e) < 0 ||
		    output_open(x->output, x->plan.dtype, x->have_state ? &x->state : NULL, e) < 0)
			return -1;
	}
	x->input = input_new(
	    &x->files, x->c->max_document_bytes, x->c->output_prefix ? x->c->stop_fd : -1);
	x->at.file = x->lines_before = -1;
	if (x->have_state) {
		x->at = x->state.at;
		input_seek(x->input, (int)x->at.file, x->at.offset);
		x->counts.input_before = x->counts.input_bytes;
		x->counts.stored_before = input_before(x->input);
	}
	x->marked = clock_seconds();
	return 0;
}

/*
 * Reads nothing from the inputs yet. On failure NULL with a reason, and nothing is created. c must
 * outlive x. By default there is a worker for each core that this process may use. One worker needs
 * one slot; otherwise finished slots wait for earlier ones, so there are two per worker and one
 * more.
 */
struct encode *
encode_open(const struct encode_config *c, struct err *e)
{
	struct encode *x = mem_zalloc(1, sizeof *x);
	cpu_set_t set;

	x->c = c;
	(void)chat_check(&c->chat, &x->kind, NULL);
	x->counts.num_keys = c->json_keys.count;
	x->counts.num_tokenizers = 1 + c->compare.count;
	x->counts.key = mem_zalloc(
	    (size_t)(x->counts.num_keys * x->counts.num_tokenizers), sizeof *x->counts.key);
	if (check_options(c, e) < 0 || open_files(x, e) < 0 || open_tokenizers(x, e) < 0 ||
	    open_ends(x, e) < 0) {
		encode_close(x);
		return NULL;
	}
	x->num_workers = (int)x->c->workers;
	if (x->num_workers <= 0)
		x->num_workers = sched_getaffinity(0, sizeof set, &set) == 0
		    ? CPU_COUNT(&set)
		    : (int)sysconf(_SC_NPROCESSORS_ONLN);
	x->num_workers = x->num_workers > 0 ? x->num_workers : 1;
	x->num_jobs = x->num_workers == 1 ? 1 : 2 * x->num_workers + 1;
	x->job = mem_zalloc((size_t)x->num_jobs, sizeof *x->job);
	x->slot = mem_zalloc((size_t)x->num_jobs, sizeof *x->slot);
	for (int i = 0; i < x->num_jobs; i++) {
		job_init(&x->job[i], &x->plan);
		x->slot[i] = &x->job[i];
	}
	x->scratch = mem_zalloc((size_t)x->num_workers, sizeof(struct scratch *));
	for (int i = 0; i < x->num_workers; i++)
		x->scratch[i] = scratch_new(&x->plan);
	return x;
}

/* True when another run can use the files that this one leaves. */
bool
encode_can_resume(const struct encode *x)
{
	return x->have_state && !x->done;
}

/* Uncommitted datasets leave no files, unless another run can continue them. NULL is allowed. */
void
encode_close(struct encode *x)
{
	if (!x)
		return;
	output_close(x->output, encode_can_resume(x));
	for (int i = 0; i < x->num_jobs; i++)
		job_release(&x->job[i], &x->plan);
	for (int i = 0; i < x->num_workers; i++)
		scratch_free(x->scratch[i]);
	input_free(x->input);
	for (int i = 0; i < TOKENIZERS_MAX; i++)
		tokenizer_close(x->tokenizer[i]);
	chat_close(x->chat);
	str_release(&x->described);
	mem_pool_release(&x->pool);
	free(x->state.key);
	free(x->state_path);
	free(x->job);
	free(x->slot);
	free(x->scratch);
	free(x->counts.key);
	free(x);
}

/* Complete when encode_run has returned 0; before that it counts what is written so far. Valid as
 * long as x. */
const struct encode_counts *
encode_counts(const struct encode *x)
{
	return &x->counts;
}

/* In the order of the options: the run's own first. */
const struct tokenizer *
encode_tokenizer(const struct encode *x, int i)
{
	return x->tokenizer[i];
}

/* After encode_run has returned -1. */
bool
encode_interrupted(const struct encode *x)
{
	return input_interrupted(x->input);
}

/* Pipeline: fills a slot with lines. */
static int
read_job(void *ctx, void *slot, struct err *e)
{
	struct encode *x = ctx;

	return input_next(x->input, x->num_workers == 1 ? ALONE_BYTES : SHARED_BYTES,
	    &((struct job *)slot)->batch, e);
}

/* Pipeline: encodes the lines of a slot. */
static void
work_job(void *ctx, int worker, void *slot)
{
	job_work(slot, ((const struct encode *)ctx)->scratch[worker]);
}

/* The bad lines of a job: the first one ends the run, or all go to the list. In a file that is read
 * from its middle, the lines before it are counted first; if that fails, numbers are those within
 * the part. */
static int
take_bad(struct encode *x, const struct job *j, struct err *e)
{
	const char *file = input_file_name(&x->files.item[j->batch.file]);

	for (size_t i = 0; i < j->num_bad; i++) {
		const struct bad_line *b = &j->bad[i];
		struct error_row row = { file, 0, j->batch.offset + (int64_t)b->offset, b->class,
			j->words.buf + b->why };

		x->counts.bad[b->class]++;
		if (!x->output && x->c->on_error == ON_ERROR_SKIP)
			continue;
		if (x->lines_before < 0)
			x->lines_before = x->at.first
			    ? input_count_lines(x->files.item[x->at.file].name, x->at.first, NULL)
			    : 0;
		row.line = (x->lines_before < 0 ? 0 : x->lines_before) + x->at.lines + b->line + 1;
		if (x->c->on_error == ON_ERROR_STOP)
			return err_at(
			    e, file, (long)row.line, "%s: %s", jsonl_class_name[b->class], row.why);
		output_bad(x->output, &row);
	}
	return 0;
}

/* Records the progress of the run, after everything up to there is on disk. */
static int
mark(struct encode *x, bool committing, struct err *e)
{
	x->state.at = x->at.file < 0 ? (struct resume_place){ 0 } : x->at;
	x->state.committing = committing;
	if (output_check(x->output, e) < 0 || output_sync(x->output, &x->state, e) < 0)
		return -1;
	/* it may have its name although the directory could not be synced */
	if (resume_write(x->state_path, &x->described, &x->state, &x->counts,
		output_lock(x->output), e) < 0) {
		x->have_state |= io_there(x->state_path, NULL) != 0;
		return -1;
	}
	x->have_state = true;
	x->marked = clock_seconds();
	return 0;
}

/* Pipeline: writes a slot and adds up its counts. Called in the order of the input, by one
 * thread. */
static int
write_job(void *ctx, void *slot, struct err *e)
{
	struct encode *x = ctx;
	struct encode_counts *n = &x->counts;
	const struct job *j = slot;

	if (j->failed)
		return err_set(e, "%s", j->why.msg);
	if (output_lost(x->output))
		return output_check(x->output, e);
	if (j->batch.file != x->at.file) {
		x->at = (struct resume_place){ j->batch.file, 0, 0, j->batch.offset };
		x->lines_before = -1;
	}
	if (take_bad(x, j, e) < 0 || (x->output && output_job(x->output, j, e) < 0))
		return -1;
	for (int i = 0; i < n->num_keys * n->num_tokenizers; i++) {
		const struct key_counts *from = &j->part[i].counts;
		struct key_counts *sum = &n->key[i];

		sum->sequences += from->sequences;
		sum->tokens += from->tokens;
		sum->bytes += from->bytes;
		sum->trained += from->trained;
		sum->longest = from->longest > sum->longest ? from->longest : sum->longest;
		for (int b = 0; b < LENGTH_BUCKETS; b++)
			sum->bucket[b] += from->bucket[b];
	}
	n->documents += j->documents;
	n->blank += j->blank;
	n->input_bytes += j->batch.bytes;
	n->stored = j->batch.stored;
	x->at.lines += j->lines;
	x->at.offset = j->batch.offset + j->batch.bytes;
	if (x->state_path && clock_seconds() - x->marked >= x->c->resume_interval &&
	    mark(x, false, e) < 0)
		return -1;
	if (x->progress)
		x->progress(x->progress_ctx, n);
	return 0;
}

/* Pipeline: wakes the reader. */
static void
stop_jobs(void *ctx)
{
	input_stop(((struct encode *)ctx)->input);
}

/* Renames everything into place. A resumable run first records that it is committing, and removes
 * its state last. */
static int
commit(struct encode *x, struct err *e)
{
	struct sidecar s = { x->c, x->tokenizer[0], &x->files, x->input, &x->counts, x->eod,
		x->plan.bos };
	int rc = 0;

	if (x->chat && x->counts.key[0].tokens && !x->counts.key[0].trained)
		return err_set(e,
		    "none of %lld tokens is trained: a chat template marks what is by {%% "
		    "generation %%}, a table by \"train\": true",
		    (long long)x->counts.key[0].tokens);
	if (x->state_path && mark(x, true, e) < 0)
		return -1;
	if (output_commit(x->output, &s, e) < 0)
		return -1;
	x->done = true;
	if (x->c->output_prefix) {
		char *path = resume_path(x->c->output_prefix);

		rc = lock_unlink(output_lock(x->output), path, e);
		free(path);
	}
	return rc;
}

/* Counting is the same without writers. -1 with the first bad line of the input, or what could not
 * be read or written; encode_close then leaves no files, or only those that --resume needs. The
 * thread that has written a batch calls progress, one thread at a time. */
int
encode_run(struct encode *x, void (*progress)(void *ctx, const struct encode_counts *), void *ctx,
    struct err *e)
{
	struct pipeline p = {
		.ctx = x,
		.slot = x->slot,
		.num_slots = x->num_jobs,
		.num_workers = x->num_workers,
		.read = read_job,
		.work = work_job,
		.write = write_job,
		.stop = stop_jobs,
	};
	struct err ignored;

	x->progress = progress;
	x->progress_ctx = ctx;
	if (!x->state.committing && line_pipeline_run(&p, e) < 0) {
		/* What has been written is kept, as far as the disk has room. */
		if (x->state_path && x->at.file >= 0 && input_interrupted(x->input))
			mark(x, false, &ignored);
		return -1;
	}
	return x->output ? commit(x, e) : 0;
}

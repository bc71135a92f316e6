/*
 * where.c - from an iteration of a run to the documents that it read, and back
 *
 * What an iteration reads is a function of its number: its first sample follows from the batches
 * before it, the samples of a rank from the sampler, and the places of their tokens from the blend,
 * as in training. The inverse asks the maps which samples read a document, and looks for those.
 */
#include "lib/base/int64.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "shard/shard.h"
#include "shard/where.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOSSES_MAX = 1 << 30, TEXT_BYTES = 200 };
static const int64_t steps_max = 1000000000000; /* their samples fit 64 bits */

/* What is looked for, with all that is open. */
struct job {
	const struct where_config *c;
	struct where_run run;
	struct where_range steps;
	struct where_loss *loss;
	int64_t losses;
	const struct tokenizer *tokenizer; /* of the run; NULL: not needed */
	struct sample_options options;     /* of the weights of labels */
	/* of --document: the corpus in the blend, its samples that read it as bits, its number */
	int corpus;
	uint8_t *reads;
	int64_t document;
	/* the iteration that is printed */
	const struct blend *b;
	struct sampler *sampler;
	int64_t iteration, only; /* only: the one sample of the run that counts; -1: all */
	const struct where_loss *of;
	int64_t printed;
	FILE *out;
	/* [seq_length + 1] each */
	struct sample_part *part;
	int64_t *ids;
	uint8_t *mask;
	int32_t *begin;
	struct sample one; /* [seq_length] */
};

/* "A" or "A-B". */
static int
parse_steps(const char *text, struct where_range *r, struct err *e)
{
	char *end;

	errno = 0;
	r->first = r->last = strtoll(text, &end, 10);
	if (end != text && *end == '-')
		r->last = strtoll(end + 1, &end, 10);
	return errno || end == text || *end || r->first < 1 || r->last < r->first ||
		r->last > steps_max
	    ? err_set(e, "--step %s: must be an iteration from 1 to %lld, or two with - between",
		  text, (long long)steps_max)
	    : 0;
}

/* "PREFIX:K": the bytes of the prefix and the number. */
static int
parse_document(const char *text, size_t *prefix, int64_t *number, struct err *e)
{
	const char *colon = strrchr(text, ':');
	char *end = NULL;

	errno = 0;
	*number = colon && colon[1] >= '0' && colon[1] <= '9' ? strtoll(colon + 1, &end, 10) : -1;
	*prefix = colon ? (size_t)(colon - text) : 0;
	return errno || *number < 0 || *end || *prefix == 0
	    ? err_set(e, "--document %s: must be PREFIX:K, a document from 0 on of a dataset", text)
	    : 0;
}

int
shard_where_check(const struct where_config *c, struct err *e)
{
	int ways = (c->step || c->sample >= 0) + (c->document != NULL) + (c->losses != NULL);
	struct batch_ramp ramp;
	struct where_range r;
	int64_t number;
	size_t prefix;

	if (ways != 1)
		return err_set(e, "%s of --step or --sample, --document and --losses is needed",
		    ways ? "only one" : "one");
	if (c->step && parse_steps(c->step, &r, e) < 0)
		return -1;
	if (c->document && parse_document(c->document, &prefix, &number, e) < 0)
		return -1;
	if (c->run && (c->maps.paths.data_path.count || path_options_file(&c->maps.paths)))
		return err_set(
		    e, "--run: its checkpoints name the data: leave the lists of datasets out");
	if (c->run)
		return 0;
	if (shard_maps_check(&c->maps, e) < 0)
		return -1;
	return shard_maps_batches(&c->maps, &ramp, e);
}

/* Where the document of each token of a sample begins: a part is a document. */
static void
find_begins(struct job *j, int64_t parts)
{
	int64_t at = 0;

	for (int64_t i = 0; i < parts; i++) {
		for (int64_t t = 0; t < j->part[i].count; t++)
			j->begin[at + t] = (int32_t)at;
		at += j->part[i].count;
	}
}

/* The weights of the labels of a sample, and its tokens. */
static int
weigh(struct job *j, int64_t sample, int64_t parts, struct err *e)
{
	int64_t n = blend_tokens(j->b, sample, j->ids, e);

	if (n < 0 || blend_weights(j->b, sample, j->mask, e) < 0)
		return -1;
	find_begins(j, parts);
	sample_assemble(&j->options,
	    &(struct sample_tokens){ .id = j->ids,
		.count = n,
		.mask = j->mask,
		.begin = j->run.apart ? j->begin : NULL },
	    j->run.maps.seq_length, &j->one);
	return 0;
}

/* The tokens of a part, at `at` of its sample, that count as labels. */
static int64_t
count_trained(const struct job *j, int64_t at, int64_t count)
{
	int64_t n = 0;

	for (int64_t t = at ? at : 1; t < at + count; t++)
		n += j->one.loss_mask[t - 1] > 0;
	return n;
}

/* A row of a part. */
static int
add_row(struct job *j, const char *place, const struct blend_corpus *c, int64_t i, int64_t at,
    struct str *row, struct err *e)
{
	const struct sample_part *p = &j->part[i];
	int64_t document = dataset_document_at(c->dataset, p->sequence),
		begin = dataset_sequence_start(
		    c->dataset, dataset_document_start(c->dataset, document)),
		first = dataset_sequence_start(c->dataset, p->sequence) - begin + p->first;

	if (j->reads && document != j->document)
		return 0;
	str_addf(row, "%s\t%s\t%lld\t%lld\t%lld\t%lld\t%lld\t", place, dataset_prefix(c->dataset),
	    (long long)document, (long long)p->sequence, (long long)first, (long long)p->count,
	    (long long)at);
	if (j->run.rearranged)
		str_addc(row, '-');
	else
		str_addf(row, "%lld", (long long)count_trained(j, at, p->count));
	if (j->of)
		str_addf(row, "\t%.6g\t%.6g", j->of->loss, j->of->above);
	if (j->c->text) {
		struct shard_ids ids = { j->ids + at, p->count };

		ids.count = ids.count < TEXT_BYTES ? ids.count : TEXT_BYTES;
		str_addc(row, '\t');
		if (shard_add_text(j->tokenizer, &ids, TEXT_BYTES, row, e) < 0)
			return -1;
	}
	str_addc(row, '\n');
	j->printed++;
	return 0;
}

/* Sample `sample` of the order, of which `place` has the first columns. */
static int
print_sample(struct job *j, const char *place, int64_t sample, struct err *e)
{
	struct blend_corpus c;
	struct str row = { 0 };
	int64_t most = j->run.maps.seq_length + 1, parts, at = 0, of_corpus;
	int k, rc;

	blend_locate(j->b, sample, &k, &of_corpus);
	if (j->reads && (k != j->corpus || !(j->reads[of_corpus / 8] >> of_corpus % 8 & 1)))
		return 0;
	parts = blend_parts(j->b, sample, &k, j->part, most);
	blend_corpus(j->b, k, &c);
	rc = weigh(j, sample, parts, e);
	for (int64_t i = 0; i < parts && rc == 0; at += j->part[i++].count)
		rc = add_row(j, place, &c, i, at, &row, e);
	if (rc == 0)
		str_put(&row, j->out);
	str_release(&row);
	return rc;
}

/* The samples of one micro batch of a rank: `consumed` are those of the run before its group. */
static int
print_micro_batch(struct job *j, const struct where_point *p, int64_t consumed, int64_t rank,
    int64_t micro_batch, struct err *e)
{
	int64_t b = p->micro_batch_size, number = consumed + rank * b,
		*sample = mem_alloc((size_t)b, sizeof *sample);
	bool passed = where_run_passes(&j->run, j->iteration);
	int rc = 0;

	if (j->only < 0 || (j->only >= number && j->only < number + b))
		rc = sampler_batch(j->sampler, consumed - j->run.start, rank, sample, e);
	for (int64_t i = 0; i < b && rc == 0; i++, number++) {
		char place[128];

		if (j->only >= 0 && number != j->only)
			continue;
		snprintf(place, sizeof place, "%lld%s\t%lld\t%lld\t%lld", (long long)j->iteration,
		    passed ? "*" : "", (long long)rank, (long long)micro_batch, (long long)number);
		rc = print_sample(j, place, sample[i], e);
	}
	free(sample);
	return rc;
}

/* The sampler of an iteration's layout. */
static int
set_sampler(struct job *j, const struct where_point *p, int64_t batch, struct err *e)
{
	struct sampler_config *s = &j->run.sampler;
	int64_t ranks = p->data_ranks;

	if (batch % (p->micro_batch_size * ranks))
		return err_set(e,
		    "iteration %lld: its %lld samples are no multiple of the micro batch of %lld "
		    "times %lld data-parallel ranks: give %s--data-parallel-size",
		    (long long)j->iteration, (long long)batch, (long long)p->micro_batch_size,
		    (long long)ranks, j->c->run ? "" : "--micro-batch-size and ");
	if (j->c->rank >= ranks)
		return err_set(e,
		    "--rank %lld: iteration %lld has %lld data-parallel ranks, counted "
		    "from 0",
		    (long long)j->c->rank, (long long)j->iteration, (long long)ranks);
	if (j->sampler && s->micro_batch_size == p->micro_batch_size &&
	    s->data_parallel_size == ranks)
		return 0;
	sampler_free(j->sampler);
	s->total = blend_count(j->b);
	s->micro_batch_size = p->micro_batch_size;
	s->data_parallel_size = ranks;
	j->sampler = sampler_new(s, e);
	return j->sampler ? 0 : -1;
}

static int
print_iteration(struct job *j, int64_t iteration, struct err *e)
{
	int64_t first, batch, group;
	struct where_point p = *where_run_at(&j->run, iteration, &first);

	j->iteration = iteration;
	batch = batch_at(&p.ramp, first);
	p.data_ranks = j->c->data_parallel_size ? j->c->data_parallel_size : p.data_ranks;
	group = p.micro_batch_size * p.data_ranks;
	if (first < j->run.start)
		return err_set(e,
		    "iteration %lld: the recorded order began after it, at sample %lld (iteration "
		    "%lld): a checkpoint from iterations %lld to %lld knows the one before",
		    (long long)iteration, (long long)j->run.start,
		    (long long)where_run_iteration(&j->run, j->run.start), (long long)iteration,
		    (long long)where_run_iteration(&j->run, j->run.start) - 1);
	if (set_sampler(j, &p, batch, e) < 0)
		return -1;
	for (int64_t m = 0; m < batch / group; m++)
		for (int64_t rank = 0; rank < p.data_ranks; rank++)
			if ((j->c->rank < 0 || rank == j->c->rank) &&
			    print_micro_batch(j, &p, first + m * group, rank, m, e) < 0)
				return -1;
	return 0;
}

/* Iterations that were asked for, or the one of a sample. */
static int
print_steps(struct job *j, struct err *e)
{
	const struct where_config *c = j->c;
	int rc = 0;

	j->only = c->sample;
	for (int64_t i = j->steps.first; i <= j->steps.last && rc == 0 && !ferror(j->out); i++)
		rc = print_iteration(j, i, e);
	if (rc == 0 && j->printed == 0)
		return err_set(e, "--sample %lld: is of iteration %lld%s", (long long)c->sample,
		    (long long)where_run_iteration(&j->run, c->sample),
		    c->rank < 0 ? "" : ", and perhaps of another rank");
	return rc;
}

/* All iterations of the order, up to the newest checkpoint. */
static int
print_readers(struct job *j, struct err *e)
{
	const struct where_config *c = j->c;
	int64_t count = blend_count(j->b), end = j->run.start + count, *sample, n, last;
	struct blend_corpus corpus;
	size_t prefix;
	int rc = 0;

	(void)parse_document(c->document, &prefix, &j->document, e);
	for (j->corpus = 0; j->corpus < blend_num_corpora(j->b); j->corpus++) {
		const char *name;

		blend_corpus(j->b, j->corpus, &corpus);
		name = dataset_prefix(corpus.dataset);
		if (strlen(name) == prefix && !memcmp(name, c->document, prefix))
			break;
	}
	if (j->corpus == blend_num_corpora(j->b))
		return err_set(
		    e, "--document %s: the training list has no such dataset", c->document);
	if (j->document >= dataset_num_documents(corpus.dataset))
		return err_set(e, "--document %s: it has %lld, counted from 0", c->document,
		    (long long)dataset_num_documents(corpus.dataset));
	n = samples_reading(corpus.samples, dataset_document_start(corpus.dataset, j->document),
	    dataset_document_start(corpus.dataset, j->document + 1), &sample);
	j->reads = mem_zalloc((size_t)(samples_count(corpus.samples) / 8 + 1), 1);
	for (int64_t i = 0; i < n; i++)
		j->reads[sample[i] / 8] |= (uint8_t)(1 << sample[i] % 8);
	free(sample);
	if (j->run.reached >= 0 && j->run.reached < end)
		end = j->run.reached;
	last = where_run_iteration(&j->run, end) - 1;
	if (j->run.last >= 0)
		last = int64_min(last, j->run.last);
	j->only = -1;
	for (int64_t i = where_run_iteration(&j->run, j->run.start); i <= last && rc == 0; i++)
		rc = print_iteration(j, i, e);
	return rc;
}

/* The samples of the greatest losses, in their order. */
static int
print_worst(struct job *j, struct err *e)
{
	int rc = 0;

	for (int64_t i = 0; i < j->losses && i < j->c->worst && rc == 0; i++) {
		j->of = &j->loss[i];
		j->only = j->of->sample;
		if (where_run_iteration(&j->run, j->only) != j->of->iteration)
			rc = err_set(e,
			    "%s: sample %lld of iteration %lld: is of iteration %lld of this run",
			    j->c->losses, (long long)j->only, (long long)j->of->iteration,
			    (long long)where_run_iteration(&j->run, j->only));
		else
			rc = print_iteration(j, j->of->iteration, e);
	}
	return rc;
}

/* The last iteration that is asked for must be one of the run. */
static int
check_last(const struct job *j, struct err *e)
{
	const struct where_config *c = j->c;
	struct str why = { 0 };

	if (j->run.last < 0 || j->steps.last <= j->run.last)
		return 0;
	str_addf(&why, "the run has %lld iterations", (long long)j->run.last);
	if (!c->run)
		str_addf(&why, " (--num-samples %s)", c->maps.num_samples);
	if (c->step)
		err_set(e, "--step %lld: %s", (long long)j->steps.last, why.buf);
	else
		err_set(e, "--sample %lld: is of iteration %lld: %s", (long long)c->sample,
		    (long long)j->steps.last, why.buf);
	str_release(&why);
	return -1;
}

/* Memory for a sample, and the rows. */
static int
print_split(const struct maps_run *r, const struct blend *b, enum split which, struct err *e)
{
	struct job *j = (struct job *)(uintptr_t)r->ctx;
	size_t n = (size_t)r->c->seq_length;
	int rc;

	(void)which; /* training alone */
	if (j->run.last < 0 && j->run.sampler.type == SAMPLER_SINGLE)
		j->run.last = batch_steps(&j->run.point->ramp, 0, blend_count(b));
	if (check_last(j, e) < 0)
		return -1;
	j->b = b;
	j->out = r->out;
	j->part = mem_alloc(n + 1, sizeof *j->part);
	j->ids = mem_alloc(n + 1, sizeof *j->ids);
	j->mask = mem_alloc(n + 1, 1);
	j->begin = mem_alloc(n + 1, sizeof *j->begin);
	j->one = (struct sample){ mem_alloc(n, 4), mem_alloc(n, 4), mem_alloc(n, 4),
		mem_alloc(n, sizeof(float)), NULL };
	fprintf(j->out,
	    "iteration\trank\tmicro_batch\tsample\tcorpus\tdocument\tsequence\tfirst\tcount\tat\t"
	    "trained%s%s\n",
	    j->c->losses ? "\tloss\tabove" : "", j->c->text ? "\ttext" : "");
	rc = j->c->document ? print_readers(j, e)
	    : j->c->losses  ? print_worst(j, e)
			    : print_steps(j, e);
	sampler_free(j->sampler);
	free(j->part);
	free(j->ids);
	free(j->mask);
	free(j->begin);
	free(j->one.tokens);
	free(j->one.labels);
	free(j->one.position_ids);
	free(j->one.loss_mask);
	free(j->reads);
	return rc;
}

/* The run, and which of its iterations are asked for. */
static int
find_steps(struct job *j, struct str *notes, struct err *e)
{
	const struct where_config *c = j->c;
	int64_t saved, last = INT64_MAX;
	int rc;

	rc = c->run ? where_run_read(&j->run, c->run, e) : where_run_options(&j->run, c, e);
	if (rc < 0)
		return -1;
	if (c->step)
		(void)parse_steps(c->step, &j->steps, e);
	else if (c->sample >= 0)
		j->steps.first = j->steps.last = where_run_iteration(&j->run, c->sample);
	if (j->steps.last)
		last = j->steps.last;
	if (c->run && where_run_order(&j->run, c->run, last, e) < 0)
		return -1;
	saved = j->run.point[j->run.points - 1].iteration;
	if (check_last(j, e) < 0)
		return -1;
	if (c->run && j->steps.last > saved)
		str_addf(notes,
		    "iterations after %lld, of the newest checkpoint, are those of a run that "
		    "continues it as it is\n",
		    (long long)saved);
	return 0;
}

/* The tokenizer of the run, where the text or the ends of documents are asked for. */
static int
open_tokenizer(struct job *j, struct tokenizer **t, struct err *e)
{
	const struct tokenizer_spec *spec =
	    j->c->maps.spec.type || j->c->maps.spec.model || j->c->maps.spec.vocab
	    ? &j->c->maps.spec
	    : &j->run.maps.spec;
	int64_t eod = -1, pad = j->run.pad;

	if ((j->c->text || j->run.eod_mask_loss || pad >= 0) && shard_tokenizer(spec, t, e) < 0)
		return -1;
	if (j->c->text && !*t)
		return err_set(e, "--text: needs the tokenizer: give --tokenizer-model");
	if (*t)
		eod = tokenizer_special(*t, TOKENIZER_EOS);
	j->tokenizer = *t;
	j->options = (struct sample_options){ .eod = eod,
		.pad = pad == eod || pad == j->run.bos ? -1 : pad,
		.add_extra_token = true,
		.eod_mask_loss = j->run.eod_mask_loss };
	return 0;
}

/* Rows of an order before the recorded one are left out. */
static int
read_losses(struct job *j, struct err *e)
{
	const struct where_config *c = j->c;
	char *text;
	size_t len;

	if (!c->losses)
		return 0;
	if (io_read_regular(c->losses, LOSSES_MAX, &text, &len, e) < 0)
		return -1;
	j->losses = where_losses_parse(text, len, c->losses, j->run.start, &j->loss, e);
	free(text);
	return j->losses < 0 ? -1 : 0;
}

int
shard_where(const struct where_config *c, FILE *out, struct str *notes, struct err *e)
{
	struct job j = { .c = c };
	struct tokenizer *t = NULL;
	int rc = find_steps(&j, notes, e);

	if (rc == 0)
		rc = read_losses(&j, e);
	if (rc == 0)
		rc = open_tokenizer(&j, &t, e);
	if (rc == 0) {
		struct maps_run r = { .c = &j.run.maps,
			.one = true,
			.which = SPLIT_TRAIN,
			.out = out,
			.kept = j.run.kept,
			.stage_first = j.run.stage_first,
			.trust = true,
			.masks = !j.run.ignores_masks,
			.ctx = &j,
			.row = print_split };

		rc = shard_maps_run(&r, notes, e);
	}
	tokenizer_close(t);
	free(j.loss);
	where_run_release(&j.run);
	return rc;
}

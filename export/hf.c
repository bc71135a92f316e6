/*
 * hf.c - mexport: all files of a Hugging Face directory
 *
 * The result is a directory that transformers loads without warnings: weights under the family's
 * names, config.json, and the tokenizer's files when a tokenizer is given. It is written next to
 * its target under a temporary name, and all inputs are opened and checked before that directory
 * exists.
 */
#include "export/hf_impl.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/target.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Binary units have an i, decimal ones do not. */
uint64_t
export_size(const char *text, struct err *e)
{
	static const struct {
		const char *name;
		uint64_t bytes;
	} units[] = {
		{ "", 1 },
		{ "B", 1 },
		{ "KB", 1000 },
		{ "MB", 1000000 },
		{ "GB", 1000000000 },
		{ "TB", 1000000000000 },
		{ "KiB", 1u << 10 },
		{ "MiB", 1u << 20 },
		{ "GiB", 1u << 30 },
		{ "TiB", (uint64_t)1 << 40 },
	};
	char *end;
	uint64_t n;

	errno = 0;
	n = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
	for (size_t i = 0; n > 0 && !errno && i < sizeof units / sizeof *units; i++)
		if (!strcmp(end, units[i].name) && mem_mul(n, units[i].bytes, &n) == 0)
			return n;
	err_set(e, "--max-shard-size %s: not a size such as 50GB, 5GiB or 300000", text);
	return 0;
}

/* The family of the model: the one that was given, or the first that fits. */
static int
choose_family(struct job *j)
{
	struct str known = { 0 };
	struct err why;

	if (!j->o->arch) {
		j->x.family = family_of(&j->config, &why);
		return j->x.family ? 0 : err_at(j->e, j->src->path, 0, "%s", why.msg);
	}
	j->x.family = family_find(j->o->arch);
	if (j->x.family && family_check(j->x.family, &j->config, &why) < 0)
		return err_at(
		    j->e, j->src->path, 0, "cannot be exported as %s: %s", j->o->arch, why.msg);
	if (j->x.family)
		return 0;
	for (const struct family *const *f = family_all(); *f; f++)
		str_addf(&known, "%s%s", known.len ? ", " : "", (*f)->model_type);
	err_set(j->e, "--arch %s: must be one of %s", j->o->arch, known.buf);
	str_release(&known);
	return -1;
}

/* Opens the source and chooses what its model becomes: its type is by default that of the run's
 * weights when its state says so, else that of the first tensor, never wider than F32. What is
 * wrong with it is found here, so that a missing tensor is not found after an hour of copying. */
static int
open_model(struct job *j)
{
	enum dtype run = DTYPE_NONE;

	j->src = source_open(j->o->src, j->e);
	if (!j->src || source_require(j->src, j->e) < 0)
		return -1;
	str_add(j->notes, j->src->notes.buf, j->src->notes.len);
	if (j->o->average && !j->src->averaged)
		return err_at(j->e, j->src->path, 0,
		    "holds no average of the weights: a run keeps one with --ema-decay");
	j->x.state = j->o->average ? STATE_AVERAGE : NULL;
	j->config = j->src->config;
	if (choose_family(j) < 0)
		return -1;
	if (j->src->config.rotary_interleaved && !j->x.family->interleaved)
		str_adds(j->notes,
		    "rows of q and k are written in the order of halves of a head, not of "
		    "interleaved pairs\n");
	j->x.src = j->src;
	j->x.dtype = j->o->dtype;
	if (j->x.dtype == DTYPE_NONE) {
		if (j->src->state.dtype)
			run = dtype_from_name(j->src->state.dtype);
		j->x.dtype =
		    dtype_is_float(run) ? run : source_dtype(j->src, &j->src->param[0], NULL);
		if (j->x.dtype == DTYPE_F64)
			j->x.dtype = DTYPE_F32;
	}
	return weights_plan(&j->x, j->o->max_shard_bytes, j->e);
}

/* The files of the tokenizer: those of the options, else the run's own if they are here. Without
 * them the weights alone are exported. */
static void
find_tokenizer(struct job *j)
{
	const struct export_options *o = j->o;
	struct err why;

	j->model = o->tokenizer_model;
	j->vocab = o->vocab_file;
	j->merges = o->merge_file;
	j->has_tokenizer = j->model || j->vocab;
	if (j->has_tokenizer)
		return;
	if (found_open(&j->found, j->src, j->origin.tokenizer, &why)) {
		j->model = j->found.model;
		j->vocab = j->found.vocab;
		j->merges = j->found.merges;
		j->has_tokenizer = true;
		str_addf(j->notes, "the tokenizer is %s: %s\n",
		    j->model == j->origin.tokenizer ? "that of the model that the run began with"
						    : "the run's",
		    j->model ? j->model : j->vocab);
		return;
	}
	if (why.msg[0])
		str_addf(j->notes, "the run's tokenizer: %s\n", why.msg);
	if (!o->check)
		str_addf(j->notes,
		    "no tokenizer files are written; to add them: mexport --force "
		    "--tokenizer-model FILE %s %s (or --vocab-file and --merge-file)\n",
		    o->src, o->dst);
}

/* Whether a SentencePiece model's tokenizer begins with bos: 1, 0, or -1 where nothing says it. A
 * difference between the option and the training is worth a note. */
static int64_t
adds_bos(struct job *j)
{
	int64_t trained = j->src->state.data_bos, asked = j->o->add_bos;

	if (asked == ADD_BOS_AUTO)
		return trained == STATE_NONE ? -1 : trained;
	if (trained != STATE_NONE && trained != (asked == ADD_BOS_TRUE))
		str_addf(j->notes, "--add-bos-token %s: documents of the training %s bos\n",
		    asked == ADD_BOS_TRUE ? "true" : "false", trained ? "began with" : "had no");
	return asked == ADD_BOS_TRUE;
}

void
export_take_ids(struct model_config *c, int64_t bos, int64_t eos)
{
	if (c->bos_token_id < 0)
		c->bos_token_id = bos;
	if (!c->eos_token_id.count && eos >= 0)
		c->eos_token_id = (struct id_list){ 1, { eos } };
}

/* Reads the tokenizer, if there is one; its special ids are used where the run named none. Its kind
 * follows from the options and the file's first character. */
static int
open_tokenizer(struct job *j)
{
	struct tokenizer_files *t = &j->tokenizer;
	struct model_config *c = &j->config;
	bool spm;
	int rc;

	find_tokenizer(j);
	spm = j->model && !tokenizer_is_json(j->model);
	if (!spm && j->o->add_bos != ADD_BOS_AUTO)
		return err_set(j->e,
		    "--add-bos-token: is for a SentencePiece model: other tokenizers say it "
		    "themselves");
	if (!j->has_tokenizer)
		return 0;
	if (spm)
		rc = export_sentencepiece(t, j->model, adds_bos(j), j->e);
	else if (j->model)
		rc = tokenizer_json_files(t, j->model, j->e);
	else
		rc = tokenizer_gpt2_files(t, j->vocab, j->merges, j->e);
	if (rc < 0)
		return -1;
	export_take_ids(c, t->id[SPECIAL_BOS], t->id[SPECIAL_EOS]);
	if (t->tokens > c->vocab_size)
		return err_set(j->e,
		    "the tokenizer has %lld tokens, but the model's vocabulary has only %lld rows",
		    (long long)t->tokens, (long long)c->vocab_size);
	if (t->tokens < c->vocab_size)
		str_addf(j->notes,
		    "the model's vocabulary has %lld rows, %lld more than the tokenizer has "
		    "tokens\n",
		    (long long)c->vocab_size, (long long)(c->vocab_size - t->tokens));
	return 0;
}

/*
 * Writes a text file into the directory and empties the text, whether or not that worked. The
 * temporary directory makes a temporary name unnecessary, but not the sync that comes with it.
 */
static int
put(struct job *j, const char *name, struct str *text)
{
	char path[1200];
	int rc;

	snprintf(path, sizeof path, "%s/%s", j->place.tmp, name);
	rc = outfile_write(path, text->buf, text->len, j->e);
	str_release(text);
	return rc;
}

/* Copies a file of the user into the directory. */
static int
put_copy(struct job *j, const char *name, const char *src)
{
	char path[1200];

	snprintf(path, sizeof path, "%s/%s", j->place.tmp, name);
	return outfile_copy(src, path, j->e);
}

/* The files made from the tokenizer, then its source files, unless they are the same. */
static int
write_tokenizer(struct job *j)
{
	struct str config = { 0 }, special = { 0 };

	if (!j->has_tokenizer)
		return 0;
	tokenizer_write_config(&j->tokenizer, j->config.max_position_embeddings, &config);
	tokenizer_write_special(&j->tokenizer, &special);
	if (put(j, "tokenizer.json", &j->tokenizer.json) < 0 ||
	    put(j, "tokenizer_config.json", &config) < 0 ||
	    put(j, "special_tokens_map.json", &special) < 0) {
		str_release(&config);
		str_release(&special);
		return -1;
	}
	if (j->model && tokenizer_is_json(j->model))
		return extras_write(&j->tokenizer.extras, j->place.tmp, j->e);
	if (j->model)
		return put_copy(j, "tokenizer.model", j->model);
	return put_copy(j, "vocab.json", j->vocab) < 0 ? -1 : put_copy(j, "merges.txt", j->merges);
}

void
export_config_text(struct job *j, struct str *out)
{
	family_write_config(j->x.family, &j->config, dtype_torch_name(j->x.dtype), out);
}

void
export_generation_text(struct job *j, struct str *out)
{
	extras_generation(&j->tokenizer.extras, &j->config, out, j->notes);
}

/* All files. */
static int
write_files(struct job *j)
{
	struct str config = { 0 }, generation = { 0 };

	export_config_text(j, &config);
	export_generation_text(j, &generation);
	if (put(j, "config.json", &config) < 0 ||
	    put(j, "generation_config.json", &generation) < 0) {
		str_release(&generation);
		return -1;
	}
	return write_tokenizer(j) < 0 ? -1 : weights_write(&j->x, j->place.tmp, j->e);
}

/* Writes the temporary directory and gives it its name. */
static int
write_directory(struct job *j)
{
	if (place_begin(&j->place, j->e) < 0 || write_files(j) < 0 ||
	    place_commit(&j->place, j->e) < 0)
		return -1;
	if (j->x.dtype == DTYPE_F16 && j->src->lost.overflows)
		str_addf(j->warnings,
		    "%lld numbers are too large for fp16 and became infinite; bf16 would hold "
		    "them\n",
		    (long long)j->src->lost.overflows);
	return 0;
}

/* The source is no target, whatever else it is. */
static int
check_source(const struct job *j)
{
	return target_is(j->o->src, j->o->dst) || (j->src && target_is(j->src->path, j->o->dst))
	    ? err_set(j->e, "'%s' is what is exported: it is not replaced", j->o->dst)
	    : 0;
}

int
export_open(struct job *j)
{
	if (open_model(j) < 0 || check_source(j) < 0)
		return -1;
	origin_open(&j->origin, &j->src->state, j->notes);
	if (open_tokenizer(j) < 0)
		return -1;
	origin_extras(&j->origin, &j->tokenizer.json, &j->tokenizer.extras, j->notes);
	return 0;
}

void
export_release(struct job *j)
{
	tokenizer_release(&j->tokenizer);
	found_release(&j->found);
	origin_release(&j->origin);
	weights_release(&j->x);
	source_close(j->src);
	place_close(&j->place);
}

/* All inputs are opened and checked before the directory is made. */
int
export_hf(const struct export_options *o, struct str *notes, struct str *warnings, struct err *e)
{
	struct job j = { .o = o, .notes = notes, .warnings = warnings, .e = e };
	int rc = -1;

	if (check_source(&j) == 0 && place_open(&j.place, o->dst, o->force, notes, e) == 0 &&
	    export_open(&j) == 0)
		rc = write_directory(&j);
	export_release(&j);
	return rc;
}

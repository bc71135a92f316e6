/*
 * train.c - a SentencePiece model from JSON Lines or text
 *
 * The trainer pulls sentences through an iterator that walks files, lines, members, strings and
 * line feeds; its own memory holds all sentences afterwards in any case. Settings go to it as text
 * under its own names; every option of the table is set, so that a changed default of the library
 * never becomes ours by accident.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/target.h"
#include "lib/token/spm/spm.h"
#include "lib/token/spm/spmtrain.h"
#include "tok/encoding.h"
#include "tok/errors.h"
#include "tok/files.h"
#include "tok/input.h"
#include "tok/jsonl.h"
#include "tok/lost.h"
#include "tok/train.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH_BYTES = 1 << 20, SETTINGS_MAX = 48, VALUE_BYTES = 32, RULES_MAX = 16 << 20 };

const char *const train_model_types[] = { "unigram", "bpe", "word", "char", NULL };
const char *const train_normalizations[] = { "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf",
	"identity", NULL };

/* Walks files, lines, members, strings and sentences. */
struct sentences {
	const struct train_config *c;
	struct train_counts *counts;
	struct mem_pool pool;
	struct input_list files;
	struct input *input;
	struct batch batch;
	int file; /* that of the batch; -1 before the first */
	struct jsonl *jsonl;
	int64_t line;
	size_t pos;       /* in the batch */
	int key;          /* the next member; their number: go to the next line */
	struct lost lost; /* the beginning of all strings */
	const char *rest; /* the rest of the string now read */
	size_t rest_len;
};

/* The library takes texts, so numbers are kept here as texts while the training runs. */
struct settings {
	struct spm_setting item[SETTINGS_MAX];
	char value[SETTINGS_MAX][VALUE_BYTES];
	int count;
};

/* Adds a setting; the text is borrowed. */
static void
set(struct settings *s, const char *name, const char *value)
{
	if (s->count == SETTINGS_MAX)
		BUG("more than %d settings", SETTINGS_MAX);
	s->item[s->count++] = (struct spm_setting){ name, value };
}

/* Adds a setting whose text is kept here. */
static void
set_int(struct settings *s, const char *name, int64_t v)
{
	snprintf(s->value[s->count], VALUE_BYTES, "%lld", (long long)v);
	set(s, name, s->value[s->count]);
}

/* The library spells them out. */
static void
set_bool(struct settings *s, const char *name, bool v)
{
	set(s, name, v ? "true" : "false");
}

/* Adds the words as one CSV record, the library's form of lists. */
static void
add_csv(struct str *out, const struct opt_list *words)
{
	for (int i = 0; i < words->count; i++) {
		str_adds(out, i ? ",\"" : "\"");
		for (const char *p = words->item[i]; *p; p++) {
			if (*p == '"')
				str_addc(out, '"');
			str_addc(out, *p);
		}
		str_addc(out, '"');
	}
}

/* Adds a setting that was given; otherwise the library's default holds. */
static void
set_given(struct settings *s, const char *name, const char *value)
{
	if (value)
		set(s, name, value);
}

/* Nine digits are enough to read back every float exactly. */
static void
set_number(struct settings *s, const char *name, double v)
{
	snprintf(s->value[s->count], VALUE_BYTES, "%.9g", v);
	set(s, name, s->value[s->count]);
}

/* The configuration as the library's settings: the pieces that are not learnt, where texts may be
 * cut and what is done to them first, and the training. Lists point into users and controls. Both
 * strings must outlive s. */
static void
fill_settings(
    struct settings *s, const struct train_config *c, struct str *users, struct str *controls)
{
	set_int(s, "unk_id", c->unk_id);
	set_int(s, "bos_id", c->bos_id);
	set_int(s, "eos_id", c->eos_id);
	set_int(s, "pad_id", c->pad_id);
	set_given(s, "unk_piece", c->unk_piece);
	set_given(s, "bos_piece", c->bos_piece);
	set_given(s, "eos_piece", c->eos_piece);
	set_given(s, "pad_piece", c->pad_piece);
	set_given(s, "unk_surface", c->unk_surface);
	set_given(s, "required_chars", c->required_chars);
	set_bool(s, "byte_fallback", c->byte_fallback);

	set(s, "normalization_rule_name", train_normalizations[c->normalization_rule_name]);
	set_given(s, "normalization_rule_tsv", c->normalization_rule_tsv);
	set_bool(s, "split_digits", c->split_digits);
	set_bool(s, "split_by_number", !c->no_split_by_number);
	set_bool(s, "split_by_whitespace", !c->no_split_by_whitespace);
	set_bool(s, "split_by_unicode_script", !c->no_split_by_unicode_script);
	set_bool(s, "treat_whitespace_as_suffix", c->treat_whitespace_as_suffix);
	set_bool(s, "allow_whitespace_only_pieces", c->allow_whitespace_only_pieces);
	set_bool(s, "remove_extra_whitespaces", !c->keep_extra_whitespaces);
	set_bool(s, "add_dummy_prefix", !c->no_add_dummy_prefix);

	set(s, "model_type", train_model_types[c->model_type]);
	set_int(s, "vocab_size", c->vocab_size);
	set_int(s, "max_sentence_length", c->max_sentence_length);
	set_int(s, "input_sentence_size", c->input_sentence_size);
	set_int(s, "max_sentencepiece_length", c->max_sentencepiece_length);
	set_int(s, "num_threads", c->workers);
	set_int(s, "seed_sentencepiece_size", c->seed_sentencepiece_size);
	set_int(s, "num_sub_iterations", c->num_sub_iterations);
	set_number(s, "shrinking_factor", c->shrinking_factor);
	set_number(s, "character_coverage", c->character_coverage);
	set_bool(s, "hard_vocab_limit", !c->hard_vocab_limit_off);
	set_bool(s, "use_all_vocab", c->use_all_vocab);
	set_bool(s, "shuffle_input_sentence", !c->no_shuffle_input_sentence);
	set_bool(s, "train_extremely_large_corpus", c->train_extremely_large_corpus);
	add_csv(users, &c->user_defined_symbols);
	add_csv(controls, &c->control_symbols);
	if (users->len)
		set(s, "user_defined_symbols", users->buf);
	if (controls->len)
		set(s, "control_symbols", controls->buf);
}

/* Goes to the next line that has the members. 1, 0 at the end, -1. Batches are read when the
 * trainer asks for sentences, so at most one is in memory. */
static int
next_line(struct sentences *s, struct err *e)
{
	const char *line;
	size_t len;

	for (;;) {
		enum jsonl_class class;
		int rc;

		while (!batch_line(&s->batch, &s->pos, &line, &len)) {
			rc = input_next(s->input, BATCH_BYTES, &s->batch, e);
			if (rc <= 0)
				return rc;
			s->pos = 0;
			s->line = s->batch.file == s->file ? s->line : 0;
			s->file = s->batch.file;
		}
		s->line++;
		class = s->batch.plain ? jsonl_take_text(s->jsonl, line, len)
				       : jsonl_parse(s->jsonl, line, len);
		if (class == JSONL_OK) {
			s->counts->documents++;
			s->key = 0;
			return 1;
		}
		if (class != JSONL_BLANK && s->c->on_error == ON_ERROR_STOP)
			return err_at(e, input_file_name(&s->files.item[s->batch.file]),
			    (long)s->line, "%s: %s%s", jsonl_class_name[class],
			    jsonl_detail(s->jsonl),
			    s->line == 1 ? errors_advice(class, s->batch.plain, line) : "");
		s->counts->skipped += class != JSONL_BLANK;
	}
}

/* Goes to the next wanted string that is not empty. 1, 0 at the end, -1. Empty strings hold no
 * sentence and are skipped. */
static int
next_text(struct sentences *s, struct err *e)
{
	struct jsonl_text text;

	while (s->rest_len == 0) {
		int rc;

		if (jsonl_next(s->jsonl, &text)) {
			s->rest = text.bytes;
			s->rest_len = text.len;
			lost_keep(&s->lost, text.bytes, text.len);
		} else if (s->key < s->c->json_keys.count) {
			jsonl_walk(s->jsonl, s->key++);
		} else {
			rc = next_line(s, e);
			if (rc <= 0)
				return rc;
		}
	}
	return 1;
}

/* The bytes of the next sentence: at most max, cut after a blank or else between two characters.
 * Never 0 for a long line, so that the walk advances. */
static size_t
sentence_length(const char *s, size_t len, size_t max)
{
	const char *feed = memchr(s, '\n', len), *blank;
	size_t n = feed ? (size_t)(feed - s) : len;

	if (n <= max)
		return n;
	blank = memrchr(s, ' ', max);
	if (blank && blank > s)
		return (size_t)(blank - s);
	for (n = max; n > 1 && ((unsigned char)s[n] & 0xc0) == 0x80; n--)
		;
	return n;
}

/* The trainer's iterator. 1 with *text, which points into the parsed line until the next call; 0
 * at the end, -1 with a reason. */
static int
next_sentence(void *ctx, const char **text, size_t *len, struct err *e)
{
	struct sentences *s = ctx;
	int rc;

	do {
		rc = next_text(s, e);
		if (rc <= 0)
			return rc;
		*text = s->rest;
		*len = sentence_length(s->rest, s->rest_len, (size_t)s->c->max_sentence_length);
		s->rest += *len;
		s->rest_len -= *len;
		if (s->rest_len && *s->rest == '\n') {
			s->rest++;
			s->rest_len--;
		}
	} while (*len == 0);
	s->counts->sentences++;
	s->counts->bytes += (int64_t)*len;
	return 1;
}

/* A model begins with the tag of its first piece. */
static int
check_target(const struct train_config *c, struct err *e)
{
	static const struct target_kind model = { "a SentencePiece model", "\n", 1 };

	return target_check_kind(c->output, &model, c->force, e);
}

/* The rules of normalisation are read by the library, which would read a pipe or a device without
 * end. */
static int
check_rules(const char *path, struct err *e)
{
	struct stat st;
	int fd = path ? io_open_regular(path, &st, e) : -1;

	if (!path)
		return 0;
	if (fd < 0)
		return -1;
	close(fd);
	return st.st_size > RULES_MAX ? err_set(e, "%s: larger than %d bytes", path, RULES_MAX) : 0;
}

void
tokenizer_train_defaults(struct train_config *c, bool normalization)
{
	if (c->sentencepiece_defaults) {
		if (!normalization)
			c->normalization_rule_name = TRAIN_NMT_NFKC;
		return;
	}
	c->byte_fallback = c->keep_extra_whitespaces = c->allow_whitespace_only_pieces =
	    c->no_add_dummy_prefix = true;
}

/* Finds wrong usage before any text is read. */
int
tokenizer_train_check(const struct train_config *c, struct err *e)
{
	if (!c->output)
		return err_set(e, "--output is needed");
	return check_rules(c->normalization_rule_tsv, e) < 0 ? -1 : check_target(c, e);
}

/* The options that bring texts back and are not in force. */
static void
add_options(const struct train_config *c, struct str *out)
{
	const struct {
		bool on;
		const char *option;
	} row[] = {
		{ c->byte_fallback, "--byte-fallback" },
		{ c->keep_extra_whitespaces, "--keep-extra-whitespaces" },
		{ c->allow_whitespace_only_pieces, "--allow-whitespace-only-pieces" },
		{ c->no_add_dummy_prefix, "--no-add-dummy-prefix" },
		{ c->normalization_rule_name == TRAIN_IDENTITY && !c->normalization_rule_tsv,
		    "--normalization-rule-name identity" },
	};
	const char *before = "; what brings text back: ";

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		if (row[i].on)
			continue;
		str_addf(out, "%s%s", before, row[i].option);
		before = " ";
	}
	if (c->sentencepiece_defaults)
		str_adds(out, ", all of which hold without --sentencepiece-defaults");
}

/* Counts the pieces of a model that was just made, and what does not come back from it. */
static int
look_at_model(const struct sentences *s, const struct str *model, struct err *e)
{
	char *copy = mem_zalloc(model->len + IO_PADDING, 1);
	struct spm *m;
	int rc;

	memcpy(copy, model->buf, model->len);
	m = spm_new(copy, model->len, UNIGRAM_TIES_0_2_2, s->c->output, e);
	rc = m ? 0 : -1;
	if (rc == 0) {
		s->counts->pieces = spm_size(m);
		rc = lost_tell(&s->lost, m, &s->counts->lost, e);
	}
	if (rc == 0 && s->counts->lost.len) {
		add_options(s->c, &s->counts->lost);
		str_addc(&s->counts->lost, '\n');
	}
	spm_free(m);
	return rc;
}

/* The model appears whole after training has succeeded. -1 with the first bad line, or the
 * library's own reason. *counts is filled in either case. */
int
tokenizer_train_run(const struct train_config *c, struct train_counts *counts, struct err *e)
{
	struct sentences s = { .c = c, .counts = counts, .key = c->json_keys.count, .file = -1 };
	struct settings settings = { .count = 0 };
	struct str users = { 0 }, controls = { 0 }, model = { 0 };
	struct spm_training t = {
		.setting = settings.item, .verbose = c->verbose, .next = next_sentence, .ctx = &s
	};
	struct opt_list names = c->input;
	const struct files_request request = { .names = &names,
		.format = c->format,
		.document_by = c->document_by,
		.separator = c->document_separator };
	int rc;

	if ((c->files_from && files_from(c->files_from, &names, &s.pool, e) < 0) ||
	    files_open(&request, &s.files, &s.pool, e) < 0) {
		mem_pool_release(&s.pool);
		return -1;
	}
	s.input = input_new(&s.files, c->max_document_bytes, -1);
	s.jsonl = jsonl_new(&c->json_keys, c->max_document_bytes);
	fill_settings(&settings, c, &users, &controls);
	t.num_settings = settings.count;
	rc = spm_train(&t, &model, e);
	if (rc == 0)
		rc = check_target(c, e);
	if (rc == 0)
		rc = look_at_model(&s, &model, e);
	if (rc == 0)
		rc = target_write(c->output, c->force, model.buf, model.len, e);
	input_free(s.input);
	jsonl_free(s.jsonl);
	mem_pool_release(&s.pool);
	lost_release(&s.lost);
	str_release(&s.batch.text);
	str_release(&users);
	str_release(&controls);
	str_release(&model);
	return rc;
}

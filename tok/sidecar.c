/*
 * sidecar.c - PREFIX_KEY_document.json: how a dataset was made
 *
 * The members that are read back are lib/data/notes.c's; those of the run are added here. No date
 * and no number of workers: two runs that give the same dataset give the same notes.
 */
#include "lib/base/io.h"
#include "lib/data/notes.h"
#include "tok/files.h"
#include "tok/sidecar.h"

#include <string.h>

/* "name": "value" value is any text: it is escaped. */
static void
add_text(struct str *out, const char *name, const char *value)
{
	str_addf(out, "\"%s\": ", name);
	str_add_json(out, value, strlen(value));
}

/* What later tells whether this dataset and another, or a tokenizer, belong together. */
static void
add_notes(struct str *out, const struct sidecar *s, const char *mask)
{
	int files = tokenizer_num_files(s->tokenizer);
	struct notes n;

	notes_init(&n);
	n.type = tokenizer_type(s->tokenizer);
	strcpy(n.hash, tokenizer_hash(s->tokenizer));
	n.vocab_size = tokenizer_vocab_size(s->tokenizer);
	n.file = mem_pool_alloc(&n.pool, (size_t)files + 1, sizeof *n.file);
	for (; n.num_files < files; n.num_files++)
		n.file[n.num_files] = tokenizer_file(s->tokenizer, n.num_files);
	n.unigram_ties = tokenizer_unigram_ties(s->tokenizer);
	n.tokenizer_like = tokenizer_like(s->tokenizer);
	n.append_eod = s->c->append_eod;
	n.special_as_text = s->c->tokenizer.special_as_text;
	n.eod_id = s->eod;
	n.bos_id = s->bos;
	n.mask = mask;
	notes_add_members(&n, out);
	notes_release(&n);
}

/* A member of an option, NULL: none. */
static void
add_given(struct str *out, const char *name, const char *value)
{
	if (!value)
		return;
	str_adds(out, "  ");
	add_text(out, name, value);
	str_adds(out, ",\n");
}

/* Names as given, and sizes as stored; a part names its bytes of a file. */
static void
add_inputs(struct str *out, const struct sidecar *s)
{
	int by = s->c->document_by;

	add_given(out, "part", s->c->part);
	add_given(out, "document_by", by == BY_FILE ? NULL : files_document_by_names[by]);
	add_given(out, "document_separator", s->c->document_separator);
	str_adds(out, "  \"inputs\": [\n");
	for (int i = 0; i < s->files->count; i++) {
		const struct input_file *f = &s->files->item[i];

		str_adds(out, "    {");
		add_text(out, "file", f->name);
		str_addf(out, ", \"bytes\": %lld",
		    (long long)(f->size < 0 ? input_bytes(s->input, i) : f->size));
		if (f->text)
			str_adds(out, ", \"format\": \"text\"");
		if (f->begin || f->end >= 0)
			str_addf(out, ", \"from\": %lld, \"to\": %lld", (long long)f->begin,
			    (long long)(f->end < 0 ? f->size : f->end));
		str_addf(out, "}%s\n", i + 1 < s->files->count ? "," : "");
	}
	str_adds(out, "  ],\n");
}

/* The totals of the run and of this key. */
static void
add_counts(struct str *out, const struct encode_counts *c, int key, const char *mask)
{
	const struct key_counts *k = &c->key[key];
	int n = 0;

	str_addf(out,
	    "  \"documents\": %lld,\n  \"sequences\": %lld,\n  \"tokens\": %lld,\n  "
	    "\"text_bytes\": %lld,\n",
	    (long long)c->documents, (long long)k->sequences, (long long)k->tokens,
	    (long long)k->bytes);
	if (mask)
		str_addf(out, "  \"trained_tokens\": %lld,\n", (long long)k->trained);
	str_addf(out, "  \"blank_lines\": %lld,\n  \"skipped_lines\": {", (long long)c->blank);
	for (int i = 0; i < JSONL_CLASSES; i++)
		if (c->bad[i])
			str_addf(out, "%s\"%s\": %lld", n++ ? ", " : "", jsonl_class_name[i],
			    (long long)c->bad[i]);
	str_adds(out, "}\n");
}

/* The whole file. */
void
sidecar_text(const struct sidecar *s, int key, const char *mask, struct str *out)
{
	str_adds(out, "{\n  ");
	add_text(out, "made_by", s->c->version);
	str_adds(out, ",\n  ");
	add_text(out, "json_key", s->c->json_keys.item[key]);
	str_adds(out, ",\n");
	add_notes(out, s, mask);
	str_addf(out, "  \"split_sentences\": %s,\n", s->c->split_sentences ? "true" : "false");
	add_inputs(out, s);
	add_counts(out, s->counts, key, mask);
	str_adds(out, "}\n");
}

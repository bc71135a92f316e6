/*
 * sidecar.c - PREFIX_KEY_document.json: how a dataset was made
 *
 * Nothing reads it back to decide anything; the dataset is complete without it. No date and no
 * number of workers: two runs that give the same dataset give the same notes.
 */
#include "tok/sidecar.h"
#include "lib/base/io.h"

#include <string.h>

/* "name": "value" value is any text: it is escaped. */
static void
add_text(struct str *out, const char *name, const char *value)
{
	str_addf(out, "\"%s\": ", name);
	str_add_json(out, value, strlen(value));
}

/* What is needed to tell later whether a tokenizer is the one that was used. */
static void
add_tokenizer(struct str *out, const struct tokenizer *t)
{
	str_adds(out, "  \"tokenizer\": {\n    ");
	add_text(out, "type", tokenizer_type(t));
	str_addf(out, ",\n    \"hash\": \"%016llx\",\n    \"vocab_size\": %lld,\n    \"files\": [",
	    (unsigned long long)tokenizer_hash(t), (long long)tokenizer_vocab_size(t));
	for (int i = 0; i < tokenizer_num_files(t); i++) {
		str_adds(out, i ? ", " : "");
		str_add_json(out, tokenizer_file(t, i), strlen(tokenizer_file(t, i)));
	}
	str_adds(out, "]\n  },\n");
}

/* Names as given, and sizes as stored; a part says which bytes of a file it has. */
static void
add_inputs(struct str *out, const struct sidecar *s)
{
	if (s->c->part) {
		str_adds(out, "  ");
		add_text(out, "part", s->c->part);
		str_adds(out, ",\n");
	}
	str_adds(out, "  \"inputs\": [\n");
	for (int i = 0; i < s->files->count; i++) {
		const struct input_file *f = &s->files->item[i];

		str_adds(out, "    {");
		add_text(out, "file", f->name);
		str_addf(out, ", \"bytes\": %lld", (long long)(f->size < 0 ? input_bytes(s->input, i) : f->size));
		if (f->begin || f->end >= 0)
			str_addf(out, ", \"from\": %lld, \"to\": %lld", (long long)f->begin,
			    (long long)(f->end < 0 ? f->size : f->end));
		str_addf(out, "}%s\n", i + 1 < s->files->count ? "," : "");
	}
	str_adds(out, "  ],\n");
}

/* The totals of the run and of this key. */
static void
add_counts(struct str *out, const struct encode_counts *c, int key)
{
	const struct key_counts *k = &c->key[key];
	int n = 0;

	str_addf(out,
	    "  \"documents\": %lld,\n  \"sequences\": %lld,\n  \"tokens\": %lld,\n  "
	    "\"text_bytes\": %lld,\n",
	    (long long)c->documents, (long long)k->sequences, (long long)k->tokens,
	    (long long)k->bytes);
	str_addf(out, "  \"blank_lines\": %lld,\n  \"skipped_lines\": {", (long long)c->blank);
	for (int i = 0; i < JSONL_CLASSES; i++)
		if (c->bad[i])
			str_addf(out, "%s\"%s\": %lld", n++ ? ", " : "", jsonl_class_name[i],
			    (long long)c->bad[i]);
	str_adds(out, "}\n");
}

/* name is the dataset's, without suffix. Appears whole or not at all; -1 with a reason, and the
 * dataset stays. */
int
sidecar_write(const struct sidecar *s, int key, const char *name, struct err *e)
{
	struct str out = { 0 }, path = { 0 };
	int rc;

	str_adds(&out, "{\n  ");
	add_text(&out, "made_by", s->c->version);
	str_adds(&out, ",\n  ");
	add_text(&out, "json_key", s->c->json_keys.item[key]);
	str_adds(&out, ",\n");
	add_tokenizer(&out, s->tokenizer);
	str_addf(&out, "  \"append_eod\": %s,\n  \"eod_id\": %lld,\n",
	    s->c->append_eod ? "true" : "false", (long long)s->eod);
	str_addf(&out, "  \"special_as_text\": %s,\n",
	    s->c->tokenizer.special_as_text ? "true" : "false");
	str_addf(&out, "  \"bos_id\": %lld,\n  \"split_sentences\": %s,\n", (long long)s->bos,
	    s->c->split_sentences ? "true" : "false");
	add_inputs(&out, s);
	add_counts(&out, s->counts, key);
	str_adds(&out, "}\n");
	str_addf(&path, "%s.json", name);
	rc = io_write_file(path.buf, out.buf, out.len, e);
	str_release(&out);
	str_release(&path);
	return rc;
}

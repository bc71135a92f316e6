/*
 * description.c - the text whose hash names index maps, as Python's json.dumps(indent=4) writes it
 *
 * Its MD5 is the name of the maps, so every byte counts: non-ASCII is escaped, doubles are in their
 * shortest exact form. Source: Megatron-LM core/datasets/megatron_dataset.py, unique_description.
 */
#include "lib/base/utf8.h"
#include "lib/data/samples_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The escapes of control characters that have a letter. */
static const char *
short_escape(unsigned char c)
{
	switch (c) {
	case '"': return "\\\"";
	case '\\': return "\\\\";
	case '\n': return "\\n";
	case '\r': return "\\r";
	case '\t': return "\\t";
	case '\b': return "\\b";
	case '\f': return "\\f";
	default: return NULL;
	}
}

/* A JSON string in ASCII. Bytes that are not UTF-8 become lone surrogates, as in paths decoded by
 * Python. */
static void
add_string(struct str *out, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = strlen(text);

	str_addc(out, '"');
	while (n) {
		uint32_t cp;
		int len = utf8_decode(p, n, &cp);

		if (len == 0) {
			str_addf(out, "\\udc%02x", *p);
			len = 1;
		} else if (len == 1 && short_escape(*p)) {
			str_adds(out, short_escape(*p));
		} else if (cp >= 0x20 && cp < 0x80) {
			str_addc(out, (char)cp);
		} else if (cp < 0x10000) {
			str_addf(out, "\\u%04x", (unsigned)cp);
		} else {
			str_addf(out, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((cp - 0x10000) >> 10)),
			    (unsigned)(0xdc00 + ((cp - 0x10000) & 0x3ff)));
		}
		p += len;
		n -= (size_t)len;
	}
	str_addc(out, '"');
}

/* A finite double as Python's repr(): the shortest exact digits, with an exponent below 1e-4 and
 * from 1e16. */
void
description_double(struct str *out, double x)
{
	char text[40];
	int digits = 1, exponent;

	do
		snprintf(text, sizeof text, "%.*e", digits - 1, x);
	while (strtod(text, NULL) != x && digits++ < 17);
	exponent = atoi(strchr(text, 'e') + 1);
	if (exponent < -4 || exponent >= 16)
		str_adds(out, text);
	else
		str_addf(out, "%.*f", digits - 1 > exponent + 1 ? digits - 1 - exponent : 1, x);
}

/* Three bookends or nulls, one number per line. */
static void
add_matrix(struct str *out, const struct split_matrix *m)
{
	str_addc(out, '[');
	for (int i = 0; i < SPLIT_COUNT; i++) {
		str_adds(out, i ? ",\n        " : "\n        ");
		if (!m->present[i]) {
			str_adds(out, "null");
			continue;
		}
		str_adds(out, "[\n            ");
		if (i == 0)
			/* an integer in Python: the start of the running sum */
			str_addc(out, '0');
		else
			description_double(out, m->begin[i]);
		str_adds(out, ",\n            ");
		description_double(out, m->end[i]);
		str_adds(out, "\n        ]");
	}
	str_adds(out, "\n    ]");
}

/* The keys are in the order in which Megatron-LM's constructor sets them. */
void
samples_description(const struct dataset *d, const struct samples_config *c, struct str *out)
{
	struct split_matrix m;

	str_adds(out, "{\n    \"class\": \"GPTDataset\",\n    \"dataset_path\": ");
	add_string(out, dataset_prefix(d));
	if (c->num_samples < 0)
		str_adds(out, ",\n    \"num_samples\": null");
	else
		str_addf(out, ",\n    \"num_samples\": %lld", (long long)c->num_samples);
	str_addf(out,
	    ",\n    \"index_split\": \"%s\",\n    \"random_seed\": %lld,\n    \"sequence_length\": "
	    "%lld,\n    \"split\": ",
	    split_name[c->which], (long long)c->seed, (long long)c->seq_length);
	if (c->split && split_parse(c->split, &m, NULL) == 0) {
		add_string(out, c->split);
		str_adds(out, ",\n    \"split_matrix\": ");
		add_matrix(out, &m);
	} else {
		str_adds(out, "null,\n    \"split_matrix\": null");
	}
	if (c->packing == PACKING_BEST_FIT)
		str_addf(out, ",\n    \"packing\": \"%s\",\n    \"long_documents\": \"%s\"",
		    sample_packing_names[c->packing], long_documents_names[c->long_documents]);
	str_adds(out, ",\n    \"tokenizer\": ");
	if (c->tokenizer_json)
		str_adds(out, c->tokenizer_json);
	else
		samples_tokenizer(NULL, NULL, NULL, 0, out);
	str_adds(out, "\n}");
}

/* Every value is a string, the str() of the argument. */
void
samples_tokenizer(
    const char *class_name, const char *path, const char *const *option, int count, struct str *out)
{
	static const char *const null_options[] = { "vocab_size=0" };

	if (!class_name && !path && count == 0) {
		option = null_options;
		count = 1;
	}
	if (!class_name)
		class_name = "megatron.core.tokenizers.text.text_tokenizer.MegatronTokenizerText";
	str_adds(out, "{\n        \"class\": ");
	add_string(out, class_name);
	str_adds(out, ",\n        \"tokenizer_path\": ");
	if (path)
		add_string(out, path);
	else
		str_adds(out, "null");
	for (int i = 0; i < count; i++) {
		const char *eq = strchr(option[i], '=');
		struct str key = { 0 };

		str_add(&key, option[i], eq ? (size_t)(eq - option[i]) : strlen(option[i]));
		str_adds(out, ",\n        ");
		add_string(out, key.buf);
		str_adds(out, ": ");
		add_string(out, eq ? eq + 1 : "None");
		str_release(&key);
	}
	str_adds(out, "\n    }");
}

/* Newlines in strings are escaped, so every newline is layout. */
void
description_nest(struct str *out, const struct str *text)
{
	for (size_t i = 0; i < text->len; i++) {
		str_addc(out, text->buf[i]);
		if (text->buf[i] == '\n')
			str_adds(out, "        ");
	}
}

/*
 * tokenizer_json.c - a run's own tokenizer.json, copied unchanged
 *
 * The file and those that belong to it are copied byte by byte, so that the model is used with the
 * tokenizer it was trained with. Opening it first proves that it is intact, and gives the ids that
 * config.json needs.
 */
#include "export/tokenizer.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/token/tokenizer.h"

#include <stdio.h>
#include <string.h>

static const size_t file_max = (size_t)1 << 30;

/* A directory, or a file whose first character is a brace. False for an unreadable file, which the
 * reader of the other kind then reports. */
bool
tokenizer_is_json(const char *path)
{
	struct stat st;
	int fd = io_is_dir(path) ? -1 : io_open_regular(path, &st, NULL), c = ' ';
	FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");

	if (!f)
		return io_is_dir(path);
	while (c == ' ' || c == '\t' || c == '\r' || c == '\n')
		c = getc(f);
	fclose(f);
	return c == '{';
}

/* Other files apply only to one with the usual name, as for the tokenizer itself. */
static int
read_files(struct tokenizer_files *t, const char *json, struct err *e)
{
	size_t n = strlen(json), name = strlen("tokenizer.json");

	if (io_read_regular(json, file_max, &t->json.buf, &t->json.len, e) < 0)
		return -1;
	if (n < name || strcmp(json + n - name, "tokenizer.json") != 0 ||
	    (n > name && json[n - name - 1] != '/'))
		return 0;
	if (extras_read_file(json, "tokenizer_config.json", &t->config, e) < 0 ||
	    extras_read_file(json, "special_tokens_map.json", &t->special_map, e) < 0)
		return -1;
	return extras_read(&t->extras, json, e);
}

int
tokenizer_json_files(struct tokenizer_files *t, const char *path, struct err *e)
{
	static const enum tokenizer_special which[SPECIAL_COUNT] = { [SPECIAL_BOS] = TOKENIZER_BOS,
		[SPECIAL_EOS] = TOKENIZER_EOS,
		[SPECIAL_UNK] = TOKENIZER_UNK,
		[SPECIAL_PAD] = TOKENIZER_PAD };
	struct tokenizer *k;
	int rc;

	memset(t, 0, sizeof *t);
	k = tokenizer_open(
	    &(struct tokenizer_spec){ .type = "HuggingFaceTokenizer", .model = path }, e);
	if (!k)
		return -1;
	t->tokens = tokenizer_vocab_size(k);
	t->adds_bos = tokenizer_adds_bos(k);
	for (int i = 0; i < SPECIAL_COUNT; i++) {
		t->id[i] = tokenizer_special(k, which[i]);
		if (t->id[i] >= 0) {
			struct tokenizer_piece p = tokenizer_piece_at(k, t->id[i]);

			t->text[i] = mem_strndup(p.bytes, p.len);
		}
	}
	rc = read_files(t, tokenizer_file(k, 0), e);
	tokenizer_close(k);
	return rc;
}

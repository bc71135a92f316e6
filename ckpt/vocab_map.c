/* vocab_map.c - which row of a vocabulary table each token of another tokenizer begins with */
#include "ckpt/vocab_map.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/token/names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The keys of the tokens of one tokenizer: a letter of the class, and the bytes. */
struct keys {
	struct str text;
	size_t *start; /* [count + 1] */
};

/* The old tokens by key; those with the same key are a list, in rising order. */
struct index {
	struct keys keys;
	struct names names; /* the first of each key */
	/* [tokens]: the next and the last of the list; of the first, the one to be taken next */
	int64_t *next, *last, *turn;
};

bool
vocab_row_is_new(const struct vocab_row *r)
{
	return r->old < 0;
}

int64_t
vocab_map_find(const struct vocab_map *m, int64_t old)
{
	for (int64_t i = 0; i < m->count; i++)
		if (m->row[i].from != ROW_KEPT && m->row[i].old == old)
			return i;
	return -1;
}

/* --- the old tokens --------------------------------------------------------------------------- */

static void
add_key(struct str *out, const struct tokenizer *t, int64_t id)
{
	size_t at = out->len;

	str_addc(out, ' ');
	out->buf[at] = "tbc-"[tokenizer_surface(t, id, out)];
}

static void
index_make(struct index *x, const struct tokenizer *t, int64_t *doubles)
{
	int64_t n = tokenizer_vocab_size(t), first;
	struct keys *k = &x->keys;

	k->start = mem_alloc((size_t)n + 1, sizeof *k->start);
	x->next = mem_alloc((size_t)n, sizeof *x->next);
	x->last = mem_alloc((size_t)n, sizeof *x->last);
	x->turn = mem_alloc((size_t)n, sizeof *x->turn);
	for (int64_t i = 0; i < n; i++) {
		k->start[i] = k->text.len;
		add_key(&k->text, t, i);
	}
	k->start[n] = k->text.len;
	names_init(&x->names, (size_t)n);
	for (int64_t i = 0; i < n; i++) {
		size_t len = k->start[i + 1] - k->start[i];

		x->next[i] = -1;
		x->last[i] = x->turn[i] = i;
		first = names_add(&x->names, k->text.buf + k->start[i], len, (uint32_t)i);
		if (first < 0)
			continue;
		x->next[x->last[first]] = i;
		x->last[first] = i;
		*doubles += len > 1;
	}
}

static void
index_release(struct index *x)
{
	str_release(&x->keys.text);
	free(x->keys.start);
	names_release(&x->names);
	free(x->next);
	free(x->last);
	free(x->turn);
}

/* --- matching --------------------------------------------------------------------------------- */

static void
copy_row(struct vocab_map *m, int64_t id, int64_t old, enum row_from from)
{
	m->row[id] = (struct vocab_row){ .from = from, .old = old };
}

/* Holes, which have no bytes, match each other once. */
static void
match(struct vocab_map *m, struct index *x, int64_t id, const struct str *key)
{
	int64_t first = names_find(&x->names, key->buf, key->len), old;

	if (first < 0)
		return;
	old = x->turn[first];
	if (old >= 0) {
		x->turn[first] = x->next[old];
	} else {
		if (key->len == 1)
			return;
		old = first;
		m->doubles++;
	}
	copy_row(m, id, old, old == id ? ROW_SAME : ROW_MOVED);
}

/* Control pieces that no spelling has matched. */
static void
match_roles(struct vocab_map *m)
{
	static const enum tokenizer_special roles[] = { TOKENIZER_BOS, TOKENIZER_EOS, TOKENIZER_UNK,
		TOKENIZER_PAD };
	struct str unused = { 0 };

	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
		int64_t id = tokenizer_special(m->after, roles[i]),
			old = tokenizer_special(m->before, roles[i]);

		if (id >= 0 && old >= 0 && vocab_row_is_new(&m->row[id]) &&
		    tokenizer_surface(m->after, id, &unused) == SURFACE_CONTROL)
			copy_row(m, id, old, ROW_ROLE);
	}
	str_release(&unused);
}

/* --- the file --------------------------------------------------------------------------------- */

/* A token by its number, or as its tokenizer spells it; -1: there is none. */
static int64_t
read_token(const struct tokenizer *t, const char *s, size_t n)
{
	int64_t id = 0, size = tokenizer_vocab_size(t);
	size_t i = 0;

	for (; i < n && isdigit((unsigned char)s[i]) && id < size; i++)
		id = 10 * id + (s[i] - '0');
	if (i < n || n == 0)
		return tokenizer_find_piece(t, s, n);
	return id < size ? id : -1;
}

static int
read_line(struct vocab_map *m, const char *s, size_t n, struct err *e)
{
	const char *tab = memchr(s, '\t', n);
	size_t left = tab ? (size_t)(tab - s) : 0, right = tab ? n - left - 1 : 0;
	int64_t old, id;

	if (left == 0 || right == 0)
		return err_set(e, "must be an old token, a tab and a new one");
	old = read_token(m->before, s, left);
	id = read_token(m->after, tab + 1, right);
	if (old < 0)
		return err_set(e, "'%.*s' is no token of the old tokenizer", (int)left, s);
	if (id < 0)
		return err_set(e, "'%.*s' is no token of the new tokenizer", (int)right, tab + 1);
	copy_row(m, id, old, ROW_MAP);
	return 0;
}

static int
read_file(struct vocab_map *m, const char *path, struct err *e)
{
	struct err why;
	char *text;
	size_t len, n;
	long line = 1;
	int rc = 0;

	if (io_read_regular(path, 1 << 30, &text, &len, e) < 0)
		return -1;
	for (size_t i = 0; i < len && rc == 0; i += n + 1, line++) {
		const char *end = memchr(text + i, '\n', len - i);

		n = end ? (size_t)(end - text) - i : len - i;
		if (n && read_line(m, text + i, n, &why) < 0)
			rc = err_at(e, path, line, "%s", why.msg);
	}
	free(text);
	return rc;
}

/* --- new tokens ------------------------------------------------------------------------------- */

/* Appends the old ids of each byte; false where there is none. */
static bool
add_bytes(struct vocab_map *m, const struct index *x, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char key[2] = { 'b', s[i] };
		int64_t id = names_find(&x->names, key, sizeof key);

		if (id < 0)
			return false;
		token_ids_add(&m->pieces, (uint32_t)id);
	}
	return true;
}

/* Whether the ids from `first` on are some, and all known. */
static bool
are_known(const struct vocab_map *m, size_t first)
{
	int64_t unk = tokenizer_special(m->before, TOKENIZER_UNK);

	for (size_t i = first; i < m->pieces.count; i++)
		if (m->pieces.id[i] == unk)
			return false;
	return m->pieces.count > first;
}

/* The old pieces of a new token of text or a byte. */
static void
find_pieces(struct vocab_map *m, const struct index *x, struct tokenizer_worker *w, int64_t id)
{
	struct vocab_row *r = &m->row[id];
	size_t first = m->pieces.count;
	struct str key = { 0 };
	struct err unused;
	bool found;

	add_key(&key, m->after, id);
	found = (*key.buf == 't' || *key.buf == 'b') &&
	    tokenizer_encode_piece(w, key.buf + 1, key.len - 1, &m->pieces, &unused) == 0 &&
	    are_known(m, first);
	if (!found && (*key.buf == 't' || *key.buf == 'b')) {
		m->pieces.count = first;
		found = add_bytes(m, x, key.buf + 1, key.len - 1);
	}
	if (found)
		*r = (struct vocab_row){ ROW_MEAN_OF, -1, first, m->pieces.count - first };
	else
		m->pieces.count = first;
	str_release(&key);
}

/* --- all of it -------------------------------------------------------------------------------- */

static void
count_rows(struct vocab_map *m)
{
	int64_t tokens = tokenizer_vocab_size(m->before);
	bool *has = mem_zalloc((size_t)m->old_rows, sizeof *has);

	for (int64_t i = 0; i < m->count; i++) {
		m->of[m->row[i].from]++;
		if (m->row[i].old >= 0)
			has[m->row[i].old] = true;
	}
	for (int64_t i = 0; i < tokens; i++)
		m->lost += !has[i];
	free(has);
}

static void
match_all(struct vocab_map *m, struct index *x)
{
	int64_t tokens = tokenizer_vocab_size(m->after);
	struct str key = { 0 };

	for (int64_t i = 0; i < m->count; i++) {
		m->row[i] = (struct vocab_row){ .from = ROW_NEW, .old = -1 };
		str_clear(&key);
		if (i >= tokens) {
			copy_row(m, i, i, ROW_KEPT);
			continue;
		}
		add_key(&key, m->after, i);
		match(m, x, i, &key);
	}
	str_release(&key);
	match_roles(m);
}

int
vocab_map_make(struct vocab_map *m, const struct vocab_map_rule *rule, struct err *e)
{
	int64_t tokens = tokenizer_vocab_size(m->after);
	struct tokenizer_worker *w = tokenizer_worker_new(m->before);
	struct index x = { 0 };
	int rc;

	m->count = rule->shrink || tokens > m->old_rows ? tokens : m->old_rows;
	m->row = mem_zalloc((size_t)m->count, sizeof *m->row);
	index_make(&x, m->before, &m->doubles);
	match_all(m, &x);
	rc = rule->file ? read_file(m, rule->file, e) : 0;
	for (int64_t i = 0; i < m->count && rc == 0 && rule->pieces; i++)
		if (vocab_row_is_new(&m->row[i]))
			find_pieces(m, &x, w, i);
	if (rc == 0)
		count_rows(m);
	index_release(&x);
	tokenizer_worker_free(w);
	return rc;
}

void
vocab_map_release(struct vocab_map *m)
{
	free(m->row);
	token_ids_release(&m->pieces);
	*m = (struct vocab_map){ 0 };
}

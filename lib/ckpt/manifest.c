/*
 * manifest.c - the manifest of a checkpoint: parses and prints it, and proves that pieces tile
 * their tensors
 *
 * One line per piece: name, dtype, shape, start, count, file, offset, bytes and checksums,
 * separated by tabs. The parser is strict (no leading zeros, no blanks, one spelling of each
 * number), so that equal manifests print as equal texts. It checks everything that does not need
 * the files: in a parsed manifest, sizes and boxes can be trusted, and each element is in exactly
 * one piece.
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/utf8.h"
#include "lib/ckpt/manifest.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 9, NAME_MAX_BYTES = 255, SUM_DIGITS = 16 };

static const char columns[] = "tensor\tdtype\tshape\tstart\tcount\tfile\toffset\tbytes\txxh3\n";

/* The first line; indexed by version. */
static const char *const first_line[] = { NULL, "# mikoshi checkpoint 1\n",
	"# mikoshi checkpoint 2\n" };

static const char own_name[] = "manifest.tsv";
const char *const manifest_text_name[MANIFEST_TEXTS] = {
	[MANIFEST_OPTIONS] = "options.conf", [MANIFEST_STATE] = "state.conf"
};

/* One line of the text. */
struct row {
	const char *name, *file;
	enum dtype dtype;
	int64_t shape[SLICE_DIMS];
	struct ckpt_piece piece;
	long line;
};

/* State of parsing; the rows are freed afterwards. */
struct parse {
	struct manifest *m;
	const char *name; /* of the text, for messages */
	struct row *row;
	int num_rows;
	long line; /* the next */
	struct err *e;
};

/* A decimal number without sign or leading zeros, below 2^63. */
static int
parse_number(const char *s, uint64_t *out)
{
	uint64_t n = 0;

	if (!*s || (s[0] == '0' && s[1]))
		return -1;
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || n > (INT64_MAX - (uint64_t)(*s - '0')) / 10)
			return -1;
		n = 10 * n + (uint64_t)(*s - '0');
	}
	*out = n;
	return 0;
}

/* 1 to 4 numbers separated by commas; modifies s. Returns how many, or -1. */
static int
parse_list(char *s, int64_t *out)
{
	int n = 0;

	while (s) {
		char *comma = strchr(s, ',');
		uint64_t x;

		if (comma)
			*comma++ = '\0';
		if (n == SLICE_DIMS || parse_number(s, &x) < 0)
			return -1;
		out[n++] = (int64_t)x;
		s = comma;
	}
	return n;
}

/* No control characters, which would garble listings. */
static bool
is_plain(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

/*
 * Shape, start and count must agree, and give the number of bytes. The product of shape and width
 * is bounded by 63 bits, so later sizes need no checks.
 */
static int
parse_box(struct parse *p, struct row *r, char **field)
{
	struct slice *slice = &r->piece.slice;
	uint64_t whole = dtype_size(r->dtype);
	int ndim = parse_list(field[2], r->shape);

	if (ndim < 0)
		return err_at(p->e, p->name, r->line, "tensor '%s': shape must be 1 to %d numbers",
		    r->name, SLICE_DIMS);
	for (int d = 0; d < ndim; d++)
		if (r->shape[d] == 0 || mem_mul(whole, (uint64_t)r->shape[d], &whole) < 0 ||
		    whole > INT64_MAX)
			return err_at(
			    p->e, p->name, r->line, "tensor '%s': impossible shape", r->name);
	slice->ndim = ndim;
	if (parse_list(field[3], slice->start) != ndim ||
	    parse_list(field[4], slice->count) != ndim)
		return err_at(p->e, p->name, r->line,
		    "tensor '%s': start and count must be %d numbers each", r->name, ndim);
	for (int d = 0; d < ndim; d++)
		if (slice->count[d] == 0)
			return err_at(
			    p->e, p->name, r->line, "tensor '%s': an empty piece", r->name);
	if (!slice_inside(slice, ndim, r->shape))
		return err_at(p->e, p->name, r->line,
		    "tensor '%s': the piece reaches outside the shape", r->name);
	return 0;
}

/*
 * The place of the bytes. Their number follows from box and dtype and is there for readers that
 * know neither; it must be correct all the same. Then one checksum per block, or one per piece in
 * version 1.
 */
static int
parse_place(struct parse *p, struct row *r, char **field)
{
	struct manifest *m = p->m;
	uint64_t bytes = (uint64_t)slice_elements(&r->piece.slice) * dtype_size(r->dtype), n;
	const char *sums = field[8], *end = sums;

	r->file = field[5];
	if (!io_is_file_name(r->file) || !is_plain(r->file))
		return err_at(p->e, p->name, r->line, "tensor '%s': not a plain file name: '%.80s'",
		    r->name, r->file);
	if (parse_number(field[6], &r->piece.offset) < 0)
		return err_at(p->e, p->name, r->line, "tensor '%s': offset '%.40s': not a number",
		    r->name, field[6]);
	if (parse_number(field[7], &r->piece.bytes) < 0 || r->piece.bytes != bytes)
		return err_at(p->e, p->name, r->line,
		    "tensor '%s': bytes '%.40s': must be %llu by count and dtype", r->name,
		    field[7], (unsigned long long)bytes);
	n = m->version == 1 ? 1 : (bytes - 1) / CKPT_BLOCK_BYTES + 1;
	r->piece.sum = &m->sum[m->num_sums];
	r->piece.num_sums = (int64_t)n;
	/* m->sum has room for as many as the text has digits for, not for what it claims. */
	if (strlen(sums) != n * (SUM_DIGITS + 1) - 1)
		end = NULL;
	for (uint64_t i = 0; end && i < n; i++) {
		end = hash_read(end, &m->sum[m->num_sums++]);
		if (end && *end++ != (i + 1 < n ? ',' : '\0'))
			end = NULL;
	}
	return end ? 0
		   : err_at(p->e, p->name, r->line,
			 "tensor '%s': xxh3 '%.40s': must be 16 hexadecimal digits%s", r->name,
			 sums, m->version == 1 ? "" : " for each 4 MiB");
}

/*
 * Parses one line in place. The name must be printable, since it appears in messages and tables,
 * and the dtype must have its canonical spelling.
 */
static int
parse_row(struct parse *p, struct row *r, char *line)
{
	char *field[COLUMNS];
	int n = 0;

	for (char *s = line, *tab; s; s = tab) {
		tab = strchr(s, '\t');
		if (tab)
			*tab++ = '\0';
		if (n < COLUMNS)
			field[n] = s;
		n++;
	}
	if (n != COLUMNS)
		return err_at(p->e, p->name, r->line, "%d columns instead of %d", n, COLUMNS);
	r->name = field[0];
	if (!*r->name || strlen(r->name) > NAME_MAX_BYTES || !is_plain(r->name))
		return err_at(p->e, p->name, r->line, "not the name of a tensor: '%.80s'", r->name);
	r->dtype = dtype_from_name(field[1]);
	if (r->dtype == DTYPE_NONE || strcmp(dtype_name(r->dtype), field[1]))
		return err_at(p->e, p->name, r->line, "tensor '%s': unknown dtype '%.40s'", r->name,
		    field[1]);
	return parse_box(p, r, field) < 0 ? -1 : parse_place(p, r, field);
}

/*
 * The lines after the head. The text is the pool's copy and ends in a newline. Lines are counted
 * first, so rows are allocated once.
 */
static int
parse_rows(struct parse *p, char *text)
{
	size_t count = 0;

	for (const char *s = text; *s; s++)
		count += *s == '\n';
	if (count > INT32_MAX / 2)
		return err_at(p->e, p->name, 0, "too many lines");
	p->row = mem_alloc(count, sizeof *p->row);
	while (*text) {
		char *end = strchr(text, '\n');
		struct row *r = &p->row[p->num_rows++];

		*end = '\0';
		*r = (struct row){ .line = p->line++ };
		if (parse_row(p, r, text) < 0)
			return -1;
		text = end + 1;
	}
	return 0;
}

/* By name, then start, then line, so that the order of duplicates does not depend on the sort. */
static int
compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	for (int d = 0; c == 0 && d < SLICE_DIMS; d++)
		c = (x->piece.slice.start[d] > y->piece.slice.start[d]) -
		    (x->piece.slice.start[d] < y->piece.slice.start[d]);
	return c ? c : (x->line > y->line) - (x->line < y->line);
}

/* By bytes, for the list of files. */
static int
compare_strings(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/*
 * Lists the files, sorted and without duplicates, and numbers them in the rows, so that files
 * compare as integers.
 */
static void
collect_files(struct parse *p)
{
	struct manifest *m = p->m;

	m->file = mem_pool_alloc(&m->pool, (size_t)p->num_rows, sizeof *m->file);
	for (int i = 0; i < p->num_rows; i++)
		m->file[i] = p->row[i].file;
	qsort(m->file, (size_t)p->num_rows, sizeof *m->file, compare_strings);
	for (int i = 0; i < p->num_rows; i++)
		if (m->num_files == 0 || strcmp(m->file[m->num_files - 1], m->file[i]))
			m->file[m->num_files++] = m->file[i];
	for (int i = 0; i < p->num_rows; i++) {
		const char **hit = bsearch(&p->row[i].file, m->file, (size_t)m->num_files,
		    sizeof *m->file, compare_strings);

		p->row[i].piece.file = (int)(hit - m->file);
	}
}

/*
 * Groups the sorted rows into tensors; pieces of one tensor are adjacent, sorted by start. All must
 * agree on dtype and shape.
 */
static int
collect_tensors(struct parse *p)
{
	struct manifest *m = p->m;
	struct ckpt_piece *piece = mem_pool_alloc(&m->pool, (size_t)p->num_rows, sizeof *piece);
	struct ckpt_tensor *t = NULL;

	m->tensor = mem_pool_alloc(&m->pool, (size_t)p->num_rows, sizeof *m->tensor);
	m->num_pieces = p->num_rows;
	for (int i = 0; i < p->num_rows; i++) {
		const struct row *r = &p->row[i];

		piece[i] = r->piece;
		if (!t || strcmp(t->name, r->name)) {
			t = &m->tensor[m->num_tensors++];
			*t = (struct ckpt_tensor){
				.name = r->name, .dtype = r->dtype, .piece = &piece[i]
			};
			t->ndim = r->piece.slice.ndim;
			memcpy(t->shape, r->shape, sizeof t->shape);
		}
		if (t->dtype != r->dtype || t->ndim != r->piece.slice.ndim ||
		    memcmp(t->shape, r->shape, sizeof t->shape))
			return err_at(p->e, p->name, r->line,
			    "tensor '%s': dtype or shape differ from its other pieces", r->name);
		t->num_pieces++;
	}
	return 0;
}

/* Sort keys of the places. */
struct place_key {
	struct manifest_place place;
	int file;
	uint64_t offset, end;
};

/* By file, then offset. */
static int
compare_places(const void *a, const void *b)
{
	const struct place_key *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/*
 * Sorts the pieces by place, for readers that read a file from front to back; no byte may belong to
 * two. first[f] .. first[f + 1] are the pieces of file f.
 */
static int
collect_places(struct parse *p)
{
	struct manifest *m = p->m;
	struct place_key *key = mem_alloc((size_t)m->num_pieces, sizeof *key);
	int n = 0, rc = 0;

	for (int i = 0; i < m->num_tensors; i++)
		for (int k = 0; k < m->tensor[i].num_pieces; k++) {
			const struct ckpt_piece *q = &m->tensor[i].piece[k];

			key[n++] = (struct place_key){ { i, k }, q->file, q->offset,
				q->offset + q->bytes };
		}
	qsort(key, (size_t)n, sizeof *key, compare_places);
	m->place = mem_pool_alloc(&m->pool, (size_t)n, sizeof *m->place);
	m->first = mem_pool_alloc(&m->pool, (size_t)m->num_files + 1, sizeof *m->first);
	for (int i = 0; i < n && rc == 0; i++) {
		m->place[i] = key[i].place;
		m->first[key[i].file + 1] = i + 1;
		if (i > 0 && key[i - 1].file == key[i].file && key[i - 1].end > key[i].offset)
			rc = err_at(p->e, p->name, 0, "tensors '%s' and '%s' share bytes of %s",
			    m->tensor[key[i - 1].place.tensor].name,
			    m->tensor[key[i].place.tensor].name, m->file[key[i].file]);
	}
	free(key);
	return rc;
}

/* Reads the line "# NAME SUM" at *text and advances past it; false when the line is another. */
static bool
read_sum_line(const char **text, const char *name, uint64_t *sum)
{
	size_t n = strlen(name);
	const char *s = *text;

	if (strncmp(s, "# ", 2) || strncmp(s + 2, name, n) || s[2 + n] != ' ')
		return false;
	s = hash_read(s + 3 + n, sum);
	if (!s || *s != '\n')
		return false;
	*text = s + 1;
	return true;
}

/* Version, the checksums of the texts, and the names of the columns. Returns the length, or 0 with
 * a reason. */
static size_t
parse_head(struct parse *p, const char *text)
{
	struct manifest *m = p->m;
	const char *s = text;

	for (int v = 1; v <= MANIFEST_VERSION; v++)
		if (!strncmp(s, first_line[v], strlen(first_line[v])))
			m->version = v;
	if (m->version == 0)
		return err_at(p->e, p->name, 1,
			   "not the head of a checkpoint manifest of version 1 or 2"),
		       0;
	s += strlen(first_line[m->version]);
	p->line = 2;
	for (int i = 0; m->version > 1 && i < MANIFEST_TEXTS; i++, p->line++)
		if (!read_sum_line(&s, manifest_text_name[i], &m->text_sum[i]))
			return err_at(p->e, p->name, p->line, "not the checksum of %s",
				   manifest_text_name[i]),
			       0;
	if (strncmp(s, columns, sizeof columns - 1))
		return err_at(p->e, p->name, p->line, "not the names of the columns"), 0;
	p->line++;
	return (size_t)(s - text) + sizeof columns - 1;
}

/* Checks and cuts off the last line, which holds the checksum of all before it. */
static int
take_own_sum(struct parse *p, char *text, size_t len)
{
	size_t bytes = strlen("# ") + sizeof own_name + SUM_DIGITS + 1;
	const char *last = text + len - bytes;
	uint64_t sum;

	if (len < bytes || last[-1] != '\n' || !read_sum_line(&last, own_name, &sum))
		return err_at(p->e, p->name, 0, "cut off: the last line is not its own checksum");
	if (hash_xxh3(text, len - bytes) != sum)
		return err_at(p->e, p->name, 0, "damaged: wrong checksum");
	text[len - bytes] = '\0';
	return 0;
}

/*
 * The steps of manifest_parse, on a copy that may be modified. Each step relies on those before it.
 * NUL and bad UTF-8 are refused first, as the rest works on C strings and prints them.
 */
static int
parse_all(struct parse *p, char *text, size_t len)
{
	size_t head, good;
	struct err why;

	if (strlen(text) != len)
		return err_at(p->e, p->name, 0, "a NUL byte inside");
	if ((good = utf8_check((const unsigned char *)text, len)) < len)
		return err_at(p->e, p->name, 0, "invalid UTF-8 at byte %zu", good);
	if ((head = parse_head(p, text)) == 0)
		return -1;
	if (text[len - 1] != '\n')
		return err_at(p->e, p->name, 0, "the last line is cut off");
	if (p->m->version > 1 && take_own_sum(p, text, len) < 0)
		return -1;
	p->m->sum = mem_pool_alloc(&p->m->pool, len / (SUM_DIGITS + 1) + 1, sizeof *p->m->sum);
	if (parse_rows(p, text + head) < 0)
		return -1;
	qsort(p->row, (size_t)p->num_rows, sizeof *p->row, compare_rows);
	collect_files(p);
	if (collect_tensors(p) < 0)
		return -1;
	for (int i = 0; i < p->m->num_tensors; i++)
		if (piece_check_tiles(&p->m->tensor[i], &why) < 0)
			return err_at(p->e, p->name, 0, "%s", why.msg);
	return collect_places(p);
}

/* All strings point into one copy of the text, which the pool owns. */
int
manifest_parse(struct manifest *m, const char *text, size_t len, const char *name, struct err *e)
{
	struct parse p = { .m = m, .name = name, .e = e };
	int rc;

	*m = (struct manifest){ 0 };
	rc = parse_all(&p, mem_pool_strndup(&m->pool, text, len), len);
	free(p.row);
	if (rc < 0)
		manifest_release(m);
	return rc;
}

/* The inverse of parse_list. */
void
manifest_print_list(struct str *out, int ndim, const int64_t *x)
{
	for (int d = 0; d < ndim; d++)
		str_addf(out, "%s%lld", d ? "," : "", (long long)x[d]);
}

/* The inverse of parse_row; writers append their lines with it. */
void
manifest_print_piece(
    struct str *out, const struct ckpt_tensor *t, const struct ckpt_piece *p, const char *file)
{
	char sum[SUM_DIGITS + 1];

	str_addf(out, "%s\t%s\t", t->name, dtype_name(t->dtype));
	manifest_print_list(out, t->ndim, t->shape);
	str_addc(out, '\t');
	manifest_print_list(out, t->ndim, p->slice.start);
	str_addc(out, '\t');
	manifest_print_list(out, t->ndim, p->slice.count);
	str_addf(out, "\t%s\t%llu\t%llu", file, (unsigned long long)p->offset,
	    (unsigned long long)p->bytes);
	for (int64_t i = 0; i < p->num_sums; i++)
		str_addf(out, "%c%s", i ? ',' : '\t', hash_text(p->sum[i], sum));
	str_addc(out, '\n');
}

/* The inverse of read_sum_line. */
static void
print_sum_line(struct str *out, const char *name, uint64_t sum)
{
	char text[SUM_DIGITS + 1];

	str_addf(out, "# %s %s\n", name, hash_text(sum, text));
}

/* The inverse of parse_head. */
void
manifest_print_head(struct str *out, int version, const uint64_t text_sum[MANIFEST_TEXTS])
{
	str_adds(out, first_line[version]);
	for (int i = 0; version > 1 && i < MANIFEST_TEXTS; i++)
		print_sum_line(out, manifest_text_name[i], text_sum[i]);
	str_adds(out, columns);
}

/* The manifest's own checksum, since version 2. */
void
manifest_print_end(struct str *out, int version)
{
	if (version > 1)
		print_sum_line(out, own_name, hash_xxh3(out->buf, out->len));
}

/* A manifest that was printed parses to the same pieces, in the same order. */
void
manifest_print(const struct manifest *m, struct str *out)
{
	manifest_print_head(out, m->version, m->text_sum);
	for (int i = 0; i < m->num_tensors; i++)
		for (int k = 0; k < m->tensor[i].num_pieces; k++)
			manifest_print_piece(out, &m->tensor[i], &m->tensor[i].piece[k],
			    m->file[m->tensor[i].piece[k].file]);
	manifest_print_end(out, m->version);
}

/* Leaves an empty manifest, so a second release does nothing. */
void
manifest_release(struct manifest *m)
{
	mem_pool_release(&m->pool);
	*m = (struct manifest){ 0 };
}

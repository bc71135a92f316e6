/*
 * spmodel.c - a reader of SentencePiece models
 *
 * The file is one protobuf message. Only the wire format is needed for it: keys of field number and
 * type, varints, and lengths, which the reader checks against what is left. Fields that are not
 * known are passed over, as protobuf demands. Texts point into the caller's bytes, which must live
 * as long as the model. Source: sentencepiece_model.proto of google/sentencepiece.
 */
#include "export/spmodel.h"
#include "lib/base/mem.h"
#include "lib/base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* A place in a message. */
struct cursor {
	const unsigned char *p, *end;
};

struct field {
	uint64_t number;
	int wire;
	uint64_t value;                 /* varint, or the bits of a fixed field */
	const unsigned char *bytes;
	size_t len;
};

/* What the parts of parsing share. */
struct parse {
	struct spmodel *m;
	int cap;
	const char *name;
	struct err *e;
};

typedef int field_fn(struct parse *p, void *into, const struct field *f);

/* Seven bits a byte, the low ones first; ten bytes at most. */
static int
varint(struct cursor *c, uint64_t *out)
{
	*out = 0;
	for (int shift = 0; shift < 64 && c->p < c->end; shift += 7) {
		unsigned char b = *c->p++;

		*out |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return 0;
	}
	return -1;
}

/* Little-endian bits of a fixed field. */
static int
fixed(struct cursor *c, int bytes, uint64_t *out)
{
	*out = 0;
	if (c->end - c->p < bytes)
		return -1;
	for (int i = 0; i < bytes; i++)
		*out |= (uint64_t)*c->p++ << (8 * i);
	return 0;
}

/* The next field; -1 when the bytes are no message. */
static int
next_field(struct cursor *c, struct field *f)
{
	uint64_t key;

	if (varint(c, &key) < 0)
		return -1;
	f->number = key >> 3;
	f->wire = (int)(key & 7);
	f->bytes = NULL;
	f->len = 0;
	switch (f->wire) {
	case WIRE_VARINT:
		return f->number ? varint(c, &f->value) : -1;
	case WIRE_64:
		return fixed(c, 8, &f->value);
	case WIRE_32:
		return fixed(c, 4, &f->value);
	case WIRE_BYTES:
		if (varint(c, &f->value) < 0 || f->value > (uint64_t)(c->end - c->p))
			return -1;
		f->bytes = c->p;
		f->len = (size_t)f->value;
		c->p += f->len;
		return 0;
	default:
		return -1;
	}
}

/* Stops at the first failure of fn, whose reason stands; a broken message is reported here. */
static int
each_field(struct parse *p, const void *bytes, size_t len, field_fn *fn, void *into)
{
	struct cursor c = { bytes, (const unsigned char *)bytes + len };

	while (c.p < c.end) {
		struct field f;

		if (next_field(&c, &f) < 0)
			return err_at(p->e, p->name, 0,
			    "not a SentencePiece model: the protobuf message is broken");
		if (fn(p, into, &f) < 0)
			return -1;
	}
	return 0;
}

/*
 * Fields 1 to 3 of SentencePiece: piece, score, type. A type beyond the known ones is refused,
 * since how its pieces match text cannot be guessed.
 */
static int
piece_field(struct parse *p, void *into, const struct field *f)
{
	struct sp_piece *piece = into;
	uint32_t bits = (uint32_t)f->value;

	if (f->number == 1 && f->wire == WIRE_BYTES) {
		piece->text = (const char *)f->bytes;
		piece->len = f->len;
	} else if (f->number == 2 && f->wire == WIRE_32) {
		memcpy(&piece->score, &bits, sizeof bits);
	} else if (f->number == 3 && f->wire == WIRE_VARINT) {
		if (f->value < SP_NORMAL || f->value > SP_BYTE)
			return err_at(p->e, p->name, 0, "piece %d has the unknown type %llu",
			    p->m->count, (unsigned long long)f->value);
		piece->type = (enum sp_type)f->value;
	}
	return 0;
}

/* Ids are int32 in the message; negative ones mean none. */
static int
id_of(const struct field *f)
{
	return f->value <= INT32_MAX ? (int)f->value : -1;
}

/*
 * Fields of TrainerSpec: 3 model_type, 22 split_by_whitespace, 35 byte_fallback, 40 to 43 the
 * special ids.
 */
static int
trainer_field(struct parse *p, void *into, const struct field *f)
{
	struct spmodel *m = into;

	if (f->wire != WIRE_VARINT)
		return 0;
	switch (f->number) {
	case 3:
		if (f->value < SP_UNIGRAM || f->value > SP_CHAR)
			return err_at(p->e, p->name, 0, "unknown model type %llu",
			    (unsigned long long)f->value);
		m->model = (enum sp_model)f->value;
		break;
	case 22: m->split_by_whitespace = f->value != 0; break;
	case 35: m->byte_fallback = f->value != 0; break;
	case 40: m->unk = id_of(f); break;
	case 41: m->bos = id_of(f); break;
	case 42: m->eos = id_of(f); break;
	case 43: m->pad = id_of(f); break;
	default: break;
	}
	return 0;
}

/*
 * Fields of NormalizerSpec: 2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces,
 * 5 escape_whitespaces.
 */
static int
normalizer_field(struct parse *p, void *into, const struct field *f)
{
	struct spmodel *m = into;

	(void)p;
	if (f->number == 2 && f->wire == WIRE_BYTES) {
		m->charsmap = f->bytes;
		m->charsmap_len = f->len;
	} else if (f->wire == WIRE_VARINT && f->number == 3) {
		m->add_dummy_prefix = f->value != 0;
	} else if (f->wire == WIRE_VARINT && f->number == 4) {
		m->remove_extra_whitespaces = f->value != 0;
	} else if (f->wire == WIRE_VARINT && f->number == 5) {
		m->escape_whitespaces = f->value != 0;
	}
	return 0;
}

/*
 * 2^26 pieces is far above any vocabulary; the bound keeps ids in an int and memory in proportion.
 * Scores must be finite, as merges are sorted by them.
 */
static int
add_piece(struct parse *p, const struct field *f)
{
	struct spmodel *m = p->m;
	struct sp_piece piece = { .text = "", .type = SP_NORMAL };

	if (each_field(p, f->bytes, f->len, piece_field, &piece) < 0)
		return -1;
	if (piece.len == 0 || memchr(piece.text, 0, piece.len) ||
	    utf8_check((const unsigned char *)piece.text, piece.len) < piece.len)
		return err_at(p->e, p->name, 0, "piece %d is empty or not plain UTF-8", m->count);
	if (!isfinite(piece.score))
		return err_at(p->e, p->name, 0, "piece %d has no finite score", m->count);
	if (m->count == p->cap) {
		if (p->cap >= 1 << 26)
			return err_at(p->e, p->name, 0, "more than 2^26 pieces");
		p->cap = p->cap ? 2 * p->cap : 1024;
		m->piece = mem_realloc(m->piece, (size_t)p->cap, sizeof *m->piece);
	}
	m->piece[m->count++] = piece;
	return 0;
}

/*
 * Fields of ModelProto: 1 pieces, 2 trainer_spec, 3 normalizer_spec. A message may come in parts;
 * later values win, as in protobuf.
 */
static int
model_field(struct parse *p, void *into, const struct field *f)
{
	if (f->wire != WIRE_BYTES)
		return 0;
	switch (f->number) {
	case 1: return add_piece(p, f);
	case 2: return each_field(p, f->bytes, f->len, trainer_field, into);
	case 3: return each_field(p, f->bytes, f->len, normalizer_field, into);
	default: return 0;
	}
}

/* Order of pieces: bytes, then length. */
static int
compare_text(const struct sp_piece *a, const char *text, size_t len)
{
	int order = memcmp(a->text, text, a->len < len ? a->len : len);

	return order ? order : (a->len > len) - (a->len < len);
}

/* The same order for ids, as qsort_r wants it. */
static int
compare_ids(const void *a, const void *b, void *model)
{
	const struct spmodel *m = model;
	const struct sp_piece *y = &m->piece[*(const int *)b];

	return compare_text(&m->piece[*(const int *)a], y->text, y->len);
}

/* Sorts the pieces by text; none may be there twice. */
static int
sort_pieces(struct parse *p)
{
	struct spmodel *m = p->m;

	m->by_text = mem_alloc((size_t)m->count, sizeof *m->by_text);
	for (int i = 0; i < m->count; i++)
		m->by_text[i] = i;
	qsort_r(m->by_text, (size_t)m->count, sizeof *m->by_text, compare_ids, m);
	for (int i = 1; i < m->count; i++)
		if (compare_ids(&m->by_text[i - 1], &m->by_text[i], m) == 0) {
			const struct sp_piece *twice = &m->piece[m->by_text[i]];

			return err_at(p->e, p->name, 0, "piece '%.*s' twice",
			    (int)(twice->len < 80 ? twice->len : 80), twice->text);
		}
	return 0;
}

/* A special id counts only when its piece is of the right type. */
static void
check_special(const struct spmodel *m, int *id, enum sp_type type)
{
	if (*id >= m->count || (*id >= 0 && m->piece[*id].type != type))
		*id = -1;
}

/* The defaults are those of the proto file; fields that are missing keep them. */
int
spmodel_parse(struct spmodel *m, const void *bytes, size_t len, const char *name, struct err *e)
{
	struct parse p = { .m = m, .name = name, .e = e };

	*m = (struct spmodel){ .model = SP_UNIGRAM,
		.split_by_whitespace = true,
		.add_dummy_prefix = true,
		.remove_extra_whitespaces = true,
		.escape_whitespaces = true,
		.unk = 0,
		.bos = 1,
		.eos = 2,
		.pad = -1 };
	if (each_field(&p, bytes, len, model_field, m) < 0)
		return -1;
	if (m->count == 0)
		return err_at(e, name, 0, "not a SentencePiece model: it has no pieces");
	if (sort_pieces(&p) < 0)
		return -1;
	check_special(m, &m->unk, SP_UNKNOWN);
	check_special(m, &m->bos, SP_CONTROL);
	check_special(m, &m->eos, SP_CONTROL);
	check_special(m, &m->pad, SP_CONTROL);
	return 0;
}

/* The bytes are the caller's. An empty struct is left. */
void
spmodel_release(struct spmodel *m)
{
	free(m->piece);
	free(m->by_text);
	memset(m, 0, sizeof *m);
}

/* Binary search in the order of the texts. */
int
spmodel_find(const struct spmodel *m, const char *text, size_t len)
{
	int low = 0, high = m->count;

	while (low < high) {
		int mid = low + (high - low) / 2,
		    order = compare_text(&m->piece[m->by_text[mid]], text, len);

		if (order == 0)
			return m->by_text[mid];
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return -1;
}

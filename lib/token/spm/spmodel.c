/*
 * spmodel.c - a reader of SentencePiece models
 *
 * The file is one protobuf message. Only the wire format is needed for it: keys of field number and
 * type, varints, and lengths, which the reader checks against the rest of the file. Unknown fields
 * are skipped, as protobuf requires. Texts point into the caller's bytes, which must live as long
 * as the model. Source: sentencepiece_model.proto of google/sentencepiece.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/spm/spmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SCORE_MAX 1e15f

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* A position in a message. */
struct cursor {
	const unsigned char *p, *end;
};

struct field {
	uint64_t number;
	int wire;
	uint64_t value; /* varint, or the bits of a fixed field */
	const unsigned char *bytes;
	size_t len;
};

/* The texts of the special pieces, in the order of fields 45 to 48 of TrainerSpec. */
enum special { UNK, BOS, EOS, PAD, SPECIALS };

/* The state of parsing. */
struct parse {
	struct spmodel *m;
	int cap;
	struct sp_text special[SPECIALS];
	const unsigned char *start; /* of the file: offsets in messages count from here */
	const char *name;
	struct err *e;
};

typedef int field_fn(struct parse *p, void *into, const struct field *f);

/* Seven bits per byte, the low ones first; at most ten bytes. */
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

/* The next field; -1 when the bytes are not a message. */
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
	case WIRE_VARINT: return f->number ? varint(c, &f->value) : -1;
	case WIRE_64: return fixed(c, 8, &f->value);
	case WIRE_32: return fixed(c, 4, &f->value);
	case WIRE_BYTES:
		if (varint(c, &f->value) < 0 || f->value > (uint64_t)(c->end - c->p))
			return -1;
		f->bytes = c->p;
		f->len = (size_t)f->value;
		c->p += f->len;
		return 0;
	default: return -1;
	}
}

/* Stops at the first failure of fn, which gives the reason; a malformed field is reported here,
 * with its position. */
static int
each_field(struct parse *p, const void *bytes, size_t len, field_fn *fn, void *into)
{
	struct cursor c = { bytes, (const unsigned char *)bytes + len };

	while (c.p < c.end) {
		long at = (long)(c.p - p->start);
		struct field f;

		if (next_field(&c, &f) < 0)
			return err_at(p->e, p->name, 0,
			    "not a SentencePiece model: the protobuf message is broken at byte %ld",
			    at);
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

/*
 * Fields of TrainerSpec: 3 model_type, 22 split_by_whitespace, 24 treat_whitespace_as_suffix, 35
 * byte_fallback; 44 unk_surface and 45 to 48, the texts of unk, bos, eos, pad. As in the library,
 * an empty one of these counts as missing, and a text ends at a NUL.
 */
static int
trainer_field(struct parse *p, void *into, const struct field *f)
{
	struct spmodel *m = into;

	if (f->wire == WIRE_BYTES) {
		const char *bytes = (const char *)f->bytes;
		struct sp_text t = { bytes, strnlen(bytes, f->len) };

		if (f->number == 44)
			m->unk_surface = t;
		else if (f->number >= 45 && f->number <= 48 && f->len)
			p->special[f->number - 45] = t;
	}
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
	case 24: m->normalizer.whitespace_as_suffix = f->value != 0; break;
	case 35: m->byte_fallback = f->value != 0; break;
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
	struct sp_normalizer *n = into;

	(void)p;
	if (f->number == 2 && f->wire == WIRE_BYTES) {
		n->charsmap = f->bytes;
		n->charsmap_len = f->len;
	} else if (f->wire == WIRE_VARINT && f->number == 3) {
		n->add_dummy_prefix = f->value != 0;
	} else if (f->wire == WIRE_VARINT && f->number == 4) {
		n->remove_extra_whitespaces = f->value != 0;
	} else if (f->wire == WIRE_VARINT && f->number == 5) {
		n->escape_whitespaces = f->value != 0;
	}
	return 0;
}

/*
 * 2^26 pieces is far above any vocabulary; the bound keeps ids in an int and memory in proportion.
 * Scores are bounded, so that no sum over a text leaves the range of a float.
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
	if (!(fabsf(piece.score) <= SCORE_MAX))
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
 * Fields of ModelProto: 1 pieces, 2 trainer_spec, 3 normalizer_spec, 5 denormalizer_spec. A message
 * may come in parts; later values win, as in protobuf.
 */
static int
model_field(struct parse *p, void *into, const struct field *f)
{
	if (f->wire != WIRE_BYTES)
		return 0;
	switch (f->number) {
	case 1: return add_piece(p, f);
	case 2: return each_field(p, f->bytes, f->len, trainer_field, into);
	case 3: return each_field(p, f->bytes, f->len, normalizer_field, &p->m->normalizer);
	case 5: return each_field(p, f->bytes, f->len, normalizer_field, &p->m->denormalizer);
	default: return 0;
	}
}

/* Mixes the hash: the low half chooses the slot, the high half is the tag. */
static uint64_t
mix(uint64_t hash)
{
	hash = (hash ^ hash >> 29) * SPMODEL_HASH_BASE;
	return hash ^ hash >> 32;
}

/* Searches from the first slot on for the text or an empty slot: half of the slots are empty. */
static struct sp_slot *
find_slot(const struct spmodel *m, uint64_t mixed, const char *text, size_t len)
{
	uint32_t tag = (uint32_t)(mixed >> 32);

	for (uint32_t i = (uint32_t)mixed & m->slot_mask;; i = (i + 1) & m->slot_mask) {
		struct sp_slot *s = &m->slot[i];

		if (s->id == 0)
			return s;
		if (s->tag == tag && m->piece[s->id - 1].len == len &&
		    !memcmp(m->piece[s->id - 1].text, text, len))
			return s;
	}
}

/* The hash of a whole text. */
static uint64_t
hash_of(const char *text, size_t len)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < len; i++)
		hash = spmodel_hash_step(hash, (unsigned char)text[i]);
	return hash;
}

/* Enters the pieces into a table of twice their number; duplicates are an error. */
static int
index_pieces(struct parse *p)
{
	struct spmodel *m = p->m;
	uint32_t size = 16;

	while (size < 2 * (uint32_t)m->count)
		size *= 2;
	m->slot = mem_zalloc_large(size, sizeof *m->slot);
	m->slot_mask = size - 1;
	for (int i = 0; i < m->count; i++) {
		const struct sp_piece *x = &m->piece[i];
		uint64_t hash = mix(hash_of(x->text, x->len));
		struct sp_slot *slot = find_slot(m, hash, x->text, x->len);

		if (slot->id)
			return err_at(p->e, p->name, 0, "piece '%.*s' occurs twice",
			    (int)(x->len < 80 ? x->len : 80), x->text);
		*slot = (struct sp_slot){ (uint32_t)i + 1, (uint32_t)(hash >> 32) };
	}
	return 0;
}

/* A piece with this text counts only when it has the right type. */
static int
special_id(const struct spmodel *m, const struct sp_text *t, enum sp_type type)
{
	int id = spmodel_find(m, t->bytes, t->len);

	return id >= 0 && m->piece[id].type == type ? id : -1;
}

/* The defaults are those of the proto file; fields that are missing keep them. */
int
spmodel_parse(struct spmodel *m, const void *bytes, size_t len, const char *name, struct err *e)
{
	struct parse p = { .m = m,
		.start = bytes,
		.name = name,
		.e = e,
		.special = { { "<unk>", 5 }, { "<s>", 3 }, { "</s>", 4 }, { "<pad>", 5 } } };
	const struct sp_normalizer by_default = { true, true, true, false, NULL, 0 };

	*m = (struct spmodel){ .model = SP_UNIGRAM,
		.split_by_whitespace = true,
		.normalizer = by_default,
		.denormalizer = by_default,
		.unk_surface = { " \xe2\x81\x87 ", 5 } };
	if (each_field(&p, bytes, len, model_field, m) < 0)
		return -1;
	if (m->count == 0)
		return err_at(e, name, 0, "not a SentencePiece model: it has no pieces");
	if (index_pieces(&p) < 0)
		return -1;
	m->unk = special_id(m, &p.special[UNK], SP_UNKNOWN);
	m->bos = special_id(m, &p.special[BOS], SP_CONTROL);
	m->eos = special_id(m, &p.special[EOS], SP_CONTROL);
	m->pad = special_id(m, &p.special[PAD], SP_CONTROL);
	return 0;
}

/* The caller owns the bytes. The struct is empty afterwards. */
void
spmodel_release(struct spmodel *m)
{
	free(m->piece);
	free(m->slot);
	memset(m, 0, sizeof *m);
}

/* Any type of piece is found. */
int
spmodel_find(const struct spmodel *m, const char *text, size_t len)
{
	return spmodel_find_hashed(m, hash_of(text, len), text, len);
}

/* The hash only gives the slot: texts are compared. */
int
spmodel_find_hashed(const struct spmodel *m, uint64_t hash, const char *text, size_t len)
{
	return (int)find_slot(m, mix(hash), text, len)->id - 1;
}

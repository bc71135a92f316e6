/*
 * protobuf.h - the few parts of protobuf's encoding that event files and W&B's records need
 *
 * Protobuf needs the length of an inner message before its bytes, so messages are built from the
 * inside out. Source: protobuf.dev/programming-guides/encoding.
 */
#ifndef TRAIN_REPORT_PROTOBUF_H
#define TRAIN_REPORT_PROTOBUF_H

#include "lib/base/str.h"

#include <stdint.h>

/* Protobuf's names for how a field's value is written. */
enum protobuf_wire { PROTOBUF_VARINT, PROTOBUF_FIXED64, PROTOBUF_BYTES, PROTOBUF_FIXED32 = 5 };

/* Appends the low bytes of x, little-endian. */
void protobuf_fixed(struct str *s, uint64_t x, int bytes);
/* Appends seven bits per byte, the lowest first; the top bit says that more follow. Negative
 * numbers, being 64-bit two's complement, take ten bytes. */
void protobuf_varint(struct str *s, uint64_t x);
/* What every field begins with: its number and how its value is written. */
void protobuf_key(struct str *s, int field, enum protobuf_wire wire);
/* A number that is not a double. */
void protobuf_int(struct str *s, int field, int64_t x);
/* Strings and inner messages are the same on the wire. */
void protobuf_bytes(struct str *s, int field, const char *bytes, size_t len);
void protobuf_string(struct str *s, int field, const char *text);

#endif

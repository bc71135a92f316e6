/* protobuf.c - fields of protobuf messages, appended to a string of bytes */
#include "train/report/protobuf.h"

#include <string.h>

void
protobuf_fixed(struct str *s, uint64_t x, int bytes)
{
	for (int i = 0; i < bytes; i++)
		str_addc(s, (char)(x >> 8 * i & 0xff));
}

void
protobuf_varint(struct str *s, uint64_t x)
{
	for (; x >= 0x80; x >>= 7)
		str_addc(s, (char)((x & 0x7f) | 0x80));
	str_addc(s, (char)x);
}

void
protobuf_key(struct str *s, int field, enum protobuf_wire wire)
{
	protobuf_varint(s, (uint64_t)field << 3 | (uint64_t)wire);
}

void
protobuf_int(struct str *s, int field, int64_t x)
{
	protobuf_key(s, field, PROTOBUF_VARINT);
	protobuf_varint(s, (uint64_t)x);
}

void
protobuf_bytes(struct str *s, int field, const char *bytes, size_t len)
{
	protobuf_key(s, field, PROTOBUF_BYTES);
	protobuf_varint(s, len);
	str_add(s, bytes, len);
}

void
protobuf_string(struct str *s, int field, const char *text)
{
	protobuf_bytes(s, field, text, strlen(text));
}

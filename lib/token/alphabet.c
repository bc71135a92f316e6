/*
 * alphabet.c - the printable characters that stand for bytes in the files of byte-level BPE
 *
 * Both directions in one struct; the code points are below U+0800, so a name is at most twice as
 * long as its bytes.
 */
#include "lib/base/utf8.h"
#include "lib/token/alphabet.h"

#include <stdbool.h>
#include <string.h>

/* Code points are assigned in the order of the bytes. */
void
alphabet_init(struct alphabet *a)
{
	int next = 0x100;

	memset(a, 0, sizeof *a);
	for (int i = 0; i < ALPHABET_END; i++)
		a->byte_of[i] = -1;
	for (int b = 0; b < 256; b++) {
		bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
		int cp = plain ? b : next++;

		a->byte_of[cp] = (int16_t)b;
		utf8_encode((uint32_t)cp, (unsigned char *)a->utf8[b]);
	}
}

/* Anything but one or two bytes of well-formed UTF-8 is outside the alphabet. */
int64_t
alphabet_decode(const struct alphabet *a, const char *name, size_t len, char *out)
{
	int64_t n = 0;

	for (size_t i = 0; i < len;) {
		uint32_t cp = (unsigned char)name[i++];

		if (cp >= 0x80) {
			uint32_t next = i < len ? (unsigned char)name[i++] : 0;

			if (cp < 0xc2 || cp > 0xdf || (next & 0xc0) != 0x80)
				return -1;
			cp = (cp & 0x1f) << 6 | (next & 0x3f);
		}
		if (cp >= ALPHABET_END || a->byte_of[cp] < 0)
			return -1;
		out[n++] = (char)a->byte_of[cp];
	}
	return n;
}

void
alphabet_encode(const struct alphabet *a, const char *s, size_t n, struct str *out)
{
	str_reserve(out, 2 * n);
	for (size_t i = 0; i < n; i++)
		str_adds(out, a->utf8[(unsigned char)s[i]]);
}

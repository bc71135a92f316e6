/* byte_piece.c - the pieces <0x00> to <0xFF> of SentencePiece, which stand for bytes */
#include "lib/token/byte_piece.h"

#include <string.h>

int
byte_piece(const char *text, size_t len)
{
	static const char digits[] = "0123456789ABCDEF";
	const char *high, *low;

	if (len != 6 || memcmp(text, "<0x", 3) || text[5] != '>')
		return -1;
	high = memchr(digits, text[3], 16);
	low = memchr(digits, text[4], 16);
	return high && low ? (int)((high - digits) << 4 | (low - digits)) : -1;
}

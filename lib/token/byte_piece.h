/*
 * byte_piece.h - the pieces <0x00> to <0xFF> of SentencePiece, which stand for bytes
 */
#ifndef TOKEN_BYTE_PIECE_H
#define TOKEN_BYTE_PIECE_H

#include <stddef.h>

/* The byte of "<0xNN>", whose digits are capital; -1 for other texts. */
int byte_piece(const char *text, size_t len);

#endif

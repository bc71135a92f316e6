/*
 * sentence.h - a text cut into sentences by rule, for --split-sentences
 *
 *  1. Full stops, exclamation and question marks of Chinese and Japanese (U+3002 U+FF01 U+FF0E
 *     U+FF1F U+FF61) end a sentence wherever they stand.
 *  2. '.' '!' '?' and U+2026 end one when white space follows and what comes after that is neither
 *     a lower-case ASCII letter nor the end of the text.
 *  3. Not so a single '.' after an abbreviation of the list, one letter, letters with full stops
 *     between them (U.S., e.g.), or a number that is the sentence's first word (1. Item).
 *  4. Closing quotes and brackets, and further such marks, belong to the sentence that they end.
 *  5. A blank line ends a sentence.
 *
 * White space before and after a sentence is dropped; with keep_newlines the line feeds that follow
 * a sentence stay at its end. Sentences are never empty.
 */
#ifndef TOK_SENTENCE_H
#define TOK_SENTENCE_H

#include <stdbool.h>
#include <stddef.h>

/* A walk: set p and end to the text and call sentence_next until it returns false. */
struct sentence_walk {
	const char *p, *end;
	bool keep_newlines;
};

/* The next sentence, which points into the text. */
bool sentence_next(struct sentence_walk *w, const char **text, size_t *len);

#endif

/*
 * scan.h - where a word of a shell script ends, and the patterns of its expansions
 *
 * Nothing is expanded here: a word keeps its quotes, its "$" and its holes (impl.h). Each function
 * returns the first character after what it skips, or NULL where the text ends before that does.
 */
#ifndef SCRIPT_SCAN_H
#define SCRIPT_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* A word up to an unquoted blank, newline or operator; s itself where none begins there. */
const char *scan_word(const char *s);
/* The quotes, backslash, backquotes or "$" at s; one character where s starts none of these. */
const char *scan_piece(const char *s);
/* The length of a variable's name at s; 0: none. */
size_t scan_name(const char *s);
/* Whether a pattern of the shell (* ? [...], '\' quotes) matches all n bytes of text. */
bool scan_match(const char *pattern, const char *text, size_t n);

#endif

/*
 * spm_oracle.h - libsentencepiece as a C function, for the tests and benchmarks to compare
 * with
 *
 * Results live until the next call with the same oracle. One thread per oracle.
 */
#ifndef TESTS_SPM_ORACLE_H
#define TESTS_SPM_ORACLE_H

#include <stddef.h>
#include <stdint.h>

struct oracle;

struct oracle *oracle_new(const void *model, size_t len); /* NULL: the library refuses the model */
void oracle_free(struct oracle *o);
/* NULL: the library fails. */
const int *oracle_encode(struct oracle *o, const char *text, size_t len, size_t *count);
const char *oracle_decode(struct oracle *o, const uint32_t *ids, size_t count, size_t *len);
int oracle_special(const struct oracle *o, int which); /* in the order of enum tokenizer_special */

#endif

/*
 * hash.h - checksums and names
 *
 * XXH3-64 (through xxhash) for files and pieces, MD5 for the names of index maps (Megatron-LM's
 * choice; not for security), CRC-32C for TensorBoard's records, CRC-32 (through zlib) for
 * W&B's.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_xxh3(const void *bytes, size_t len);
uint64_t hash_xxh3_seeded(
    const void *bytes, size_t len, uint64_t seed); /* for tables whose keys come from input */
/* Writes a sum as 16 lower-case hexadecimal digits and a NUL; returns out. */
char *hash_text(uint64_t sum, char out[17]);
/* Reads those digits; returns the text after them, or NULL when text does not begin with them. */
const char *hash_read(const char *text, uint64_t *sum);

struct hash_stream; /* XXH3-64, fed in pieces */
struct hash_stream *hash_stream_new(void);
void hash_stream_add(struct hash_stream *h, const void *bytes, size_t len);
uint64_t hash_stream_next(struct hash_stream *h); /* returns the sum and begins another */
uint64_t hash_stream_free(struct hash_stream *h); /* returns the sum */

/* 32 lower-case hexadecimal digits and a NUL. Source: RFC 1321. */
void hash_md5_hex(const void *bytes, size_t len, char out[33]);
/* Castagnoli polynomial, reflected, as in RFC 3720 appendix B.4. */
uint32_t hash_crc32c(const void *bytes, size_t len);
/* zlib's: continues the sum of what came before, 0 at the beginning. */
uint32_t hash_crc32(uint32_t before, const void *bytes, size_t len);

#endif

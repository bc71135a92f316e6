/*
 * json.h - a JSON document as a tree
 *
 * Parsing goes through simdjson; the tree is plain C and belongs to the struct json. Members keep
 * the order of the text and duplicates are kept (json_get returns the last, as Python does; a
 * strict reader can look for more). Strings are decoded UTF-8 with their length and may hold NULs.
 * Any number of JSON's grammar is legal: an integer outside 64 bits is a JSON_FLOAT, which json_int
 * refuses, and a number that no double reaches is the largest double of its sign.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_type { JSON_NULL, JSON_BOOL, JSON_INT, JSON_FLOAT, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* Small, because a tokenizer's file has a million of them. */
struct json_value {
	enum json_type type : 8;
	bool boolean;
	uint32_t key_len;
	const char *key;                 /* in an object: the member's name, else NULL */
	union {                          /* by type; the other members are undefined */
		int64_t integer;         /* JSON_INT */
		double number;           /* JSON_FLOAT */
		const char *string;      /* JSON_STRING; NUL-ended too */
		struct json_value *item; /* array elements or object members */
	};
	size_t len; /* bytes of the string, or number of items; else 0 */
};

struct json;
struct str;

/* name is for messages ("path: why"); NULL: the caller says where the text is from. The depth limit
 * is 64. NULL on error. */
struct json *json_parse(const char *text, size_t len, const char *name, struct err *e);
/* The same for a text that io_read_file has read: it is parsed in place and is not needed
 * afterwards. */
struct json *json_parse_file(const char *text, size_t len, const char *name, struct err *e);
struct json *json_read(const char *path, size_t max_bytes, struct err *e);
/* The same, but the file must be a regular one: see io_read_regular. */
struct json *json_read_regular(const char *path, size_t max_bytes, struct err *e);
/* The same for a file that Python's json wrote: NaN, Infinity and -Infinity, which are not JSON,
 * become strings, so that no number is read of them. */
struct json *json_read_python(const char *path, size_t max_bytes, struct err *e);
const struct json_value *json_root(const struct json *j);
void json_free(struct json *j);

/* The value of a JSON_INT or JSON_FLOAT. */
double json_number(const struct json_value *v);
/* The member of an object, or NULL (also when v is NULL or no object). */
const struct json_value *json_get(const struct json_value *v, const char *key);
/* Typed access with a default for a missing or null member; a member of another type is an error
 * that names the key. */
int json_int(const struct json_value *v, const char *key, int64_t def, int64_t *out, struct err *e);
int json_double(
    const struct json_value *v, const char *key, double def, double *out, struct err *e);
int json_bool(const struct json_value *v, const char *key, bool def, bool *out, struct err *e);
int json_string(
    const struct json_value *v, const char *key, const char *def, const char **out, struct err *e);
/* Appends the value as Python's json.dumps would print it; NULL as null. */
void json_print(struct str *out, const struct json_value *v);

#endif

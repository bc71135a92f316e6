/*
 * pickle.h - what Python pickled, as values; nothing is executed
 *
 * Protocols 1 to 5, as torch.save, argparse, dataclasses, numpy and OrderedDict use them. A global
 * is a name, and a call of one is an object that keeps the name and the arguments. Only the calls
 * of dict, set and torch.Size, which give plain values, are seen through. Values may be shared, and
 * a hostile pickle may hold itself: who walks one bounds the depth.
 *
 * The values own their bytes and live until pickle_free. Memory is linear in the input.
 * Source: CPython Lib/pickletools.py, which describes every opcode.
 */
#ifndef CKPT_PICKLE_H
#define CKPT_PICKLE_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pickle_type {
	PICKLE_NONE,
	PICKLE_BOOL,
	PICKLE_INT,
	PICKLE_BIG_INT, /* beyond 64 bits */
	PICKLE_FLOAT,
	PICKLE_STRING,
	PICKLE_BYTES,
	PICKLE_LIST,
	PICKLE_TUPLE,
	PICKLE_SET,
	PICKLE_DICT,
	PICKLE_GLOBAL,
	PICKLE_OBJECT,
	PICKLE_PERSISTENT, /* a thing that lies outside the pickle: torch's storages */
};

/* Small, because the metadata of a large checkpoint has millions of them. */
struct pickle_value {
	enum pickle_type type : 8;
	bool boolean;
	uint32_t len; /* bytes of a text, items, or pairs; else 0 */
	union {       /* by type; the other members are undefined */
		int64_t integer;
		double number;
		/* STRING (UTF-8, or with lone surrogates), BYTES, GLOBAL ("module.name"), BIG_INT
		 * (two's complement, little-endian); NUL-ended, too */
		const char *text;
		const struct pickle_value **item; /* LIST, TUPLE, SET */
		struct pickle_pair *pair; /* DICT, in order; of equal keys the last counts */
		struct pickle_object *object;
		const struct pickle_value *id; /* PERSISTENT */
	};
};

struct pickle_pair {
	const struct pickle_value *key, *value;
};

/* What the call of a global made. Items that were appended to it are dropped. */
struct pickle_object {
	const struct pickle_value *of;   /* a GLOBAL, or what was called in its place */
	const struct pickle_value *args; /* TUPLE */
	const struct pickle_value
	    *state; /* what BUILD gave: mostly a DICT of attributes; or NULL */
};

struct pickle_limits {
	uint64_t bytes;               /* of the input; below 4 GiB in any case */
	uint64_t values, memo, depth; /* depth: values that wait on the stack at once */
};

/* Limits that a torch checkpoint of any size stays below. */
extern const struct pickle_limits pickle_limits_torch;

struct pickle;

/* Reads one pickle that fills n bytes. 0, or -1 with "byte N of the pickle: why". */
int pickle_read(const void *p, size_t n, const struct pickle_limits *limits, struct pickle **out,
    struct err *e);
void pickle_free(struct pickle *p);
const struct pickle_value *pickle_root(const struct pickle *p);

/*
 * Access that is total: v may be NULL or of any type, and what it does not have is NULL or false.
 */
/* The value of a string key of a dict, or the attribute of an object. */
const struct pickle_value *pickle_get(const struct pickle_value *v, const char *key);
/* The value of an integer key of a dict. */
const struct pickle_value *pickle_at(const struct pickle_value *v, int64_t key);
/* Item i of a list, tuple or set, or argument i of an object. */
const struct pickle_value *pickle_item(const struct pickle_value *v, uint32_t i);
/* Whether v is the global "module.name", or an object that the global made. */
bool pickle_is(const struct pickle_value *v, const char *global);
bool pickle_int(const struct pickle_value *v, int64_t *out);   /* of an INT */
bool pickle_double(const struct pickle_value *v, double *out); /* of an INT or FLOAT */
const char *pickle_string(const struct pickle_value *v);       /* of a STRING without NULs */
/* Appends a short form for messages: None, True, 4, 'rope', a list of 3, torch.bfloat16. */
void pickle_print(const struct pickle_value *v, struct str *out);

#endif

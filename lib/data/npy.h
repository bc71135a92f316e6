/*
 * npy.h - NumPy arrays in .npy files
 *
 * Reads versions 1.0 to 3.0, little-endian, C order (Fortran order is refused above one dimension);
 * bool, integers and floats. Writes version 1.0 as NumPy does, byte for byte: the header padded
 * with blanks to a multiple of 64. Source: numpy/lib/format.py; the header text is {'descr': '<i4',
 * 'fortran_order': False, 'shape': (3, 2), }.
 */
#ifndef DATA_NPY_H
#define DATA_NPY_H

#include "lib/base/dtype.h"
#include "lib/base/err.h"
#include "lib/base/map.h"

#include <stdio.h>

enum { NPY_DIMS = 4 };

struct npy {
	struct map map;
	enum dtype dtype;
	int ndim;
	int64_t shape[NPY_DIMS];
	int64_t count;    /* elements */
	const void *data; /* aligned to its elements; in the map or in the copy */
	void *copy;       /* used when the header's length leaves the elements unaligned; else
			   * NULL */
};

int npy_open(struct npy *a, const char *path, struct err *e);
void npy_close(struct npy *a);
/* The header bytes for an array of this shape, for streaming writers. Returns their number. */
size_t npy_header(char out[256], enum dtype t, int ndim, const int64_t *shape);
/* Writes a whole array, which appears whole or not at all. */
int npy_write(const char *path, enum dtype t, int ndim, const int64_t *shape, const void *data,
    struct err *e);

#endif

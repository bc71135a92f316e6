/*
 * torchzip_write.h - the zip that torch.save writes, as a stream
 *
 *   FOLDER/data.pkl      a pickle (pickle_write.h)
 *   FOLDER/byteorder     "little"
 *   FOLDER/data/0 ...    the bytes of the storages, each at a multiple of 64
 *   FOLDER/version       "3\n"
 *
 * Entries are stored, with their sums after their bytes; records are those of zip64 where a size or
 * an offset needs it. Offsets count from where the zip begins, so that several may lie in one file.
 * A failed write is found when the file is committed. Source: PKWARE appnote 6.3.10;
 * caffe2/serialize/inline_container.cc of PyTorch.
 */
#ifndef CKPT_TORCHZIP_WRITE_H
#define CKPT_TORCHZIP_WRITE_H

#include "lib/base/str.h"

#include <stdint.h>

struct torchzip_writer;

/* Begins a zip at the position of f, with its pickle. */
struct torchzip_writer *torchzip_begin(FILE *f, const char *folder, const struct str *pickle);
/* Begins the entry of the next storage, from 0 on, of so many bytes. */
void torchzip_storage(struct torchzip_writer *w, uint64_t bytes);
/* The next bytes of the storage; it must get them all. */
void torchzip_put(struct torchzip_writer *w, const void *bytes, size_t n);
/* Ends the zip and returns its size; frees w. */
uint64_t torchzip_end(struct torchzip_writer *w);
void torchzip_abort(struct torchzip_writer *w); /* leaves it as it is */

#endif

/* hf_tensor.h - a tensor of Hugging Face's files, stored as it is or quantised */
#ifndef CKPT_HF_TENSOR_H
#define CKPT_HF_TENSOR_H

#include "lib/ckpt/safetensors.h"
#include "lib/ckpt/torchzip.h"

enum hf_code { HF_STORED /* no code: the numbers themselves */, HF_FP8, HF_MXFP4 };

/* How a tensor is decoded. Its shape is that of the decoded elements, in the order of the file. */
struct hf_decode {
	enum hf_code code;
	int ndim;
	int64_t shape[SLICE_DIMS];
	int64_t block[2], grid[2]; /* elements with one factor, and factors, of the last two */
	bool one_factor;           /* of the whole tensor */
	const unsigned char *codes, *scales;
	enum dtype scale_dtype; /* DTYPE_U8: exponents, with 127 added */
	float exponent_255;     /* what this byte means among them */
	const float *numbers;   /* of each code of fp8 */
};

/* A tensor of any file. */
struct hfdir_tensor {
	const char *name, *file;
	const char *dtype_name;
	const char *why; /* why it is no tensor; NULL: it is one */
	int ndim;
	int64_t shape[SAFETENSORS_DIMS];
	uint64_t bytes;
	bool is_dense; /* row-major */
	/* its elements, borrowed until close; of no type where it has more than SLICE_DIMS
	 * dimensions, or elements that are only copied. Of a quantised one, type and bytes alone:
	 * BF16, and those of its codes */
	struct torch_tensor view;
	struct hf_decode decode;
	bool turned; /* the file has the last two dimensions in the other order */
};

#endif

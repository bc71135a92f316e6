/*
 * rope.c - the rotary angles of a model
 *
 * Source of the scalings: transformers modeling_rope_utils.py, whose results in fp64 these are.
 */
#include "lib/model/config.h"
#include "lib/model/rope.h"

#include <math.h>

#define TWO_PI (2.0 * 3.14159265358979323846)

/*
 * Llama 3.1's rule by wavelength: short ones are kept, the angles of long ones divided by the
 * factor, those between interpolated linearly in the number of turns.
 */
static double
llama3_angle(const struct model_config *c, double theta)
{
	double lambda = TWO_PI / theta,
	       low = (double)c->rope_original_positions / c->rope_low_freq_factor,
	       high = (double)c->rope_original_positions / c->rope_high_freq_factor, u;

	if (lambda < high)
		return theta;
	if (lambda > low)
		return theta / c->rope_factor;
	u = ((double)c->rope_original_positions / lambda - c->rope_low_freq_factor) /
	    (c->rope_high_freq_factor - c->rope_low_freq_factor);
	return (1 - u) * theta / c->rope_factor + u * theta;
}

/* The pair, in general between two, that turns so many times over the original positions. */
static double
yarn_pair(const struct model_config *c, double turns, int64_t dim)
{
	return (double)dim * log((double)c->rope_original_positions / (turns * TWO_PI)) /
	    (2 * log(c->rotary_base));
}

/*
 * YaRN interpolates in the number of the pair, from the pair of beta_fast turns, whose angle is
 * kept, to that of beta_slow turns. Source: Peng et al. 2023, arXiv:2309.00071.
 */
static double
yarn_angle(const struct model_config *c, double theta, int64_t i, int64_t dim)
{
	double low = yarn_pair(c, c->yarn_beta_fast, dim),
	       high = yarn_pair(c, c->yarn_beta_slow, dim), u;

	if (!c->yarn_unrounded_range) {
		low = floor(low);
		high = ceil(high);
	}
	low = fmax(low, 0);
	high = fmin(high, (double)dim - 1);
	if (low == high)
		high += 0.001;
	u = fmin(fmax(((double)i - low) / (high - low), 0), 1);
	return theta / c->rope_factor * u + theta * (1 - u);
}

/* All positions of a sequence have the same of the two. */
static const struct rope_factors *
longrope_factors(const struct model_config *c, int64_t length)
{
	return length > c->rope_original_positions ? &c->longrope_long_factor
						   : &c->longrope_short_factor;
}

void
longrope_words(const struct model_config *c, int64_t length, struct str *out)
{
	if (c->position == POSITION_ROPE && c->rope_scaling == ROPE_SCALING_LONGROPE)
		str_addf(out,
		    "angles are divided by the %s factors of longrope: sequences of %lld, "
		    "--rope-original-positions %lld",
		    longrope_factors(c, length) == &c->longrope_long_factor ? "long" : "short",
		    (long long)length, (long long)c->rope_original_positions);
}

/* The angle of pair i per position, scaled, in sequences of this length. */
static double
rope_angle(const struct model_config *c, int64_t i, int64_t dim, int64_t length)
{
	double theta = pow(c->rotary_base, -2.0 * (double)i / (double)dim);

	switch (c->rope_scaling) {
	case ROPE_SCALING_LINEAR: return theta / c->rope_factor;
	case ROPE_SCALING_LLAMA3: return llama3_angle(c, theta);
	case ROPE_SCALING_YARN: return yarn_angle(c, theta, i, dim);
	case ROPE_SCALING_LONGROPE: return theta / longrope_factors(c, length)->factor[i];
	default: return theta;
	}
}

/* What cosines and sines are multiplied by. */
static double
yarn_scale(const struct model_config *c)
{
	if (c->yarn_attention_factor > 0)
		return c->yarn_attention_factor;
	return yarn_default_factor(c->rope_factor, c->yarn_mscale > 0 ? c->yarn_mscale : 1) /
	    yarn_default_factor(c->rope_factor, c->yarn_mscale_all_dim);
}

/*
 * In double, rounded once when stored: at position 10^5 a float holds no fraction of position times
 * angle. Pairs of cosine and sine side by side, [positions, rotary_dim].
 */
void
model_rope_table(const struct model_config *c, enum rope_table table, int64_t length,
    int64_t positions, double *out)
{
	struct model_config of = *c;
	int64_t dim = model_rotary_dim(c);
	double scale = 1; /* of cosines and sines; the dot product of q and k grows by its square */

	if (table == ROPE_TABLE_WINDOW) {
		of.rotary_base = c->sliding_window_rope_base;
		of.rope_scaling = ROPE_SCALING_NONE;
	}
	if (of.rope_scaling == ROPE_SCALING_YARN)
		scale = yarn_scale(c);
	if (of.rope_scaling == ROPE_SCALING_LONGROPE && c->longrope_attention_factor > 0)
		scale = c->longrope_attention_factor;
	for (int64_t i = 0; i < dim / 2; i++) {
		double theta = rope_angle(&of, i, dim, length);

		for (int64_t p = 0; p < positions; p++) {
			out[p * dim + 2 * i] = scale * cos((double)p * theta);
			out[p * dim + 2 * i + 1] = scale * sin((double)p * theta);
		}
	}
}

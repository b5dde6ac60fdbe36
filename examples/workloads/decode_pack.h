/* decode_pack.h - the *image* of a model: all numbers that a run on a device only reads, in one array of floats.
 *
 * Tasks of decode_block.c read the weights in pieces of some columns. In the image each piece is contiguous, in the order in
 * which its task reads it. So a block reads whole lines, one request brings a piece into the cache of a GPU, and
 * all tasks have the same tensor as a parameter.
 *
 *     embedding [vocabulary, width]; angles; info (32-bit integers): see decode_block.h
 *     each layer
 *         norm [width]
 *         heads of q, k, v: for each head [pieces][width][2 halves of the head][columns of the piece]
 *         o [heads * dim, width]
 *         norm [width]; with experts: router [width, experts]
 *         feed: for each expert [pieces]: gate and up [width][2][columns], down [columns][width]
 *     norm [width]; head [pieces][width][columns]
 */
#ifndef DECODE_PACK_H
#define DECODE_PACK_H

#include "decode_model.h"

/* Columns in pieces of `tile`. The last one may be smaller. */
typedef struct decode_cut {
    int64_t tile, pieces;
} decode_cut;

static inline int64_t decode_cut_columns(decode_cut c, int64_t columns, int64_t piece)
{
    return columns - piece * c.tile < c.tile ? columns - piece * c.tile : c.tile;
}

/* How the columns of the matrices are cut. */
typedef struct decode_cuts {
    decode_cut heads; /* of half a head */
    decode_cut feed, expert;
    decode_cut logits; /* of the vocabulary */
} decode_cuts;

/* Offsets in the image, in floats; each is a multiple of 128 bytes. */
typedef struct decode_packed_layer {
    int64_t attention_norm, heads, o, ffn_norm, router, feed;
    int64_t expert; /* floats of an expert, or of the feed-forward block */
} decode_packed_layer;

typedef struct decode_packed {
    float *image;
    int64_t floats;
    int64_t embedding, angles, info, norm, head, head_floats;
    decode_packed_layer *layers;
} decode_packed;

/* Makes the image. `info` has so many integers. Call discard also after a failure. */
pto_status decode_pack(decode_packed *packed, const decode_model *model, const decode_cuts *cuts,
                       const int32_t *info, int64_t integers);
void decode_pack_discard(decode_packed *packed);

#endif /* DECODE_PACK_H */

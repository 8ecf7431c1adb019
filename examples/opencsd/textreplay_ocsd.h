/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * textreplay_ocsd.h: an adapter between OpenCSD's ETMv4 decoder and the text of a recording.
 * It decodes an A64 trace at the trace's own time while the text changes.
 *
 * The trace is one source's, not formatted, and its trace unit does not speculate (IDR8 is 0).
 */
#ifndef TEXTREPLAY_OCSD_H
#define TEXTREPLAY_OCSD_H

#include <opencsd/c_api/opencsd_c_api.h>
#include <textreplay.h>

struct etm_options {
	int ns;              /* timestamps are nanoseconds of the recording's clock; else counter values */
	int no_alternatives; /* take the first of two alternatives always, to compare with */
	/* If not NULL, the text to decode over at all times, to compare with: reads up to len bytes at
	 * addr, and returns how many it has. */
	uint32_t (*text)(void *ctx, uint64_t addr, void *buf, uint32_t len);
	void *text_ctx;
};

struct etm_stats {
	uint64_t insns;    /* instructions that were handed out */
	uint64_t errors;   /* pieces of trace between two points of synchronisation that do not fit the text */
	uint64_t traps;    /* exceptions of BRK at places where text changed at the time */
	uint64_t gaps;     /* times the decoder came to a place without bytes, and went on at the next address */
	uint64_t choices;  /* words that were read while they changed */
	uint64_t replays;  /* pieces that were decoded again, with another choice */
	uint64_t splits;   /* words that got a memory accessor of their own */
	uint64_t reads;    /* calls of the memory callback */
	uint64_t flushes;  /* times OpenCSD had to forget the text that it cached */
};

/* Is called for each executed instruction. */
typedef void etm_insn(void *ctx, uint64_t addr, uint32_t insn);

/* Is called for each piece of trace that does not fit. The instructions of it that were handed
 * out before the call are those up to the contradiction, as far as the best choice came. */
typedef void etm_error(void *ctx, uint64_t offset, const char *what);

/* Decodes size bytes of trace. tr may be NULL if options->text is not. Returns 0, or -1 if
 * OpenCSD has no decoder or memory is short. */
int etm_decode(textreplay *tr, const ocsd_etmv4_cfg *cfg, const struct etm_options *options, const uint8_t *trace,
	       size_t size, etm_insn *insn, etm_error *error, void *ctx, struct etm_stats *stats);

#endif

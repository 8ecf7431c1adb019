/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * textreplay_ipt.h: libipt over kernel text that changes while it is traced.
 *
 * An ipt decodes the Intel PT trace of one CPU with libipt's block decoder or its
 * instruction decoder, over the text of a textreplay recording as of the trace's own time:
 *
 *	struct ipt *d = ipt_new(tr, &config, IPT_BLOCKS, NULL);
 *	struct ipt_item it;
 *	int s;
 *
 *	while ((s = ipt_next(d, &it)) != 0) {
 *		if (s < 0)
 *			... it.error; decoding goes on at the next PSB ...
 *		else if (it.kind == IPT_BLOCK)
 *			... it.u.block ...
 *	}
 *	ipt_free(d);
 *
 * docs/decoders.md explains the design. In short: all text that does not change for a long time
 * is one section of libipt. Functions that do change are not in it: bytes that no
 * instruction begins with take their place. Where libipt stumbles over these it is handed
 * another image, with the function's bytes as of then, and goes on. If a function is hot, a
 * section with its bytes and those around it replaces that part of the large one.
 *
 * Inside the window of a change a CPU may have run the old instruction, the new one, or a
 * trap. The trace decides: an ipt takes what fits, and goes back where a choice turns out
 * wrong. What it returns is decided.
 */
#ifndef TEXTREPLAY_IPT_H
#define TEXTREPLAY_IPT_H

#include <intel-pt.h>
#include <textreplay.h>

enum ipt_mode { IPT_BLOCKS, IPT_INSNS };
enum ipt_kind { IPT_BLOCK = 1, IPT_INSN, IPT_EVENT };

struct ipt_item {
	enum ipt_kind kind;
	int error;    /* with a result below 0: libipt's error code, negative */
	uint64_t tsc; /* a time before the item, as of which the text is the same */
	union {
		struct pt_block block;
		struct pt_insn insn;
		struct pt_event event;
	} u;
};

struct ipt_options {
	int min_standing;      /* the least standing to decode; 0: TEXTREPLAY_UNCONFIRMED */
	uint64_t trap_handler; /* where a trap leads; 0: the kernel's symbol asm_exc_int3 or int3 */
	int no_traps;          /* for comparisons: never offer an alternative */
};

struct ipt_stats {
	uint64_t epochs;     /* how often the large sections were made anew */
	uint64_t regions;    /* ranges that change, in the newest epoch */
	uint64_t switches;   /* how often decoding went to another image */
	uint64_t sections;   /* of hot regions with what is around them */
	uint64_t callbacks;  /* reads through the callback */
	uint64_t visits;     /* instructions inside a window, with alternatives that fit */
	uint64_t traps;      /* traps that were decoded */
	uint64_t replays;    /* how often decoding went back */
	uint64_t unresolved; /* contradictions for which no choice was found */
};

struct ipt;

/* Makes a decoder. config names the trace; its buffer must stay. Returns NULL on failure,
 * with the reason on stderr. Each thread has its own; they may share tr. */
struct ipt *ipt_new(textreplay *tr, const struct pt_config *config, enum ipt_mode mode,
		    const struct ipt_options *options);
void ipt_free(struct ipt *d);

/* Decodes the next block, instruction or event. Returns 1, 0 at the end of the trace, or -1
 * with item->error where the trace cannot be decoded; the next call goes on behind the next
 * PSB then. Events come before what follows them. */
int ipt_next(struct ipt *d, struct ipt_item *item);

/* Reads the instruction at addr, of a block that ipt_next() has just returned, into buf of
 * 15 bytes. Returns how many bytes there are. A trap inside of the block is its last
 * instruction. */
int ipt_read(struct ipt *d, const struct ipt_item *item, uint64_t addr, uint8_t *buf);

/* The decoder's time, in TSC: that of the last packet which it consumed. */
uint64_t ipt_time(struct ipt *d);

void ipt_get_stats(const struct ipt *d, struct ipt_stats *stats);

#endif

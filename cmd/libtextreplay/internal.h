/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the C and the Go side of the library share. Not installed.
 */
#ifndef TEXTREPLAY_INTERNAL_H
#define TEXTREPLAY_INTERNAL_H

#include "textreplay.h"

enum { trc_max_windows = 16 };

/* A page in a cursor's cache. Its bytes hold for the times [answer.since, answer.until), its
 * windows for [wsince, wuntil), in which none of them opens or closes. */
struct trc_page {
	uint64_t addr; /* 1: none, since pages are aligned */
	textreplay_answer answer;
	uint64_t wsince, wuntil;
	uint8_t uniform; /* all its bytes have the standing and the reason of answer */
	uint8_t crowded; /* it has more open windows than fit here */
	uint16_t nwindows;
	textreplay_window windows[trc_max_windows];
	uint8_t bytes[TEXTREPLAY_PAGE_SIZE];
};

/* How the recording converts a counter, as perf's TIME_CONV record has it. The C side converts:
 * a decoder does so often, and a call of Go may have to wake the runtime's threads. */
struct trc_clock {
	uint64_t shift, mult, zero;
	int usable; /* 0: the Go side converts, or says why it cannot */
};

/* Sets the calling thread's error message to len bytes of msg, cut to 511. */
void trc_set_error(const char *msg, size_t len);

#endif

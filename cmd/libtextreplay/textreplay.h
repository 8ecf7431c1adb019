/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * textreplay.h: which bytes of Linux kernel text were at an address at a time.
 *
 * A recording (perf record --kcore) is opened once. Any number of threads ask it,
 * each with a cursor of its own:
 *
 *	textreplay *tr;
 *	textreplay_cursor *cur;
 *	textreplay_answer a;
 *	uint8_t insn[16];
 *
 *	if (textreplay_open("perf.data", NULL, &tr) || textreplay_cursor_new(tr, &cur))
 *		errx(1, "%s", textreplay_errmsg());
 *	textreplay_set_time(cur, ns);
 *	textreplay_read(cur, addr, insn, sizeof(insn), &a);
 *	if (a.standing == TEXTREPLAY_KNOWN)
 *		... the bytes were there from a.since until a.until ...
 *	textreplay_cursor_free(cur);
 *	textreplay_close(tr);
 *
 * Times are nanoseconds of the recording's clock, which is that of perf unless
 * perf record -k named another. Intervals are half-open, [since, until); 0 and
 * TEXTREPLAY_FOREVER mean that nothing bounds them. Addresses are those of the
 * running kernel. Bytes are in the order of memory.
 *
 * Functions return 0 or a count on success, and a negative number of enum
 * textreplay_error on failure. textreplay_errmsg() then has the details.
 *
 * Threads: a textreplay may be used by all threads at once, a textreplay_cursor by
 * one at a time. textreplay_errmsg() is of the calling thread.
 *
 * Signals and fork: see textreplay(3). In short: install signal handlers with
 * SA_ONSTACK, and after fork() only exec.
 */
#ifndef TEXTREPLAY_H
#define TEXTREPLAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. textreplay_version() has that of the library.
 * docs/compatibility.md says what a version may change. */
#define TEXTREPLAY_VERSION_MAJOR 0
#define TEXTREPLAY_VERSION_MINOR 1
#define TEXTREPLAY_VERSION_PATCH 0
#define TEXTREPLAY_VERSION \
	(TEXTREPLAY_VERSION_MAJOR << 16 | TEXTREPLAY_VERSION_MINOR << 8 | TEXTREPLAY_VERSION_PATCH)

/* The end of an interval that nothing bounds. */
#define TEXTREPLAY_FOREVER UINT64_MAX

/* Results below 0. */
enum textreplay_error {
	TEXTREPLAY_OK = 0,
	TEXTREPLAY_EINVAL = -1,    /* an argument is not valid, or an option is not of the recording */
	TEXTREPLAY_EIO = -2,       /* a file cannot be opened or read */
	TEXTREPLAY_EFORMAT = -3,   /* a file is not what it should be, or no record can be read */
	TEXTREPLAY_ENOMEM = -4,    /* out of memory, or the image is too large */
	TEXTREPLAY_ENOTFOUND = -5, /* no such symbol, or nothing at the address */
	TEXTREPLAY_ECLOCK = -6,    /* the recording cannot convert this time */
	TEXTREPLAY_ECHANGED = -7,  /* a file of the recording changed while it was open */
	TEXTREPLAY_EARCH = -8,     /* not for the architecture of the recorded kernel */
	TEXTREPLAY_EINTERNAL = -9  /* a fault of the library: please report it */
};

/* How far an answer can be trusted; a greater number can be trusted more. */
enum textreplay_standing {
	TEXTREPLAY_UNMAPPED = 0,    /* no fact says that anything is there */
	TEXTREPLAY_UNKNOWN = 1,     /* something is there, its bytes were never recorded */
	TEXTREPLAY_CONFLICTING = 2, /* facts disagree: no bytes are given */
	TEXTREPLAY_RETIRED = 3,     /* the code was removed: the last bytes are given */
	TEXTREPLAY_UNCONFIRMED = 4, /* changes since the last fact may have gone unrecorded */
	TEXTREPLAY_IN_FLIGHT = 5,   /* too close to a change to say on which side of it */
	TEXTREPLAY_KNOWN = 6        /* a promise */
};

typedef struct textreplay textreplay;               /* a recording */
typedef struct textreplay_cursor textreplay_cursor; /* a reader of it, at one time */

/* Flags of textreplay_options. */
#define TEXTREPLAY_SAVE_INDEX 1u /* write the index if there is no valid one */

/* How to open a recording. Begin with TEXTREPLAY_OPTIONS_INIT. Strings are not used
 * after textreplay_open(); NULL stands for the default. */
typedef struct textreplay_options {
	size_t size;          /* sizeof(textreplay_options) */
	const char *kcore;    /* a kcore_dir that is not in the recording */
	const char *kallsyms; /* files to use instead of those in the kcore_dir */
	const char *modules;
	const char *vmlinux;  /* gives bytes that nothing else gives; at most unconfirmed */
	const char *index;    /* a saved image, which makes opening fast */
	int32_t guest;        /* hypervisor's pid of the guest to open, 0: the host, -1: the guest
	                       * of "perf kvm", whose pid is not recorded */
	int32_t cpus;         /* CPUs of the machine, if perf did not finish; 0: not known */
	uint32_t flags;       /* TEXTREPLAY_SAVE_INDEX */
	uint32_t reserved;    /* 0 */
} textreplay_options;
#define TEXTREPLAY_OPTIONS_INIT { sizeof(textreplay_options), NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0 }

/* What a recording is. Strings belong to the textreplay: they are valid until it is closed and
 * its last cursor is freed. */
typedef struct textreplay_info {
	const char *kernel; /* release, as uname -r; "" if not known */
	const char *arch;   /* as uname -m; "" if not known */
	const char *clock;  /* "perf", "CLOCK_MONOTONIC", ... */
	const char *pokes;  /* verdict on recorded changes: "complete", "partial", "none", ... */
	uint64_t first;     /* time of the first record */
	uint64_t begin;     /* from when on every CPU was recorded */
	uint64_t horizon;   /* up to when the recording is complete: nothing is known after */
	uint64_t last;      /* time of the newest record */
	uint64_t text_lo;   /* core kernel text, [_stext, _etext); 0, 0 if not known */
	uint64_t text_hi;
	uint16_t machine;   /* ELF machine, EM_X86_64 is 62, EM_AARCH64 183; 0: not known */
	uint16_t reserved[3];
} textreplay_info;

/* An answer about a block of bytes. */
typedef struct textreplay_answer {
	uint64_t since, until;      /* when the block has these bytes and this standing */
	uint64_t window_free_until; /* until then no CPU meets a trap in the block; 0: one may do
	                             * so now, see textreplay_alternatives() */
	uint32_t given;             /* how many leading bytes were given; the rest is zero */
	uint8_t standing;           /* enum textreplay_standing, the least of all bytes */
	uint8_t reason;             /* why it is not known, see textreplay_reason() */
	uint16_t reserved;
} textreplay_answer;

/* Bytes of one page, as of a time. */
typedef struct textreplay_page {
	uint64_t addr;        /* a multiple of TEXTREPLAY_PAGE_SIZE */
	const uint8_t *bytes; /* TEXTREPLAY_PAGE_SIZE of them */
	textreplay_answer answer;
} textreplay_page;
#define TEXTREPLAY_PAGE_SIZE 4096u

/* A run of bytes with one answer. */
typedef struct textreplay_span {
	uint64_t addr, len;
	uint64_t since, until;
	uint8_t standing, reason, source; /* source: 1 snapshot, 2 poke, 3 program info, 4 window, 5 vmlinux */
	uint8_t reserved[5];
} textreplay_span;

/* A half-open range of addresses. */
typedef struct textreplay_range {
	uint64_t lo, hi;
} textreplay_range;

/* From time until until, the answer for [addr, addr+len) is another one than before. */
typedef struct textreplay_change {
	uint64_t addr, len;
	uint64_t time, until;
	uint8_t standing; /* enum textreplay_standing, of the new answer */
	uint8_t bytes;    /* 1: the bytes change, or come, or go; 0: only what is known of them */
	uint8_t reserved[6];
} textreplay_change;

/* The time around a change in which a CPU may meet a trap at [addr, addr+len). The
 * bytes are known all the same: the old ones before change, the new ones from it on. */
typedef struct textreplay_window {
	uint64_t addr, len;
	uint64_t from, until; /* every time at which a CPU may meet the trap */
	uint64_t change;      /* time of the change */
	uint8_t kind;         /* 0 batch, 1 kprobe armed, 2 disarmed, 3 unoptimised */
	uint8_t reserved[7];
} textreplay_window;

/* What a CPU may run at an address inside a window, or while a change is in flight. */
enum textreplay_choice { TEXTREPLAY_BEFORE = 1, TEXTREPLAY_AFTER = 2, TEXTREPLAY_TRAP = 3 };

/* What the handler of a trap does in place of the instruction. */
enum textreplay_effect {
	TEXTREPLAY_EFFECT_UNKNOWN = 0,
	TEXTREPLAY_EFFECT_NOP = 1,    /* continues at next */
	TEXTREPLAY_EFFECT_JUMP = 2,   /* continues at target */
	TEXTREPLAY_EFFECT_BRANCH = 3, /* continues at target or at next, by the flags */
	TEXTREPLAY_EFFECT_CALL = 4,   /* continues at target, and a return goes to next */
	TEXTREPLAY_EFFECT_RETURN = 5, /* returns to the caller */
	TEXTREPLAY_EFFECT_PROBE = 6   /* runs a kprobe, then the original instruction elsewhere */
};

/* One of the things that may be at an address inside a window, or while a change is in flight. */
typedef struct textreplay_alternative {
	uint64_t from, until;  /* when a CPU may meet it */
	uint64_t change;       /* time of the change; of one in flight, the earliest that it has */
	uint64_t target, next; /* of a trap: see enum textreplay_effect */
	uint8_t choice;        /* enum textreplay_choice */
	uint8_t effect;        /* of a trap: enum textreplay_effect */
	uint8_t len;           /* of bytes, up to 16 */
	uint8_t reserved[5];
	uint8_t bytes[16];     /* from the asked address on */
} textreplay_alternative;

/* A name. */
typedef struct textreplay_symbol {
	uint64_t addr, size; /* size 0: not known */
	uint64_t from, until;
	char name[512];      /* cut where it is longer; always ends with a zero byte */
	char module[64];     /* "" for core kernel text, "bpf" for BPF programs and images */
} textreplay_symbol;

/* --- library ------------------------------------------------------------------- */

/* The library's version, as TEXTREPLAY_VERSION. */
uint32_t textreplay_version(void);

/* A short English text for an error or for a result that is none. Static. */
const char *textreplay_strerror(int error);

/* What went wrong in the calling thread's last call that failed: a sentence with the
 * file and the offset where there is one. Valid until its next call that fails. "" if
 * none has. */
const char *textreplay_errmsg(void);

/* The name of a standing ("known") and the code of a reason ("after-loss"), "" for
 * numbers that are none. Static. docs/truth.md explains the codes. */
const char *textreplay_standing_name(int standing);
const char *textreplay_reason(int reason);

/* --- recordings ----------------------------------------------------------------- */

/* Opens a recording, a perf.data file or directory, and makes its image. options may be
 * NULL. On success the caller closes *out; on failure *out is NULL. */
int textreplay_open(const char *path, const textreplay_options *options, textreplay **out);

/* Closes a recording. Its files stay open until its last cursor is freed. NULL is
 * allowed. */
void textreplay_close(textreplay *tr);

/* Fills info. */
int textreplay_get_info(const textreplay *tr, textreplay_info *info);

/* TEXTREPLAY_ECHANGED if a file of the recording has changed since it was opened: answers
 * may be wrong then. A program that runs for long asks from time to time. */
int textreplay_check(const textreplay *tr);

/* Converts a counter value (TSC on x86, CNTVCT on arm64) to a time of the recording, and a
 * time to the first counter value that has that time or a later one, UINT64_MAX if none has.
 * A counter of less than 64 bits begins where the kernel began to convert it. TEXTREPLAY_ECLOCK
 * if the recording has no conversion, or if the counter's value is before the clock's zero or after
 * all of its times. */
int textreplay_time_of_tsc(const textreplay *tr, uint64_t tsc, uint64_t *time);
int textreplay_tsc_of_time(const textreplay *tr, uint64_t time, uint64_t *tsc);

/* The following four fill out with up to n elements and return how many there are, which
 * may be more than n. n may be 0 and out NULL then. */

/* The ranges of addresses that the recording says anything about, at any time. */
int64_t textreplay_ranges(const textreplay *tr, textreplay_range *out, size_t n);

/* The changes in [lo, hi) at times in [from, until), by address, then by time. A page, a
 * block or a section that has none keeps its answer for all that time. */
int64_t textreplay_changes(const textreplay *tr, uint64_t lo, uint64_t hi, uint64_t from, uint64_t until,
			   textreplay_change *out, size_t n);

/* The pages of TEXTREPLAY_PAGE_SIZE in [lo, hi) that change or have a window in
 * [from, until), by address. All others keep their answers. */
int64_t textreplay_changing_pages(const textreplay *tr, uint64_t lo, uint64_t hi, uint64_t from,
				  uint64_t until, uint64_t *out, size_t n);

/* The windows over any byte of [lo, hi) that are open at some time of [from, until), by
 * the times of their changes. */
int64_t textreplay_windows(const textreplay *tr, uint64_t lo, uint64_t hi, uint64_t from, uint64_t until,
			   textreplay_window *out, size_t n);

/* Calls visit with each version of [addr, addr+len) in [from, until), in the order of time;
 * the answer may reach further on both sides. bytes is valid during the call. A visit that
 * returns other than 0 ends it, and its result is returned. len is at most 16 MiB. */
typedef int textreplay_visit(void *ctx, const uint8_t *bytes, const textreplay_answer *answer);
int textreplay_versions(const textreplay *tr, uint64_t addr, size_t len, uint64_t from, uint64_t until,
			textreplay_visit *visit, void *ctx);

/* --- cursors -------------------------------------------------------------------- */

/* A cursor reads at one time, at first that of the recording's first record. It caches the
 * pages that it read, about a megabyte. The caller frees *out. */
int textreplay_cursor_new(textreplay *tr, textreplay_cursor **out);
void textreplay_cursor_free(textreplay_cursor *cur);

/* Sets the time of later questions. Setting the time costs nothing, in any order; forward
 * is what the cache is made for. TEXTREPLAY_FOREVER is in no interval: it sets the time before
 * it. The counter must be one of the recording's machine. cur must not be NULL in functions that
 * return no error. */
void textreplay_set_time(textreplay_cursor *cur, uint64_t time);
int textreplay_set_tsc(textreplay_cursor *cur, uint64_t tsc);
uint64_t textreplay_get_time(const textreplay_cursor *cur);

/* Reads len bytes at addr, at most 1 GiB. Bytes that no fact gives are zero; answer->given is
 * the number of leading bytes that were given. The answer is that of the whole block, and may be
 * NULL. Up to 16 bytes are read from the cursor's cache, larger blocks at once. A cached answer
 * may hold for longer than since and until say, never for less. */
int textreplay_read(textreplay_cursor *cur, uint64_t addr, void *buf, size_t len, textreplay_answer *answer);

/* Reads the page that addr is in. page->bytes belongs to the cursor, and is valid until its
 * next call of any kind but textreplay_set_time(). */
int textreplay_read_page(textreplay_cursor *cur, uint64_t addr, textreplay_page *page);

/* Fills out with up to n spans of [addr, addr+len), by address. A span does not contain its
 * bytes. Returns how many there are. */
int64_t textreplay_spans(textreplay_cursor *cur, uint64_t addr, uint64_t len, textreplay_span *out, size_t n);

/* What a CPU may run at addr at the cursor's time, if a window is open there: the first is
 * what textreplay_read() gives, if it gives any bytes; then a trap, then the other side of
 * the change. If facts contradict one another, what was read may be neither side: then both
 * follow. Two windows over one place give more: bytes that one change takes away and the other one
 * brings back are there for each of them. If a change is in flight at addr (TEXTREPLAY_IN_FLIGHT),
 * both of its sides are there, also without a window, if the architecture has a disassembler.
 * Fills out with up to n and returns how many there are, 0 at other times. */
int textreplay_alternatives(textreplay_cursor *cur, uint64_t addr, textreplay_alternative *out, size_t n);

/* Whether the trap handler may return to addr at the cursor's time if the trap was that of a
 * kprobe at probe: 1 or 0. It is 0 where another probe's handler returns to, so that a decoder
 * finds which of several probes a CPU met. A probe whose handler changes the address itself
 * (error injection) is not known to do so. */
int textreplay_probe_may_resume(textreplay_cursor *cur, uint64_t probe, uint64_t addr);

/* The symbol that covers addr at the cursor's time, else TEXTREPLAY_ENOTFOUND. */
int textreplay_symbol_at(textreplay_cursor *cur, uint64_t addr, textreplay_symbol *symbol);

/* Finds symbols by name, such as "vfs_read", "xfs:xfs_log_force" or "xfs_log_force [xfs]".
 * symbol.module says where each one is. They are those of the cursor's time; if there are none,
 * those of any other time. Fills out with up to n and returns how many there are. */
int64_t textreplay_lookup(textreplay_cursor *cur, const char *name, textreplay_symbol *out, size_t n);

/* Writes the instruction at addr into the size bytes of text, as "objdump -d" prints it and with
 * the names of the cursor's time. It is cut if it is longer, and always ends with a zero byte.
 * text may be NULL if size is 0. Returns the instruction's length in bytes, 0 if no bytes are
 * given there. TEXTREPLAY_EARCH if the architecture has no disassembler. */
int textreplay_disassemble(textreplay_cursor *cur, uint64_t addr, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif

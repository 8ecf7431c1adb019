/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * How it works.
 *
 * A first pass over the packets, without decoding, notes the points of synchronisation and the
 * timestamps. An instruction was executed between the timestamp before it and the one after it.
 *
 * A piece is the trace from one point of synchronisation to the next. It is decoded as a whole.
 * Most of the text does not change between its first and its last time. OpenCSD reads it in blocks,
 * and caches them. A word that changes in that time gets an accessor of its own:
 *
 *	accessors   [ ........... ][w][ ............ ][w][ ...... ]
 *
 * OpenCSD forgets its cache when it goes from one accessor to another. So such a word is
 * read anew each time the decoder comes to it, which is all the control that is needed. The
 * words are found on the way: a read that meets one ends the attempt, and the piece begins again.
 *
 * If a word has several values between the two timestamps, the adapter takes the first, and
 * notes that it had a choice. OpenCSD itself finds few contradictions: it skips atoms that come
 * where an address is needed, takes an address where none is needed, and walks over branches up
 * to the address of an exception. So the adapter compares packets and elements. Where they do not
 * fit, it decodes the piece again with another choice: the latest one first, since text
 * changes once, and not at every visit. Nothing is handed out before a piece fits.
 *
 * Both values may fit up to a return. Then the return's address decides, which must be that
 * of its call, unless nothing fits at all with that.
 */
#include "textreplay_ocsd.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL ((uint64_t)0xffff << 48) /* the kernel's half: text, modules, BPF, slots of kprobes */
#define MAX_REPLAYS 5000                /* of one piece */
#define MAX_WALK (1 << 20)              /* bytes that one packet may make OpenCSD read */
#define MAX_VALUES 4                    /* of one word between two timestamps */
#define MAX_STRICT 200                  /* replays in which each return must fit its call */
#define CALLS 64                        /* calls that are remembered */

/* A point of synchronisation, or a timestamp. */
struct mark {
	uint64_t offset;
	uint64_t time; /* of a timestamp, ns */
};

struct marks {
	struct mark *m;
	size_t n, cap;
};

/* What a word was between two timestamps. */
struct value {
	uint64_t since;
	uint32_t word;
};

/* A value that the decoder took for a word that changes. */
struct choice {
	uint64_t addr;
	struct value values[MAX_VALUES];
	uint8_t n, taken, tried; /* tried: a bit for each value */
};

struct insn {
	uint64_t addr;
	uint32_t word;
};

struct etm {
	const struct etm_options *o;
	textreplay *tr;
	textreplay_cursor *cur;
	dcd_tree_handle_t tree;
	struct etm_stats *st;
	int nomem;

	struct marks syncs, heads, times; /* heads: the end of the first address of each piece */
	int in_head, bad_time;

	/* The piece that is decoded. */
	uint64_t first, last; /* its times */
	uint64_t end;         /* offset of the next one */
	size_t before;        /* index of the newest timestamp before the packet */
	int started;          /* a timestamp was before */

	/* Words with accessors of their own, by address, and the start of each accessor. */
	uint64_t *words, *accessors;
	size_t nwords, capwords, naccessors, capaccessors;
	uint64_t since, until; /* when all that OpenCSD may have cached is valid */
	uint64_t split;        /* a word that needs an accessor; 0: none */

	/* Choices of this attempt, and how far the ones of the attempt before are repeated. */
	struct choice *choices;
	size_t nchoices, capchoices, made;
	/* Values that were read by the packet and are not yet in an element. */
	struct insn *queue;
	size_t nqueue, capqueue, head;

	/* What was decoded, to be handed out when the piece fits. */
	struct insn *out;
	size_t nout, capout;
	uint64_t traps;

	/* The state that packets and elements must agree on. */
	uint64_t next;    /* the next instruction; valid if !need */
	uint64_t address; /* of the last address packet, if seen */
	int need;         /* an address must come first */
	int lost;         /* it must, since there were no bytes */
	int skip;         /* go on behind words without bytes: no choice avoids them */
	uint64_t gaps;
	int seen;         /* an address came that no instruction followed yet */
	int trace_on;     /* it may be anywhere */
	int except;       /* 1: an exception's address comes next, 2: it has come */
	int same;         /* the exception's address is where the last branch leads */
	unsigned type;
	uint64_t resume;  /* the exception's address */
	int ranges, want_ranges, want_exception;
	uint64_t walked;
	/* Where the calls since the first choice return to. */
	uint64_t calls[CALLS];
	unsigned ncalls;
	uint64_t back; /* where the return that needs an address should lead; 0: not known */
	int strict;
	const char *wrong; /* why the attempt does not fit */
	uint64_t wrong_at;
	uint64_t offset;   /* of the packet */
	char message[128];
};

/* --- instructions ------------------------------------------------------------------ */

enum kind { PLAIN, DIRECT, CONDITIONAL, INDIRECT, BARRIER, TRAP };

static int is_brk(uint32_t w)
{
	return (w & 0xffe0001f) == 0xd4200000;
}

static int is_call(uint32_t w) /* BL, BLR */
{
	return (w & 0xfc000000) == 0x94000000 || (w & 0xfffffc1f) == 0xd63f0000;
}

static int is_return(uint32_t w) /* RET, RETAA, RETAB */
{
	return (w & 0xfffffc1f) == 0xd65f0000 || (w & 0xfffffbff) == 0xd65f0bff;
}

static int64_t sign_extend(uint32_t v, int bits)
{
	return (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits);
}

/* Which waypoint an instruction is, and where a direct branch leads. */
static enum kind classify(uint64_t addr, uint32_t w, uint64_t *target)
{
	if ((w & 0x7c000000) == 0x14000000) { /* B, BL */
		*target = addr + 4 * (uint64_t)sign_extend(w & 0x3ffffff, 26);
		return DIRECT;
	}
	if ((w & 0xff000000) == 0x54000000 || (w & 0x7e000000) == 0x34000000) { /* B.cond, CBZ, CBNZ */
		*target = addr + 4 * (uint64_t)sign_extend(w >> 5 & 0x7ffff, 19);
		return CONDITIONAL;
	}
	if ((w & 0x7e000000) == 0x36000000) { /* TBZ, TBNZ */
		*target = addr + 4 * (uint64_t)sign_extend(w >> 5 & 0x3fff, 14);
		return CONDITIONAL;
	}
	if ((w & 0xfe000000) == 0xd6000000) /* BR, BLR, RET, ERET and those that authenticate */
		return INDIRECT;
	if ((w & 0xfffff0ff) == 0xd50330df) /* ISB */
		return BARRIER;
	if (is_brk(w) || w >> 16 == 0) /* BRK, UDF: never executed to their end */
		return TRAP;
	return PLAIN;
}

/* --- memory of the adapter ----------------------------------------------------------- */

/* Makes room for one more element. */
static int grow(struct etm *d, void **p, size_t n, size_t *cap, size_t size)
{
	void *q;

	if (n < *cap)
		return 1;
	q = realloc(*p, (*cap ? 2 * *cap : 64) * size);
	if (!q) {
		d->nomem = 1;
		return 0;
	}
	*p = q;
	*cap = *cap ? 2 * *cap : 64;
	return 1;
}

static void mark(struct etm *d, struct marks *l, uint64_t offset, uint64_t time)
{
	if (grow(d, (void **)&l->m, l->n, &l->cap, sizeof(*l->m)))
		l->m[l->n++] = (struct mark){ offset, time };
}

static void put(struct etm *d, struct insn **l, size_t *n, size_t *cap, uint64_t addr, uint32_t word)
{
	if (grow(d, (void **)l, *n, cap, sizeof(**l)))
		(*l)[(*n)++] = (struct insn){ addr, word };
}

/* --- contradictions --------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void wrong(struct etm *d, const char *what, ...)
{
	va_list ap;

	if (d->wrong)
		return;
	va_start(ap, what);
	vsnprintf(d->message, sizeof(d->message), what, ap);
	va_end(ap);
	d->wrong = d->message;
	d->wrong_at = d->offset;
}

/* The decoder goes on at an address: the one of an address packet, or the next one. */
static void go_on(struct etm *d)
{
	if (d->seen) {
		if (!d->need && !d->trace_on && d->address != d->next)
			wrong(d, "the trace is at %llx, the decoder at %llx", (unsigned long long)d->address, (unsigned long long)d->next);
		/* Code that was entered by a choice returns to its call. Tasks that are switched, and
		 * return addresses that a tracer replaced, do not: see decode_piece(). */
		if (d->need && d->strict && d->back && d->address != d->back && !d->trace_on)
			wrong(d, "a return leads to %llx, its call was before %llx", (unsigned long long)d->address, (unsigned long long)d->back);
		d->back = 0;
		d->next = d->address;
		d->need = d->lost = d->seen = d->trace_on = 0;
	} else if ((d->need && !d->lost) || d->trace_on) {
		wrong(d, "the trace has no address after a branch");
	}
}

/* All elements of the packet before must have come. */
static void packet_ends(struct etm *d)
{
	if (d->ranges < d->want_ranges && !d->lost)
		wrong(d, "the trace has outcomes of branches after one that needs an address");
	if (d->want_exception)
		wrong(d, "the exception at %llx is not reached", (unsigned long long)d->resume);
	d->ranges = d->want_ranges = d->want_exception = 0;
	d->nqueue = d->head = 0;
	d->walked = 0;
}

/* --- the times of a packet -------------------------------------------------------------- */

static uint64_t time_before(const struct etm *d)
{
	return d->started ? d->times.m[d->before].time : d->first;
}

static uint64_t time_after(const struct etm *d)
{
	size_t i = d->started ? d->before + 1 : 0;

	return i < d->times.n ? d->times.m[i].time : d->last;
}

/* --- text --------------------------------------------------------------------------------- */

/* Whether the answer is the only one from first to last. A clock has ticks: what changed
 * at the time of a timestamp may have changed before or after the instruction. */
static int settled(const textreplay_answer *a, uint64_t first, uint64_t last)
{
	return a->standing != TEXTREPLAY_IN_FLIGHT && (!a->since || a->since < first) && last < a->until &&
	       last < a->window_free_until;
}

static int has_bytes(const textreplay_answer *a)
{
	return a->standing >= TEXTREPLAY_RETIRED;
}

static int is_split(const struct etm *d, uint64_t addr)
{
	size_t lo = 0, hi = d->nwords;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (d->words[mid] < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < d->nwords && d->words[lo] == addr;
}

struct values {
	struct etm *d;
	uint64_t addr, first, last;
	struct value v[MAX_VALUES];
	int n, brk;
};

static void add_value(struct values *v, const uint8_t *bytes, uint64_t since)
{
	uint32_t w;

	memcpy(&w, bytes, 4);
	if (is_brk(w))
		v->brk = 1;
	for (int i = 0; i < v->n; i++)
		if (v->v[i].word == w)
			return;
	if (v->n < MAX_VALUES)
		v->v[v->n++] = (struct value){ since, w };
}

static int visit_version(void *ctx, const uint8_t *bytes, const textreplay_answer *a)
{
	struct values *v = ctx;
	textreplay_alternative alt[8];
	int64_t n;

	if (a->given >= 4 && has_bytes(a))
		add_value(v, bytes, a->since);
	textreplay_set_time(v->d->cur, a->since > v->first ? a->since : v->first);
	n = textreplay_alternatives(v->d->cur, v->addr, alt, sizeof(alt) / sizeof(alt[0]));
	for (int64_t i = 0; i < n && i < (int64_t)(sizeof(alt) / sizeof(alt[0])); i++) {
		if (alt[i].choice == TEXTREPLAY_TRAP)
			v->brk = 1;
		else if (alt[i].len >= 4)
			add_value(v, alt[i].bytes, alt[i].from);
	}
	return 0;
}

/* All values of a word between the two timestamps, in the order of time. */
static void values_of(struct etm *d, uint64_t addr, struct values *v)
{
	memset(v, 0, sizeof(*v));
	v->d = d;
	v->addr = addr;
	v->first = time_before(d);
	v->last = time_after(d);
	if (v->first)
		v->first--; /* the value at the end of the tick before */
	textreplay_versions(d->tr, addr, 4, v->first, v->last + 1, visit_version, v);
	textreplay_set_time(d->cur, d->first);
}

/* Reads a word that has an accessor of its own. A BRK is never executed, and OpenCSD does not
 * mind what is at the address of an exception: so it is not offered if there is anything else. */
static uint32_t read_changing(struct etm *d, uint64_t addr, uint8_t *buf)
{
	struct values v;
	struct choice *c;
	int n = 0;

	values_of(d, addr, &v);
	for (int i = 0; i < v.n; i++)
		if (!is_brk(v.v[i].word))
			v.v[n++] = v.v[i];
	if (n)
		v.n = n;
	if (!v.n)
		return 0;
	d->st->choices++;
	if (v.n == 1) {
		memcpy(buf, &v.v[0].word, 4);
		put(d, &d->queue, &d->nqueue, &d->capqueue, addr, v.v[0].word);
		return 4;
	}
	if (d->made == d->nchoices) {
		/* Not chosen before: the value at the first timestamp, or the one that the last visit took
		 * if that is newer. */
		if (!grow(d, (void **)&d->choices, d->nchoices, &d->capchoices, sizeof(*d->choices)))
			return 0;
		c = &d->choices[d->nchoices++];
		memset(c, 0, sizeof(*c));
		c->addr = addr;
		c->n = (uint8_t)v.n;
		memcpy(c->values, v.v, sizeof(c->values));
		for (size_t i = d->made; i-- > 0;)
			if (d->choices[i].addr == addr) {
				const struct choice *l = &d->choices[i];
				for (uint8_t k = 0; k < c->n; k++)
					if (c->values[k].since > c->values[0].since && c->values[k].since == l->values[l->taken].since)
						c->taken = k;
				break;
			}
		c->tried = (uint8_t)(1 << c->taken);
	}
	c = &d->choices[d->made++];
	memcpy(buf, &c->values[c->taken].word, 4);
	put(d, &d->queue, &d->nqueue, &d->capqueue, addr, c->values[c->taken].word);
	return 4;
}

/* OpenCSD's callback. It returns how many bytes it has from addr on. */
static uint32_t read_mem(const void *ctx, const ocsd_vaddr_t addr, const ocsd_mem_space_acc_t space, const uint32_t want,
			 uint8_t *buf)
{
	struct etm *d = (struct etm *)ctx;
	uint32_t n = want & ~3u;
	textreplay_answer a;

	(void)space;
	d->st->reads++;
	d->walked += want;
	if (d->wrong || d->walked > MAX_WALK) {
		wrong(d, "the decoder walks far without a packet");
		return 0;
	}
	if (d->o->text)
		return d->o->text(d->o->text_ctx, addr, buf, want);
	if (is_split(d, addr))
		return n ? read_changing(d, addr, buf) : 0;
	/* All at once, or as much from the front as is settled. */
	for (;;) {
		if (!n || textreplay_read(d->cur, addr, buf, n, &a) < 0)
			return 0;
		if (has_bytes(&a) && settled(&a, d->first, d->last))
			break;
		if (n == 4) {
			/* Nothing but the values between the timestamps decides about this word. */
			if (!settled(&a, d->first, d->last)) {
				d->split = addr;
				wrong(d, "a word changes");
			}
			return 0;
		}
		n = n / 2 & ~3u;
	}
	if (a.since > d->since)
		d->since = a.since;
	if (a.until < d->until)
		d->until = a.until;
	if (a.window_free_until < d->until)
		d->until = a.window_free_until;
	return n;
}

/* --- accessors ------------------------------------------------------------------------------- */

static void remove_accessors(struct etm *d)
{
	for (size_t i = 0; i < d->naccessors; i++)
		ocsd_dt_remove_mem_acc(d->tree, d->accessors[i], OCSD_MEM_SPACE_ANY);
	d->naccessors = 0;
}

static void add_accessor(struct etm *d, uint64_t from, uint64_t last)
{
	if (from > last || !grow(d, (void **)&d->accessors, d->naccessors, &d->capaccessors, sizeof(*d->accessors)))
		return;
	if (ocsd_dt_add_callback_mem_acc(d->tree, from, last, OCSD_MEM_SPACE_ANY, read_mem, d) != OCSD_OK) {
		d->nomem = 1;
		return;
	}
	d->accessors[d->naccessors++] = from;
}

/* Adds all accessors anew. What OpenCSD cached is forgotten. */
static void set_accessors(struct etm *d)
{
	uint64_t from = KERNEL;

	remove_accessors(d);
	for (size_t i = 0; i < d->nwords; i++) {
		add_accessor(d, from, d->words[i] - 1);
		add_accessor(d, d->words[i], d->words[i] + 3);
		from = d->words[i] + 4;
	}
	add_accessor(d, from, UINT64_MAX);
	d->since = 0;
	d->until = TEXTREPLAY_FOREVER;
	d->st->flushes++;
}

static void split_word(struct etm *d, uint64_t addr)
{
	size_t i;

	if (!grow(d, (void **)&d->words, d->nwords, &d->capwords, sizeof(*d->words)))
		return;
	for (i = d->nwords; i > 0 && d->words[i - 1] > addr; i--)
		d->words[i] = d->words[i - 1];
	d->words[i] = addr;
	d->nwords++;
	d->st->splits++;
	set_accessors(d);
}

/* Begins a piece: words that do not change in its time go back into the others. */
static void begin_piece(struct etm *d)
{
	size_t n = 0;

	if (d->tr)
		textreplay_set_time(d->cur, d->first);
	for (size_t i = 0; i < d->nwords; i++) {
		textreplay_answer a;
		uint8_t b[4];
		if (textreplay_read(d->cur, d->words[i], b, 4, &a) < 0 || !settled(&a, d->first, d->last))
			d->words[n++] = d->words[i];
	}
	if (!d->naccessors || n != d->nwords || (d->since && d->since >= d->first) || d->last >= d->until) {
		d->nwords = n;
		set_accessors(d);
	}
}

/* --- packets and elements ---------------------------------------------------------------- */

/* The first pass: where the trace can be entered, and its times. */
static void scan_packet(const void *ctx, const ocsd_datapath_op_t op, const ocsd_trc_index_t index, const void *pkt,
			const uint32_t size, const uint8_t *data)
{
	struct etm *d = (struct etm *)ctx;
	const ocsd_etmv4_i_pkt *p = pkt;
	uint64_t t;

	(void)data;
	if (op != OCSD_OP_DATA)
		return;
	switch (p->type) {
	case ETM4_PKT_I_ASYNC:
		if (d->in_head) /* no address: not a point to enter */
			d->syncs.n--;
		mark(d, &d->syncs, index, 0);
		d->in_head = 1;
		break;
	case ETM4_PKT_I_TIMESTAMP:
		t = p->ts.timestamp;
		if (!d->o->ns && !d->o->text && textreplay_time_of_tsc(d->tr, p->ts.timestamp, &t)) {
			d->bad_time = 1;
			break;
		}
		mark(d, &d->times, index, t);
		break;
	case ETM4_PKT_I_ADDR_L_64IS0:
	case ETM4_PKT_I_ADDR_CTXT_L_64IS0:
		if (d->in_head)
			mark(d, &d->heads, index + size, 0);
		d->in_head = 0;
		break;
	default:
		break;
	}
}

static ocsd_datapath_resp_t scan_nothing(const void *ctx, const ocsd_datapath_op_t op, const ocsd_trc_index_t index,
					 const void *pkt)
{
	(void)ctx, (void)op, (void)index, (void)pkt;
	return OCSD_RESP_CONT;
}

/* Sees each packet before OpenCSD decodes it. */
static void packet(const void *ctx, const ocsd_datapath_op_t op, const ocsd_trc_index_t index, const void *pkt,
		   const uint32_t size, const uint8_t *data)
{
	struct etm *d = (struct etm *)ctx;
	const ocsd_etmv4_i_pkt *p = pkt;

	(void)size;
	(void)data;
	if (op != OCSD_OP_DATA)
		return;
	packet_ends(d);
	d->offset = index;
	switch (p->type) {
	case ETM4_PKT_I_TIMESTAMP:
		while ((d->started ? d->before + 1 : 0) < d->times.n && d->times.m[d->started ? d->before + 1 : 0].offset <= index) {
			d->before = d->started ? d->before + 1 : 0;
			d->started = 1;
		}
		break;
	case ETM4_PKT_I_TRACE_ON:
	case ETM4_PKT_I_OVERFLOW:
	case ETM4_PKT_I_DISCARD:
		d->trace_on = 1;
		d->seen = 0;
		break;
	case ETM4_PKT_I_ATOM_F1:
	case ETM4_PKT_I_ATOM_F2:
	case ETM4_PKT_I_ATOM_F3:
	case ETM4_PKT_I_ATOM_F4:
	case ETM4_PKT_I_ATOM_F5:
	case ETM4_PKT_I_ATOM_F6:
		go_on(d);
		d->want_ranges = p->atom.num;
		break;
	case ETM4_PKT_I_EXCEPT:
		d->except = 1;
		d->same = p->exception_info.addr_interp == 2;
		d->type = p->exception_info.exceptionType;
		break;
	case ETM4_PKT_I_ADDR_MATCH:
	case ETM4_PKT_I_ADDR_S_IS0:
	case ETM4_PKT_I_ADDR_L_32IS0:
	case ETM4_PKT_I_ADDR_L_64IS0:
	case ETM4_PKT_I_ADDR_CTXT_L_32IS0:
	case ETM4_PKT_I_ADDR_CTXT_L_64IS0:
		if (d->except) {
			d->except = 0;
			d->resume = p->v_addr.val;
			if (d->same) {
				d->address = d->resume;
				d->seen = 1;
			}
			go_on(d);
			d->want_exception = 1;
			break;
		}
		d->address = p->v_addr.val;
		d->seen = 1;
		/* The head of the next piece: its address is where this one ends. */
		if (index >= d->end)
			go_on(d);
		break;
	case ETM4_PKT_I_BAD_SEQUENCE:
	case ETM4_PKT_I_BAD_TRACEMODE:
	case ETM4_PKT_I_RESERVED:
		wrong(d, "a packet is not valid");
		break;
	default:
		break;
	}
}

/* A range of instructions. The last one is the waypoint of an atom, unless an exception ends
 * the range. */
static void range(struct etm *d, const ocsd_generic_trace_elem *e)
{
	int to_exception = d->want_exception;

	if (e->st_addr != d->next)
		wrong(d, "OpenCSD is at %llx, the trace at %llx", (unsigned long long)e->st_addr, (unsigned long long)d->next);
	for (uint64_t a = e->st_addr; a < e->en_addr && !d->wrong; a += 4) {
		int waypoint = !to_exception && a + 4 == e->en_addr;
		uint64_t target = 0;
		uint8_t b[4] = { 0 };
		uint32_t w;
		enum kind k;

		if (d->o->text) {
			d->o->text(d->o->text_ctx, a, b, 4);
			memcpy(&w, b, 4);
		} else if (is_split(d, a)) {
			if (d->head >= d->nqueue || d->queue[d->head].addr != a) {
				wrong(d, "%llx was not read", (unsigned long long)a);
				return;
			}
			w = d->queue[d->head++].word;
		} else {
			textreplay_read(d->cur, a, b, 4, NULL);
			memcpy(&w, b, 4);
		}
		k = classify(a, w, &target);
		if (k == TRAP)
			wrong(d, "nothing executes %08x at %llx", w, (unsigned long long)a);
		else if (!waypoint && k != PLAIN)
			wrong(d, "the trace has no outcome for the branch at %llx", (unsigned long long)a);
		else if (waypoint && !e->last_instr_exec && k != CONDITIONAL)
			wrong(d, "the trace does not take what %llx always does", (unsigned long long)a);
		if (d->wrong)
			return;
		put(d, &d->out, &d->nout, &d->capout, a, w);
		d->next = a + 4;
		if (waypoint && e->last_instr_exec) {
			d->back = 0;
			if (is_call(w) && d->made)
				d->calls[d->ncalls++ % CALLS] = a + 4;
			else if (is_return(w) && d->ncalls)
				d->back = d->calls[--d->ncalls % CALLS];
			if (k == INDIRECT)
				d->need = 1;
			else if (k == DIRECT || k == CONDITIONAL)
				d->next = target;
		}
	}
	d->ranges++;
}

/* Whether a BRK may have been at the address of a debug exception. Other causes of it, as a
 * hardware breakpoint, have no BRK: this is a contradiction only where text changes. */
static void exception(struct etm *d, const ocsd_generic_trace_elem *e)
{
	const unsigned inst_debug = 6;

	d->want_exception = 0;
	if (!d->lost && d->next != e->en_addr)
		wrong(d, "an exception at %llx, the decoder is at %llx", (unsigned long long)e->en_addr, (unsigned long long)d->next);
	if (d->type == inst_debug && d->tr && !d->o->text && is_split(d, e->en_addr)) {
		struct values v;
		values_of(d, e->en_addr, &v);
		if (v.brk)
			d->traps++;
		else
			wrong(d, "an exception of BRK at %llx, which has none", (unsigned long long)e->en_addr);
	}
	d->need = 1;
	d->back = 0;
	d->lost = d->seen = 0;
}

static ocsd_datapath_resp_t element(const void *ctx, const ocsd_trc_index_t index, const uint8_t channel,
				    const ocsd_generic_trace_elem *e)
{
	struct etm *d = (struct etm *)ctx;

	(void)index;
	(void)channel;
	switch (e->elem_type) {
	case OCSD_GEN_TRC_ELEM_INSTR_RANGE:
		range(d, e);
		break;
	case OCSD_GEN_TRC_ELEM_EXCEPTION:
		exception(d, e);
		break;
	case OCSD_GEN_TRC_ELEM_ADDR_NACC:
		/* OpenCSD goes on at the next address that the trace has. */
		if (!d->skip || d->split || d->walked > MAX_WALK)
			wrong(d, "no bytes at %llx", (unsigned long long)e->st_addr);
		d->need = d->lost = 1;
		d->ncalls = 0;
		d->back = 0;
		d->gaps++;
		break;
	default:
		break;
	}
	return d->wrong ? OCSD_RESP_FATAL_INVALID_DATA : OCSD_RESP_CONT;
}

/* --- pieces -------------------------------------------------------------------------------- */

/* Feeds a tree with part of the trace; false if that ends early. */
static int feed(dcd_tree_handle_t tree, const uint8_t *trace, uint64_t from, uint64_t to)
{
	uint32_t done;

	while (from < to) {
		uint32_t n = to - from > 1 << 30 ? 1 << 30 : (uint32_t)(to - from);
		if (OCSD_DATA_RESP_IS_FATAL(ocsd_dt_process_data(tree, OCSD_OP_DATA, from, n, trace + from, &done)) || !done)
			return 0;
		from += done;
	}
	return 1;
}

/* Decodes the piece once. */
static void attempt(struct etm *d, const uint8_t *trace, uint64_t from, uint64_t to, size_t before, int started)
{
	d->made = d->nqueue = d->head = d->nout = 0;
	d->traps = d->gaps = 0;
	d->before = before;
	d->started = started;
	d->need = d->lost = d->seen = d->except = d->ranges = d->want_ranges = d->want_exception = 0;
	d->trace_on = 1;
	d->ncalls = 0;
	d->split = d->walked = d->back = 0;
	d->wrong = NULL;
	ocsd_dt_process_data(d->tree, OCSD_OP_RESET, 0, 0, NULL, NULL);
	if (!feed(d->tree, trace, from, to))
		wrong(d, "OpenCSD cannot decode");
	packet_ends(d);
	if (d->seen) /* the trace ends with an address */
		go_on(d);
}

/* Takes the next value of the latest choice that has one. */
static int next_choice(struct etm *d)
{
	d->nchoices = d->made;
	for (; d->nchoices > 0; d->nchoices--) {
		struct choice *c = &d->choices[d->nchoices - 1];
		for (uint8_t i = 0; i < c->n; i++)
			if (!(c->tried >> i & 1)) {
				c->taken = i;
				c->tried |= (uint8_t)(1 << i);
				return 1;
			}
	}
	return 0;
}

static void decode_piece(struct etm *d, const uint8_t *trace, uint64_t from, uint64_t to, etm_insn *insn, etm_error *error,
			 void *ctx)
{
	struct insn *best = NULL;
	size_t before = 0, nbest = 0, furthest = 0;
	uint64_t worst = 0;
	char why[sizeof(d->message)];
	int started = 0, replays = 0, no_bytes = 0;

	/* The times of the piece: from the newest timestamp before it to the first one behind it. */
	for (size_t lo = 0, hi = d->times.n; lo < hi;) {
		size_t mid = (lo + hi) / 2;
		if (d->times.m[mid].offset < from) {
			before = mid;
			started = 1;
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	d->first = d->last = 0;
	if (d->times.n) {
		size_t i = before;
		d->first = d->times.m[before].time;
		while (i + 1 < d->times.n && d->times.m[i].offset < d->end)
			i++;
		d->last = d->times.m[i].time;
	}
	d->nchoices = 0;
	d->skip = 0;
	d->strict = !d->o->no_alternatives && !d->o->text;
	begin_piece(d);
	for (;;) {
		attempt(d, trace, from, to, before, started);
		if (d->nomem || !d->wrong)
			break;
		if (d->split) {
			/* The choices up to there are made again. */
			d->nchoices = d->made;
			split_word(d, d->split);
			continue;
		}
		if (d->wrong_at >= worst) {
			struct insn *p = realloc(best, (d->nout + 1) * sizeof(*best));
			if (p) {
				best = p;
				memcpy(best, d->out, d->nout * sizeof(*best));
				nbest = d->nout;
			}
			worst = d->wrong_at;
			furthest = 1;
			memcpy(why, d->message, sizeof(why));
		}
		no_bytes |= d->gaps > 0;
		if (!d->o->no_alternatives && ++replays <= (d->strict ? MAX_STRICT : MAX_REPLAYS) && next_choice(d)) {
			d->st->replays++;
			continue;
		}
		if (d->strict) {
			/* A return may lead elsewhere than behind its call after all. */
			d->strict = 0;
			d->nchoices = 0;
			worst = 0;
			replays = 0;
			continue;
		}
		/* No choice fits. If one failed for want of bytes, the others were wrong. */
		if (!no_bytes || d->skip)
			break;
		d->skip = 1;
		d->nchoices = 0;
		worst = 0;
		replays = 0;
	}
	if (d->wrong && furthest) {
		for (size_t i = 0; i < nbest; i++)
			insn(ctx, best[i].addr, best[i].word);
		d->st->insns += nbest;
		d->st->errors++;
		error(ctx, worst, why);
	} else {
		for (size_t i = 0; i < d->nout; i++)
			insn(ctx, d->out[i].addr, d->out[i].word);
		d->st->insns += d->nout;
		d->st->traps += d->traps;
		d->st->gaps += d->gaps;
	}
	free(best);
}

static dcd_tree_handle_t new_tree(struct etm *d, const ocsd_etmv4_cfg *cfg, int flags, FnDefPktDataMon monitor)
{
	dcd_tree_handle_t tree = ocsd_create_dcd_tree(OCSD_TRC_SRC_SINGLE, 0);
	uint8_t id;

	if (tree == C_API_INVALID_TREE_HANDLE)
		return tree;
	if (ocsd_dt_create_decoder(tree, OCSD_BUILTIN_DCD_ETMV4I, flags, cfg, &id) != OCSD_OK ||
	    ocsd_dt_attach_packet_callback(tree, id, OCSD_C_API_CB_PKT_MON, (void *)monitor, d) != OCSD_OK ||
	    (flags == OCSD_CREATE_FLG_FULL_DECODER
		     ? ocsd_dt_set_gen_elem_outfn(tree, element, d) != OCSD_OK
		     : ocsd_dt_attach_packet_callback(tree, id, OCSD_C_API_CB_PKT_SINK, (void *)scan_nothing, d) != OCSD_OK)) {
		ocsd_destroy_dcd_tree(tree);
		return C_API_INVALID_TREE_HANDLE;
	}
	return tree;
}

int etm_decode(textreplay *tr, const ocsd_etmv4_cfg *cfg, const struct etm_options *options, const uint8_t *trace,
	       size_t size, etm_insn *insn, etm_error *error, void *ctx, struct etm_stats *stats)
{
	struct etm d = { .o = options, .tr = tr, .st = stats };
	dcd_tree_handle_t scan;

	memset(stats, 0, sizeof(*stats));
	if (tr && textreplay_cursor_new(tr, &d.cur))
		return -1;
	scan = new_tree(&d, cfg, OCSD_CREATE_FLG_PACKET_PROC, scan_packet);
	d.tree = new_tree(&d, cfg, OCSD_CREATE_FLG_FULL_DECODER, packet);
	if (scan == C_API_INVALID_TREE_HANDLE || d.tree == C_API_INVALID_TREE_HANDLE) {
		d.nomem = 1;
	} else {
		feed(scan, trace, 0, size);
		if (d.in_head)
			d.syncs.n--;
		if (d.bad_time) {
			error(ctx, 0, "the recording does not convert a timestamp");
			stats->errors++;
		}
	}
	for (size_t i = 0; i < d.syncs.n && !d.nomem && !d.bad_time; i++) {
		int more = i + 1 < d.syncs.n;
		d.end = more ? d.syncs.m[i + 1].offset : size;
		decode_piece(&d, trace, d.syncs.m[i].offset, more ? d.heads.m[i + 1].offset : size, insn, error, ctx);
	}
	if (d.tree != C_API_INVALID_TREE_HANDLE) {
		remove_accessors(&d);
		ocsd_destroy_dcd_tree(d.tree);
	}
	if (scan != C_API_INVALID_TREE_HANDLE)
		ocsd_destroy_dcd_tree(scan);
	textreplay_cursor_free(d.cur);
	free(d.syncs.m);
	free(d.heads.m);
	free(d.times.m);
	free(d.words);
	free(d.accessors);
	free(d.choices);
	free(d.queue);
	free(d.out);
	return d.nomem ? -1 : 0;
}

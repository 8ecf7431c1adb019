// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// Values in a call chain from CallchainContextMax on are not addresses: they say in
// whose code the addresses that follow lie (enum perf_callchain_context of
// include/uapi/linux/perf_event.h, where they are negative).
const (
	CallchainHypervisor   = ^uint64(32 - 1)
	CallchainKernel       = ^uint64(128 - 1)
	CallchainUser         = ^uint64(512 - 1)
	CallchainUserDeferred = ^uint64(640 - 1) // the user's part comes in a CALLCHAIN_DEFERRED record with the cookie that follows
	CallchainGuest        = ^uint64(2048 - 1)
	CallchainGuestKernel  = ^uint64(2176 - 1)
	CallchainGuestUser    = ^uint64(2560 - 1)
	CallchainContextMax   = ^uint64(4095 - 1) // as a u64 the least of these values
)

// A CallchainDeferred is a CALLCHAIN_DEFERRED record: the user's part of call
// chains, which the kernel unwinds when it returns to user space, once for all
// samples that were taken since it was entered (perf_event_callchain_deferred
// of kernel/events/core.c). [DeferredCallchains] joins the two.
type CallchainDeferred struct {
	Cookie uint64 // samples have it in place of this part
	IPs    Words  // begins with CallchainUser; aliases Record.Raw
	SampleID
}

const callchainDeferredIPs = 24 // header, u64 cookie, nr

// CallchainDeferred decodes a CALLCHAIN_DEFERRED record into c, without
// allocating. The error, where the record is too short, is a [*FormatError].
func (r *Recording) CallchainDeferred(rec *Record, c *CallchainDeferred) error {
	*c = CallchainDeferred{}
	if rec.Type != RecordCallchainDeferred {
		return r.notA(rec, RecordCallchainDeferred, "")
	}
	end, err := r.trailer(rec, &c.SampleID)
	if err != nil {
		return err
	}
	if end < callchainDeferredIPs {
		return r.recordErr(rec, "record of %d bytes is too short", len(rec.Raw))
	}
	raw, e := rec.Raw, r.endian
	nr, b := e.u64(raw[16:]), raw[callchainDeferredIPs:end]
	if nr > uint64(len(b)/8) {
		return r.recordErr(rec, "%d addresses do not fit in %d bytes", nr, len(raw))
	}
	c.Cookie, c.IPs = e.u64(raw[8:]), e.words(b, int(nr))
	return nil
}

// DeferredCallchains holds the user parts of call chains that were recorded
// later than the samples which they belong to. The zero value is empty. It
// takes memory for all that is added, 8 bytes an address.
//
//	var deferred perfdata.DeferredCallchains
//	// in a first pass, over the CALLCHAIN_DEFERRED records:
//	deferred.Add(&chain)
//	// in a second one, over the samples:
//	ips, whole, err := deferred.Join(ips[:0], &sample)
type DeferredCallchains struct {
	parts map[deferredKey]deferredPart
	ips   []uint64
}

// A cookie counts the entries into the kernel on one CPU; the task guards
// against cookies of two machines in one recording.
type deferredKey struct {
	cookie uint64
	tid    uint32
}

// A deferredPart is ips[start:end].
type deferredPart struct{ start, end int }

// Add adds a copy of a record. If several events of a CPU recorded the same part,
// the first record is kept.
func (d *DeferredCallchains) Add(c *CallchainDeferred) {
	key := deferredKey{c.Cookie, c.TID}
	if _, ok := d.parts[key]; ok {
		return
	}
	if d.parts == nil {
		d.parts = make(map[deferredKey]deferredPart)
	}
	start := len(d.ips)
	d.ips = c.IPs.AppendTo(d.ips)
	d.parts[key] = deferredPart{start, len(d.ips)}
}

// Join appends the sample's call chain to dst. If its user part was deferred and
// has been added, that part replaces CallchainUserDeferred and the cookie. If it
// has not been added, these two remain and whole is false. The error is that of
// [Sample.Callchain]; chain is then dst.
func (d *DeferredCallchains) Join(dst []uint64, s *Sample) (chain []uint64, whole bool, err error) {
	ips, err := s.Callchain()
	if err != nil {
		return dst, false, err
	}
	dst = ips.AppendTo(dst)
	cookie, ok := deferredCookie(ips)
	if !ok {
		return dst, true, nil
	}
	part, ok := d.parts[deferredKey{cookie, s.TID}]
	if !ok {
		return dst, false, nil
	}
	return append(dst[:len(dst)-2], d.ips[part.start:part.end]...), true, nil
}

// deferredCookie returns the cookie of a call chain whose user part was
// deferred, and whether it was.
func deferredCookie(chain Words) (cookie uint64, ok bool) {
	n := chain.Len()
	if n < 2 || chain.At(n-2) != CallchainUserDeferred {
		return 0, false
	}
	return chain.At(n - 1), true
}

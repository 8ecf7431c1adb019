// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/web"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// webText gives the pages of web and report the words of the other commands.
type webText struct {
	a              *app
	r              *replay.Replay
	c              *coder
	verdict, level string
}

func newWebText(a *app, r *replay.Replay) (*webText, error) {
	c, err := newCoder(r)
	if err != nil {
		return nil, err
	}
	d := &digest{Report: r.Report, r: r}
	t := &webText{a: a, r: r, c: c, verdict: d.trust(), level: "good"}
	switch {
	case d.Trusted.To == 0:
		t.level = "none"
	case d.Coverage.Pokes.Verdict != replay.Complete || d.Report.Conflicts > 0:
		t.level = "partly"
	}
	return t, nil
}

func (t *webText) Verdict() (line, level string) { return t.verdict, t.level }

func (t *webText) Insts(v timeline.View, addr, n uint64, over []byte) []disasm.Inst {
	return t.c.instsAt(v, addr, n, over)
}

func (t *webText) Name(v timeline.View, addr uint64) string    { return t.c.nameOf(v, addr) }
func (t *webText) Heading(v timeline.View, addr uint64) string { return t.c.heading(v, addr) }

func (t *webText) Named(symbol string) (*web.NamedCode, error) {
	f, err := newSymbolFilter(t.r, symbol)
	if err != nil {
		return nil, err
	}
	return &web.NamedCode{Symbols: f.found, Has: f.has}, nil
}

func (t *webText) Trap(v timeline.View, w *timeline.Window) string {
	switch trap := t.r.Effect(w); trap.Kind {
	case replay.EffectUnknown:
		return ""
	case replay.EffectProbe:
		return "it runs a probe, then the original instruction elsewhere"
	case replay.EffectJump, replay.EffectBranch, replay.EffectCall:
		return "it acts as a " + trap.Kind.String() + " to " + addrText(v, trap.Target)
	default:
		return "it acts as a " + trap.Kind.String()
	}
}

func (t *webText) Diff(from, to replay.Times, symbol string, most int) (*web.Diff, error) {
	d := &diff{app: t.a, r: t.r, c: t.c, symbol: symbol}
	if err := d.find([2]replay.Times{from, to}); err != nil {
		return nil, err
	}
	out := &web.Diff{Summary: strings.TrimSuffix(d.summary(), " (--standing lists them)")}
	for i, t := range [2]replay.Times{from, to} {
		if d.moving[i] > 0 {
			out.Warnings = append(out.Warnings, movingText(d.moving[i], whatDiffs, t))
		}
	}
	for x := range d.listed {
		if len(out.Places) == most {
			out.More++
			continue
		}
		p := web.DiffPlace{Change: changeKeys[x.change], Addr: x.addr, Len: x.n, Name: t.c.nameOf(d.where(x), x.addr)}
		if x.change == changeBytes {
			p.Before, p.After, _ = strings.Cut(t.c.transition(d.before, d.after, x.addr, x.n), "  ->  ")
		}
		out.Places = append(out.Places, p)
	}
	return out, nil
}

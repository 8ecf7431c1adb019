// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

// jsonOops is one line of the log. Fields that its kind does not have are left out.
type jsonOops struct {
	Line     int           `json:"line"`
	Kind     string        `json:"kind"` // report, ip, link, trace, code
	Text     string        `json:"text"`
	Time     *jsonInterval `json:"time"` // null if the log has none that converts
	TimeBy   string        `json:"time_by,omitempty"`
	Place    string        `json:"place,omitempty"`
	Addr     *string       `json:"addr,omitempty"`
	Symbol   *jsonSymbol   `json:"symbol,omitempty"`
	Unsure   bool          `json:"unsure,omitempty"`
	Error    string        `json:"error,omitempty"`
	Finding  bool          `json:"finding"`
	Standing string        `json:"standing,omitempty"`
	Reason   *jsonReason   `json:"reason,omitempty"`
	Insts    []jsonInst    `json:"instructions,omitempty"`
	Versions int           `json:"versions,omitempty"`     // in the interval
	Cut      bool          `json:"versions_cut,omitempty"` // there are more versions, which were not looked at
	// Of code: the comparison with the version that is most like it.
	Verdict  string `json:"verdict,omitempty"`
	Len      int    `json:"len,omitempty"`
	Equal    int    `json:"equal,omitempty"`
	NotKnown int    `json:"not_known,omitempty"`
	// Of these, bytes that the recording gives without proof.
	NotKnownEqual  int                  `json:"not_known_equal,omitempty"`
	NotKnownDiffer int                  `json:"not_known_differ,omitempty"`
	Since          *string              `json:"since,omitempty"`
	Until          *string              `json:"until,omitempty"`
	Trap           string               `json:"trap,omitempty"`
	Differences    []jsonOopsDifference `json:"differences,omitempty"`
}

type jsonOopsDifference struct {
	Addr string `json:"addr"`
	Oops string `json:"oops"`
	Text string `json:"text"`
}

func (o *oops) oopsJSON(a *oopsAnswer) *jsonOops {
	out := &jsonOops{Line: a.line, Kind: a.kind, Text: a.text, TimeBy: a.how, Place: a.place, Unsure: a.unsure, Finding: a.finding, Versions: a.versions, Cut: a.cut}
	if a.how != "" {
		from, to := decTime(a.times.From), decTime(a.times.To)
		out.Time = &jsonInterval{&from, &to}
	}
	if a.err != nil {
		out.Error = message(a.err)
	}
	if a.addr != 0 {
		h := hexAddr(a.addr)
		out.Addr, out.Symbol = &h, o.c.symbolJSON(a.view, a.addr)
	}
	if c := a.compared; c != nil {
		out.Verdict, out.Len, out.Equal, out.NotKnown, out.Trap = c.verdict, len(c.code), c.equal, c.notKnown, c.trap
		out.NotKnownEqual, out.NotKnownDiffer = c.likely, c.odd
		out.Since, out.Until = since(c.since), until(c.until)
		for _, d := range c.differences {
			out.Differences = append(out.Differences, jsonOopsDifference{hexAddr(d.addr), *hexBytes(d.got), *hexBytes(d.have)})
		}
	} else if a.versions > 0 {
		out.Standing, out.Reason = a.first.standing.String(), reasonJSON(a.first.reason)
		out.Insts = instsJSON(instsOf(a.first.rows))
	}
	return out
}

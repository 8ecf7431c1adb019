// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzRequests asks the server for any page with any parameters. Whatever is asked, the answer is a
// page, or an error of the request. Nothing is an error of the server but an answer that is too large.
func FuzzRequests(f *testing.F) {
	servers := []*Server{serve(f, "small"), serve(f, "callgraph")}
	for _, seed := range []struct{ path, query string }{
		{"/", "t=9"},
		{"/map", "t=9&y0=0&y1=100&addr=do_sys_openat2&from=9&to=10"},
		{"/map/tile", "zx=3&zy=2&x=1&y=1"},
		{"/map/tile", "zx=40&zy=40&x=1099511627775&y=1099511627775"},
		{"/map/names", "p=0,1,18446744073709551615&t=9"},
		{"/map/pick", "t=9000000000&y=5&t0=0&t1=18446744073709551615&y0=0&y1=18446744073709551615"},
		{"/at", "addr=sysctl_schedstats%2B0x41&t=9"},
		{"/at", "addr=0xffffffffffffffff&ns=18446744073709551615"},
		{"/functions", "from=8&to=9&sort=changes&page=2&q=sched"},
		{"/diff", "from=start&to=end&symbol=vfs_read"},
		{"/log", "from=8&to=9.5&place=0xffffffffaecdbcb1..0xffffffffffffffff&kind=static-key&by=sh&sort=writer&page=9223372036854775807"},
		{"/search", "q=sched&t=9"},
		{"/search", "q=-1"},
		{"/search", "q=virtio_pci:del_vq%2B16&t=8.9"},
		{"/search", "q=start..end&t=end"},
		{"/at", "addr=bpf_prog_b19c858917c4054c_socket_3&t=18..22&absent=8.9"},
		{"/at", "addr=0xffffffffffffffff&t=start..18446744073.709551614"},
		{"/log", "to=1&place=sysctl_schedstats,&t=9.1"},
		{"/suggest", "q=do_"},
		{"/state", ""},
		{"/static/map.js", ""},
		{"/static/../templates", ""},
		{"/nothing", "t=%zz;&"},
	} {
		f.Add(uint8(0), seed.path, seed.query)
		f.Add(uint8(1), seed.path, seed.query)
	}
	f.Fuzz(func(t *testing.T, which uint8, path, query string) {
		if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, profilePath) {
			return // no request; the pages of pprof are not ours
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = "127.0.0.1:8080"
		r.URL = &url.URL{Path: path, RawQuery: query}
		w := httptest.NewRecorder()
		servers[int(which)%len(servers)].ServeHTTP(w, r)
		if w.Code >= 500 && !strings.Contains(w.Body.String(), "larger than 1 MB") {
			t.Errorf("%s?%s is answered with %d:\n%.500s", path, query, w.Code, w.Body)
		}
		if got := w.Header().Get("Content-Security-Policy"); got != ownPolicy {
			t.Errorf("%s?%s has the policy %q", path, query, got)
		}
	})
}

package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/testparts/servers"
)

// TestWireAgreesWithLua: what one side writes, the other reads, at the borders of each form.
func TestWireAgreesWithLua(t *testing.T) {
	t.Parallel()
	c := servers.StartRedis(t).Client()
	t.Cleanup(func() { _ = c.Close() })
	const echo = "return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))"
	for _, n := range []uint64{0, 1, 127, 128, 255, 256, 65535, 65536, 1<<32 - 1, 1 << 32, 1<<53 - 1} {
		text, err := c.Eval(t.Context(), echo, nil, appendInt(nil, n)).Text()
		if err != nil {
			t.Fatal(err)
		}
		if r := (&wire{s: text}); r.int64() != int64(n) || r.end("echo") != nil {
			t.Errorf("%d came back as % x", n, text)
		}
	}
	for _, n := range []int64{-1, -32, -33, -128, -129, -32769, -1 << 40} {
		text, err := c.Eval(t.Context(), "return cmsgpack.pack(tonumber(ARGV[1]))", nil, n).Text()
		if err != nil {
			t.Fatal(err)
		}
		if got := (&wire{s: text}).int64(); got != n {
			t.Errorf("%d came back as %d", n, got)
		}
	}
	for _, n := range []int{0, 1, 31, 32, 255, 256, 65535, 65536, queue.MaxDetail} {
		want := strings.Repeat("\xff", n)
		text, err := c.Eval(t.Context(), echo, nil, appendText(nil, want)).Text()
		if err != nil {
			t.Fatal(err)
		}
		if r := (&wire{s: text}); r.text() != want || r.end("echo") != nil {
			t.Errorf("a text of %d bytes came back otherwise", n)
		}
	}
	for _, n := range []int{0, 1, 15, 16, 5 * queue.MaxAcksPerTurn} {
		b := appendList(nil, n)
		for range n {
			b = appendBool(b, true)
		}
		text, err := c.Eval(t.Context(), echo, nil, b).Text()
		if err != nil {
			t.Fatal(err)
		}
		if r := (&wire{s: text}); r.list() != n || r.take(n) != strings.Repeat("\xc3", n) || r.end("echo") != nil {
			t.Errorf("a list of %d came back as % x", n, text)
		}
	}
}

// FuzzReadTurn: whatever the server answers, it is read or refused, in bounded memory.
func FuzzReadTurn(f *testing.F) {
	ok := append(appendInt(appendInt(nil, 1), 2), 0)
	ok = appendText(appendList(ok, 1), "run")
	ok = appendInt(appendText(appendInt(appendInt(appendList(ok, 4), 1), 7), "host"), 1)
	ok = appendInt(appendList(appendList(appendList(appendInt(ok, 9), 0), 0), 0), 1)
	if res, err := readTurn(string(ok), queue.Turn{}); err != nil || fmt.Sprint(res.Leases, res.Doubt) != "[{run/7 host [] 9 1 []  <nil>}] true" {
		f.Fatalf("%v, %v", res.Leases, err)
	}
	f.Add(string(ok))
	f.Add(string(ok[:len(ok)-1]))
	f.Add("")
	f.Add("\x00\x00\x00\xdd\xff\xff\xff\xff")
	f.Add("\x00\x00\x00\x90\x94\x01\x00\xa0\x01\x00\x90\x90\x90")
	f.Fuzz(func(t *testing.T, text string) {
		res, err := readTurn(text, queue.Turn{})
		if err != nil && !errors.Is(err, core.ErrUnknown) {
			t.Errorf("%v, expected core.ErrUnknown", err)
		}
		if len(res.Leases) > len(text) {
			t.Errorf("%d leases of %d bytes", len(res.Leases), len(text))
		}
	})
}

// FuzzReadLooked: whatever the server answers about a run, it is read or refused, in bounded
// memory.
func FuzzReadLooked(f *testing.F) {
	ok := appendInt(appendList(nil, 6), 1)
	ok = appendList(ok, 27)
	for range 18 {
		ok = appendInt(ok, 1)
	}
	ok = appendText(appendText(ok, "tenant"), "why")
	for range 7 {
		ok = appendInt(ok, 2)
	}
	ok = appendText(appendText(appendList(appendText(ok, ""), 2), "1-1"), "records")
	ok = appendInt(appendText(appendInt(appendList(appendInt(ok, 1), 3), 0), "e"), 4)
	read := func(text string) (looked, *wire) {
		r := &wire{s: text}
		r.list()
		return readLooked(r, "r"), r
	}
	l, r := read(string(ok))
	if err := r.end("look"); err != nil || l.load.Tenant != "tenant" || len(l.entries) != 1 || !l.more || l.events["e"] != 4 || l.moreEvents {
		f.Fatalf("%+v, %v", l, err)
	}
	f.Add(string(ok))
	f.Add(string(ok[:len(ok)-1]))
	f.Add("\x91\x00")
	f.Add("\x91\x01\xdd\xff\xff\xff\xff")
	f.Fuzz(func(t *testing.T, text string) {
		l, r := read(text)
		if err := r.end("look"); err != nil && !errors.Is(err, core.ErrUnknown) {
			t.Errorf("%v, expected core.ErrUnknown", err)
		}
		if len(l.entries) > len(text) || len(l.events) > len(text) {
			t.Errorf("%d entries and %d events of %d bytes", len(l.entries), len(l.events), len(text))
		}
		_, _, _, err := take(l.entries, position{entry: firstEntry}, 10)
		if err != nil && !errors.Is(err, core.ErrUnknown) {
			t.Errorf("%v, expected core.ErrUnknown", err)
		}
	})
}

package boardtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
)

var boardTests = []test{
	{name: "BoardHoldsTheLastPost", run: boardLast},
	{name: "BoardAnswersAKnownVersionWithoutTheData", run: boardKnown},
	{name: "BoardForgets", run: boardForgets},
	{name: "BoardKeepsNamesApart", run: boardNames},
	{name: "BoardPostsFirst", run: boardFirst},
	{name: "BoardListsNames", run: boardLists},
	{name: "BoardRefuses", run: boardRefuses},
	{name: "BoardShowsNobodyAnOlderVersion", run: boardLinear},
}

func (f *fixture) post(name, text string) uint64 {
	f.Helper()
	v, err := f.b.Post(f.ctx, name, []byte(text), time.Hour)
	f.must(err)
	return v
}

// posted expects the document and its version.
func (f *fixture) posted(name, text string, version uint64) {
	f.Helper()
	data, v, err := f.b.Posted(f.ctx, name, 0)
	f.must(err)
	if data == nil {
		f.Fatalf("document %q has no data", name)
	}
	eq(f, "document "+name, string(data), text)
	eq(f, "version", v, version)
}

// boardFirst: of several first posts all get one document, and a later one changes nothing.
func boardFirst(f *fixture) {
	got := make([]string, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			have, err := f.b.PostFirst(f.ctx, "w", fmt.Appendf(nil, "text %d", i), time.Hour)
			if err != nil {
				f.Errorf("PostFirst: %v", err)
			}
			got[i] = string(have)
		})
	}
	wg.Wait()
	_, version, err := f.b.Posted(f.ctx, "w", 0)
	f.must(err)
	for _, text := range got {
		f.posted("w", text, version)
	}
	v := f.post("w", "another")
	have, err := f.b.PostFirst(f.ctx, "w", []byte("late"), time.Hour)
	f.must(err)
	eq(f, "what is there", string(have), "another")
	f.posted("w", "another", v)
	if _, err := f.b.PostFirst(f.ctx, "", nil, time.Hour); !errors.Is(err, core.ErrInvalid) {
		f.Errorf("without a name: %v", err)
	}
}

func (f *fixture) notPosted(name string) {
	f.Helper()
	if data, v, err := f.b.Posted(f.ctx, name, 0); !errors.Is(err, core.ErrNotFound) {
		f.Fatalf("Posted(%q) is %q, %d, %v, expected core.ErrNotFound", name, data, v, err)
	}
}

func boardLast(f *fixture) {
	f.notPosted("w")
	first := []byte("one")
	v1, err := f.b.Post(f.ctx, "w", first, time.Hour)
	f.must(err)
	first[0] = 'X' // the caller's slice is the caller's again
	f.posted("w", "one", v1)
	v2 := f.post("w", "")
	f.posted("w", "", v2) // an empty document is one
	v3 := f.post("w", "three")
	f.posted("w", "three", v3)
	if v1 == 0 || v2 <= v1 || v3 <= v2 {
		f.Errorf("versions %d, %d, %d do not grow from 1", v1, v2, v3)
	}
	large := bytes.Repeat([]byte("0123456789abcde\n"), board.MaxDocument/16)
	v4 := f.post("w", string(large))
	f.posted("w", string(large), v4)
}

func boardKnown(f *fixture) {
	old := f.post("w", "one")
	v := f.post("w", "two")
	data, got, err := f.b.Posted(f.ctx, "w", v)
	f.must(err)
	if data != nil || got != v {
		f.Errorf("Posted of the known version gave %q, version %d", data, got)
	}
	for _, known := range []uint64{0, old, v + 1, 1<<64 - 1} {
		if data, got, err := f.b.Posted(f.ctx, "w", known); err != nil || string(data) != "two" || got != v {
			f.Errorf("Posted with %d known gave %q, version %d, %v", known, data, got, err)
		}
	}
}

func boardForgets(f *fixture) {
	v, err := f.b.Post(f.ctx, "short", []byte("x"), time.Second)
	f.must(err)
	long := f.post("long", "x")
	again, err := f.b.Post(f.ctx, "again", []byte("x"), time.Second)
	f.must(err)
	again2 := f.post("again", "y") // the new time replaces the old one
	f.eventually("the document to expire", func() bool {
		_, _, err := f.b.Posted(f.ctx, "short", v) // although it is known
		return errors.Is(err, core.ErrNotFound)
	})
	f.posted("long", "x", long)
	f.posted("again", "y", again2)
	if v2 := f.post("short", "x"); v2 <= v || again2 <= again {
		f.Errorf("after it expired, the version is %d, it was %d before", v2, v)
	}
}

func boardNames(f *fixture) {
	names := []string{"a", "A", "a ", "{a}", "a:b", "a%3Ab", "a/b", "*", "ä", "\x00", "one", "run/r1", strings.Repeat("n", board.MaxName), strings.Repeat("é", board.MaxName/2)}
	versions := map[string]uint64{}
	for _, n := range names {
		versions[n] = f.post(n, "text of "+n)
	}
	for _, n := range names {
		f.posted(n, "text of "+n, versions[n])
	}
}

// named expects what the board lists.
func (f *fixture) named(prefix string, want ...string) {
	f.Helper()
	got, err := f.b.Names(f.ctx, prefix)
	f.must(err)
	if !slices.Equal(got, want) {
		f.Fatalf("Names(%q) is %q, expected %q", prefix, got, want)
	}
}

func boardLists(f *fixture) {
	f.named("")
	for _, n := range []string{"run/b", "run/a", "run*", "run/{x}:", "Run/c", "ü", "run/a"} {
		f.post(n, "x")
	}
	f.named("", "Run/c", "run*", "run/a", "run/b", "run/{x}:", "ü")
	f.named("run/", "run/a", "run/b", "run/{x}:")
	f.named("run/a", "run/a")
	f.named("run/a/")
	f.named("run*", "run*")
	f.named("\xc3", "ü") // the first byte of ü
	_, err := f.b.Post(f.ctx, "run/a", nil, time.Second)
	f.must(err)
	f.eventually("the name to go with its document", func() bool {
		list, err := f.b.Names(f.ctx, "run/")
		f.must(err)
		return slices.Equal(list, []string{"run/b", "run/{x}:"})
	})
	want := make([]string, 1500)
	for i := range want {
		want[i] = fmt.Sprintf("many/%04d", i)
		f.post(want[i], "")
	}
	f.named("many/", want...)
	f.named("run/", "run/b", "run/{x}:")
}

func boardRefuses(f *fixture) {
	for what, try := range map[string]func() error{
		"no name": func() error { _, err := f.b.Post(f.ctx, "", nil, time.Hour); return err },
		"a long name": func() error {
			_, err := f.b.Post(f.ctx, strings.Repeat("n", board.MaxName+1), nil, time.Hour)
			return err
		},
		"no UTF-8": func() error { _, err := f.b.Post(f.ctx, "\xff", nil, time.Hour); return err },
		"large": func() error {
			_, err := f.b.Post(f.ctx, "w", make([]byte, board.MaxDocument+core.EncryptionRoom+1), time.Hour)
			return err
		},
		"short a time": func() error { _, err := f.b.Post(f.ctx, "w", nil, time.Second-1); return err },
		"long a time":  func() error { _, err := f.b.Post(f.ctx, "w", nil, board.MaxKeep+1); return err },
	} {
		if err := try(); !errors.Is(err, core.ErrInvalid) {
			f.Errorf("%s: %v, expected core.ErrInvalid", what, err)
		}
	}
	f.notPosted("w")
	f.notPosted("")
	_, err := f.b.Post(f.ctx, "w", nil, board.MaxKeep)
	f.must(err)
}

// boardLinear: what Post has returned, nobody reads less of.
func boardLinear(f *fixture) {
	const posts, readers = 60, 4
	var newest, finished atomic.Uint64
	failed := make(chan string, readers)
	for range readers {
		go func() {
			var seen uint64
			for finished.Load() == 0 {
				atLeast := newest.Load()
				data, v, err := f.b.Posted(f.ctx, "w", seen)
				switch {
				case errors.Is(err, core.ErrNotFound) && atLeast == 0:
				case err != nil:
					failed <- err.Error()
					return
				case v < atLeast || v < seen:
					failed <- fmt.Sprintf("read version %d, %d was posted and %d seen before", v, atLeast, seen)
					return
				case data == nil && v != seen:
					failed <- fmt.Sprintf("version %d came without its data, %d was known", v, seen)
					return
				default:
					seen = v
				}
			}
			failed <- ""
		}()
	}
	for i := range posts {
		newest.Store(f.post("w", fmt.Sprint(i)))
	}
	finished.Store(1)
	for range readers {
		if what := <-failed; what != "" {
			f.Error(what)
		}
	}
}

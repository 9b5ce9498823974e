package configs

import (
	"context"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

// A process that is killed while it writes leaves a stream that ends anywhere: nothing of it
// counts.
func TestAStreamThatBreaksOffChangesNothing(t *testing.T) {
	testparts.Need(t, "git", "git")
	r, err := New(filepath.Join(t.TempDir(), "configs"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	first, err := r.Keep(t.Context(), Change{Host: "r1", Files: []File{{Name: "a", Content: []byte("1\n")}}, At: time.Unix(1e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := r.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	stream := func() io.Reader {
		batch := []*request{
			{change: &Change{Host: "r1", Files: []File{{Name: "a", Content: []byte("2\n")}, {Name: "b", Content: []byte("2\n")}}, At: time.Unix(1e9, 0)}},
			{change: &Change{Host: "r2", Files: []File{{Name: "a", Content: []byte("2\n")}}, At: time.Unix(1e9, 0)}},
		}
		in, err := r.compose(context.Background(), lock, first.Version, batch)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	whole, err := io.ReadAll(stream())
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut < len(whole); cut += 37 {
		if _, err := r.git.load(t.Context(), lock, io.LimitReader(stream(), int64(cut))); err == nil {
			t.Errorf("cut at %d of %d: no error", cut, len(whole))
		}
		if tip, err := r.git.tip(t.Context(), lock); err != nil || tip != first.Version {
			t.Errorf("cut at %d of %d: the newest is %s, %v", cut, len(whole), tip, err)
		}
		r.tidy()
	}
	if commits, err := r.git.load(t.Context(), lock, stream()); err != nil || len(commits) != 2 {
		t.Errorf("the whole: %v, %v", commits, err)
	}
}

// Within one batch a host may change there and back: both are versions, and what repeats is none.
func TestABatchKnowsItsOwnOrder(t *testing.T) {
	testparts.Need(t, "git", "git")
	r, err := New(filepath.Join(t.TempDir(), "configs"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	keep := func(contents ...string) []*request {
		var batch []*request
		for _, c := range contents {
			batch = append(batch, &request{change: &Change{Host: "r1", Files: []File{{Name: "a", Content: []byte(c), Gone: c == ""}}, At: time.Unix(1e9, 0)}})
		}
		r.write(batch)
		for _, req := range batch {
			if req.err != nil {
				t.Fatal(req.err)
			}
		}
		return batch
	}
	keep("A")
	for i, req := range keep("B", "B", "A", "", "", "A", "A") {
		if want := []bool{true, false, true, true, false, true, false}[i]; (req.kept.Version != "") != want {
			t.Errorf("%d: version %q, want one: %v", i, req.kept.Version, want)
		}
	}
	if list, err := r.History(t.Context(), Query{Host: "r1"}); err != nil || len(list) != 5 {
		t.Errorf("%d versions, %v; want 5", len(list), err)
	}
}

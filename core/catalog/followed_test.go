package catalog

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/playbooks"
)

// tip is an update to a commit whose name has one digit.
func tip(t *testing.T, digit string, before *definitions.Set, asked time.Time) definitions.Update {
	t.Helper()
	set, err := definitions.FromDocuments(t.Context(), []definitions.Document{
		{Path: "inventory/hosts.yaml", Data: []byte("hosts: {a: {}}\n")},
		{Path: "playbooks/p.yaml", Data: []byte("playbook: p" + digit + "\ntargets: true\nsteps: [{uses: look}]\n")},
	}, definitions.Options{Revision: definitions.Revision{Commit: strings.Repeat(digit, 40), Author: "ann"}})
	if err != nil {
		t.Fatal(err)
	}
	return definitions.Update{Set: set, Before: before, Asked: asked}
}

// Two servers find one commit at the same time. One puts it; to the other it is no refusal.
func TestTwoServersPutOneCommit(t *testing.T) {
	store, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	server := func(name string, events func(Event)) *Catalog {
		t.Helper()
		ctl, err := controller.New(controller.Config{Name: name, Ledger: store, Queue: q, Board: q, Types: func(string) (playbooks.Type, bool) { return playbooks.Type{OnLost: "retry"}, true }})
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(Config{Ledger: store, Board: q, Controller: ctl, Events: events, Follow: &definitions.FollowOptions{URL: t.TempDir(), Branch: "main", Dir: t.TempDir()}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	now := time.Now()
	first := tip(t, "1", nil, now.Add(-2*time.Minute))
	second := tip(t, "2", first.Set, now.Add(-time.Minute))
	quick, raced := server("quick", nil), false
	slow := server("slow", func(e Event) {
		if e.Kind != ProjectChanged || e.Version != 1 { // it has read what it compares with
			return
		}
		raced = true
		if err := quick.followed(t.Context(), second); err != nil {
			t.Error(err)
		}
	})
	if err := quick.followed(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := slow.followed(t.Context(), second); err != nil || !raced {
		t.Errorf("there was a race: %v: %v", raced, err)
	}
	if at := slow.Current(); at.Version != 2 || at.Base.ID != second.Set.Revision.Commit {
		t.Errorf("version %d of commit %s", at.Version, at.Base.ID)
	}
}

// A server that was stopped for a while after it polled the branch, before it wrote the ledger,
// brings back no commit that another one found gone later.
func TestALateServerBringsNothingBack(t *testing.T) {
	t.Parallel()
	now := time.Now()
	first := tip(t, "1", nil, time.Time{})
	late := tip(t, "2", first.Set, now.Add(-time.Hour))
	base := func(id string, seen time.Time) Base {
		return Base{ID: strings.Repeat(id, 40), Branch: "r main", Seen: seen, At: now.Add(-24 * time.Hour)}
	}
	for _, c := range []struct {
		what string
		was  Base
		want bool
	}{
		{"the branch went back since", base("1", now.Add(-time.Minute)), false},
		{"the commit continues what holds", base("1", now.Add(-2*time.Hour)), true},
		{"the clock of the other server is ahead", base("1", now.Add(time.Minute)), true},
	} {
		if got := newer(late, base("2", late.Asked), c.was, now); got != c.want {
			t.Errorf("%s: %v, expected %v", c.what, got, c.want)
		}
	}
}

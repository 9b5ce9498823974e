package catalog_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/ledger"
)

// The store of schedules is away over two fires, and comes back empty. By the ledger's mark what was decided stays so, the fires that
// were skipped too, and what came due since is launched. The negative control: without the mark those fires are lost.
func TestMarkKeepsWhatWasDecidedAndWhatWasNot(t *testing.T) {
	for _, marked := range []bool{true, false} {
		fake(t, func(l *lab) {
			c, stop := l.server("s1", nil)
			defer stop()
			defer l.node()()
			later := docs("cron: \"* * * * *\", catch_up: all")
			first := slices.Clone(later)
			first[1].Data = bytes.Replace(first[1].Data, []byte("targets: true"), []byte("targets: host.name == 'nobody'"), 1)
			l.apply(c, first, 0)
			<-time.After(2*time.Minute + 30*time.Second)
			if n := len(l.said(catalog.FireSkipped)); n != 2 {
				t.Fatalf("%d fires were skipped, expected 2", n)
			}
			l.apply(c, later, catalog.AnyVersion)
			<-time.After(2 * time.Minute)
			l.store.set(true)
			<-time.After(2 * time.Minute)
			before := []string{"acme:patch-20000101T0003Z", "acme:patch-20000101T0004Z"}
			if got := l.runs(); !slices.Equal(got, before) {
				t.Fatalf("runs %v, expected %v", got, before)
			}
			if !marked {
				l.unmark()
			}
			l.store.lose()
			l.store.set(false)
			l.until("the store is as it was", func() bool { return len(l.said(catalog.SchedulesLost)) > 0 })
			<-time.After(15 * time.Second) // before 00:07
			want := append(before, "acme:patch-20000101T0005Z", "acme:patch-20000101T0006Z")
			switch got := l.runs(); {
			case marked && !slices.Equal(got, want):
				t.Errorf("runs %v, expected %v", got, want)
			case !marked && len(got) >= len(want):
				t.Error("negative control: without the mark no fire is lost: this test cannot fail")
			}
		})
	}
}

// unmark takes away what the ledger has of how far schedules are decided.
func (l *lab) unmark() {
	l.Helper()
	const kind, name = "schedule.kept", "mark"
	doc, err := l.ledger.Document(l.Context(), ledger.AllTenants(), kind, "", name)
	if err == nil {
		err = l.ledger.DeleteDocument(l.Context(), ledger.AllTenants(), "", kind, "", name, doc.Version)
	}
	if err != nil {
		l.Fatal(err)
	}
}

// A restart of turnus up empties its own store: that is no loss, and the next fire comes in
// time. Red before OwnSchedules; the control is a store of its own, as Redis is.
func TestFaultW15PlannedRestartLosesNoSchedules(t *testing.T) {
	for _, own := range []bool{true, false} {
		fake(t, func(l *lab) {
			kind := func(cfg *catalog.Config) { cfg.OwnSchedules = own }
			c, stop := l.server("s1", kind)
			defer l.node()()
			l.apply(c, docs("cron: \"* * * * *\""), 0)
			<-time.After(90 * time.Second)
			stop()
			l.store.lose()
			_, stop = l.server("s2", kind)
			defer stop()
			<-time.After(time.Minute)
			if got, want := l.runs(), 2; len(got) != want {
				t.Errorf("runs %v, expected %d", got, want)
			}
			if lost := l.said(catalog.SchedulesLost); own == (len(lost) > 0) {
				t.Errorf("own store: %t; reported as lost: %v", own, lost)
			}
			l.store.lose() // while the service runs: always a loss
			l.until("the loss is reported", func() bool { return len(l.said(catalog.SchedulesLost)) > 0 })
		})
	}
}

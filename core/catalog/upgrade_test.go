package catalog_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

// Records of schedules as the version before wrote them: one of the definitions, paused; a
// person's, with a run that continues and a fire that waits for it.
const (
	pausedV1 = "ARsqLzUgKiAqICogKgABAQAAL3sicGxheWJvb2siOiJwYXRjaCIsImFsbCI6dHJ1ZX0A/9DwuN4kARRDSEc3UgQAAAAAAAICq4qECv/Q8LjeJAIGAf/Q8LjeJAA="
	queuedV1 = "ARwqLzEwICogKiAqICoAAQQAACR7InBsYXlib29rIjoicGF0Y2gifQD/sae43iQAAA4AAgKrioQKBv/Q8LjeJAAB/7GnuN4kBgACASYtdDgyNTRjMzI5YTkyODUwZjZkNTM5/++5ud4kAA=="
)

// The ledger of an earlier version has schedules of people as documents, a mark of how far all is
// decided, and the records that are still open. At the first start they become rows: nothing
// triggers twice, nothing is lost, and what was paused stays so.
func TestUpgradeOfALedgerWithoutRowsOfSchedules(t *testing.T) {
	fake(t, func(l *lab) {
		at := time.Now() // 2000-01-01 00:00
		c, stop := l.server("s1", nil)
		l.apply(c, docs("cron: \"*/5 * * * *\""), 0)
		stop()
		l.asBefore(at)
		<-time.After(45 * time.Minute)
		c, stop = l.server("s2", nil)
		defer stop()
		get := func(name string) (s schedule.Status) {
			l.until("schedule "+name+" is a row", func() bool {
				found, err := c.Schedule(l.Context(), ledger.AllTenants(), schedule.ID{Tenant: "acme", Name: name})
				s = found.Status
				return err == nil
			})
			return s
		}
		if s := get("patch"); s.By != "" || !s.State.Paused || s.State.Reason != "CHG7" || s.State.Triggered != 41 || s.State.Skipped != 2 || len(s.State.Last) != 1 {
			t.Errorf("one of the definitions: %+v", s)
		}
		if s := get("idle"); s.By != "carol" || s.Edition != 1 || !s.State.Since.Equal(at.Add(40*time.Minute)) || s.State.Triggered != 1 || s.Definition.CatchUp != schedule.CatchUpAll {
			t.Errorf("a person's: %+v", s)
		}
		if s := get("queued"); s.By != "dave" || s.State.Triggered != 7 || len(s.State.Active) != 1 || s.State.Waiting == nil || !s.State.Waiting.Nominal.Equal(at.Add(20*time.Minute)) {
			t.Errorf("one that waits: %+v", s)
		}
		<-time.After(2 * time.Second)
		// 00:30 was decided before; queued's triggers that came due since then are late, and it skips
		// those.
		if got, want := l.runs(), []string{"acme:queued-20000101T0010Z", "acme:idle-20000101T0040Z"}; !slices.Equal(got, want) {
			t.Errorf("runs %v, expected %v", got, want)
		}
		if _, err := l.ledger.Cancel(l.Context(), ledger.AllTenants(), "", "acme:queued-20000101T0010Z", ""); err != nil {
			t.Fatal(err)
		}
		l.until("the queued fire is launched", func() bool { return slices.Contains(l.runs(), "acme:queued-20000101T0020Z") })
		for _, kind := range []string{"schedule", "schedule.kept"} {
			if left, _, err := l.ledger.Documents(t.Context(), ledger.AllTenants(), kind, ledger.Page{}); err != nil || len(left) != 0 {
				t.Errorf("documents that are left: %+v, %v", left, err)
			}
		}
	})
}

// asBefore gives the ledger the tables and documents of the version before.
func (l *lab) asBefore(at time.Time) {
	l.Helper()
	if err := l.ledger.Close(); err != nil {
		l.Fatal(err)
	}
	for _, o := range core.Outcomes() {
		l.raw(l.url, "DROP INDEX runs_"+string(o))
	}
	l.raw(l.url, "DROP TABLE schedules; DROP TABLE facts; DROP TABLE once; DROP INDEX runs_ending; DROP INDEX runs_unqueued; DROP INDEX runs_standing; DROP INDEX runs_phase; DROP INDEX handlers_host; DROP INDEX notifications_dead; CREATE INDEX runs_open ON runs (criticality DESC, seq) WHERE ended = 0; CREATE INDEX runs_open_tenant ON runs (tenant) WHERE ended = 0; ALTER TABLE runs DROP COLUMN progress; ALTER TABLE runs DROP COLUMN weight; ALTER TABLE runs DROP COLUMN max_in_flight; ALTER TABLE runs DROP COLUMN sources; ALTER TABLE runs DROP COLUMN check_mode; ALTER TABLE runs DROP COLUMN expected; DELETE FROM migrations WHERE version > 8")
	store, err := ledger.Open(l.Context(), l.url, ledger.Options{})
	if err != nil {
		l.Fatal(err)
	}
	l.ledger = store
	run := ledger.NewRun{
		ID: "acme:queued-20000101T0010Z", Tenant: "acme", Playbook: "patch", LaunchedBy: "schedule:acme:queued", Jobs: []ledger.JobHost{{Host: "a1"}},
		Approvals: 1,
	}
	if _, _, err := store.Accept(l.Context(), run); err != nil {
		l.Fatal(err)
	}
	day := func(minutes int) string {
		return at.Add(time.Duration(minutes) * time.Minute).UTC().Format(time.RFC3339)
	}
	for _, d := range []struct{ kind, tenant, name, who, text string }{
		{"schedule", "acme", "idle", "carol", `{"playbook":"patch","cron":"*/10 * * * *","catch_up":"all"}`},
		{"schedule", "acme", "queued", "dave", `{"playbook":"patch","cron":"*/10 * * * *","overlap":"queue"}`},
		{"schedule.kept", "", "mark", "", `{"mark":"` + day(31) + `","open":{"acme/patch":"` + pausedV1 + `","acme/queued":"` + queuedV1 + `"}}`},
		{"schedule.kept", "", "known", "", `{"acme/patch":"` + day(0) + `","acme/idle":"` + day(5) + `","acme/queued":"` + day(0) + `"}`},
	} {
		doc := ledger.Document{Kind: d.kind, Tenant: d.tenant, Name: d.name, Data: json.RawMessage(d.text)}
		if _, err := store.PutDocument(l.Context(), ledger.AllTenants(), d.who, doc, 0); err != nil {
			l.Fatal(err)
		}
	}
}

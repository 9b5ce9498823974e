package ledger_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func testPhases(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	accept(t, l, newRun("r1", "", 1))
	for _, tc := range []struct {
		phase ledger.Phase
		ok    bool
	}{
		{ledger.PhaseFinished, false}, {ledger.PhaseAwaiting, false}, {"great", false},
		{ledger.PhaseActive, true}, {ledger.PhaseActive, true}, {ledger.PhasePaused, true}, {ledger.PhaseActive, true},
		{ledger.PhaseStopped, true}, {ledger.PhasePaused, false}, {ledger.PhaseActive, false}, {ledger.PhaseCancelled, true}, {ledger.PhaseActive, false},
	} {
		before := read(t, l, "r1")
		r, err := l.SetPhase(ctx, ledger.AllTenants(), "", "r1", tc.phase, "because")
		switch {
		case tc.ok && (err != nil || r.Phase != tc.phase || before.Phase != tc.phase && r.Version != before.Version+1):
			t.Errorf("%s to %s: %+v, %v", before.Phase, tc.phase, r, err)
		case !tc.ok:
			wantErr(t, err, core.ErrConflict, string(before.Phase+" to "+tc.phase))
		}
	}
	if r := read(t, l, "r1"); r.Reason != "because" {
		t.Errorf("%+v", r)
	}
}

func testCancel(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	accept(t, l, newRun("never queued", "", 1000))
	for range 2 {
		r, err := l.Cancel(ctx, ledger.AllTenants(), "bob", "never queued", "wrong day")
		if err != nil || r.Phase != ledger.PhaseCancelled || !r.Complete() || r.Outcomes[core.Cancelled] != 1000 || r.Reason != "wrong day" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	accept(t, l, newRun("queued", "", 3))
	enqueue(t, l, "queued", "q1")
	r, err := l.Cancel(ctx, ledger.AllTenants(), "bob", "queued", "wrong day")
	if err != nil || r.Phase != ledger.PhaseCancelled || r.Complete() {
		t.Errorf("%+v, %v: the queue's records end its jobs", r, err)
	}
	record(t, l, "queued", ledger.Outcome{Count: 3, Outcome: core.Cancelled})
	if r := read(t, l, "queued"); r.Phase != ledger.PhaseCancelled || !r.Complete() {
		t.Errorf("%+v", r)
	}
	// While a server puts it into the queue: that server learns it by Enqueued.
	accept(t, l, newRun("claimed", "", 3))
	c := must[ledger.Claim](t)(l.Claim(ctx, "s1", "claimed", "q1", time.Minute))
	must[ledger.Run](t)(l.Cancel(ctx, ledger.AllTenants(), "bob", "claimed", ""))
	if r, err := enqueued(ctx, l, c, "q1"); err != nil || r.Phase != ledger.PhaseCancelled || r.Complete() {
		t.Errorf("%+v, %v", r, err)
	}
	accept(t, l, newRun("done", "", 1))
	record(t, l, "done", ledger.Outcome{Outcome: core.Changed})
	_, err = l.Cancel(ctx, ledger.AllTenants(), "bob", "done", "")
	wantErr(t, err, core.ErrConflict, "cancel of a finished run")
	sound(t, l)
}

// Cancels that share a transaction do not share refusals, and each run is in the audit log once.
func testCancelAll(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	for _, id := range []string{"r1", "r2", "done"} {
		accept(t, l, newRun(id, "", 3))
	}
	record(t, l, "done", ledger.Outcome{Count: 3, Outcome: core.Changed})
	theirs := newRun("theirs", "umbrella", 1)
	accept(t, l, theirs)
	one := func(id string) ledger.Cancellation {
		return ledger.Cancellation{Scope: ledger.Tenants(""), Who: "bob", ID: id, Reason: "wrong day"}
	}
	out, err := l.CancelAll(ctx, one("r2"), one("done"), one("nowhere"), one("theirs"), one("r1"), one("r2"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, core.ErrConflict, core.ErrNotFound, core.ErrNotFound, nil, nil} {
		if want != nil {
			wantErr(t, out[i].Err, want, fmt.Sprint("cancel ", i))
		} else if r := out[i].Run; out[i].Err != nil || r.Phase != ledger.PhaseCancelled || !r.Complete() || r.Outcomes[core.Cancelled] != 3 {
			t.Errorf("cancel %d: %+v", i, out[i])
		}
	}
	if r := read(t, l, "theirs"); r.Phase != ledger.PhaseQueued {
		t.Errorf("a run out of scope is %s", r.Phase)
	}
	entries, _, err := l.AuditLog(ctx, ledger.AllTenants(), ledger.AuditFilter{}, ledger.Page{Limit: 20})
	if err != nil {
		t.Fatal(err)
	}
	noted := map[string]int{}
	for _, e := range entries {
		if e.Action == "run.cancel" {
			noted[e.Subject]++
		}
	}
	if len(noted) != 2 || noted["r1"] != 1 || noted["r2"] != 1 {
		t.Errorf("audit log: %v", noted)
	}
	sound(t, l)
}

// Of two people who saw the same version, the second one changes nothing. Without a version both
// do.
func testSharesAsSeen(t *testing.T, b *backend) {
	l := b.open(t)
	r := accept(t, l, newRun("r1", "", 1))
	set := func(weight int, seen ...int64) error {
		_, err := l.SetShares(t.Context(), ledger.AllTenants(), "r1", ledger.Shares{Weight: &weight}, seen...)
		return err
	}
	if err := set(2, r.Version); err != nil {
		t.Fatal(err)
	}
	wantErr(t, set(3, r.Version), core.ErrConflict, "the version before")
	if now := read(t, l, "r1"); *now.Shares.Weight != 2 {
		t.Errorf("weight %d, expected 2", *now.Shares.Weight)
	}
	if err := set(4); err != nil {
		t.Error(err)
	}
}

func testAmend(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	n := newRun("r1", "", 3)
	n.Approvals = 1
	r := accept(t, l, n)
	// Its hosts are known to this server before they change.
	must[ledger.Job](t)(l.Job(ctx, ledger.AllTenants(), core.JobID{Run: "r1", Index: 1}))
	decided := must[ledger.Run](t)(l.Decide(ctx, ledger.AllTenants(), "r1", ledger.Decision{Wave: ledger.WholeRun, By: "bob", Approved: true}))
	change := newRun("ignored", "ignored", 2)
	change.Approvals, change.Snapshot = 1, []byte("new")
	change.Jobs[1].Host = "other"
	_, err := l.Amend(ctx, ledger.AllTenants(), "carol", "r1", ledger.Amendment{Version: r.Version, New: change})
	wantErr(t, err, core.ErrConflict, "amend of a version that is gone")
	r, err = l.Amend(ctx, ledger.AllTenants(), "carol", "r1", ledger.Amendment{Version: decided.Version, New: change})
	if err != nil || r.ID != "r1" || r.Total != 2 || r.Phase != ledger.PhaseAwaiting || r.LaunchedBy != "alice" {
		t.Fatalf("%+v, %v", r, err)
	}
	if j := must[ledger.Job](t)(l.Job(ctx, ledger.AllTenants(), core.JobID{Run: "r1", Index: 1})); j.Host != "other" {
		t.Errorf("%+v", j)
	}
	if m := must[ledger.Material](t)(l.Material(ctx, "r1")); string(m.Snapshot) != "new" || len(m.Jobs) != 2 {
		t.Errorf("%+v", m)
	}
	_, err = l.Decide(ctx, ledger.AllTenants(), "r1", ledger.Decision{Wave: ledger.WholeRun, By: "carol", Approved: true})
	wantErr(t, err, core.ErrConflict, "approval of one's own amendment")
	// Nor does somebody else's amendment on top of it make it anybody's but hers.
	r = must[ledger.Run](t)(l.Amend(ctx, ledger.AllTenants(), "dave", "r1", ledger.Amendment{Version: r.Version, New: change}))
	must[ledger.Run](t)(l.Amend(ctx, ledger.AllTenants(), "dave", "r1", ledger.Amendment{Version: r.Version, New: change}))
	for _, who := range []string{"carol", "dave"} {
		_, err = l.Decide(ctx, ledger.AllTenants(), "r1", ledger.Decision{Wave: ledger.WholeRun, By: who, Approved: true})
		wantErr(t, err, core.ErrConflict, "approval of what "+who+" amended in part")
	}
	// The approval of what it was before is void: bob is asked again.
	if r, err = l.Decide(ctx, ledger.AllTenants(), "r1", ledger.Decision{Wave: ledger.WholeRun, By: "bob", Approved: true}); err != nil || r.Phase != ledger.PhaseQueued {
		t.Fatalf("%+v, %v", r, err)
	}
	enqueue(t, l, "r1", "q1")
	_, err = l.Amend(ctx, ledger.AllTenants(), "carol", "r1", ledger.Amendment{Version: read(t, l, "r1").Version, New: change})
	wantErr(t, err, core.ErrConflict, "amend of a queued run")
	sound(t, l)
}

// A run keeps the sources that its hosts come from, and an amended run those of its new content.
func testSources(t *testing.T, b *backend) {
	l := b.open(t)
	n := newRun("r1", "", 2)
	n.Sources = []core.SourceUse{{Source: "nb", Generation: "sha256:01", Good: n.Created.Add(-time.Minute).UTC(), Hosts: 2}, {Source: "racks", Generation: "sha256:02", Good: n.Created.UTC()}}
	accept(t, l, n)
	accept(t, l, newRun("r2", "", 1))
	if r := read(t, l, "r1"); !reflect.DeepEqual(r.Sources, n.Sources) {
		t.Errorf("%+v, expected %+v", r.Sources, n.Sources)
	}
	if r := read(t, l, "r2"); r.Sources != nil {
		t.Errorf("a run without sources has %+v", r.Sources)
	}
	change := n
	change.Sources = n.Sources[:1]
	r := must[ledger.Run](t)(l.Amend(t.Context(), ledger.AllTenants(), "bob", "r1", ledger.Amendment{Version: 1, New: change}))
	if !reflect.DeepEqual(r.Sources, change.Sources) || !reflect.DeepEqual(read(t, l, "r1").Sources, change.Sources) {
		t.Errorf("amended: %+v", r.Sources)
	}
	if err := l.Raw(t.Context(), `UPDATE runs SET sources = '[' WHERE id = 'r2'`); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Run(t.Context(), ledger.AllTenants(), "r2"); err == nil || !strings.Contains(err.Error(), "read the sources of run r2") {
		t.Errorf("a column that is no JSON: %v", err)
	}
}

// A run keeps that it is a dry run, an amended run as its new content has it, and the history of a
// host names it.
func testDryRuns(t *testing.T, b *backend) {
	l := b.open(t)
	n := newRun("r1", "", 1)
	n.Check = true
	accept(t, l, n)
	accept(t, l, newRun("r2", "", 1))
	record(t, l, "r1", ledger.Outcome{Outcome: core.Changed, Attempt: 1})
	for id, want := range map[string]bool{"r1": true, "r2": false} {
		if r := read(t, l, id); r.Check != want {
			t.Errorf("run %s: check is %t, expected %t", id, r.Check, want)
		}
	}
	jobs, _, err := l.HostHistory(t.Context(), ledger.AllTenants(), "host-0", ledger.Page{})
	if err != nil || len(jobs) != 1 || !jobs[0].Check {
		t.Errorf("history %+v, %v, expected one job of a dry run", jobs, err)
	}
	change := newRun("r2", "", 1)
	change.Check = true
	if r := must[ledger.Run](t)(l.Amend(t.Context(), ledger.AllTenants(), "bob", "r2", ledger.Amendment{Version: 1, New: change})); !r.Check {
		t.Error("an amended run is no dry run, expected one")
	}
}

// Only an approval starts a run that needs one, however it stood when it was amended.
func testAmendAwaits(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	approve := func(id, by string) (ledger.Run, error) {
		return l.Decide(ctx, ledger.AllTenants(), id, ledger.Decision{Wave: ledger.WholeRun, By: by, Approved: true})
	}
	for id, stand := range map[string]struct {
		approvals int // that it was accepted with; given before it is amended
		phase     ledger.Phase
	}{
		"approved":               {1, ""},
		"approved, then paused":  {1, ledger.PhasePaused},
		"approved, then resumed": {1, ledger.PhaseActive},
		"for the first time":     {0, ledger.PhasePaused},
		"while it waits":         {1, ledger.PhaseAwaiting},
	} {
		n := newRun(id, "", 1)
		n.Approvals = stand.approvals
		r := accept(t, l, n)
		if stand.approvals > 0 && stand.phase != ledger.PhaseAwaiting {
			r = must[ledger.Run](t)(approve(id, "bob"))
		}
		if stand.phase != "" && stand.phase != ledger.PhaseAwaiting {
			r = must[ledger.Run](t)(l.SetPhase(ctx, ledger.AllTenants(), "alice", id, stand.phase, "wait"))
		}
		n.Approvals, n.Snapshot = 1, []byte("something else")
		r, err := l.Amend(ctx, ledger.AllTenants(), "alice", id, ledger.Amendment{Version: r.Version, New: n})
		if err != nil || r.Phase != ledger.PhaseAwaiting || r.Reason != "" {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
		reported := 0
		for _, h := range must[[]ledger.Happening](t)(l.Happenings(ctx, ledger.MaxPage)) {
			if h.What == ledger.HappenedAwaiting && h.Subject == "run:"+id {
				if reported++; (reported > stand.approvals) != (string(h.Data) == "alice") {
					t.Errorf("%s: the %d. time it reports that %q changed it", id, reported, h.Data)
				}
			}
		}
		if reported != stand.approvals+1 { // also when it was accepted
			t.Errorf("%s: that it waits is reported %d times", id, reported)
		}
		for _, phase := range []ledger.Phase{ledger.PhaseQueued, ledger.PhaseActive} {
			_, err := l.SetPhase(ctx, ledger.AllTenants(), "alice", id, phase, "")
			wantErr(t, err, core.ErrConflict, id+": to let it continue as "+string(phase))
		}
		_, err = l.Claim(ctx, "server", id, "q1", time.Minute)
		wantErr(t, err, core.ErrConflict, id+": to put it into a queue")
		if r, err = approve(id, "bob"); err != nil || r.Phase != ledger.PhaseQueued {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	// Without approvals it stays as it was put.
	n := newRun("paused", "", 1)
	accept(t, l, n)
	r := must[ledger.Run](t)(l.SetPhase(ctx, ledger.AllTenants(), "alice", "paused", ledger.PhasePaused, "wait"))
	if r, err := l.Amend(ctx, ledger.AllTenants(), "alice", "paused", ledger.Amendment{Version: r.Version, New: n}); err != nil || r.Phase != ledger.PhasePaused || r.Reason != "wait" {
		t.Errorf("%+v, %v", r, err)
	}
	sound(t, l)
}

// An amendment that asks for it pauses the run, unless the run also needs approvals.
func testAmendPauses(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	amend := func(n ledger.NewRun, version int64) (ledger.Run, error) {
		return l.Amend(ctx, ledger.AllTenants(), "alice", n.ID, ledger.Amendment{Version: version, New: n})
	}
	for id, phase := range map[string]ledger.Phase{"queued": "", "active": ledger.PhaseActive, "paused": ledger.PhasePaused, "awaiting": ledger.PhaseAwaiting} {
		n := newRun(id, "", 1)
		if phase == ledger.PhaseAwaiting {
			n.Approvals = 1
		}
		r := accept(t, l, n)
		if phase == ledger.PhaseActive || phase == ledger.PhasePaused {
			r = must[ledger.Run](t)(l.SetPhase(ctx, ledger.AllTenants(), "alice", id, phase, ""))
		}
		n.Approvals, n.Paused = 1, true
		_, err := amend(n, r.Version)
		wantErr(t, err, core.ErrInvalid, id+": paused, and waiting for an approval")
		n.Approvals = 0
		if r, err = amend(n, r.Version); err != nil || r.Phase != ledger.PhasePaused {
			t.Fatalf("%s: %+v, %v", id, r, err)
		}
		n.Paused = false
		if r, err = amend(n, r.Version); err != nil || r.Phase != ledger.PhasePaused {
			t.Errorf("%s, amended once more: %+v, %v", id, r, err)
		}
	}
	sound(t, l)
}

func claimed(claims []ledger.Claim) (ids string) {
	for _, c := range claims {
		ids += c.Run.ID + " "
	}
	return ids
}

func testClaims(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	for i, id := range []string{"low", "high", "awaiting", "middle", "done"} {
		n := newRun(id, "", 1)
		n.Criticality = []int{1, 9, 9, 5, 9}[i]
		if id == "awaiting" {
			n.Approvals = 1
		}
		accept(t, l, n)
	}
	record(t, l, "done", ledger.Outcome{Outcome: core.Changed})
	next := func(by, incarnation string, max int, want string) []ledger.Claim {
		t.Helper()
		claims, err := l.ClaimNext(ctx, by, incarnation, time.Minute, max, 1_000_000)
		if err != nil || claimed(claims) != want {
			t.Fatalf("%s claims %q, %v, expected %q", by, claimed(claims), err, want)
		}
		return claims
	}
	first := next("s1", "q1", 2, "high middle ")
	second := next("s2", "q1", 2, "low ")
	next("s3", "q1", 2, "")
	_, err := l.Claim(ctx, "s3", "low", "q1", time.Minute)
	wantErr(t, err, core.ErrConflict, "claim of another's")
	if r, err := enqueued(ctx, l, first[0], "q1"); err != nil || r.Phase != ledger.PhaseActive || r.Incarnation != "q1" {
		t.Errorf("%+v, %v", r, err)
	}
	if err := l.Release(ctx, second[0], 0); err != nil {
		t.Fatal(err)
	}
	again := next("s3", "q1", 9, "low ")
	wantErr(t, func() error { _, err := enqueued(ctx, l, second[0], "q1"); return err }(), core.ErrConflict, "a claim that was taken over")
	must[ledger.Run](t)(enqueued(ctx, l, again[0], "q1"))
	must[ledger.Run](t)(enqueued(ctx, l, first[1], "q1"))
	next("s1", "q1", 9, "")
	// The queue came back without one run; then it is lost altogether.
	if err := l.Unqueue(ctx, "middle", "another"); err != nil {
		t.Fatal(err)
	}
	next("s1", "q1", 9, "")
	if err := l.Unqueue(ctx, "middle", "q1"); err != nil {
		t.Fatal(err)
	}
	must[ledger.Run](t)(enqueued(ctx, l, next("s1", "q1", 9, "middle ")[0], "q1"))
	next("s1", "q2", 9, "high middle low ")

	// A claim ends by the database's clock.
	accept(t, l, newRun("short", "", 1))
	must[ledger.Claim](t)(l.Claim(ctx, "dead", "short", "q2", time.Millisecond))
	deadline := time.After(time.Minute)
	for {
		if _, err := l.Claim(ctx, "s1", "short", "q2", time.Minute); err == nil {
			break
		}
		select {
		case <-deadline:
			t.Fatal("the claim of a killed server never ends")
		case <-time.After(time.Millisecond):
		}
	}
}

// A claim takes runs of any lost queue and those that none has had, most critical first, and ends
// with the run that has its last job.
func testClaimJobs(t *testing.T, b *backend) {
	l := b.open(t)
	for i, total := range []int{10, 500, 10, 10, 10} {
		n := newRun(fmt.Sprint("r", i), "", total)
		n.Criticality = []int{1, 8, 9, 7, 6}[i]
		accept(t, l, n)
		if i < 3 {
			enqueue(t, l, n.ID, fmt.Sprint("lost", i%2))
		}
	}
	for _, want := range []string{"r2 r1 ", "r3 r4 ", "r0 ", ""} {
		claims, err := l.ClaimNext(t.Context(), "s", "q", time.Minute, 9, 20)
		if err != nil || claimed(claims) != want {
			t.Fatalf("claims %q, %v, expected %q", claimed(claims), err, want)
		}
	}
}

// Four servers claim from two ledgers at the same time: nobody gets what another has.
func testClaimsRace(t *testing.T, b *backend) {
	url := b.fresh(t)
	servers := []*ledger.Ledger{b.at(t, url), b.at(t, url)}
	const runs = 40
	for i := range runs {
		accept(t, servers[0], newRun("r"+string(rune('A'+i)), "", 1))
	}
	var mu sync.Mutex
	who := map[string]int{}
	var wg sync.WaitGroup
	for s := range 4 {
		wg.Go(func() {
			for {
				claims, err := servers[s%2].ClaimNext(t.Context(), "s"+string(rune('0'+s)), "q1", time.Minute, 3, 1000)
				if err != nil {
					t.Error(err)
				}
				if len(claims) == 0 {
					return
				}
				mu.Lock()
				for _, c := range claims {
					who[c.Run.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// One that passed over locked rows may see none left too early; what matters is that none is
	// doubled.
	for _, c := range must[[]ledger.Claim](t)(servers[0].ClaimNext(t.Context(), "last", "q1", time.Minute, runs, 1_000_000)) {
		who[c.Run.ID]++
	}
	for id, n := range who {
		if n != 1 {
			t.Errorf("run %s was claimed %d times", id, n)
		}
	}
	if len(who) != runs {
		t.Errorf("%d of %d runs were claimed", len(who), runs)
	}
}

func testFourEyes(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	n := newRun("r1", "", 3)
	n.Approvals = 2
	if r := accept(t, l, n); r.Phase != ledger.PhaseAwaiting {
		t.Errorf("%+v", r)
	}
	decide := func(run, by string, wave int, approved bool) (ledger.Run, error) {
		return l.Decide(ctx, ledger.AllTenants(), run, ledger.Decision{Wave: wave, By: by, Approved: approved, Comment: "so"})
	}
	_, err := decide("r1", "alice", ledger.WholeRun, true)
	wantErr(t, err, core.ErrConflict, "approval of one's own run")
	for range 2 { // the same word twice is one approval
		if r, err := decide("r1", "bob", ledger.WholeRun, true); err != nil || r.Phase != ledger.PhaseAwaiting {
			t.Errorf("%+v, %v", r, err)
		}
	}
	_, err = decide("r1", "bob", ledger.WholeRun, false)
	wantErr(t, err, core.ErrConflict, "another word")
	if _, err := l.Claim(ctx, "s1", "r1", "q1", time.Minute); err == nil {
		t.Error("a run that waits for approval can be queued")
	}
	if r, err := decide("r1", "carol", ledger.WholeRun, true); err != nil || r.Phase != ledger.PhaseQueued {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = decide("r1", "dave", ledger.WholeRun, true)
	wantErr(t, err, core.ErrConflict, "approval of a run that does not wait")
	must[ledger.Run](t)(decide("r1", "carol", 1, true))
	_, err = decide("r1", "alice", 1, true)
	wantErr(t, err, core.ErrConflict, "approval of one's own wave")
	_, err = decide("r1", "carol", -2, true)
	wantErr(t, err, core.ErrInvalid, "a wave that is none")
	if all := must[[]ledger.Decision](t)(l.Decisions(ctx, ledger.AllTenants(), "r1")); len(all) != 3 || all[0].By != "bob" || !all[0].Approved || all[0].Comment != "so" || all[2].Wave != 1 {
		t.Errorf("%+v", all)
	}

	n = newRun("r2", "", 3)
	n.Approvals = 1
	accept(t, l, n)
	r, err := decide("r2", "bob", ledger.WholeRun, false)
	if err != nil || r.Phase != ledger.PhaseCancelled || !r.Complete() || r.Outcomes[core.Cancelled] != 3 || r.Reason.Text() != "refused by bob: so" {
		t.Errorf("%+v, %v", r, err)
	}
	// A run that does not ask for approval: everybody may let its next wave start.
	accept(t, l, newRun("r3", "", 3))
	must[ledger.Run](t)(decide("r3", "alice", 1, true))
	sound(t, l)
}

// enqueued is Enqueued of one run.
func enqueued(ctx context.Context, l *ledger.Ledger, c ledger.Claim, incarnation string) (ledger.Run, error) {
	all, err := l.Enqueued(ctx, incarnation, c)
	if err != nil {
		return ledger.Run{}, err
	}
	return all[0].Run, all[0].Err
}

package ledger_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// gathered is the outcome of a job that asked its host for facts.
func gathered(index int, at time.Time, family, boot string) ledger.Outcome {
	return ledger.Outcome{Index: index, Outcome: core.Unchanged, Attempt: 1, Facts: core.Gathered(map[string]any{
		"os": map[string]any{"family": family}, "boot_id": boot, "cpus": 4,
	}, at)}
}

// showFacts is a line for each host: tenant/host family age boot run.
func showFacts(tb testing.TB, l *ledger.Ledger, s ledger.Scope, now time.Time) string {
	tb.Helper()
	all, err := l.AllFacts(tb.Context(), s, time.Time{})
	if err != nil {
		tb.Fatal(err)
	}
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s/%s %v %v %s %s\n", f.Tenant, f.Host, decoded(tb, f).Values["os"].(map[string]any)["family"], now.Sub(f.At), f.Boot, f.Run)
	}
	return b.String()
}

func decoded(tb testing.TB, h ledger.HostFacts) core.Facts {
	tb.Helper()
	f, err := h.Decode()
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func testFacts(t *testing.T, b *backend) {
	l, ctx := b.open(t), t.Context()
	now := time.Now().Truncate(time.Microsecond)
	check := func(s ledger.Scope, want string) {
		t.Helper()
		if got := showFacts(t, l, s, now); got != want {
			t.Errorf("facts\n%sexpected\n%s", got, want)
		}
	}
	for i := range 7 {
		accept(t, l, newRun(fmt.Sprintf("r%d", i), "a", 2)) // host-0 of tenant a, host-1 of b
	}
	record(t, l, "r0", gathered(0, now.Add(-2*time.Hour), "debian", "b1"), gathered(1, now.Add(-time.Hour), "redhat", "c1"))
	check(ledger.AllTenants(), "a/host-0 debian 2h0m0s b1 r0\nb/host-1 redhat 1h0m0s c1 r0\n")
	check(ledger.Tenants("b"), "b/host-1 redhat 1h0m0s c1 r0\n")
	if listed, err := l.ListFacts(ctx, ledger.Tenants("a")); err != nil || len(listed) != 1 || listed[0].Host != "host-0" || listed[0].Run != "r0" || listed[0].JSON != nil {
		t.Errorf("listed %+v, %v", listed, err)
	}
	if since, err := l.AllFacts(ctx, ledger.AllTenants(), now.Add(-time.Hour)); err != nil || len(since) != 1 || since[0].Host != "host-1" {
		t.Errorf("gathered in the last hour: %+v, %v", since, err)
	}

	// Newer ones win, older ones do not, and a job of which the outcome counts already changes
	// nothing.
	record(t, l, "r1", gathered(0, now.Add(-time.Minute), "alpine", "b1"), gathered(1, now.Add(-3*time.Hour), "suse", "c0"))
	record(t, l, "r1", gathered(0, now.Add(-time.Second), "arch", "b1"))
	check(ledger.AllTenants(), "a/host-0 alpine 1m0s b1 r1\nb/host-1 redhat 1h0m0s c1 r0\n")

	// A later boot is noted beside the facts, an earlier one is not.
	seen := func(index int, at time.Time, boot string) ledger.Outcome {
		return ledger.Outcome{Index: index, Outcome: core.Changed, Attempt: 1, Facts: &core.Facts{At: at, Boot: boot}}
	}
	record(t, l, "r2", seen(0, now.Add(-time.Second), "b2"), seen(1, now.Add(-2*time.Hour), "c0"))
	check(ledger.AllTenants(), "a/host-0 alpine 1m0s b2 r1\nb/host-1 redhat 1h0m0s c1 r0\n")
	one, err := l.FactsOf(ctx, ledger.AllTenants(), "host-0")
	if err != nil || len(one) != 1 || decoded(t, one[0]).Fresh(now, time.Hour) {
		t.Errorf("%+v, %v: fresh after a boot", one, err)
	}
	// Facts that cannot be opened hide those of no other host, and are replaced.
	if err := l.Raw(ctx, `UPDATE facts SET data = $1 WHERE host = 'host-1'`, []byte{255, 1}); err != nil {
		t.Fatal(err)
	}
	check(ledger.AllTenants(), "a/host-0 alpine 1m0s b2 r1\n")
	record(t, l, "r3", gathered(1, now.Add(-time.Hour+time.Second), "redhat", "c1"))
	check(ledger.AllTenants(), "a/host-0 alpine 1m0s b2 r1\nb/host-1 redhat 59m59s c1 r3\n")
	if plan, err := l.PlanOfFacts(ctx, "host-0"); err != nil || l.Database() == "sqlite" && !strings.Contains(plan, "SEARCH facts USING INDEX sqlite_autoindex_facts_1 (tenant=? AND host=?)") {
		t.Errorf("the facts of a host are read by %s, %v", plan, err)
	}
	if one, err := l.FactsOf(ctx, ledger.Tenants("b"), "host-0"); err != nil || len(one) != 0 {
		t.Errorf("of another tenant: %+v, %v", one, err)
	}
	record(t, l, "r3", gathered(0, now.Add(-time.Millisecond), "alpine", "b2"))
	if one, err = l.FactsOf(ctx, ledger.AllTenants(), "host-0"); err != nil || !decoded(t, one[0]).Fresh(now, time.Hour) || decoded(t, one[0]).Fresh(now.Add(2*time.Hour), time.Hour) {
		t.Errorf("%+v, %v", one, err)
	}

	// A boot alone makes no facts, too many facts are not kept, and a clock that is ahead is not
	// believed.
	if _, err := l.PruneFacts(ctx, now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	large := gathered(1, now, strings.Repeat("x", core.MaxFacts), "c1")
	record(t, l, "r4", seen(0, now, "b3"), large)
	check(ledger.AllTenants(), "")
	record(t, l, "r5", gathered(0, now.Add(24*time.Hour), "debian", "b3"))
	if one, err = l.FactsOf(ctx, ledger.AllTenants(), "host-0"); err != nil || len(one) != 1 || one[0].At.After(time.Now()) {
		t.Errorf("%+v, %v", one, err)
	}
	if n, err := l.PruneFacts(ctx, now.Add(-time.Hour)); err != nil || n != 0 {
		t.Errorf("pruned %d, %v", n, err)
	}
}

// Servers that record the same hosts in another order do not stop each other.
func testFactsRace(t *testing.T, b *backend) {
	const hosts = 40
	l, now := b.open(t), time.Now()
	var wg sync.WaitGroup
	for n := range 4 {
		run := fmt.Sprintf("r%d", n)
		accept(t, l, newRun(run, "a", hosts))
		wg.Go(func() {
			var outcomes []ledger.Outcome
			for i := range hosts {
				if n%2 == 0 {
					i = hosts - 1 - i
				}
				outcomes = append(outcomes, gathered(i, now.Add(time.Duration(n-10)*time.Second), "f", run))
			}
			if got, err := l.Record(t.Context(), ledger.Batch{Run: run, Outcomes: outcomes}); err != nil || got[0].Err != nil {
				t.Error(err, got)
			}
		})
	}
	wg.Wait()
	all, err := l.AllFacts(t.Context(), ledger.AllTenants(), time.Time{})
	if err != nil || len(all) != hosts {
		t.Fatalf("%d hosts, %v", len(all), err)
	}
	for _, f := range all {
		if f.Boot != "r3" || f.Run != "r3" {
			t.Errorf("host %s has the facts of %s, not the newest", f.Host, f.Run)
		}
	}
}

package ledger_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts/servers"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("TURNUS_LEDGER_TEST_WRITER"); dir != "" {
		writeUntilKilled(dir)
		return
	}
	if url := os.Getenv("TURNUS_RETENTION_TEST_CHILD"); url != "" {
		removeAll(url, os.Getenv("TURNUS_RETENTION_TEST_OUTPUTS"))
		return
	}
	goleak.VerifyTestMain(m)
}

// backend is where the suite's ledgers live.
type backend struct {
	fresh  func(tb testing.TB) string // makes an empty database and returns its URL
	tables func(tb testing.TB) string // the same with the tables of a ledger; nil: fresh
	ring   *keyring.Ring              // nil: nothing is encrypted
}

func onSQLite() *backend {
	return &backend{fresh: func(tb testing.TB) string {
		tb.Helper()
		return "sqlite:" + filepath.Join(tb.TempDir(), "ledger #1%?.db") // characters that URLs know
	}}
}

func onPostgres(tb testing.TB, settings ...string) *backend {
	tb.Helper()
	return onServer(servers.StartPostgres(tb, settings...))
}

func onServer(s *servers.Postgres) *backend {
	return &backend{fresh: s.Database, tables: s.Copies(func(tb testing.TB, url string) {
		tb.Helper()
		l, err := ledger.Open(tb.Context(), url, ledger.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		_ = l.Close()
	})}
}

func (b *backend) open(tb testing.TB) *ledger.Ledger {
	tb.Helper()
	if b.tables != nil {
		return b.at(tb, b.tables(tb))
	}
	return b.at(tb, b.fresh(tb))
}

func open(tb testing.TB, url string) *ledger.Ledger {
	tb.Helper()
	return (&backend{}).at(tb, url)
}

// at opens the database at a URL.
func (b *backend) at(tb testing.TB, url string) *ledger.Ledger {
	tb.Helper()
	l, err := ledger.Open(tb.Context(), url, ledger.Options{Keyring: b.ring})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// conformance lists the tests that both databases must pass.
var conformance = []struct {
	name string
	test func(*testing.T, *backend)
}{
	{"keys of several requests", testAcceptedBefore},
	{"accept record read", testAcceptRecordRead},
	{"accept is idempotent", testAcceptIsIdempotent},
	{"accept paused", testAcceptPaused},
	{"accept races", testAcceptRaces},
	{"schedules", testSchedules},
	{"schedules of two servers", testSchedulesRace},
	{"schedules accept many runs", testSchedulesAccept},
	{"schedules cancel runs in any order", testSchedulesCancel},
	{"accept refuses", testAcceptRefuses},
	{"material comes back", testMaterial},
	{"outcomes count once", testOutcomesCountOnce},
	{"repeated jobs are counted", testRepeatedJobsAreCounted},
	{"recent details are bounded", testRecentDetails},
	{"details of some jobs", testDetails},
	{"jobs with their details", testJobDetails},
	{"outcomes delivered by two servers", testTwoServersRecord},
	{"cursor guards records", testCursor},
	{"ranges", testRanges},
	{"record refuses", testRecordRefuses},
	{"like the model", testLikeTheModel},
	{"lists page through everything", testRunList},
	{"runs with an outcome are read alone", testRunsByOutcome},
	{"pages of filtered lists are bounded", testSiftedPages},
	{"lists of a host and of dead-lettered notifications", testListsByIndex},
	{"open jobs of a host", testOpenJobs},
	{"searches of open jobs are bounded", testOpenJobsBounded},
	{"jobs of a run", testJobList},
	{"host history", testHostHistory},
	{"last jobs", testLastJobs},
	{"marks", testMarks},
	{"worker times", testWorkerTimes},
	{"attempts", testAttempts},
	{"ended", testEnded},
	{"scope", testScope},
	{"phases", testPhases},
	{"cancel", testCancel},
	{"cancel several", testCancelAll},
	{"amend", testAmend},
	{"amend awaits approvals", testAmendAwaits},
	{"amend pauses", testAmendPauses},
	{"shares as seen", testSharesAsSeen},
	{"sources of a run", testSources},
	{"dry runs", testDryRuns},
	{"claims", testClaims},
	{"claims are bounded by jobs", testClaimJobs},
	{"claims race", testClaimsRace},
	{"four eyes", testFourEyes},
	{"audit", testAudit},
	{"audit cannot be changed", testAuditOnlyGrows},
	{"audit shows tampering", testAuditShowsTampering},
	{"audit of concurrent changes", testAuditRace},
	{"tokens", testTokens},
	{"ended tokens", testEndedTokens},
	{"documents", testDocuments},
	{"documents race", testDocumentsRace},
	{"output", testOutput},
	{"prune", testPrune},
	{"facts", testFacts},
	{"facts race", testFactsRace},
	{"happenings", testHappenings},
	{"happenings fold", testFolds},
	{"happenings are handed on once", testRouteRace},
	{"notifications", testNotifications},
	{"claims of notifications end", testNotificationLease},
	{"notifications race", testNotificationsRace},
	{"notifications and scope", testNotificationScope},
	{"notifications are forgotten", testPruneNotifications},
	{"sweep", testSweep},
	{"duty", testDuty},
	{"handlers", testHandlers},
	{"once", testOnce},
	{"saved handlers", testSavedHandlers},
	{"claims of some runs", testClaimOf},
	{"copy", testCopy},
	{"copy holds runs", testCopyHoldsRuns},
	{"check finds and repairs", testCheck},
	{"migrations", testMigrations},
	{"cursors of other lists", testForeignCursors},
	{"closed", testClosed},
	{"encrypted", testEncrypted},
	{"encrypted since", testEncryptedSince},
	{"encrypted again", testReencrypted},
	{"encrypted again beside a service at work", testReencryptedAtWork},
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	suite(t, onSQLite())
}

// Both databases also pass all of it when everything is encrypted.
func TestSQLiteEncrypted(t *testing.T) {
	t.Parallel()
	b := onSQLite()
	b.ring, _ = newRing(t, keyring.Options{})
	suite(t, b)
}

func suite(t *testing.T, b *backend) {
	t.Helper()
	for _, c := range conformance {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, b)
		})
	}
}

// newRun is a run of n jobs on hosts host-0 and so on, of the customers a and b in turn.
func newRun(id, tenant string, n int) ledger.NewRun {
	r := ledger.NewRun{
		ID: id, Tenant: tenant, Playbook: "patch", Revision: "4f1a", LaunchedBy: "alice",
		Snapshot: []byte("snapshot of " + id), Queue: []byte("queue of " + id),
	}
	for i := range n {
		r.Jobs = append(r.Jobs, ledger.JobHost{Host: fmt.Sprintf("host-%d", i), Tenant: string(rune('a' + i%2))})
	}
	return r
}

func accept(tb testing.TB, l *ledger.Ledger, n ledger.NewRun) ledger.Run {
	tb.Helper()
	r, _, err := l.Accept(tb.Context(), n)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func record(tb testing.TB, l *ledger.Ledger, run string, outcomes ...ledger.Outcome) ledger.Recorded {
	tb.Helper()
	got, err := l.Record(tb.Context(), ledger.Batch{Run: run, Outcomes: outcomes})
	if err != nil {
		tb.Fatal(err)
	}
	if got[0].Err != nil {
		tb.Fatal(got[0].Err)
	}
	return got[0]
}

func read(tb testing.TB, l *ledger.Ledger, id string) ledger.Run {
	tb.Helper()
	r, err := l.Run(tb.Context(), ledger.AllTenants(), id)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// sound fails when the record breaks a promise.
func sound(tb testing.TB, l *ledger.Ledger) {
	tb.Helper()
	if found, err := l.Check(tb.Context(), false); err != nil || len(found) > 0 {
		tb.Errorf("check: %v, %v", found, err)
	}
}

func wantErr(tb testing.TB, err, want error, what string) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Errorf("%s: %v, expected an error that is %q", what, err, want)
	}
}

func must[T any](tb testing.TB) func(T, error) T {
	tb.Helper()
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

func testClosed(t *testing.T, b *backend) {
	l := b.open(t)
	if err := l.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	_ = l.Close()
	if err := l.Close(); err != nil {
		t.Error("closed twice:", err)
	}
	if err := l.Ping(t.Context()); err == nil {
		t.Error("a closed ledger answers")
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, tc := range []struct {
		url  string
		want error
	}{
		{"", core.ErrInvalid},
		{"mysql://x", core.ErrInvalid},
		{"sqlite:", core.ErrInvalid},
		{"sqlite::memory:", core.ErrInvalid},
		{"sqlite:/proc/none/ledger.db", core.ErrUnavailable},
		{"postgres://u:s3cret@%zz/x", core.ErrInvalid},
		{"postgres://u:s3cret@localhost/x?host=/nonexistent&password=s3cret", core.ErrUnavailable},
	} {
		l, err := ledger.Open(t.Context(), tc.url, ledger.Options{})
		if err == nil {
			_ = l.Close()
		}
		wantErr(t, err, tc.want, tc.url)
		if err != nil && errorHas(err, "s3cret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func errorHas(err error, text string) bool { return strings.Contains(err.Error(), text) }

package ledger_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts/servers"
)

const day = 24 * time.Hour

func TestParseRetention(t *testing.T) {
	t.Parallel()
	p, err := ledger.ParseRetention("r.yaml", []byte(`
all: {runs: 1095d, quota: 50GiB}
tenants:
  acme: {runs: 3650d, outputs: 30d}
  globex: {runs: forever, quota: 1.5 GB}
`), ledger.RetentionRule{Outputs: 90 * day, Runs: 10 * day})
	if err != nil {
		t.Fatal(err)
	}
	for tenant, want := range map[string]ledger.RetentionRule{
		"":       {Runs: 1095 * day, Outputs: 90 * day, Quota: 50 << 30},
		"acme":   {Runs: 3650 * day, Outputs: 30 * day, Quota: 50 << 30},
		"globex": {Runs: ledger.Forever, Outputs: 90 * day, Quota: 1.5e9},
	} {
		if got := p.Of(tenant); got != want {
			t.Errorf("%q: %+v, expected %+v", tenant, got, want)
		}
	}
	for text, want := range map[string]string{
		"all: {runs: 1h}":                     "r.yaml:1:13",
		"all: {rnus: 9d}":                     `did you mean "runs"?`,
		"tenants: {acme: {quota: 5}}":         "r.yaml:1:25",
		"tenants:\n  a: {}\n  a: {}":          "r.yaml:3:3",
		"all: 5":                              "all is the number 5: expected a mapping",
		"other: {}":                           "unknown key",
		"all: {runs: [9d]}":                   "runs is a list: expected a single value",
		"all: {":                              "r.yaml",
		"all: {runs: -9d}":                    "r.yaml:1:13",
		"tenants: {a: {outputs: 1ms}, b: 77}": "r.yaml:1:33",
	} {
		if _, err := ledger.ParseRetention("r.yaml", []byte(text), ledger.RetentionRule{}); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %s", text, err, want)
		}
	}
	if p, err := ledger.ParseRetention("r.yaml", nil, ledger.RetentionRule{}); err != nil || !p.Idle() {
		t.Errorf("%+v, %v", p, err)
	}
}

func FuzzParseRetention(f *testing.F) {
	f.Add("all: {runs: 1095d}\ntenants: {a: {quota: 5GiB}}")
	f.Add("tenants: [")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ledger.ParseRetention("r", []byte(text), ledger.RetentionRule{})
		if err != nil {
			return
		}
		for _, tenant := range append(p.Names(), "") {
			if r := p.Of(tenant); r.Runs > 0 && r.Runs < ledger.LeastRetention || r.Outputs > 0 && r.Outputs < ledger.LeastRetention || r.Quota > 0 && r.Quota < 1<<20 {
				t.Errorf("%q: %+v", text, r)
			}
		}
	})
}

// site is a ledger whose runs end at times that a test chooses, with its outputs in a folder or a
// bucket.
type site struct {
	testing.TB
	ledger       *ledger.Ledger
	bucket       *blob.Bucket
	url, outputs string
}

func newSite(tb testing.TB, url, outputs string) *site {
	tb.Helper()
	l, b, err := openSite(url, outputs)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return &site{tb, l, b, url, outputs}
}

func openSite(url, outputs string) (*ledger.Ledger, *blob.Bucket, error) {
	b, err := ledger.OpenBucket(context.Background(), outputs)
	if err != nil {
		return nil, nil, err
	}
	l, err := ledger.Open(context.Background(), url, ledger.Options{Bucket: b})
	if err != nil {
		return nil, nil, errors.Join(err, b.Close())
	}
	return l, b, nil
}

// ledgers are one of each kind.
func ledgers(tb testing.TB) map[string]string {
	tb.Helper()
	return map[string]string{"sqlite": "sqlite:" + filepath.Join(tb.TempDir(), "l.db"), "postgres": servers.StartPostgres(tb).Database(tb)}
}

// outputSize is that of each large output.
const outputSize = ledger.SmallOutput + 1

// run makes a run of a tenant with a large output for each of so many jobs; open leaves one job
// without an outcome.
func (s *site) run(id, tenant string, outputs int, open bool) {
	s.Helper()
	n := ledger.NewRun{ID: id, Tenant: tenant, Playbook: "p", LaunchedBy: "ann", Snapshot: []byte("{}"), Queue: []byte("{}")}
	for range outputs + 1 {
		n.Jobs = append(n.Jobs, ledger.JobHost{Host: "h"})
	}
	if _, _, err := s.ledger.Accept(s.Context(), n); err != nil {
		s.Fatal(err)
	}
	b := ledger.Batch{Run: id}
	for i := range n.Jobs {
		if i < outputs {
			if _, err := s.ledger.PutOutput(s.Context(), core.JobID{Run: id, Index: i}, "0/stdout", strings.NewReader(strings.Repeat("x", outputSize))); err != nil {
				s.Fatal(err)
			}
		}
		if i < outputs || !open {
			b.Outcomes = append(b.Outcomes, ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 1})
		}
	}
	if _, err := s.ledger.Record(s.Context(), b); err != nil {
		s.Fatal(err)
	}
}

func (s *site) objects() (n int) {
	s.Helper()
	for it := s.bucket.List(nil); ; n++ {
		if _, err := it.Next(s.Context()); errors.Is(err, io.EOF) {
			return n
		} else if err != nil {
			s.Fatal(err)
		}
	}
}

// left is the runs that there are, with how many outputs.
func (s *site) left() (text string) {
	s.Helper()
	runs, _, err := s.ledger.Runs(s.Context(), ledger.AllTenants(), ledger.RunFilter{}, ledger.Page{Limit: ledger.MaxPage})
	if err != nil {
		s.Fatal(err)
	}
	for _, r := range runs {
		use, err := s.ledger.RunUse(s.Context(), r)
		if err != nil {
			s.Fatal(err)
		}
		text = fmt.Sprint(r.ID, ":", use.Outputs, " ", text)
	}
	return text
}

func (s *site) sound() {
	s.Helper()
	if found, err := s.ledger.Check(s.Context(), false); err != nil || len(found) > 0 {
		s.Errorf("%v, %v", found, err)
	}
}

func TestWhatIsOverGoes(t *testing.T) {
	t.Parallel()
	for name, url := range ledgers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whatIsOverGoes(newSite(t, url, t.TempDir()))
		})
	}
}

// whatIsOverGoes goes by age and by size, per tenant, oldest first; runs that are not complete keep
// all. The preview lists exactly what goes.
func whatIsOverGoes(s *site) {
	for i, tenant := range []string{"acme", "globex", "acme", "globex", "", "globex"} {
		s.run(fmt.Sprint("r", i), tenant, 3, false)
	}
	s.run("open", "globex", 3, true)
	acme := ledger.RetentionRule{Runs: 10 * day}
	keeper := func(p ledger.RetentionPolicy, later time.Duration) *ledger.Keeper {
		return &ledger.Keeper{Ledger: s.ledger, Policy: p, Now: time.Now().Add(later)}
	}
	for _, tc := range []struct {
		what   string
		policy ledger.RetentionPolicy
		later  time.Duration
		gone   string // in order
		left   string
	}{
		{"nothing is over", ledger.RetentionPolicy{All: ledger.RetentionRule{Runs: 20 * day, Outputs: 9 * day, Quota: 1 << 30}}, 8 * day, "", "r0:3 r1:3 r2:3 r3:3 r4:3 r5:3 open:3 "},
		{"size: the oldest of who has too much", ledger.RetentionPolicy{Tenants: map[string]ledger.RetentionRule{"globex": {Quota: 7*outputSize + 5}}}, 0, "r1 r3 ", "r0:3 r1:0 r2:3 r3:0 r4:3 r5:3 open:3 "},
		{"outputs before runs, one tenant earlier", ledger.RetentionPolicy{All: ledger.RetentionRule{Runs: 90 * day, Outputs: 20 * day}, Tenants: map[string]ledger.RetentionRule{"acme": acme}}, 15 * day, "r0+ r2+ ", "r1:0 r3:0 r4:3 r5:3 open:3 "},
		{"the others' outputs", ledger.RetentionPolicy{All: ledger.RetentionRule{Runs: 90 * day, Outputs: 20 * day}, Tenants: map[string]ledger.RetentionRule{"acme": acme}}, 21 * day, "r4 r5 ", "r1:0 r3:0 r4:0 r5:0 open:3 "},
		{"all that is complete", ledger.RetentionPolicy{All: ledger.RetentionRule{Runs: day, Outputs: day, Quota: 1 << 20}}, 91 * day, "r1+ r3+ r4+ r5+ ", "open:3 "},
	} {
		var shown, gone string
		line := func(i ledger.ExpiredItem) string {
			if i.Whole {
				return i.Run + "+ "
			}
			return i.Run + " "
		}
		before := s.left()
		if err := keeper(tc.policy, tc.later).Find(s.Context(), func(i ledger.ExpiredItem) error { shown += line(i); return nil }); err != nil {
			s.Fatal(err)
		}
		if s.left() != before {
			s.Errorf("%s: looking has changed something", tc.what)
		}
		if err := keeper(tc.policy, tc.later).Remove(s.Context(), func(i ledger.ExpiredItem) { gone += line(i) }); err != nil {
			s.Fatal(err)
		}
		if shown != tc.gone || gone != tc.gone || s.left() != tc.left {
			s.Errorf("%s: shown %q, gone %q, left %q; expected %q, %q", tc.what, shown, gone, s.left(), tc.gone, tc.left)
		}
		s.sound()
	}
	if n := s.objects(); n != 3 {
		s.Errorf("%d objects are left, expected those of the run that is open", n)
	}
}

// removeAll removes everything that is complete, and prints each piece.
func removeAll(url, outputs string) {
	l, _, err := openSite(url, outputs)
	if err == nil {
		in := bufio.NewScanner(os.Stdin)
		k := ledger.Keeper{Ledger: l, Policy: ledger.RetentionPolicy{All: ledger.RetentionRule{Runs: day}}, Now: time.Now().Add(2 * day), Pause: func(context.Context) error {
			fmt.Println("piece")
			in.Scan()
			return nil
		}}
		err = k.Remove(context.Background(), func(ledger.ExpiredItem) {})
	}
	fmt.Println("over", err)
}

func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, url := range ledgers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killedInTheMiddle(newSite(t, url, t.TempDir()))
		})
	}
}

// killedInTheMiddle kills the process that removes things after ever more pieces: the ledger stays
// sound, and the next prune takes the rest, also objects.
func killedInTheMiddle(s *site) {
	for i := range 4 {
		s.run(fmt.Sprint("r", i), "", 2, false)
	}
	s.run("open", "", 2, true)
	for kill := 1; ; kill++ {
		if kill > 20 {
			s.Fatal("it has no end")
		}
		cmd := exec.CommandContext(s.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "TURNUS_RETENTION_TEST_CHILD="+s.url, "TURNUS_RETENTION_TEST_OUTPUTS="+s.outputs)
		out, err := cmd.StdoutPipe()
		if err != nil {
			s.Fatal(err)
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			s.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			s.Fatal(err)
		}
		lines, over := bufio.NewScanner(out), false
		for n := 0; lines.Scan(); n++ {
			if text, ended := strings.CutPrefix(lines.Text(), "over "); ended {
				if over = true; text != "<nil>" {
					s.Fatal(text)
				}
				break
			}
			if n+1 == kill {
				break
			}
			fmt.Fprintln(in)
		}
		_ = cmd.Process.Kill()
		_ = in.Close()
		_ = cmd.Wait()
		s.sound()
		if over {
			break
		}
	}
	if left := s.left(); left != "open:2 " || s.objects() != 2 {
		s.Errorf("left: %s, %d objects", left, s.objects())
	}
}

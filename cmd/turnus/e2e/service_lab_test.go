//go:build linux

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts/servers"
)

// site is a service of several processes: servers over one ledger and one queue, and workers.
type site struct {
	*lab
	ledger  string   // URL
	ops     string   // definitions
	follow  []string // flags of servers that follow something else
	started int      // servers, so far
}

// emptySite has a ledger, and no definitions yet.
func emptySite(l *lab) *site {
	l.t.Helper()
	s := &site{lab: l, ops: filepath.Join(l.dir, "ops")}
	pg := servers.StartPostgres(l.t, "max_connections=200")
	s.ledger = pg.Database(l.t)
	if err := os.MkdirAll(filepath.Join(s.ops, "playbooks"), 0o700); err != nil {
		l.t.Fatal(err)
	}
	return s
}

// newSite makes the definitions: hosts in parts, and a playbook for each part, with a step that
// leaves a trace.
func newSite(l *lab, parts, hosts int, step string) *site {
	l.t.Helper()
	s := emptySite(l.traced())
	var inventory strings.Builder
	inventory.WriteString("hosts:\n")
	for i := range parts * hosts {
		fmt.Fprintf(&inventory, "  host-%05d: {address: 127.0.0.1, labels: {part: p%d}}\n", i, i%parts)
	}
	l.file("ops/inventory.yaml", inventory.String())
	for i := range parts {
		l.file(fmt.Sprintf("ops/playbooks/part%d.yaml", i), fmt.Sprintf("playbook: part%d\ntargets: host.labels.part == 'p%d'\nsteps:\n  - %s\n", i, i, step))
	}
	return s
}

// projectFlag returns the flag for the folder of the project. The former version, whose program the
// recording tests start, knows the former name.
func projectFlag() string {
	if f := flag.Lookup("record.binary"); f != nil && binary == f.Value.String() {
		return "--definitions"
	}
	return "--project"
}

// server starts a server and waits until it listens.
func (s *site) server() *process {
	s.t.Helper()
	s.started++
	args := []string{"server", "--redis", s.queue, "--ledger", s.ledger, "--plugins", plugins(s.t),
		"--data", filepath.Join(s.dir, fmt.Sprintf("data-%d", s.started)), "--listen", "127.0.0.1:0"}
	if s.follow == nil {
		args = append(args, projectFlag(), s.ops)
	}
	p := s.start(append(args, s.follow...)...)
	until(s.t, "a server to listen", func() bool { return p.err.has("listening on ") || !p.running() })
	return p
}

// address is where a server listens; "" when it could not begin.
func address(p *process) string {
	_, rest, _ := strings.Cut(p.err.String(), "listening on ")
	line, _, _ := strings.Cut(rest, "\n")
	line, _, _ = strings.Cut(line, `"`) // of a log in JSON
	return strings.TrimSpace(line)
}

// token is the first admin token, which the server that was first made.
func (s *site) token() string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "data-*", "admin.token"))
	if err != nil || len(files) != 1 {
		s.t.Fatalf("%d first tokens were made, expected 1: %v", len(files), err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// ask makes a client of a server.
func (s *site) ask(p *process) *client.Client {
	s.t.Helper()
	c, err := client.New(client.Config{Server: address(p), Token: s.token()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// submit asks again until a server has accepted a run of the playbook.
func (s *site) submit(c func() *client.Client, key, playbook string) api.Run {
	s.t.Helper()
	var run api.Run
	until(s.t, "a run to be accepted", func() bool {
		got, err := c().CreateRun(context.Background(), key, api.NewRun{Playbook: playbook})
		if err != nil && !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrUnknown) && !errors.Is(err, core.ErrNotFound) { // the definitions come a moment after the API
			s.t.Fatalf("submit: %v", err)
		}
		run = got
		return err == nil
	})
	return run
}

// open opens the ledger, to read the records; with a key ring where it is encrypted.
func (s *site) open(rings ...string) *ledger.Ledger {
	s.t.Helper()
	var o ledger.Options
	for _, path := range rings {
		ring, err := keyring.Open(path, keyring.Options{})
		if err != nil {
			s.t.Fatal(err)
		}
		o.Keyring = ring
	}
	l, err := ledger.Open(context.Background(), s.ledger, o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = l.Close() })
	return l
}

// accounted fails the test unless each job of the run has exactly one final outcome in the ledger;
// it returns how many ended how, and with more than one attempt.
func accounted(t *testing.T, l *ledger.Ledger, id string) (outcomes map[core.Outcome]int, again int) {
	t.Helper()
	ctx := context.Background()
	run, err := l.Run(ctx, ledger.AllTenants(), id)
	if err != nil {
		t.Fatalf("accepted run %s: %v", id, err)
	}
	seen, outcomes := map[int]int{}, map[core.Outcome]int{}
	for page := (ledger.Page{Limit: ledger.MaxPage}); ; {
		jobs, next, err := l.Jobs(ctx, ledger.AllTenants(), id, ledger.JobFilter{}, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			seen[j.Index]++
			outcomes[j.Outcome]++
			if j.Attempt > 1 {
				again++
			}
		}
		if next == "" {
			break
		}
		page.Cursor = next
	}
	if bad := notOnce(seen, run.Total); bad != "" {
		t.Errorf("run %s: %s", id, bad)
	}
	for o, n := range run.Outcomes {
		if n != outcomes[o] {
			t.Errorf("run %s counts %d %s, its jobs %d", id, n, o, outcomes[o])
		}
	}
	return outcomes, again
}

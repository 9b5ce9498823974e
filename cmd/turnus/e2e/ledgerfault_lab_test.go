//go:build linux && labs

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// longHosts is the hosts of the run that is under way when the ledger has its fault.
const longHosts = 60

// sickLedger is a service whose ledger is to have a fault, and the runs that it accepted.
type sickLedger struct {
	*lab
	server *process
	web    *http.Client
	token  string
	doctor []string // the arguments that check it
	beside []string // a command line that starts a process where the service is
	held   bool     // the long run must not be repeated, and its queue is gone
	again  string   // the key of a create that was refused

	mu       sync.Mutex
	accepted map[string]string // key to run
}

// sickOps makes a playbook of one host, and one that is under way for a while.
func (l *lab) sickOps() {
	l.t.Helper()
	if err := os.MkdirAll(filepath.Join(l.dir, "ops", "playbooks"), 0o700); err != nil {
		l.t.Fatal(err)
	}
	var inventory strings.Builder
	inventory.WriteString("hosts:\n  one: {address: 127.0.0.1}\n")
	for i := range longHosts {
		fmt.Fprintf(&inventory, "  long-%02d: {address: 127.0.0.1, labels: {long: yes}}\n", i)
	}
	l.file("ops/inventory.yaml", inventory.String())
	for name, targets := range map[string]string{"short": "host.name == 'one'", "long": "host.labels.long == 'yes'"} {
		l.file("ops/playbooks/"+name+".yaml", fmt.Sprintf("playbook: %s\ntargets: %s\nsteps:\n  - {uses: lab.hold, with: {file: %s/%[1]s, ms: 200}}\n", name, targets, l.dir))
	}
}

func (l *lab) sickLedger(server *process, token string, doctor ...string) *sickLedger {
	s := &sickLedger{lab: l, server: server, web: &http.Client{Transport: &http.Transport{}}, token: token, doctor: append([]string{"admin", "doctor"}, doctor...), accepted: map[string]string{}}
	l.t.Cleanup(s.web.CloseIdleConnections)
	return s
}

// create asks for a run, once, as a client that does not ask again.
func (s *sickLedger) create(key, playbook string) (status int, said api.Problem) {
	body, err := json.Marshal(api.NewRun{Playbook: playbook})
	if err != nil {
		s.t.Error(err)
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, address(s.server)+"/v1/runs", bytes.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return 0, said
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := s.web.Do(req)
	if err != nil {
		return 0, said
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Error(err)
	}
	if resp.StatusCode != http.StatusCreated {
		_ = json.Unmarshal(text, &said)
		return resp.StatusCode, said
	}
	var run api.Run
	if err := json.Unmarshal(text, &run); err != nil {
		s.t.Errorf("%s: %v", text, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if had, ok := s.accepted[key]; ok && had != run.ID {
		s.t.Errorf("key %s made run %s, and then %s", key, had, run.ID)
	}
	s.accepted[key] = run.ID
	return resp.StatusCode, said
}

// diagnosis starts turnus admin doctor.
func (s *sickLedger) diagnosis() *process {
	s.under = s.beside
	defer func() { s.under = nil }()
	return s.start(s.doctor...)
}

// underWay has the long run begun.
func (s *sickLedger) underWay() {
	s.t.Helper()
	until(s.t, "the run to be accepted", func() bool { status, _ := s.create("long", "long"); return status == http.StatusCreated })
	until(s.t, "jobs of the long run", func() bool { return len(executions(s.t, s.dir+"/long")) > 4 })
}

// refused checks what a client, a load balancer, the log and the doctor show while the ledger takes
// no writes. Jobs that are under way run to the last. A full disk may
// have room for some more, in the files that it has: then all are asked again.
func (s *sickLedger) refused(why, hint string) {
	s.t.Helper()
	var heard string
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("heard last: %s", heard)
		}
	})
	n := 0
	until(s.t, "a client, readyz and doctor to show it", func() bool {
		status, said := s.create(fmt.Sprint("refused-", n), "short")
		heard = fmt.Sprintf("create %d: %s", status, said.Detail)
		if status == http.StatusCreated {
			n++
			return false
		}
		if status != http.StatusServiceUnavailable || !strings.Contains(said.Detail, why) || !strings.Contains(said.Detail, "\nhint: "+hint) {
			return false
		}
		code, body := asked(s.t, address(s.server)+"/readyz")
		heard = fmt.Sprintf("readyz %d: %s", code, body)
		if code != http.StatusServiceUnavailable || !strings.Contains(body, `"ledger":"read_only"`) {
			return false
		}
		doctor := s.diagnosis()
		code = doctor.code()
		heard = fmt.Sprintf("doctor: exit code %d: %s%s", code, doctor.out, doctor.err)
		return code != 0 && strings.Contains(heard, "hint: "+hint)
	})
	s.again = fmt.Sprint("refused-", n)
	if !s.server.err.has("the ledger takes no writes; nothing is accepted, running jobs continue", why) {
		s.t.Errorf("the log lacks it: %s", s.server.err)
	}
	if code, body := asked(s.t, address(s.server)+"/healthz"); code != http.StatusOK { // a restart would not help
		s.t.Errorf("healthz %d: %s", code, body)
	}
	until(s.t, "all jobs under way to end", func() bool { return len(executions(s.t, s.dir+"/long")) == longHosts })
}

// whole checks, once the fault has ended, that creates which were refused are accepted under their
// key, that there are the accepted runs and no other, and that each job of them ran once.
func (s *sickLedger) whole() {
	s.t.Helper()
	if s.again != "" {
		until(s.t, "a refused run to be accepted", func() bool { status, _ := s.create(s.again, "short"); return status == http.StatusCreated })
	}
	if status, said := s.create("long", "long"); status != http.StatusCreated { // again, by its key
		s.t.Errorf("%d: %+v", status, said)
	}
	c, err := client.New(client.Config{Server: address(s.server), Token: s.token})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	for key, id := range s.accepted {
		if key == "long" && s.held {
			s.cancelHeld(c, id)
			continue
		}
		finished(s.t, c, id)
		want := map[core.Outcome]int{core.Changed: 1}
		if key == "long" {
			want[core.Changed] = longHosts
		}
		if run, err := c.Run(context.Background(), id); err != nil || !maps.Equal(run.Outcomes, want) {
			s.t.Errorf("run %s: %v, %v", key, run.Outcomes, err)
		}
	}
	all, err := client.All(context.Background(), 0, func(ctx context.Context, p client.Page) (client.List[api.Run], error) {
		return c.Runs(ctx, client.RunFilter{}, p)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ids := slices.Collect(maps.Values(s.accepted))
	if len(all) != len(ids) || slices.ContainsFunc(all, func(r api.Run) bool { return !slices.Contains(ids, r.ID) }) {
		s.t.Errorf("%d runs are there, %d were accepted", len(all), len(ids))
	}
	if bad := oncePerJob(slices.Concat(executions(s.t, s.dir+"/long"), executions(s.t, s.dir+"/short")), longHosts+len(ids)-1); bad != "" {
		s.t.Error(bad)
	}
	until(s.t, "the service to be ready", func() bool { code, _ := asked(s.t, address(s.server)+"/readyz"); return code == http.StatusOK })
	doctor := s.diagnosis()
	if code := doctor.code(); code != 0 || !doctor.out.has("sound: ") {
		s.t.Errorf("doctor: exit code %d: %s%s", code, doctor.out, doctor.err)
	}
}

// cancelHeld cancels a run that waits for a person: each host of it has an outcome.
func (s *sickLedger) cancelHeld(c *client.Client, id string) {
	s.t.Helper()
	var run api.Run
	var err error
	until(s.t, "the run to wait for a person", func() bool {
		run, err = c.Run(context.Background(), id)
		return err == nil && run.Phase == api.Paused
	})
	if _, err := c.CancelRun(context.Background(), id, "its hosts were checked"); err != nil {
		s.t.Fatal(err)
	}
	until(s.t, "the run to end", func() bool {
		run, err = c.Run(context.Background(), id)
		return err == nil && !run.Ended.IsZero()
	})
	ended := 0
	for _, n := range run.Outcomes {
		ended += n
	}
	if ended != longHosts || run.Outcomes[core.Changed] == longHosts {
		s.t.Errorf("the run that was paused ended with %v", run.Outcomes)
	}
}

// oncePerJob returns what is wrong unless each of so many jobs was executed once.
func oncePerJob(all []*execution, jobs int) string {
	times := map[string]int{}
	for _, e := range all {
		if times[e.job]++; times[e.job] > 1 {
			return fmt.Sprintf("job %s was executed %d times", e.job, times[e.job])
		}
	}
	if len(times) != jobs {
		return fmt.Sprintf("%d jobs were executed, expected %d", len(times), jobs)
	}
	return ""
}

func TestLabOncePerJobNoticesWhatIsWrong(t *testing.T) {
	a, b := &execution{job: "a"}, &execution{job: "b"}
	if bad := oncePerJob([]*execution{a, b}, 2); bad != "" {
		t.Errorf("all is well, and it reports: %s", bad)
	}
	if oncePerJob([]*execution{a, b, a}, 2) == "" || oncePerJob([]*execution{a}, 2) == "" {
		t.Error("a job that was executed twice, or never, is not noticed")
	}
}

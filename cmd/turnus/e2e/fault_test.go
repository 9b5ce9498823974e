//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/transport/fleet"
)

// fault is one way for a host to be unwell, and how its job must end.
type fault struct {
	name    string
	profile fleet.Profile
	run     string                   // instead of the usual command
	entry   func(h core.Host) string // instead of the usual line of the inventory
	outcome core.Outcome
	reason  []string // what the reason holds
}

// ends counts the never-ending commands that were begun and ended on their host.
type ends struct{ begun, ended atomic.Int64 }

// handle is what hosts do with the commands of the test.
func (e *ends) handle(ctx context.Context, c fleet.Command) (int, bool) {
	switch {
	case strings.Contains(c.Script, "never-ends"):
		e.begun.Add(1)
		<-ctx.Done()
		e.ended.Add(1)
		return 0, true
	case strings.Contains(c.Script, "read answer"):
		_, _ = io.WriteString(c.Stdout, "Proceed? [y/N] ")
		if _, err := bufio.NewReader(c.Stdin).ReadString('\n'); err != nil {
			_, _ = io.WriteString(c.Stderr, "no answer\n")
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// gate holds the command "held" on its hosts until it is opened: a job that ends when the test wants, however slow the machine is.
type gate struct {
	begun atomic.Int64
	way   chan struct{}
}

func newGate() *gate { return &gate{way: make(chan struct{})} }

func (g *gate) open() { close(g.way) }

func (g *gate) handle(ctx context.Context, c fleet.Command) (int, bool) {
	if strings.TrimSpace(c.Script) != "held" {
		return 0, false
	}
	g.begun.Add(1)
	select {
	case <-g.way:
	case <-ctx.Done():
	}
	return 0, true
}

// Each single fault ends in its own outcome, with a reason that says what it is, within its time; every
// other host of the same run is done well, and memory stays bounded whatever a host sends.
func TestEveryFaultEndsInItsOwnClearOutcomeAndHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	flood := int64(256 << 20)
	if raceEnabled {
		flood = 64 << 20
	}
	refused := testparts.FreePort(t)
	faults := []fault{
		{name: "refused", outcome: core.Unreachable, reason: []string{"refused"}, entry: func(h core.Host) string {
			return fmt.Sprintf("  %s: {address: 127.0.0.1, port: %d}\n", h.Name, refused)
		}},
		{name: "no such name", outcome: core.Unreachable, reason: []string{"turnus-e2e.invalid"}, entry: func(h core.Host) string {
			return fmt.Sprintf("  %s: {address: turnus-e2e.invalid}\n", h.Name)
		}},
		{name: "silent", profile: fleet.Silent(), outcome: core.Unreachable, reason: []string{"3s"}},
		{name: "unknown key", outcome: core.Unreachable, reason: []string{"host key", "host_key"}},
		{name: "changed key", profile: fleet.ChangedKey(), outcome: core.Unreachable, reason: []string{"host key"}},
		{name: "refuse auth", profile: fleet.RefuseAuth(), outcome: core.Unreachable, reason: []string{"auth"}},
		{name: "reset", profile: fleet.Reset(), outcome: core.Unreachable, reason: []string{"connection"}},
		{name: "cut", profile: fleet.Cut(), outcome: core.Unreachable, reason: []string{"connection"}},
		{name: "flood", profile: fleet.Flood(flood), outcome: core.Changed},
		{name: "binary", profile: fleet.Binary(), outcome: core.Changed},
		{name: "never ends", run: "never-ends", outcome: core.Failed, reason: []string{"timed out after"}},
		{name: "ignores everything", run: "hostname", profile: fleet.Profile{Hang: true, IgnoreTerm: true}, outcome: core.Failed, reason: []string{"timed out after"}},
		{name: "prompt", run: "read answer", outcome: core.Failed, reason: []string{"no answer"}},
		{name: "fails", profile: fleet.Fail(7, "no such rule\n"), outcome: core.Failed, reason: []string{"7", "no such rule"}},
	}
	const well = 40
	byNumber := map[int]fleet.Profile{}
	for i, f := range faults {
		byNumber[i] = f.profile
	}
	var e ends
	l := newLab(t, fleet.Config{Hosts: len(faults) + well, Profile: fleet.Only(byNumber), Handle: e.handle})
	inventory := "hosts:\n"
	for i, h := range l.fleet.Hosts() {
		line := l.entry(h, "")
		if i < len(faults) {
			f := faults[i]
			switch {
			case f.entry != nil:
				line = f.entry(h)
			case f.name == "unknown key":
				line = fmt.Sprintf("  %s: {address: %s, port: %d, user: %s, identity_file: %s}\n", h.Name, h.Address, h.SSH.Port, h.SSH.User, l.fleet.IdentityFile())
			case f.profile.Silent:
				line = l.entry(h, ", connect_timeout: 3s")
			case f.run != "":
				key := "run"
				if f.name == "prompt" { // it ends by itself, without the short time limit
					key = "ask"
				}
				line = l.entry(h, fmt.Sprintf(", vars: {%s: %s}", key, f.run))
			}
		}
		inventory += line
	}
	l.hosts = l.file("hosts.yaml", inventory)
	book := l.book("faults",
		`{name: say, uses: command, when: 'host.vars.run == nil && host.vars.ask == nil', timeout: 60s, with: {run: hostname}}`,
		`{name: do, uses: command, when: 'host.vars.run != nil', timeout: 3s, with: {run: "${{ host.vars.run }}"}}`,
		`{name: ask, uses: command, when: 'host.vars.ask != nil', timeout: 60s, with: {run: "${{ host.vars.ask }}"}}`)
	run := l.run("-o", "json", "--connect-timeout", "60s", book)
	run.wants(2)
	r := run.report()
	names := l.fleet.Hosts()
	for i, f := range faults {
		res := r.byHost(t, names[i].Name)
		if res.Outcome != f.outcome {
			t.Errorf("%s: outcome %s (%s), expected %s", f.name, res.Outcome, res.Reason, f.outcome)
		}
		for _, part := range f.reason {
			if !strings.Contains(strings.ToLower(res.Reason), part) {
				t.Errorf("%s: reason %q, expected it to say %q", f.name, res.Reason, part)
			}
		}
		t.Logf("%-18s %-11s %s", f.name, res.Outcome, res.Reason)
	}
	for _, h := range names[len(faults):] {
		if res := r.byHost(t, h.Name); res.Outcome != core.Changed || res.Steps[0].Stdout != h.Name+"\n" {
			t.Errorf("%s, which is well: %s %s", h.Name, res.Outcome, res.Reason)
		}
	}
	if e.begun.Load() != 1 || e.ended.Load() != 1 {
		t.Errorf("never-ending command: begun %d times, ended %d times on its host", e.begun.Load(), e.ended.Load())
	}
	if out := run.out.String(); !utf8.ValidString(out) || !json.Valid([]byte(out)) {
		t.Error("-o json is not valid UTF-8 JSON")
	}
	if peak := run.peak(); !raceEnabled && peak > 400 {
		t.Errorf("peak memory %d MiB", peak)
	} else {
		t.Logf("peak memory %d MiB after a flood of %d MiB", peak, flood>>20)
	}
}

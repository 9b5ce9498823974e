//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/transport/fleet"
)

// upSite is turnus up with a data folder that outlives it.
type upSite struct {
	*lab
	data string
	more []string // further arguments
}

func newUpSite(t *testing.T, hosts int, step string) *upSite {
	t.Helper()
	l := newLab(t, fleet.Config{Hosts: 1}).traced()
	if err := os.MkdirAll(filepath.Join(l.dir, "ops", "playbooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	var inventory strings.Builder
	inventory.WriteString("hosts:\n")
	for i := range hosts {
		fmt.Fprintf(&inventory, "  host-%05d: {address: 127.0.0.1}\n", i)
	}
	l.file("ops/inventory.yaml", inventory.String())
	l.file("ops/playbooks/all.yaml", "playbook: all\ntargets: true\nsteps:\n  - "+step+"\n")
	return &upSite{lab: l, data: filepath.Join(l.dir, "data")}
}

func (u *upSite) up() (*process, *client.Client) {
	u.t.Helper()
	return u.startUp(u.data, slices.Concat([]string{"-f", "8"}, u.pluginFlags(), u.more)...)
}

// startUp starts turnus up on the project in ops, and returns it with a client that has its admin
// token.
func (l *lab) startUp(data string, args ...string) (*process, *client.Client) {
	l.t.Helper()
	p := l.start(append([]string{"up", "--data", data, projectFlag(), filepath.Join(l.dir, "ops"), "--listen", "127.0.0.1:0", "--context", ""}, args...)...)
	until(l.t, "the service to listen", func() bool { return p.err.has("listening on ") || !p.running() })
	token, err := os.ReadFile(filepath.Join(data, "admin.token"))
	if err != nil {
		l.t.Fatalf("%v; %s", err, p.err)
	}
	c, err := client.New(client.Config{Server: address(p), Token: strings.TrimSpace(string(token))})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.Close)
	return p, c
}

// submitted asks until the definitions are there.
func submitted(t *testing.T, c *client.Client) api.Run {
	t.Helper()
	var run api.Run
	until(t, "the run to be accepted", func() (ok bool) {
		var err error
		run, err = c.CreateRun(context.Background(), "k", api.NewRun{Playbook: "all"})
		return err == nil
	})
	return run
}

func finished(t *testing.T, c *client.Client, id string) {
	t.Helper()
	until(t, "the run to finish", func() bool {
		run, err := c.Run(context.Background(), id)
		return err == nil && run.Phase == api.Finished
	})
}

// recorded reads the ledger when nobody has it open.
func (u *upSite) recorded(id string) (map[core.Outcome]int, int) {
	u.t.Helper()
	l, err := ledger.Open(context.Background(), "sqlite:"+filepath.Join(u.data, "ledger.db"), ledger.Options{})
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return accounted(u.t, l, id)
}

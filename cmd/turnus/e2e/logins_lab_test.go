//go:build linux && labs

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/turnus/turnus/core/transport/fleet"
)

// sshAgent serves the key of a fleet on a socket, and counts who connects.
func sshAgent(t *testing.T, f *fleet.Fleet) (socket string, asked *atomic.Int32) {
	t.Helper()
	text, err := os.ReadFile(f.IdentityFile())
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParseRawPrivateKey(text)
	keys := agent.NewKeyring()
	if err = errors.Join(err, keys.Add(agent.AddedKey{PrivateKey: key})); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agent") //nolint:usetesting // the path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	asked = &atomic.Int32{}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			serving.Go(func() {
				_ = agent.ServeAgent(keys, conn) // until the process at the other end closes it
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
		_ = os.RemoveAll(dir)
	})
	return listener.Addr().String(), asked
}

// A server that is handed a file of credentials neither asks its agent nor connects to a host: a
// run waits for a worker. The control: a worker with the same file asks the agent and does the
// work.
func TestLabAServerLogsInToNoHost(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	s := emptySite(l)
	s.file("ops/inventory.yaml", "hosts:\n"+l.entry(l.fleet.Hosts()[0], ""))
	s.file("ops/playbooks/all.yaml", "playbook: all\ntargets: true\nsteps: [{uses: command, with: {run: \"true\"}}]\n")
	socket, asked := sshAgent(t, l.fleet)
	l.env = append(l.env, "SSH_AUTH_SOCK="+socket,
		"TURNUS_SECRETS="+s.file("agent.yaml", fmt.Sprintf("credentials: {default: {agent: %s, addresses: [127.0.0.0/8]}}\n", socket)))
	queue, server := l.redis.queue(), s.server()
	c := s.ask(server)
	run := submitted(t, c)
	until(t, "the run to wait in the queue", func() bool {
		status, err := queue.Status(context.Background(), run.ID)
		return err == nil && status.Total == 1
	})
	if n, stats := asked.Load(), l.fleet.Stats(); n != 0 || stats.Accepted != 0 {
		t.Errorf("the agent was asked %d times, and the host: %+v", n, stats)
	}
	w := l.worker()
	finished(t, c, run.ID)
	if got, err := c.Run(context.Background(), run.ID); err != nil || got.Outcomes["failed"]+got.Outcomes["unreachable"] != 0 || asked.Load() == 0 {
		t.Errorf("the control shows nothing: %+v, %v; the agent was asked %d times", got.Outcomes, err, asked.Load())
	}
	w.kill()
	server.kill()
}

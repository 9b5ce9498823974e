//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/transport/fleet"
)

// Other processes of its user may not read the memory of a server or a worker: its part of /proc is
// root's. The control is a worker that is set to confine nothing.
func TestOthersOfItsUserCannotLookIn(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	var err error
	if os.Geteuid() != 0 {
		err = fmt.Errorf("only root can become another user")
	}
	testparts.Able(t, "processes of another user", err)
	setpriv := testparts.Need(t, "setpriv", "util-linux")
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	l.under = []string{setpriv, "--reuid", fmt.Sprint(nobody), "--regid", fmt.Sprint(nobody), "--clear-groups"}
	for dir, mode := range map[string]os.FileMode{base: 0o711, filepath.Dir(l.dir): 0o711, l.dir: 0o711} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	if g := l.redis.guard; g.Secure() { // make check-tls
		for _, path := range []string{g.CA, g.Client.Cert, g.Client.Key} {
			if err := errors.Join(os.Chown(path, nobody, nobody), os.Chmod(filepath.Dir(path), 0o711), os.Chmod(filepath.Dir(filepath.Dir(path)), 0o711)); err != nil {
				t.Fatal(err)
			}
		}
	}
	home := filepath.Join(l.dir, "nobody")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	l.env = []string{"HOME=" + home, "TURNUS_STATE=" + filepath.Join(home, "state")}
	worker := []string{"worker", "--redis", l.queue, "--cpu-limit", "0", "--memory-limit", "0"}
	for _, c := range []struct {
		args  []string
		ready string
		owner uint32
	}{
		{[]string{"server", "--redis", l.queue, "--data", filepath.Join(home, "data"), "--listen", "127.0.0.1:0"}, "listening on ", 0},
		{worker, "working as ", 0},
		{append(worker, "--plugin-sandbox", "off"), "working as ", nobody},
	} {
		p := l.start(c.args...)
		until(t, "the process to work", func() bool { return p.err.has(c.ready) || !p.running() })
		info, err := os.Stat(fmt.Sprintf("/proc/%d/environ", p.pid()))
		if err != nil {
			t.Fatalf("%v: %s", err, p.err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != c.owner {
			t.Errorf("%v: what it was started with belongs to user %d, expected %d", c.args, got, c.owner)
		}
		p.kill()
	}
}

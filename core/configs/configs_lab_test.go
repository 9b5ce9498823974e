//go:build linux && labs

package configs_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A process is killed in the middle again and again: what it reported as kept is there, what is
// there is whole, and the next continues.
func TestLabKilledInTheMiddle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "configs")
	r := open(t, dir)
	for kill := range 4 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "keeper", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		safe, buf := "", make([]byte, 4<<10)
		for strings.Count(safe, "\n") < 20+7*kill { // another moment each time
			n, err := out.Read(buf)
			if safe += string(buf[:n]); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		for l := range strings.Lines(safe[:strings.LastIndex(safe, "\n")+1]) {
			var host string
			var round, have int
			if _, err := fmt.Sscan(l, &host, &round); err != nil {
				t.Fatal(err)
			}
			a, _, err := r.File(t.Context(), host, "a")
			if _, scan := fmt.Sscan(string(a), &have); err != nil || scan != nil || have < round {
				t.Errorf("kill %d: %s reported round %d, there is %q, %v", kill, host, round, a, err)
			}
			b, _, err := r.File(t.Context(), host, "b")
			if err != nil || !bytes.Equal(b, bytes.Repeat(fmt.Appendf(nil, "%d ", have), 20_000)) {
				t.Errorf("kill %d: %s: half a version: a is of round %d, b %.20q, %v", kill, host, have, b, err)
			}
		}
		if kept := keep(t, r, change("after", "a", fmt.Sprintf("%d\n", kill))); kept.Version == "" {
			t.Errorf("kill %d: nothing could be kept", kill)
		}
		sound(t, r)
	}
}

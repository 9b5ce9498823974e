package ledger_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// writeUntilKilled is the child of the test below: it accepts runs and records outcomes, and prints
// each when it was acknowledged.
func writeUntilKilled(dir string) {
	ctx := context.Background()
	l, err := ledger.Open(ctx, "sqlite:"+filepath.Join(dir, "ledger.db"), ledger.Options{})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	defer l.Close()
	for round := 0; ; round++ {
		id := fmt.Sprintf("%d-%d", os.Getpid(), round)
		if _, _, err := l.Accept(ctx, newRun(id, "", 200)); err != nil {
			fmt.Println("error", err)
			return
		}
		fmt.Println("accepted", id)
		for from := 0; from < 200; from += 20 {
			b := ledger.Batch{Run: id}
			for i := from; i < from+20; i++ {
				b.Outcomes = append(b.Outcomes, ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 1, Detail: []byte("some detail")})
			}
			if _, err := l.Record(ctx, b); err != nil {
				fmt.Println("error", err)
				return
			}
			fmt.Println("recorded", id, from+20)
		}
	}
}

// A server that is killed while it writes has lost nothing that it had acknowledged.
func TestKilledWriterLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for kill := range 3 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "TURNUS_LEDGER_TEST_WRITER="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acknowledged := map[string]int{}
		lines := 0
		for s := bufio.NewScanner(out); s.Scan(); lines++ {
			f := strings.Fields(s.Text())
			switch f[0] {
			case "accepted":
				acknowledged[f[1]] = 0
			case "recorded":
				acknowledged[f[1]], _ = strconv.Atoi(f[2])
			default:
				t.Error(s.Text())
			}
			if lines == 30+7*kill {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
		l := open(t, "sqlite:"+filepath.Join(dir, "ledger.db"))
		for id, n := range acknowledged {
			r := read(t, l, id)
			if r.Outcomes[core.Changed] < n {
				t.Errorf("run %s has %d outcomes, %d were acknowledged", id, r.Outcomes[core.Changed], n)
			}
		}
		if len(acknowledged) < 3 {
			t.Errorf("the child was killed before it could show anything: %v", acknowledged)
		}
		sound(t, l)
	}
}

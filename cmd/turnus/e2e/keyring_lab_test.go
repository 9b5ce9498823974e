//go:build linux && labs

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport/fleet"
)

// words are put where they must not be found: into the playbook, its vars, a host's vars, a
// schedule's definition, and what a host writes.
var words = []string{"Quisquilien", "Sanduhrglas", "Xanthippe", "Trampolinist", "Weinbergschnecke"}

// searched fails the test where one of the words is in a file of the folders; with found, where
// none is.
func searched(t *testing.T, found bool, folders ...string) {
	t.Helper()
	n := 0
	for _, dir := range folders {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			for _, w := range words {
				if bytes.Contains(text, []byte(w)) {
					if n++; !found {
						t.Errorf("%s is in %s", w, path)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found && n < 3 {
		t.Errorf("the words were found %d times without encryption: the search detects nothing", n)
	}
}

// keys runs a subcommand of keys and reads its document.
func (l *lab) keys(doc any, args ...string) {
	l.t.Helper()
	p := l.start(append([]string{"admin", "keys", "-o", "json"}, args...)...)
	p.wants(0)
	if doc != nil {
		if err := json.Unmarshal([]byte(p.out.String()), doc); err != nil {
			l.t.Fatalf("%v: %s", err, p.out)
		}
	}
}

type keyDoc struct {
	Key string `json:"key"`
}

// chatty is a service over real hosts, whose words go everywhere that a service keeps something.
func chatty(t *testing.T, l *lab) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(l.dir, "ops", "playbooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	var inventory strings.Builder
	inventory.WriteString("hosts:\n")
	for _, h := range l.fleet.Hosts() {
		inventory.WriteString(l.entry(h, ", vars: {word: "+words[1]+"}"))
	}
	l.file("ops/inventory.yaml", inventory.String())
	l.file("ops/playbooks/all.yaml", "playbook: all\ndescription: "+words[0]+"\ntargets: true\nvars: {mine: "+words[2]+"}\n"+
		"schedule: {cron: \"0 3 1 1 *\", timezone: UTC}\nsteps:\n"+
		"  - {name: say, uses: command, with: {run: \"echo "+words[3]+" ${{ host.vars.word }} ${{ vars.mine }}\"}}\n"+
		"  - {name: flood, uses: command, with: {run: flood 200000}}\n"+
		"  - {name: fail, uses: command, with: {run: \"echo "+words[4]+" >&2; exit 3\"}}\n")
}

// A whole service with SQLite, objects and Redis: no word that people write or hosts send is
// legible in any of its files, and the service works. The negative control is the same without a
// key ring.
func TestLabNothingOfAnEncryptedServiceIsLegible(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{true, false} {
		l := newLab(t, fleet.Config{Hosts: 3}).withRedis("--save", "3600 1")
		chatty(t, l)
		data := filepath.Join(l.dir, "data")
		ring := filepath.Join(l.dir, "ring.json")
		args := append([]string{"--redis", l.redis.url()}, l.pluginFlags()...)
		if encrypted {
			l.keys(nil, "new", ring)
			args = append(args, "--keyring", ring)
		}
		p, c := l.startUp(data, args...)
		run := submitted(t, c)
		finished(t, c, run.ID)
		id := core.JobID{Run: run.ID}
		job, err := c.Job(context.Background(), id)
		if err != nil || job.Outcome != core.Failed || len(job.Steps) != 3 || !strings.Contains(job.Steps[0].Stdout, words[3]+" "+words[1]+" "+words[2]) || !strings.Contains(job.Steps[2].Stderr, words[4]) {
			t.Errorf("job %+v, %v", job, err)
		}
		outputs, err := c.Outputs(context.Background(), id)
		if err != nil || len(outputs.Items) == 0 {
			t.Errorf("outputs %+v, %v", outputs, err)
		}
		if err := l.redis.admin().Save(context.Background()).Err(); err != nil {
			t.Error(err)
		}
		searched(t, !encrypted, data, l.redis.dir)
		p.signal(syscall.SIGTERM)
		p.wants(0)
		searched(t, !encrypted, data, l.redis.dir)
		l.redis.sound(nil)
		if !encrypted {
			continue
		}
		for _, other := range [][]string{{"up", "--redis", l.redis.url(), "--data", data, "--listen", "127.0.0.1:0"}, {"doctor", "--ledger", "sqlite:" + filepath.Join(data, "ledger.db")}} {
			without := l.start(other...)
			without.wants(5)
			if !without.err.has("its data is encrypted", "--keyring") {
				t.Errorf("%v without the key ring: %s", other, without.err)
			}
		}
	}
}

package definitions

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core/testparts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// good is a small valid tree.
func good() map[string]string {
	return map[string]string{
		"playbooks/patch.yaml": `playbook: patch
targets: '"web" in host.groups'
window: service
strategy: {max_in_flight: 5}
schedule: {cron: "0 3 * * 1", timezone: Europe/Zurich}
vars: {token: hush}
steps:
  - {name: look, uses: command, with: {run: uptime}}
  - {name: patch, uses: command, with: {run: apt}, needs: 40m}
`,
		"playbooks/deep/report.yml": "playbook: report\ntargets: true\nsteps: [{uses: command, with: {run: date}}]\n",
		"inventory/hosts.yaml": `groups:
  web: {}
hosts:
  a: {address: 10.0.0.1, groups: [web], window_set: sat}
  b: {address: 10.0.0.2, groups: [web], window_set: sat, vars: {secret: hush}}
  c: {address: 10.0.0.3}
`,
		"windows/sets.yaml": `window_sets:
  sat:
    timezone: Europe/Berlin
    allow:
      - {id: night, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 04:00"}
    deny: [{use: freeze/xmas}]
freezes:
  xmas: {timezone: Europe/Berlin, from: "2026-12-20", to: "2027-01-07"}
`,
		"files/motd":  "hello\n",
		"README.md":   "about\n",
		".gitignore":  "*.swp\n",
		".github/x.y": "no: [playbook\n",
	}
}

// with is a tree with some files exchanged; "" removes one.
func with(tree map[string]string, pairs ...string) map[string]string {
	for i := 0; i < len(pairs); i += 2 {
		if tree[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
			delete(tree, pairs[i])
		}
	}
	return tree
}

func edited(tree map[string]string, file, old, now string) map[string]string {
	if !strings.Contains(tree[file], old) {
		panic(file + " does not hold " + old)
	}
	return with(tree, file, strings.ReplaceAll(tree[file], old, now))
}

func docsOf(tree map[string]string) []Document {
	var out []Document
	for p, text := range tree {
		if !hidden(p) {
			out = append(out, Document{p, []byte(text)})
		}
	}
	return out
}

func mustSet(tb testing.TB, tree map[string]string) *Set {
	tb.Helper()
	s, err := FromDocuments(context.Background(), docsOf(tree), Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func writeTree(t *testing.T, dir string, tree map[string]string) {
	t.Helper()
	for p, text := range tree {
		file := filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// repo is a real repository of a test, with a work tree.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T, tree map[string]string) *repo {
	t.Helper()
	testparts.Need(t, "git", "git")
	r := &repo{t, t.TempDir()}
	r.git("init", "--quiet", "--initial-branch=main", "--template=")
	settings, err := os.OpenFile(filepath.Join(r.dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = settings.WriteString("[uploadpack]\n\tallowAnySHA1InWant = true\n")
		err = errors.Join(err, settings.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if tree != nil {
		writeTree(t, r.dir, tree)
		r.commitAll("first")
	}
	return r
}

func (r *repo) try(args ...string) (string, error) {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir, "-c", "user.name=Ann Op", "-c", "user.email=ann@example.org", "-c", "protocol.file.allow=always", "-c", "maintenance.auto=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_COMMITTER_DATE=2026-11-01T10:00:00Z", "GIT_AUTHOR_DATE=2026-11-01T10:00:00Z")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	out, err := r.try(args...)
	if err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return out
}

// commit replaces the tree, and gives the commit.
func (r *repo) commit(subject string, tree map[string]string) string {
	r.t.Helper()
	if out, err := r.try("rm", "-rfq", "--ignore-unmatch", "."); err != nil {
		r.t.Fatal(out)
	}
	writeTree(r.t, r.dir, tree)
	return r.commitAll(subject)
}

func (r *repo) commitAll(subject string) string {
	r.t.Helper()
	r.git("add", "-A", "-f", ".")
	r.git("commit", "--quiet", "--allow-empty", "--no-verify", "-m", subject)
	return r.head()
}

// head gives the commit of the branch. Each process of git costs more than the files that it reads.
func (r *repo) head() string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, ".git", "HEAD"))
	if branch, ok := strings.CutPrefix(string(text), "ref: "); err == nil && ok {
		text, err = os.ReadFile(filepath.Join(r.dir, ".git", strings.TrimSpace(branch)))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// patience is how long a test waits for what must happen; no test waits so long when all is well.
const patience = 30 * time.Second

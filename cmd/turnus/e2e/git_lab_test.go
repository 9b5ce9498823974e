//go:build linux && labs

package e2e

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/transport/fleet"
)

// origin is a bare repository that a team pushes to, and somebody's clone of it.
type origin struct {
	t                    *testing.T
	program, bare, clone string
}

func newOrigin(l *lab) *origin {
	l.t.Helper()
	o := &origin{t: l.t, program: testparts.Need(l.t, "git", "git"), bare: filepath.Join(l.dir, "ops.git"), clone: filepath.Join(l.dir, "clone")}
	o.git(l.dir, "init", "--quiet", "--bare", "--initial-branch=live", o.bare)
	o.git(l.dir, "init", "--quiet", "--initial-branch=live", o.clone)
	o.git(o.clone, "remote", "add", "origin", o.bare)
	return o
}

func (o *origin) git(dir string, args ...string) string {
	o.t.Helper()
	cmd := exec.Command(o.program, args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(o.bare), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ann Op", "GIT_AUTHOR_EMAIL=ann@example.org",
		"GIT_COMMITTER_NAME=Ann Op", "GIT_COMMITTER_EMAIL=ann@example.org",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// push puts files, as path and content, on the branch and returns the commit.
func (o *origin) push(files ...string) string {
	o.t.Helper()
	for i := 0; i+1 < len(files); i += 2 {
		p := filepath.Join(o.clone, files[i])
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			o.t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(files[i+1]), 0o600); err != nil {
			o.t.Fatal(err)
		}
	}
	o.git(o.clone, "add", "--all")
	o.git(o.clone, "commit", "--quiet", "--message", "change "+files[0])
	o.git(o.clone, "push", "--quiet", "--force", "origin", "live")
	return o.git(o.clone, "rev-parse", "HEAD")
}

const hookSecret = "push-event-secret"

// heard is a webhook that keeps the notifications that it gets.
type heard struct {
	*httptest.Server
	mu    sync.Mutex
	texts []string
}

func newHeard(t *testing.T) *heard {
	r := &heard{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if mac := hmac.New(sha256.New, []byte(hookSecret)); err == nil {
			mac.Write(body)
			if req.Header.Get("X-Turnus-Signature-256") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
				t.Errorf("a notification is signed with %q", req.Header.Get("X-Turnus-Signature-256"))
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.texts = append(r.texts, string(body))
	}))
	t.Cleanup(r.Close)
	return r
}

// has reports whether a notification holds all of the words.
func (r *heard) has(words ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.texts, func(text string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	})
}

// scrape reads the metrics of a server as Prometheus does.
func scrape(t *testing.T, p *process, token string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address(p)+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", resp.StatusCode, err, text)
	}
	return string(text)
}

// hook notifies a server of a push, as GitHub does, and returns the status of the answer.
func hook(t *testing.T, server, secret string) int {
	t.Helper()
	body := []byte(`{"ref": "refs/heads/live"}`)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+"/hooks/definitions", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// Two servers follow a branch. A push and its webhook at one of them change what both run by; a run
// carries the revision. A bad commit changes nothing and is reported, and the next good one heals.
func TestLabServersFollowABranch(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis().traced()
	s := emptySite(l)
	o := newOrigin(l)
	playbook := func(vars string) string {
		return fmt.Sprintf("playbook: all\ntargets: true\n%ssteps:\n  - {uses: lab.trace, with: {file: %s/trace}}\n", vars, l.dir)
	}
	first := o.push("inventory.yaml", "hosts:\n  one: {address: 127.0.0.1}\n", "playbooks/all.yaml", playbook(""))
	s.follow = []string{"--repo", o.bare, "--branch", "live", "--repo-every", "1h", "--webhook-secret-file", l.file("hook", hookSecret+"\n")}
	heard := newHeard(t)
	s.follow = append(s.follow, "--notify", heard.URL, "--notify-secret-file", l.file("notify", hookSecret+"\n"))
	a, b := s.server(), s.server()
	s.worker("-f", "2")
	ca, cb := s.ask(a), s.ask(b)
	at := func(c *client.Client, revision string) {
		t.Helper()
		until(t, "the definitions to be those of "+revision, func() bool {
			d, err := c.Definitions(context.Background())
			return err == nil && d.Revision == revision
		})
	}
	at(ca, first)
	at(cb, first)

	second := o.push("playbooks/all.yaml", playbook("vars: {n: 2}\n"))
	if code := hook(t, address(a), "guessed"); code != http.StatusUnauthorized {
		t.Errorf("a push event with a wrong secret: %d", code)
	}
	if code := hook(t, address(a), hookSecret); code != http.StatusAccepted {
		t.Fatalf("a push event: %d", code)
	}
	at(ca, second)
	at(cb, second)
	run := s.submit(func() *client.Client { return cb }, "k", "all")
	until(t, "the run to be over", func() bool {
		got, err := cb.Run(context.Background(), run.ID)
		run = got
		return err == nil && got.Phase == api.Finished
	})
	if run.Revision != second {
		t.Errorf("the run is of revision %s, expected %s", run.Revision, second)
	}

	bad := o.push("playbooks/all.yaml", "playbook: all\ntragets: true\n")
	hook(t, address(a), hookSecret)
	until(t, "the bad commit to be told of", func() bool {
		d, err := ca.Definitions(context.Background())
		return err == nil && d.Revision == second && d.Rejected != nil && d.Rejected.Revision == bad && strings.Contains(d.Rejected.Error, "playbooks/all.yaml:2:1")
	})
	until(t, "server a to say so", func() bool { return a.err.has("the project is invalid, the last valid one stays in use: ") })
	if text := scrape(t, a, s.token()); !strings.Contains(text, "turnus_project_rejected 1\n") || !strings.Contains(text, `turnus_events_total{kind="project_rejected"} 1`+"\n") {
		t.Errorf("metrics do not show the bad commit:\n%s", text)
	}
	until(t, "a notification of the bad commit", func() bool {
		return heard.has("project_rejected", "Ann Op", "playbooks/all.yaml:2:1")
	})
	until(t, "doctor to report the bad commit", func() bool {
		doctor := s.start("admin", "doctor", "--ledger", s.ledger)
		return doctor.code() == 2 && doctor.out.has("project: commit "+bad[:12]+" by Ann Op") && doctor.out.has("playbooks/all.yaml:2:1")
	})
	healed := o.push("playbooks/all.yaml", playbook("vars: {n: 3}\n"))
	hook(t, address(a), hookSecret)
	at(ca, healed)
	at(cb, healed)
	until(t, "the rejection to be forgotten", func() bool {
		d, err := ca.Definitions(context.Background())
		return err == nil && d.Rejected == nil && d.Source == "git" && d.Author == "Ann Op <ann@example.org>"
	})
}

package configs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/configs"
	"github.com/turnus/turnus/core/testparts"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "keeper" {
		keeper(os.Args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, dir string) *configs.Repo {
	t.Helper()
	testparts.Need(t, "git", "git")
	r, err := configs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func fresh(t *testing.T) *configs.Repo {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "configs"))
}

func change(host, name, content string) configs.Change {
	return configs.Change{
		Host: host, Files: []configs.File{{Name: name, Content: []byte(content)}}, Author: "ann (1000)",
		At: time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC), Playbook: "backup", Run: "20261120-030000-backup", Step: "keep",
	}
}

func keep(t *testing.T, r *configs.Repo, c configs.Change) configs.Kept {
	t.Helper()
	kept, err := r.Keep(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// git runs the real program on the repository, as its owner does.
func git(t *testing.T, r *configs.Repo, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"--git-dir", r.Dir()}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// sound fails when git finds anything wrong with the repository.
func sound(t *testing.T, r *configs.Repo) {
	t.Helper()
	if out := git(t, r, "fsck", "--full", "--strict", "--no-dangling"); strings.TrimSpace(out) != "" {
		t.Errorf("git fsck: %s", out)
	}
}

func TestVersions(t *testing.T) {
	r := fresh(t)
	if _, found, err := r.File(t.Context(), "r1", "running.conf"); found || err != nil {
		t.Errorf("before the first: %v, %v", found, err)
	}
	first := keep(t, r, change("r1", "running.conf", "mtu 1500\n"))
	if len(first.Version) != 40 || !slices.Equal(first.Changed, []string{"running.conf"}) {
		t.Errorf("the first: %+v", first)
	}
	if again := keep(t, r, change("r1", "running.conf", "mtu 1500\n")); again.Version != "" || again.Changed != nil {
		t.Errorf("nothing changed, and yet: %+v", again)
	}
	keep(t, r, change("r2", "running.conf", "mtu 1500\n"))
	next := keep(t, r, change("r1", "running.conf", "mtu 9000\n"))
	content, found, err := r.File(t.Context(), "r1", "running.conf")
	if err != nil || !found || string(content) != "mtu 9000\n" {
		t.Errorf("the newest: %q, %v, %v", content, found, err)
	}
	list, err := r.History(t.Context(), configs.Query{Host: "r1"})
	if err != nil || len(list) != 2 || list[0].Version != next.Version || list[1].Version != first.Version {
		t.Fatalf("history: %+v, %v", list, err)
	}
	v := list[0]
	if v.Host != "r1" || v.Author != "ann (1000)" || v.Playbook != "backup" || v.Run != "20261120-030000-backup" || v.Step != "keep" || !v.At.Equal(change("", "", "").At) {
		t.Errorf("version: %+v", v)
	}
	diff, err := r.Differences(t.Context(), "r1", "", v.Parent, v.Version)
	if err != nil || len(diff) != 1 || string(diff[0].Before) != "mtu 1500\n" || string(diff[0].After) != "mtu 9000\n" {
		t.Errorf("differences: %+v, %v", diff, err)
	}
	if hosts, err := r.Hosts(t.Context(), next.Version); err != nil || !slices.Equal(hosts, []string{"r1", "r2"}) {
		t.Errorf("hosts: %v, %v", hosts, err)
	}
	if n := strings.TrimSpace(git(t, r, "rev-list", "--count", "main")); n != "3" {
		t.Errorf("%s commits, want 3", n)
	}
	sound(t, r)
}

func TestFilesThatAreGoneAreAVersion(t *testing.T) {
	r := fresh(t)
	keep(t, r, change("r1", "a", "A\n"))
	gone := change("r1", "a", "")
	gone.Files[0].Gone = true
	if kept := keep(t, r, gone); kept.Version == "" {
		t.Error("no version")
	}
	if kept := keep(t, r, gone); kept.Version != "" {
		t.Error("a second version without a change")
	}
	list, err := r.History(t.Context(), configs.Query{Host: "r1", File: "a", Limit: 1})
	if err != nil || len(list) != 1 || !slices.Equal(list[0].Gone, []string{"a"}) {
		t.Errorf("history: %+v, %v", list, err)
	}
	if _, err := r.Content(t.Context(), "r1", "a", list[0].Version); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("content: %v", err)
	}
	if was, err := r.Content(t.Context(), "r1", "a", list[0].Parent); err != nil || string(was) != "A\n" {
		t.Errorf("before: %q, %v", was, err)
	}
}

// 200 hosts at the same time, in two processes' worth of repositories on one folder: no version is
// lost.
func TestTwoHundredHostsAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "configs")
	repos := []*configs.Repo{open(t, dir), open(t, dir)}
	const hosts, rounds = 200, 3
	var wg sync.WaitGroup
	for i := range hosts {
		wg.Go(func() {
			host := fmt.Sprintf("host-%03d", i)
			r := repos[i%len(repos)]
			for round := range rounds {
				text := fmt.Sprintf("%s round %d\n", host, round)
				kept, err := r.Keep(context.WithoutCancel(t.Context()), change(host, "running.conf", text))
				if err != nil || kept.Version == "" {
					t.Errorf("%s: %+v, %v", host, kept, err)
					return
				}
				if got, _, err := r.File(context.WithoutCancel(t.Context()), host, "running.conf"); err != nil || string(got) != text {
					t.Errorf("%s: read %q, %v; want %q", host, got, err, text)
				}
			}
		})
	}
	wg.Wait()
	r := repos[0]
	list, err := r.History(t.Context(), configs.Query{})
	if err != nil || len(list) != hosts*rounds {
		t.Fatalf("%d versions, %v; want %d", len(list), err, hosts*rounds)
	}
	seen := map[string]int{}
	for _, v := range list {
		seen[v.Host]++
		if got, err := r.Content(t.Context(), v.Host, "running.conf", v.Version); len(seen) < 5 && (err != nil || !bytes.HasPrefix(got, []byte(v.Host+" "))) {
			t.Errorf("%s of %s: %q, %v", v.Version, v.Host, got, err)
		}
		if len(seen) >= 5 {
			break // each read is a process
		}
	}
	sound(t, r)
}

func TestWhatAKilledGitLeftIsInNobodysWay(t *testing.T) {
	r := fresh(t)
	keep(t, r, change("r1", "a", "1\n"))
	for _, name := range []string{"index.lock", "refs/heads/main.lock", "packed-refs.lock", "HEAD.lock", "objects/pack/tmp_pack_x", "fast_import_crash_1", "gc.pid"} {
		if err := os.WriteFile(filepath.Join(r.Dir(), name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if kept := keep(t, r, change("r1", "a", "2\n")); kept.Version == "" {
		t.Error("no version")
	}
	if left, err := filepath.Glob(filepath.Join(r.Dir(), "refs/heads/*.lock")); err != nil || left != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	sound(t, r)
}

func TestAnInitThatWasKilledIsRepeated(t *testing.T) {
	r := fresh(t)
	if err := os.MkdirAll(filepath.Join(r.Dir(), "refs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.Dir(), "turnus.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, found, err := r.File(t.Context(), "r1", "a"); found || err != nil {
		t.Errorf("read: %v, %v", found, err)
	}
	keep(t, r, change("r1", "a", "1\n"))
	sound(t, r)
}

// keeper keeps versions until it is killed, and prints which are safe.
func keeper(dir string) {
	r, err := configs.New(dir)
	if err != nil {
		panic(err)
	}
	for round := 0; ; round++ {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				host := fmt.Sprintf("h%d", i)
				c := change(host, "a", fmt.Sprintf("%d\n", round))
				c.Files = append(c.Files, configs.File{Name: "b", Content: bytes.Repeat(fmt.Appendf(nil, "%d ", round), 20_000)})
				if _, err := r.Keep(context.Background(), c); err == nil {
					fmt.Printf("%s %d\n", host, round)
				}
			})
		}
		wg.Wait()
	}
}

func TestHostileNames(t *testing.T) {
	r := fresh(t)
	hosts := []string{"..", ".", ".git", ".GIT", "git~1", "a/b", `a\b`, "a%2Fb", "-x", "--help", "a\nb", "a\x00b", "a b", `"q"`, "ü", "\xff", "x.", "main", "a:b", "*"}
	for _, h := range hosts {
		keep(t, r, change(h, "a", "of "+h))
	}
	for _, h := range hosts {
		if got, found, err := r.File(t.Context(), h, "a"); err != nil || !found || string(got) != "of "+h {
			t.Errorf("%q: %q, %v, %v", h, got, found, err)
		}
		if list, err := r.History(t.Context(), configs.Query{Host: h}); err != nil || len(list) != 1 || list[0].Host != h {
			t.Errorf("%q: history %+v, %v", h, list, err)
		}
	}
	got, err := r.Hosts(t.Context(), "main")
	if slices.Sort(hosts); err != nil || !slices.Equal(got, hosts) {
		t.Errorf("hosts: %q, %v", got, err)
	}
	sound(t, r)
	for _, c := range []configs.Change{
		change("", "a", ""), change(strings.Repeat("/", 100), "a", ""), change("r1", "", ""), change("r1", "../a", ""), change("r1", "a/b", ""),
		change("r1", ".git", ""), change("r1", "a\nD r2/a", ""), change("r1", `"a`, ""), {Host: "r1"},
		{Host: "r1", Files: []configs.File{{Name: "a"}, {Name: "a"}}},
		{Host: "r1", Files: []configs.File{{Name: "a", Content: make([]byte, configs.MaxBytes+1)}}},
	} {
		if _, err := r.Keep(t.Context(), c); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%.20q: %v", c.Host, err)
		}
	}
}

// Names of people and playbooks cannot write a commit of its own.
func TestHostileWords(t *testing.T) {
	r := fresh(t)
	c := change("r1", "a", "commit refs/heads/evil\ndone\n")
	c.Author, c.Playbook, c.Run, c.Step = "eve <e@x>\ncommitter root <> 0 +0000", "p\nHost: r2", "x\x00y", "s\x1b[31m"
	keep(t, r, c)
	c.Author = "\n"
	c.Files[0].Content = []byte("x")
	keep(t, r, c)
	if refs := git(t, r, "for-each-ref", "--format=%(refname)"); refs != "refs/heads/main\n" {
		t.Errorf("refs: %s", refs)
	}
	list, err := r.History(t.Context(), configs.Query{})
	if err != nil || len(list) != 2 || list[1].Host != "r1" || list[1].Playbook != "p Host: r2" || list[0].Author != "turnus" {
		t.Errorf("history: %+v, %v", list, err)
	}
	sound(t, r)
}

func TestAFolderOfSomebodyElseIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	if _, err := r.Keep(t.Context(), change("r1", "a", "x")); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "precious") {
		t.Errorf("kept: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
}

func TestOnlyTheOwnerReads(t *testing.T) {
	r := fresh(t)
	keep(t, r, change("r1", "a", "secret"))
	err := filepath.WalkDir(r.Dir(), func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBinaryAndLargeContent(t *testing.T) {
	r := fresh(t)
	for name, content := range map[string]string{"nul": "a\x00b\ndone\n", "empty": "", "large": strings.Repeat("0123456789abcdef", 1<<20), "crlf": "a\r\nb"} {
		keep(t, r, change("r1", name, content))
		if got, found, err := r.File(t.Context(), "r1", name); err != nil || !found || string(got) != content {
			t.Errorf("%s: %d bytes, %v, %v; want %d", name, len(got), found, err, len(content))
		}
	}
	sound(t, r)
}

// A Ctrl-C that ends the job does not end the commit it waits for; after Close there is none.
func TestTheEndOfACallerAndOfTheRepository(t *testing.T) {
	r := fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Keep(ctx, change("r1", "a", "x")); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Keep(t.Context(), change("r1", "a", "y")); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("after Close: %v", err)
	}
	other := open(t, r.Dir())
	if got, _, err := other.File(t.Context(), "r1", "a"); err != nil || string(got) != "x" {
		t.Errorf("after the caller left: %q, %v", got, err)
	}
}

func TestVersionsAreResolved(t *testing.T) {
	r := fresh(t)
	if _, err := r.Resolve(t.Context(), ""); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("empty: %v", err)
	}
	kept := keep(t, r, change("r1", "a", "x"))
	for text, want := range map[string]error{"": nil, kept.Version[:8]: nil, kept.Version: nil, "0000": core.ErrNotFound, "HEAD": core.ErrInvalid, "--all": core.ErrInvalid, "ab": core.ErrInvalid} {
		got, err := r.Resolve(t.Context(), text)
		if want == nil && (err != nil || got != kept.Version) || want != nil && !errors.Is(err, want) {
			t.Errorf("%q: %s, %v; want %v", text, got, err, want)
		}
	}
}

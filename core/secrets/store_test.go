package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
)

// bySite is a Selector that knows expressions of one form: the name of a site.
func bySite(text string) (func(core.Host) (bool, error), error) {
	if strings.ContainsAny(text, " \n") {
		return nil, errors.New("this is no site")
	}
	return func(h core.Host) (bool, error) { return h.Site == text, nil }, nil
}

func writeFile(tb testing.TB, name, text string, mode os.FileMode) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		tb.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		tb.Fatal(err)
	}
	return path
}

func openStore(tb testing.TB, own string, change func(*Config)) *Store {
	tb.Helper()
	cfg := Config{Selector: bySite}
	if own != "" {
		cfg.File = writeFile(tb, "own.yaml", own, 0o600)
	}
	if change != nil {
		change(&cfg)
	}
	s, err := Open(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

func expectError(tb testing.TB, err, kind error, words ...string) {
	tb.Helper()
	if !errors.Is(err, kind) {
		tb.Errorf("got %v, expected %v", err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			tb.Errorf("got %q, expected %q in it", err, w)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		tb.Errorf("the error shows the value: %v", err)
	}
}

var fw = core.Host{Name: "fw-1", Site: "fra"}

func TestResolveKinds(t *testing.T) {
	t.Setenv("TURNUS_TEST_SECRET", "hunter2 env")
	file := writeFile(t, "value", "hunter2 file\n", 0o600)
	group := writeFile(t, "value", "hunter2 group", 0o440)
	open := writeFile(t, "value", "hunter2", 0o644)
	encrypted, identity, _ := encryptFor(t, "hunter2 age")
	s := openStore(t, fmt.Sprintf(`secrets:
  env: {env: TURNUS_TEST_SECRET}
  unset: {env: TURNUS_TEST_UNSET}
  file: {file: %q}
  group: {file: %q}
  open: {file: %q}
  gone: {file: gone}
  folder: {file: /}
  shell: {command: "printf '%%s\\r\\n' hunter2\\ shell"}
  argv: {command: [printf, hunter2 argv]}
  fails: {command: "echo hunter2; echo hunter2 >&2; exit 3"}
  absent: {command: [no-such-program-of-turnus]}
  empty: {command: "true"}
  much: {command: "yes hunter2"}
  leaves: {command: "sleep 5 & echo hunter2"}
  hangs: {command: "sleep 1000 & sleep 1000"}
`, file, group, open), func(c *Config) { c.Identities = []string{identity}; c.Timeout = 10 * time.Second })

	for name, want := range map[string]string{"env": "hunter2 env", "file": "hunter2 file", "group": "hunter2 group", "shell": "hunter2 shell", "argv": "hunter2 argv", "encrypted": "hunter2 age"} {
		got, err := s.Resolve(t.Context(), Ask{Name: name, Host: fw, Encrypted: map[string]Ref{"encrypted": {Age: encrypted}, "env": {Age: "own wins"}}})
		if err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v; expected %q", name, got, err, want)
		}
	}
	for _, c := range []struct {
		name string
		kind error
		word string
	}{
		{"unset", core.ErrInvalid, "TURNUS_TEST_UNSET is not set"},
		{"open", core.ErrInvalid, "chmod 600"},
		{"gone", core.ErrInvalid, "there is no file"},
		{"folder", core.ErrInvalid, "no regular file"},
		{"fails", core.ErrUnavailable, "exit status 3"},
		{"absent", core.ErrInvalid, "could not be run"},
		{"leaves", core.ErrInvalid, "left a program behind"},
		{"empty", core.ErrInvalid, "is empty"},
		{"much", core.ErrInvalid, "more than 64 KiB"},
		{"nobody", core.ErrNotFound, "has none of this name"},
		{"a b", core.ErrInvalid, "no name of a secret"},
	} {
		_, err := s.Resolve(t.Context(), Ask{Name: c.name, Host: fw})
		expectError(t, err, c.kind, c.word, fmt.Sprintf("secret %q of host fw-1", c.name))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := s.Resolve(ctx, Ask{Name: "hangs", Host: fw})
	expectError(t, err, context.DeadlineExceeded)
}

// The guard of references that come with a run, and its negative control: the same ones work in the
// node's own file (TestResolveKinds).
func TestARunBringsNoOtherKinds(t *testing.T) {
	s := openStore(t, "", nil)
	for _, ref := range []Ref{{Env: "HOME"}, {File: "/etc/passwd"}, {Command: "echo hunter2"}, {Argv: []string{"echo", "hunter2"}}, {}, {Vault: "kv/a#b", Age: "x"}} {
		_, err := s.Resolve(t.Context(), Ask{Name: "a", Host: fw, Encrypted: map[string]Ref{"a": ref}})
		expectError(t, err, core.ErrInvalid, "only vault and age may come with a run")
	}
}

func TestLimits(t *testing.T) {
	const own = `secrets:
  tenants: {env: TURNUS_TEST_SECRET, tenants: acme}
  playbooks: {env: TURNUS_TEST_SECRET, playbooks: [push, pull]}
  hosts: {env: TURNUS_TEST_SECRET, hosts: fra}
`
	t.Setenv("TURNUS_TEST_SECRET", "hunter2")
	s := openStore(t, own, nil)
	right := Ask{Tenant: "acme", Playbook: "push", Host: fw}
	for name, wrong := range map[string]struct {
		ask  Ask
		word string
	}{
		"tenants":   {Ask{Tenant: "borealis", Playbook: "push", Host: fw}, `tenant "borealis" may not use it`},
		"playbooks": {Ask{Tenant: "acme", Playbook: "other", Host: fw}, `playbook "other" may not use it`},
		"hosts":     {Ask{Tenant: "acme", Playbook: "push", Host: core.Host{Name: "fw-2", Site: "ams"}}, "not true for this host"},
	} {
		right.Name, wrong.ask.Name = name, name
		if got, err := s.Resolve(t.Context(), right); err != nil || string(got) != "hunter2" {
			t.Errorf("%s: got %q, %v with the permission", name, got, err)
		}
		_, err := s.Resolve(t.Context(), wrong.ask) // after a use that filled the cache
		expectError(t, err, core.ErrInvalid, wrong.word, "own.yaml:")

		// The negative control: without the limit the same use gets the value.
		e := s.current().entries[name]
		e.Limits = Limits{}
		free := &Store{cfg: s.cfg, values: s.values}
		free.own.Store(&ownFile{entries: map[string]Entry{name: e}})
		if got, err := free.Resolve(t.Context(), wrong.ask); err != nil || string(got) != "hunter2" {
			t.Errorf("%s: got %q, %v without the limit", name, got, err)
		}
	}
	_, err := s.Resolve(t.Context(), Ask{Name: "tenants", Host: fw})
	expectError(t, err, core.ErrInvalid, "a run of no tenant")
	blind := openStore(t, own, func(c *Config) { c.Selector = nil })
	_, err = blind.Resolve(t.Context(), Ask{Name: "hosts", Host: fw})
	expectError(t, err, core.ErrInvalid, "cannot evaluate")
	// Limits also travel with a run's reference.
	encrypted, identity, _ := encryptFor(t, "hunter2")
	s = openStore(t, "", func(c *Config) { c.Identities = []string{identity} })
	_, err = s.Resolve(t.Context(), Ask{Name: "x", Host: fw, Tenant: "b", Encrypted: map[string]Ref{"x": {Age: encrypted, Limits: Limits{Tenants: []string{"a"}}}}})
	expectError(t, err, core.ErrInvalid, `tenant "b" may not use it`)
}

func TestAge(t *testing.T) {
	encrypted, identity, _ := encryptFor(t, "hunter2")
	_, other, _ := encryptFor(t, "x")
	ask := Ask{Name: "x", Host: fw, Encrypted: map[string]Ref{"x": {Age: encrypted}}}
	_, err := openStore(t, "", nil).Resolve(t.Context(), ask)
	expectError(t, err, core.ErrInvalid, "--secrets-identity")
	_, err = openStore(t, "", func(c *Config) { c.Identities = []string{other} }).Resolve(t.Context(), ask)
	expectError(t, err, core.ErrInvalid, "turnus secrets rotate")
	got, err := openStore(t, "", func(c *Config) { c.Identities = []string{other, identity} }).Resolve(t.Context(), ask)
	if err != nil || string(got) != "hunter2" {
		t.Errorf("got %q, %v", got, err)
	}
	lines := strings.Split(encrypted, "\n")
	lines[len(lines)-3] = strings.Map(func(r rune) rune {
		if r == 'A' {
			return 'B'
		}
		return 'A'
	}, lines[len(lines)-3])
	ask.Encrypted["x"] = Ref{Age: strings.Join(lines, "\n")}
	_, err = openStore(t, "", func(c *Config) { c.Identities = []string{identity} }).Resolve(t.Context(), ask)
	expectError(t, err, core.ErrInvalid)

	if _, err := Open(Config{Identities: []string{writeFile(t, "id", "AGE-SECRET-KEY-1HUNTER2", 0o600)}}); err == nil || strings.Contains(err.Error(), "HUNTER2") {
		t.Errorf("got %v for an identity that is none", err)
	}
	if _, err := Open(Config{Identities: []string{writeFile(t, "id", "", 0o644)}}); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("got %v for an identity that others can read", err)
	}
	if _, err := Encrypt(bytes.Repeat([]byte("x"), MaxValue+1), []string{"age1"}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("got %v for a value that is too long", err)
	}
	short, key, _ := encryptFor(t, " abc\n")
	expectError(t, openStore(t, "", func(c *Config) { c.Identities = []string{key} }).Try(t.Context(), Entry{Name: "x", Ref: Ref{Age: short}}), core.ErrInvalid)
	if _, err := Encrypt([]byte("x"), nil); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("got %v for nobody", err)
	}
}

func TestCacheKeepsForAWhileAndWipes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(time.Minute)
		defer c.close()
		fetched := 0
		get := func(key string) []byte {
			v, err := c.get(t.Context(), key, func(context.Context) ([]byte, error) { fetched++; return fmt.Appendf(nil, "hunter%d", fetched), nil })
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		first := get("a")
		clear(first) // the caller's own copy
		if again := get("a"); string(again) != "hunter1" || fetched != 1 {
			t.Errorf("got %q after %d fetches, expected the kept one", again, fetched)
		}
		c.mu.Lock()
		held := c.known["a"].value
		c.mu.Unlock()
		<-time.After(time.Minute + time.Second)
		synctest.Wait()
		if !bytes.Equal(held, make([]byte, len(held))) {
			t.Errorf("%q is still in memory", held)
		}
		c.mu.Lock()
		if len(c.known) != 0 {
			t.Errorf("%d keys are still there", len(c.known))
		}
		c.mu.Unlock()
		if again := get("a"); string(again) != "hunter2" {
			t.Errorf("got %q after its time", again)
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(time.Minute)
		defer c.close()
		fetched := 0
		get := func(key int) {
			v, err := c.get(t.Context(), fmt.Sprint(key), func(context.Context) ([]byte, error) { fetched++; return make([]byte, MaxValue), nil })
			if err != nil || len(v) != MaxValue {
				t.Fatalf("got %d bytes, %v", len(v), err)
			}
		}
		most := maxKept / MaxValue
		for range 2 {
			for key := range most + 10 {
				get(key)
			}
		}
		if fetched != most+20 {
			t.Errorf("fetched %d times, expected %d: what is beyond the bound each time, and nothing else", fetched, most+20)
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if c.size != 0 || len(c.known) != 0 {
			t.Errorf("%d bytes of %d keys are left", c.size, len(c.known))
		}
	})
}

func TestCacheFetchesOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(time.Minute)
		defer c.close()
		var fetched atomic.Int32
		cancelled, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		slow := func(ctx context.Context) ([]byte, error) {
			fetched.Add(1)
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
				return []byte("hunter2"), nil
			}
		}
		wg.Go(func() {
			if _, err := c.get(cancelled, "a", slow); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		for range 50 {
			wg.Go(func() {
				if v, err := c.get(t.Context(), "a", slow); err != nil || string(v) != "hunter2" {
					t.Errorf("got %q, %v", v, err)
				}
			})
		}
		synctest.Wait()
		cancel() // harms nobody else: one of the others fetches
		wg.Wait()
		if n := fetched.Load(); n != 2 {
			t.Errorf("fetched %d times, expected 2", n)
		}
	})
}

func TestCacheBelievesAFailureForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(time.Minute)
		defer c.close()
		fetched := 0
		get := func(key string, err error) error {
			_, got := c.get(t.Context(), key, func(context.Context) ([]byte, error) { fetched++; return nil, err })
			return got
		}
		for range 100 {
			if err := get("away", core.ErrUnavailable); !errors.Is(err, core.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		if fetched != 1 {
			t.Errorf("asked %d times, expected once", fetched)
		}
		<-time.After(failedFor + time.Second)
		_ = get("away", core.ErrUnavailable)
		_ = get("wrong", core.ErrInvalid)
		_ = get("wrong", core.ErrInvalid)
		if fetched != 4 {
			t.Errorf("asked %d times, expected 4: a secret that was repaired is asked for again immediately", fetched)
		}
	})
}

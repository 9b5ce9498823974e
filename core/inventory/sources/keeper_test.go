package sources_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/ledger"
)

// keeping is a keeper whose source and clock a test moves.
type keeping struct {
	*sources.Keeper
	source  sources.Source
	hosts   []string
	failure error
	at      time.Time
}

func newKeeping(t *testing.T, hosts int) *keeping {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Memory, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	all, err := sources.Parse("sources.yaml", []byte("sources: {nb: {type: http, url: 'https://h.example'}}"))
	if err != nil {
		t.Fatal(err)
	}
	all[0].Given = "-i sources.yaml"
	k := &keeping{source: all[0], hosts: names(hosts), at: time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)}
	k.Keeper = &sources.Keeper{Ledger: l, Now: func() time.Time { return k.at }, Fetch: func(context.Context, sources.Source) (*sources.Generation, error) {
		if k.failure != nil {
			return nil, k.failure
		}
		hosts := map[string]any{}
		for _, name := range k.hosts {
			hosts[name] = map[string]any{}
		}
		body, err := json.Marshal(map[string]any{"hosts": hosts})
		return &sources.Generation{Source: "nb", Fetched: k.at, Body: string(body)}, err
	}}
	return k
}

func (k *keeping) load(t *testing.T) (hosts int, warnings string, err error) {
	t.Helper()
	loaded, warned, err := k.Load(t.Context(), []sources.Source{k.source})
	for _, l := range loaded {
		hosts += strings.Count(string(l.Hosts.Data), `"h`) - 1 // without the key hosts
		st, stErr := k.State(t.Context(), k.source)
		if stErr != nil || l.Use != (core.SourceUse{Source: "nb", Generation: st.ID, Good: st.Good}) {
			t.Errorf("%+v, expected the generation of %+v, %v", l.Use, st, stErr)
		}
	}
	return hosts, strings.Join(warned, "\n"), err
}

// Where nothing can be used, each load fetches again: the cause of the failure may be gone.
func TestKeeperUsesTheLastGoodUntilMaxAge(t *testing.T) {
	t.Parallel()
	k := newKeeping(t, 100)
	k.failure = errors.New("no route")
	if _, _, err := k.load(t); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "no generation of hosts yet") || !strings.Contains(err.Error(), "no route") {
		t.Fatalf("before the first: %v", err)
	}
	k.failure = nil
	if n, warned, err := k.load(t); n != 100 || warned != "" || err != nil {
		t.Fatalf("the first: %d, %q, %v", n, warned, err)
	}
	k.failure, k.at = errors.New("no route"), k.at.Add(24*time.Hour)
	if n, warned, err := k.load(t); n != 100 || warned != "no route; it failed at 2026-11-27T08:00:00Z, see turnus inventory diff nb -i sources.yaml; hosts are those of 2026-11-26T08:00:00Z" || err != nil {
		t.Fatalf("at max_age: %d, %q, %v", n, warned, err)
	}
	k.at = k.at.Add(time.Hour)
	if _, _, err := k.load(t); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "older than max_age 24h") || !strings.Contains(err.Error(), "hint: turnus inventory diff nb -i sources.yaml shows") {
		t.Fatalf("after max_age: %v", err)
	}
	k.failure = nil
	if n, warned, err := k.load(t); n != 100 || warned != "" || err != nil {
		t.Fatalf("the source works again: %d, %q, %v", n, warned, err)
	}
}

// After a clock that was ahead is set right, a source is fetched and its hosts are used. A
// generation that the wrong clock noted is not young. Control: a clock that is a little ahead.
func TestKeeperRecoversFromAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	k := newKeeping(t, 100)
	right := k.at
	for _, ahead := range []time.Duration{time.Minute, 10 * 24 * time.Hour} {
		k.at, k.failure, k.hosts = right.Add(ahead), nil, names(len(k.hosts)+1)
		if n, _, err := k.load(t); n == 0 || err != nil {
			t.Fatalf("ahead by %v: %d, %v", ahead, n, err)
		}
		k.at, k.failure = right.Add(k.source.Every), errors.New("no route")
		if _, _, err := k.load(t); (err != nil) != (ahead > time.Hour) || err != nil && !strings.Contains(err.Error(), "in the future, because a clock was wrong") {
			t.Errorf("the source fails, ahead by %v: %v", ahead, err)
		}
		k.failure, k.hosts = nil, names(len(k.hosts)+1)
		k.at = k.at.Add(k.source.Every)
		if n, warned, err := k.load(t); n != len(k.hosts) || warned != "" || err != nil {
			t.Errorf("back from %v: %d hosts of %d, %q, %v", ahead, n, len(k.hosts), warned, err)
		}
		right = k.at
	}
}

// Other settings ask for other hosts, as of another site: those of before are not used if the fetch
// fails, and a generation of before cannot be approved. Controls: the same settings, a new
// generation that waits, and a ledger of a former version.
func TestKeeperRefusesHostsOfOtherSettings(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	k := newKeeping(t, 10)
	other := func() {
		k.source.URL = &url.URL{Scheme: "https", Host: "other.example", Path: k.source.URL.Path + "/x"}
	}
	want := func(about string, hosts int, says string) {
		t.Helper()
		k.at = k.at.Add(time.Hour)
		n, warned, err := k.load(t)
		if stale, ok := errors.AsType[*sources.StaleError](err); ok && hosts == 0 && stale.Other && strings.Contains(err.Error(), says) {
			return
		}
		if n != hosts || err != nil || !strings.Contains(warned, says) {
			t.Errorf("%s: %d hosts, %q, %v", about, n, warned, err)
		}
	}
	want("the first", 10, "")
	k.failure = errors.New("no route")
	want("the same settings", 10, "no route; it failed at ")
	other()
	want("other settings", 0, "fetched with other settings: unavailable: no route")
	if all, err := k.Troubled(ctx); err != nil || len(all) != 1 || !strings.Contains(all[0].Warnings(k.source)[0], "launches on its hosts are refused") {
		t.Errorf("the warning is of %+v, %v", all, err)
	}
	k.failure = nil
	want("it gives hosts", 10, "")
	k.hosts = names(3)
	want("fewer hosts", 10, "waits for approval")
	st, err := k.State(ctx, k.source)
	if err != nil {
		t.Fatal(err)
	}
	was := st.Waiting.ID
	other()
	if stale, ok := errors.AsType[*sources.StaleError](st.Stale(k.source, st.Good)); !ok || !stale.Other {
		t.Error("hosts of other settings are used until the first fetch ends")
	}
	k.failure = errors.New("no route")
	want("other settings while one waits", 0, "no route")
	if _, err := k.Approve(ctx, "eva", k.source, was); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("approving hosts of other settings: %v", err)
	}
	k.failure = nil
	want("one of the new settings waits", 10, "waits for approval")
	if _, err := k.Approve(ctx, "eva", k.source, was); err != nil {
		t.Fatal(err)
	}
	k.failure = errors.New("no route")
	want("it was approved, and is of the new settings", 3, "no route")
	if err := (&sources.State{Settings: "x", Good: k.at}).Stale(k.source, k.at); err != nil {
		t.Errorf("a state of a former version: %v", err)
	}
}

// A clock that is set back between two loads does not wait for the time that was noted.
func TestKeeperFetchesWhenTheLastTimeIsInTheFuture(t *testing.T) {
	t.Parallel()
	k := newKeeping(t, 1)
	now := k.at
	for _, c := range []struct {
		ago time.Duration
		due bool
	}{{-10 * 24 * time.Hour, true}, {-time.Second, true}, {0, false}, {k.source.Every - 1, false}, {k.source.Every, true}} {
		k.at = now
		st, err := k.Refresh(t.Context(), k.source)
		if err != nil {
			t.Fatal(err)
		}
		k.at = now.Add(c.ago)
		if due := k.Due(k.source, st); due != c.due {
			t.Errorf("%v after the last fetch: due %v", c.ago, due)
		}
	}
}

// A source that fails is found without its settings until it gives hosts again, or until nobody
// fetches it any more.
func TestKeeperFindsTroubledSources(t *testing.T) {
	t.Parallel()
	k := newKeeping(t, 10)
	troubled := func() (said string) {
		all, err := k.Troubled(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range all {
			said += st.Source + ": " + st.Failed
			if st.Waiting != nil {
				said += st.Waiting.Why
			}
		}
		return said
	}
	step := func(failure error, hosts int, want string) {
		t.Helper()
		k.failure, k.hosts, k.at = failure, names(hosts), k.at.Add(time.Hour)
		if _, _, err := k.load(t); err != nil {
			t.Fatal(err)
		}
		if got := troubled(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("troubled: %q, expected %q", got, want)
		}
	}
	step(nil, 10, "")
	step(errors.New("no route"), 10, "nb: no route")
	step(nil, 10, "")
	step(nil, 3, "nb: ")
	k.at = k.at.Add(25 * time.Hour)
	if got := troubled(); got != "" {
		t.Errorf("a source that nobody fetches: %q", got)
	}
}

func TestKeeperFetchesWhenItIsDue(t *testing.T) {
	t.Parallel()
	k := newKeeping(t, 10)
	for _, c := range []struct {
		hosts int
		after time.Duration
		want  int
	}{{10, 0, 10}, {20, 9 * time.Minute, 10}, {20, time.Minute, 20}} {
		k.hosts, k.at = names(c.hosts), k.at.Add(c.after)
		if n, _, err := k.load(t); n != c.want || err != nil {
			t.Fatalf("after %v: %d hosts, %v, want %d", c.after, n, err, c.want)
		}
	}
}

func TestKeeperHoldsUntilAPersonApproves(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	k := newKeeping(t, 100)
	refresh := func() sources.State {
		t.Helper()
		k.at = k.at.Add(time.Hour)
		st, err := k.Refresh(ctx, k.source)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	refresh()
	if _, err := k.Approve(ctx, "eva", k.source, "sha256:00"); !errors.Is(err, core.ErrNotFound) {
		t.Fatalf("approving nothing: %v", err)
	}
	k.hosts = names(94)
	st := refresh()
	if st.Waiting == nil || st.Hosts != 100 || st.Waiting.Hosts != 94 {
		t.Fatalf("six percent fewer: %+v", st)
	}
	used, held, err := k.Generations(ctx, k.source)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := sources.Diff(ctx, used, held); err != nil || len(d.Removed) != 6 || len(d.Added)+len(d.Changed) != 0 {
		t.Fatalf("the difference is %+v, %v", d, err)
	}
	if n, warned, err := k.load(t); n != 100 || !strings.Contains(warned, "a generation waits for approval: it lacks 6 of 100 hosts") || err != nil {
		t.Fatalf("while it waits: %d, %q, %v", n, warned, err)
	}
	if _, err := k.Approve(ctx, "eva", k.source, "sha256:00"); !errors.Is(err, core.ErrConflict) {
		t.Fatalf("approving another one: %v", err)
	}
	if st, err = k.Approve(ctx, "eva", k.source, st.Waiting.ID); err != nil || st.Hosts != 94 || st.Waiting != nil {
		t.Fatalf("approved: %+v, %v", st, err)
	}
	if n, warned, err := k.load(t); n != 94 || warned != "" || err != nil {
		t.Fatalf("after it: %d, %q, %v", n, warned, err)
	}
	k.hosts = nil
	if st = refresh(); st.Waiting == nil || st.Waiting.Why != "it is empty" {
		t.Fatalf("an empty one: %+v", st)
	}
	k.hosts = names(94)
	if st = refresh(); st.Waiting != nil || st.Hosts != 94 {
		t.Fatalf("the source is whole again: %+v", st)
	}
}

func program(t *testing.T, script string, mode os.FileMode) sources.Source {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "list")
	// Another process writes it: a program that this one has open for writing, or that a process
	// started meanwhile has inherited, is busy.
	write := exec.CommandContext(t.Context(), "sh", "-c", `cat >"$0" && chmod `+fmt.Sprintf("%o", mode)+` "$0"`, path)
	write.Stdin = strings.NewReader(script)
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all, err := sources.Parse(filepath.Join(dir, "sources.yaml"), []byte("sources: {cmdb: {type: exec, program: list, token: t}}"))
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func TestProgramsAreAskedForTheirList(t *testing.T) {
	t.Parallel()
	s := program(t, "#!/bin/sh\n[ \"$*\" = --list ] && [ \"$TURNUS_SOURCE_TOKEN\" = hidden-token ] && [ -z \"$TURNUS_STATE\" ] && echo '{\"web\": [\"a\", \"b\"]}'\n", 0o700)
	g, err := fetcher("hidden-token").Fetch(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if hosts := hostsOf(t, g).Hosts; len(hosts) != 2 || hosts[0].Groups[0] != "web" {
		t.Fatalf("hosts are %+v", hosts)
	}
}

// The next command of a failed fetch stands on a line of its own, below all else of its warning.
// Control: a failure without one.
func TestAWarningEndsWithTheHint(t *testing.T) {
	t.Parallel()
	for failed, hint := range map[string]string{"it failed": "", "it failed\nhint: chmod +x /list": "\nhint: chmod +x /list"} {
		got := (&sources.State{Failed: failed}).Warnings(sources.Source{Name: "a"})
		if len(got) != 1 || !strings.HasPrefix(got[0], "it failed; ") || !strings.HasSuffix(got[0], "; it has given no hosts yet"+hint) {
			t.Errorf("%q", got)
		}
	}
}

func TestProgramsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		mode   os.FileMode
		says   string
	}{
		"others may write it":  {"#!/bin/sh\necho '{}'\n", 0o777, "program: "},
		"it fails":             {"#!/bin/sh\necho \"no $TURNUS_SOURCE_TOKEN\" >&2; exit 3\n", 0o700, "exit status 3: no ***"},
		"it is not executable": {"#!/bin/sh\necho '{}'\n", 0o600, "program: it is not executable (permission denied): invalid\nhint: chmod +x /"},
		"it shows a traceback": {"#!/bin/sh\nprintf 'Traceback (most recent call last):\\n  File \"list\", line 1\\nKeyError: site\\n' >&2; exit 1\n", 0o700, "exit status 1: KeyError: site"},
		"it prints no JSON":    {"#!/bin/sh\necho hosts\n", 0o700, "it printed no JSON"},
		"it prints too much":   {"#!/bin/sh\nexec cat /dev/zero\n", 0o700, "it printed more than 8 MiB"},
		"it names a password":  {"#!/bin/sh\necho '{\"_meta\": {\"hostvars\": {\"a\": {\"ansible_password\": \"x\"}}}}'\n", 0o700, "must not say what a worker logs in with"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := fetcher("hidden-token").Fetch(t.Context(), program(t, c.script, c.mode))
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hidden-token") {
				t.Fatalf("the error is %v, want one with %q", err, c.says)
			}
		})
	}
}

func TestParseReportsEveryMistake(t *testing.T) {
	t.Parallel()
	_, err := sources.Parse("s.yaml", []byte(`sources:
  Nb: {type: netbox, url: "https://u:p@h.example"}
  a: {type: http, url: "http://h.example", token: nbt_secret.value}
  b: {type: http, url: "http://h.example", token: t}
  c: {type: exec, url: "https://h.example"}
  d: {type: netbox, url: "https://h.example", filter: {limit: 5}, map: {adress: a}, review: {removed: 5}, max_age: 1m}
  e: {type: netbox, url: "https://h.example", filter: {tag: [], role: ""}}
`))
	if err == nil {
		t.Fatal("it was read")
	}
	for _, want := range []string{
		"s.yaml:2:3", "without a user or a password", "s.yaml:3:51", "not the secret itself", "s.yaml:4:3", "in the clear", "url: a source of type exec has no such key", "program is missing",
		"Turnus sets it itself", `did you mean "address"`, "such as 5%",
		`s.yaml:7:61: filter "tag" has no value: NetBox would answer with all records`, `s.yaml:7:71: filter "role" has no value`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "nbt_secret") || strings.Contains(err.Error(), "u:p@") {
		t.Errorf("a secret is repeated: %v", err)
	}
}

// A generation that waits by a former version's state waits still.
func TestStateOfAFormerVersion(t *testing.T) {
	var st sources.State
	if err := json.Unmarshal([]byte(`{"source":"nb","hosts":3,"held":{"id":"g","hosts":2}}`), &st); err != nil || st.Hosts != 3 || st.Waiting == nil || st.Waiting.ID != "g" {
		t.Errorf("%+v, %v", st, err)
	}
	if err := json.Unmarshal([]byte(`{"waiting":{"id":"new"},"held":{"id":"old"}}`), &st); err != nil || st.Waiting.ID != "new" {
		t.Errorf("%+v, %v", st, err)
	}
}

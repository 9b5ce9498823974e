package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const command = "steps: [{name: a, uses: command, with: {run: x}}]\n"

func parse(t *testing.T, body string) *playbooks.Playbook {
	t.Helper()
	p, err := playbooks.Parse("test.yaml", []byte("playbook: test\n"+body), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func types(name string) (playbooks.Type, bool) {
	t, ok := map[string]playbooks.Type{
		"command":      {OnLost: "hold"},
		"file":         {OnLost: "retry", Idempotent: true},
		"firmware.set": {OnLost: "hold", Disruptive: true},
	}[name]
	return t, ok
}

func fleet(n int) []core.Host {
	out := make([]core.Host, n)
	for i := range out {
		out[i] = core.Host{Name: fmt.Sprintf("h%04d", i), Customer: "acme", Site: fmt.Sprintf("s%d", i%3), Labels: map[string]string{"role": "web"}}
	}
	return out
}

func TestPrepare(t *testing.T) {
	hosts := fleet(200)
	hosts[7].Labels = map[string]string{"role": "db"}
	hosts[0].HAGroup, hosts[1].HAGroup = "pair", "pair"
	p := parse(t, `
targets: host.labels.role == "web"
tenant: acme
strategy: {waves: [1, 5%, 100%], max_in_flight: 10, stop_after: 2%, stop_unreachable: 10%, per_group: {site: 2}}
`+command)
	l, err := Prepare(p, hosts, Options{RunID: "r-1", Types: types, Revision: "abc", LaunchedBy: "alice", Files: "f"})
	if err != nil {
		t.Fatal(err)
	}
	r := l.Run
	if r.ID != "r-1" || r.Tenant != "acme" || len(r.Targets) != 199 || r.Limit != 1 || r.MaxInFlight != 10 ||
		r.StopAfter != 4 || r.StopUnreachable != 20 || r.PerGroup != 2 || r.Disruptive || r.OnLost != queue.LostHold {
		r.Targets, r.Payload = nil, nil
		t.Errorf("run %+v", r)
	}
	for i, target := range r.Targets {
		h, err := snapshot.DecodeHost(target.Data)
		if err != nil || h.Name != target.Host || h.Name != l.Hosts[i].Name || target.Group != "acme/"+h.Site || target.HAGroup != h.HAGroup {
			t.Fatalf("target %d: %+v, host %+v, %v", i, target, h, err)
		}
	}
	if r.Targets[0].Host != "h0000" || r.Targets[1].Host == "h0001" {
		t.Errorf("the pair begins the run: %s, %s", r.Targets[0].Host, r.Targets[1].Host)
	}
	s, err := snapshot.Decode(r.Payload)
	if err != nil || s.Source != string(p.Source) || s.File != "test.yaml" || s.Revision != "abc" || s.LaunchedBy != "alice" || s.Files != "f" {
		t.Errorf("snapshot %+v, %v", s, err)
	}
	plan := l.Plan()
	if len(plan.Waves) != 3 || plan.Waves[0].Count != 1 || plan.Waves[1].Count != 9 || plan.Waves[2].Hosts[0].Index != 10 || plan.Steps[0].Uses != "command" {
		t.Errorf("plan %+v", plan)
	}
	if data, err := json.Marshal(plan); err != nil || !strings.Contains(string(data), `"stop_after":4`) {
		t.Errorf("plan as JSON: %.200s, %v", data, err)
	}
}

func TestPrepareTakesLocksFromTheTypes(t *testing.T) {
	cases := []struct {
		steps      string
		check      bool
		disruptive bool
		onLost     queue.OnLost
	}{
		{"[{uses: file, with: {path: /x}}]", false, false, queue.LostRetry},
		{"[{uses: file, with: {path: /x}}, {uses: command, with: {run: x}}]", false, false, queue.LostHold},
		{"[{uses: file, with: {path: /x}}, {uses: firmware.set, with: {x: 1}}]", false, true, queue.LostHold},
		{"[{uses: firmware.set, with: {x: 1}}]", true, false, queue.LostRetry},
		{"[{uses: nobody.knows, with: {x: 1}}]", false, true, queue.LostHold},
		{"[{uses: command, window: service, needs: 1m, with: {run: x}}]", false, true, queue.LostHold},
		{"[{uses: command, window: service, needs: 1m, with: {run: x}}]", true, false, queue.LostRetry},
		{"[{uses: command, window: none, with: {run: x}}]", false, false, queue.LostHold},
		{"[{uses: command, disruptive: true, with: {run: x}}]", false, true, queue.LostHold},
		{"[{uses: command, window: service, disruptive: false, needs: 1m, with: {run: x}}]", false, false, queue.LostHold},
		{"[{uses: firmware.set, disruptive: false, with: {x: 1}}]", false, false, queue.LostHold},
	}
	for _, c := range cases {
		l, err := Prepare(parse(t, "targets: true\nsteps: "+c.steps), fleet(1), Options{Types: types, Check: c.check})
		if err != nil {
			t.Fatal(err)
		}
		if l.Run.Disruptive != c.disruptive || l.Run.OnLost != c.onLost {
			t.Errorf("%s, check %v: disruptive %v, on lost %s", c.steps, c.check, l.Run.Disruptive, l.Run.OnLost)
		}
	}
}

func TestPerGroup(t *testing.T) {
	cases := []struct {
		keys       string
		perGroup   int
		group      string // of the first host
		disruptive bool
		fails      string
	}{
		{"{}", 0, "", false, ""},
		{"{ha_group: 1}", 1, "pair", false, ""},
		{"{ha_group: 1, site: 5}", 5, "acme/s0", true, ""},
		{"{\"label:role\": 3}", 3, "web", false, ""},
		{"{site: 5, customer: 2}", 0, "", false, "customer, site"},
		{"{ha_group: 1, site: 5, customer: 2}", 0, "", false, "customer, ha_group, site"},
	}
	for _, c := range cases {
		hosts := fleet(2)
		hosts[0].HAGroup = "pair"
		l, err := Prepare(parse(t, "targets: true\nstrategy: {per_group: "+c.keys+"}\n"+command), hosts, Options{Types: types})
		if c.fails != "" {
			if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", c.keys, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.keys, err)
			continue
		}
		if l.Run.PerGroup != c.perGroup || l.Run.Targets[0].Group != c.group || l.Run.Disruptive != c.disruptive {
			t.Errorf("%s: %d at the same time in %q, disruptive %v", c.keys, l.Run.PerGroup, l.Run.Targets[0].Group, l.Run.Disruptive)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	twice := append(fleet(2), fleet(1)...)
	fat := fleet(1)
	fat[0].Vars = map[string]any{"blob": strings.Repeat("x", queue.MaxDataLength)}
	cases := []struct {
		why     string
		targets string
		hosts   []core.Host
		want    error
		says    string
	}{
		{"nothing selected", `host.name == "nobody"`, fleet(3), core.ErrNotFound, "none of 3 hosts"},
		{"no hosts at all", "true", nil, core.ErrNotFound, "none of 0 hosts"},
		{"a name twice", "true", twice, core.ErrInvalid, "h0000 is there twice"},
		{"a host too large", "true", fat, core.ErrInvalid, "h0000"},
	}
	for _, c := range cases {
		_, err := Prepare(parse(t, "targets: "+c.targets+"\n"+command), c.hosts, Options{})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.why, err)
		}
	}
}

func TestForksOverrideTheStrategy(t *testing.T) {
	l, err := Prepare(parse(t, "targets: true\nstrategy: {max_in_flight: 5}\n"+command), fleet(10), Options{MaxInFlight: 50})
	if err != nil || l.Run.MaxInFlight != 50 {
		t.Errorf("%d, %v", l.Run.MaxInFlight, err)
	}
}

func TestRunIDsSortByTime(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	a, b := NewRunID(at), NewRunID(at.Add(time.Second))
	if !strings.HasPrefix(a, "20260102-020405-") || a >= b || len(a) != len("20260102-020405-ab3cd5ef") {
		t.Errorf("%s, %s", a, b)
	}
	const many = 20_000
	seen := map[string]bool{}
	for range many {
		seen[NewRunID(at)] = true
	}
	if len(seen) < many-1 { // one pair in 5000 runs of this test, two in none
		t.Errorf("%d of %d runs of one second have an id that another one has", many-len(seen), many)
	}
}

func TestWholeNumbersComeBackWhole(t *testing.T) {
	h := core.Host{Name: "h", Vars: map[string]any{"port": 8000000, "share": 0.5, "list": []any{1, "a", map[string]any{"n": 3}}, "big": 1e21}}
	data, err := snapshot.EncodeHost(h)
	if err != nil {
		t.Fatal(err)
	}
	got, err := snapshot.DecodeHost(data)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%#v", got.Vars) != fmt.Sprintf("%#v", h.Vars) {
		t.Errorf("%#v became %#v", h.Vars, got.Vars)
	}
}

// A secret that nobody has is found where it is known who has which; its references go along, and
// no others.
func TestSecretsOfALaunch(t *testing.T) {
	p, err := playbooks.Parse("t.yaml", []byte("playbook: t\ntargets: true\nsteps:\n  - {uses: command, secrets: {A: api, B: own}, with: {run: x}}\n"), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tree := map[string]secrets.Ref{"api": {Vault: "kv/api#t"}, "else": {Vault: "kv/else#t"}}
	for _, tc := range []struct {
		name string
		own  []string
		bad  string
		hint string
	}{
		{"the node has it", []string{"own"}, "", ""},
		{"not known who has which", nil, "", ""},
		{"nobody has it", []string{"owl"}, `step "command" lists the secret "own", which does not exist`, `did you mean "owl"`},
		{"nobody has one like it", []string{"zebra"}, `step "command" lists the secret "own", which does not exist`, "own secrets by --secrets FILE"},
	} {
		l, err := Prepare(p, []core.Host{{Name: "h"}}, Options{Secrets: tree, NodeSecrets: tc.own})
		if tc.bad != "" {
			if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), tc.bad) || !strings.Contains(err.Error(), "t.yaml:4:") || !strings.Contains(err.Error(), tc.hint) {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if err != nil || len(l.Snapshot.Secrets) != 1 || l.Snapshot.Secrets["api"].Vault != "kv/api#t" || strings.Join(l.Plan().Steps[0].Secrets, " ") != "api own" {
			t.Errorf("%s: %+v, %v", tc.name, l, err)
		}
	}
}

func TestSnapshotRefuses(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"version":0}`, `{"version":11}`} {
		if _, err := snapshot.Decode([]byte(text)); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
	s := snapshot.Snapshot{Version: 1, Source: strings.Repeat("x", queue.MaxPayload)}
	if _, err := s.Encode(); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("too large: %v", err)
	}
}

func FuzzDecodeHost(f *testing.F) {
	f.Add([]byte(`{"name":"h","vars":{"a":[1,2.5,{"b":null}]}}`))
	f.Add([]byte(`{"vars":{"n":1e999}}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := snapshot.DecodeHost(data)
		if err != nil {
			return
		}
		again, err := snapshot.EncodeHost(h)
		if err != nil {
			if !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%q: got %v, expected to be written or core.ErrInvalid for being over the bound", data, err)
			}
			return
		}
		if _, err := snapshot.DecodeHost(again); err != nil {
			t.Errorf("%q cannot be read again: %v", again, err)
		}
	})
}

func TestTags(t *testing.T) {
	cases := []struct {
		tags, skip, step string
		want             bool
	}{
		{"", "", "", true},
		{"", "", "a", true},
		{"a", "", "", false},
		{"a", "", "b a", true},
		{"a", "a", "a", false},
		{"", "a", "a", false},
		{"", "", "never", false},
		{"never", "", "never", true},
		{"x", "", "never x", true},
		{"x", "", "always", true},
		{"x", "always", "always", false},
	}
	for _, c := range cases {
		s := snapshot.Snapshot{Tags: strings.Fields(c.tags), SkipTags: strings.Fields(c.skip)}
		if got := s.Selects(strings.Fields(c.step)); got != c.want {
			t.Errorf("--tags %q --skip-tags %q, step with %q: %v", c.tags, c.skip, c.step, got)
		}
	}
}

// A worker of a version that knew no windows reads version 1 only, and must refuse what it would
// run outside of them.
func TestSnapshotWithWindowsIsNotForOlderWorkers(t *testing.T) {
	for _, tt := range []struct {
		windows *snapshot.Admission
		want    string
	}{{nil, `"version":1`}, {&snapshot.Admission{Board: "windows/r"}, `"version":2`}} {
		data, err := snapshot.Snapshot{Run: "r", Windows: tt.windows}.Encode()
		if err != nil || !strings.Contains(string(data), tt.want) {
			t.Errorf("with windows %v: %s, %v: expected %s", tt.windows, data, err, tt.want)
		}
	}
}

// A server that makes a run of it has more to do: targets: end for all hosts together, not only for
// each.
func TestTargetsTakeNotForEver(t *testing.T) {
	t.Parallel()
	p := parse(t, "targets: 'count(1..vars.n, {# > 0}) > 0'\nvars: {n: 199999}\n"+command)
	if l, err := Prepare(p, fleet(3), Options{Types: types}); err != nil || len(l.Hosts) != 3 { // negative control
		t.Errorf("%v", err)
	}
	_, err := Prepare(p, fleet(3), Options{Types: types, within: time.Millisecond})
	if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "take longer than 1ms, evaluated for ") {
		t.Errorf("%v", err)
	}
}

func TestFaultW9UnknownVarIsNoLaunch(t *testing.T) {
	p := parse(t, "targets: true\nvars: {image: a}\n"+command)
	if _, err := Prepare(p, fleet(1), Options{Types: types, Vars: map[string]any{"imgae": "b"}}); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), `did you mean "image"`) {
		t.Error(err)
	}
	if _, err := Prepare(p, fleet(1), Options{Types: types, Vars: map[string]any{"image": "b"}}); err != nil {
		t.Error(err)
	}
}

// A plan marks the steps of rescue and always, and a forecast takes no rescue in.
func TestPlanOfAGroup(t *testing.T) {
	l, err := Prepare(parse(t, `
targets: true
steps:
  - name: g
    steps: [{name: a, uses: command, with: {run: x}, tags: [a]}]
    rescue: [{name: r, uses: command, with: {run: x}, timeout: 2h}]
    always:
      - {name: z, uses: command, with: {run: x}}
      - {name: debug, uses: command, with: {run: x}, tags: [never, debug]}
  - {name: b, uses: command, with: {run: x}, tags: [b]}
  - name: h
    tags: [never]
    steps: [{name: c, uses: command, with: {run: x}, tags: [a]}]
    always: [{name: y, uses: command, with: {run: x}}]
`), fleet(1), Options{RunID: "r-1", Types: types, Tags: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, s := range l.Plan().Steps {
		got += fmt.Sprintf("%s %v %s %s|", s.Name, s.Selected, s.Group, s.Part)
	}
	if want := "a true  |r true g rescue|z true g always|debug false g always|b false  |c true  |y true h always|"; got != want {
		t.Errorf("plan %s, want %s", got, want)
	}
	e := &stager{launch: l, times: stepTimes(l, nil), to: len(l.Playbook.Calls()), work: map[workOf]*forecast.Work{}}
	if n := len(e.of(l.Hosts[0], 0, false).Stages[0].Steps); n != 4 {
		t.Errorf("%d steps in the forecast, want a, z, c and y", n)
	}
}

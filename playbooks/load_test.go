package playbooks_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/playbooks"
)

// The two playbooks of the design, as they stand there.
const designFirmware = `playbook: branch-firmware-8.4
description: Firmware 8.4.2 on every branch firewall
targets: host.labels.role == "firewall" && host.labels.model == "br-200"
window: service                      # the host's own maintenance window
strategy: {waves: [1, 5%, 100%], max_in_flight: 200, stop_after: 2%, per_group: {ha_group: 1}}
vars: {image: br200-8.4.2.raucb}
steps:
  - name: stage
    uses: firmware.stage
    window: none                     # may run days before
    with: {artifact: "${{ vars.image }}"}
  - name: upgrade
    uses: firmware.upgrade
    needs: 40m                       # must fit, rollback included
    with: {artifact: "${{ vars.image }}", reboot_timeout: 10m}
  - name: verify
    uses: command
    with: {run: fwctl health}
    retry: {attempts: 5, interval: 10s, max_interval: 1m, jitter: 20%}
`

const designRollover = `playbook: zsk-rollover
targets: host.name == "signer-1"
schedule: {cron: "17 3 1 */3 *", timezone: Europe/Zurich, catch_up: once, overlap: skip, jitter: 30m, start_within: 6h}
steps: [{uses: dnssec.rollover, with: {zone: example.org, key: zsk}}]
`

func TestNextWaveAt(t *testing.T) {
	t.Parallel()
	parse := func(strategy string) (*playbooks.Playbook, error) {
		return playbooks.Parse("a.yaml", []byte("playbook: p\ntargets: true\nstrategy: "+strategy+"\nsteps: [{uses: x}]\n"), playbooks.Options{})
	}
	for text, want := range map[string]rollout.NextWave{
		"{waves: [1]}": {}, "{next_wave_at: 98%}": {Finished: 98}, "{next_wave_at: 99.5%}": {Finished: 99.5}, "{next_wave_at: 10m}": {After: 10 * time.Minute},
	} {
		p, err := parse(text)
		if err != nil || p.Strategy.NextWaveAt != want {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	for _, text := range []string{"0%", "101%", "50", "0s", "soon", "[98%]", "-1m"} {
		if _, err := parse("{next_wave_at: " + text + "}"); err == nil || !strings.Contains(err.Error(), "such as 98%") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestWaitForWindows(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"{waves: [1]}": false, "{waves: [1], wait_for_windows: true}": true, "{wait_for_windows: false}": false} {
		p, err := playbooks.Parse("a.yaml", []byte("playbook: p\ntargets: true\nstrategy: "+text+"\nsteps: [{uses: x}]\n"), playbooks.Options{})
		if err != nil || p.Strategy.WaitForWindows != want {
			t.Errorf("%s: %v, %v", text, p, err)
		}
	}
}

func TestDesignExamples(t *testing.T) {
	t.Parallel()
	p, err := playbooks.Parse("a.yaml", []byte(designFirmware), options(t))
	if err != nil {
		t.Fatal(err)
	}
	want := rollout.Strategy{
		Waves: []rollout.Size{{Count: 1}, {Percent: 5}, {Percent: 100}}, MaxInFlight: rollout.Size{Count: 200},
		StopAfter: rollout.Size{Percent: 2}, PerGroup: map[string]int{"ha_group": 1},
	}
	if !reflect.DeepEqual(p.Strategy, want) {
		t.Errorf("strategy %+v, want %+v", p.Strategy, want)
	}
	if p.Name != "branch-firmware-8.4" || p.Window != "service" || p.Vars["image"] != "br200-8.4.2.raucb" || string(p.Source) != designFirmware {
		t.Errorf("got %+v", p)
	}
	verify := p.Steps[2]
	if want := (playbooks.Retry{Attempts: 5, Backoff: core.Backoff{Interval: 10 * time.Second, Max: time.Minute, Jitter: 0.2}}); verify.Retry != want {
		t.Errorf("retry %+v, want %+v", verify.Retry, want)
	}
	if p.Steps[0].Window != "none" || p.Steps[1].Needs != 40*time.Minute || p.Steps[0].Retry.Attempts != 1 || verify.Line != 16 {
		t.Errorf("steps %+v", p.Steps)
	}

	p, err = playbooks.Parse("b.yaml", []byte(designRollover), options(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := (playbooks.Schedule{Cron: "17 3 1 */3 *", Timezone: "Europe/Zurich", CatchUp: "once", Overlap: "skip", Jitter: 30 * time.Minute, StartWithin: 6 * time.Hour}); !reflect.DeepEqual(*p.Schedule, want) {
		t.Errorf("schedule %+v, want %+v", *p.Schedule, want)
	}
	if p.Steps[0].Name != "dnssec.rollover" {
		t.Errorf("a step without a name is called %q, want its uses", p.Steps[0].Name)
	}
	if data, err := p.Steps[0].With.JSON(playbooks.Env{}); err != nil || string(data) != `{"key":"zsk","zone":"example.org"}` {
		t.Errorf("params %s, %v", data, err)
	}
}

func TestNamesOfStepsAreUnique(t *testing.T) {
	t.Parallel()
	p, err := playbooks.Parse("a.yaml", []byte(`playbook: a
targets: true
steps: [{uses: reboot}, {uses: reboot}, {name: reboot-2, uses: reboot}, {uses: reboot, when: 'steps["reboot-3"].changed'}]
`), options(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range p.Steps {
		got = append(got, s.Name)
	}
	if want := []string{"reboot", "reboot-3", "reboot-2", "reboot-4"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestVarsOfTheCommandLineWin(t *testing.T) {
	t.Parallel()
	src := []byte("playbook: a\nvars: {x: 1, y: 2, z: {deep: [1, true, null, 1.5, 0x10, 2026-01-01]}}\ntargets: vars.x == 9 && vars.extra == 1 && vars.y == 2\nsteps: [{uses: reboot}]\n")
	o := options(t)
	o.Vars = map[string]any{"x": 9, "extra": 1}
	p, err := playbooks.Parse("a.yaml", src, o)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := p.Targets.Bool(playbooks.Env{Vars: p.Vars}); !ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
	if data, _ := json.Marshal(p.Vars); string(data) != `{"extra":1,"x":9,"y":2,"z":{"deep":[1,true,null,1.5,16,"2026-01-01"]}}` {
		t.Errorf("vars %s", data)
	}
	if len(o.Vars) != 2 {
		t.Error("the caller's map was changed")
	}
	if _, err := playbooks.Parse("a.yaml", src, options(t)); err == nil {
		t.Error("vars.extra is unknown without -e, but it loads")
	}
}

func TestAliasesAndMergeKeys(t *testing.T) {
	t.Parallel()
	p, err := playbooks.Parse("a.yaml", []byte(`x-common: &common
  retry: &retry {attempts: 3, interval: 5s}
  timeout: 1m
  tags: [a]
playbook: a
targets: true
steps:
  - <<: *common
    uses: reboot
    timeout: 2m
  - <<: [{tags: [b]}, *common]
    uses: reboot
    retry: {<<: *retry, attempts: 2}
`), options(t))
	if err != nil {
		t.Fatal(err)
	}
	one, two := p.Steps[0], p.Steps[1]
	if one.Retry.Attempts != 3 || one.Timeout != 2*time.Minute || two.Tags[0] != "b" || two.Retry.Attempts != 2 || two.Retry.Interval != 5*time.Second {
		t.Errorf("got %+v and %+v", one, two)
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func named(name string) string {
	return "playbook: " + name + "\ntargets: true\nsteps: [{uses: reboot}]\n"
}

func TestLoadFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"b.yaml": named("b"), "a.yml": named("a"), "sub/deep/c.yaml": named("c"), "notes.txt": "no",
		".hidden.yaml": "broken: [", ".git/x.yaml": "broken: [",
	})
	for link, target := range map[string]string{"sub/loop": "..", "sub/self.yaml": "../b.yaml", "sub/deep/up": "../../sub"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := playbooks.Load([]string{filepath.Join(dir, "sub"), dir, filepath.Join(dir, "b.yaml")}, options(t))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range got {
		names = append(names, p.Name)
	}
	if want := []string{"c", "a", "b"}; !sameSet(names, want) || len(names) != 3 {
		t.Errorf("got %q, want each of %q once", names, want)
	}
}

func sameSet(a, b []string) bool {
	have := map[string]bool{}
	for _, s := range a {
		have[s] = true
	}
	for _, s := range b {
		if !have[s] {
			return false
		}
	}
	return len(have) == len(b)
}

func TestLoadReportsEveryProblemOfEveryFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"1.yaml": named("same"), "2.yaml": "playbok: x\n", "3.yaml": "a: [\n", "4.yaml": "# a comment first\n" + named("same"), "5.yaml": named("good"),
	})
	_, err := playbooks.Load([]string{dir, filepath.Join(dir, "nowhere"), filepath.Join(dir, "5.yaml")}, options(t))
	var diags playbooks.Diagnostics
	if !errors.As(err, &diags) || !errors.Is(err, core.ErrInvalid) {
		t.Fatalf("got %v", err)
	}
	text := strings.ReplaceAll(err.Error(), dir+"/", "")
	for _, want := range []string{
		`2.yaml:1:1: unknown key "playbok"`, `2.yaml:1:1: the playbook has no "targets"`, `3.yaml:1:1: not YAML`,
		`4.yaml:2:11: a second playbook is named "same"`, `hint: the first is in 1.yaml:1:11`, `nowhere: no such file or folder`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	for i := 1; i < len(diags); i++ {
		if diags[i].File < diags[i-1].File {
			t.Error("not sorted by file")
		}
	}
}

func TestLoadRefusesWhatIsNoPlaybook(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, path := range []string{empty, "/dev/zero", filepath.Join(empty, "a\x00b")} {
		if _, err := playbooks.Load([]string{path}, options(t)); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: got %v", path, err)
		}
	}
}

func TestUsesIsNotCheckedWithoutTypes(t *testing.T) {
	t.Parallel()
	p, err := playbooks.Parse("a.yaml", []byte("playbook: a\ntargets: true\nsteps: [{uses: any.thing, with: {x: 1}}]\n"), playbooks.Options{})
	if err != nil || p.Steps[0].Uses != "any.thing" {
		t.Errorf("got %v", err)
	}
}

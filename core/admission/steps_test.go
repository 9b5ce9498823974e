package admission

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

// only reports that reboot and flash are disruptive, and no other.
func only(uses string) bool { return uses == "reboot" || uses == "flash" }

func steps(t *testing.T, text string, o Options) (*playbooks.Playbook, *Steps) {
	t.Helper()
	p, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: true\n"+text), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if o.Disruptive == nil {
		o.Disruptive = only
	}
	return p, NewSteps(p, o)
}

var here = core.Host{Name: "h", WindowSet: "acme"}

func TestWhichStepsWaitForAWindow(t *testing.T) {
	for _, c := range []struct {
		why, text string
		o         Options
		sets      string // of the steps: "-" is not gated
		atOnce    bool
	}{
		{"no window at all", "steps: [{uses: reboot, needs: 1m}]", Options{}, "-", true},
		{"the playbook's window, for disruptive steps", "window: service\nsteps: [{uses: probe}, {uses: reboot, needs: 1m}, {uses: check}]", Options{}, "- acme -", true},
		{"the step's goes over the playbook's", "window: service\nsteps: [{uses: reboot, needs: 1m, window: night}, {uses: flash, window: none}]", Options{}, "night -", false},
		{"none for all", "window: none\nsteps: [{uses: reboot}]", Options{}, "-", true},
		{"a step with a window of its own waits, whatever its type", "steps: [{uses: probe, window: service, needs: 1m}]", Options{}, "acme", false},
		{"a disruptive step waits as its job type would", "window: service\nsteps: [{uses: probe, disruptive: true, needs: 1m}]", Options{}, "acme", false},
		{"a step that disrupts nothing does not wait", "window: service\nsteps: [{uses: reboot, disruptive: false}, {uses: flash, needs: 1m}]", Options{}, "- acme", true},
		{"a step that disrupts nothing keeps its own window", "steps: [{uses: probe, window: service, disruptive: false, needs: 1m}]", Options{}, "acme", false},
		{"check mode changes nothing", "window: service\nsteps: [{uses: reboot, needs: 1m}]", Options{Check: true}, "-", true},
		{"a step that does not run", "window: service\nsteps: [{uses: reboot, needs: 1m, tags: [a]}, {uses: flash, needs: 1m, tags: [b]}]",
			Options{Selected: func(tags []string) bool { return tags[0] == "b" }}, "- acme", false},
	} {
		_, s := steps(t, c.text, c.o)
		var sets []string
		for i := range s.Len() {
			set, windowed := s.Set(i, here)
			if !windowed {
				set = "-"
			}
			sets = append(sets, set)
		}
		all := func(int) bool { return true }
		if got := strings.Join(sets, " "); got != c.sets || s.AtOnce(all) != c.atOnce || s.Any() != (strings.Trim(c.sets, "- ") != "") {
			t.Errorf("%s: %s, immediately %v, any %v", c.why, got, s.AtOnce(all), s.Any())
		}
	}
}

func TestNeedOfARestOfAJob(t *testing.T) {
	_, s := steps(t, `window: service
steps:
  - {name: stage, uses: flash, window: none, needs: 5h}
  - {name: one, uses: reboot, needs: 10m}
  - {name: look, uses: probe, needs: 3m}
  - {name: two, uses: reboot, needs: 20m}
  - {name: after, uses: probe, needs: 1h}
  - {name: night, uses: flash, window: night, needs: 40m}
`, Options{})
	want := []time.Duration{0, 33 * time.Minute, 0, 20 * time.Minute, 0, 40 * time.Minute}
	for i := range want {
		if got := s.Need(i, here); got != want[i] {
			t.Errorf("from step %d on: %v, expected %v", i, got, want[i])
		}
	}
	// Where the host's own set is the one of the last step, its time must also fit, and the steps
	// between.
	if got, want := s.Need(1, core.Host{WindowSet: "night"}), 33*time.Minute+time.Hour+40*time.Minute; got != want {
		t.Errorf("%v, expected %v", got, want)
	}
	if s.First(0) != 1 || s.First(4) != 5 || s.First(6) != 6 {
		t.Error(s.First(0), s.First(4), s.First(6))
	}
	hosts := s.Hosts([]core.Host{{Name: "a", WindowSet: "acme"}, {Name: "b", WindowSet: "night"}, {Name: "c"}})
	if len(hosts["night"]) != 3 || len(hosts["acme"]) != 1 || len(hosts[""]) != 1 {
		t.Error(hosts)
	}
}

func TestNeedThatNobodyKnows(t *testing.T) {
	const text = "window: service\nsteps: [{uses: probe}, {name: boot, uses: reboot}, {uses: flash, needs: 1m}]\n"
	p, s := steps(t, text, Options{})
	err := s.Check(p)
	const want = `p.yaml:4:1: step "boot" waits for the window "service", and how long it takes is not known
  4 | steps: [{uses: probe}, {name: boot, uses: reboot}, {uses: flash, needs: 1m}]
    | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  expected needs: with the time that must be left in the window, rollback included
  hint: needs: 40m`
	if !errors.Is(err, core.ErrInvalid) || err.Error() != want {
		t.Errorf("%v\nexpected\n%s", err, want)
	}
	if s.Need(1, here) != 0 {
		t.Error("an unknown need is not 0")
	}
	learned := Options{Learned: func(step, uses string) (time.Duration, bool) {
		return 7 * time.Minute, step == "boot" && uses == "reboot"
	}}
	p, s = steps(t, text, learned)
	if err := s.Check(p); err != nil || s.Need(1, here) != 8*time.Minute {
		t.Errorf("%v, %v", err, s.Need(1, here))
	}
}

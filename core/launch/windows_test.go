package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// friday is 2026-11-20 12:00 UTC. In windowText now is open, sat and sun open at the weekend.
var friday = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const windowText = `
window_sets:
  now: {timezone: UTC, allow: [{id: day, rrule: "FREQ=DAILY", from: "08:00", to: "18:00"}]}
  sat: {timezone: UTC, allow: [{id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00"}]}
  sun: {timezone: Europe/Berlin, allow: [{id: sun, rrule: "FREQ=WEEKLY;BYDAY=SU", from: "22:00", to: "+1d 05:00"}]}
  brief: {timezone: UTC, allow: [{id: day, rrule: "FREQ=DAILY", from: "08:00", to: "14:00"}]}
  short: {timezone: UTC, allow: [{id: brief, rrule: "FREQ=DAILY", from: "08:00", to: "08:30"}]}
`

func calendarOf(t testing.TB, text string) *admission.Calendar {
	t.Helper()
	b, err := admission.NewCalendar([]windows.Document{{File: "w.yaml", Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// inSets makes hosts, one for each set named.
func inSets(sets ...string) []core.Host {
	hosts := fleet(len(sets))
	for i, set := range sets {
		hosts[i].WindowSet = set
	}
	return hosts
}

const upgrade = "window: service\nsteps: [{name: up, uses: firmware.set, needs: 1h, with: {x: 1}}]\n"

func windowed(t testing.TB, body string, hosts []core.Host, o Options) (*Launch, error) {
	t.Helper()
	p, err := playbooks.Parse("test.yaml", []byte("playbook: test\ntargets: true\n"+body), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if o.Windows == nil {
		o.Windows = calendarOf(t, windowText)
	}
	o.RunID, o.Board, o.Now, o.Types = "r", "windows/r", friday, types
	return Prepare(p, hosts, o)
}

// order is a launch's hosts by their sets, with | where a wave ends.
func order(l *Launch) string {
	var b strings.Builder
	wave := 0
	for i, s := range l.Starts {
		if i == l.Limits[wave] {
			b.WriteString("| ")
			wave++
		}
		b.WriteString(s.Set + " ")
	}
	return strings.TrimSpace(b.String())
}

func TestEachHostHasItsOwnStart(t *testing.T) {
	sat, sun := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC), time.Date(2026, 11, 22, 21, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		why, body string
		sets      []string
		order     string
		segments  []queue.Segment
	}{
		{"earliest first", upgrade, []string{"sun", "sat", "now", "sat", "sun", "now"}, "now now sat sat sun sun", []queue.Segment{{Count: 2}, {Due: sat, Count: 2}, {Due: sun, Count: 2}}},
		{"the window that closes first", upgrade, []string{"now", "brief", "now", "brief"}, "brief brief now now", nil},
		{"the window that closes first, within each wave", "strategy: {waves: [2, 100%]}\n" + upgrade, []string{"now", "brief", "now", "brief"}, "brief now | brief now", nil},
		{"all are open: no segments", upgrade, []string{"now", "now"}, "now now", nil},
		{"waves", "strategy: {waves: [1, 3]}\n" + upgrade, []string{"sun", "sat", "sun", "now"}, "now | sat sun | sun", []queue.Segment{{Count: 1}, {Due: sat, Count: 1}, {Due: sun, Count: 2}}},
		{"a step before that needs no window", "window: service\nsteps: [{uses: command, with: {run: x}}, {uses: firmware.set, needs: 1h, with: {x: 1}}]\n", []string{"sun", "sat"}, "sun sat", nil},
		{"one set for all", "window: sat\nsteps: [{uses: firmware.set, needs: 1h, with: {x: 1}}]\n", []string{"sun", ""}, "sat sat", []queue.Segment{{Due: sat, Count: 2}}},
	} {
		l, err := windowed(t, c.body, inSets(c.sets...), Options{})
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		if got := order(l); got != c.order || !reflect.DeepEqual(l.Run.Segments, c.segments) {
			t.Errorf("%s: %s, %v\nexpected %s, %v", c.why, got, l.Run.Segments, c.order, c.segments)
		}
		if err := l.Run.Validate(); err != nil {
			t.Errorf("%s: %v", c.why, err)
		}
	}
}

// A retry plans the windows of the steps that it calls, with the time that they need.
func TestKeptStepsWaitForNoWindow(t *testing.T) {
	const body = "steps:\n" +
		"  - {name: a, uses: firmware.set, window: service, needs: 1h, with: {x: 1}}\n" +
		"  - {name: b, uses: firmware.set, window: sun, needs: 2h, with: {x: 1}}\n" +
		"  - {name: c, uses: command, with: {run: x}}\n"
	sun := time.Date(2026, 11, 22, 21, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		body     string
		kept     map[string]int
		order    string
		segments []queue.Segment
		ready    int
	}{
		"nothing is kept":        {body, nil, "now sat", []queue.Segment{{Count: 1}, {Due: time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC), Count: 1}}, 2},
		"one step of one":        {body, map[string]int{"h0001": 1}, "now sun", []queue.Segment{{Count: 1}, {Due: sun, Count: 1}}, 2},
		"one step of both":       {body, map[string]int{"h0000": 1, "h0001": 1}, "sun sun", []queue.Segment{{Due: sun, Count: 2}}, 2},
		"all with a window":      {body, map[string]int{"h0000": 2, "h0001": 2}, "", nil, 0},
		"one is called with it":  {strings.Replace(body, "name: a, ", "name: a, redo: always, ", 1), map[string]int{"h0000": 2, "h0001": 2}, "now sat", []queue.Segment{{Count: 1}, {Due: time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC), Count: 1}}, 2},
		"a window that is never": {strings.Replace(body, "window: service", "window: short", 1), map[string]int{"h0000": 1, "h0001": 1}, "sun sun", []queue.Segment{{Due: sun, Count: 2}}, 2},
	} {
		l, err := windowed(t, c.body, inSets("now", "sat"), Options{Kept: func(*playbooks.Playbook, []core.Host) (map[string]int, error) { return c.kept, nil }})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := order(l); got != c.order || !reflect.DeepEqual(l.Run.Segments, c.segments) || l.Snapshot.Windows.Ready != c.ready {
			t.Errorf("%s: %s, %v, %d ready\nexpected %s, %v, %d", name, got, l.Run.Segments, l.Snapshot.Windows.Ready, c.order, c.segments, c.ready)
		}
	}
}

// A freeze may be lifted: its hosts are given out when they could start without it, to wait where
// they can be signalled. A closure by rules is not lifted, and its hosts wait as a segment.
func TestFrozenHostsAreGivenOutEarly(t *testing.T) {
	cal := calendarOf(t, windowText+`
  frozen: {timezone: UTC, allow: [{id: day, rrule: "FREQ=DAILY", from: "08:00", to: "18:00"}], deny: [{use: freeze/late}]}
  satfrozen: {timezone: UTC, allow: [{id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00"}], deny: [{use: freeze/late}]}
freezes:
  late: {timezone: UTC, from: 2026-11-19, to: 2026-11-25}
`)
	l, err := windowed(t, upgrade, inSets("satfrozen", "frozen", "sat", "now"), Options{Windows: cal})
	if err != nil {
		t.Fatal(err)
	}
	sat := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	want := []queue.Segment{{Count: 2}, {Due: sat, Count: 2}}
	if got := order(l); got != "now frozen sat satfrozen" || !reflect.DeepEqual(l.Run.Segments, want) {
		t.Errorf("%s, %v, expected %v", got, l.Run.Segments, want)
	}
	if at := l.Starts[1].At; !at.Equal(time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)) {
		t.Errorf("the plan has the frozen host start at %v", at)
	}
}

func TestPairsKeepTheirOrderWithinAnOccurrence(t *testing.T) {
	hosts := inSets("sat", "sat", "sun", "sat")
	hosts[0].HAGroup, hosts[1].HAGroup = "pair", "pair"
	hosts[1].Labels = map[string]string{"ha_role": "standby"}
	l, err := windowed(t, "strategy: {waves: [2]}\n"+upgrade, hosts, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, h := range l.Hosts {
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "h0001 h0003 h0000 h0002" {
		t.Errorf("%s, expected the standby, then in another wave the active member", got)
	}
}

func TestNoWindowsNoSegments(t *testing.T) {
	p := parse(t, "targets: true\n"+upgrade)
	l, err := Prepare(p, inSets("sat", "short"), Options{Types: types})
	if err != nil || l.Starts != nil || l.Run.Segments != nil || l.Snapshot.Windows != nil || l.Asks != "service" {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err = windowed(t, upgrade, inSets("sat", "short"), Options{Check: true}); err != nil || l.Starts != nil || l.Asks != "" {
		t.Errorf("check mode: %+v, %v", l, err)
	}
	if l, err = windowed(t, "window: service\n"+command, inSets("sat"), Options{}); err != nil || l.Starts != nil || l.Snapshot.Windows != nil || l.Asks != "service" || !l.Inert {
		t.Errorf("no disruptive step: %+v, %v", l, err)
	}
	const tagged = "window: service\nsteps: [{uses: command, tags: [soon], with: {run: x}}, {uses: firmware.set, needs: 1h, with: {x: 1}}]\n"
	if l, err = windowed(t, tagged, inSets("sat"), Options{Tags: []string{"soon"}}); err != nil || l.Starts != nil || l.Asks != "service" || l.Inert {
		t.Errorf("the disruptive step is not selected: %+v, %v", l, err)
	}
}

func TestEveryHostThatNoWindowFitsIsListed(t *testing.T) {
	hosts := inSets("now", "short", "", "nobody", "sat", "short")
	_, err := windowed(t, upgrade, hosts, Options{})
	const want = `playbook test: no window fits 4 of 6 hosts
  h0001, h0005 (window set short, needs 1h): needs_reapproval: window set short: the longest window within 400 days lasts 30m, needed are 1h
  h0002 (window set none, needs 1h): the host has no window set, so it is closed; give it window_set: in the inventory
  h0003 (window set nobody, needs 1h): window set nobody is closed: no window set has the name "nobody"`
	if noWindow, ok := errors.AsType[*NoWindowError](err); !ok || len(noWindow.Hosts) != 4 || !errors.Is(err, core.ErrInvalid) || err.Error() != want {
		t.Errorf("%v\nexpected\n%s", err, want)
	}
	l, err := windowed(t, upgrade, hosts, Options{SkipNoWindow: true})
	if err != nil || order(l) != "now sat" || len(l.NoWindow) != 4 || len(l.Run.Targets) != 2 {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err = windowed(t, upgrade, hosts[1:4], Options{SkipNoWindow: true}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("nobody is left: %v", err)
	}
}

func TestALaterStepThatNoWindowFits(t *testing.T) {
	_, err := windowed(t, "steps:\n  - {name: a, uses: firmware.set, window: now, needs: 1h, with: {x: 1}}\n  - {name: b, uses: firmware.set, window: short, needs: 1h, with: {x: 1}}\n", inSets("sat"), Options{})
	if noWindow, ok := errors.AsType[*NoWindowError](err); !ok || noWindow.Hosts[0].Set != "short" {
		t.Errorf("%v, expected the second step's set to be named", err)
	}
}

func TestNeedsAreGivenOrLearned(t *testing.T) {
	const body = "window: service\nsteps: [{name: up, uses: firmware.set, with: {x: 1}}]\n"
	if _, err := windowed(t, body, inSets("now"), Options{}); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "test.yaml:4:1") {
		t.Errorf("%v, expected the place of the step", err)
	}
	need := func(playbook, step, uses string) (time.Duration, bool) {
		return 2 * time.Hour, playbook+step+uses == "testupfirmware.set"
	}
	l, err := windowed(t, body, inSets("now"), Options{Need: need})
	if err != nil || l.Starts[0].Need != 2*time.Hour {
		t.Fatalf("%+v, %v", l, err)
	}
	// The learned duration travels: a worker asks for the same.
	snap, err := snapshot.Decode(l.Run.Payload)
	if err != nil {
		t.Fatal(err)
	}
	p, err := playbooks.Parse(snap.File, []byte(snap.Source), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	steps := snap.Steps(p, func(string) bool { return true })
	q, waits := snap.Windows.Question(steps, 0, l.Hosts[0], 1)
	want := admission.Question{Set: "now", Need: 2 * time.Hour, Change: l.Snapshot.Windows.Change, Targets: admission.TargetsHash([]string{"h0000"}), Missed: 1}
	if !waits || q != want || snap.Windows.Board != "windows/r" {
		t.Errorf("%+v, %v, expected %+v", q, waits, want)
	}
}

// An approval is bound to the hash that plan prints: it holds for this launch, and for no other.
func TestApprovalIsBoundToWhatPlanPrints(t *testing.T) {
	playbook := "vars: {x: a}\n" + upgrade
	open, err := windowed(t, playbook, inSets("now", "now"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan := open.Plan()
	if len(plan.Windows) != 1 || plan.Windows[0].Hosts != 2 || plan.Windows[0].Set != "now" {
		t.Fatalf("%+v", plan.Windows)
	}
	approved := calendarOf(t, fmt.Sprintf(`
window_sets:
  now:
    timezone: UTC
    allow: [{id: day, rrule: "FREQ=DAILY", from: "08:00", to: "18:00"}]
    approval: {id: CHG1, by: cab, change: %q, targets: %q}
`, plan.Change, plan.Windows[0].Targets))
	for _, c := range []struct {
		why, body string
		sets      []string
		vars      map[string]any
		fits      bool
	}{
		{"what was approved", playbook, []string{"now", "now"}, nil, true},
		{"one host more", playbook, []string{"now", "now", "now"}, nil, false},
		{"one host less", playbook, []string{"now"}, nil, false},
		{"an edited playbook", playbook + "# \n", []string{"now", "now"}, nil, false},
		{"another var", playbook, []string{"now", "now"}, map[string]any{"x": "y"}, false},
	} {
		_, err := windowed(t, c.body, inSets(c.sets...), Options{Windows: approved, Vars: c.vars})
		if (err == nil) != c.fits || err != nil && !strings.Contains(err.Error(), "approval CHG1 was given for") {
			t.Errorf("%s: %v", c.why, err)
		}
	}
}

// Which hosts fit depends on the day; what was approved does not. An approval holds for the hosts
// that were selected, and leaving out one that no window fits does not void it.
func TestApprovedTargetsIncludeHostsLeftOut(t *testing.T) {
	const two = "steps:\n  - {name: a, uses: firmware.set, window: now, needs: 1h, with: {x: 1}}\n  - {name: b, uses: firmware.set, window: service, needs: 1h, with: {x: 1}}\n"
	l, err := windowed(t, two, inSets("sat", "short"), Options{SkipNoWindow: true})
	if err != nil || len(l.NoWindow) != 1 || len(l.Hosts) != 1 {
		t.Fatalf("%+v, %v", l, err)
	}
	if got, want := l.Snapshot.Windows.Targets["now"], admission.TargetsHash([]string{"h0000", "h0001"}); got != want {
		t.Errorf("%s, expected %s: of both hosts", got, want)
	}
	targets := fmt.Sprintf("    approval: {id: CHG1, by: cab, targets: %q}\n", l.Plan().Windows[0].Targets)
	cal := calendarOf(t, strings.Replace(windowText, "  now: {timezone: UTC, allow: [{id: day, rrule: \"FREQ=DAILY\", from: \"08:00\", to: \"18:00\"}]}\n",
		"  now:\n    timezone: UTC\n    allow: [{id: day, rrule: \"FREQ=DAILY\", from: \"08:00\", to: \"18:00\"}]\n"+targets, 1))
	if again, err := windowed(t, two, inSets("sat", "short"), Options{SkipNoWindow: true, Windows: cal}); err != nil || len(again.Hosts) != 1 {
		t.Errorf("%+v, %v", again, err)
	}
}

// The planned windows of hosts travel to the workers, which count the windows that were missed.
func TestPlannedWindows(t *testing.T) {
	sat := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	l, err := windowed(t, "strategy: {waves: [1, 100%]}\n"+upgrade, inSets("sat", "now", "sat"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	snap, err := snapshot.Decode(l.Run.Payload)
	if err != nil {
		t.Fatal(err)
	}
	g := snap.Windows
	q := admission.Question{Set: "sat", Need: time.Hour}
	for _, c := range []struct {
		why   string
		index int
		q     admission.Question
		after time.Duration // the window's opening
		want  bool
	}{
		{"at the opening", 0, q, 0, true},
		{"before it", 0, q, -time.Second, false},
		{"long after it, with nothing to wait for", 0, q, 24 * time.Hour, true},
		{"in a later wave, at the opening", 2, q, 0, true},
		{"in a later wave, at the last moment", 2, q, 6 * time.Hour, true},
		{"in a later wave, too late", 2, q, 6*time.Hour + time.Second, false},
		{"another need", 0, admission.Question{Set: "sat", Need: time.Minute}, 0, false},
		{"another set", 0, admission.Question{Set: "sun", Need: time.Hour}, 0, false},
	} {
		if got := snap.Missed(c.index, c.q, sat.Add(c.after)); got != c.want {
			t.Errorf("%s: %v", c.why, got)
		}
	}
	if len(g.Planned) != 2 || g.Ready != 1 {
		t.Errorf("%+v: expected one window a question, and one host in the first wave", g)
	}
}

// The second member of an HA group waits for the first. It misses no window that closes meanwhile,
// but one in which it could have started.
func TestTheSecondOfAGroupMissesNoWindow(t *testing.T) {
	sat := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	hosts := inSets("sat", "sat", "sat")
	hosts[0].HAGroup, hosts[1].HAGroup = "pair", "pair"
	l, err := windowed(t, upgrade, hosts, Options{})
	if err != nil {
		t.Fatal(err)
	}
	snap, err := snapshot.Decode(l.Run.Payload)
	if err != nil {
		t.Fatal(err)
	}
	q, last := admission.Question{Set: "sat", Need: time.Hour}, 6*time.Hour
	for i, h := range l.Hosts {
		second := len(l.After[h.Name]) > 0
		if at, late := snap.Missed(i, q, sat.Add(last)), snap.Missed(i, q, sat.Add(last+time.Second)); !at || late == second {
			t.Errorf("host %s, second %v: missed at the last start %v, and after it %v", h.Name, second, at, late)
		}
	}
	if len(l.After) != 1 {
		t.Errorf("%v: expected one host that waits for another", l.After)
	}
}

func TestPlanOfAWindowedLaunch(t *testing.T) {
	l, err := windowed(t, upgrade, inSets("now", "sun", "short"), Options{SkipNoWindow: true})
	if err != nil {
		t.Fatal(err)
	}
	plan := l.Plan()
	host := plan.Waves[0].Hosts[1]
	if host.WindowSet != "sun" || host.StartLocal != "2026-11-22T22:00:00+01:00" || !host.Start.Equal(l.Starts[1].At) || host.Waits != "no rule opens at this time" {
		t.Errorf("%+v", host)
	}
	text, err := json.Marshal(plan)
	if err != nil || strings.Count(string(text), `"start"`) != 2 || !strings.Contains(string(text), `"no_window":[{"host":"h0002"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// many is 3000 hosts in 100 sets, mixed, every tenth of an HA pair.
func many(n int) []core.Host {
	hosts := fleet(n)
	for i := range hosts {
		hosts[i].WindowSet = fmt.Sprintf("set%d", i%100)
		if i%10 == 0 {
			hosts[i].HAGroup = fmt.Sprintf("pair%d", i/20)
		}
	}
	return hosts
}

func manySets(t testing.TB) *admission.Calendar {
	var b strings.Builder
	b.WriteString("freezes: {xmas: {timezone: Europe/Berlin, from: 2026-12-20, to: 2027-01-07}}\nwindow_sets:\n")
	for i := range 100 {
		fmt.Fprintf(&b, "  set%d: {timezone: UTC, allow: [{id: w, rrule: \"FREQ=WEEKLY;BYDAY=SA\", from: \"%02d:%02d\", to: \"+1d 05:00\"}], deny: [{use: freeze/xmas}]}\n", i, i/5, i%5*10)
	}
	return calendarOf(t, b.String())
}

func TestSegmentsAreFew(t *testing.T) {
	const waves = 3
	l, err := windowed(t, "strategy: {waves: [10, 10%, 100%]}\n"+upgrade, many(3000), Options{Windows: manySets(t)})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(l.Run.Segments); n > waves*100 || n < 100 {
		t.Errorf("%d segments, expected at most 100 for each of %d waves", n, waves)
	}
	// Without the grouping within waves there are many more: the test notices.
	scattered := 1
	for i := 1; i < len(l.Starts); i++ {
		if !l.Starts[(i*7)%len(l.Starts)].At.Equal(l.Starts[((i-1)*7)%len(l.Starts)].At) {
			scattered++
		}
	}
	if scattered <= waves*100 {
		t.Errorf("%d segments when hosts are scattered: this test shows nothing", scattered)
	}
}

func BenchmarkPrepare3000HostsIn100Sets(b *testing.B) {
	hosts, text := many(3000), manySets(b).Documents()
	for b.Loop() {
		cal, err := admission.NewCalendar(text)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := windowed(b, "strategy: {waves: [10, 10%, 100%]}\n"+upgrade, hosts, Options{Windows: cal}); err != nil {
			b.Fatal(err)
		}
	}
}

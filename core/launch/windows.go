package launch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// Start is when a host's job begins.
type Start struct {
	At     time.Time      // zero: immediately
	Due    time.Time      // when the queue gives its job out: At, or before it while a freeze that may be lifted blocks it
	Last   time.Time      // the latest start in that window; zero is not known, or nothing to hurry for
	Set    string         // that the first step with a window waits for; "" if none does
	Need   time.Duration  // that has to fit
	Reason string         // why it has to wait until At
	By     windows.Cause  // what decides
	Zone   *time.Location // of the set
	atOnce bool           // the job begins with a step that waits for no window
}

// NoWindow is a host that no window fits.
type NoWindow struct {
	Host     string       `json:"host"`
	Customer string       `json:"customer,omitempty"`
	Set      string       `json:"window_set"`
	Need     core.Seconds `json:"need_seconds"`
	Reason   string       `json:"reason"`
}

// String is a line that names the host, what it asked for, and why it gets nothing.
func (u NoWindow) String() string {
	return fmt.Sprintf("%s (window set %s, needs %s): %s", u.Host, cmp.Or(u.Set, "none"), windows.FormatDuration(u.Need.Duration()), u.Reason)
}

// NoWindowError lists every host of a launch that no window fits, a line for each reason.
// errors.Is(err, core.ErrInvalid) holds.
type NoWindowError struct {
	Playbook string
	Total    int // hosts selected
	Hosts    []NoWindow
	// Hashes that approvals may be bound to, as in Admission, for a person who approves before the
	// launch.
	Change  string
	Targets map[string]string
}

func (e *NoWindowError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "playbook %s: no window fits %d of %d hosts", e.Playbook, len(e.Hosts), e.Total)
	var order []NoWindow // one of each reason
	names := map[NoWindow][]string{}
	for _, u := range e.Hosts {
		reason := NoWindow{Set: u.Set, Need: u.Need, Reason: u.Reason}
		if names[reason] == nil {
			order = append(order, reason)
		}
		names[reason] = append(names[reason], u.Host)
	}
	for _, reason := range order {
		hosts := names[reason]
		reason.Host = strings.Join(hosts, ", ")
		b.WriteString("\n  " + reason.String())
	}
	return b.String()
}

// Is makes errors.Is(err, core.ErrInvalid) hold.
func (e *NoWindowError) Is(target error) bool { return target == core.ErrInvalid }

// asks is a window that a selected step asks for, if there is one.
func asks(p *playbooks.Playbook, o Options) string {
	selects := snapshot.Snapshot{Tags: o.Tags, SkipTags: o.SkipTags}
	selected := p.Selected(selects.Selects)
	for i, s := range p.Calls() {
		if window := cmp.Or(s.Window, p.Window, admission.None); window != admission.None && selected[i] && !o.Check {
			return window
		}
	}
	return ""
}

// place orders the hosts, cuts the waves, and with windows finds each host's start.
func (l *Launch) place(hosts, all []core.Host, o Options) error {
	p := l.Playbook
	if o.Windows == nil || l.Asks == "" {
		return l.order(hosts, all, o)
	}
	steps, err := l.fix(hosts, o)
	if err != nil || !steps.Any() {
		l.Inert = !admission.NewSteps(p, admission.Options{Disruptive: playbooks.Disruptive(o.Types)}).Any()
		l.Snapshot.Windows = nil
		return cmp.Or(err, l.order(hosts, all, o))
	}
	if err := l.delegateWindows(hosts, steps, o); err != nil {
		return err
	}
	starts, noWindow, err := l.starts(hosts, steps, o)
	if err != nil {
		return err
	}
	if len(noWindow) > 0 {
		if !o.SkipNoWindow || len(noWindow) == len(hosts) {
			g := l.Snapshot.Windows
			return &NoWindowError{Playbook: p.Name, Total: len(hosts), Hosts: noWindow, Change: g.Change, Targets: g.Targets}
		}
		l.NoWindow = noWindow
		hosts = slices.DeleteFunc(slices.Clone(hosts), func(h core.Host) bool { _, ok := starts[h.Name]; return !ok })
	}
	hosts = slices.Clone(hosts)
	slices.SortStableFunc(hosts, func(a, b core.Host) int { return starts[a.Name].At.Compare(starts[b.Name].At) })
	if err := l.order(hosts, all, o); err != nil {
		return err
	}
	from := 0
	for _, limit := range l.Limits { // within a wave hosts of one occurrence side by side are one segment
		slices.SortStableFunc(l.Hosts[from:limit], func(a, b core.Host) int {
			x, y := starts[a.Name], starts[b.Name]
			return cmp.Or(x.Due.Compare(y.Due), x.At.Compare(y.At), compareLast(x.Last, y.Last)) // the host with the least time goes first
		})
		from = limit
	}
	l.Starts = make([]Start, len(l.Hosts))
	for i, h := range l.Hosts {
		l.Starts[i] = starts[h.Name]
	}
	if !slices.ContainsFunc(l.Starts, func(s Start) bool { return s.atOnce }) {
		l.Snapshot.Windows.Ready = l.Limits[0]
	}
	return nil
}

// order cuts the waves, and brings the hosts into their order.
func (l *Launch) order(hosts, all []core.Host, o Options) (err error) {
	l.Limits = rollout.Limits(l.Playbook.Strategy.Waves, len(hosts))
	l.Hosts = rollout.Order(hosts, l.Limits)
	if !disrupts(l.Playbook, o) {
		return nil
	}
	if l.After, err = rollout.Sequence(l.Hosts, all); err != nil {
		return fmt.Errorf("playbook %s: %w", l.Playbook.Name, err)
	}
	l.Hosts = l.After.Arrange(l.Hosts)
	return nil
}

// fix writes down what approvals are bound to and what was learned, and returns what waits for a
// window.
func (l *Launch) fix(hosts []core.Host, o Options) (*admission.Steps, error) {
	p := l.Playbook
	change, err := admission.ChangeHash(p.Whole(), o.Vars)
	if err != nil {
		return nil, fmt.Errorf("playbook %s: %w", p.Name, err)
	}
	g := &snapshot.Admission{Board: o.Board, Change: change, Targets: map[string]string{}, Needs: map[string]time.Duration{}}
	l.Snapshot.Windows = g
	if o.Need != nil {
		for _, s := range p.Calls() {
			if need, ok := o.Need(p.Name, s.Name, s.Uses); ok && s.Needs == 0 {
				g.Needs[s.Name] = need
			}
		}
	}
	steps := l.Snapshot.Steps(p, playbooks.Disruptive(o.Types))
	if err := steps.Check(p); err != nil {
		return nil, err
	}
	sets := steps.Hosts(hosts)
	l.delegateSets(steps, sets)
	for set, names := range sets {
		g.Targets[set] = admission.TargetsHash(names)
	}
	return steps, nil
}

// starter asks when hosts may begin. Hosts with the same question ask once.
type starter struct {
	launch   *Launch
	kept     map[string]int
	gating   *snapshot.Admission
	steps    *admission.Steps
	calendar *admission.Calendar
	now      time.Time
	asked    map[admission.Question]admission.Answer
	dues     map[admission.Question]time.Time
	lasts    map[admission.Question]time.Time
}

// due is when a job that has to wait is given out.
func (s *starter) due(q admission.Question, a admission.Answer) time.Time {
	at, known := s.dues[q]
	if !known && !a.Next.IsZero() {
		at = s.calendar.Liftable(s.now, q, a.Next)
		s.dues[q] = at
	}
	return at
}

// compareLast orders latest starts; one that is not known comes last.
func compareLast(a, b time.Time) int {
	switch {
	case a.IsZero() == b.IsZero():
		return a.Compare(b)
	case a.IsZero():
		return 1
	}
	return -1
}

// plan writes down the window that a question's hosts are planned for.
func (s *starter) plan(q admission.Question, a admission.Answer) {
	from := a.Next
	if a.Open {
		from = s.now
	}
	if from.IsZero() {
		return
	}
	c := s.calendar.Compiled(s.now, q.Set, windows.Work{Change: q.Change, Targets: q.Targets})
	e, err := c.Explain(from, q.Need)
	if err != nil || !e.Fits {
		return // beyond what was worked out: it limits nobody
	}
	last := e.Window.Close.Add(-max(q.Need, c.Cutoff))
	s.lasts[q] = last
	s.gating.Planned = append(s.gating.Planned, snapshot.Planned{Set: q.Set, Need: q.Need, From: from.UTC(), Last: last.UTC()})
}

// starts finds each host's start, and the hosts that have none.
func (l *Launch) starts(hosts []core.Host, steps *admission.Steps, o Options) (map[string]Start, []NoWindow, error) {
	s := &starter{l, o.kept, l.Snapshot.Windows, steps, o.Windows, o.Now, map[admission.Question]admission.Answer{}, map[admission.Question]time.Time{}, map[admission.Question]time.Time{}}
	o.Windows.Warm(o.Now, slices.Collect(maps.Keys(s.gating.Targets))...)
	starts := make(map[string]Start, len(hosts))
	var noWindow []NoWindow
	for _, h := range hosts {
		start, why, err := s.start(h)
		if err != nil {
			return nil, nil, fmt.Errorf("playbook %s: host %s: %w", l.Playbook.Name, h.Name, err)
		}
		if why != "" {
			noWindow = append(noWindow, NoWindow{Host: h.Name, Customer: h.Customer, Set: start.Set, Need: core.InSeconds(start.Need), Reason: why})
			continue
		}
		starts[h.Name] = start
	}
	return starts, noWindow, nil
}

// first returns the first step, from i on, that waits for a window and that a job calls. An earlier
// run called the job's first kept steps.
func (s *starter) first(i, kept int) int {
	for i = s.steps.First(i); i < kept && !s.launch.calls(i, kept); {
		i = s.steps.First(i + 1)
	}
	return i
}

// start is when a host may begin its first step with a window, or why a step of its will never
// begin.
func (s *starter) start(h core.Host) (start Start, noWindow string, err error) {
	kept := s.kept[h.Name]
	first := s.first(0, kept)
	var seen []string
	for i := first; i < s.steps.Len(); i = s.first(i+1, kept) {
		q, windowed := s.gating.Question(s.steps, i, h, 0)
		if !windowed || slices.Contains(seen, q.Set) {
			continue
		}
		seen = append(seen, q.Set)
		a, known := s.asked[q]
		if !known {
			if a, err = s.calendar.Ask(s.now, q); err != nil {
				return Start{}, "", err
			}
			s.asked[q] = a
			s.plan(q, a)
		}
		one := Start{Last: s.lasts[q], Set: q.Set, Need: q.Need, By: a.By, Zone: a.Zone}
		if !a.Open {
			one.At, one.Reason = a.Next, a.Reason
			if one.Due = s.due(q, a); !one.Due.After(s.now) {
				one.Due = time.Time{}
			}
		}
		if !a.Open && a.Next.IsZero() {
			return one, a.Reason, nil
		}
		if i == first {
			start = one
		}
	}
	if start.atOnce = s.steps.AtOnce(func(i int) bool { return s.launch.calls(i, kept) }); start.atOnce {
		start.At, start.Due, start.Last, start.Reason = time.Time{}, time.Time{}, time.Time{}, ""
	}
	return start, "", nil
}

// segments are the stretches of hosts that become due at the same time; nil if all are due
// immediately.
func segments(starts []Start) []queue.Segment {
	if !slices.ContainsFunc(starts, func(s Start) bool { return !s.Due.IsZero() }) {
		return nil
	}
	var out []queue.Segment
	for _, s := range starts {
		if n := len(out); n > 0 && out[n-1].Due.Equal(s.Due) {
			out[n-1].Count++
			continue
		}
		out = append(out, queue.Segment{Due: s.Due, Count: 1})
	}
	return out
}

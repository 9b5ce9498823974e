package pages

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// wideHosts is from how many hosts on a person types their number before a final action.
const wideHosts = 100

// wide reports whether a person types the number of hosts of an action. A dry run changes nothing.
func wide(hosts int, disruptive, check bool) bool {
	return !check && (hosts >= wideHosts || disruptive)
}

// count is the input of a number that a person types to confirm a wide action.
type count struct {
	ID   string
	What string // that is counted
	N    int
}

// counting makes the input of a wide action; none of another.
func counting(id, what string, n int, isWide bool) *count {
	if !isWide {
		return nil
	}
	return &count{id, what, n}
}

// unconfirmed explains why a form does not confirm a final action on n hosts or jobs; "" where it
// does.
func unconfirmed(sent url.Values, what string, n int, isWide bool) string {
	if strings.TrimSpace(sent.Get("reason")) == "" {
		return "Nothing was done: the reason is missing. Go back, and type one."
	}
	if typed := strings.TrimSpace(sent.Get("typed")); isWide && typed != strconv.Itoa(n) {
		return fmt.Sprintf("Nothing was done: the number of %ss that was typed is %q, and the action is for %s. Go back, and type the number.", what, typed, core.Plural(n, what))
	}
	return ""
}

// stopping is how a run ends if it is cancelled now, in hosts.
type stopping struct {
	Unknown                          bool // the queue does not report which hosts run
	Running, Between, NotBegun, Done int
}

// stoppingOf counts the hosts of a run. A run that no queue has yet has not begun on any host.
func stoppingOf(run api.Run, away bool) stopping {
	var s stopping
	for _, n := range run.Outcomes {
		s.Done += n
	}
	l := run.Live
	if l == nil {
		s.NotBegun = run.Total - s.Done
		s.Unknown = away || run.Phase != api.Queued && run.Phase != api.Approval
		return s
	}
	s.Running, s.Between = l.InFlight, l.Waiting+l.Suspended
	s.NotBegun = max(run.Total-s.Done-s.Running-s.Between, 0)
	return s
}

// Sentences describes what happens to the hosts.
func (s stopping) Sentences() string {
	hosts := func(n int, one, more string) string {
		if n == 1 {
			return "1 host " + one
		}
		return fmt.Sprintf("%d hosts %s", n, more)
	}
	var all []string
	if s.Unknown {
		all = append(all, "How many hosts run now is unknown. Those that do are told to stop, and no other one starts.")
	} else {
		all = append(all, hosts(s.Running, "runs now and is told to stop.", "run now and are told to stop."), hosts(s.NotBegun, "has not begun and never starts.", "have not begun and never start."))
	}
	if s.Between > 0 {
		all = append(all, hosts(s.Between, "waits for an attempt, a signal or a window, and does nothing more.", "wait for an attempt, a signal or a window, and do nothing more."))
	}
	if s.Done > 0 {
		all = append(all, hosts(s.Done, "keeps its outcome.", "keep their outcomes."))
	}
	return strings.Join(all, " ")
}

// question is an approval that a run waits for.
type question struct {
	ID    string // of its form
	Of    string
	Wave  int // 0: the run as a whole
	Hosts int // that may start
	Later int // hosts of later waves
}

// questionOf is the approval that a run waits for; nil where it waits for none.
func questionOf(run api.Run) *question {
	switch {
	case run.Waits != nil:
		q := question{ID: fmt.Sprintf("approve-%d", run.Waits.Wave), Of: fmt.Sprintf("wave %d", run.Waits.Wave), Wave: run.Waits.Wave, Hosts: run.Waits.Hosts}
		if run.Live != nil {
			q.Later = max(run.Total-run.Live.Released-q.Hosts, 0)
		}
		return &q
	case run.Phase == api.Approval:
		return &question{ID: "approve-run", Of: "the run", Hosts: run.Total}
	}
	return nil
}

// refused explains why a form does not confirm a final action on a run; "" where it does. status is
// that of the page.
func refused(run api.Run, verb string, sent url.Values) (status int, problem string) {
	hosts, disruptive := run.Total, false // a cancel starts no host
	if verb != "cancel" {
		q := questionOf(run)
		if wave, _ := strconv.Atoi(sent.Get("wave")); q == nil || q.Wave != wave { // "" is the run as a whole
			return http.StatusConflict, "Nothing was done: the run does not wait for this approval now. Open its page again."
		}
		hosts, disruptive = q.Hosts, run.Disruptive
	}
	return http.StatusUnprocessableEntity, unconfirmed(sent, "host", hosts, wide(hosts, disruptive, run.Check))
}

// Package policy owns who is notified of what: the kinds of notices, channels, routes and their
// YAML, as plain values. It is what playbooks and definitions contain; how a notice is made and
// sent is core/notify's.
//
// It must not know networks, the ledger, or where credentials are kept: it has their names only.
package policy

import (
	"cmp"
	"slices"
)

// Severity is how much a notice matters.
type Severity string

// The severities, by rank.
const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Severities are all, the least first.
func Severities() []Severity { return []Severity{Info, Warning, Error} }

// AtLeast reports whether a severity is one or more severe than it; "" is the least.
func (s Severity) AtLeast(least Severity) bool {
	return slices.Index(Severities(), s) >= slices.Index(Severities(), least)
}

// The kinds of notices.
const (
	RunFailed       = "run_failed"
	RunLost         = "run_lost"
	RunStopped      = "run_stopped"
	RunPaused       = "run_paused"
	RunRepeated     = "run_repeated"
	RunRecovered    = "run_recovered"
	RunSucceeded    = "run_succeeded"
	WindowMissed    = "window_missed"
	ApprovalNeeded  = "approval_needed"
	StepStalled     = "step_stalled"
	TriggerSkipped  = "trigger_skipped"
	ProjectRejected = "project_rejected"
	QueueAway       = "queue_away"
	QueueBack       = "queue_back"
	QueueLost       = "queue_lost"
	Test            = "test"
)

// Kind is a row of the table of kinds.
type Kind struct {
	Name     string
	Severity Severity
	Doc      string // when; as in docs/notifications.md
	// Tenant means that the kind is about one tenant's things, and that this tenant may be notified.
	// Others are the provider's.
	Tenant bool
	// Asked means that only routes that name the kind get it.
	Asked bool
}

// Kinds is the table of all kinds. docs/notifications.md has the same, which a test checks.
func Kinds() []Kind {
	return []Kind{
		{RunFailed, Error, "some hosts of a run did not succeed, for another reason than a missed window, or the service could not start the run", true, false},
		{RunLost, Error, "a run ended with `lost` hosts: their outcome is unknown", true, false},
		{RunStopped, Error, "a run stopped: it reached its failure threshold, or a step that must not be repeated was lost", true, false},
		{RunPaused, Error, "the service paused a run, and a person must check it before it continues", true, false},
		{RunRepeated, Warning, "jobs of a run ended a second time, because the queue lost the first result", true, false},
		{RunRecovered, Info, "a run succeeded, and the previous run of its playbook did not", true, true},
		{RunSucceeded, Info, "a run succeeded", true, true},
		{WindowMissed, Warning, "hosts of a run missed their windows, or no window fits any more: the run needs another approval", true, false},
		{ApprovalNeeded, Warning, "a run, a wave or a window waits for an approval", true, false},
		{StepStalled, Warning, "jobs of a run are suspended until a person acts", true, false},
		{TriggerSkipped, Warning, "a schedule skipped a fire time", true, false},
		{ProjectRejected, Error, "a commit, folder or version is invalid; the last valid one stays in use", false, false},
		{QueueAway, Error, "the queue does not respond", false, false},
		{QueueBack, Info, "the queue responds again", false, false},
		{QueueLost, Error, "the queue lost its data; the service restores it from the ledger", false, false},
		{Test, Info, "somebody requested a test of a channel", true, true},
	}
}

// former maps each former name of a kind to its present one. docs/renamed.md lists them.
var former = map[string]string{"run_held": RunPaused, "fire_skipped": TriggerSkipped, "definitions_rejected": ProjectRejected}

// Find returns the row of a kind, also by its former name.
func Find(name string) (Kind, bool) {
	name = cmp.Or(former[name], name)
	all := Kinds()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// Names are the kinds that routes may name. Tests of channels go by no route.
func Names() []string {
	var names []string
	for _, k := range Kinds() {
		if k.Name != Test {
			names = append(names, k.Name)
		}
	}
	return names
}

package core

// Outcome is how a job ended. Every job of every run ends in exactly one.
type Outcome string

// The outcomes of a job.
const (
	Unchanged   Outcome = "unchanged"   // all steps ran, nothing differed
	Changed     Outcome = "changed"     // all steps ran, something was changed
	Failed      Outcome = "failed"      // a step failed for good
	Unreachable Outcome = "unreachable" // the host could not be reached or authenticated
	Skipped     Outcome = "skipped"     // no step applied to this host
	RolledBack  Outcome = "rolled_back" // a step failed and the host is as it was before
	Lost        Outcome = "lost"        // nobody knows what the host saw
	Cancelled   Outcome = "cancelled"   // ended by an operator or a spent threshold before it was done
)

// Outcomes lists all outcomes in the order in which recaps show them.
func Outcomes() []Outcome {
	return []Outcome{Unchanged, Changed, Skipped, RolledBack, Failed, Unreachable, Lost, Cancelled}
}

// Valid reports whether o is one of the outcomes.
func (o Outcome) Valid() bool {
	switch o {
	case Unchanged, Changed, Failed, Unreachable, Skipped, RolledBack, Lost, Cancelled:
		return true
	}
	return false
}

// Good reports whether the host is as the playbook wants it.
func (o Outcome) Good() bool { return o == Unchanged || o == Changed || o == Skipped }

// Proves reports whether it shows what comes of the playbook: its steps were tried on the host.
func (o Outcome) Proves() bool {
	switch o {
	case Unchanged, Changed, Failed, RolledBack, Lost:
		return true
	}
	return false
}

// CountsAsFailure reports whether the outcome counts against a run's stop_after. Unreachable hosts
// have a threshold of their own; cancelled jobs have none.
func (o Outcome) CountsAsFailure() bool { return o == Failed || o == RolledBack || o == Lost }

// Letter returns one character for each outcome; '.' is no outcome.
func (o Outcome) Letter() byte {
	switch o {
	case Unreachable:
		return 'N'
	case Unchanged:
		return '='
	case RolledBack:
		return 'B'
	case Cancelled:
		return 'X'
	case "":
		return '.'
	}
	return o[0] - 'a' + 'A'
}

package api

import (
	"time"

	"github.com/turnus/turnus/core"
)

// Phase is the state of a run, seen from outside.
type Phase string

// The phases. Queued is a run that was accepted and is not in the queue yet, as while the queue
// is away; Approval one that waits for a person before it starts.
const (
	Approval  Phase = "approval"
	Queued    Phase = "queued"
	Active    Phase = "active"
	Paused    Phase = "paused"
	Stopped   Phase = "stopped" // its threshold is reached, or a job was lost
	Cancelled Phase = "cancelled"
	Finished  Phase = "finished"
)

// Over reports whether a run in the phase starts no further hosts. Hosts that it has started may
// still run: see Run.Complete.
func (p Phase) Over() bool { return p == Stopped || p == Cancelled || p == Finished }

// Run is one launch of a playbook.
type Run struct {
	ID          string               `json:"id"`
	Tenant      string               `json:"tenant"`
	Playbook    string               `json:"playbook"`
	Revision    string               `json:"revision,omitempty" doc:"commit of the project that it was launched from"`
	Phase       Phase                `json:"phase" enum:"approval,queued,active,paused,stopped,cancelled,finished"`
	Reason      string               `json:"reason,omitempty" doc:"why it is stopped, cancelled or waiting"`
	ReasonCode  core.ReasonCode      `json:"reason_code,omitempty" doc:"the code of the reason, where it has one"`
	LaunchedBy  string               `json:"launched_by" doc:"the token's name, or schedule:NAME"`
	Schedule    string               `json:"schedule,omitempty"`
	Criticality int                  `json:"criticality" doc:"higher ones are brought back first after the queue was lost"`
	Check       bool                 `json:"check,omitempty" doc:"a dry run: nothing was changed"`
	Created     time.Time            `json:"created"`
	Ended       time.Time            `json:"ended,omitzero"`
	Total       int                  `json:"total" doc:"hosts"`
	Outcomes    map[core.Outcome]int `json:"outcomes"`
	// MayHaveBegun counts from the first host on, those with an outcome included.
	MayHaveBegun int `json:"may_have_begun,omitempty" doc:"of a run that is not over: the queue was lost while the first so many hosts may have been under way; list-jobs with state=uncertain names those of which nobody knows what they saw"`
	// Weight and MaxInFlight are not in lists.
	Weight      int `json:"weight,omitempty" doc:"its share of the workers beside other runs of its tenant; of a run that is not over, in the view of one run and in the answer to a change"`
	MaxInFlight int `json:"max_in_flight,omitempty" doc:"hosts at the same time, as weight; without it there is no limit"`
	// Command is not in lists.
	Command string `json:"command,omitempty" doc:"of a run that POST /v1/exec made: the command line; in the view of one run"`
	// Become, BecomeUser and LaunchReason are not in lists.
	Become       bool   `json:"become,omitempty" doc:"the launcher asked for another user than the login"`
	BecomeUser   string `json:"become_user,omitempty" doc:"with become: the user; without it that of the inventory, or root"`
	LaunchReason string `json:"launch_reason,omitempty" doc:"why it was launched, as a person gave it; in the view of one run"`
	// Kind, Disruptive and Options are not in lists.
	Kind       string      `json:"kind,omitempty" enum:"exec,hostkeys" doc:"of a run that is not of a playbook of the project: of a command, or a scan of host keys; in the view of one run"`
	Disruptive bool        `json:"disruptive,omitempty" doc:"it never works on two hosts of an HA group at the same time, or nobody knows; in the view of one run"`
	Options    *RunOptions `json:"options,omitempty" doc:"that it was launched with; in the view of one run"`
	// Handlers is not in lists.
	Handlers int   `json:"pending_handlers,omitempty" doc:"that it left pending and that no later run ran; in the view of one run"`
	Live     *Live `json:"live,omitempty" doc:"of a run that is in the queue"`
	// Expected is not in lists.
	Expected *Expectation `json:"expected,omitempty" doc:"the forecast at its launch; in the view of one run"`
	Waits    *WaveWait    `json:"waits,omitempty" doc:"for an approval of a wave"`
	// FinishP50 and FinishP90 are estimates.
	FinishP50 time.Time `json:"finish_p50,omitzero" doc:"of a run under way, in lists with live, as far as it is known: it ends by then in half of the cases"`
	FinishP90 time.Time `json:"finish_p90,omitzero" doc:"in 9 of 10"`
	// QueueAway is that the change is recorded, and the queue does not have it yet.
	QueueAway bool `json:"queue_away,omitempty" doc:"in the answer to a cancel, pause or resume: it is recorded, and the queue, which does not answer, gets it when it is back"`
	// Sources are those of its hosts.
	Sources []RunSource `json:"sources,omitempty" doc:"that its hosts come from, with the generation of each that it was launched with"`
	// WithoutFacts is not on record.
	WithoutFacts int `json:"without_facts,omitempty" doc:"in the answer to a launch: hosts that it left out, because targets reads facts that are not on record, or too old"`
	// Warnings are not on record.
	Warnings []string `json:"warnings,omitempty" doc:"in the first answer to a launch, also of a bulk: what may be a mistake, each with what to do after \"hint:\"; hosts that were left out, hosts('…') that gives no host"`
	Retried  *Retried `json:"retried,omitempty" doc:"in the answer to a retry: what differs from the run before"`
}

// Complete reports whether every host has its outcome. Hosts of a run that was stopped or cancelled
// may still run before that.
func (r *Run) Complete() bool { return !r.Ended.IsZero() }

// RunSource is a source of hosts, and the generation of it that a run was launched with.
type RunSource struct {
	Source     string       `json:"source"`
	Generation string       `json:"generation" doc:"id, as get-source and diff-source have it"`
	Hosts      int          `json:"hosts" doc:"of the run; 0: only on or hosts('…') give some"`
	Good       time.Time    `json:"good" doc:"when the source last gave the generation before the launch"`
	Age        core.Seconds `json:"age_seconds" doc:"of the generation at the launch: the time since good"`
}

// Retried is how a retry differs from the run that it was made of.
type Retried struct {
	Run             string   `json:"run" doc:"the run before"`
	Revision        string   `json:"revision,omitempty" doc:"commit that the run before was launched from"`
	PlaybookChanged bool     `json:"playbook_changed" doc:"the new run has the playbook as it is now, which is another than that of the run before"`
	LeftOut         []string `json:"left_out,omitempty" doc:"hosts that the new run leaves out: no longer in the inventory, now another tenant's, or not selected by targets"`
	// Resumed and Restarted are of a retry from the failed step.
	Resumed   int         `json:"resumed,omitempty" doc:"with from: hosts that continue at the step that failed"`
	Restarted []Restarted `json:"restarted,omitempty" doc:"with from: hosts that begin with the first step because they cannot continue, at most 100 of them"`
}

// Restarted is a host that begins again with the first step.
type Restarted struct {
	Host   string `json:"host"`
	Reason string `json:"reason" doc:"why it cannot continue at the failed step"`
}

// Values of the fields From and Else of Retry.
const (
	FromFailedStep = "failed-step"
	ElseRestart    = "restart"
)

// Live is the queue's progress of a run that has not ended.
type Live struct {
	Pending   int `json:"pending"`
	Blocked   int `json:"blocked" doc:"another job holds the host or its HA group"`
	InFlight  int `json:"in_flight"`
	Waiting   int `json:"waiting" doc:"for the next attempt"`
	Suspended int `json:"suspended"`
	Deferred  int `json:"deferred" doc:"of these, waiting for their window"`
	Released  int `json:"released" doc:"hosts of the waves released so far"`
	Wave      int `json:"wave" doc:"from 1"`
	Waves     int `json:"waves"`
	// StopAfter and StopUnreachable are the failure thresholds.
	StopAfter       int `json:"stop_after,omitempty" doc:"failed hosts at which the run stops; without it, none"`
	StopUnreachable int `json:"stop_unreachable,omitempty" doc:"unreachable hosts at which the run stops; without it, none"`
}

// WaveWait is a wave that waits for a person.
type WaveWait struct {
	Wave  int `json:"wave" doc:"from 1"`
	Hosts int `json:"hosts"`
}

// NewRun asks for a run of a playbook that the server's definitions hold.
type NewRun struct {
	Playbook string `json:"playbook" minLength:"1" maxLength:"200"`
	LaunchOptions
	Criticality  *int `json:"criticality,omitempty" minimum:"0" maximum:"1000"`
	Paused       bool `json:"paused,omitempty" doc:"accept it, start nothing before it is resumed"`
	FourEyes     bool `json:"four_eyes,omitempty" doc:"start nothing before somebody else approves"`
	SkipNoWindow bool `json:"skip_no_window,omitempty" doc:"leave out hosts that no window fits, instead of refusing the run"`
	SkipUnfit    bool `json:"skip_unfit,omitempty" deprecated:"true" doc:"former name of skip_no_window"`
	// Plan is the hash of a Plan.
	Plan string `json:"plan,omitempty" pattern:"^sha256:[0-9a-f]{64}$" doc:"the hash of the plan that was seen, see plan-run; a run that would have other hosts or another playbook is refused"`
}

// NewExec asks for a run of one command on hosts of the server's inventory.
type NewExec struct {
	Command        string       `json:"command" minLength:"1" maxLength:"32768" doc:"the command line that /bin/sh of each host gets as it stands"`
	Limit          []string     `json:"limit" minItems:"1" maxItems:"1000" doc:"hosts, groups and patterns, as --limit has them; all is every host"`
	Timeout        core.Seconds `json:"timeout_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"ends the command on a host after this time"`
	Needs          core.Seconds `json:"needs_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"time that must be left in the window of a host: needed where a host has a window set"`
	StopAfter      string       `json:"stop_after,omitempty" maxLength:"20" doc:"the failure threshold, as 5 or 10%"`
	Disruptive     bool         `json:"disruptive,omitempty" doc:"never on two hosts of an HA group at the same time"`
	MaxInFlight    int          `json:"max_in_flight,omitempty" minimum:"0" maximum:"100000" doc:"hosts at the same time; 0 is no limit"`
	SkipNoWindow   bool         `json:"skip_no_window,omitempty" doc:"leave out hosts that no window fits, instead of refusing the run"`
	SkipUnfit      bool         `json:"skip_unfit,omitempty" deprecated:"true" doc:"former name of skip_no_window"`
	OutsideWindows bool         `json:"outside_windows,omitempty" doc:"run now, whatever window sets the hosts have: needs a reason, and the permission exec-outside-windows"`
	Become         *bool        `json:"become,omitempty" doc:"true: as become_user, or root: needs a reason, and the permission exec-become; false: as the login; without it as in the inventory"`
	BecomeUser     string       `json:"become_user,omitempty" maxLength:"64" doc:"become this user, instead of the inventory's or root"`
	Reason         string       `json:"reason,omitempty" maxLength:"1000" doc:"why, in one line: the run and the audit log have it"`
	Check          bool         `json:"check,omitempty" doc:"refused: nobody knows what a command would change"`
}

// NewKeyScan asks workers for the SSH host keys of hosts.
type NewKeyScan struct {
	Hosts []string `json:"hosts" minItems:"1" maxItems:"20000" doc:"names of hosts of the inventory; others are left out"`
}

// MaxNewRuns is how many runs one request may ask for.
const MaxNewRuns = 1000

// NewRuns asks for many runs in one request.
type NewRuns struct {
	Runs []KeyedRun `json:"runs" minItems:"1" maxItems:"1000"`
}

// KeyedRun is a run that one request asks for among others.
type KeyedRun struct {
	Key string `json:"key" minLength:"1" maxLength:"128" doc:"what Idempotency-Key is of create-run: the same key and request of the same caller make one run, however often and by whichever of the two operations they are sent"`
	NewRun
}

// CreatedRun is the answer to one of NewRuns: it has a run or an error.
type CreatedRun struct {
	Index int      `json:"index" doc:"in the request, from 0"`
	Run   *Run     `json:"run,omitempty" doc:"that was created, by this request or by an earlier one with the same key"`
	Error *Problem `json:"error,omitempty" doc:"what create-run would answer"`
}

// Problem is an error as the API answers it (RFC 9457).
type Problem struct {
	Title  string    `json:"title"`
	Status int       `json:"status" doc:"of HTTP"`
	Detail string    `json:"detail,omitempty"`
	Errors []Mistake `json:"errors,omitempty"`
}

// Mistake is one thing that is wrong with a request.
type Mistake struct {
	Message  string `json:"message,omitempty"`
	Location string `json:"location,omitempty" doc:"as body.limit[0]"`
	Value    any    `json:"value,omitempty" doc:"what was sent, if it is short"`
}

// LaunchOptions define how a playbook is launched, now or by a schedule.
type LaunchOptions struct {
	Limit       []string       `json:"limit,omitempty" doc:"hosts, groups and patterns, as --limit has them" minItems:"1" maxItems:"1000"`
	Vars        map[string]any `json:"vars,omitempty" doc:"go over the playbook's vars"`
	Params      map[string]any `json:"params,omitempty" doc:"values of the playbook's params, see get-playbook; the value of a secret is its name"`
	Tags        []string       `json:"tags,omitempty" maxItems:"100"`
	SkipTags    []string       `json:"skip_tags,omitempty" maxItems:"100"`
	Check       bool           `json:"check,omitempty" doc:"change nothing: report what would change"`
	Diff        bool           `json:"diff,omitempty"`
	MaxInFlight int            `json:"max_in_flight,omitempty" minimum:"0" maximum:"100000"`
	Reason      string         `json:"reason,omitempty" maxLength:"1000" doc:"why, in one line: the run and the audit log have it"`
}

// ChangeRun changes a run before its hosts start, or while they do. Absent fields stay.
type ChangeRun struct {
	Weight      *int `json:"weight,omitempty" minimum:"1" maximum:"1000"`
	Criticality *int `json:"criticality,omitempty" minimum:"0" maximum:"1000"`
	MaxInFlight *int `json:"max_in_flight,omitempty" minimum:"0" maximum:"100000" doc:"hosts at the same time; 0 is no limit"`
}

// Why is the reason of a change that a person makes.
type Why struct {
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

// Signal sends an event to the jobs of a run that wait for it.
type Signal struct {
	Event  string `json:"event" minLength:"1" maxLength:"128" doc:"its name, as the job type gave it when it suspended itself"`
	Job    *int   `json:"job,omitempty" minimum:"0" doc:"index of the one job; without it all of the run"`
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

// Signalled is the number of jobs that received an event.
type Signalled struct {
	Jobs int `json:"signalled"`
}

// Approve is a decision about a run that waits for one.
type Approve struct {
	Wave    int    `json:"wave,omitempty" minimum:"0" doc:"from 1; 0 is the run as a whole"`
	Approve bool   `json:"approve" doc:"false refuses: the run is cancelled"`
	Reason  string `json:"reason,omitempty" maxLength:"1000"`
}

// Retry launches the playbook of a run, as it is now, on the hosts of the run that did not succeed.
type Retry struct {
	Outcomes     []core.Outcome `json:"outcomes,omitempty" doc:"take hosts with these; all that are not good by default"`
	SkipNoWindow bool           `json:"skip_no_window,omitempty" doc:"leave out hosts that no window fits, instead of refusing the run"`
	SkipUnfit    bool           `json:"skip_unfit,omitempty" deprecated:"true" doc:"former name of skip_no_window"`
	From         string         `json:"from,omitempty" enum:"failed-step" doc:"failed-step: each host continues at the step that failed, and the steps before it are not called again; without it every host begins with the first step"`
	Else         string         `json:"else,omitempty" enum:"restart" doc:"with from: restart begins with the first step on hosts that cannot continue; without it such a host refuses the retry"`
	Reason       string         `json:"reason,omitempty" maxLength:"1000" doc:"why, in one line: the run and the audit log have it; without it the new run has the reason of the run before"`
	// Plan is the hash of a Plan.
	Plan string `json:"plan,omitempty" pattern:"^sha256:[0-9a-f]{64}$" doc:"the hash of the plan that was seen, see plan-retry; a run that would have other hosts or another playbook is refused"`
}

// States of the API for a job without an outcome, where the queue has no state.
const (
	JobQueued  core.State = "queued"  // its run is accepted, and not in the queue
	JobUnknown core.State = "unknown" // the queue does not answer
)

// Job is one host's share of a run.
type Job struct {
	Run        string          `json:"run"`
	Index      int             `json:"index"`
	Host       string          `json:"host"`
	Customer   string          `json:"customer,omitempty"`
	Playbook   string          `json:"playbook,omitempty"`
	Check      bool            `json:"check,omitempty" doc:"of a dry run: nothing was changed; in the history of a host"`
	State      core.State      `json:"state,omitempty" doc:"while it has no outcome: pending, blocked, leased, retrying or suspended, or done where that is not recorded yet; queued while its run is not in the queue, unknown while that does not answer"`
	Outcome    core.Outcome    `json:"outcome,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	ReasonCode core.ReasonCode `json:"reason_code,omitempty" doc:"the code of the reason, where it has one"`
	Step       string          `json:"step,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Worker     string          `json:"worker,omitempty"`
	Started    time.Time       `json:"started,omitzero" doc:"without an outcome, of a host at work: when its worker took it"`
	Ended      time.Time       `json:"ended,omitzero"`
	Steps      []StepResult    `json:"steps,omitempty" doc:"in the view of one job only"`
	// MayHaveBegun is of a job without an outcome.
	MayHaveBegun bool `json:"may_have_begun,omitempty" doc:"its host may have been touched: the queue was lost while it may have been under way, and it has had no outcome since"`
}

// Explanation is the reason why a job is where it is.
type Explanation struct {
	Run        string          `json:"run"`
	Index      int             `json:"index"`
	Host       string          `json:"host"`
	State      core.State      `json:"state"`
	Reason     string          `json:"reason"`
	ReasonCode core.ReasonCode `json:"reason_code,omitempty" doc:"the code of the reason, where it has one; a job that waits has one"`
	Worker     string          `json:"worker,omitempty" doc:"of a host at work"`
	Since      time.Time       `json:"since,omitzero" doc:"of a host at work: when its worker took it"`
	Until      time.Time       `json:"until,omitzero"`
	// Of a job that has not started.
	Blocks []Block       `json:"blocks,omitempty" doc:"all that keeps it from starting now"`
	Window *HostWindow   `json:"window,omitempty"`
	Ahead  *int          `json:"ahead,omitempty" doc:"hosts of its run that come before it"`
	Starts *HostEstimate `json:"starts,omitempty"`
}

// Output is one text that a job's step wrote.
type Output struct {
	Name    string    `json:"name" doc:"STEP/STREAM: the step's number from 0, and stdout, stderr or diff"`
	Step    string    `json:"step,omitempty"`
	Size    int64     `json:"size" doc:"bytes"`
	Written time.Time `json:"written,omitzero"`
	Cut     bool      `json:"cut,omitempty" doc:"it was longer than a worker keeps"`
}

// Attempt is one try of a job.
type Attempt struct {
	Attempt    int             `json:"attempt" doc:"from 1"`
	Outcome    core.Outcome    `json:"outcome"`
	Reason     string          `json:"reason,omitempty"`
	ReasonCode core.ReasonCode `json:"reason_code,omitempty" doc:"the code of the reason, where it has one"`
	Step       string          `json:"step,omitempty"`
	Worker     string          `json:"worker,omitempty"`
	Started    time.Time       `json:"started,omitzero"`
	Ended      time.Time       `json:"ended,omitzero"`
}

// Decision is one person's word on a run or on one of its waves.
type Decision struct {
	Wave    int       `json:"wave,omitempty" doc:"from 1; 0 is the run as a whole"`
	By      string    `json:"by"`
	Approve bool      `json:"approve"`
	Reason  string    `json:"reason,omitempty"`
	Time    time.Time `json:"time"`
	Void    bool      `json:"void,omitempty" doc:"the run was changed afterwards"`
}

package api

import (
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// Expectation is the forecast of a run at its launch, which is kept.
type Expectation struct {
	At        time.Time       `json:"at" doc:"when it was made"`
	Hosts     int             `json:"hosts" doc:"that were expected to end"`
	FinishP50 time.Time       `json:"finish_p50"`
	FinishP90 time.Time       `json:"finish_p90"`
	P50       []TimelinePoint `json:"p50,omitempty" doc:"in the timeline: hosts that were expected to be done"`
	P90       []TimelinePoint `json:"p90,omitempty" doc:"the same by the P90 of each host"`
}

// Forecast is an estimate of how a run continues, made of how long its steps took in earlier runs.
type Forecast struct {
	Run        string     `json:"run"`
	At         time.Time  `json:"at" doc:"when it was made"`
	Hosts      int        `json:"hosts" doc:"that have not ended"`
	FinishP50  time.Time  `json:"finish_p50,omitzero" doc:"of the last host that finishes; absent if none does"`
	FinishP90  time.Time  `json:"finish_p90,omitzero"`
	Binds      *Binds     `json:"binds,omitempty" doc:"the limit without which it would end earliest"`
	Unfinished float64    `json:"unfinished" doc:"hosts that start in no window any more, in the mean"`
	Steps      []StepTime `json:"steps"`
	Notes      []string   `json:"notes" doc:"what it does not count, and what is assumed"`
}

// Binds is a limit that holds a run up.
type Binds struct {
	Cause string       `json:"cause" enum:"work,windows,approval,concurrency,max_in_flight,per_group,ha_group,waves,pause,barrier"`
	Name  string       `json:"name,omitempty" doc:"of the window set or group"`
	Text  string       `json:"text"`
	Gain  core.Seconds `json:"gain_seconds,omitempty" doc:"how much earlier it would end without that limit"`
	Hosts int          `json:"hosts,omitempty" doc:"that would end without it, and otherwise do not"`
}

// StepTime is how long a step of a playbook takes.
type StepTime struct {
	Step   string       `json:"step"`
	Uses   string       `json:"uses"`
	P50    core.Seconds `json:"p50_seconds"`
	P90    core.Seconds `json:"p90_seconds"`
	Source string       `json:"source" enum:"learned,given,assumed"`
	From   string       `json:"from" doc:"the source in words"`
}

// LearnedStep is how long a step took in recent runs of its playbook.
type LearnedStep struct {
	Step  string         `json:"step"`
	Uses  string         `json:"uses"`
	Runs  int            `json:"runs"`
	Hosts int            `json:"hosts"`
	P50   core.Seconds   `json:"p50_seconds"`
	P90   core.Seconds   `json:"p90_seconds"`
	Took  []core.Seconds `json:"took_seconds" doc:"its quantiles in even steps, from the shortest to the longest"`
}

// Block is one thing that keeps a host from starting.
type Block struct {
	Cause core.ReasonCode `json:"cause" enum:"approval,queue,paused,wave,window,lock,max_in_flight,worker,concurrency"`
	Text  string          `json:"text"`
}

// HostWindow is the window set that a host's disruptive steps wait for.
type HostWindow struct {
	Set        string    `json:"set"`
	Opens      time.Time `json:"opens,omitzero" doc:"when the work may start; absent where it may start now, or never"`
	OpensLocal string    `json:"opens_local,omitempty"`
	Reason     string    `json:"reason,omitempty" doc:"why it may not start now"`
}

// HostEstimate is when a host is expected to start and to end.
type HostEstimate struct {
	P50       time.Time `json:"p50" doc:"start"`
	FinishP50 time.Time `json:"finish_p50"`
	FinishP90 time.Time `json:"finish_p90"`
}

// Beside compares a run that ended, or is under way, with what was expected at its launch.
func (x *Expectation) Beside(ended, now time.Time) string {
	late := func(by time.Duration) string {
		if by = by.Round(time.Second); by < time.Minute {
			return by.String()
		}
		return strings.TrimSuffix(by.Round(time.Minute).String(), "0s")
	}
	switch at := ended; {
	case ended.IsZero() && now.After(x.FinishP90):
		return "late by " + late(now.Sub(x.FinishP90)) + " so far"
	case ended.IsZero():
		return ""
	case at.Before(x.FinishP50):
		return "it ended " + late(x.FinishP50.Sub(at)) + " before its P50"
	case at.Sub(x.FinishP90).Abs() < time.Second:
		return "it ended at its P90"
	case at.After(x.FinishP90):
		return "it ended " + late(at.Sub(x.FinishP90)) + " after its P90"
	}
	return "it ended between both"
}

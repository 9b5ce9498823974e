package api

import (
	"time"

	"github.com/turnus/turnus/core"
)

// Names of the documents on the board by which servers and workers speak. A worker posts
// Worker as JSON under WorkerDocument every WorkerEvery, kept for WorkerKeep; a server posts Order
// as JSON under OrderDocument, kept for OrderKeep, which the worker reads at the same pace. No
// order is the zero Order.
const (
	WorkerPrefix = "worker/"
	OrderPrefix  = "order/"
	// A worker without a scraped listener also posts its metrics.
	MetricsPrefix = "metrics/"

	WorkerEvery = 2 * time.Second
	WorkerKeep  = 10 * time.Second
	OrderKeep   = 400 * 24 * time.Hour

	// LeapDocument is Leap as JSON, posted by each worker that saw one, and kept for LeapKeep.
	LeapDocument = "clock-leap"
	LeapKeep     = 7 * 24 * time.Hour

	MetricsEvery = 10 * time.Second
	MetricsKeep  = 30 * time.Second
)

// WorkerDocument is the board's name of what a worker reports about itself.
func WorkerDocument(name string) string { return WorkerPrefix + name }

// OrderDocument is the board's name of the order for a worker.
func OrderDocument(name string) string { return OrderPrefix + name }

// MetricsDocument is the board's name of a worker's metrics.
func MetricsDocument(name string) string { return MetricsPrefix + name }

// Leap is the last leap of the queue's clock.
type Leap struct {
	By     time.Duration `json:"by_ns"` // negative: back
	Worker string        `json:"worker"`
	At     time.Time     `json:"at"` // by the clock of the worker that saw it
}

// Order is the wanted state of a worker, as people set it.
type Order struct {
	Cordoned bool      `json:"cordoned,omitempty" doc:"it leases no further jobs"`
	Draining bool      `json:"draining,omitempty" doc:"it suspends its jobs at their next step, and ends"`
	By       string    `json:"by,omitempty"`
	At       time.Time `json:"at,omitzero"`
	Reason   string    `json:"reason,omitempty"`
}

// The states of a Worker.
const (
	WorkerReady      = "ready"
	WorkerBusy       = "busy"
	WorkerOverloaded = "overloaded"
	WorkerCordoned   = "cordoned"
	WorkerDraining   = "draining"
	WorkerAway       = "away"
)

// Worker is a node that works on jobs.
type Worker struct {
	Name        string    `json:"name"`
	Version     string    `json:"version"`
	Pool        string    `json:"pool"`
	State       string    `json:"state" enum:"ready,busy,overloaded,cordoned,draining,away"`
	Concurrency int       `json:"concurrency"`
	Running     int       `json:"running"`
	Fixed       bool      `json:"fixed,omitempty" doc:"it is part of a server, and does not end when it is drained"`
	CPU         float64   `json:"cpu" doc:"share of the node's CPU, 0 to 1"`
	Memory      float64   `json:"memory"`
	Started     time.Time `json:"started"`
	Reported    time.Time `json:"reported"`
	DrainedBy   string    `json:"-"` // who ordered a drain that still holds; for the server itself
}

// Queue is the state of the whole queue.
type Queue struct {
	Backend  string       `json:"backend" enum:"memory,redis"`
	Away     string       `json:"away,omitempty" doc:"why it does not answer"`
	Runs     int          `json:"runs"`
	Tenants  int          `json:"tenants"`
	Ready    int          `json:"ready_runs"`
	InFlight int          `json:"in_flight"`
	Timed    int          `json:"timed"`
	Sessions int          `json:"sessions"`
	Oldest   core.Seconds `json:"oldest_overdue_seconds" doc:"how long the run that has waited longest could have continued"`
}

// Setting is one setting of a process, without secrets.
type Setting struct {
	Name     string `json:"name" doc:"of its flag and of its key in a file"`
	Value    string `json:"value" doc:"a secret in it is …"`
	Default  string `json:"default"`
	From     string `json:"from" enum:"default,flag,environment,file"`
	Where    string `json:"where,omitempty" doc:"variable, or file:line"`
	Variable string `json:"variable"`
}

// Health is how a server is.
type Health struct {
	Ready   bool   `json:"ready"`
	Ledger  string `json:"ledger" doc:"ok; away; or read_only: it answers, and takes no writes"`
	Queue   string `json:"queue" doc:"ok, or away: runs are accepted nevertheless"`
	Project string `json:"project" doc:"ok, or none: no run can be made"`
	Version string `json:"version"`
}

package api

import "time"

// Names of the documents on the queue's board by which servers and workers speak. A worker posts
// Worker as JSON under WorkerDocument every WorkerEvery, kept for WorkerKeep; a server posts Order as
// JSON under OrderDocument, kept for OrderKeep, which the worker reads at the same pace. No order is
// the zero Order.
const (
	WorkerPrefix = "worker/"
	OrderPrefix  = "order/"

	WorkerEvery = 2 * time.Second
	WorkerKeep  = 10 * time.Second
	OrderKeep   = 400 * 24 * time.Hour
)

// WorkerDocument is the board's name of what a worker says of itself.
func WorkerDocument(name string) string { return WorkerPrefix + name }

// OrderDocument is the board's name of what a worker is told.
func OrderDocument(name string) string { return OrderPrefix + name }

// Order is what people want of a worker.
type Order struct {
	Cordoned bool      `json:"cordoned,omitempty" doc:"it leases no further jobs"`
	Draining bool      `json:"draining,omitempty" doc:"it parks what it has at the next step, and ends"`
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

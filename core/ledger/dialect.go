package ledger

import (
	"context"
	"strings"
)

// dialect is all that differs between the two databases.
type dialect struct {
	name      string
	schema    *strings.Replacer // of the words in braces in migrations
	now       string            // the database's clock in microseconds
	clock     bool              // it has a clock of its own, which servers share
	forUpdate string            // locks the rows that were read until the transaction ends
	skip      string            // the same, passing over those that others hold
	anyOf     string            // "is one of the values of parameter N", as a list() made it
	anyIndex  string            // the same of numbers, which the list has as text
	list      func([]string) any
	each      string // the table u with a row, host, for each value of parameter N, as list() made it
	byOutcome string // names an index of jobs: SQLite would read the whole run instead
	byOpen    string // names an index of runs: SQLite would read all runs instead
	byEnded   string // the same
	byHad     string // begins the same for runs with an outcome, which follows
	had       string // the condition that a run has the outcome %s
	holds     string // the condition that bytes %s have bytes %s in them
	inOrder   bool   // it knows in which order the rows of a subquery come: SQLite would sort them again
	lock      string // first statement of a migration: one at a time
	prepare   bool   // statements are kept by us; PostgreSQL's driver keeps its own
	turns     bool   // one writes at a time

	// For copying all of a ledger, and filling an empty one.
	snapshot   string // begins a transaction that sees one moment
	columns    string // lists table, column, kind, place in the key or 0, and whether the database counts it; by table and place
	lastSerial func(context.Context, asker, *Table) (int64, error)
	setSerial  func(context.Context, *tx, Table) error
	unguard    func(context.Context, *tx) (guard func() error, _ error) // lifts triggers until guard is called
	load       func(context.Context, *Loader, Table, func() ([]any, error)) (int64, error)
}

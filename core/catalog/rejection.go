package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
)

const (
	kindKept       = "schedule.kept" // documents of the service
	nameRejected   = "rejected"      // rejectedDoc
	rejectedRenew  = time.Minute
	rejectedStale  = 3 * time.Minute // a server that has not renewed its record for so long is gone
	rejectedLength = 4096            // bytes of the error that are kept
)

// Rejection is a project version that a server does not use: a commit, a folder or an
// applied version. The last good version stays in use.
type Rejection struct {
	Revision string    `json:"revision,omitempty"`
	By       string    `json:"by,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Error    string    `json:"error"` // with file:line:col
}

// rejectedDoc is the record of a rejection in the ledger, for doctor. The server that
// rejects renews and removes it; other servers replace it when it is stale.
type rejectedDoc struct {
	Rejection
	Server string    `json:"server"`
	Seen   time.Time `json:"seen"`
}

// Rejection returns what this server rejects at the moment, or nil.
func (s *Status) Rejection() *Rejection {
	switch git := s.Git; {
	case s.rejectsCommit():
		return &Rejection{Revision: git.Tried.Commit, By: git.Tried.Author, Since: git.Since, Error: git.Error}
	case s.Rejected != nil:
		return &s.Rejected.Rejection
	case s.Folder != "":
		return &Rejection{Error: s.Folder}
	}
	return nil
}

// rejectsCommit reports whether the tip of the branch is what is rejected.
func (s *Status) rejectsCommit() bool {
	return s.Git != nil && (s.Git.State == definitions.BadCommit || s.Git.State == definitions.Refused)
}

// RejectedProject returns the rejection that is in l's record, or nil. It needs no server.
func RejectedProject(ctx context.Context, l *ledger.Ledger) (*Rejection, error) {
	doc, _, err := readKept[*rejectedDoc](ctx, l, nameRejected)
	if err != nil || doc == nil {
		return nil, err
	}
	return &doc.Rejection, nil
}

// keepRejection brings the ledger's record in line with what this server rejects.
func (c *Catalog) keepRejection(ctx context.Context, now time.Time) error {
	st := c.Status()
	mine := st.Rejection()
	was, version, err := readKept[*rejectedDoc](ctx, c.cfg.Ledger, nameRejected)
	if err != nil {
		return err
	}
	next := nextRejection(mine, was, c.id, now)
	if next == was {
		return nil
	}
	return ignoreConflict(c.writeKept(ctx, nameRejected, next, version))
}

// nextRejection decides what the record becomes; was itself when nothing changes.
func nextRejection(mine *Rejection, was *rejectedDoc, server string, now time.Time) *rejectedDoc {
	foreign := was != nil && was.Server != server && now.Sub(was.Seen) < rejectedStale
	switch {
	case foreign, mine == nil && was == nil:
		return was
	case mine == nil:
		return nil
	}
	next := &rejectedDoc{Rejection: *mine, Server: server, Seen: now}
	next.Error = next.Error[:min(len(next.Error), rejectedLength)]
	if next.Since.IsZero() { // a folder has no time of its own
		next.Since = now
		if was != nil && was.Error == next.Error {
			next.Since = was.Since
		}
	}
	if was != nil && was.Server == server && was.Rejection == next.Rejection && now.Sub(was.Seen) < rejectedRenew {
		return was
	}
	return next
}

// readKept reads a document of the service; the zero value and version 0 where there is none.
func readKept[T any](ctx context.Context, l *ledger.Ledger, name string) (value T, version int64, err error) {
	doc, err := l.Document(ctx, ledger.AllTenants(), kindKept, "", name)
	if errors.Is(err, core.ErrNotFound) {
		return value, 0, nil
	}
	if err == nil {
		if err = json.Unmarshal(doc.Data, &value); err != nil {
			err = fmt.Errorf("%s %s in the ledger: %w: %w", kindKept, name, core.ErrInvalid, err)
		}
	}
	return value, doc.Version, err
}

func (c *Catalog) writeKept(ctx context.Context, name string, value any, version int64) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = c.cfg.Ledger.PutDocument(ctx, ledger.AllTenants(), "", ledger.Document{Kind: kindKept, Name: name, Data: data}, version)
	return err
}

func ignoreConflict(err error) error {
	if errors.Is(err, core.ErrConflict) {
		return nil
	}
	return err
}

package catalog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
)

// RejectedChanges are the differences between the current version and one that is rejected.
type RejectedChanges struct {
	Rejection
	From         definitions.Revision // the current one
	Files        []definitions.FileChange
	FilesLeftOut int // further files
	// Changes are those of the files without mistakes. At is zero where the rest is not valid either.
	Changes definitions.Changes
	LeftOut int // further changes
}

// rejectedTime bounds reading and comparing a rejected version.
const rejectedTime = 20 * time.Second

// rejectedDiff keeps the last answer of RejectedChanges. The lock is held while one is made.
type rejectedDiff struct {
	sync.Mutex
	key string
	is  *RejectedChanges
}

// RejectedChanges compares what this server rejects with what it runs by. The error wraps
// core.ErrNotFound where it rejects nothing.
func (c *Catalog) RejectedChanges(ctx context.Context) (*RejectedChanges, error) {
	c.compared.Lock()
	defer c.compared.Unlock()
	ctx, cancel := context.WithTimeout(ctx, rejectedTime)
	defer cancel()
	st, now := c.Status(), c.Current()
	why := st.Rejection()
	if why == nil {
		return nil, fmt.Errorf("no version of the project is rejected: %w", core.ErrNotFound)
	}
	key := c.rejectedKey(&st, &now)
	if c.compared.is != nil && c.compared.key == key {
		return c.compared.is, nil
	}
	files, err := c.rejectedFiles(ctx, &st, now.own)
	if err != nil {
		return nil, fmt.Errorf("read the rejected version of the project: %w", err)
	}
	out := &RejectedChanges{Rejection: *why}
	var before []definitions.Document
	if now.own != nil {
		out.From, before = now.own.Revision, now.own.Documents()
	}
	out.Files, out.FilesLeftOut = definitions.DiffFiles(before, files)
	sources := c.knows()
	if !st.rejectsCommit() && st.Rejected != nil { // another server accepted it, with sources of its own
		sources = append(sources, definitions.KnownSource{})
	}
	if set, err := files.Mended(ctx, now.own, definitions.Options{Playbooks: c.cfg.Playbooks, Sources: sources}); err == nil {
		out.Changes = definitions.DiffGiven(now.own, set, c.approvals().words(), time.Now())
		kept := min(len(out.Changes.Changes), maxKept)
		out.LeftOut = len(out.Changes.Changes) - kept
		out.Changes.Changes = out.Changes.Changes[:kept:kept]
	} else if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c.compared.key, c.compared.is = key, out
	return out, nil
}

// rejectedKey identifies what is compared. A folder may change while its mistake stays.
func (c *Catalog) rejectedKey(st *Status, now *Current) string {
	rejected := st.Rejection()
	key := fmt.Sprintln(now.Version, now.given, rejected.Revision, rejected.Since, rejected.Error)
	if st.Folder != "" {
		key += stampOf(c.cfg.Folder)
	}
	return key
}

// rejectedFiles reads what Rejection is about.
func (c *Catalog) rejectedFiles(ctx context.Context, st *Status, known *definitions.Set) (definitions.Files, error) {
	switch {
	case st.rejectsCommit():
		return c.follower.Files(ctx, st.Git.Tried.Commit, known)
	case st.Rejected == nil:
		return definitions.FolderFiles(ctx, c.cfg.Folder, known)
	}
	doc, err := c.cfg.Ledger.Document(ctx, ledger.AllTenants(), kindDefinitions, "", nameCurrent)
	if err != nil {
		return definitions.Files{}, err
	}
	_, docs, _, err := decode(doc)
	return definitions.Files{Documents: docs}, err
}

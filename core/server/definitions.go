package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
)

const (
	applyBody = 32 << 20 // more than definitions.MaxSize in base64, so that a larger project gets the error that names it
	applyTime = time.Minute
)

// definitions registers what the service runs by, as a whole. It is the provider's.
func (s *Server) definitions() {
	handle(s, route{id: "get-definitions", method: http.MethodGet, path: "/v1/definitions", summary: "Show the project in use", role: Viewer, everyone: true}, s.getDefinitions)
	handle(s, route{
		id: "get-documents", method: http.MethodGet, path: "/v1/definitions/documents", summary: "Read the files of the project", role: Admin, everyone: true,
		detail: "All of them, in the form in which apply takes them.",
	}, s.getDocuments)
	handle(s, route{
		id: "list-definition-changes", method: http.MethodGet, path: "/v1/definitions/changes", summary: "Show what the present project changed", role: Viewer, everyone: true,
		detail: "When they took the place of others, with the approvals of windows that the edit voided.",
	}, s.getDefinitionChanges)
	handle(s, route{
		id: "get-rejected-definitions", method: http.MethodGet, path: "/v1/definitions/rejected", summary: "Show a revision that was rejected, and what it changes", role: Viewer, everyone: true,
		detail: "The text of files other than playbooks needs the role admin, as reading them does.",
	}, s.getRejectedDefinitions)
	handle(s, route{
		id: "apply-definitions", method: http.MethodPut, path: "/v1/definitions", summary: "Replace the project in use", role: Admin, everyone: true,
		detail: "All or nothing; every mistake is reported with its place. Replacing needs If-Match. Where a branch is followed they hold until it moves.", maxBody: applyBody, bodyTime: applyTime,
	}, s.applyDefinitions)
	handle(s, route{
		id: "diff-definitions", method: http.MethodPost, path: "/v1/definitions/diff", summary: "Check a project, and show what it would change", role: Operator, everyone: true, status: http.StatusOK,
		maxBody: applyBody, bodyTime: applyTime,
	}, s.diffDefinitions)
}

func (s *Server) getDefinitions(context.Context, caller, *struct{}) (*versioned[api.Definitions], error) {
	now := s.cfg.Catalog.Current()
	return &versioned[api.Definitions]{now.ETag(), s.definitionsOf(now)}, nil
}

func (s *Server) getDocuments(context.Context, caller, *struct{}) (*list[api.Document], error) {
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	docs := set.Documents()
	items := make([]api.Document, len(docs))
	for i, d := range docs {
		items[i] = api.Document(d)
	}
	return listOf(items, ""), nil
}

func (s *Server) applyDefinitions(ctx context.Context, by caller, in *struct {
	IfMatch
	Body api.Apply
},
) (*versioned[api.Definitions], error) {
	version := int64(catalog.AnyVersion)
	if now := s.cfg.Catalog.Current(); in.Match == "" && now.Version > 0 {
		return nil, huma.NewError(http.StatusPreconditionRequired, "there is a project: to replace it, send its ETag as If-Match, or * for any")
	}
	switch {
	case in.Match == "":
		version = 0
	case in.Match != "*":
		var err error
		if version, err = catalog.VersionOf(in.Match); err != nil {
			return nil, huma.Error412PreconditionFailed(err.Error())
		}
	}
	done, err := s.cfg.Catalog.Apply(ctx, by.name, documentsOf(in.Body), revisionOf(in.Body), version)
	if errors.Is(err, core.ErrConflict) {
		return nil, huma.Error412PreconditionFailed(err.Error())
	}
	if err != nil {
		return nil, err
	}
	return &versioned[api.Definitions]{done.ETag(), s.definitionsOf(done.Current)}, nil
}

func (s *Server) diffDefinitions(ctx context.Context, _ caller, in *struct{ Body api.Apply }) (*list[api.Change], error) {
	changes, err := s.cfg.Catalog.Check(ctx, documentsOf(in.Body), revisionOf(in.Body))
	if err != nil {
		return nil, err
	}
	return listOf(changesOf(changes), ""), nil
}

func (s *Server) getDefinitionChanges(context.Context, caller, *struct{}) (*body[api.DefinitionChanges], error) {
	now := s.cfg.Catalog.Current()
	c := now.Changes
	return &body[api.DefinitionChanges]{api.DefinitionChanges{From: c.Old.Commit, To: c.New.Commit, At: c.At, Changes: changesOf(c), LeftOut: now.LeftOut}}, nil
}

func (s *Server) getRejectedDefinitions(ctx context.Context, by caller, _ *struct{}) (*body[api.RejectedChanges], error) {
	c, err := s.cfg.Catalog.RejectedChanges(ctx)
	if errors.Is(err, core.ErrNotFound) {
		return &body[api.RejectedChanges]{api.RejectedChanges{Files: []api.FileChange{}, Changes: []api.Change{}}}, nil
	}
	if err != nil {
		return nil, err
	}
	out := api.RejectedChanges{
		Rejected: &api.Rejected{Revision: c.Revision, Author: c.By, Since: c.Since, Error: c.Error},
		From:     c.From.Commit, Files: make([]api.FileChange, len(c.Files)), FilesLeftOut: c.FilesLeftOut, At: c.Changes.At, Changes: changesOf(c.Changes), LeftOut: c.LeftOut,
	}
	shown := s.sourcesSeen(by)
	for i, f := range c.Files {
		out.Files[i] = api.FileChange{Path: f.Path, Action: string(f.Action), Added: f.Added, Removed: f.Removed, Text: f.Text, Note: f.Note}
		if !shown(f.Path) && f.Text != "" {
			out.Files[i].Text, out.Files[i].Note = "", "an admin of all tenants sees the text"
		}
	}
	return &body[api.RejectedChanges]{out}, nil
}

// sourcesSeen reports of which files of the definitions a caller may read the text: admins read
// all of them, and everybody else the playbooks.
func (s *Server) sourcesSeen(by caller) func(path string) bool {
	playbooks := map[string]bool{}
	if set := s.cfg.Catalog.Set(); set != nil {
		for _, p := range set.Playbooks {
			playbooks[p.File] = true
		}
	}
	admin := may(by.token, Admin)
	return func(path string) bool { return admin || playbooks[path] }
}

func changesOf(changes definitions.Changes) []api.Change {
	items := make([]api.Change, len(changes.Changes))
	for i, c := range changes.Changes {
		items[i] = api.Change{
			Kind: string(c.Kind), Name: c.Name, Action: string(c.Action), Details: c.Details, HostsCome: c.HostsCome, HostsGo: c.HostsGo,
			WindowsCome: c.WindowsCome, WindowsGo: c.WindowsGo, Voids: c.Voids, OldNext: c.OldNext, NewNext: c.NewNext,
		}
		if c.Details == nil {
			items[i].Details = []string{}
		}
	}
	return items
}

func documentsOf(a api.Apply) []definitions.Document {
	docs := make([]definitions.Document, len(a.Documents))
	for i, d := range a.Documents {
		docs[i] = definitions.Document(d)
	}
	return docs
}

func revisionOf(a api.Apply) definitions.Revision {
	return definitions.Revision{Commit: a.Revision, Author: a.Author, Subject: a.Subject}
}

func (s *Server) definitionsOf(now catalog.Current) api.Definitions {
	d := api.Definitions{ETag: now.ETag(), Source: string(now.Source), Applied: now.Applied}
	if now.Set != nil {
		rev := now.Set.Revision
		d.Revision, d.Author, d.Subject = rev.Commit, rev.Author, rev.Subject
		d.Playbooks, d.Hosts, d.Windows, d.Schedules = len(now.Set.Playbooks), len(now.Set.Inventory.Hosts), len(now.Set.Windows.Sets), len(now.Set.Schedules)
	}
	st := s.cfg.Catalog.Status()
	if r := st.Rejection(); r != nil {
		d.Rejected = &api.Rejected{Revision: r.Revision, Author: r.By, Since: r.Since, Error: r.Error}
	}
	return d
}

package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// exportHelp is of all three.
const exportHelp = "Newest first, as NDJSON (an object a line) or CSV (RFC 4180, with a header). Each row has every column. Text in CSV that a spreadsheet would take for a formula begins with '. " +
	"An export that breaks off ends without the last chunk of its body: what was read is not all. A tenant's token exports what it can see."

func (s *Server) exports() {
	one := func(what, summary string, open func(ctx context.Context, by caller, in *exportQuery) exported) {
		r := route{id: "export-" + what, method: http.MethodGet, path: "/v1/export/" + what, summary: summary, detail: exportHelp, role: Viewer, stream: true, content: "application/x-ndjson"}
		handle(s, r, func(ctx context.Context, by caller, in *exportQuery) (*huma.StreamResponse, error) {
			if in.Tenant != "" {
				if !by.scope.Allows(in.Tenant) {
					return nil, fmt.Errorf("there is no tenant %q: %w", in.Tenant, core.ErrNotFound)
				}
				by.scope = ledger.Tenants(in.Tenant)
			}
			return s.export(r, by, in.Format, func(ctx context.Context) exported { return open(ctx, by, in) })
		})
	}
	one("runs", "Export runs", s.exportRuns)
	one("jobs", "Export the jobs of runs", s.exportJobs)
	one("audit", "Export who did what", s.exportAudit)
}

// exportQuery selects what is exported.
type exportQuery struct {
	Since  time.Time `query:"since" doc:"created, or done, then or later; jobs go by their run"`
	Until  time.Time `query:"until" doc:"before"`
	Tenant string    `query:"tenant" maxLength:"128" doc:"only this tenant's"`
	Format string    `query:"format" enum:"ndjson,csv" default:"ndjson"`
}

// exported is rows that are read piece by piece: next gives some, none at the end.
type exported struct {
	columns []string
	next    func() ([][]any, error)
}

// export streams rows, in memory that does not grow with them.
func (s *Server) export(r route, by caller, format string, open func(context.Context) exported) (*huma.StreamResponse, error) {
	release, err := s.streams.take(by)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer release()
		req, w := humago.Unwrap(hc)
		out := &eventStream{s: s, by: by, r: r, w: w, ctl: http.NewResponseController(w)}
		if err := out.rows(req.Context(), format, open(req.Context())); err != nil {
			if req.Context().Err() == nil {
				s.cfg.Log.Warn("an export broke off", "operation", r.id, "error", err)
			}
			panic(http.ErrAbortHandler) // the one way to show in HTTP that the body is not whole
		}
		_ = out.ctl.SetWriteDeadline(time.Time{})
	}}, nil
}

// rows writes all rows.
func (e *eventStream) rows(ctx context.Context, format string, x exported) error {
	kind := "application/x-ndjson"
	if format == "csv" {
		kind = "text/csv; charset=utf-8; header=present"
	}
	e.w.Header().Set("Content-Type", kind)
	b := bufio.NewWriterSize(e.w, 64<<10)
	var line []byte
	if format == "csv" {
		line = api.AppendHeader(nil, x.columns)
	}
	asked := time.Now()
	for {
		_ = e.ctl.SetWriteDeadline(time.Now().Add(streamWrite))
		if _, err := b.Write(line); err != nil {
			return err
		}
		rows, err := x.next()
		if err != nil || len(rows) == 0 {
			if err == nil {
				err = b.Flush()
			}
			return err
		}
		line = line[:0]
		for _, row := range rows {
			if format == "csv" {
				line = api.AppendCSV(line, row)
			} else if line, err = api.AppendNDJSON(line, x.columns, row); err != nil {
				return err
			}
		}
		if time.Since(asked) > streamRights {
			if err := e.allowed(ctx); err != nil {
				return err
			}
			asked = time.Now()
		}
	}
}

// paged reads a list of the ledger page by page.
func paged[T any](read func(ledger.Page) ([]T, string, error), row func(*T) []any) func() ([][]any, error) {
	page, over := ledger.Page{Limit: ledger.MaxPage}, false
	return func() (rows [][]any, _ error) {
		for len(rows) == 0 && !over {
			items, next, err := read(page)
			if err != nil {
				return nil, err
			}
			for i := range items {
				rows = append(rows, row(&items[i]))
			}
			page.Cursor, over = next, next == ""
		}
		return rows, nil
	}
}

func (s *Server) exportRuns(ctx context.Context, by caller, in *exportQuery) exported {
	f := ledger.RunFilter{Since: in.Since, Until: in.Until}
	columns := []string{"id", "tenant", "playbook", "revision", "launched_by", "created", "ended", "phase", "reason", "criticality", "total"}
	for _, o := range core.Outcomes() {
		columns = append(columns, string(o))
	}
	return exported{columns, paged(func(p ledger.Page) ([]ledger.Run, string, error) { return s.cfg.Ledger.Runs(ctx, by.scope, f, p) }, func(r *ledger.Run) []any {
		shown := runOf(*r)
		row := []any{r.ID, r.Tenant, r.Playbook, r.Revision, r.LaunchedBy, r.Created, r.Ended, string(shown.Phase), r.Reason, int64(r.Criticality), int64(r.Total)}
		for _, o := range core.Outcomes() {
			row = append(row, int64(r.Outcomes[o]))
		}
		return row
	})}
}

// exportJobs goes through the runs, and through the jobs of each.
func (s *Server) exportJobs(ctx context.Context, by caller, in *exportQuery) exported {
	f := ledger.RunFilter{Since: in.Since, Until: in.Until, Touched: true}
	var runs []ledger.Run
	page, over := ledger.Page{}, false
	var jobs func() ([][]any, error)
	next := func() (rows [][]any, err error) {
		for {
			if jobs != nil {
				if rows, err = jobs(); err != nil || len(rows) > 0 {
					return rows, err
				}
				jobs = nil
			}
			if len(runs) == 0 {
				if over {
					return nil, nil
				}
				if runs, page.Cursor, err = s.cfg.Ledger.Runs(ctx, by.scope, f, page); err != nil {
					return nil, err
				}
				over = page.Cursor == ""
				continue
			}
			run := runs[0]
			runs = runs[1:]
			jobs = paged(func(p ledger.Page) ([]ledger.Job, string, error) { return s.jobsOf(ctx, by, run.ID, p) }, jobRow)
		}
	}
	return exported{[]string{"run", "index", "host", "tenant", "playbook", "life", "outcome", "reason", "step", "attempt", "worker", "started", "took_seconds", "recorded", "reason_code"}, next}
}

// jobsOf is none for a run that was removed meanwhile.
func (s *Server) jobsOf(ctx context.Context, by caller, run string, p ledger.Page) ([]ledger.Job, string, error) {
	jobs, next, err := s.cfg.Ledger.AllJobs(ctx, by.scope, run, "", false, p)
	if errors.Is(err, core.ErrNotFound) {
		return nil, "", nil
	}
	return jobs, next, err
}

func jobRow(j *ledger.Job) []any {
	return []any{
		j.Run, int64(j.Index), j.Host, j.Tenant, j.Playbook, int64(0) /* life */, string(j.Outcome), j.Reason, j.Step, int64(j.Attempt), j.Worker, j.Started,
		core.InSeconds(j.Took), j.Recorded, string(j.ReasonCode),
	}
}

func (s *Server) exportAudit(ctx context.Context, by caller, in *exportQuery) exported {
	f := ledger.AuditFilter{Since: in.Since, Until: in.Until}
	columns := []string{"seq", "time", "who", "tenant", "what", "kind", "object", "before", "after", "hash"}
	return exported{columns, paged(func(p ledger.Page) ([]ledger.Entry, string, error) { return s.cfg.Ledger.AuditLog(ctx, by.scope, f, p) }, func(e *ledger.Entry) []any {
		redactEntry(by, e)
		return []any{e.Seq, e.At, e.Who, e.Tenant, e.Action, e.Kind, e.Subject, e.Before, e.After, fmt.Sprintf("%x", e.Hash)}
	})}
}

package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

// DoctorFlags define what is checked.
type DoctorFlags struct {
	Ledger  string
	Queue   QueueFlags
	Secrets node.SecretFlags
	Fix     bool
	Verbose bool
}

// credentialFindings names credentials of a node's own file that cannot be read. It is empty if
// there is no file.
func credentialFindings(ctx context.Context, con *console.Console, f *node.SecretFlags) ([]controller.Finding, error) {
	store, err := f.Open(con.Logger(false))
	if err != nil {
		return nil, err
	}
	defer store.Close()
	var found []controller.Finding
	known := node.NewCredentials(store)
	for _, c := range store.Credentials() {
		if err := known.CheckOne(ctx, c); err != nil {
			found = append(found, controller.Finding{Part: "credentials", What: err.Error()})
		}
	}
	return found, nil
}

// Diagnosis is the -o json document.
type Diagnosis struct {
	Sound    bool                 `json:"sound"` // no fault is left
	Queue    bool                 `json:"queue"` // it was checked
	Findings []controller.Finding `json:"findings"`
}

// Check checks ledger, queue, project, sources and credentials.
func (f *DoctorFlags) Check(ctx context.Context, con *console.Console) (d Diagnosis, err error) {
	ring, err := f.Queue.Keyring.Open(con)
	if err != nil {
		return d, err
	}
	l, err := ledger.Open(ctx, f.Ledger, ledger.Options{Keyring: ring})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	d = Diagnosis{Sound: true, Queue: f.Queue.URL != "", Findings: []controller.Finding{}}
	if err := l.Writable(ctx); err != nil {
		if _, refused := errors.AsType[*ledger.RefusedError](err); !refused {
			return d, err
		}
		d.Sound, d.Findings = false, append(d.Findings, controller.Finding{Part: controller.InLedger, What: core.ErrorText(err)})
	}
	var found []controller.Finding
	if d.Queue {
		q, closeQueue, err := f.Queue.Open(ctx, con)
		if err != nil {
			return d, err
		}
		defer func() { _ = closeQueue() }()
		// No job types: runs are read back as they were accepted, whatever this program knows.
		c, err := controller.New(controller.Config{Name: "doctor", Ledger: l, Queue: q, Board: q, Log: con.Logger(f.Verbose)})
		if err != nil {
			return d, err
		}
		found, err = c.Check(ctx, f.Fix)
		if err != nil {
			return d, err
		}
		leaps, err := leapsOf(ctx, q)
		if err != nil {
			return d, err
		}
		found = append(found, leaps...)
	} else {
		list, err := l.Check(ctx, f.Fix)
		if err != nil {
			return d, err
		}
		for _, one := range list {
			found = append(found, controller.Finding{Part: controller.InLedger, Run: one.Run, What: one.What, Repaired: one.Repaired})
		}
	}
	overdue, err := schedule.NewControl(l).Check(ctx, f.Fix)
	if err != nil {
		return d, err
	}
	for _, one := range overdue {
		found = append(found, controller.Finding{Part: controller.InLedger, What: one.What, Repaired: one.Repaired})
	}
	rejected, err := catalog.RejectedProject(ctx, l)
	if err != nil {
		return d, err
	}
	if rejected != nil {
		found = append(found, controller.Finding{Part: controller.InProject, What: RejectionText(rejected.Revision, rejected.By, rejected.Since, rejected.Error)})
	}
	troubled, err := sourceFindings(ctx, l)
	if err != nil {
		return d, err
	}
	found = append(found, troubled...)
	unread, err := credentialFindings(ctx, con, &f.Secrets)
	if err != nil {
		return d, err
	}
	for _, one := range append(found, unread...) {
		d.Findings = append(d.Findings, one)
		d.Sound = d.Sound && (one.Repaired || one.Note)
	}
	return d, nil
}

// sourceFindings names sources of hosts that failed at the last fetch, and those that wait for an
// approval.
func sourceFindings(ctx context.Context, l *ledger.Ledger) ([]controller.Finding, error) {
	troubled, err := (&sources.Keeper{Ledger: l, Shared: true}).Troubled(ctx)
	if err != nil {
		return nil, err
	}
	var found []controller.Finding
	for _, st := range troubled {
		st.Total = 0 // records that are left out are no trouble of the service
		for _, text := range st.Warnings(sources.Source{Name: st.Source}) {
			found = append(found, controller.Finding{Part: controller.InSources, Note: st.Failed == "", What: text})
		}
	}
	return found, nil
}

// leapsOf is a note of the last leap of the queue's clock, if workers saw one lately.
func leapsOf(ctx context.Context, b board.Board) ([]controller.Finding, error) {
	text, _, err := b.Posted(ctx, api.LeapDocument, 0)
	if errors.Is(err, core.ErrNotFound) {
		return nil, nil
	}
	var leap api.Leap
	if err == nil {
		err = json.Unmarshal(text, &leap)
	}
	if err != nil {
		return nil, fmt.Errorf("read the last leap of the queue's clock: %w", err)
	}
	return []controller.Finding{{Part: controller.InQueue, Note: true, What: fmt.Sprintf(
		"the clock of Redis leaped by %v at %s, as worker %s saw it; check the clocks of its servers (chronyc tracking)",
		leap.By.Round(time.Second/10), leap.At.UTC().Format(time.RFC3339), leap.Worker)}}, nil
}

// RejectionText describes the version of the project that servers do not use, and why.
func RejectionText(revision, by string, since time.Time, why string) string {
	what := "the project's newest version"
	if revision != "" {
		what = "commit " + revision[:min(len(revision), 12)]
	}
	if by != "" {
		what += " by " + by
	}
	if !since.IsZero() {
		what += ", since " + since.UTC().Format(time.RFC3339)
	}
	return what + ", is rejected; the last good version stays in use: " + why + "\nhint: turnus validate PATH shows the same in a checkout; commit a correction"
}

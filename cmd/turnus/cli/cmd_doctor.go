package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// doctorFlags say what is checked.
type doctorFlags struct {
	ledger  string
	queue   service.QueueFlags
	secrets node.SecretFlags
	fix     bool
	verbose bool
}

func (a *app) doctorCmd() *cobra.Command {
	var f doctorFlags
	c := &cobra.Command{
		Use:   "doctor --ledger URL",
		Short: "Check the record and the queue, and repair them",
		Long: `Check the ledger, the audit log and the queue. The ledger's counts must match its
outcomes, and the audit log must be unchanged. The queue's invariants must hold. Ledger and
queue must agree on every unfinished run, also on one that only the queue has. Servers and
workers can run meanwhile. Without --redis doctor checks the ledger only: the queue of turnus up
is in its process, and is rebuilt at each start. With --secrets it also reads the
credentials of a node's own file.`,
		Example: `  turnus admin doctor --ledger sqlite:turnus-data/ledger.db
  turnus admin doctor --ledger postgres://turnus@db/turnus --redis rediss://queue:6379/0 --fix`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.ledger == "" {
				return console.Invalid("doctor needs a ledger\nhint: --ledger sqlite:turnus-data/ledger.db, or TURNUS_LEDGER")
			}
			if err := service.LedgerThere(f.ledger); err != nil {
				return err
			}
			return a.doctor(cmd.Context(), &f)
		},
	}
	c.Flags().StringVar(&f.ledger, "ledger", os.Getenv("TURNUS_LEDGER"), "the record: sqlite:PATH or postgres://… (TURNUS_LEDGER)")
	c.Flags().Lookup("ledger").DefValue = "" // --help would print the password
	c.Flags().BoolVar(&f.fix, "fix", false, "repair what can be repaired without losing anything")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "log what is done")
	f.queue.Add(c)
	f.secrets.Add(c)
	return c
}

// credentialFindings names credentials of a node's own file that cannot be read. It is empty if
// there is no file.
func (a *app) credentialFindings(ctx context.Context, f *node.SecretFlags) ([]controller.Finding, error) {
	store, err := f.Open(a.Logger(false))
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

// diagnosis is the -o json document.
type diagnosis struct {
	Sound    bool                 `json:"sound"` // no fault is left
	Queue    bool                 `json:"queue"` // it was checked
	Findings []controller.Finding `json:"findings"`
}

func (a *app) doctor(ctx context.Context, f *doctorFlags) (err error) {
	ring, err := f.queue.Keyring.Open(a.Console)
	if err != nil {
		return err
	}
	l, err := ledger.Open(ctx, f.ledger, ledger.Options{Keyring: ring})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	d := diagnosis{Sound: true, Queue: f.queue.URL != "", Findings: []controller.Finding{}}
	var found []controller.Finding
	if d.Queue {
		q, closeQueue, err := f.queue.Open(ctx, a.Console)
		if err != nil {
			return err
		}
		defer func() { _ = closeQueue() }()
		// No job types: runs are read back as they were accepted, whatever this program knows.
		c, err := controller.New(controller.Config{Name: "doctor", Ledger: l, Queue: q, Board: q, Log: a.Logger(f.verbose)})
		if err != nil {
			return err
		}
		found, err = c.Check(ctx, f.fix)
		if err != nil {
			return err
		}
		leaps, err := leapsOf(ctx, q)
		if err != nil {
			return err
		}
		found = append(found, leaps...)
	} else {
		list, err := l.Check(ctx, f.fix)
		if err != nil {
			return err
		}
		for _, one := range list {
			found = append(found, controller.Finding{Part: controller.InLedger, Run: one.Run, What: one.What, Repaired: one.Repaired})
		}
	}
	rejected, err := catalog.RejectedProject(ctx, l)
	if err != nil {
		return err
	}
	if rejected != nil {
		found = append(found, controller.Finding{Part: controller.InProject, What: rejectionText(rejected.Revision, rejected.By, rejected.Since, rejected.Error)})
	}
	troubled, err := sourceFindings(ctx, l)
	if err != nil {
		return err
	}
	found = append(found, troubled...)
	unread, err := a.credentialFindings(ctx, &f.secrets)
	if err != nil {
		return err
	}
	for _, one := range append(found, unread...) {
		d.Findings = append(d.Findings, one)
		d.Sound = d.Sound && (one.Repaired || one.Note)
	}
	if err := a.diagnosis(f, d); err != nil {
		return err
	}
	if !d.Sound {
		return &console.Exit{Code: console.ExitFailed}
	}
	return nil
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
		for _, text := range st.Warnings() {
			found = append(found, controller.Finding{Part: controller.InSources, Note: st.Failed == "", What: text})
		}
	}
	return found, nil
}

// leapsOf is a note of the last leap of the queue's clock, if workers saw one lately.
func leapsOf(ctx context.Context, board queue.Board) ([]controller.Finding, error) {
	text, _, err := board.Posted(ctx, api.LeapDocument, 0)
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

func (a *app) diagnosis(f *doctorFlags, d diagnosis) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, d)
	}
	faults := 0
	for _, one := range d.Findings {
		state := "FAULT   "
		switch {
		case one.Note:
			state = "note    "
		case one.Repaired:
			state = "repaired"
		default:
			faults++
		}
		where := string(one.Part)
		if one.Run != "" {
			where += ", run " + one.Run
		}
		_, _ = fmt.Fprintf(a.Out, "%s  %s: %s\n", state, console.Printable(where), console.Printable(one.What))
	}
	looked := "ledger and queue"
	if !d.Queue {
		looked = "the ledger; without --redis the queue was not checked"
	}
	switch {
	case faults > 0 && !f.fix:
		_, _ = fmt.Fprintf(a.Out, "%s: turnus admin doctor --fix repairs what can be repaired\n", console.Plural(faults, "fault"))
	case faults > 0:
		_, _ = fmt.Fprintf(a.Out, "not repaired: %s\n", console.Plural(faults, "fault"))
	default:
		_, _ = fmt.Fprintf(a.Out, "sound: %s\n", looked)
	}
	return nil
}

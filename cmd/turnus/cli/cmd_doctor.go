package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/core"
)

func (a *app) doctorCmd() *cobra.Command {
	var f service.DoctorFlags
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
			if f.Ledger == "" {
				return console.Invalid("doctor needs a ledger\nhint: --ledger sqlite:turnus-data/ledger.db, or TURNUS_LEDGER")
			}
			if err := service.LedgerThere(f.Ledger); err != nil {
				return err
			}
			return a.doctor(cmd.Context(), &f)
		},
	}
	c.Flags().StringVar(&f.Ledger, "ledger", os.Getenv("TURNUS_LEDGER"), "the record: sqlite:PATH or postgres://… (TURNUS_LEDGER)")
	c.Flags().Lookup("ledger").DefValue = "" // --help would print the password
	c.Flags().BoolVar(&f.Fix, "fix", false, "repair what can be repaired without losing anything")
	c.Flags().BoolVarP(&f.Verbose, "verbose", "v", false, "log what is done")
	f.Queue.Add(c)
	f.Secrets.Add(c)
	return c
}

func (a *app) doctor(ctx context.Context, f *service.DoctorFlags) error {
	d, err := f.Check(ctx, a.Console)
	if err != nil {
		return err
	}
	if err := a.diagnosis(f, d); err != nil {
		return err
	}
	if !d.Sound {
		return &console.Exit{Code: console.ExitFailed}
	}
	return nil
}

func (a *app) diagnosis(f *service.DoctorFlags, d service.Diagnosis) error {
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
		text := strings.ReplaceAll(console.PrintableLines(where+": "+strings.TrimSpace(one.What)), "\n", "\n          ")
		_, _ = fmt.Fprintf(a.Out, "%s  %s\n", state, text)
	}
	looked := "ledger and queue"
	if !d.Queue {
		looked = "the ledger; without --redis the queue was not checked"
	}
	switch {
	case faults > 0 && !f.Fix:
		_, _ = fmt.Fprintf(a.Out, "%s: turnus admin doctor --fix repairs what can be repaired\n", core.Plural(faults, "fault"))
	case faults > 0:
		_, _ = fmt.Fprintf(a.Out, "not repaired: %s\n", core.Plural(faults, "fault"))
	default:
		_, _ = fmt.Fprintf(a.Out, "sound: %s\n", looked)
	}
	return nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func (a *app) pruneCmd() *cobra.Command {
	var f service.StoreFlags
	var r service.RetentionFlags
	var remove bool
	c := &cobra.Command{
		Use:   "prune",
		Short: "Show which runs and outputs a service would forget, and objects that nothing names",
		Long: `Show which runs and large outputs are kept no longer by the given rules, in the order in
which they would go, and large outputs that no run names. Nothing is removed unless --remove
is given. A service with the same rules removes them. Use prune to preview the rules before you
give them to a service, or to make room immediately. Unfinished runs and the audit log always stay.`,
		Example: `  turnus admin prune --keep-runs 1095d --keep-outputs 90d
  turnus admin prune --ledger postgres://turnus@db/turnus --outputs s3://turnus-outputs --retention retention.yaml --remove`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.Check(); err != nil {
				return err
			}
			ctx, stop := a.Interruptible(cmd.Context())
			defer stop()
			return a.prune(ctx, &f, &r, remove)
		},
	}
	f.Add(c)
	f.Keyring.AddFile(c)
	r.Add(c)
	c.Flags().BoolVar(&remove, "remove", false, "remove what is shown")
	return c
}

// pruneDoc is the -o json document.
type pruneDoc struct {
	Removed bool                 `json:"removed"`
	Items   []ledger.ExpiredItem `json:"items"`
	Runs    int                  `json:"runs"`
	Outputs int64                `json:"outputs"`
	Bytes   int64                `json:"bytes"`
	Orphans struct {
		Objects int   `json:"objects"`
		Bytes   int64 `json:"bytes"`
	} `json:"orphans"`
}

func (a *app) prune(ctx context.Context, f *service.StoreFlags, r *service.RetentionFlags, remove bool) (err error) {
	policy, err := r.Policy()
	if err != nil {
		return err
	}
	l, err := f.Open(ctx, a.Console)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	doc := pruneDoc{Removed: remove, Items: []ledger.ExpiredItem{}}
	note := func(i ledger.ExpiredItem) {
		doc.Outputs, doc.Bytes = doc.Outputs+i.Outputs, doc.Bytes+i.Bytes
		if i.Whole {
			doc.Runs++
		}
		if a.Output == "json" {
			doc.Items = append(doc.Items, i)
			return
		}
		what := "outputs"
		if i.Whole {
			what = "run"
		}
		_, _ = fmt.Fprintf(a.Out, "%-8s %s  %s  ended %s  %s in outputs  %s\n", what, console.Printable(i.Tenant), console.Printable(i.Run), console.LocalTime(i.Ended), console.BytesText(i.Bytes), i.Why)
	}
	k := &ledger.Keeper{Ledger: l, Policy: policy, Now: time.Now()}
	if remove {
		err = k.Remove(ctx, note)
	} else {
		err = k.Find(ctx, func(i ledger.ExpiredItem) error { note(i); return nil })
	}
	if err != nil {
		return err
	}
	swept, err := l.Sweep(ctx, time.Now().Add(-service.OrphanAge), remove, nil)
	if err != nil {
		return err
	}
	doc.Orphans.Objects, doc.Orphans.Bytes = swept.Orphans, swept.Bytes
	if a.Output == "json" {
		return console.PrintJSON(a.Out, doc)
	}
	verb := "would go; --remove removes them"
	if remove {
		verb = "are removed"
	}
	_, _ = fmt.Fprintf(a.Out, "%s, %s (%s), and %s (%s) %s\n", core.Plural(doc.Runs, "run"), core.Plural(int(doc.Outputs), "large output"), console.BytesText(doc.Bytes),
		core.Plural(swept.Orphans, "object")+" that no run names", console.BytesText(swept.Bytes), verb)
	return nil
}

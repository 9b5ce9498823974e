package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

func (a *app) explainCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "explain RUN HOST", Short: "Explain why a host of a run waits, and when it may start", Args: cobra.ExactArgs(2), ValidArgsFunction: remote.CompleteRunHost(&r),
		Long: `Show the state of a host of a run: all that keeps it from starting, its window set and
when that opens, how many hosts of the run come before it, and an estimate of its start.`,
		Example: "  turnus runs explain 20261120-021500-ab3cd5ef fw1",
	}
	ask := func(ctx context.Context, c *client.Client, args []string) (api.Explanation, error) {
		job, err := runview.HostJob(ctx, c, args[0], args[1])
		if err != nil {
			return api.Explanation{}, err
		}
		return c.Explain(ctx, core.JobID{Run: job.Run, Index: job.Index})
	}
	r.AddLocal(c, true)
	return remote.Shown(a.Console, c, &r, ask, a.writeExplanation)
}

func (a *app) writeExplanation(e api.Explanation) {
	line := fmt.Sprintf("%s is %s: %s", e.Host, e.State, e.Reason)
	opens := e.Window != nil && !e.Window.Opens.IsZero()       // until is when the windows are read again
	if !e.Until.IsZero() && e.State != core.Leased && !opens { // the end of a lease is no end of the job
		line += ", until " + console.LocalTime(e.Until)
	}
	fmt.Fprintln(a.Out, console.Printable(line))
	row := func(name, value string) { fmt.Fprintf(a.Out, "  %-9s %s\n", name, console.Printable(value)) }
	for _, b := range e.Blocks {
		row("waits", b.Text)
	}
	if w := e.Window; w != nil {
		text := w.Set + ": open"
		switch {
		case !w.Opens.IsZero():
			text = w.Set + ": opens " + w.OpensLocal
		case w.Reason != "":
			text = w.Set + ": " + w.Reason
		}
		row("window", text)
	}
	if e.Ahead != nil {
		row("position", core.Plural(*e.Ahead, "host")+" of the run before it")
	}
	if s := e.Starts; s != nil {
		starts := "starts " + console.LocalTime(s.P50) + ", "
		if e.State == core.Suspended && s.P50.Before(time.Now()) { // its first step has begun
			starts = ""
		}
		row("estimate", starts+"done "+console.LocalTime(s.FinishP50)+", with P90 "+console.LocalTime(s.FinishP90))
	}
}

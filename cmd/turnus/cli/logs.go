package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

func (a *app) logsCmd() *cobra.Command {
	var r remoteFlags
	var host string
	var follow bool
	c := &cobra.Command{
		Use: "logs RUN", Short: "Show the outputs of a run's hosts", Args: cobra.ExactArgs(1), ValidArgsFunction: completion(&r, runIDs),
		Long: `Show the outputs of a run's hosts, each line with its host and step. With --follow they
come as they are written, until the run is over; what is shown then may lack lines of a
flood, which is said, while logs without it shows all that was kept.`,
		Example: `  turnus logs 20261120-021500-ab12cd --follow
  turnus logs 20261120-021500-ab12cd --host fw-1.acme
  turnus logs 20261120-021500-ab12cd -o json | jq -r '.[].steps[]?.stdout'`,
		RunE: a.remote(&r, func(ctx context.Context, c *client.Client, args []string) error {
			if follow {
				return a.followLogs(ctx, c, args[0], host)
			}
			return a.logs(ctx, c, args[0], host)
		}),
	}
	r.add(c)
	c.Flags().StringVar(&host, "host", "", "only of this host")
	c.Flags().BoolVarP(&follow, "follow", "F", false, "show outputs as they are written, until the run is over; with -o json a line each event")
	return c
}

// logs shows what is recorded, a page of jobs at a time.
func (a *app) logs(ctx context.Context, c *client.Client, run, host string) error {
	all, found := []api.Job{}, false
	for p := (client.Page{Limit: 100}); ; {
		page, err := c.Jobs(ctx, run, client.JobFilter{Host: host}, p)
		if err != nil {
			return err
		}
		found = found || len(page.Items) > 0
		jobs, err := withSteps(ctx, c, page.Items)
		if err != nil {
			return err
		}
		if a.output == "json" {
			all = append(all, jobs...)
		} else {
			for _, j := range jobs {
				writeJobLogs(a.out, j)
			}
		}
		if page.Next == "" {
			break
		}
		p.Cursor = page.Next
	}
	if host != "" && !found {
		return &exit{exitInvalid, fmt.Errorf("run %s has no host %q\nhint: turnus runs show %s --jobs lists them", run, host, run)}
	}
	if a.output == "json" {
		return printJSON(a.out, all)
	}
	return nil
}

// writeJobLogs writes what the steps of a job showed, then how it ended.
func writeJobLogs(w io.Writer, j api.Job) {
	for _, s := range j.Steps {
		for line := range strings.Lines(stepText(s)) {
			fmt.Fprintf(w, "%s %s | %s\n", j.Host, s.Name, printable(strings.TrimRight(line, "\r\n")))
		}
		if s.Reason != "" && !s.Outcome.Good() {
			fmt.Fprintf(w, "%s %s | %s: %s\n", j.Host, s.Name, s.Outcome, printable(firstLine(s.Reason)))
		}
	}
	if len(j.Steps) == 0 && j.Outcome != "" && !j.Outcome.Good() {
		fmt.Fprintf(w, "%s | %s: %s\n", j.Host, j.Outcome, printable(firstLine(j.Reason)))
	}
}

// followLogs shows outputs as they come, until the run is over.
func (a *app) followLogs(ctx context.Context, c *client.Client, id, host string) error {
	run, err := c.Run(ctx, id)
	if err != nil {
		return err
	}
	p := &logPrinter{a: a, host: host, open: map[streamKey]string{}}
	if a.output == "json" {
		p.enc = json.NewEncoder(raw{a.out})
		p.enc.SetEscapeHTML(false)
	}
	events, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { // a server says when the stream ends; this is for one that cannot, for what fed it is gone
		defer stop()
		for !over(run) {
			if !sleep(events, lookEvery) {
				return
			}
			if next, err := c.Run(events, id); err == nil {
				run = next
			}
		}
		p.settle(events)
	})
	err = c.Events(id).Follow(events, p.event, func(err error) {
		if err != nil {
			a.message(a.paint(yellow, "waiting: ") + err.Error())
		} else {
			a.message("the server answers again")
		}
	})
	p.flushAll()
	switch {
	case ctx.Err() != nil:
		return &exit{code: exitCancelled}
	case events.Err() != nil:
		return nil
	}
	stop()
	return err
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// streamKey is one stream of one step on one host.
type streamKey struct {
	index int
	step  string
	errs  bool
}

// logPrinter writes events as lines. Safe for concurrent use.
type logPrinter struct {
	a    *app
	host string
	enc  *json.Encoder // nil: text

	mu   sync.Mutex
	last time.Time            // when an event came
	open map[streamKey]string // lines that have no end yet
}

// maxOpenLine is how much of a line without an end is held back.
const maxOpenLine = 64 << 10

func (p *logPrinter) event(e api.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	if p.host != "" && e.Host != p.host && e.Event != "dropped" {
		return
	}
	if p.enc != nil {
		_ = p.enc.Encode(e) // the screen remembers an error
		return
	}
	switch e.Event {
	case "output":
		p.text(e, e.Stdout, false)
		p.text(e, e.Stderr, true)
	case "diff", "message":
		for line := range strings.Lines(e.Text) {
			p.line(e.Host, e.Step, line)
		}
	case "step_retry":
		p.line(e.Host, e.Step, "again: "+e.Text)
	case "step_done":
		p.flush(streamKey{e.Index, e.Step, false}, e.Host)
		p.flush(streamKey{e.Index, e.Step, true}, e.Host)
		if !e.Outcome.Good() && e.Text != "" {
			p.line(e.Host, e.Step, string(e.Outcome)+": "+firstLine(e.Text))
		}
	case "job_done":
		if e.Outcome == core.Lost || e.Outcome == core.Cancelled {
			p.line(e.Host, e.Step, string(e.Outcome)+": "+firstLine(e.Text))
		}
	case "dropped":
		p.a.message(fmt.Sprintf("%s: %s more than is shown; turnus logs without --follow has what was kept", e.Worker, plural(e.Dropped, "event")))
	}
}

// text writes whole lines, and keeps the rest for what follows.
func (p *logPrinter) text(e api.Event, s string, errs bool) {
	if s == "" {
		return
	}
	key := streamKey{e.Index, e.Step, errs}
	s = p.open[key] + s
	for {
		line, rest, whole := strings.Cut(s, "\n")
		if !whole && len(line) < maxOpenLine {
			break
		}
		p.line(e.Host, e.Step, line)
		s = rest
	}
	if s == "" {
		delete(p.open, key)
	} else {
		p.open[key] = s
	}
}

func (p *logPrinter) flush(key streamKey, host string) {
	if rest := p.open[key]; rest != "" {
		p.line(host, key.step, rest)
	}
	delete(p.open, key)
}

func (p *logPrinter) flushAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.open {
		p.flush(key, p.host)
	}
}

func (p *logPrinter) line(host, step, line string) {
	fmt.Fprintf(p.a.out, "%s %s | %s\n", host, step, printable(strings.TrimRight(line, "\r\n")))
}

// settle waits until no more events come.
func (p *logPrinter) settle(ctx context.Context) {
	for sleep(ctx, settleFor) {
		p.mu.Lock()
		quiet := time.Since(p.last) >= settleFor
		p.mu.Unlock()
		if quiet {
			return
		}
	}
}

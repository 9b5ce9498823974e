package runview

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// Logs shows what is recorded, a page of jobs at a time.
func Logs(ctx context.Context, con *console.Console, c *client.Client, run, host string) error {
	all, found, shown := []api.Job{}, false, false
	for p := (client.Page{Limit: 100}); ; {
		page, err := c.Jobs(ctx, run, client.JobFilter{Host: host, State: "done"}, p)
		if err != nil {
			return err
		}
		found = found || len(page.Items) > 0
		jobs, err := withSteps(ctx, c, page.Items)
		if err != nil {
			return err
		}
		if con.Output == "json" {
			all = append(all, jobs...)
		} else {
			for _, j := range jobs {
				whole, err := wholeOutputs(ctx, c, j)
				if err != nil {
					return err
				}
				shown = writeJobLogs(con.Out, j, whole) || shown
				if err := whole.failed; err != nil {
					return err
				}
			}
		}
		if page.Next == "" {
			break
		}
		p.Cursor = page.Next
	}
	if host != "" && !found {
		return &console.Exit{Code: console.ExitInvalid, Err: fmt.Errorf("run %s has no host %q\nhint: turnus runs show %s --jobs lists them", run, host, run)}
	}
	if con.Output == "json" {
		return console.PrintJSON(con.Out, console.ListOf(all))
	}
	if !shown {
		con.Message("no finished host of this run has output; turnus runs show " + run + " --jobs lists the hosts")
	}
	return nil
}

// writeJobLogs writes what the steps of a job showed, then how it ended. It reports whether it
// wrote anything.
func writeJobLogs(w io.Writer, j api.Job, whole *keptApart) (wrote bool) {
	for i, s := range j.Steps {
		s := whole.write(w, j.Host, i, s)
		wrote = wrote || s.Truncated
		for line := range strings.Lines(stepText(s)) {
			wrote = true
			fmt.Fprintf(w, "%s %s | %s\n", j.Host, s.Name, console.Printable(strings.TrimRight(line, "\r\n")))
		}
		for _, line := range evidenceLines(s) {
			wrote = true
			fmt.Fprintf(w, "%s %s | %s\n", j.Host, s.Name, console.Printable(line))
		}
		if worthLogging(s.Outcome, s.Reason) {
			wrote = true
			fmt.Fprintf(w, "%s %s | %s: %s\n", j.Host, s.Name, s.Outcome, console.Printable(console.FirstLine(s.Reason)))
		}
	}
	if len(j.Steps) == 0 && j.Outcome != "" && !j.Outcome.Good() {
		wrote = true
		fmt.Fprintf(w, "%s | %s: %s\n", j.Host, j.Outcome, console.Printable(console.FirstLine(j.Reason)))
	}
	return wrote
}

// worthLogging reports whether a log has the reason of a step: why it failed, or what it changed.
// In check mode that is what it would change.
func worthLogging(o core.Outcome, reason string) bool {
	return !o.Good() || o == core.Changed && reason != ""
}

// evidenceLines returns the evidence that a job type attached to its outcome, a line each name.
func evidenceLines(s api.StepResult) (lines []string) {
	all, ok := s.Outputs["evidence"].(map[string]any)
	if !ok {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, isText := all[name].(string)
		if raw, err := json.Marshal(all[name]); !isText && err == nil {
			text = string(raw)
		}
		lines = append(lines, "evidence "+name+": "+strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", " "))
	}
	return lines
}

// FollowLogs shows outputs as they come, until the run has ended. Where nothing live is kept of it
// any more, it shows what is recorded.
func FollowLogs(ctx context.Context, con *console.Console, c *client.Client, id, host string) error {
	p := &logPrinter{con: con, host: host, open: map[streamKey]string{}}
	if con.Output == "json" {
		p.enc = json.NewEncoder(con.Out.Raw())
		p.enc.SetEscapeHTML(false)
	}
	err := c.Events(id).Follow(ctx, p.event, func(err error) {
		if err != nil {
			con.Message(con.Paint(console.Yellow, "waiting: ") + core.ErrorText(err))
		} else {
			con.Message("the server answers again")
		}
	})
	for key := range p.open {
		p.flush(key)
	}
	switch {
	case ctx.Err() != nil:
		return &console.Exit{Code: console.ExitCancelled}
	case err == nil && !p.live && p.enc == nil:
		return Logs(ctx, con, c, id, host)
	}
	return err
}

// streamKey is one stream of one step on one host.
type streamKey struct {
	host, step string
	errs       bool
}

// logPrinter writes events as lines.
type logPrinter struct {
	con  *console.Console
	host string
	enc  *json.Encoder        // nil: text
	live bool                 // more came than what is recorded
	open map[streamKey]string // lines that have no end yet
}

// maxOpenLine is how much of a line without an end is kept until its end comes.
const maxOpenLine = 64 << 10

func (p *logPrinter) event(e api.Event) {
	p.live = p.live || e.Event != api.JobDone && e.Event != api.RunDone
	if p.host != "" && e.Host != "" && e.Host != p.host {
		return
	}
	if p.enc != nil {
		_ = p.enc.Encode(e) // the screen remembers an error
		return
	}
	switch e.Event {
	case "output":
		p.text(streamKey{e.Host, e.Step, false}, e.Stdout)
		p.text(streamKey{e.Host, e.Step, true}, e.Stderr)
	case "diff", "message":
		for line := range strings.Lines(e.Text) {
			p.line(e.Host, e.Step, line)
		}
	case "step_retry":
		p.line(e.Host, e.Step, "again: "+e.Text)
	case "step_done":
		p.flush(streamKey{e.Host, e.Step, false})
		p.flush(streamKey{e.Host, e.Step, true})
		if d := e.Detail; d != nil && worthLogging(d.Outcome, d.Reason) {
			p.line(e.Host, e.Step, string(d.Outcome)+": "+console.FirstLine(d.Reason))
		}
	case api.JobDone:
		if r := e.Result; r != nil && !r.Outcome.Good() && len(r.Steps) == 0 {
			p.line(e.Host, r.Step, string(r.Outcome)+": "+console.FirstLine(r.Reason))
		}
	case "dropped":
		p.con.Message(e.Text + "; turnus logs without --follow has what was kept")
	}
}

// text writes whole lines, and keeps the rest for what follows.
func (p *logPrinter) text(key streamKey, s string) {
	if s == "" {
		return
	}
	s = p.open[key] + s
	delete(p.open, key)
	for {
		line, rest, whole := strings.Cut(s, "\n")
		if !whole && len(line) < maxOpenLine {
			break
		}
		p.line(key.host, key.step, line)
		s = rest
	}
	if s != "" {
		p.open[key] = s
	}
}

func (p *logPrinter) flush(key streamKey) {
	if rest := p.open[key]; rest != "" {
		p.line(key.host, key.step, rest)
	}
	delete(p.open, key)
}

func (p *logPrinter) line(host, step, line string) {
	fmt.Fprintf(p.con.Out, "%s %s | %s\n", host, step, console.Printable(strings.TrimRight(line, "\r\n")))
}

// keptApart are the outputs of a job that a server keeps apart, because they do not fit into its
// result.
type keptApart struct {
	ctx    context.Context //nolint:containedctx // of the one command that shows them
	client *client.Client
	job    core.JobID
	names  []string
	failed error
}

// wholeOutputs asks which outputs of a job are kept apart. It asks where something was cut only.
func wholeOutputs(ctx context.Context, c *client.Client, j api.Job) (*keptApart, error) {
	o := &keptApart{ctx: ctx, client: c, job: core.JobID{Run: j.Run, Index: j.Index}}
	if !slices.ContainsFunc(j.Steps, func(s api.StepResult) bool { return s.Truncated }) {
		return o, nil
	}
	list, err := c.Outputs(ctx, o.job)
	if err != nil {
		return nil, err
	}
	for _, one := range list.Items {
		if !one.Cut {
			o.names = append(o.names, one.Name)
		}
	}
	return o, nil
}

// write shows what is kept whole of a step, in bounded memory, and returns the rest to show.
func (o *keptApart) write(w io.Writer, host string, step int, s api.StepResult) api.StepResult {
	if !s.Truncated {
		return s
	}
	for _, stream := range []struct {
		name string
		text *string
	}{{"stdout", &s.Stdout}, {"stderr", &s.Stderr}, {"diff", &s.Diff}} {
		name := strconv.Itoa(step) + "/" + stream.name
		if o.failed != nil || !slices.Contains(o.names, name) {
			continue
		}
		if o.failed = o.copy(w, host, s.Name, name); o.failed == nil {
			*stream.text = ""
		}
	}
	return s
}

func (o *keptApart) copy(w io.Writer, host, step, name string) error {
	r, err := o.client.Output(o.ctx, o.job, name)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	lines := bufio.NewReaderSize(r, maxOpenLine)
	for {
		line, err := lines.ReadSlice('\n') // a longer line comes in parts
		if len(line) > 0 {
			fmt.Fprintf(w, "%s %s | %s\n", host, step, console.Printable(strings.TrimRight(string(line), "\r\n")))
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("read output %s of job %s: %w", name, o.job, err)
		}
	}
}

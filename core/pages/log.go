package pages

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Bounds of what a log shows: lines, the bytes that are read for them, and the bytes of one line.
const (
	logLines = 1000
	logBytes = 512 << 10
	logLine  = 4000
	findIn   = 16 << 20 // bytes that a search reads
)

// logView is a host of a run, and a part of what one of its steps wrote.
type logView struct {
	Run      api.Run
	Job      api.Job
	Why      api.Explanation // of a host without an outcome
	Attempts []api.Attempt
	Steps    []logStep
	Shown    string // name of the output that is shown; "" is none
	Size     int64
	Lines    []logText
	From     int64  // place of the first line, in bytes
	To       int64  // place behind the last one
	Find     string // what was searched
	Cut      bool   // the search ended before the output did
}

// logStep is a step of a host, and what it wrote.
type logStep struct {
	api.StepResult
	Outputs []api.Output
}

// logText is a line of an output. Its place in bytes is its name: it stays, whatever is shown.
type logText struct {
	At     int64
	Pieces []piece
}

// Older reports whether there are lines before those that are shown, Newer behind them.
func (v *logView) Older() bool { return v.From > 0 && v.Find == "" }

// Newer reports whether there are lines behind those that are shown.
func (v *logView) Newer() bool { return v.To < v.Size && v.Find == "" }

// Live reports whether output is shown as it comes.
func (v *logView) Live() bool {
	return v.Shown == "" && v.Job.Outcome == "" && !v.Run.Complete()
}

// At is the address of a place of the output that is shown.
func (v *logView) At(place string, at int64) string {
	q := url.Values{"out": {v.Shown}, place: {strconv.FormatInt(at, 10)}}
	return "?" + q.Encode()
}

// Download is the address of the whole output.
func (v *logView) Download() string { return v.address() + "/outputs/" + v.Shown }

func (v *logView) address() string {
	return "/runs/" + url.PathEscape(v.Run.ID) + "/hosts/" + strconv.Itoa(v.Job.Index)
}

// Stream is the address of what happens from now on.
func (v *logView) Stream() string { return v.address() + "/live" }

// jobOf names the host of a run that an address names; ok is false for what is no number.
func jobOf(r *http.Request) (id core.JobID, ok bool) {
	index, err := strconv.Atoi(r.PathValue("job"))
	return core.JobID{Run: r.PathValue("run"), Index: index}, err == nil && index >= 0
}

func (p *Pages) noJob(w http.ResponseWriter, r *http.Request, v visit) {
	p.show(w, http.StatusNotFound, "problem", v, "Not found", "run "+r.PathValue("run")+" has no host number "+r.PathValue("job"))
}

func (p *Pages) hostLog(w http.ResponseWriter, r *http.Request, v visit) {
	id, ok := jobOf(r)
	if !ok {
		p.noJob(w, r, v)
		return
	}
	view, err := readLog(r.Context(), v, id, r.URL.Query())
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	p.show(w, http.StatusOK, "log", v, view.Job.Host, &view)
}

func readLog(ctx context.Context, v visit, id core.JobID, q url.Values) (view logView, err error) {
	if view.Job, err = v.client.Job(ctx, id); err != nil {
		return view, err
	}
	view.Run, err = v.client.Run(ctx, id.Run)
	if errors.Is(err, core.ErrNotFound) { // another tenant's run on the caller's host
		view.Run = api.Run{ID: id.Run, Playbook: view.Job.Playbook}
	} else if err != nil {
		return view, err
	}
	if view.Job.Outcome == "" {
		if view.Why, err = v.client.Explain(ctx, id); err != nil {
			return view, err
		}
	}
	attempts, err := v.client.Attempts(ctx, id)
	if err != nil {
		return view, err
	}
	view.Attempts = attempts.Items
	outputs, err := v.client.Outputs(ctx, id)
	if err != nil {
		return view, err
	}
	view.choose(outputs.Items, q.Get("out"))
	if view.Shown == "" {
		return view, nil
	}
	if view.Find = q.Get("find"); view.Find != "" {
		return view, view.search(ctx, v, id)
	}
	return view, view.read(ctx, v, id, q)
}

// choose puts outputs with their steps, and shows the one that is asked for, else the last one of
// the step that decided the outcome, else the last one. Of a host at work it is what comes.
func (v *logView) choose(outputs []api.Output, asked string) {
	v.Steps = make([]logStep, len(v.Job.Steps))
	for i, s := range v.Job.Steps {
		v.Steps[i].StepResult = s
	}
	for _, o := range outputs {
		number, _, _ := strings.Cut(o.Name, "/")
		if i, err := strconv.Atoi(number); err == nil && i >= 0 {
			for len(v.Steps) <= i { // of a host at work no step is recorded
				v.Steps = append(v.Steps, logStep{StepResult: api.StepResult{Name: o.Step}})
			}
			v.Steps[i].Outputs = append(v.Steps[i].Outputs, o)
		}
	}
	pick := slices.IndexFunc(outputs, func(o api.Output) bool { return o.Name == asked })
	if pick < 0 && v.Job.Outcome != "" {
		for i, o := range outputs {
			if pick < 0 || o.Step == v.Job.Step || outputs[pick].Step != v.Job.Step {
				pick = i
			}
		}
	}
	if pick >= 0 {
		v.Shown, v.Size = outputs[pick].Name, outputs[pick].Size
	}
}

// read reads up to logLines lines: from a place on, or before one, which is the end where none is
// asked for.
func (v *logView) read(ctx context.Context, who visit, id core.JobID, q url.Values) error {
	at, err := strconv.ParseInt(q.Get("at"), 10, 64)
	forward := err == nil && at >= 0
	end, err := strconv.ParseInt(q.Get("before"), 10, 64)
	if err != nil || end < 0 || end > v.Size {
		end = v.Size
	}
	from := max(end-logBytes, 0)
	if forward {
		from = min(at, v.Size)
		end = min(from+logBytes, v.Size)
	}
	if from == end {
		v.From, v.To = from, end
		return nil
	}
	part, err := who.client.OutputPart(ctx, id, v.Shown, from, end)
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }()
	data, err := io.ReadAll(io.LimitReader(part, logBytes))
	if err != nil {
		return err
	}
	if !forward && from > 0 { // begin with a whole line
		if i := bytes.IndexByte(data, '\n'); i >= 0 && i < len(data)-1 {
			from, data = from+int64(i+1), data[i+1:]
		}
	}
	v.Lines, v.To = linesOf(data, from)
	if n := len(v.Lines); n > logLines && forward {
		v.To, v.Lines = v.Lines[logLines].At, v.Lines[:logLines]
	} else if n > logLines {
		v.Lines = v.Lines[n-logLines:]
	}
	if v.From = from; len(v.Lines) > 0 {
		v.From = v.Lines[0].At
	}
	return nil
}

// linesOf cuts a part of an output into lines. Of a long line the beginning is shown.
func linesOf(data []byte, from int64) (lines []logText, to int64) {
	for line := range bytes.Lines(data) {
		lines = append(lines, logText{from, piecesOf(string(line))})
		from += int64(len(line))
	}
	return lines, from
}

// search shows lines that have a text, up to logLines, of the first findIn bytes.
func (v *logView) search(ctx context.Context, who visit, id core.JobID) error {
	part, err := who.client.OutputPart(ctx, id, v.Shown, 0, min(v.Size, findIn))
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }()
	data, err := io.ReadAll(io.LimitReader(part, findIn))
	if err != nil {
		return err
	}
	wanted, at := []byte(strings.ToLower(v.Find)), int64(0)
	for line := range bytes.Lines(data) {
		if bytes.Contains(bytes.ToLower(line), wanted) {
			if len(v.Lines) == logLines {
				v.Cut = true
				break
			}
			v.Lines = append(v.Lines, logText{at, piecesOf(string(line))})
		}
		at += int64(len(line))
	}
	v.Cut, v.To = v.Cut || v.Size > findIn, v.Size
	return nil
}

// download hands an output to a browser as a file of plain text.
func (p *Pages) download(w http.ResponseWriter, r *http.Request, v visit) {
	id, ok := jobOf(r)
	if !ok {
		p.noJob(w, r, v)
		return
	}
	out, err := v.client.Output(r.Context(), id, r.PathValue("step")+"/"+r.PathValue("stream"))
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	defer func() { _ = out.Close() }()
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", "attachment; filename=\""+strconv.Itoa(id.Index)+"-"+fileName(r.PathValue("step"))+"-"+fileName(r.PathValue("stream"))+".txt\"")
	_, _ = io.Copy(steadyWriter{w, http.NewResponseController(w)}, out)
}

// steadyWriter writes pieces of a large response: each may take writeWithin, all together have no
// bound.
type steadyWriter struct {
	w   io.Writer
	ctl *http.ResponseController
}

func (s steadyWriter) Write(piece []byte) (int, error) {
	_ = s.ctl.SetWriteDeadline(time.Now().Add(writeWithin))
	return s.w.Write(piece)
}

// fileName is a text without what a header or a file system would misread.
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, s)
}

// liveLog sends what the steps of a host write, as server-sent events: those that are kept, then
// those that come. The server drops lines that are not read in time, and reports that.
func (p *Pages) liveLog(w http.ResponseWriter, r *http.Request, v visit) {
	id, ok := jobOf(r)
	if !ok {
		p.noJob(w, r, v)
		return
	}
	if v.who.others(r.URL.Query().Get("as")) {
		newEvents(w).send("other", "1")
		return
	}
	if _, err := v.client.Job(r.Context(), id); err != nil {
		p.problem(w, r, v, err)
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	out := newEvents(w)
	if !out.send("begin", id.String()) {
		return
	}
	lines, ended := make(chan string), make(chan error, 1)
	go func() { // it ends with ctx
		ended <- v.client.JobEvents(id).Read(ctx, func(e api.Event) {
			if data := logEvent(e); data != "" {
				select {
				case lines <- data:
				case <-ctx.Done():
				}
			}
		})
	}()
	switch err := pass(out, lines, ended); {
	case errors.Is(err, errGone):
		stop()
		<-ended //nolint:errcheck // of a reading that was ended
	case err == nil:
		out.send("done", "1")
	}
}

// errGone means that the browser does not read any more.
var errGone = errors.New("the browser went away")

// pass sends lines until their source has ended, and a beat while there are none: over HTTP/2 a
// stream without a write ends at its write deadline.
func pass(out *events, lines <-chan string, ended <-chan error) error {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		var ok bool
		select {
		case data := <-lines:
			ok = out.send("log", data)
		case <-beat.C:
			ok = out.comment()
		case err := <-ended:
			return err
		}
		if !ok {
			return errGone
		}
	}
}

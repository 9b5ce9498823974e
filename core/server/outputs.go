package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

func (s *Server) outputs() {
	handle(s, route{id: "list-outputs", method: http.MethodGet, path: "/v1/runs/{run}/jobs/{job}/outputs", summary: "List what the steps of a job wrote", role: Viewer}, s.listOutputs)
	handle(s, route{
		id: "get-output", method: http.MethodGet, path: "/v1/runs/{run}/jobs/{job}/outputs/{step}/{stream}", summary: "Read what a step wrote", role: Viewer,
		detail: "Range requests give a part of it. To follow a job that runs, see its events.", content: "text/plain",
	}, s.getOutput)
	handle(s, route{
		id: "put-output", method: http.MethodPut, path: "/v1/runs/{run}/jobs/{job}/outputs/{step}/{stream}", summary: "Keep what a step wrote", role: Worker, everyone: true,
		detail:  "For workers: what does not fit into a job's result, before the result. It takes the place of what that name had; once the job has its outcome it is refused.",
		maxBody: maxOutput, bodyTime: 2 * time.Minute, raw: true,
	}, s.putOutput)
}

// maxOutput bounds one output that a worker sends: escaped, the bytes of a stream may be four times
// as many.
const maxOutput = 4*64<<20 + 1<<10

func (s *Server) putOutput(ctx context.Context, by caller, in *struct {
	JobPath
	Step   int    `path:"step" minimum:"0" maximum:"100000" doc:"number of the step, from 0"`
	Stream string `path:"stream" maxLength:"100" pattern:"^[a-z]+(-[0-9]+)?$" doc:"stdout, stderr or diff; with -N of a foreach step its Nth item"`
},
) (*body[api.Output], error) {
	job, err := s.cfg.Ledger.Job(ctx, by.scope, in.id())
	if err != nil {
		return nil, err
	}
	if job.Outcome != "" {
		return nil, fmt.Errorf("job %s ended as %s, and its outputs are what they are: %w", in.id(), job.Outcome, core.ErrConflict)
	}
	from, ok := ctx.Value(rawBody{}).(io.Reader)
	if !ok {
		return nil, errors.New("the body of the request is not there")
	}
	o, err := s.cfg.Ledger.PutOutput(ctx, in.id(), strconv.Itoa(in.Step)+"/"+in.Stream, from)
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, huma.NewError(http.StatusRequestEntityTooLarge, fmt.Sprintf("an output has at most %d bytes", maxOutput))
	}
	if err != nil {
		return nil, err
	}
	return &body[api.Output]{api.Output{Name: o.Name, Size: o.Size, Written: o.Written}}, nil
}

// text is one output, wherever it is kept.
type text struct {
	api.Output
	inline string // of the job's detail; "" where the ledger keeps it apart
}

// texts are the outputs of a job: those that are kept apart, and those of its detail, by name.
func (s *Server) texts(ctx context.Context, by caller, id core.JobID) ([]text, error) {
	apart, err := s.cfg.Ledger.Outputs(ctx, by.scope, id)
	if err != nil {
		return nil, err
	}
	steps, err := s.steps(ctx, by.scope, id)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	all := make([]text, 0, len(apart)+3*len(steps))
	for _, o := range apart {
		known[o.Name] = true
		t := text{Output: api.Output{Name: o.Name, Size: o.Size, Written: o.Written}}
		if i, err := strconv.Atoi(strings.SplitN(o.Name, "/", 2)[0]); err == nil && i >= 0 && i < len(steps) {
			t.Step = steps[i].Name
		}
		all = append(all, t)
	}
	for i, step := range steps {
		for _, stream := range []struct{ name, text string }{{"stdout", step.Stdout}, {"stderr", step.Stderr}, {"diff", step.Diff}} {
			name := strconv.Itoa(i) + "/" + stream.name
			if stream.text != "" && !known[name] {
				all = append(all, text{api.Output{Name: name, Step: step.Name, Size: int64(len(stream.text)), Cut: step.Truncated}, stream.text})
			}
		}
	}
	return all, nil
}

func (s *Server) listOutputs(ctx context.Context, by caller, in *JobPath) (*list[api.Output], error) {
	all, err := s.texts(ctx, by, in.id())
	if err != nil {
		return nil, err
	}
	items := make([]api.Output, len(all))
	for i, t := range all {
		items[i] = t.Output
	}
	return listOf(items, ""), nil
}

func (s *Server) getOutput(ctx context.Context, by caller, in *struct {
	JobPath
	Step   int    `path:"step" minimum:"0" maximum:"100000" doc:"number of the step, from 0"`
	Stream string `path:"stream" maxLength:"100" doc:"stdout, stderr or diff"`
	Range  string `header:"Range" maxLength:"200" doc:"as bytes=0-1023"`
},
) (*huma.StreamResponse, error) {
	all, err := s.texts(ctx, by, in.id())
	if err != nil {
		return nil, err
	}
	name := strconv.Itoa(in.Step) + "/" + in.Stream
	for _, t := range all {
		if t.Name == name {
			return &huma.StreamResponse{Body: func(hc huma.Context) { s.sendOutput(hc, by, in.id(), t) }}, nil
		}
	}
	return nil, fmt.Errorf("job %s has no output %s: %w", in.id(), name, core.ErrNotFound)
}

// sendOutput answers with the text or the part that was asked for. It is not HTML, whatever its
// contents.
func (s *Server) sendOutput(hc huma.Context, by caller, id core.JobID, t text) {
	r, w := humago.Unwrap(hc)
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("ETag", etag(strconv.FormatInt(t.Size, 36)+"-"+strconv.FormatInt(t.Written.UnixMicro(), 36)))
	var content io.ReadSeeker = strings.NewReader(t.inline)
	if t.inline == "" {
		stored := &stored{ctx: r.Context(), ledger: s.cfg.Ledger, scope: by.scope, id: id, name: t.Name, size: t.Size} //nolint:contextcheck // of the request
		defer stored.close()
		content = stored
	}
	http.ServeContent(w, r, "", time.Time{}, content)
}

// stored reads an output of the ledger from wherever it is sought to.
type stored struct {
	ctx    context.Context //nolint:containedctx // of the one request that it serves
	ledger *ledger.Ledger
	scope  ledger.Scope
	id     core.JobID
	name   string
	size   int64

	at   int64
	open io.ReadCloser // from at on; nil before the first Read
}

func (s *stored) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += s.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning")
	}
	if offset != s.at {
		s.close()
	}
	s.at = offset
	return offset, nil
}

func (s *stored) Read(p []byte) (int, error) {
	if s.open == nil {
		r, _, err := s.ledger.OpenOutput(s.ctx, s.scope, s.id, s.name, s.at, -1)
		if err != nil {
			return 0, err
		}
		s.open = r
	}
	n, err := s.open.Read(p)
	s.at += int64(n)
	return n, err
}

func (s *stored) close() {
	if s.open != nil {
		_ = s.open.Close()
		s.open = nil
	}
}

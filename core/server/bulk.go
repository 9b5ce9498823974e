package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/telemetry"
)

// Bounds of the launches that a bulk has in memory, and hands to the ledger together.
const (
	bulkRuns = 256
	bulkSize = 16 << 20 // bytes of snapshots and 256 times hosts
)

// createRunsRoute refuses no request for one of its runs: each is validated alone.
func createRunsRoute() route {
	return route{
		id: "create-runs", method: http.MethodPost, path: "/v1/runs/bulk", summary: "Run playbooks, up to 1000 runs in one request", role: Operator, status: http.StatusOK, unchecked: true,
		detail: "Each run has its own answer, in the order of the request: the run, durable when this answers, or the error that create-run would answer. " +
			"After a lost answer, or errors with the status 503, send the same request again: a key makes one run.",
	}
}

// newRuns is api.NewRuns as it is sent, with runs that are not validated.
type newRuns struct {
	Runs []json.RawMessage `json:"runs"`
}

// Schema returns its schema in the OpenAPI document.
func (newRuns) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[api.NewRuns](), true, "")
}

// UnmarshalJSON refuses fields that it does not know.
func (n *newRuns) UnmarshalJSON(text []byte) error {
	type plain newRuns
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode((*plain)(n))
}

// bulkRun is one run of a bulk, until it has its answer.
type bulkRun struct {
	sent     api.NewRun
	key      string // as the ledger has it
	request  []byte
	answered bool
	run      api.Run
	err      error
}

// answer takes the run, or the reason why there is none.
func (b *bulkRun) answer(run api.Run, err error) {
	b.answered, b.run, b.err = true, run, err
}

func (s *Server) createRuns(ctx context.Context, by caller, in *struct{ Body newRuns }) (*list[api.CreatedRun], error) {
	if n := len(in.Body.Runs); n < 1 || n > api.MaxNewRuns {
		return nil, fmt.Errorf("runs has %d items, expected 1 to %d: split them into several requests: %w", n, api.MaxNewRuns, core.ErrInvalid)
	}
	all := make([]*bulkRun, len(in.Body.Runs))
	for i, text := range in.Body.Runs {
		all[i] = s.bulkRun(by, text)
	}
	if err := s.repeatedRuns(ctx, by, all); err != nil {
		return nil, err
	}
	for rest := all; len(rest) > 0; {
		rest = s.acceptSome(ctx, by, rest)
	}
	items := make([]api.CreatedRun, len(all))
	for i, one := range all {
		items[i].Index = i
		if one.err != nil {
			items[i].Error = s.problemOf(one.err)
			continue
		}
		items[i].Run = &one.run
	}
	return listOf(items, ""), nil
}

// bulkRun reads one run, and refuses it as create-run would.
func (s *Server) bulkRun(by caller, text json.RawMessage) *bulkRun {
	one := &bulkRun{}
	var sent any
	found := &huma.ValidateResult{}
	err := readJSON(text, &sent)
	if err == nil {
		err = uniqueNames(text)
	}
	if err == nil {
		schemas, place := s.api.OpenAPI().Components.Schemas, huma.NewPathBuffer(nil, 0)
		place.Push("body")
		huma.Validate(schemas, &huma.Schema{Ref: "#/components/schemas/KeyedRun"}, place, huma.ModeWriteToServer, sent, found)
		if len(found.Errors) > 0 {
			err = huma.NewError(http.StatusUnprocessableEntity, "validation failed", found.Errors...)
		}
	}
	var n api.KeyedRun
	if err == nil {
		err = readJSON(text, &n)
	}
	if err == nil {
		one.sent, one.key = n.NewRun, Idempotent{n.Key}.of(by, createRun)
		one.request, err = json.Marshal(n.NewRun)
	}
	if err != nil {
		one.answer(api.Run{}, err)
	}
	return one
}

// repeatedRuns answers those that were asked for before: see repeated.
func (s *Server) repeatedRuns(ctx context.Context, by caller, all []*bulkRun) error {
	var open []*bulkRun
	var asked []ledger.Asked
	for _, one := range all {
		if !one.answered {
			open, asked = append(open, one), append(asked, ledger.Asked{Key: one.key, Request: one.request})
		}
	}
	before, err := s.cfg.Ledger.AcceptedBefore(ctx, s.scopeOfKeys(by), asked...)
	if err != nil {
		return err
	}
	for i, one := range open {
		if !errors.Is(before[i].Err, core.ErrNotFound) {
			one.answer(runOf(before[i].Run), keyed(before[i].Err))
		}
	}
	return nil
}

// acceptSome prepares runs up to the bounds of memory, has the ledger accept them together, and
// returns the rest.
func (s *Server) acceptSome(ctx context.Context, by caller, all []*bulkRun) (rest []*bulkRun) {
	var batch []controller.Acceptance
	var of []*bulkRun
	for size := 0; len(all) > 0 && len(batch) < bulkRuns && size < bulkSize; all = all[1:] {
		one := all[0]
		if one.answered {
			continue
		}
		a, err := s.bulkAcceptance(ctx, by, one)
		if err != nil {
			one.answer(api.Run{}, err)
			continue
		}
		size += len(a.Launch.Run.Payload) + 256*len(a.Launch.Hosts)
		batch, of = append(batch, a), append(of, one)
	}
	for i, accepted := range s.cfg.Controller.AcceptAll(ctx, batch...) {
		of[i].answer(launched(runOf(accepted.Run), batch[i].Launch), keyed(accepted.Err))
	}
	return all
}

func (s *Server) bulkAcceptance(ctx context.Context, by caller, one *bulkRun) (a controller.Acceptance, err error) {
	if err := ctx.Err(); err != nil {
		return a, err
	}
	ctx, span := telemetry.StartSpan(ctx, telemetry.SpanLaunch)
	defer func() { telemetry.EndSpan(span, err) }()
	a, err = s.acceptance(ctx, by, one.sent)
	a.Key, a.Request = one.key, one.request
	return a, err
}

// problemOf is the error of one run of a bulk, as create-run would answer it.
func (s *Server) problemOf(err error) *api.Problem {
	out := &api.Problem{Status: http.StatusInternalServerError}
	model, ok := errors.AsType[*huma.ErrorModel](s.problem(createRunsRoute(), err))
	if !ok {
		return out
	}
	shorten(model)
	out.Title, out.Status, out.Detail = model.Title, model.Status, model.Detail
	for _, e := range model.Errors {
		out.Errors = append(out.Errors, api.Mistake{Message: e.Message, Location: e.Location, Value: e.Value})
	}
	return out
}

// readJSON reads what a caller sent. A failure is the caller's mistake.
func readJSON(text []byte, into any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	return nil
}

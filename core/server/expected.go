package server

import (
	"context"
	"encoding/json"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// expectedPoints bounds the points of a curve that is kept.
const expectedPoints = 40

// Expect forecasts a run that has just been put into the queue, and keeps that: people compare it
// with what happens. A second call for a run changes nothing.
func (s *Server) Expect(ctx context.Context, id string) error {
	run, err := s.cfg.Ledger.FullRun(ctx, ledger.AllTenants(), id, false)
	if err != nil || run.Complete() || run.Expected != "" {
		return err
	}
	e := &estimate{at: time.Now()}
	if err := s.fill(ctx, &run.Run, e, false); err != nil {
		return err
	}
	if e.FinishP50.IsZero() { // no host is expected to end
		return nil
	}
	x := api.Expectation{At: e.at.UTC(), FinishP50: e.FinishP50.UTC(), FinishP90: e.FinishP90.UTC()}
	var p50, p90 []time.Time
	for _, h := range e.Hosts {
		if !h.Finish.IsZero() {
			p50, p90 = append(p50, h.Finish), append(p90, h.Late)
		}
	}
	x.Hosts = len(p50)
	x.P50, x.P90 = curve(e.at, 0, p50, expectedPoints), curve(e.at, 0, p90, expectedPoints)
	text, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return s.cfg.Ledger.KeepExpected(ctx, id, string(text))
}

// expectationOf reads what was expected of a run; nil without an estimate, or where it cannot be
// read.
func expectationOf(text string) *api.Expectation {
	var x api.Expectation
	if text == "" || json.Unmarshal([]byte(text), &x) != nil {
		return nil
	}
	return &x
}

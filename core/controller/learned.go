package controller

import (
	"context"

	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
)

// Learned returns how long the steps of a playbook took in recent runs that were no checks.
func Learned(ctx context.Context, l *ledger.Ledger, scope ledger.Scope, playbook string) (*forecast.History, error) {
	details, err := l.RecentDetails(ctx, scope, playbook)
	if err != nil {
		return nil, err
	}
	past := &forecast.History{}
	for _, d := range details {
		if len(d.Detail) == 0 {
			continue
		}
		if result, err := launch.DecodeResult(d.Detail); err == nil {
			past.Add(d.Run, result.Steps)
		}
	}
	return past, nil
}

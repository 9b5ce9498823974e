package controller

import (
	"context"

	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/snapshot"
)

// Learned returns how long the steps of a playbook took in recent runs that were no checks.
func Learned(ctx context.Context, l *ledger.Ledger, scope ledger.Scope, playbook string) (*forecast.History, error) {
	details, err := l.RecentDetails(ctx, scope, playbook)
	if err != nil {
		return nil, err
	}
	past, checks := &forecast.History{}, map[string]bool{}
	for _, d := range details {
		check, known := checks[d.Run]
		if !known {
			if check, err = wasCheck(ctx, l, scope, d.Run); err != nil {
				check = true // nothing can be learned from one that cannot be read any more
			}
			checks[d.Run] = check
		}
		if check || len(d.Detail) == 0 {
			continue
		}
		if result, err := launch.DecodeResult(d.Detail); err == nil {
			past.Add(d.Run, result.Steps)
		}
	}
	return past, nil
}

// wasCheck reports whether a run was launched to change nothing.
func wasCheck(ctx context.Context, l *ledger.Ledger, scope ledger.Scope, run string) (bool, error) {
	text, err := l.Snapshot(ctx, scope, run)
	if err != nil {
		return false, err
	}
	s, err := snapshot.Decode(text)
	return s.Check, err
}

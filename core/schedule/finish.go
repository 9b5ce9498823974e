package schedule

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// launch is the result of one attempt to launch a claim.
type launch struct {
	run string
	err error
}

// finished is the end of a launch.
type finished struct {
	claim Claim
	err   error // the attempt's
	skip  *Skip // not nil: no further attempt follows
}

// launched moves a claim to the results.
func (s *State) launched(c Claim, now time.Time) {
	s.Triggered++
	s.Active = append(s.Active, Run{ID: c.RunID, Cause: c.Cause, At: now})
	s.note(Result{RunID: c.RunID, Nominal: c.Nominal, Count: 1, Cause: c.Cause, Triggered: true, At: now})
}

// keepCancelled counts the runs again that a claim was to cancel, and that continue because the
// claim is dropped.
func (s *State) keepCancelled(c Claim) {
	for _, id := range c.Cancel {
		if len(s.Active) < MaxActive {
			s.Active = append(s.Active, Run{ID: id, Cause: ByCron, At: c.Decided})
		}
	}
}

// finish records launches in a state, which may have moved on: a launch that it no longer claims is
// recorded already, and is left out of the answer.
func finish(s State, launches []launch, now time.Time) (State, []finished) {
	s = s.clone()
	var out []finished
	for _, l := range launches {
		i := slices.IndexFunc(s.Claimed, func(c Claim) bool { return c.RunID == l.run })
		if i < 0 {
			continue
		}
		c := s.Claimed[i]
		switch {
		case l.err == nil:
			s.Claimed = slices.Delete(s.Claimed, i, i+1)
			s.launched(c, now)
			out = append(out, finished{claim: c})
		case errors.Is(l.err, core.ErrInvalid) || errors.Is(l.err, core.ErrConflict):
			s.Claimed = slices.Delete(s.Claimed, i, i+1)
			s.keepCancelled(c)
			k := Skip{From: c.Nominal, To: c.Nominal, Count: 1, RunID: c.RunID, Cause: c.Cause, Reason: cutReason(core.Because(core.Refused, "refused: "+l.err.Error()))}
			s.skip(k, now)
			out = append(out, finished{claim: c, err: l.err, skip: &k})
		default:
			c.Attempts++
			c.After = now.Add(retryDelay(c.Attempts))
			c.Err = cut(l.err.Error())
			s.Claimed[i] = c
			out = append(out, finished{claim: c, err: l.err})
		}
	}
	return s, out
}

func retryDelay(attempts int) time.Duration {
	return min(core.Backoff{Interval: retryFirst}.Delay(attempts-1, 0), retryMost)
}

// cutReason shortens the text of a reason as cut does.
func cutReason(r core.Reason) core.Reason { return core.Because(r.Code(), cut(r.Text())) }

// cut shortens a reason to MaxReason bytes of UTF-8.
func cut(text string) string {
	const most = MaxReason
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

package forecast

import "time"

// MakeChain forecasts a run with barriers: passes are its parts between them, over the same hosts,
// each of which begins when all hosts have done the one before; the first one's At counts. It is
// rough: a pass begins at the median end of the one before, and its late end is as much later as
// those of all passes before it together.
func MakeChain(passes []Input) (*Result, error) {
	var sum *Result
	var late time.Duration
	for k, in := range passes {
		if k > 0 && !sum.FinishP50.IsZero() {
			in.At = sum.FinishP50
		}
		r, err := Make(in)
		if err != nil {
			return nil, err
		}
		lateness := r.FinishP90.Sub(r.FinishP50)
		r.FinishP90 = r.FinishP90.Add(late)
		late += lateness
		if sum != nil {
			r.follow(sum)
		}
		sum = r
	}
	return sum, nil
}

// follow puts what the hosts did in the passes before in front.
func (r *Result) follow(before *Result) {
	r.Samples = min(r.Samples, before.Samples)
	r.Missed += before.Missed
	r.Unfinished = max(r.Unfinished, before.Unfinished)
	if r.FinishP50.IsZero() {
		r.FinishP50, r.FinishP90 = before.FinishP50, before.FinishP90
	}
	for i := range r.Hosts {
		h, was := &r.Hosts[i], &before.Hosts[i]
		if was.Finish.IsZero() || h.Never != "" { // it does not reach this pass
			if h.Never == "" {
				*h = *was
			}
			continue
		}
		if wait := h.Begin.Sub(was.Finish); wait > 0 {
			h.Holds = append(h.Holds, Hold{Cause: ByBarrier, For: wait})
		}
		h.Earliest, h.Begin, h.Start = was.Earliest, was.Begin, was.Start
		h.Holds, h.Runs = append(was.Holds, h.Holds...), append(was.Runs, h.Runs...)
		h.Misses += was.Misses
		h.Unfinished = max(h.Unfinished, was.Unfinished)
	}
}

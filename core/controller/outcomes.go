package controller

import (
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// uncertainReason begins why a job has no known outcome that a queue which was lost may have begun.
const uncertainReason = "the queue was lost while this job may have been running, and it has not run since; nobody knows what the host saw: "

// unheard makes those of the first uncertain jobs lost that were cancelled before they began in
// this queue: an earlier one may have begun them.
func unheard(records []queue.Record, uncertain int) []queue.Record {
	list := make([]queue.Record, 0, len(records))
	for _, rec := range records {
		if rec.Outcome != core.Cancelled || rec.Attempt > 0 || rec.Index >= uncertain {
			list = append(list, rec)
			continue
		}
		lost, rest := rec, rec
		lost.Outcome, lost.Reason = core.Lost, core.Because(core.QueueLost, uncertainReason+rec.Reason.Text())
		if rest.Index, rest.Count = uncertain, rec.Index+rec.Count-uncertain; rest.Count > 0 && rec.Count > 1 {
			lost.Count = uncertain - rec.Index
			list = append(list, lost, rest)
			continue
		}
		list = append(list, lost)
	}
	return list
}

// outcomes turns records of the queue into what the ledger keeps, and reads the results of those
// that have one. The first uncertain jobs may have begun in an earlier queue.
func outcomes(l *launch.Launch, records []queue.Record, uncertain int) (list []ledger.Outcome, results []core.Result, err error) {
	records = unheard(records, uncertain)
	list = make([]ledger.Outcome, 0, len(records))
	for _, rec := range records {
		if rec.Count > 1 && (rec.Outcome != core.Lost || len(l.Playbook.Handlers) == 0) {
			list = append(list, ledger.Outcome{Index: rec.Index, Count: rec.Count, Outcome: rec.Outcome, Reason: rec.Reason, Attempt: rec.Attempt})
			continue
		}
		var failed error
		l.Results(rec, func(r core.Result) {
			facts := r.Facts // the ledger has them once a host, and not in each result
			r.Facts = bootOnly(&r)
			detail, err := launch.EncodeResult(r)
			if err != nil {
				failed = fmt.Errorf("job %s: %w", r.Job, err)
				return
			}
			results = append(results, r)
			list = append(list, ledger.Outcome{
				Index: r.Job.Index, Outcome: r.Outcome, Reason: core.Because(r.ReasonCode, r.Reason), Step: r.Step, Attempt: r.Attempt,
				Worker: r.Worker, Started: r.Started, Took: r.Took, Detail: detail, Handlers: r.Handlers, Facts: facts,
			})
		})
		if failed != nil {
			return nil, nil, failed
		}
	}
	return list, results, nil
}

// bootOnly returns the boot id of a host that did not succeed, for a retry from the failed step.
func bootOnly(r *core.Result) *core.Facts {
	if r.Facts == nil || r.Facts.Boot == "" || r.Outcome.Good() {
		return nil
	}
	return &core.Facts{At: r.Facts.At, Boot: r.Facts.Boot}
}

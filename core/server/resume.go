package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

const (
	maxRestarted = 100 // hosts that an answer names of those that begin with the first step
	pastTogether = 256 // hosts of an earlier run whose records are read, and in memory, together
)

// refuseFrom refuses from and else where they mean nothing.
func refuseFrom(asked api.Retry, isCommand bool) error {
	switch {
	case asked.Else != "" && asked.From == "":
		return fmt.Errorf("else sets what becomes of hosts that cannot continue at the failed step, and needs from: %w", core.ErrInvalid)
	case asked.From != "" && isCommand:
		return fmt.Errorf("the run is of a command, which has one step: retry it without from: %w", core.ErrInvalid)
	}
	return nil
}

// resumption is where the hosts of a retry continue.
type resumption struct {
	resumes map[string]snapshot.Resume
	cannot  map[string]string // why a host begins with the first step
}

// resumption reads where the hosts of a retry continue in today's playbook.
func (s *Server) resumption(ctx context.Context, by caller, run *ledger.Run, before *launch.Launch, jobs []ledger.JobHost, now *playbooks.Playbook, hosts []core.Host) (resumption, error) {
	index := make(map[string]int, len(jobs))
	for i, j := range jobs {
		index[j.Host] = i
	}
	same := bytes.Equal(before.Playbook.Work(), now.Work())
	boots, at := s.boots(by.scope), resumption{resumes: make(map[string]snapshot.Resume, len(hosts)), cannot: map[string]string{}}
	for some := range slices.Chunk(hosts, pastTogether) {
		pasts, err := s.pastsOf(ctx, run, some, index, boots)
		if err != nil {
			return at, err
		}
		for i, h := range some {
			var resume snapshot.Resume
			why := errors.New("the playbook has other steps or params since")
			if same {
				resume, why = launch.ResumeOf(now, pasts[i], time.Now())
			}
			if why != nil {
				at.cannot[h.Name] = why.Error()
				continue
			}
			at.resumes[h.Name] = resume
		}
	}
	return at, nil
}

// kept is how many steps, from the first on, are not called again, by host.
func (r *resumption) kept() map[string]int {
	kept := make(map[string]int, len(r.resumes))
	for host := range r.resumes {
		kept[host] = len(r.resumes[host].Steps)
	}
	return kept
}

// apply makes the hosts of a retry continue where they can. run is the earlier run. A host that
// cannot continue is an error, unless such hosts restart; hosts that the launch leaves out do not
// count.
func (r *resumption) apply(run string, again retry, restart bool) error {
	var cannot []api.Restarted
	for _, h := range again.launch.Hosts {
		if _, resumed := r.resumes[h.Name]; resumed {
			again.differs.Resumed++
		} else if why, is := r.cannot[h.Name]; is {
			cannot = append(cannot, api.Restarted{Host: h.Name, Reason: why})
		}
	}
	if len(cannot) > 0 && !restart {
		return fmt.Errorf("retry run %s: %w", run, cannotContinue(len(again.launch.Hosts), cannot))
	}
	again.differs.Restarted = cannot[:min(len(cannot), maxRestarted)]
	return again.launch.SetResume(run, r.resumes)
}

func cannotContinue(hosts int, cannot []api.Restarted) error {
	var shown []string
	for _, c := range cannot[:min(len(cannot), 3)] {
		shown = append(shown, c.Host+": "+c.Reason)
	}
	return fmt.Errorf("%d of %d hosts cannot continue at the failed step: %s: %w\nhint: --else restart begins with the first step on these hosts",
		len(cannot), hosts, strings.Join(shown, "; "), core.ErrConflict)
}

// pastsOf reads what is on record of hosts of an earlier run, in their order.
func (s *Server) pastsOf(ctx context.Context, run *ledger.Run, hosts []core.Host, index map[string]int, boots func(context.Context, core.Host) (string, error)) ([]launch.Past, error) {
	indexes := make([]int, len(hosts))
	for i, h := range hosts {
		indexes[i] = index[h.Name]
	}
	jobs, err := s.cfg.Ledger.JobDetails(ctx, run, indexes)
	if err != nil {
		return nil, err
	}
	pasts := make([]launch.Past, len(hosts))
	for i, h := range hosts {
		if pasts[i], err = pastOf(run.ID, h, jobs[indexes[i]]); err != nil {
			return nil, err
		}
		if pasts[i].Result.Facts != nil {
			if pasts[i].Boot, err = boots(ctx, h); err != nil {
				return nil, err
			}
		}
	}
	return pasts, nil
}

func pastOf(run string, h core.Host, job ledger.JobDetail) (past launch.Past, err error) {
	if len(job.Detail) > 0 {
		if past.Result, err = launch.DecodeResult(job.Detail); err != nil {
			return past, fmt.Errorf("host %s of run %s: %w", h.Name, run, err)
		}
	}
	past.Run, past.Recorded = run, job.Recorded
	past.Result.Outcome, past.Result.Attempt = job.Outcome, job.Attempt
	return past, nil
}

// boots returns the boot id that the record has of a host. The record is read
// once, for the first host.
func (s *Server) boots(scope ledger.Scope) func(context.Context, core.Host) (string, error) {
	type key struct{ tenant, host string }
	var of map[key]string
	return func(ctx context.Context, h core.Host) (string, error) {
		if of == nil {
			all, err := s.cfg.Ledger.ListFacts(ctx, scope)
			if err != nil {
				return "", err
			}
			of = make(map[key]string, len(all))
			for _, f := range all {
				of[key{f.Tenant, f.Host}] = f.Boot
			}
		}
		return of[key{h.Customer, h.Name}], nil
	}
}

package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

const (
	pastTogether = 256 // hosts of an earlier run whose records are read, and in memory, together
	maxRestarted = 100 // hosts of a retry that are named of those that begin with the first step
)

// Resumption is where the hosts of a retry continue.
type Resumption struct {
	run     string // before
	resumes map[string]snapshot.Resume
	cannot  map[string]string // why a host begins with the first step
}

// Restarted is a host of a retry that begins with the first step.
type Restarted struct{ Host, Reason string }

// ResumeHosts reads where the hosts of a retry continue in today's playbook. before and jobs are
// those of the earlier run.
func ResumeHosts(ctx context.Context, l *ledger.Ledger, scope ledger.Scope, run *ledger.Run, before *launch.Launch, jobs []ledger.JobHost, now *playbooks.Playbook, hosts []core.Host) (Resumption, error) {
	index := make(map[string]int, len(jobs))
	for i, j := range jobs {
		index[j.Host] = i
	}
	same := bytes.Equal(before.Playbook.Work(), now.Work())
	boots, at := bootsOf(l, scope), Resumption{run: run.ID, resumes: make(map[string]snapshot.Resume, len(hosts)), cannot: map[string]string{}}
	for some := range slices.Chunk(hosts, pastTogether) {
		pasts, err := pastsOf(ctx, l, run, some, index, boots)
		if err != nil {
			return at, err
		}
		for i, h := range some {
			var resume snapshot.Resume
			why := errors.New("the playbook has other steps or params since")
			if same {
				resume, why = launch.ResumeOf(now, pasts[i], time.Now())
			}
			if was := before.Hosts[index[h.Name]].Address; why == nil && resume.Boot == "" && was != h.Address {
				why = fmt.Errorf("its address was %q and is %q, and no boot id shows that it is the same machine", was, h.Address)
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

// Kept returns how many steps, from the first on, are not called again, by host.
func (r *Resumption) Kept() map[string]int {
	kept := make(map[string]int, len(r.resumes))
	for host := range r.resumes {
		kept[host] = len(r.resumes[host].Steps)
	}
	return kept
}

// Apply makes the hosts of a retry continue where they can. It returns how many do, and the first
// of those that do not. A host that cannot continue is an error, unless such hosts restart; hosts
// that the launch leaves out do not count. Call it before the retry is accepted.
func (r *Resumption) Apply(again *launch.Launch, restart bool) (resumed int, restarted []Restarted, err error) {
	var cannot []Restarted
	for _, h := range again.Hosts {
		if _, resumes := r.resumes[h.Name]; resumes {
			resumed++
		} else if why, is := r.cannot[h.Name]; is {
			cannot = append(cannot, Restarted{Host: h.Name, Reason: why})
		}
	}
	if len(cannot) > 0 && !restart {
		return 0, nil, fmt.Errorf("retry run %s: %w", r.run, cannotContinue(len(again.Hosts), cannot))
	}
	return resumed, cannot[:min(len(cannot), maxRestarted)], again.SetResume(r.run, r.resumes)
}

func cannotContinue(hosts int, cannot []Restarted) error {
	shown := core.Map(cannot[:min(len(cannot), 3)], func(c Restarted) string { return c.Host + ": " + c.Reason })
	return fmt.Errorf("%d of %d hosts cannot continue at the failed step: %s: %w\nhint: --else restart begins with the first step on these hosts",
		len(cannot), hosts, strings.Join(shown, "; "), core.ErrConflict)
}

// pastsOf reads what is on record of hosts of an earlier run, in their order.
func pastsOf(ctx context.Context, l *ledger.Ledger, run *ledger.Run, hosts []core.Host, index map[string]int, boots func(context.Context, core.Host) (string, error)) ([]launch.Past, error) {
	indexes := core.Map(hosts, func(h core.Host) int { return index[h.Name] })
	jobs, err := l.JobDetails(ctx, run, indexes)
	if err != nil {
		return nil, err
	}
	pasts := make([]launch.Past, len(hosts))
	for i, h := range hosts {
		pasts[i] = pastOf(run.ID, jobs[indexes[i]])
		if pasts[i].Result.Facts != nil {
			if pasts[i].Boot, err = boots(ctx, h); err != nil {
				return nil, err
			}
		}
	}
	return pasts, nil
}

func pastOf(run string, job ledger.JobDetail) launch.Past {
	past := launch.Past{Run: run, Recorded: job.Recorded, Unreadable: job.Unreadable}
	if len(job.Detail) > 0 {
		past.Result, past.Unreadable = launch.DecodeResult(job.Detail)
	}
	past.Result.Outcome, past.Result.Attempt = job.Outcome, job.Attempt
	return past
}

// bootsOf returns the boot id that the record has of a host. The record is read once, for the first
// host.
func bootsOf(l *ledger.Ledger, scope ledger.Scope) func(context.Context, core.Host) (string, error) {
	type key struct{ tenant, host string }
	var of map[key]string
	return func(ctx context.Context, h core.Host) (string, error) {
		if of == nil {
			all, err := l.ListFacts(ctx, scope)
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

package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Bounds of one page of OpenJobs: it searches so many runs, and no further one once those have so
// many hosts.
const (
	searchedRuns  = 10_000
	searchedHosts = 4_000_000
)

// OpenJob is a job without an outcome, and its run.
type OpenJob struct {
	Job
	Of Run
}

// OpenJobs lists the jobs of a host that have no outcome, on hosts of tenants in scope, those of
// the oldest run first. It searches the lists of hosts that runs have since they were accepted, so
// that nothing is written for it. A page may have fewer than were asked for, or none, and more
// behind it.
func (l *Ledger) OpenJobs(ctx context.Context, s Scope, host string, p Page) (jobs []OpenJob, next string, err error) {
	cursorAt := func(seq int64) cursor { return cursor{List: "open", Key: []int64{seq}} }
	from, more, err := p.at("open", 1, 0)
	if err != nil {
		return nil, "", err
	}
	var after int64
	if more {
		after = from.Key[0]
	}
	what := "list open jobs of host " + clean(host, maxID)
	last, newest, err := l.searchTo(ctx, after)
	if err != nil {
		return nil, "", translate(what, err)
	}
	found, err := l.runsWith(ctx, host, after, last, p.limit()+1)
	if err != nil {
		return nil, "", translate(what, err)
	}
	if len(found) > p.limit() { // those behind are of another page
		last = found[p.limit()].run.seq
	}
	for i := range found {
		some, err := l.openIn(ctx, s, &found[i], host)
		if err != nil {
			return nil, "", translate(what, err)
		}
		jobs = append(jobs, some...)
	}
	if jobs, next = cut(jobs, p, func(j OpenJob) cursor { return cursorAt(j.seq) }); next == "" && last < newest {
		next = cursorAt(last).String()
	}
	return jobs, next, nil
}

// searchTo returns the last run that a page searches which begins behind a run, and the newest run
// that is not complete.
func (l *Ledger) searchTo(ctx context.Context, after int64) (last, newest int64, err error) {
	err = l.db.row(ctx, l.searchQuery(), after).Scan(&last, &newest)
	return last, newest, err
}

func (l *Ledger) searchQuery() string {
	open := `FROM runs` + l.db.byOldest + ` WHERE ended = 0 AND seq > $1 ORDER BY seq`
	return `SELECT coalesce(max(seq), 0), coalesce((SELECT seq ` + open + ` DESC LIMIT 1), 0)
		FROM (SELECT seq, sum(total) OVER (ORDER BY seq) - total AS before FROM (SELECT seq, total ` + open + ` LIMIT ` + strconv.Itoa(searchedRuns) + `) o) s
		WHERE before < ` + strconv.Itoa(searchedHosts)
}

// runWith is a run that has a host.
type runWith struct {
	run   Run
	hosts map[int]JobHost // by index: the host and its tenant
}

// runsWith returns the first runs behind one, up to another, that are not complete and have a host.
func (l *Ledger) runsWith(ctx context.Context, host string, after, last int64, most int) (found []runWith, err error) {
	name := appendText(nil, host)
	rows, err := l.db.rows(ctx, l.runsWithQuery(), after, last, []byte{packRaw}, name)
	err = each(rows, err, func(row scanner) error {
		var packed []byte
		run, err := scanRun(ahead{row, []any{&packed}})
		if err != nil {
			return err
		}
		hosts, err := placesOf(packed, name, run.Total)
		if err != nil || len(hosts) == 0 {
			return err
		}
		if found = append(found, runWith{run, hosts}); len(found) == most {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}

// runsWithQuery leaves out runs whose list of hosts is not compressed, as that of few hosts, and
// has not the name.
func (l *Ledger) runsWithQuery() string {
	return `SELECT m.hosts, ` + runColumns + ` FROM runs` + l.db.byOldest + ` CROSS JOIN materials m
		WHERE ended = 0 AND seq > $1 AND seq <= $2 AND m.run = seq AND m.run > $1 AND m.run <= $2
		AND (substr(m.hosts, 1, 1) <> $3 OR ` + fmt.Sprintf(l.db.holds, "m.hosts", "$4") + `) ORDER BY seq`
}

// openIn returns the jobs in a run that have no outcome and are on a host of a tenant in scope.
func (l *Ledger) openIn(ctx context.Context, s Scope, in *runWith, host string) (jobs []OpenJob, err error) {
	var at []int
	for i, h := range in.hosts {
		if s.Allows(h.Tenant) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil, nil
	}
	slices.Sort(at)
	all, err := l.jobsAt(ctx, &in.run, func(i int) JobHost { return in.hosts[i] }, at, host)
	for _, j := range all {
		if j.Outcome == "" {
			j.Check = in.run.Check
			jobs = append(jobs, OpenJob{j, in.run})
		}
	}
	return jobs, err
}

// placesOf finds the jobs of a host among packed hosts: name is the host as packHosts writes it.
func placesOf(packed, name []byte, total int) (map[int]JobHost, error) {
	data, err := unpack(packed)
	if err != nil || !bytes.Contains(data, name) {
		return nil, err
	}
	places := map[int]JobHost{}
	for i := range total {
		var texts [2]string
		is := bytes.HasPrefix(data, name)
		for k := range texts {
			n, used := binary.Uvarint(data)
			if used <= 0 || n > uint64(len(data)-used) {
				return nil, fmt.Errorf("unpack hosts: %d of %d are there", i, total)
			}
			if is {
				texts[k] = string(data[used : used+int(n)])
			}
			data = data[used+int(n):]
		}
		if is {
			places[i] = JobHost{Host: texts[0], Tenant: texts[1]}
		}
	}
	return places, nil
}

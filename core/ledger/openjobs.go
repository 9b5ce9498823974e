package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
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

// OpenJobs lists the jobs of a host that have no outcome, on hosts of tenants in scope: by the
// tenant of their run, those of the oldest run first. It searches the lists of hosts that runs have
// since they were accepted, so that nothing is written for it. A page may have fewer jobs than its
// limit, or none, and more behind it.
func (l *Ledger) OpenJobs(ctx context.Context, s Scope, host string, p Page) (jobs []OpenJob, next string, err error) {
	from, more, err := p.at("open", 1, 0)
	if err != nil {
		return nil, "", err
	}
	what := "list open jobs of host " + clean(host, maxID)
	var after place
	if more {
		after.seq = from.Key[0]
		err := l.db.row(ctx, `SELECT tenant FROM runs WHERE seq = $1`, after.seq).Scan(&after.tenant)
		if none(err) {
			return nil, "", p.foreign("open")
		}
		if err != nil {
			return nil, "", translate(what, err)
		}
	}
	to, more, err := l.searchTo(ctx, after)
	if err != nil {
		return nil, "", translate(what, err)
	}
	found, err := l.runsWith(ctx, s, host, after, to, p.limit()+1)
	if err != nil {
		return nil, "", translate(what, err)
	}
	if len(found) > p.limit() { // those behind are of another page
		first := placeOf(&found[p.limit()].run)
		to, more = first, more || first != to
	}
	for i := range found {
		some, err := l.openIn(ctx, &found[i], host)
		if err != nil {
			return nil, "", translate(what, err)
		}
		jobs = append(jobs, some...)
	}
	if jobs, next = cut(jobs, p, func(j OpenJob) cursor { return placeOf(&j.Of).cursor() }); next == "" && more {
		next = to.cursor().String()
	}
	return jobs, next, nil
}

// place is that of a run among those that are not complete.
type place struct {
	tenant string
	seq    int64
}

func placeOf(r *Run) place { return place{r.Tenant, r.seq} }

// cursor has no tenant: the run may be another's.
func (p place) cursor() cursor { return cursor{List: "open", Key: []int64{p.seq}} }

// searchTo returns the last run that a page searches which begins behind a run, and whether others
// are behind it.
func (l *Ledger) searchTo(ctx context.Context, after place) (to place, more bool, err error) {
	var behind int
	err = l.db.row(ctx, l.searchQuery(), after.tenant, after.seq).Scan(&to.tenant, &to.seq, &behind)
	if none(err) {
		return after, false, nil
	}
	return to, behind > 0, err
}

// searchQuery reads one run more than a page searches, to know whether there is one.
func (l *Ledger) searchQuery() string {
	return `SELECT tenant, seq, n - searched FROM (
			SELECT tenant, seq, row_number() OVER (ORDER BY tenant, seq) AS searched, count(*) OVER () AS n, sum(total) OVER (ORDER BY tenant, seq) - total AS before
			FROM (SELECT tenant, seq, total FROM runs` + l.db.byOpen + ` WHERE ended = 0 AND (tenant, seq) > ($1, $2) ORDER BY tenant, seq LIMIT ` + strconv.Itoa(searchedRuns+1) + `) o) s
		WHERE before < ` + strconv.Itoa(searchedHosts) + ` AND searched <= ` + strconv.Itoa(searchedRuns) + ` ORDER BY searched DESC LIMIT 1`
}

// runWith is a run that has a host.
type runWith struct {
	run   Run
	hosts map[int]JobHost // by index: the host and its tenant
}

// runsWith returns the first runs behind one, up to another, that are not complete and have a host
// of a tenant in scope.
func (l *Ledger) runsWith(ctx context.Context, s Scope, host string, after, to place, most int) (found []runWith, err error) {
	name := appendText(nil, host)
	rows, err := l.db.rows(ctx, l.runsWithQuery(), after.tenant, after.seq, to.tenant, to.seq, []byte{packRaw}, name)
	err = each(rows, err, func(row scanner) error {
		var packed []byte
		run, err := scanRun(ahead{row, []any{&packed}})
		if err != nil {
			return err
		}
		hosts, err := placesOf(packed, name, run.Total)
		maps.DeleteFunc(hosts, func(_ int, h JobHost) bool { return !s.Allows(h.Tenant) })
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
// has not the name. A subquery reads the list of each run: in a join PostgreSQL would read those of
// all runs there are.
func (l *Ledger) runsWithQuery() string {
	return `SELECT list, ` + runColumns + ` FROM (SELECT *, (SELECT m.hosts FROM materials m WHERE m.run = seq
			AND (substr(m.hosts, 1, 1) <> $5 OR ` + fmt.Sprintf(l.db.holds, "m.hosts", "$6") + `)) AS list
		FROM runs` + l.db.byOpen + ` WHERE ended = 0 AND (tenant, seq) > ($1, $2) AND (tenant, seq) <= ($3, $4)) o
		WHERE list IS NOT NULL ORDER BY tenant, seq`
}

// openIn returns the jobs in a run that have no outcome.
func (l *Ledger) openIn(ctx context.Context, in *runWith, host string) (jobs []OpenJob, err error) {
	at := slices.Sorted(maps.Keys(in.hosts))
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

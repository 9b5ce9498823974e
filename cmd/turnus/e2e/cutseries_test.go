//go:build linux && labs

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

const (
	unqueue = "(*Ledger).Unqueue"
	release = "(*Ledger).Release"
)

// inTurn are functions of the ledger whose first commits follow one another: one service, over its
// lives, dies behind each of them.
func inTurn() []string {
	return []string{
		"(*Ledger).mark", "(*Ledger).PruneFacts", // at its start
		"(*Ledger).UnelectOnce", "(*Ledger).RetryNotification", unqueue, "(*Ledger).Report",
		"(*Ledger).change", // the approval of a wave
		"(*Ledger).DropHandlers", "(*Ledger).RevokeToken", release, "(*Ledger).putOutput", "(*Ledger).MakeSchedulesDue",
	}
}

// series has one service die in each of its lives, while people do more than in other cuttings. Its
// ledger and its queue are encrypted; the queue is Redis, forgets a run once, and is full once.
type series struct {
	next   []point // where the next lives die
	filled bool    // the fire times of the past were asked for
	admin  *goredis.Client
}

// cutOutput has a job print more than its result keeps, in bytes.
const cutOutput = 80_000

// inTurn is the cutting of a service that dies behind the first commit of each function in turn.
func (l *lab) inTurn(t *testing.T) *cutting {
	t.Helper()
	var lives []point
	for _, name := range inTurn() {
		lives = append(lives, point{at: 1, in: name, after: true})
	}
	c := l.cutting(t, lives[0])
	c.redis = startRedis(t)
	c.series = &series{next: lives[1:], admin: c.redis.admin()}
	c.receiver.refuse(true)
	c.serialFiles()
	c.start("admin", "keys", "new", c.ring()).wants(0)
	return c
}

// held is the file that there is while the election of a host is being committed.
func (c *cutting) held() string { return filepath.Join(c.dir, "held") }

// serial returns the arguments of a service that dies in each of its lives. In the lives that die,
// the commit of an election waits. At the start Redis has room.
func (c *cutting) serial(dies bool) []string {
	if err := c.full(false); err != nil {
		c.t.Fatal(err)
	}
	if dies {
		c.env = append(c.env, "CUT_HOLD=(*Ledger).ElectOnce", "CUT_HELD="+c.held())
	}
	return []string{"--redis", c.redis.url(), "--keyring", c.ring(), "--keep-outputs", "90d"}
}

// waves approves a wave, and drops the handler that a host of it leaves pending.
func (c *cutting) waves(ctx context.Context, ask *client.Client, notices []api.Notification) (done bool, err error) {
	run, err := c.create(ctx, ask, "waves", api.NewRun{Playbook: "waves"})
	if err != nil {
		return false, err
	}
	if !over(run) {
		if run.Waits != nil && slices.ContainsFunc(notices, of("approval_needed", run.ID)) {
			_, err = ask.ApproveRun(ctx, run.ID, api.Approve{Wave: run.Waits.Wave, Approve: true})
		}
		return false, err
	}
	pending, err := ask.Handlers(ctx, client.HandlerFilter{Playbook: "waves"}, client.Page{})
	if err == nil && len(pending.Items) > 0 {
		_, err = ask.DropHandlers(ctx, api.DropHandlers{Playbook: "waves"})
	}
	return err == nil && len(pending.Items) == 0, err
}

// visitor makes a token, and revokes it.
func (c *cutting) visitor(ctx context.Context, ask *client.Client, _ []api.Notification) (done bool, err error) {
	tokens, err := ask.Tokens(ctx, client.Page{})
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(tokens.Items, func(t api.Token) bool { return t.Name == "visitor" })
	if i < 0 {
		_, err = ask.CreateToken(ctx, api.NewToken{Name: "visitor", Tenant: "*", Role: "viewer"})
		return false, err
	}
	if !tokens.Items[i].Revoked.IsZero() {
		return true, nil
	}
	_, err = ask.RevokeToken(ctx, tokens.Items[i].ID)
	return false, err
}

// full has Redis take no writes, or take them.
func (c *cutting) full(full bool) error {
	most := "0" // no bound
	if full {
		most = "1"
	}
	return c.admin.ConfigSet(context.Background(), "maxmemory", most).Err()
}

// crowded creates a run while Redis is full: its claim is released, and it is queued by a later
// life.
func (c *cutting) crowded(ctx context.Context, ask *client.Client, _ []api.Notification) (done bool, err error) {
	if c.in == release {
		if err := c.full(true); err != nil {
			return false, err
		}
	}
	run, err := c.create(ctx, ask, "crowded", api.NewRun{Playbook: "short", LaunchOptions: api.LaunchOptions{Limit: []string{"h0"}}})
	return over(run), err
}

// backfill launches two fire times of the past: the second run begins when the first has ended.
func (c *cutting) backfill(ctx context.Context, ask *client.Client, _ []api.Notification) (done bool, err error) {
	const name = "yearly"
	day := func(year int) time.Time { return time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC) }
	if _, err := ask.Schedule(ctx, name); errors.Is(err, core.ErrNotFound) {
		_, err = ask.PutSchedule(ctx, name, "", api.NewSchedule{Playbook: "yearly", Cron: "0 3 1 2 *", Timezone: "UTC"})
		return false, err
	} else if err != nil {
		return false, err
	}
	runs, err := ask.Runs(ctx, client.RunFilter{Playbook: "yearly"}, client.Page{})
	if err != nil {
		return false, err
	}
	if len(runs.Items) == 0 && !c.filled { // once in each life: it launches no fire time again
		_, err = ask.BackfillSchedule(ctx, name, api.Backfill{From: day(2021), To: day(2023)})
		c.filled = err == nil
	}
	return len(runs.Items) > 1 && !slices.ContainsFunc(runs.Items, func(r api.Run) bool { return !over(r) }), err
}

// unelect has a run stop while the election of a host is being committed, which the program that
// cuts holds until the queue has ended all jobs: no host calls the step then.
func (c *cutting) unelect(ctx context.Context, ask *client.Client) (done bool, err error) {
	run, err := c.create(ctx, ask, "unelected", api.NewRun{Playbook: "unelected"})
	if err != nil {
		return false, err
	}
	if l := run.Live; !over(run) && l != nil && l.Released > 0 && l.Pending+l.Blocked+l.InFlight+l.Waiting+l.Suspended == 0 {
		c.file("held.end", "")
	}
	return over(run), nil
}

// serialFiles writes the playbooks of a series.
func (c *cutting) serialFiles() {
	c.file("ops/playbooks/yearly.yaml", fmt.Sprintf("playbook: yearly\ntargets: host.name == 'h0'\nsteps:\n  - {uses: lab.trace, with: {file: %s/yearly, print: %d}}\n", c.dir, cutOutput))
	c.file("ops/playbooks/waves.yaml", fmt.Sprintf(`playbook: waves
targets: host.name in ['h0', 'h1']
strategy: {waves: [1, 100%%], pause_between: approve}
steps:
  - {name: first, uses: lab.trace, notify: [later], with: {file: %[1]s/first}}
  - {name: broken, when: host.name == 'h1', uses: lab.leak, with: {how: fail}}
handlers:
  - {name: later, uses: lab.trace, with: {file: %[1]s/later}}
`, c.dir))
	c.file("ops/playbooks/unelected.yaml", fmt.Sprintf(`playbook: unelected
targets: host.name in ['h0', 'h1']
strategy: {stop_after: 1}
steps:
  - {name: meet, when: host.name == 'h1', uses: lab.trace, with: {file: %[1]s/meet, await: %[2]s}}
  - {name: broken, when: host.name == 'h1', uses: lab.leak, with: {how: fail}}
  - {name: elected, once: true, uses: lab.trace, with: {file: %[1]s/elected}}
`, c.dir, c.held()))
}

// serialProblems judges what became of what a series does.
func (c *cutting) serialProblems(ctx context.Context, ask *client.Client) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, problem := range []string{
		c.audited(ctx, ask, "run", c.runs["waves"], "run.approve"), c.audited(ctx, ask, "playbook", "waves", "handlers.drop"),
		c.audited(ctx, ask, "token", "", "token.revoke"), c.audited(ctx, ask, "schedule", "yearly", "schedule.backfill"),
		c.ended(ctx, ask, "crowded", map[string]core.Outcome{"h0": core.Changed}),
		c.ended(ctx, ask, "waves", map[string]core.Outcome{"h0": core.Changed, "h1": core.Failed}),
		// The host that was elected when the queue had ended its job calls nothing.
		c.ended(ctx, ask, "unelected", map[string]core.Outcome{"h0": core.Cancelled, "h1": core.Failed}),
	} {
		if problem != "" {
			bad("%s", problem)
		}
	}
	if called := executions(c.t, c.dir+"/elected"); len(called) > 0 {
		bad("%s called a step with once, and its job had ended", called[0].host)
	}
	tokens, err := ask.Tokens(ctx, client.Page{})
	if of := slices.DeleteFunc(tokens.Items, func(t api.Token) bool { return t.Name != "visitor" }); err != nil || len(of) != 1 || of[0].Revoked.IsZero() {
		bad("the tokens that were made and revoked are %v, expected one (%v)", of, err)
	}
	yearly, err := ask.Runs(ctx, client.RunFilter{Playbook: "yearly"}, client.Page{})
	if err != nil || len(yearly.Items) != 2 {
		bad("%d runs of two fire times (%v)", len(yearly.Items), err)
	}
	for _, run := range yearly.Items {
		if problem := outputProblem(ctx, ask, core.JobID{Run: run.ID}); problem != "" {
			bad("%s", problem)
		}
	}
	return problems
}

// outputProblem returns a problem unless a job has one output, whole.
func outputProblem(ctx context.Context, ask *client.Client, job core.JobID) string {
	outputs, err := ask.Outputs(ctx, job)
	if err != nil || len(outputs.Items) != 1 || outputs.Items[0].Size != cutOutput || outputs.Items[0].Cut {
		return fmt.Sprintf("the outputs of job %s, which printed %d bytes, are %v (%v)", job, cutOutput, outputs.Items, err)
	}
	text, err := ask.Output(ctx, job, outputs.Items[0].Name)
	if err != nil {
		return fmt.Sprintf("output %s of job %s is listed, and not there: %v", outputs.Items[0].Name, job, err)
	}
	defer func() { _ = text.Close() }()
	if n, err := io.Copy(io.Discard, text); err != nil || n != cutOutput {
		return fmt.Sprintf("output %s of job %s has %d bytes, expected %d (%v)", outputs.Items[0].Name, job, n, cutOutput, err)
	}
	return ""
}

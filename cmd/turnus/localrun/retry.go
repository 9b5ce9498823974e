package localrun

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// FromFlags are where the hosts of a retry begin.
type FromFlags struct{ From, Else string }

// Add gives the command the flags. Their help begins with the text with.
func (f *FromFlags) Add(c *cobra.Command, with string) {
	c.Flags().StringVar(&f.From, "from", "", with+"failed-step: continue at the step that failed, and do not call the steps before it again")
	c.Flags().StringVar(&f.Else, "else", "", with+"restart: begin with the first step on hosts that --from cannot continue")
	_ = c.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{api.FromFailedStep}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("else", cobra.FixedCompletions([]string{api.ElseRestart}, cobra.ShellCompDirectiveNoFileComp))
}

// Check refuses values that mean nothing.
func (f *FromFlags) Check() error {
	if f.From != "" && f.From != api.FromFailedStep {
		return console.Invalid("--from %s: expected %s", f.From, api.FromFailedStep)
	}
	if f.Else != "" && (f.Else != api.ElseRestart || f.From == "") {
		return console.Invalid("--else %s: expected %s, with --from", f.Else, api.ElseRestart)
	}
	return nil
}

func (f *PlayFlags) checkFrom() error {
	switch err := f.from.Check(); {
	case err != nil || f.from.From == "":
		return err
	case !f.RetryFailed:
		return console.Invalid("--from %s: expected --retry-failed with it\nhint: --retry-failed --from %[1]s continues the playbook's last run on the hosts that did not succeed", f.from.From)
	case f.check:
		return console.Invalid("--from %s: expected no --check with it, because a check calls every step\nhint: leave out --from, or --check", f.from.From)
	}
	return nil
}

// retry has the parts of a playbook's last run for a launch on the hosts that did not succeed.
type retry struct {
	run   ledger.Run
	hosts []core.Host
	kept  func(*playbooks.Playbook, []core.Host) (map[string]int, error) // as launch.Options; nil: without --from
	at    controller.Resumption                                          // known once kept was called
}

// retryOf reads the last run of the playbook that o is for.
func (f *PlayFlags) retryOf(ctx context.Context, record *Record, p *playbooks.Playbook, hosts []core.Host, o launch.Options) (*retry, error) {
	run, err := record.lastRun(ctx, p.Name)
	if err != nil {
		return nil, err
	}
	m, err := record.Ledger.Material(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	again := &retry{run: run}
	if again.hosts, err = onlyFailed(ctx, record, &run, m.Jobs, hosts); err != nil || f.from.From == "" {
		return again, err
	}
	before, err := (&launch.Restorer{Types: o.Types}).Restore(m.Snapshot, m.Queue)
	if err != nil {
		return nil, err
	}
	if err := sameSteps(run.ID, &before.Snapshot, o); err != nil {
		return nil, err
	}
	again.kept = func(now *playbooks.Playbook, hosts []core.Host) (map[string]int, error) {
		var err error
		again.at, err = controller.ResumeHosts(ctx, record.Ledger, ledger.AllTenants(), &run, before, m.Jobs, now, hosts)
		return again.at.Kept(), err
	}
	return again, nil
}

// onlyFailed returns the hosts that did not succeed in the last run.
func onlyFailed(ctx context.Context, record *Record, last *ledger.Run, jobs []ledger.JobHost, hosts []core.Host) ([]core.Host, error) {
	failed, err := controller.HostsOf(ctx, record.Ledger, last.ID, jobs, func(o core.Outcome) bool { return !o.Good() })
	if err != nil {
		return nil, err
	}
	var chosen []core.Host
	for _, h := range hosts {
		if _, is := failed[h.Name]; is {
			chosen = append(chosen, h)
		}
	}
	if len(chosen) == 0 {
		return nil, console.Invalid("--retry-failed: the last run of %q has no failed host in this inventory\nhint: leave --retry-failed out to run on all hosts", last.Playbook)
	}
	return chosen, nil
}

// sameSteps refuses to continue a run whose flags made its steps others: a service takes the flags
// from the record, and here they are given again.
func sameSteps(run string, before *snapshot.Snapshot, o launch.Options) error {
	var other []string
	names := maps.Clone(before.Vars)
	if names == nil {
		names = map[string]any{}
	}
	maps.Copy(names, o.Vars)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := before.Vars[name]
		is, has := o.Vars[name]
		if had != has || !sameJSON(was, is) {
			other = append(other, "-e "+name)
		}
	}
	for _, tags := range []struct {
		flag    string
		was, is []string
	}{{"--tags", before.Tags, o.Tags}, {"--skip-tags", before.SkipTags, o.SkipTags}} {
		if !slices.Equal(slices.Sorted(slices.Values(tags.was)), slices.Sorted(slices.Values(tags.is))) {
			other = append(other, tags.flag)
		}
	}
	if !sameJSON(before.Become, o.Become) {
		other = append(other, "--become")
	}
	if len(other) > 0 {
		return console.Invalid("--from %s: not as in run %s: %s. Its steps may have done something else\nhint: give the same as for that run, or leave out --from",
			api.FromFailedStep, run, strings.Join(other, ", "))
	}
	return nil
}

func sameJSON(a, b any) bool {
	one, errOne := json.Marshal(a)
	two, errTwo := json.Marshal(b)
	return errOne == nil && errTwo == nil && bytes.Equal(one, two)
}

// keep gives the launch what the last run has for it: results of steps with once, and of the steps
// that are not called again.
func (f *PlayFlags) keep(ctx context.Context, record *Record, r *retry, l *launch.Launch) error {
	if err := record.keepOnce(ctx, &r.run, l); err != nil || r.kept == nil {
		return err
	}
	resumed, restarted, err := r.at.Apply(l, f.from.Else == api.ElseRestart)
	if err != nil {
		return &console.Exit{Code: console.ExitInvalid, Err: err}
	}
	if f.Retried == nil {
		return nil
	}
	differs := &api.Retried{Run: r.run.ID, Resumed: resumed}
	for _, h := range restarted {
		differs.Restarted = append(differs.Restarted, api.Restarted(h))
	}
	f.Retried(differs)
	return nil
}

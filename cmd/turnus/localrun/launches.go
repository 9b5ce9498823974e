package localrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// PlayFlags define what is launched on which hosts, and how.
type PlayFlags struct {
	Inv          InventoryFlags
	vars         VarFlags
	tags, skip   []string
	check, diff  bool
	become       becomeFlags
	ask          bool
	con          *console.Console // asks; nil where nothing is asked
	MaxInFlight  int
	RetryFailed  bool
	from         FromFlags // of RetryFailed
	Windows      windowFlags
	secrets      map[string]secrets.Ref // references that the runs take along
	nodeSecrets  []string               // see launch.Options
	SkipNoWindow bool                   // leave out hosts that no window fits, and list them in Launch.NoWindow
	Command      *launch.Command        // launched in the place of playbooks; nil: playbooks are
	Reason       string                 // why it is launched

	At time.Time // of the launch; now when it is zero

	// NoWindow gets the error of a playbook of which no window fits any host, and Prepare prepares
	// the others; nil: Prepare returns the error.
	NoWindow func(*launch.NoWindowError)

	// Retried gets what --from does on the hosts of each launch; nil: nothing is shown.
	Retried func(*api.Retried)
}

// Add gives the command the flags.
func (f *PlayFlags) Add(c *cobra.Command) {
	f.Inv.Add(c)
	f.vars.Add(c)
	f.Windows.add(c)
	c.Flags().StringSliceVarP(&f.tags, "tags", "t", nil, "only steps with one of these tags")
	c.Flags().StringSliceVar(&f.skip, "skip-tags", nil, "no steps with one of these tags")
	_ = c.RegisterFlagCompletionFunc("tags", completeTags)
	_ = c.RegisterFlagCompletionFunc("skip-tags", completeTags)
	_ = c.RegisterFlagCompletionFunc("extra-vars", completeParams)
	c.Flags().BoolVarP(&f.check, "check", "C", false, "change nothing: report what would change; job types that cannot are skipped")
	c.Flags().BoolVarP(&f.diff, "diff", "D", false, "show what changes in files")
	c.Flags().BoolVar(&f.RetryFailed, "retry-failed", false, "only hosts that did not succeed in the playbook's last run; with --from failed-step, at the step that failed")
	f.from.Add(c, "with --retry-failed, ")
	c.Flags().IntVar(&f.MaxInFlight, "max-in-flight", 0, "hosts of one run at the same time; 0 is the playbook's max_in_flight")
}

// AddCommand gives the command those of the flags that mean something for a Command.
func (f *PlayFlags) AddCommand(c *cobra.Command) {
	f.Inv.AddSources(c)
	f.Windows.add(c)
	c.Flags().IntVar(&f.MaxInFlight, "max-in-flight", 0, "hosts at the same time; 0 is no limit")
}

// Prepare loads the playbooks and makes a launch of each on hosts of an inventory, with the results
// of earlier runs from a record; a nil record has none.
func (f *PlayFlags) Prepare(ctx context.Context, paths []string, inv *inventory.Inventory, hosts []core.Host, sup *host.Supervisor, record *Record) ([]*launch.Launch, error) {
	if f.MaxInFlight < 0 {
		return nil, console.Invalid("--max-in-flight %d: expected at least 1, or 0 for the playbook's", f.MaxInFlight)
	}
	if err := f.checkFrom(); err != nil {
		return nil, err
	}
	become, err := f.become.rule()
	if err != nil {
		return nil, err
	}
	opts := node.PlaybookOptions(sup, nil)
	opts.Ask = node.AskJobTypes(ctx, sup)
	all, vars, err := f.load(ctx, paths, hosts, opts)
	if err != nil {
		return nil, err
	}
	if err := f.Windows.load(); err != nil {
		return nil, err
	}
	var launches []*launch.Launch
	given, err := varsOf(all, vars)
	if err != nil {
		return nil, err
	}
	for i, p := range all {
		files, err := filepath.Abs(filepath.Dir(p.File))
		if err != nil {
			return nil, err
		}
		facts, err := record.facts(ctx, p)
		if err != nil {
			return nil, err
		}
		o := launch.Options{
			Vars: given[i], Tags: f.tags, SkipTags: f.skip, Check: f.check, Diff: f.diff, Become: become, Reason: f.Reason, MaxInFlight: f.MaxInFlight,
			LaunchedBy: whoami(), Files: files, Types: opts.Types, Place: "turnus run of " + whoami(), Windows: f.Windows.Calendar(), Board: f.Windows.name, SkipNoWindow: f.SkipNoWindow,
			Now: f.At, Need: record.need(ctx), Facts: facts, Inventory: inv.Hosts, Secrets: f.secrets, NodeSecrets: f.nodeSecrets, Source: f.Inv.sourceOf(inv),
		}
		if o.Asked.Select = f.Inv.sel; f.Inv.Limit != "" {
			o.Asked.Limit = []string{f.Inv.Limit}
		}
		chosen, again := hosts, (*retry)(nil)
		if f.RetryFailed {
			if again, err = f.retryOf(ctx, record, p, hosts, o); err != nil {
				return nil, err
			}
			chosen, o.Kept, o.Asked.Retry = again.hosts, again.kept, again.run.ID
		}
		l, err := launch.Prepare(p, chosen, o)
		if none, ok := errors.AsType[*launch.NoWindowError](err); ok && f.NoWindow != nil {
			f.NoWindow(none)
			continue
		}
		if errors.Is(err, core.ErrNotFound) {
			return nil, &console.Exit{Code: console.ExitInvalid, Err: err}
		}
		if err == nil && again != nil {
			err = f.keep(ctx, record, again, l)
		}
		if err != nil {
			return nil, err
		}
		launches = append(launches, l)
	}
	return launches, nil
}

// load returns the playbooks to launch, with the vars that are given to them.
func (f *PlayFlags) load(ctx context.Context, paths []string, hosts []core.Host, opts playbooks.Options) ([]*playbooks.Playbook, map[string]any, error) {
	if f.Command != nil {
		if n := countWindowed(hosts); n > 0 && len(f.Windows.paths) == 0 && !f.Command.OutsideWindows {
			return nil, nil, console.Invalid("%d of %s have a window set, and no windows are given\nhint: --windows windows.yaml keeps to them; --outside-windows runs now all the same",
				n, core.Plural(len(hosts), "host"))
		}
		p, vars, err := f.Command.Playbook(hosts, opts.Types)
		return []*playbooks.Playbook{p}, vars, err
	}
	vars, err := f.vars.Values()
	if err != nil {
		return nil, nil, err
	}
	opts.Vars = vars
	all, err := playbooks.Load(paths, opts)
	if err != nil {
		return nil, nil, err
	}
	if f.ask {
		if all, err = f.askParams(ctx, paths, all, vars, opts); err != nil {
			return nil, nil, err
		}
	}
	if len(all) == 0 {
		return nil, nil, console.Invalid("no playbook in %v", paths)
	}
	if i := slices.IndexFunc(all, func(p *playbooks.Playbook) bool { return p.Name == launch.CommandName }); i >= 0 { // pending handlers and earlier runs belong to a playbook's name
		return nil, nil, console.Invalid("%s: %s is the name of runs of commands\nhint: write another name there: playbook: NAME", all[i].File, all[i].Name)
	}
	return all, vars, errors.Join(knownTags("--tags", f.tags, all), knownTags("--skip-tags", f.skip, all))
}

func countWindowed(hosts []core.Host) (n int) {
	for _, h := range hosts {
		if h.WindowSet != "" {
			n++
		}
	}
	return n
}

// varsOf shares out what -e gives among several playbooks: each has the vars that it knows, and one
// that none knows is refused.
func varsOf(all []*playbooks.Playbook, vars map[string]any) ([]map[string]any, error) {
	out := make([]map[string]any, len(all))
	if len(all) == 1 {
		out[0] = vars // the launch refuses what it does not know
		return out, nil
	}
	for name, value := range vars {
		one, known := map[string]any{name: value}, false
		var refused error
		for i, p := range all {
			if err := p.CheckVars(one); err != nil {
				refused = err
				continue
			}
			if known = true; out[i] == nil {
				out[i] = map[string]any{}
			}
			out[i][name] = value
		}
		if !known {
			return nil, refused
		}
	}
	return out, nil
}

// knownTags refuses a tag that no step has: misspelt, it would skip what is wanted, or run what is
// not.
func knownTags(flag string, tags []string, all []*playbooks.Playbook) error {
	known := map[string]bool{}
	for _, p := range all {
		for _, s := range p.Steps {
			for _, tag := range s.Tags {
				known[tag] = true
			}
		}
	}
	for _, tag := range tags {
		if known[tag] || tag == "always" || tag == "never" { // always and never have a meaning even if no step has them
			continue
		}
		hint := cmp.Or(yamlread.DidYouMean(tag, slices.Sorted(maps.Keys(known))), "tags there are: "+cmp.Or(strings.Join(slices.Sorted(maps.Keys(known)), ", "), "none"))
		return console.Invalid("%s %s: no step of the playbooks has this tag\nhint: %s", flag, tag, hint)
	}
	return nil
}

func whoami() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s (%s)", u.Username, u.Uid)
}

package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// launchFlags set how a playbook is launched on a server, now or by a schedule.
type launchFlags struct {
	vars  localrun.VarFlags
	limit string
}

func (f *launchFlags) add(c *cobra.Command, o *api.LaunchOptions) {
	f.vars.Add(c)
	fl := c.Flags()
	fl.StringVarP(&f.limit, "limit", "l", "", "only these hosts of the playbook's: names, groups, globs, !not, &and, @FILE")
	fl.StringSliceVarP(&o.Tags, "tags", "t", nil, "only steps with one of these tags")
	fl.StringSliceVar(&o.SkipTags, "skip-tags", nil, "no steps with one of these tags")
	fl.BoolVarP(&o.Check, "check", "C", false, "change nothing: report what would change; job types that cannot are skipped")
	fl.BoolVarP(&o.Diff, "diff", "D", false, "show what changes in files")
	fl.IntVar(&o.MaxInFlight, "max-in-flight", 0, "hosts at the same time; 0 is the playbook's max_in_flight")
	reasonFlag(c, &o.Reason)
}

// read fills in what flags name indirectly.
func (f *launchFlags) read(o *api.LaunchOptions) (err error) {
	if o.Limit, err = remote.LimitParts(f.limit); err == nil {
		o.Vars, err = f.vars.Values()
	}
	return err
}

// submitFlags select what is launched on a server, and how.
type submitFlags struct {
	remote      remote.Flags
	launch      launchFlags
	key         string
	at          string
	timezone    string
	newest      bool
	startWithin string
	criticality int
	follow      bool
	ask         bool
	new         api.NewRun
}

func (a *app) submitCmd() *cobra.Command {
	var f submitFlags
	c := &cobra.Command{
		Use:   "submit PLAYBOOK",
		Short: "Run a playbook of the server's project, now or at a time",
		Long: `Run a playbook of the server's project, by its name. The id of the run goes to stdout. Once it
is there the run happens, even if processes die.

With --at the server launches it then, once, with the playbook and the hosts as they are now:
turnus runs show prints the commit and the generations of sources. Windows, freezes, approvals
and secrets are those of then. --newest takes the project as it is then. The name of the
schedule goes to stdout: turnus schedules show prints which run it made, and turnus schedules
rm removes it before its time.

With --follow it is watched to its end, with the exit codes of turnus run. Ctrl-C ends the
watching only; turnus runs cancel ends the run.`,
		Example: `  turnus submit ntp --follow
  turnus submit firmware --limit 'web*' -e image=8.4.2 --check --diff
  turnus submit dns-rollover --four-eyes --reason 'ticket 4711'   # somebody else approves it: turnus runs approve RUN
  turnus submit ntp --at 2026-12-01T02:00 --timezone Europe/Zurich --start-within 2h
  run=$(turnus submit ntp) && turnus watch "$run"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.new.Playbook = args[0]
			if cmd.Flags().Changed("criticality") {
				f.new.Criticality = &f.criticality
			}
			refused, why := []string{"start-within", "timezone", "newest"}, "is for --at\nhint: turnus submit PLAYBOOK --at 2026-12-01T02:00 --timezone Europe/Zurich"
			if f.at != "" {
				refused, why = []string{"criticality", "paused", "four-eyes", "skip-no-window", "follow"}, "is not for --at: a schedule launches later, and leaves out hosts that no window fits"
			}
			for _, flag := range refused {
				if cmd.Flags().Changed(flag) {
					return console.Invalid("--%s %s", flag, why)
				}
			}
			return remote.Run(a.Console, &f.remote, func(ctx context.Context, c *client.Client, _ []string) error {
				if err := f.launch.read(&f.new.LaunchOptions); err != nil {
					return err
				}
				if f.ask {
					if err := a.askParams(ctx, c, &f.new); err != nil {
						return err
					}
				}
				if f.at != "" {
					return a.submitAt(ctx, c, &f)
				}
				return a.submit(ctx, c, &f)
			})(cmd, args)
		},
	}
	c.ValidArgsFunction = remote.Complete(&f.remote, playbookNames)
	f.remote.Add(c)
	f.launch.add(c, &f.new.LaunchOptions)
	remote.CompleteLaunch(c, &f.remote, func(args []string) string { return strings.Join(args, "") })
	fl := c.Flags()
	fl.StringVar(&f.at, "at", "", "launch it then: 2026-12-01T02:00 in --timezone, 2026-12-01T02:00[Europe/Zurich], or RFC 3339")
	fl.StringVar(&f.timezone, "timezone", "", "with --at: IANA time zone of the time (default: that of this machine)")
	fl.BoolVar(&f.newest, "newest", false, "with --at: launch the project and its hosts as they are then, not as they are now")
	fl.StringVar(&f.startWithin, "start-within", "", "with --at: drop it where no server could launch it so long after its time")
	fl.IntVar(&f.criticality, "criticality", 0, "0 to 1000: higher ones come first when a lost queue is rebuilt (default: the playbook's)")
	fl.BoolVar(&f.new.Paused, "paused", false, "accept it, but start nothing before turnus runs resume")
	fl.BoolVar(&f.new.FourEyes, "four-eyes", false, "start nothing before somebody else approves: turnus runs approve")
	fl.BoolVar(&f.new.SkipNoWindow, "skip-no-window", false, "leave out hosts that no window fits; without it such a run is refused")
	fl.BoolVar(&f.ask, "ask", false, "ask for the playbook's params that -e does not give")
	fl.BoolVarP(&f.follow, "follow", "F", false, "watch the run to its end, and exit as turnus run does")
	fl.StringVar(&f.key, "key", "", "makes it once: the same key and request again give the same run, as after a pipeline was restarted")
	return c
}

// askParams asks for the params of the server's playbook that no flag gives. The server checks the
// answers.
func (a *app) askParams(ctx context.Context, c *client.Client, n *api.NewRun) error {
	playbook, err := c.Playbook(ctx, n.Playbook)
	if err != nil {
		return err
	}
	var questions []console.Question
	for _, p := range playbook.Params {
		if _, given := n.Vars[p.Name]; !given {
			questions = append(questions, console.Question{Name: p.Name, Expected: p.Expected, Description: p.Description, Default: p.Default, Required: p.Required})
		}
	}
	n.Params, err = a.Prompt(ctx, questions)
	return err
}

func (a *app) submit(ctx context.Context, c *client.Client, f *submitFlags) error {
	run, err := c.CreateRun(ctx, cmp.Or(f.key, onceKey()), f.new)
	if err != nil {
		return err
	}
	a.reportWarnings(run)
	if f.follow {
		a.Message(run.ID + " is accepted")
		return runview.Watch(ctx, a.Console, c, run.ID)
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, run)
	}
	fmt.Fprintln(a.Out, run.ID)
	a.Message(fmt.Sprintf("%s: %s, %s; turnus watch %s", run.Playbook, core.Plural(run.Total, "host"), run.Phase, run.ID))
	return nil
}

// reportWarnings prints what the answer to a launch warns of.
func (a *app) reportWarnings(run api.Run) {
	for _, text := range run.Warnings {
		a.Report(a.Paint(console.Yellow, "warning: ") + text)
	}
}

// submitAt makes a schedule that triggers once.
func (a *app) submitAt(ctx context.Context, c *client.Client, f *submitFlags) error {
	n := api.NewSchedule{Playbook: f.new.Playbook, LaunchOptions: f.new.LaunchOptions, StartWithin: f.startWithin, Pin: !f.newest}
	at := f.at
	if f.timezone != "" {
		if strings.Contains(at, "[") {
			return console.Invalid("--timezone %s: --at %s has a zone of its own\nhint: leave out --timezone", f.timezone, at)
		}
		at += "[" + f.timezone + "]"
	}
	var err error
	if n.At, n.Timezone, err = zonedFlag("--at", at); err != nil {
		return err
	}
	s, err := c.PutSchedule(ctx, onceName(f.new.Playbook, cmp.Or(f.key, onceKey())), "", n)
	if err != nil {
		return err
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, s)
	}
	fmt.Fprintln(a.Out, s.Name)
	project := "with the project as it is then"
	if s.Pinned {
		project = "with the project as it is now"
	}
	if s.Revision != "" {
		project += ", " + s.Revision[:min(12, len(s.Revision))]
	}
	a.Message(fmt.Sprintf("%s: %s, %s; turnus schedules rm %s cancels it", s.Playbook, s.NextLocal, project, s.Name))
	return nil
}

// onceName returns the name of a schedule that triggers once, such as ntp-once-1a2b3c4d: the same
// for the same key.
func onceName(playbook, key string) string {
	const most = 40 // bytes of a playbook's name, which are ASCII
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("%s-once-%x", playbook[:min(len(playbook), most)], sum[:4])
}

// onceKey lets a request be sent again when no answer comes.
func onceKey() string { return rand.Text() }

func playbookNames(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.Playbooks(ctx, client.Page{Limit: 500})
	return core.Map(all.Items, func(b api.Playbook) string { return b.Name + "\t" + console.FirstLine(b.Description) }), err
}

package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// submitFlags say what is launched on a server, and how.
type submitFlags struct {
	remote      remoteFlags
	vars        localrun.VarFlags
	limit       string
	key         string
	criticality int
	follow      bool
	new         api.NewRun
}

func (a *app) submitCmd() *cobra.Command {
	var f submitFlags
	c := &cobra.Command{
		Use:   "submit PLAYBOOK",
		Short: "Run a playbook of the server's definitions",
		Long: `Run a playbook that the server's definitions hold, by its name. The run's id goes to
stdout. Once it is there the run happens, whatever dies meanwhile.

With --follow it is watched to its end, and the exit code is that of turnus run: 0 all
well; 2 some host failed; 3 cancelled; 4 some host unreachable, none failed. Ctrl-C ends
the watching only; turnus cancel ends the run.`,
		Example: `  turnus submit ntp --follow
  turnus submit branch-firmware --limit 'web*' -e image=8.4.2 --check --diff
  turnus submit dns-rollover --four-eyes      # somebody else approves it: turnus approve RUN
  run=$(turnus submit ntp) && turnus watch "$run"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.new.Playbook = args[0]
			if cmd.Flags().Changed("criticality") {
				f.new.Criticality = &f.criticality
			}
			return a.remote(&f.remote, func(ctx context.Context, c *client.Client, _ []string) error {
				return a.submit(ctx, c, &f)
			})(cmd, args)
		},
	}
	c.ValidArgsFunction = completion(&f.remote, playbookNames)
	f.remote.add(c)
	f.vars.Add(c)
	fl := c.Flags()
	fl.StringVarP(&f.limit, "limit", "l", "", "only these hosts of the playbook's: names, groups, globs, !not, &and, @FILE")
	fl.StringSliceVarP(&f.new.Tags, "tags", "t", nil, "only steps with one of these tags")
	fl.StringSliceVar(&f.new.SkipTags, "skip-tags", nil, "no steps with one of these tags")
	fl.BoolVarP(&f.new.Check, "check", "C", false, "change nothing: say what would change; job types that cannot are skipped")
	fl.BoolVarP(&f.new.Diff, "diff", "D", false, "show what changes in files")
	fl.IntVar(&f.new.MaxInFlight, "max-in-flight", 0, "hosts at once; 0 is the playbook's max_in_flight")
	fl.IntVar(&f.criticality, "criticality", 0, "0 to 1000: higher ones come first when a lost queue is rebuilt (default: the playbook's)")
	fl.BoolVar(&f.new.Paused, "paused", false, "accept it, but start nothing before turnus resume")
	fl.BoolVar(&f.new.FourEyes, "four-eyes", false, "start nothing before somebody else approves: turnus approve")
	fl.BoolVar(&f.new.SkipUnfit, "skip-unfit", false, "leave out hosts that no window fits; without it such a run is refused")
	fl.BoolVarP(&f.follow, "follow", "F", false, "watch the run to its end, and exit as turnus run does")
	fl.StringVar(&f.key, "key", "", "makes it once: the same key and request again give the same run, as after a pipeline was restarted")
	return c
}

func (a *app) submit(ctx context.Context, c *client.Client, f *submitFlags) error {
	var err error
	if f.new.Limit, err = limitParts(f.limit); err != nil {
		return err
	}
	if f.new.Vars, err = f.vars.Values(); err != nil {
		return err
	}
	run, err := c.CreateRun(ctx, cmp.Or(f.key, onceKey()), f.new)
	if err != nil {
		return err
	}
	if f.follow {
		a.Message(run.ID + " is accepted")
		return runview.Watch(ctx, a.Console, c, run.ID)
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, run)
	}
	fmt.Fprintln(a.Out, run.ID)
	a.Message(fmt.Sprintf("%s: %s, %s; turnus watch %s", run.Playbook, console.Plural(run.Total, "host"), run.Phase, run.ID))
	return nil
}

// onceKey lets a request be sent again when no answer comes.
func onceKey() string { return rand.Text() }

// maxLimit bounds the hosts that @FILE of --limit names.
const maxLimit = 4 << 20

// limitParts reads @FILE here: the server has other files.
func limitParts(limit string) ([]string, error) {
	if limit == "" {
		return nil, nil
	}
	var parts []string
	for part := range strings.SplitSeq(limit, ",") {
		file, isFile := strings.CutPrefix(strings.TrimSpace(part), "@")
		if !isFile {
			parts = append(parts, part)
			continue
		}
		text, err := settings.ReadFile(file, maxLimit+1)
		if err != nil {
			return nil, console.Invalid("--limit: %w", err)
		}
		if len(text) > maxLimit {
			return nil, console.Invalid("--limit: %s has more than 4 MiB", file)
		}
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
				parts = append(parts, line)
			}
		}
	}
	return parts, nil
}

func playbookNames(ctx context.Context, c *client.Client) ([]string, error) {
	books, err := c.Playbooks(ctx, client.Page{Limit: 500})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(books.Items))
	for i, b := range books.Items {
		names[i] = b.Name + "\t" + console.FirstLine(b.Description)
	}
	return names, nil
}

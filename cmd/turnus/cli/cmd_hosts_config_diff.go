package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/configs"
)

func (a *app) configsDiffCmd() *cobra.Command {
	var f configsFlags
	c := &cobra.Command{
		Use:   "diff [HOST...]",
		Short: "Show what changed in hosts' configurations",
		Long: `Show changes of hosts' configurations: of a HOST, its newest version against the one before.

--since and --run compare the state before with the newest such version. Without a HOST they take
every host that has one. --from and --to name versions.`,
		Example: `  turnus hosts config diff fw1
  turnus hosts config diff --since 24h
  turnus hosts config diff --run 20261120-021500-ab3cd5ef -o json
  turnus hosts config diff fw1 --from 3f2c81d0a9b1 --to 77aa01c2d3e4`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.configsDiff(cmd.Context(), &f, args) },
	}
	f.add(c)
	f.addChoice(c)
	c.Flags().StringVar(&f.from, "from", "", "version to compare from (default: the one before)")
	c.Flags().StringVar(&f.to, "to", "", "version to compare to (default: the newest)")
	return c
}

// configsDiffDoc is the -o json document of hosts config diff.
type configsDiffDoc struct {
	Changes []configChange `json:"changes"` // hosts in which something differs
}

type configChange struct {
	Host  string             `json:"host"`
	From  string             `json:"from"` // empty: nothing was kept before
	To    string             `json:"to"`
	At    *time.Time         `json:"at,omitempty"`  // of To, unless --to or --from chose
	Run   string             `json:"run,omitempty"` // of To
	Files []configs.FileDiff `json:"files"`
}

func (a *app) configsDiff(ctx context.Context, f *configsFlags, hosts []string) error {
	r, err := f.open()
	if err != nil {
		return err
	}
	var wanted []configChange
	switch named := f.from != "" || f.to != ""; {
	case named && f.since+f.run != "":
		return console.Invalid("--from and --to go without --since and --run: both choose the versions to compare")
	case len(hosts) == 0 && f.since+f.run == "":
		return console.Invalid("hosts config diff needs a HOST\nhint: --since 24h shows what changed on every host")
	case named:
		wanted, err = f.named(ctx, r, hosts)
	default:
		wanted, err = f.recent(ctx, r, hosts)
	}
	if err != nil {
		return err
	}
	doc := configsDiffDoc{Changes: []configChange{}}
	for _, c := range wanted {
		differences, err := r.Differences(ctx, c.Host, f.file, c.From, c.To)
		if err != nil {
			return err
		}
		if before, err := r.Files(ctx, c.Host, c.From); err != nil {
			return err
		} else if len(before) == 0 {
			c.From = "" // the commit is there, of other hosts
		}
		for _, d := range differences {
			c.Files = append(c.Files, d.Diff(c.Host))
		}
		if len(c.Files) > 0 {
			doc.Changes = append(doc.Changes, c)
		}
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, doc)
	}
	a.printConfigDiff(doc)
	return nil
}

// named compares what --from and --to name.
func (f *configsFlags) named(ctx context.Context, r *configs.Repo, hosts []string) ([]configChange, error) {
	if len(hosts) == 0 {
		return nil, console.Invalid("--from and --to need a HOST")
	}
	var list []configChange
	for _, host := range hosts {
		if err := checkHost(ctx, r, host); err != nil {
			return nil, err
		}
		to, err := r.Resolve(ctx, f.to)
		if err != nil {
			return nil, notKept(err)
		}
		c := configChange{Host: host, To: to}
		if f.from != "" {
			c.From, err = r.Resolve(ctx, f.from)
		} else {
			c.From, err = r.Before(ctx, to)
		}
		if err != nil {
			return nil, notKept(err)
		}
		list = append(list, c)
	}
	return list, nil
}

// recent compares the newest version that fits with the state before the oldest, host by host.
func (f *configsFlags) recent(ctx context.Context, r *configs.Repo, hosts []string) ([]configChange, error) {
	all := hosts
	if len(hosts) == 0 {
		all = []string{""}
	}
	var list []configChange
	at := map[string]int{}
	for _, host := range all {
		q, err := f.query(host)
		if err != nil {
			return nil, err
		}
		if f.since+f.run == "" {
			q.Limit = 1
		}
		versions, err := r.History(ctx, q)
		if err != nil {
			return nil, err
		}
		if err := checkHost(ctx, r, host); err != nil {
			return nil, err
		}
		for _, v := range versions { // newest first
			i, have := at[v.Host]
			if !have {
				i, at[v.Host] = len(list), len(list)
				list = append(list, configChange{Host: v.Host, To: v.Version, At: &v.At, Run: v.Run})
			}
			list[i].From = v.Parent
		}
	}
	return list, nil
}

func (a *app) printConfigDiff(doc configsDiffDoc) {
	if len(doc.Changes) == 0 {
		a.Message("nothing changed")
		return
	}
	files := 0
	for _, c := range doc.Changes {
		head := fmt.Sprintf("%s  %.12s → %.12s", console.Printable(c.Host), c.From, c.To)
		if c.From == "" {
			head = fmt.Sprintf("%s  first version %.12s", console.Printable(c.Host), c.To)
		}
		if c.At != nil {
			head += "  " + c.At.Local().Format("2006-01-02 15:04:05")
		}
		if c.Run != "" {
			head += "  run " + c.Run
		}
		fmt.Fprintln(a.Out, head)
		for _, f := range c.Files {
			files++
			for l := range strings.Lines(f.Diff) {
				fmt.Fprintln(a.Out, a.PaintDiff(strings.TrimRight(l, "\r\n")))
			}
		}
	}
	a.Message(fmt.Sprintf("%s in %s changed", core.Plural(files, "file"), core.Plural(len(doc.Changes), "host")))
}

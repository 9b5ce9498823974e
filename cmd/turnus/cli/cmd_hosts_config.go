package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/configs"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/windows"
)

func (a *app) hostsConfigCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Config backups: kept versions of hosts' configurations: list them, show one, report what changed",
		Example: `  turnus hosts config ls fw1
  turnus hosts config diff fw1`,
	}
	c.AddCommand(a.configsLogCmd(), a.configsShowCmd(), a.configsDiffCmd())
	return c
}

// configsFlags choose a repository, and versions in it.
type configsFlags struct {
	dir, file, since, run string
	limit                 int
	from, to, at          string
}

func (f *configsFlags) add(c *cobra.Command) {
	c.ValidArgsFunction = f.hosts
	c.Flags().StringVar(&f.dir, "config-dir", node.DefaultConfigs, "git repository with the versions, as turnus run, up and worker write it")
	c.Flags().StringVar(&f.file, "file", "", "only this file, as config.backup names it")
}

func (f *configsFlags) addChoice(c *cobra.Command) {
	c.Flags().StringVar(&f.since, "since", "", "only since then: a time as 2026-12-31T22:00Z or 2026-12-31, or how long ago, as 24h or 7d")
	c.Flags().StringVar(&f.run, "run", "", "only what this run kept")
}

func (f *configsFlags) open() (*configs.Repo, error) {
	if f.file != "" {
		if err := configs.CheckName(f.file); err != nil {
			return nil, err
		}
	}
	return configs.New(f.dir)
}

// hosts completes the hosts of which something is kept.
func (f *configsFlags) hosts(c *cobra.Command, args []string, _ string) (list []string, _ cobra.ShellCompDirective) {
	if r, err := f.open(); err == nil && (len(args) == 0 || c.Name() == "diff") {
		if tip, err := r.Resolve(c.Context(), ""); err == nil {
			list, _ = r.Hosts(c.Context(), tip)
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// query returns the part of the history that the flags select, of a host; "" is all hosts.
func (f *configsFlags) query(host string) (configs.Query, error) {
	q := configs.Query{Host: host, File: f.file, Run: f.run, Limit: f.limit}
	if f.since == "" {
		return q, nil
	}
	if ago, err := windows.ParseDuration(f.since); err == nil {
		q.Since = time.Now().Add(-ago)
		return q, nil
	}
	at, err := instantFlag("--since", f.since, time.Local)
	if err != nil {
		return q, console.Invalid("--since %q: expected a time such as 2026-12-31T22:00:00Z or 2026-12-31, or how long ago, such as 24h or 7d", f.since)
	}
	q.Since = at
	return q, nil
}

// checkHost refuses a host of which nothing was kept; "" is all hosts.
func checkHost(ctx context.Context, r *configs.Repo, host string) error {
	if host == "" {
		return nil
	}
	if kept, err := r.History(ctx, configs.Query{Host: host, Limit: 1}); err != nil || len(kept) > 0 {
		return err
	}
	tip, err := r.Resolve(ctx, "")
	if err != nil {
		return notKept(err)
	}
	hosts, err := r.Hosts(ctx, tip)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("no configuration of host %q was kept in %s", host, r.Dir())
	if hint := yamlread.DidYouMean(host, hosts); hint != "" {
		text += "\nhint: " + hint
	}
	return console.Invalid("%s", text)
}

// notKept makes what is not there wrong usage.
func notKept(err error) error {
	if errors.Is(err, core.ErrNotFound) {
		return &console.Exit{Code: console.ExitInvalid, Err: err}
	}
	return err
}

func (a *app) configsLogCmd() *cobra.Command {
	var f configsFlags
	c := &cobra.Command{
		Use:   "ls [HOST]",
		Short: "List kept versions, newest first",
		Example: `  turnus hosts config ls fw1
  turnus hosts config ls --since 24h -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.configsLog(cmd.Context(), &f, strings.Join(args, ""))
		},
	}
	f.add(c)
	f.addChoice(c)
	c.Flags().IntVarP(&f.limit, "limit", "n", 50, "at most so many; 0 is all")
	return c
}

func (a *app) configsLog(ctx context.Context, f *configsFlags, host string) error {
	r, err := f.open()
	if err != nil {
		return err
	}
	q, err := f.query(host)
	if err != nil {
		return err
	}
	list, err := r.History(ctx, q)
	if err != nil {
		return err
	}
	if err := checkHost(ctx, r, host); err != nil {
		return err
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, console.ListOf(list))
	}
	rows := [][]string{{"VERSION", "TIME", "HOST", "FILES", "RUN", "BY"}}
	for _, v := range list {
		files := v.Changed
		for _, g := range v.Gone {
			files = append(files, g+" (gone)")
		}
		rows = append(rows, []string{v.Version[:12], v.At.Local().Format("2006-01-02 15:04:05"), console.Printable(v.Host), strings.Join(files, ", "), v.Run, v.Author})
	}
	if len(list) == 0 {
		a.Message("no version was kept that fits")
		return nil
	}
	console.Table(a.Out, rows)
	if len(list) == f.limit {
		a.Message(fmt.Sprintf("the newest %d are shown; -n 0 shows all", f.limit))
	}
	return nil
}

func (a *app) configsShowCmd() *cobra.Command {
	var f configsFlags
	c := &cobra.Command{
		Use:   "show HOST",
		Short: "Show a host's configuration as it was kept",
		Long: `Show a host's configuration as it was kept. With several files each has a heading;
with --file the content alone is written, byte by byte where stdout is no terminal.`,
		Example: `  turnus hosts config show fw1
  turnus hosts config show fw1 --file running.conf --at 3f2c81d0a9b1 > running.conf`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.configsShow(cmd.Context(), &f, args[0]) },
	}
	f.add(c)
	c.Flags().StringVar(&f.at, "at", "", "version, as turnus hosts config ls shows it (default: the newest)")
	return c
}

// configsShowDoc is the -o json document of hosts config show.
type configsShowDoc struct {
	Host    string          `json:"host"`
	Version string          `json:"version"`
	Files   []configFileDoc `json:"files"`
}

type configFileDoc struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`
	Content string `json:"content,omitempty"`
	Base64  string `json:"content_base64,omitempty"` // instead, when it is no UTF-8
}

func (a *app) configsShow(ctx context.Context, f *configsFlags, host string) error {
	r, err := f.open()
	if err != nil {
		return err
	}
	version, err := r.Resolve(ctx, f.at)
	if err != nil {
		return notKept(err)
	}
	entries, err := r.Files(ctx, host, version)
	if err != nil {
		return err
	}
	if err := checkHost(ctx, r, host); err != nil {
		return err
	}
	doc := configsShowDoc{Host: host, Version: version, Files: []configFileDoc{}}
	for _, e := range entries {
		if f.file != "" && e.Name != f.file {
			continue
		}
		content, err := r.Content(ctx, host, e.Name, version)
		if err != nil {
			return err
		}
		doc.Files = append(doc.Files, configFileOf(e, content))
	}
	if len(doc.Files) == 0 {
		return console.Invalid("version %.12s has no file %s of host %s\nhint: turnus hosts config show %s lists what it has", version, f.file, host, host)
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, doc)
	}
	return a.printConfig(doc, f.file != "")
}

func configFileOf(e configs.Entry, content []byte) configFileDoc {
	d := configFileDoc{Name: e.Name, Size: e.Size}
	if utf8.Valid(content) {
		d.Content = string(content)
	} else {
		d.Base64 = base64.StdEncoding.EncodeToString(content)
	}
	return d
}

func (a *app) printConfig(doc configsShowDoc, alone bool) error {
	for _, f := range doc.Files {
		content := []byte(f.Content)
		if f.Base64 != "" {
			var err error
			if content, err = base64.StdEncoding.DecodeString(f.Base64); err != nil {
				return err
			}
		}
		switch {
		case alone && a.Out.OnTerminal():
			fmt.Fprint(a.Out, string(content))
		case alone:
			if _, err := a.Out.Raw().Write(content); err != nil {
				return err
			}
		default:
			fmt.Fprintf(a.Out, "==> %s: %s (%.12s) <==\n%s", doc.Host, f.Name, doc.Version, content)
			if len(content) > 0 && content[len(content)-1] != '\n' {
				fmt.Fprintln(a.Out)
			}
		}
	}
	return nil
}

// Package lab owns turnus lab: simulated SSH hosts that stay up until they are ended, the files by
// which clients reach them, and the socket by which other commands ask for their state and break
// them. It also owns the demo, whose hosts end with it.
//
// It must not know other verbs, nor how hosts are simulated.
package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// maxHosts is the most hosts of a lab.
const maxHosts = 10_000

// Command returns turnus lab.
func Command(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:   "lab",
		Short: "Keep simulated SSH hosts up to practise on; nothing to install",
		Long: `Keep simulated SSH hosts up to practise on. They are real SSH servers on the loopback device, each
with its own address, host key and files in memory, and need no root. No other machine reaches them, and
their shell reaches no file, process or variable of this machine.

They have users, groups, links, mounts, services, timers and some kernel settings, and /dev/vdb is a
spare disk. As on a real host, accounts, mounts and the kernel need root: use become: true. Unlike on
one, everybody may write to each file.

They have no git, awk or unzip. Steps of the job type git fail there, and those of unarchive with a
zip. A calendar of cron is not checked. Plan such steps, or run them on a real host.

A user has one lab at a time. Its inventory, known_hosts and key are in lab/ of the state folder.`,
		Example: `  turnus lab up --hosts 20
  turnus lab break web3 --how slow
  turnus lab down`,
	}
	v := &verbs{con}
	c.AddCommand(v.up(), v.down(), v.env(), v.inventory(), v.logins(), v.ls(), v.breakHosts(), v.mend())
	return c
}

// verbs are the commands of turnus lab.
type verbs struct{ *console.Console }

func (v *verbs) up() *cobra.Command {
	hosts, foreground := 0, false
	c := &cobra.Command{
		Use:   "up",
		Short: "Start the hosts, and print where their inventory and host keys are",
		Long: `Start the hosts in the background, and print where their inventory and host keys are. They run until
turnus lab down. With --foreground they run in this process until it gets SIGINT or SIGTERM. Files
of a host are in memory until then.

Hosts are named by group and number: of each ten, six are in web, two in db, one in dns, one in fw.`,
		Example: `  turnus lab up
  eval "$(turnus lab env)"        # turnus run, plan, hosts … use the lab's inventory
  turnus lab up --hosts 200 --foreground`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if hosts < 1 || hosts > maxHosts {
				return console.Invalid("--hosts %d: expected 1 to %d", hosts, maxHosts)
			}
			f, err := openFolder()
			if err != nil {
				return err
			}
			if foreground {
				return v.serve(cmd.Context(), f, hosts)
			}
			return v.detach(cmd.Context(), f, hosts)
		},
	}
	c.Flags().IntVar(&hosts, "hosts", 20, "number of hosts")
	c.Flags().BoolVar(&foreground, "foreground", false, "run in this process, not in the background")
	return c
}

func (v *verbs) down() *cobra.Command {
	return &cobra.Command{
		Use:     "down",
		Short:   "End the hosts, and remove their files",
		Long:    "End the hosts, and remove their files. Also removes what a lab left that was killed.",
		Example: "  turnus lab down",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := openFolder()
			if err != nil {
				return err
			}
			up, err := f.end(cmd.Context())
			if err != nil {
				return err
			}
			if !up {
				v.Message("no lab is up")
				return nil
			}
			v.Message("the lab is down")
			return nil
		},
	}
}

func (v *verbs) env() *cobra.Command {
	return &cobra.Command{
		Use:     "env",
		Short:   "Print a shell command that makes the lab's inventory the default",
		Example: "  eval \"$(turnus lab env)\"\n  turnus run site.yaml --check",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			got, err := ask(cmd.Context(), request{Do: "ls"})
			if err != nil {
				return err
			}
			if v.Output == "json" {
				return console.PrintJSON(v.Out, map[string]string{"TURNUS_INVENTORY": got.Inventory})
			}
			fmt.Fprintln(v.Out, exportLine(got.Inventory))
			return nil
		},
	}
}

// exportLine is a line for a POSIX shell.
func exportLine(inventory string) string {
	return "export TURNUS_INVENTORY='" + strings.ReplaceAll(inventory, "'", `'\''`) + "'"
}

func (v *verbs) ls() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List the hosts: address, groups, and what is broken",
		Example: "  turnus lab ls\n  turnus lab ls -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			got, err := ask(cmd.Context(), request{Do: "ls"})
			if err != nil {
				return err
			}
			return v.list(got)
		},
	}
}

func (v *verbs) list(got reply) error {
	if v.Output == "json" {
		return console.PrintJSON(v.Out, got.Lab)
	}
	rows := [][]string{{"HOST", "GROUP", "ADDRESS", "STATE"}}
	for _, h := range got.Hosts {
		state := h.State
		if state != "ok" {
			state = v.Paint(console.Red, state)
		}
		rows = append(rows, []string{h.Name, h.Group, fmt.Sprintf("%s:%d", h.Address, h.Port), state})
	}
	console.Table(v.Out, rows)
	return nil
}

func (v *verbs) breakHosts() *cobra.Command {
	how := ""
	c := &cobra.Command{
		Use:   "break HOST...",
		Short: "Break hosts: make them slow, silent, full, or change their key",
		Long: `Break hosts, until turnus lab mend or another break.

  slow       each command takes 1 s longer
  dead       the host accepts connections and never answers; those it has end
  newkey     the host shows another key, as after it was installed again
  full-disk  no file can grow`,
		Example: "  turnus lab break web3 --how slow\n  turnus lab break db1 db2 --how newkey",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			if _, ok := faultOf(how); !ok || how == "ok" {
				return console.Invalid("--how %q: expected one of: %s\nhint: turnus lab break %s --how slow", how, strings.Join(ways(), ", "), names[0])
			}
			return v.change(cmd.Context(), request{Do: "break", Hosts: names, How: how})
		},
		ValidArgsFunction: hostNames,
	}
	c.Flags().StringVar(&how, "how", "", strings.Join(ways(), ", "))
	_ = c.RegisterFlagCompletionFunc("how", cobra.FixedCompletions(ways(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (v *verbs) mend() *cobra.Command {
	return &cobra.Command{
		Use:               "mend [HOST...]",
		Short:             "Mend hosts that were broken; all, if none is named",
		Example:           "  turnus lab mend web3\n  turnus lab mend",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: hostNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			return v.change(cmd.Context(), request{Do: "break", Hosts: names, How: "ok"})
		},
	}
}

// change breaks or mends hosts, and lists them.
func (v *verbs) change(ctx context.Context, r request) error {
	got, err := ask(ctx, r)
	if err != nil {
		return err
	}
	got.Hosts = slices.DeleteFunc(got.Hosts, func(h Host) bool { return len(r.Hosts) > 0 && !slices.Contains(r.Hosts, h.Name) })
	return v.list(got)
}

// hostNames completes hosts.
func hostNames(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	got, err := ask(cmd.Context(), request{Do: "ls"})
	for _, h := range got.Hosts {
		if err == nil && !slices.Contains(given, h.Name) {
			names = append(names, h.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// ask opens the state folder and sends a request to the lab that is up.
func ask(ctx context.Context, r request) (reply, error) {
	f, err := openFolder()
	if err != nil {
		return reply{}, err
	}
	return f.ask(ctx, r)
}

// show prints what a person needs after the start.
func (v *verbs) show(l Lab) error {
	if v.Output == "json" {
		return console.PrintJSON(v.Out, l)
	}
	host := l.Hosts[min(1, len(l.Hosts)-1)].Name
	fmt.Fprintf(v.Out, `%s up, on this machine only: %s … (process %d)
inventory:   %s
known_hosts: %s

next:
  %s
  turnus hosts ls
  turnus run PLAYBOOK --check --diff
  turnus lab break %s --how slow
  turnus lab down
`, core.Plural(len(l.Hosts), "simulated host"), l.Hosts[0].Name, l.PID, l.Inventory, l.KnownHosts, exportLine(l.Inventory), host)
	return nil
}

// unknownHost is the refusal of a host that the lab does not have.
func unknownHost(name string, hosts []Host) string {
	hint := cmp.Or(yamlread.DidYouMean(name, core.Map(hosts, func(h Host) string { return h.Name })), "turnus lab ls lists the hosts")
	return fmt.Sprintf("host %q: the lab has no such host\nhint: %s", name, hint)
}

// detach starts the lab as a process of its own, and waits until its hosts are up.
func (v *verbs) detach(ctx context.Context, f *folder, hosts int) error {
	ctx, release := v.Interruptible(ctx)
	defer release()
	l, err := f.spawn(ctx, hosts)
	if err != nil {
		return err
	}
	return v.show(l)
}

// Lab is a lab that is up: the -o json document of up and ls.
type Lab struct {
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	Inventory  string    `json:"inventory"`
	KnownHosts string    `json:"known_hosts"`
	Hosts      []Host    `json:"hosts"`
}

// Host is one of its hosts.
type Host struct {
	Name    string `json:"name"`
	Group   string `json:"group"`
	Address string `json:"address"`
	Port    int    `json:"port"`
	State   string `json:"state"` // ok, or how it is broken
}

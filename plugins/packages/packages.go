// Package packages owns the job type package: software packages of the host's own
// package manager. It imports only the sdk.
package packages

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// Params is the with: of a package.
type Params struct {
	Names   []string     `json:"names" turnus:"required,min=1" jsonschema:"names of packages; with apt also NAME=VERSION"`
	State   string       `json:"state,omitempty" turnus:"default=present,enum=present|absent|latest" jsonschema:"present leaves an installed package at its version"`
	Refresh sdk.Duration `json:"refresh,omitempty" jsonschema:"refresh the lists of packages first if they are older; without it they are refreshed when a package is not in them"`
	Wait    sdk.Duration `json:"wait,omitempty" turnus:"default=5m" jsonschema:"how long to wait for another process that holds the package manager's lock"`
}

// nameOfPackage leaves out what is more than a name: an option begins with -, a pattern of apt with
// ~, and NAME- asks apt to remove NAME.
var nameOfPackage = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_@/]([A-Za-z0-9.+_:=~@/-]*[A-Za-z0-9.+_~])?$`)
})

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	for i, name := range p.Names {
		if !nameOfPackage().MatchString(name) {
			return &sdk.ParamError{Pointer: fmt.Sprintf("/names/%d", i), Err: fmt.Errorf("expected the name of a package; found %q", name)}
		}
	}
	return nil
}

// Outputs of a package.
type Outputs struct {
	Manager string   `json:"manager" jsonschema:"apt, dnf, apk or opkg"`
	Changes []string `json:"changes" jsonschema:"what the package manager does, a line each, dependencies included where it lists them"`
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("package", run,
		sdk.Summary("Packages that are installed, or are not"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("Install packages", sdk.With{"names": []string{"nginx", "curl"}}),
		sdk.Example("The newest version, after a refresh of the lists", sdk.With{"names": []string{"openssl"}, "state": "latest", "refresh": "1h"}),
		sdk.Example("Remove a package", sdk.With{"names": []string{"telnetd"}, "state": "absent"}),
	)
}

const description = `
Installs, upgrades or removes packages with apt, dnf, apk or opkg, whichever the host has.

` + "`present`" + ` asks the package manager for the missing names only: an installed package keeps its
version. Configuration files that were edited stay. Another process may hold the package manager's
lock, as unattended upgrades do: the step waits for it, and after ` + "`wait`" + ` the error names that
process.

Check mode asks the package manager what it would do, with the lists that the host has. Refreshing
the lists is no change. If the host has no lists yet, an install counts as a change.
`

// look is the host's report before anything is done.
type look struct {
	manager string
	changes []string // what would be done; empty: nothing
	failed  string   // why the package manager cannot report; "" if it can
	stale   bool     // the lists are older than Refresh
	noLists bool     // there are none
}

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	p := r.Params
	result := r.Host().Query(ctx, asking(p))
	if err := result.Err(); err != nil {
		return fmt.Errorf("asking for packages: %w", err)
	}
	now, err := read(result.Stdout)
	if err != nil {
		return err
	}
	r.Output("manager", now.manager)
	switch {
	case r.Check && now.failed != "" && now.noLists && p.State != "absent": // the run fetches them first
		now.changes, now.failed = []string{"install " + strings.Join(p.Names, ", ") + ", with the lists of packages, which the host does not have yet"}, ""
	case r.Check && now.failed != "":
		return r.Lacks("%s: %s: correct the name, or refresh the lists on the host, which check mode does not do", now.manager, now.failed)
	case !r.Check && (now.failed != "" || now.stale):
		return renew(ctx, r, now.manager)
	}
	if err := report(r, now); err != nil || len(now.changes) == 0 || r.Check {
		return err
	}
	if err := execute(ctx, r, sdk.Command{Run: doing(p, now.manager, p.State), Stdout: r.Stdout()}); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(p.Names, ", "), err)
	}
	return nil
}

// report reports what is done, or would be.
func report(r *sdk.Run[Params, sdk.NoState], now look) error {
	if now.failed != "" {
		return sdk.Refuse("%s: %s: correct the name, or add the repository that has it in an earlier step", now.manager, now.failed)
	}
	r.Output("changes", now.changes)
	if len(now.changes) > 0 {
		r.Changed()
		r.Explain(strings.Join(now.changes, "; "))
		r.ShowDiff("packages", nil, []byte(strings.Join(now.changes, "\n")+"\n"))
	}
	return nil
}

// asking is the command that simulates the change. It changes nothing.
func asking(p Params) string {
	return fmt.Sprintf("state=%s refresh=%d wait=%d\nset -- %s\n%s", p.State, seconds(p.Refresh), seconds(p.Wait), sdk.QuoteAll(p.Names...), askScript)
}

// doing is the command in which the package manager works.
func doing(p Params, manager, what string) string {
	return fmt.Sprintf("manager=%s state=%s wait=%d\nset -- %s\n%s", manager, what, seconds(p.Wait), sdk.QuoteAll(p.Names...), doScript)
}

// renewing is the command that refreshes the lists, asks, and lets the package manager work.
func renewing(p Params, manager string) string {
	return "work() (\n" + doing(p, manager, "$1") + ")\nask() (\n" + asking(p) + ")\nstate=" + p.State + renewScript
}

// read reads the answer to asking.
func read(text string) (look, error) {
	a := sdk.ReadAnswer(text)
	now := look{
		manager: a.Value("manager"), failed: strings.TrimSpace(a.Text("failed")), changes: []string{},
		stale: a.Has("stale"), noLists: a.Has("nolists"),
	}
	if now.manager == "" {
		return now, sdk.Refuse("the host has none of apt, dnf, apk and opkg")
	}
	for line := range strings.Lines(a.Text("change")) {
		now.changes = append(now.changes, strings.TrimSpace(line))
	}
	return now, nil
}

// renew fetches the lists, asks again, and makes the change, in one round trip.
func renew(ctx context.Context, r *sdk.Run[Params, sdk.NoState], manager string) error {
	p := r.Params
	var answer sdk.Head
	failed := execute(ctx, r, sdk.Command{Run: renewing(p, manager), Stdout: &answer, Stderr: r.Stdout()})
	if failed != nil && answer.String() == "" {
		return fmt.Errorf("refreshing the lists of %s and asking for the packages: %w", manager, failed)
	}
	now, err := read(answer.String())
	if err == nil {
		err = report(r, now)
	}
	if err == nil && failed != nil {
		return fmt.Errorf("%s: %w", strings.Join(p.Names, ", "), failed)
	}
	return err
}

// execute runs a command of the package manager. If another process has the lock, nothing was done.
func execute(ctx context.Context, r *sdk.Run[Params, sdk.NoState], c sdk.Command) error {
	var out, errs sdk.Head // apt names the process on stdout, while it waits
	c.Stdout = io.MultiWriter(&out, c.Stdout)
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
	c.Stderr = io.MultiWriter(&errs, c.Stderr)
	exit, err := r.Host().Exec(ctx, c)
	if err != nil || exit.Err() == nil {
		return err
	}
	if err := lockFailure(out.String()+errs.String(), exit.LastLine, time.Duration(r.Params.Wait)); err != nil {
		return err
	}
	if err := exit.Err(); shell.FullDisk(errs.String()) || !shell.FullDisk(out.String()) { // apt has the messages of dpkg on stdout
		return err
	}
	return fmt.Errorf("%w\nhint: %s", exit.Err(), shell.FullDiskHint)
}

// The last line of a package manager without its lock; the line that shows that it may not open the
// lock; and the one that names the process that has it.
var (
	locked = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^E: Unable to (acquire|lock)|^held by process |ould not lock |^ERROR: (Unable to lock|Failed to open apk) database: Resource temporarily unavailable`)
	})
	unopened = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^.*lock.*[Pp]ermission denied.*$`) })
	heldBy   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`held by process (\d+)(?: \(([^()]+)\))?`) })
)

// lockFailure is the error of a command that ended because another process has the lock, or because
// only root may open it; nil if it ended for another reason.
func lockFailure(said, last string, wait time.Duration) error {
	if !locked().MatchString(last) {
		return nil
	}
	if line := unopened().FindString(said); line != "" {
		return sdk.Refuse("%s", line)
	}
	who, look := "another process", "ps -ef"
	if all := heldBy().FindAllStringSubmatch(said, -1); len(all) > 0 {
		m := all[len(all)-1]
		if who, look = "process "+m[1], "ps -fp "+m[1]; m[2] != "" {
			who += " (" + m[2] + ")"
		}
	}
	return sdk.Refuse("%s has the lock of the package manager, and kept it for %v\nhint: `%s` on the host shows the process: let it end and run the step again, or give the step a longer wait", who, wait, look).Retryable()
}

func seconds(d sdk.Duration) int { return int(time.Duration(d) / time.Second) }

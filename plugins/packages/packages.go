// Package packages owns the job type package: software packages of the host's own
// package manager. It imports only the sdk.
package packages

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
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
	Changes []string `json:"changes" jsonschema:"what the package manager does, a line each, dependencies included where it says them"`
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
		sdk.Example("The newest version, with fresh lists", sdk.With{"names": []string{"openssl"}, "state": "latest", "refresh": "1h"}),
		sdk.Example("Remove a package", sdk.With{"names": []string{"telnetd"}, "state": "absent"}),
	)
}

const description = `
Installs, upgrades or removes packages with apt, dnf, apk or opkg, whichever the host has.

` + "`present`" + ` asks the package manager for the missing names only: an installed package keeps its
version. Configuration files that were edited stay. Another process may hold the package manager's
lock, as unattended upgrades do: the step waits for it.

Check mode asks the package manager what it would do, with the lists that the host has. Refreshing
the lists is no change.
`

// look is the host's report before anything is done.
type look struct {
	manager string
	changes []string // what would be done; empty: nothing
	failed  string   // why the package manager cannot say; "" where it can
	stale   bool     // the lists are older than Refresh
}

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	p := r.Params
	now, err := ask(ctx, r)
	if err != nil {
		return err
	}
	r.Output("manager", now.manager)
	if r.Check {
		return report(r, now)
	}
	if now.failed != "" || now.stale {
		if err := do(ctx, r, now.manager, "refresh"); err != nil {
			return fmt.Errorf("refreshing the lists of %s: %w", now.manager, err)
		}
		if now, err = ask(ctx, r); err != nil {
			return err
		}
	}
	if err := report(r, now); err != nil || len(now.changes) == 0 {
		return err
	}
	if err := do(ctx, r, now.manager, p.State); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(p.Names, ", "), err)
	}
	return nil
}

// report says what is done, or would be.
func report(r *sdk.Run[Params, sdk.NoState], now look) error {
	if now.failed != "" {
		return sdk.Failf("%s: %s", now.manager, now.failed).Effects(sdk.EffectsNone)
	}
	r.Output("changes", now.changes)
	if len(now.changes) > 0 {
		r.Changed()
		r.Explain(strings.Join(now.changes, "; "))
		r.ShowDiff("packages", nil, []byte(strings.Join(now.changes, "\n")+"\n"))
	}
	return nil
}

// ask simulates the change, in one command that changes nothing.
func ask(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) (look, error) {
	p := r.Params
	line := fmt.Sprintf("state=%s refresh=%d wait=%d\nset -- %s\n%s", p.State, seconds(p.Refresh), seconds(p.Wait), sdk.QuoteAll(p.Names...), askScript)
	result := r.Host().Query(ctx, line)
	if err := result.Err(); err != nil {
		return look{}, fmt.Errorf("asking for packages: %w", err)
	}
	a := sdk.ReadAnswer(result.Stdout)
	now := look{manager: a.Value("manager"), failed: strings.TrimSpace(a.Text("failed")), stale: a.Has("stale"), changes: []string{}}
	if now.manager == "" {
		return now, sdk.Failf("the host has none of apt, dnf, apk and opkg").Effects(sdk.EffectsNone)
	}
	for line := range strings.Lines(a.Text("change")) {
		now.changes = append(now.changes, strings.TrimSpace(line))
	}
	return now, nil
}

// do lets the package manager work; its output is shown.
func do(ctx context.Context, r *sdk.Run[Params, sdk.NoState], manager, what string) error {
	var stderr sdk.Head
	line := fmt.Sprintf("manager=%s state=%s wait=%d\nset -- %s\n%s", manager, what, seconds(r.Params.Wait), sdk.QuoteAll(r.Params.Names...), doScript)
	exit, err := r.Host().Exec(ctx, sdk.Command{Run: line, Stdout: r.Stdout(), Stderr: &stderr})
	if err != nil {
		return err
	}
	if err := exit.Err(); err != nil {
		return &sdk.ExitError{Exit: exit, LastLine: stderr.LastLine()}
	}
	return nil
}

func seconds(d sdk.Duration) int { return int(time.Duration(d) / time.Second) }

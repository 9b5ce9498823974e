// Package mount owns the job type mount: a file system or swap space that is mounted, or is not,
// now and after a restart of the host. It imports only the sdk.
package mount

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a mount.
type Params struct {
	Path    string `json:"path,omitempty" turnus:"pattern=^/" jsonschema:"where it is mounted; not for swap"`
	Source  string `json:"source,omitempty" turnus:"min=1" jsonschema:"what is mounted: a device, UUID=…, LABEL=…, host:/path, or tmpfs"`
	Type    string `json:"type,omitempty" turnus:"pattern=^[A-Za-z0-9_.,-]+$" jsonschema:"type of the file system, such as ext4, nfs, tmpfs or swap; none for a bind mount"`
	Options string `json:"options,omitempty" turnus:"default=defaults,pattern=^[^ \\x00-\\x1f\\x7f]+$" jsonschema:"options, separated by commas"`
	Dump    int    `json:"dump,omitempty" turnus:"min=0,max=9" jsonschema:"fifth field of fstab"`
	Pass    int    `json:"pass,omitempty" turnus:"min=0,max=9" jsonschema:"sixth field of fstab: order of the checks at a restart"`
	State   string `json:"state,omitempty" turnus:"default=mounted,enum=mounted|unmounted|present|absent" jsonschema:"mounted: now and in fstab; present: in fstab only; unmounted: not now, fstab stays; absent: not now, not in fstab"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad sdk.Problems
	adds := p.State == "mounted" || p.State == "present"
	switch {
	case p.Type == "swap" && p.Path != "":
		bad.Add("/path", "swap has no path: its source names it")
	case p.Type != "swap" && p.Path == "":
		bad.Add("/path", "expected the path where it is mounted")
	case p.Path != "" && path.Clean(p.Path) != p.Path:
		bad.Add("/path", "expected a path without . and .. and a slash at its end")
	}
	if (adds || p.Type == "swap") && p.Source == "" {
		bad.Add("/source", "expected what is mounted")
	}
	if strings.ContainsFunc(p.Source, unicode.IsControl) || strings.HasPrefix(p.Source, "-") || strings.HasPrefix(p.Source, "#") {
		bad.Add("/source", "expected a device, UUID=…, LABEL=…, host:/path or another word of fstab")
	}
	if adds && p.Type == "" {
		bad.Add("/type", "expected the type of the file system")
	}
	return bad.Err()
}

// name returns the name of the mount: swap by its source, others by their path.
func (p *Params) name() string {
	if p.Type == "swap" {
		return p.Source
	}
	return p.Path
}

// Outputs of a mount.
type Outputs struct {
	Mounted bool   `json:"mounted" jsonschema:"whether it was mounted when it was checked"`
	Source  string `json:"source,omitempty" jsonschema:"what was mounted there"`
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("mount", run,
		sdk.Summary("A file system or swap space that is mounted, now and after a restart of the host"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("A file system", sdk.With{"path": "/srv", "source": "UUID=0a3407de-014b-458b-b5c1-848e92a327a3", "type": "ext4", "options": "noatime", "pass": 2}),
		sdk.Example("Swap", sdk.With{"source": "/dev/vg0/swap", "type": "swap"}),
		sdk.Example("A bind mount", sdk.With{"path": "/srv/www", "source": "/data/www", "type": "none", "options": "bind"}),
		sdk.Example("Gone for good", sdk.With{"path": "/mnt/old", "state": "absent"}),
	)
}

const description = `
Mounts a file system and keeps its line in /etc/fstab. Both are compared: fstab by the mount's path,
the kernel by its table of mounts. Swap is known by its source, because all swap has the same path.
Comments and other lines of fstab stay as they are.

It mounts first and writes fstab after: what cannot be mounted is not written. Changed options are
mounted again (remount); with another source or type it is unmounted first. The folder is made where
it is missing. Where systemd runs, it reads fstab again.

Another folder of a server, and ro, noexec, nosuid or nodev that the kernel lacks, are also seen
where fstab is as wanted: state present may have written it.

The step fails if another device is mounted at the path, or a source of another kind than is wanted
(a device, a folder of a server, a tmpfs). It also fails if fstab has two lines for the path, if the
path leads over a link, or if another process changed fstab meanwhile. Files in use keep a file
system mounted: then the step also fails, and changes nothing.
`

// found is the host's report before anything is done.
type found struct {
	fstab  string
	active bool
	source string // what is mounted there
	flags  string // options of the mount, as the kernel has them
	device string // resolved, as is wanted below
	wanted string
	gone   bool // the wanted device is not there
}

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	p := r.Params
	now, err := ask(ctx, r)
	if err != nil {
		return err
	}
	r.Output("mounted", now.active)
	r.Output("source", now.source)
	fstab, old, err := edit(now.fstab, p)
	if err != nil {
		return sdk.Refuse("/etc/fstab: %w", err)
	}
	if p.State == "mounted" && now.active && !p.binds() && now.another() {
		return sdk.Refuse("%s: %s is mounted there, not %s: unmount it first, with state unmounted", p.Path, now.source, p.Source)
	}
	if p.State == "mounted" && now.gone {
		return r.Lacks("%s: the host has no %s: create it with an earlier step, or correct the name", p.name(), p.Source)
	}
	actions := decide(p, now, old, fstab != now.fstab)
	if len(actions) == 0 {
		return nil
	}
	r.Changed()
	r.Explain(p.name() + ": " + strings.Join(actions, ", "))
	r.ShowDiff("/etc/fstab", []byte(now.fstab), []byte(fstab))
	if fstab == now.fstab {
		r.ShowDiff(p.name(), []byte(mounted(now.active)), []byte(mounted(slices.Contains(actions, "mount"))))
	}
	if r.Check {
		return nil
	}
	line := p.vars() + sdk.Vars("old", strings.TrimRight(now.fstab, "\n")) + "set -- " + strings.Join(actions, " ") + "\n" + doScript
	if err := r.Host().Short(ctx, sdk.Command{Run: line, Stdin: strings.NewReader(fstab)}).Err(); err != nil {
		return fmt.Errorf("%s: %s: %w", p.name(), strings.Join(actions, ", "), err)
	}
	return nil
}

func mounted(yes bool) string {
	if yes {
		return "mounted\n"
	}
	return "not mounted\n"
}

// decide returns what has to be done, in order. old is the line that fstab had. The kernel may have
// another source or other options than a line that is as wanted: state present wrote it.
func decide(p Params, now found, old *entry, write bool) []string {
	var actions []string
	switch p.State {
	case "unmounted", "absent":
		if now.active {
			actions = append(actions, "unmount")
		}
	case "mounted":
		switch {
		case !now.active:
			actions = append(actions, "mount")
		case now.elsewhere():
			actions = append(actions, "unmount", "mount")
		case now.lacks(p.Options):
			actions = append(actions, "remount")
		case old == nil || !write:
		case old.source != p.Source || old.fstype != p.Type || p.Type == "swap" && old.options != p.Options:
			actions = append(actions, "unmount", "mount")
		case old.options != p.Options:
			actions = append(actions, "remount")
		}
	}
	if write && p.State != "unmounted" {
		actions = append(actions, "write")
	}
	return actions
}

// binds reports whether a folder or a file of the host is mounted. The kernel then shows the device
// that has it.
func (p *Params) binds() bool {
	return p.Type == "none" || slices.ContainsFunc(strings.Split(p.Options, ","), func(o string) bool { return o == "bind" || o == "rbind" })
}

// another reports whether what is mounted is surely not the wanted source: another device, or a
// source of another kind. Another folder of a server can take its place: see elsewhere.
func (now found) another() bool {
	is, wanted := kind(now.device), kind(now.wanted)
	return is != "" && wanted != "" && (is != wanted || is == "device" && now.device != now.wanted)
}

// kind returns what a source is; "" if it may be anything, such as systemd-1 of an automount.
func kind(source string) string {
	switch {
	case strings.HasPrefix(source, "/dev/"):
		return "device"
	case remote(source):
		return "server"
	case source == "tmpfs":
		return "memory"
	}
	return ""
}

func remote(source string) bool {
	return strings.HasPrefix(source, "//") || strings.Contains(source, ":/")
}

// elsewhere reports whether another folder of a server is mounted than the wanted one.
func (now found) elsewhere() bool {
	return remote(now.source) && remote(now.wanted) && strings.TrimRight(now.source, "/") != strings.TrimRight(now.wanted, "/")
}

// lacks reports whether the kernel has not the protection that the options ask for.
func (now found) lacks(options string) bool {
	if now.flags == "" {
		return false
	}
	asked, has := strings.Split(options, ","), strings.Split(now.flags, ",")
	for flag, opposite := range map[string]string{"ro": "rw", "noexec": "exec", "nosuid": "suid", "nodev": "dev"} {
		if slices.Contains(asked, flag) && !slices.Contains(asked, opposite) && !slices.Contains(has, flag) {
			return true
		}
	}
	return false
}

func ask(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) (found, error) {
	p := r.Params
	result := r.Host().Query(ctx, p.vars()+askScript)
	if err := result.Err(); err != nil {
		return found{}, fmt.Errorf("inspect %s: %w", p.name(), err)
	}
	a := sdk.ReadAnswer(result.Stdout)
	if real := a.Value("real"); real != "" && real != p.Path {
		return found{}, sdk.Refuse("%s leads over a link: write path: %s", p.Path, real)
	}
	return found{
		fstab: a.Text("fstab"), active: a.Has("active"), source: unescape(a.Value("active")), flags: a.Value("flags"), device: a.Value("device"), wanted: a.Value("wanted"), gone: a.Has("gone"),
	}, nil
}

// vars are the params as the scripts have them; ep is the path as the kernel writes it.
func (p *Params) vars() string {
	return sdk.Vars("p", p.Path, "s", p.Source, "t", p.Type, "o", p.Options, "first", p.first(), "ep", escape(p.Path))
}

// first returns the options of the call that mounts. mount sets the others by further calls, to
// which . is the folder below the mount.
func (p *Params) first() string {
	further := func(o string) bool {
		if p.binds() {
			return o != "bind" && o != "rbind"
		}
		return slices.Contains([]string{"shared", "slave", "private", "unbindable"}, strings.TrimPrefix(o, "r"))
	}
	options := slices.DeleteFunc(strings.Split(p.Options, ","), further)
	return cmp.Or(strings.Join(options, ","), "defaults")
}

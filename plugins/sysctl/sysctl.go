// Package sysctl owns the job type sysctl: one setting of the kernel, now and after a restart
// of the host. It imports only the sdk.
package sysctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a setting of the kernel.
type Params struct {
	Key   string `json:"key" turnus:"required,pattern=^[A-Za-z0-9_-]+([./][A-Za-z0-9_:@-]+)+$" jsonschema:"name of the setting, such as net.ipv4.ip_forward; for a name that holds dots net/ipv4/conf/eth0.1/rp_filter"`
	Value any    `json:"value,omitempty" jsonschema:"number or text; with several fields as in \"1024 65535\""`
	State string `json:"state,omitempty" turnus:"default=present,enum=present|absent" jsonschema:"absent removes the file; the kernel keeps its value until the host restarts"`
	File  string `json:"file,omitempty" turnus:"pattern=^[A-Za-z0-9_][A-Za-z0-9._-]*[.]conf$" jsonschema:"name of the file in /etc/sysctl.d, which holds this setting only; by default 90-turnus-KEY.conf"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	text, err := p.text()
	switch {
	case err != nil:
		return &sdk.ParamError{Pointer: "/value", Err: err}
	case p.State == "present" && text == "":
		return &sdk.ParamError{Pointer: "/value", Err: errors.New("expected a value: a number or text")}
	case p.State == "absent" && p.Value != nil:
		return &sdk.ParamError{Pointer: "/value", Err: errors.New("value goes with state present")}
	}
	return nil
}

// text is the value with single spaces between its fields, as the kernel compares it.
func (p *Params) text() (string, error) {
	switch v := p.Value.(type) {
	case nil:
		return "", nil
	case string:
		if strings.ContainsFunc(strings.ReplaceAll(v, "\t", " "), unicode.IsControl) {
			return "", errors.New("expected one line")
		}
		return strings.Join(strings.Fields(v), " "), nil
	case float64, json.Number:
		raw, err := json.Marshal(v)
		return string(raw), err
	}
	return "", fmt.Errorf("expected a number or text; found %v", p.Value)
}

// key is the name as files have it. As with sysctl, the separator that comes first separates: with
// a slash, dots are part of names.
func (p *Params) key() string {
	if i := strings.IndexAny(p.Key, "./"); p.Key[i] == '/' {
		return swap(p.Key)
	}
	return p.Key
}

func (p *Params) file() string {
	return "/etc/sysctl.d/" + cmp.Or(p.File, "90-turnus-"+strings.ReplaceAll(p.key(), "/", "_")+".conf")
}

// swap exchanges dots and slashes: it turns a key into its path below /proc/sys, and back.
func swap(s string) string { return strings.NewReplacer(".", "/", "/", ".").Replace(s) }

// Outputs of a setting.
type Outputs struct {
	File   string `json:"file" jsonschema:"the file that sets it after a restart"`
	Before string `json:"before" jsonschema:"value of the kernel when it was read"`
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("sysctl", run,
		sdk.Summary("A setting of the kernel, now and after a restart of the host"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("Forward packets", sdk.With{"key": "net.ipv4.ip_forward", "value": 1}),
		sdk.Example("Several fields", sdk.With{"key": "net.ipv4.ip_local_port_range", "value": "15000 65000"}),
		sdk.Example("No longer set at the next restart", sdk.With{"key": "vm.swappiness", "state": "absent"}),
	)
}

const description = `
Sets one value of the kernel (/proc/sys) and writes it to a file of its own in /etc/sysctl.d, so
that it also holds after a restart. Both are compared: a file alone, or a kernel alone, is a change.
Other settings are not loaded again.

At a restart, the files of /etc/sysctl.d, /run/sysctl.d and /usr/lib/sysctl.d are read by their
names, as ` + "`man sysctl.d`" + ` explains. The step logs a warning if a later one gives the key another
value, or /etc/sysctl.conf where systemd does not run.

The step fails where the kernel has no such setting: load the module that brings it first. It also
fails if the kernel took another value than the one that was written.
`

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	p := r.Params
	want, _ := p.text()
	vars := sdk.Vars("k", p.key(), "s", swap(p.key()), "f", p.file(), "v", want, "state", p.State, "path", "/proc/sys/"+swap(p.key()))
	result := r.Host().Query(ctx, vars+askScript)
	if err := result.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", p.Key, err)
	}
	a := sdk.ReadAnswer(result.Stdout)
	if a.Has("missing") && p.State == "present" {
		return r.Lacks("the kernel has no setting %s: correct its name, or load the module that brings it in an earlier step", p.Key)
	}
	now, file := strings.Join(strings.Fields(a.Value("kernel")), " "), a.Text("file")
	r.Output("file", p.file())
	r.Output("before", now)
	if other, value := p.overridden(a); other != "" && value != want {
		r.Log().Warn(fmt.Sprintf("at the next restart %s sets %s to %s: remove it there, or give this step a file with a later name", other, p.Key, value))
	}
	after := ""
	if p.State == "present" {
		after = p.key() + " = " + want + "\n"
	}
	if file == after && (p.State == "absent" || now == want) {
		return nil
	}
	r.Changed()
	r.ShowDiff(p.file(), []byte(file), []byte(after))
	if p.State == "present" && now != want {
		r.Explain(fmt.Sprintf("%s: %s, was %s", p.Key, want, now))
		r.ShowDiff(p.Key, []byte(now+"\n"), []byte(want+"\n"))
	}
	if r.Check {
		return nil
	}
	if err := r.Host().Short(ctx, sdk.Command{Run: vars + doScript}).Err(); err != nil {
		return fmt.Errorf("setting %s: %w", p.Key, err)
	}
	return nil
}

// overridden returns the file that sets the key at a restart, if it is another than the step's, and
// the value there. Files are read in the order of their names. Of those with one name only that in
// the first folder is read, also where it is a link to /dev/null.
//
// /etc/sysctl.conf is read last, and by systemd not at all. A pattern such as
// net.ipv4.conf.*.rp_filter yields to a file with the key.
func (p *Params) overridden(a sdk.Answer) (file, value string) {
	own, last := path.Base(p.file()), ""
	seen := map[string]bool{}
	if p.State == "present" {
		seen[own], last = true, own
	}
	for line := range strings.Lines(a.Text("other")) {
		at, text, _ := strings.Cut(line, "\t")
		name := path.Base(at)
		switch {
		case at == "/etc/sysctl.conf" && a.Has("systemd"), at == p.file():
			continue
		case at == "/etc/sysctl.conf":
			name = "\xff"
		}
		text = strings.Join(strings.Fields(text), " ")
		if !seen[name] && text != "" && name > last {
			file, value, last = at, text, name
		}
		seen[name] = true
	}
	return file, value
}

// askScript prints the value of the kernel, the file of the step, and all files that are read at a
// restart, first those that hide others of their name, with the value that they give the key.
const askScript = `LC_ALL=C; export LC_ALL
other() {
  [ -e "$1" ] || [ -L "$1" ] || return
  set=
  [ ! -f "$1" ] || while IFS='= 	' read -r key rest || [ "$key" ]; do
    case ${key#-} in "$k" | "$s") set=$rest ;; esac
  done <"$1"
  printf 'other %s\t%s\n' "$1" "$set"
}
if [ -e "$path" ]; then echo "kernel $(cat "$path")" || exit 1; else echo missing; fi
[ ! -e "$f" ] || sed 's/^/file /' "$f" || exit 1
[ ! -d /run/systemd/system ] || echo systemd
for d in /etc /run /usr/local/lib /usr/lib /lib; do
  for o in "$d"/sysctl.d/*.conf; do other "$o"; done
done
other /etc/sysctl.conf
exit 0
`

// doScript sets the kernel first: a value that it refuses is not written to the file.
const doScript = `LC_ALL=C; export LC_ALL
if [ "$state" = absent ]; then exec rm -f -- "$f"; fi
same() { set -f; set -- $(cat "$path"); [ "$*" = "$v" ]; }
same || printf '%s\n' "$v" >"$path" || exit 1
same || { echo "the kernel has $(cat "$path") after $v was written" >&2; exit 1; }
mkdir -p "${f%/*}" && cd "${f%/*}" || exit 1
n=.${f##*/}.new
rm -f "./$n"
(umask 022; : >"./$n") || exit 1
{ [ ! -e "$f" ] || cp -p "$f" "./$n"; } &&
  printf '%s = %s\n' "$k" "$v" | cat >"./$n" && mv -f "./$n" "$f" && exit
rm -f "./$n"
echo "$f was not written" >&2
exit 1
`

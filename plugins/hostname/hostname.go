// Package hostname owns the job type hostname: the name that a host gives itself. It imports only
// the sdk.
package hostname

import (
	"context"
	"fmt"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// Params is the with: of a host name.
type Params struct {
	Name string `json:"name" turnus:"required,max=64,pattern=^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$" jsonschema:"the name, with or without its domain"`
}

// Outputs of a host name.
type Outputs struct {
	Before string `json:"before" jsonschema:"the name that the kernel had"`
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("hostname", run,
		sdk.Summary("The name of the host, now and after a restart of the host"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("Name it", sdk.With{"name": "web1.example.net"}),
	)
}

const description = `
Sets the name of the kernel, and the one that the host takes at a restart: /etc/hostname, or the
setting of OpenWrt. Both are compared. Where systemd runs, hostnamectl sets it, so that its services
hear of it.

/etc/hosts is left alone: use the job type ` + "`file`" + ` for it. Programs that run keep the name that they
read at their start.
`

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	want := r.Params.Name
	vars := sdk.Vars("n", want)
	result := r.Host().Query(ctx, vars+askScript)
	if err := result.Err(); err != nil {
		return fmt.Errorf("reading the name of the host: %w", err)
	}
	a := sdk.ReadAnswer(result.Stdout)
	kernel, file := a.Value("kernel"), a.Value("file")
	r.Output("before", kernel)
	if kernel == want && file == want {
		return nil
	}
	r.Changed()
	r.Explain(fmt.Sprintf("%s, was %s", want, kernel))
	r.ShowDiff("hostname of the kernel", []byte(kernel+"\n"), []byte(want+"\n"))
	r.ShowDiff(a.Value("where"), []byte(file+"\n"), []byte(want+"\n"))
	if r.Check {
		return nil
	}
	if err := r.Host().Short(ctx, sdk.Command{Run: vars + doScript}).Err(); err != nil {
		return fmt.Errorf("naming the host %s: %w", want, err)
	}
	return nil
}

// readScript reads both names. OpenWrt writes its own setting into the kernel at each start.
const readScript = shell.Prelude + `kernel() { cat /proc/sys/kernel/hostname 2>/dev/null || uname -n; }
if command -v uci >/dev/null 2>&1; then
  where=uci
  file() { uci -q get 'system.@system[0].hostname'; }
else
  where=/etc/hostname
  file() { sed -n '/^[[:space:]]*#/d; s/[[:space:]]//g; /./{p;q;}' /etc/hostname 2>/dev/null; }
fi
`

const askScript = readScript + `echo "where $where"
echo "kernel $(kernel)"
echo "file $(file)"
`

// doScript does the work that hostnamectl did not do, as where its service does not run.
const doScript = readScript + `if [ -d /run/systemd/system ] && command -v hostnamectl >/dev/null 2>&1; then
  hostnamectl --no-ask-password set-hostname "$n" >/dev/null 2>&1
fi
if [ "$(file)" != "$n" ]; then
  if [ $where = uci ]; then
    uci set "system.@system[0].hostname=$n" && uci commit system || exit 1
  else
    t=/etc/.hostname.new
    rm -f $t
    if [ -e $where ]; then cp -p $where $t; else (umask 022; : >$t); fi && printf '%s\n' "$n" >$t && mv -f $t $where || { rm -f $t; exit 1; }
  fi
fi
[ "$(kernel)" = "$n" ] || hostname "$n" 2>/dev/null || printf '%s\n' "$n" >/proc/sys/kernel/hostname || exit 1
[ "$(kernel)" = "$n" ] && [ "$(file)" = "$n" ] || { echo "the host has the names $(kernel) and $(file) ($where) after it was named" >&2; exit 1; }
`

package firmware

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// A command that must not end with the connection runs detached on the device: a drop in the middle
// of a flash has bricked cameras (OpenIPC#2024). Its folder holds what it is (run), in which boot
// it began (boot), its process (pid), its output (log) and, at its end, its exit code (status).

// launchScript starts $D/run, once. The environment is left behind: by a variable in it the worker
// finds the processes of a command that it no longer waits for.
const launchScript = `set -u
umask 077
if [ -s "$D/pid" ]; then exit 0; fi
boot=$(` + bootID + `)
rm -rf -- "${D%/*}" && mkdir -p -- "$D" && cat >"$D/run" && printf '%s\n' "$boot" >"$D/boot" || exit 1
cat >"$D/main" <<'END'
cd "${0%/*}" || exit 1
echo $$ >pid
/bin/sh ./run >log 2>&1 </dev/null
echo $? >status.new
sync
mv status.new status
END
began() { i=0; while [ ! -s "$D/pid" ] && [ $i -lt 50 ]; do i=$((i + 1)); sleep 0.1 2>/dev/null || sleep 1; done; [ -s "$D/pid" ]; }
if ! { [ -d /run/systemd/system ] && command -v systemd-run >/dev/null 2>&1 &&
    systemd-run --quiet --collect /bin/sh "$D/main" </dev/null >/dev/null 2>&1 && began; }; then
  if command -v setsid >/dev/null 2>&1; then env -i PATH="$PATH" setsid /bin/sh "$D/main" </dev/null >/dev/null 2>&1 &
  else env -i PATH="$PATH" nohup /bin/sh "$D/main" </dev/null >/dev/null 2>&1 & fi
  began || { echo "it did not start" >&2; exit 1; }
fi
`

// statusScript prints one word, and after it the exit code or the end of the log.
const statusScript = `if [ ! -s "$D/pid" ]; then echo absent
elif [ -s "$D/status" ]; then echo "ended $(cat "$D/status")"
elif [ "$(cat "$D/boot")" != "$(` + bootID + `)" ]; then echo broken
elif tr '\0' ' ' <"/proc/$(cat "$D/pid")/cmdline" 2>/dev/null | grep -qF -- "$D/main"; then echo running
elif [ -s "$D/status" ]; then echo "ended $(cat "$D/status")"
else echo broken; fi
tail -c 2000 "$D/log" 2>/dev/null | tail -n 3
`

// detached is one command under way on the device.
type detached struct {
	host  *sdk.Host
	dir   string
	limit time.Duration // of one round trip
}

func (d *detached) script(text string) string { return sdk.Vars("D", d.dir) + text }

func (p *Params) detached(h *sdk.Host, key string) *detached {
	return &detached{host: h, dir: path.Join(p.StateDir, "install", key), limit: time.Duration(p.ConnectTimeout)}
}

// launch starts the command, unless it was started already. Asking twice is the same as once, so a
// connection that breaks is tried again.
func (d *detached) launch(ctx context.Context, command string) error {
	var last error
	trying, cancel := context.WithTimeout(ctx, 6*d.limit)
	defer cancel()
	err := sdk.Poll(trying, 200*time.Millisecond, 2*time.Second, func(trying context.Context) (bool, error) {
		err := d.host.Short(trying, sdk.Command{Run: d.script(launchScript), Stdin: strings.NewReader(command + "\n"), Timeout: d.limit + 10*time.Second}).Err()
		if err == nil {
			return true, nil
		}
		if trying.Err() == nil || last == nil {
			last = err
		}
		var exit *sdk.ExitError
		if errors.As(err, &exit) || !transient(trying, err) {
			return false, err
		}
		return false, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

type progress struct {
	state string // absent, running, ended, broken: its boot has ended, or it was killed
	code  int    // of ended
	log   string // its last lines
}

func (d *detached) status(ctx context.Context) (progress, error) {
	result := d.host.Short(ctx, sdk.Command{Run: d.script(statusScript), ReadOnly: true, Timeout: d.limit})
	if err := result.Err(); err != nil {
		return progress{}, err
	}
	first, log, _ := strings.Cut(result.Stdout, "\n")
	word, code, _ := strings.Cut(first, " ")
	p := progress{state: word, log: strings.TrimSpace(log)}
	if word == "ended" {
		var err error
		if p.code, err = strconv.Atoi(code); err != nil {
			return p, unclear("exit code %q", code)
		}
	}
	return p, nil
}

// wait polls the command to its end; a connection that breaks meanwhile does not end the wait.
func (d *detached) wait(ctx context.Context, limit time.Duration, report func(line string)) (progress, error) {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last progress
	err := sdk.Poll(waiting, 100*time.Millisecond, 3*time.Second, func(waiting context.Context) (bool, error) {
		now, err := d.status(waiting)
		if err == nil {
			last = now
			report(now.log)
			return now.state != "running", nil
		}
		if transient(waiting, err) || waiting.Err() != nil {
			err = nil
		}
		return false, err
	})
	if ctx.Err() == nil && waiting.Err() != nil {
		err = fmt.Errorf("it has not ended within %s; it printed: %s", limit, last.log)
	}
	return last, err
}

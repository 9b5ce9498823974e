package packages

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/plugins/sdk"
)

// The managers of small systems, with the messages of the real ones. Packages and versions are
// lines of files: $DB/installed, $DB/upstream of the servers, and $DB/lists of the last update.
const (
	asApk = `while [ $# -gt 0 ]; do
  case $1 in --wait) shift ;; -u) up=1 ;; -s) sim=1 ;; -*) ;; add | del | update | info) verb=$1 ;; *) names="$names $1" ;; esac
  shift
done
if [ -e "$DB/locked" ] && [ "$verb$sim" != add1 ] && [ $verb != info ]; then
  printf 'ERROR: %s database: Resource temporarily unavailable\n' 'Unable to lock' 'Failed to open apk' >&2; exit 99
fi
[ $verb != update ] || { echo update >>"$DB/log"; mkdir -p "$DB/lists"; cat "$DB/upstream" >"$DB/lists/APKINDEX.1"; }
for n in $names; do
  have=$(sed -n "s/^$n //p" "$DB/installed") new=$(sed -n "s/^$n //p" "$DB/lists/APKINDEX.1" 2>/dev/null)
  case $verb in
  info) [ "$have" ] || exit 1 ;;
  del) sed -i "/^$n /d" "$DB/installed" ;;
  add)
    [ "$new" ] || { printf 'ERROR: unable to select packages:\n  %s (no such package):\n' "$n"; exit 1; }
    if [ -z "$have" ]; then echo "(1/1) Installing $n ($new)"
    elif [ "$up" ] && [ $have != $new ]; then echo "(1/1) Upgrading $n ($have -> $new)"; else continue; fi
    [ "$sim" ] || { sed -i "/^$n /d" "$DB/installed"; echo "$n $new" >>"$DB/installed"; } ;;
  esac
done`
	asOpkg = `verb=$1; shift
[ ! -e "$DB/locked" ] || { echo "opkg_conf_load: Could not lock /var/lock/opkg.lock: Resource temporarily unavailable." >&2; exit 255; }
[ $verb != update ] || { echo update >>"$DB/log"; mkdir -p "$DB/lists"; cat "$DB/upstream" >"$DB/lists/base"; }
[ $verb != list-upgradable ] || while read -r n have; do
  new=$(sed -n "s/^$n //p" "$DB/lists/base"); [ $new = $have ] || echo "$n - $have - $new"
done <"$DB/installed"
for n in "$@"; do
  have=$(sed -n "s/^$n //p" "$DB/installed") new=$(sed -n "s/^$n //p" "$DB/lists/base" 2>/dev/null)
  case $verb in
  status) [ -z "$have" ] || printf 'Package: %s\nVersion: %s\nStatus: install user installed\n' $n $have ;;
  info) [ -z "$new" ] || printf 'Package: %s\nVersion: %s\n' $n $new ;;
  remove) sed -i "/^$n /d" "$DB/installed" ;;
  install | upgrade) [ "$new" ] || exit 255; sed -i "/^$n /d" "$DB/installed"; echo "$n $new" >>"$DB/installed" ;;
  esac
done`
)

// small is a host whose only programs are those of busybox, or of this machine, and a manager.
type small struct {
	testing.TB
	manager, dir string
	shell        []string
	lists, mark  string // folders of the manager, which are in dir
}

// run runs a script, whose folders are in dir.
func (h *small) run(script string) (string, error) {
	h.Helper()
	for folder, at := range map[string]string{h.lists: "lists", h.mark: "mark"} {
		if folder != "" {
			script = strings.ReplaceAll(script, folder, filepath.Join(h.dir, at))
		}
	}
	sh := exec.Command(h.shell[0], append(h.shell[1:], "-c", script)...)
	sh.Env = []string{"PATH=" + filepath.Join(h.dir, "bin"), "DB=" + h.dir}
	out, err := sh.CombinedOutput()
	return string(out), err
}

func (h *small) read(name string) string {
	h.Helper()
	data, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.Fatal(err)
	}
	return string(data)
}

func (h *small) write(name, text string) {
	h.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
}

// aged makes files and folders a day old.
func (h *small) aged(names ...string) {
	h.Helper()
	for _, name := range names {
		if err := os.Chtimes(filepath.Join(h.dir, name), time.Time{}, time.Now().Add(-24*time.Hour)); err != nil {
			h.Fatal(err)
		}
	}
}

// ask returns the report of the host. It changes nothing.
func (h *small) ask(p Params) look {
	h.Helper()
	before := h.read("installed") + h.read("log")
	out, err := h.run(asking(p))
	now, readErr := read(out)
	if err != nil || readErr != nil || now.manager != h.manager || h.read("installed")+h.read("log") != before {
		h.Fatalf("%+v: %+v, %v, %v: %q; then installed are %q", p, now, err, readErr, out, h.read("installed"))
	}
	return now
}

// do brings the host to the state, as a step does.
func (h *small) do(p Params) {
	h.Helper()
	if out, err := h.run(doing(p, h.manager, p.State)); err != nil {
		h.Fatalf("%+v: %v: %s", p, err, out)
	}
}

// eachSmall runs f with apk and opkg, each by this machine's shell and programs and by busybox's.
func eachSmall(t *testing.T, f func(h *small)) {
	t.Helper()
	for _, m := range []small{
		{manager: "apk", lists: "/lib/apk/db", mark: "/var/cache/apk"},
		{manager: "opkg", lists: "/var/lib/opkg/lists"},
	} {
		for _, box := range []string{"", "busybox"} {
			t.Run(m.manager+" "+box, func(t *testing.T) {
				t.Parallel()
				h := m
				h.TB, h.dir, h.shell = t, t.TempDir(), []string{"/bin/sh"}
				bin := filepath.Join(h.dir, "bin")
				if err := os.Rename(programs(t, map[string]string{m.manager: map[string]string{"apk": asApk, "opkg": asOpkg}[m.manager]}), bin); err != nil {
					t.Fatal(err)
				}
				if box != "" {
					h.shell = []string{testparts.Need(t, box, box), "sh"}
				}
				for _, tool := range []string{"sed", "grep", "cat", "date", "touch", "mkdir", "sleep", "tail"} {
					from := testparts.Need(t, cmp.Or(box, tool), "busybox")
					if err := os.Symlink(from, filepath.Join(bin, tool)); err != nil {
						t.Fatal(err)
					}
				}
				f(&h)
			})
		}
	}
}

// apk and opkg bring a package to each state. They report the change before it, and nothing after
// it. The programs are not the real ones.
func TestSmallManagers(t *testing.T) {
	t.Parallel()
	eachSmall(t, func(h *small) {
		h.write("upstream", "demo 1.0\nother 1.0\n")
		h.write("installed", "base 1.0\n")
		p := Params{Names: []string{"demo"}, State: "present"}
		if now := h.ask(p); !now.noLists || now.failed == "" {
			h.Errorf("without lists: %+v", now)
		}
		h.do(Params{Names: p.Names, State: "refresh"})
		for _, step := range []struct {
			names, state, upstream, change, after string
		}{
			{"demo", "present", "", "install demo", "base 1.0\ndemo 1.0\n"},
			{"demo", "latest", "", "", "base 1.0\ndemo 1.0\n"},
			{"demo other", "present", "", "install other", "base 1.0\ndemo 1.0\nother 1.0\n"},
			{"demo", "present", "base 1.0\ndemo 1.1\nother 1.0\n", "", "base 1.0\ndemo 1.0\nother 1.0\n"},
			{"demo", "latest", "", "upgrade demo", "base 1.0\nother 1.0\ndemo 1.1\n"},
			{"other nosuch", "absent", "", "remove other", "base 1.0\ndemo 1.1\n"},
		} {
			if step.upstream != "" {
				h.write("upstream", step.upstream)
				h.do(Params{Names: p.Names, State: "refresh"})
			}
			p := Params{Names: strings.Fields(step.names), State: step.state}
			now := h.ask(p)
			if now.noLists || now.failed != "" || len(now.changes) != len(strings.Fields(step.change))/2 || !strings.HasPrefix(strings.Join(now.changes, "; "), step.change) {
				h.Errorf("%+v: %+v, expected %q", p, now, step.change)
			}
			if step.change != "" { // a step that has nothing to change does nothing
				h.do(p)
			}
			if now := h.ask(p); len(now.changes) != 0 || h.read("installed") != step.after {
				h.Errorf("%+v: afterwards %+v, installed are %q", p, now, h.read("installed"))
			}
		}
		h.write("upstream", "demo 1.1\nlate 1.0\n") // in one command: refresh, ask, install
		for name, change := range map[string]string{"late": "install late", "nosuch": ""} {
			out, err := h.run(renewing(Params{Names: []string{name}, State: "present"}, h.manager))
			now, readErr := read(out)
			if err != nil || readErr != nil || (change == "") == (now.failed == "") || change != "" && !slices.Equal(now.changes, []string{change}) {
				h.Errorf("%s: %q, %v, %v", name, out, err, readErr)
			}
		}
		if got := h.read("installed"); got != "base 1.0\ndemo 1.1\nlate 1.0\n" {
			h.Errorf("installed are %q", got)
		}
		if now := h.ask(Params{Names: []string{"nosuch"}, State: "present"}); !strings.Contains(now.failed, "no") {
			h.Errorf("a name that no list has: %+v", now)
		}
		h.write("locked", "")
		out, err := h.run(doing(Params{Names: []string{"other"}}, h.manager, "present"))
		if err == nil || lockFailure(out, out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:], time.Minute) == nil {
			h.Errorf("another process has the lock: %v, %q", err, out)
		}
	})
}

// Lists are stale until they are refreshed, and again after the time of refresh. An install makes
// them no younger.
func TestSmallManagersKnowTheAgeOfLists(t *testing.T) {
	t.Parallel()
	eachSmall(t, func(h *small) {
		h.write("upstream", "demo 1.0\n")
		h.write("installed", "base 1.0\n")
		p := Params{Names: []string{"demo"}, State: "present", Refresh: sdk.Duration(time.Hour)}
		stale := func(about string, want bool) {
			h.Helper()
			if now := h.ask(p); now.stale != want {
				h.Errorf("%s: %+v, expected stale: %v", about, now, want)
			}
		}
		stale("without lists", true)
		h.do(Params{Names: p.Names, State: "refresh"})
		stale("after a refresh", false)
		old := []string{"mark/.turnus-refreshed", "mark", "lists/APKINDEX.1", "lists"}
		if h.manager == "opkg" {
			old = []string{"lists/base", "lists"}
		}
		h.aged(old...)
		stale("a day later", true)
		h.do(p)
		if h.manager == "apk" { // it keeps its database beside the lists
			h.write("lists/installed", h.read("installed"))
		}
		stale("after an install", true)
		p.Refresh = sdk.Duration(48 * time.Hour)
		stale("by a longer time", false)
		p.Refresh = 0
		stale("by none", false)
	})
}

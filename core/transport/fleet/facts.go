package fleet

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// diskSize is that of a host, in KiB.
const diskSize = 7616824

func facts(_ context.Context, c *call) int {
	h := c.sh.host
	say := func(format string, args ...any) int {
		if _, err := fmt.Fprintf(c.out, format+"\n", args...); err != nil {
			return 1
		}
		return 0
	}
	switch c.name {
	case "uname":
		return say("%s", uname(c.flags("asnrmo"), h.hostname()))
	case "uptime":
		return say(" %s up %d min,  0 users,  load average: 0.08, 0.03, 0.01", time.Now().UTC().Format(time.TimeOnly), int(h.uptime().Minutes()))
	case "date":
		return say("%s", date(c.args))
	case "whoami":
		return say("%s", h.table(passwdFile).name(c.sh.uid))
	case "pwd":
		if c.flags("LP") != "P" && h.fs.real(c.sh.vars["PWD"].text) == c.sh.cwd {
			return say("%s", c.sh.vars["PWD"].text)
		}
		return say("%s", c.sh.cwd)
	case "nproc":
		return say("2")
	case "df":
		used := 1523364
		if h.profile.Load().FullDisk {
			used = diskSize
		}
		return say("Filesystem     1K-blocks    Used Available Use%% Mounted on\n/dev/root        %7d %7d   %7d %3d%% /",
			diskSize, used, diskSize-used, (used*100+diskSize-1)/diskSize)
	case "free":
		return say("               total        used        free\nMem:         2014160      412332     1601828\nSwap:              0           0           0")
	case "nginx":
		return nginx(c)
	case "systemctl":
		return systemctl(c)
	case "fwctl":
		return say("%s: ok", h.name)
	}
	if len(c.args) == 0 {
		return c.fail(1, "missing operand")
	}
	switch c.name {
	case "printenv":
		v := c.sh.vars[c.args[0]]
		if !v.set || !v.exported {
			return 1
		}
		return say("%s", v.text)
	case "which":
		return min(c.which(c.args[0]), 1)
	case "basename":
		return say("%s", path.Base(c.args[0]))
	}
	return say("%s", path.Dir(c.args[0])) // dirname
}

func uname(flags, name string) string {
	if flags == "" {
		flags = "s"
	}
	if strings.Contains(flags, "a") {
		flags = "snrmo"
	}
	var out []string
	for _, f := range []struct{ flag, text string }{
		{"s", "Linux"}, {"n", name}, {"r", "6.1.0-turnus"}, {"m", "x86_64"}, {"o", "GNU/Linux"},
	} {
		if strings.Contains(flags, f.flag) {
			out = append(out, f.text)
		}
	}
	return strings.Join(out, " ")
}

func date(args []string) string {
	now := time.Now().UTC()
	if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "+") }); i >= 0 {
		return strings.NewReplacer("%s", strconv.FormatInt(now.Unix(), 10), "%F", now.Format(time.DateOnly),
			"%T", now.Format(time.TimeOnly), "%Y", now.Format("2006"), "%m", now.Format("01"), "%d", now.Format("02"),
			"%H", now.Format("15"), "%M", now.Format("04"), "%S", now.Format("05")).Replace(args[i][1:])
	}
	return now.Format(time.UnixDate)
}

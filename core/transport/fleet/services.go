package fleet

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// units are the services of every host. All that are enabled run after a boot. A file of unitFolder
// is a further one.
var units = []string{"chrony", "cron", "named", "nginx", "ntp", "postgresql", "rsyslog", "ssh"}

func systemctl(c *call) int {
	if slices.Contains(c.args, "-q") || slices.Contains(c.args, "--quiet") {
		c.out = io.Discard
	}
	if len(c.args) > 0 && c.args[0] == "show" {
		return c.showUnits()
	}
	now := slices.Contains(c.args, "--now")
	c.args = slices.DeleteFunc(slices.Clone(c.args), func(a string) bool { return strings.HasPrefix(a, "-") })
	if len(c.args) == 0 {
		return c.fail(1, "missing operand")
	}
	verb, code := c.args[0], 0
	switch verb {
	case "reboot":
		c.sh.host.reboot(c.sh.pid)
		return 0
	case "daemon-reload":
		c.sh.host.reloaded.Store(time.Now().UnixNano())
		return 0
	case "is-system-running":
		fmt.Fprintln(c.out, "running")
		return 0
	}
	for _, name := range c.args[1:] {
		name = strings.TrimSuffix(name, ".service")
		got := c.unit(verb, name)
		if then := map[string]string{"enable": "start", "disable": "stop"}[verb]; now && then != "" && got == 0 {
			got = c.unit(then, name)
		}
		code = max(code, got)
	}
	return code
}

// unit does what systemctl does with one service.
func (c *call) unit(verb, name string) int {
	known, active := c.sh.host.service(name)
	switch verb {
	case "is-active":
		return c.state(active, "active", "inactive", 3)
	case "is-enabled":
		state, code := c.sh.host.enabled(name)
		c.print(state + "\n")
		return code
	}
	if !known {
		fmt.Fprintf(c.err, "Unit %s could not be found.\n", path.Base(unitFile(name)))
		if verb == "status" {
			return 4
		}
		return 5
	}
	switch verb {
	case "status":
		fmt.Fprintf(c.out, "● %s.service - %[1]s of a simulated host\n     Active: ", name)
		return c.state(active, "active (running)", "inactive (dead)", 3)
	case "enable", "disable":
		c.sh.host.setService(name, active) // without a record, enablement decides whether it is active
		return c.ended(1, c.sh.host.enable(name, verb == "enable"))
	case "cat":
		return c.print(c.sh.host.fs.text(unitFile(name)))
	case "reset-failed":
	case "stop":
		c.sh.host.setService(name, false)
	case "start", "restart", "reload", "try-restart", "reload-or-restart":
		if verb == "reload" && !active {
			fmt.Fprintf(c.err, "%s.service is not active, cannot reload.\n", name)
			return 1
		}
		if name == "nginx" && c.nginxProblem() != "" {
			c.sh.host.setService(name, active && verb == "reload")
			fmt.Fprintln(c.err, "Job for nginx.service failed because the control process exited with error code.")
			return 1
		}
		c.sh.host.setService(name, true)
	default:
		return c.fail(1, "Unknown command verb '%s'.", verb)
	}
	return 0
}

// showUnits is systemctl show -p NAME … UNIT: it ends well for units that do not exist, as
// systemd's does.
func (c *call) showUnits() int {
	var properties []string
	printed := false
	for args := c.args[1:]; len(args) > 0; args = args[1:] {
		switch {
		case args[0] == "-p" && len(args) > 1:
			properties, args = append(properties, args[1]), args[1:]
		case strings.HasPrefix(args[0], "-"):
		default:
			if printed {
				fmt.Fprintln(c.out)
			}
			printed = true
			values := c.sh.host.properties(strings.TrimSuffix(args[0], ".service"))
			for _, p := range properties {
				fmt.Fprintf(c.out, "%s=%s\n", p, values[p])
			}
		}
	}
	return 0
}

// properties are those of a unit.
func (h *host) properties(name string) map[string]string {
	known, active := h.service(name)
	values := map[string]string{"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "NeedDaemonReload": "no"}
	if known {
		values["LoadState"] = "loaded"
	}
	if n, err := h.fs.stat(unitFile(name)); err == nil {
		values["FragmentPath"] = unitFile(name)
		if n.mtime.UnixNano() > h.reloaded.Load() {
			values["NeedDaemonReload"] = "yes"
		}
	}
	if active {
		values["ActiveState"], values["SubState"] = "active", "running"
		if strings.HasSuffix(name, ".timer") {
			values["SubState"] = "waiting"
		}
	}
	return values
}

// state prints one of two words, and returns 0 or the code of the second.
func (c *call) state(ok bool, yes, no string, code int) int {
	if ok {
		fmt.Fprintln(c.out, yes)
		return 0
	}
	fmt.Fprintln(c.out, no)
	return code
}

func (h *host) service(name string) (known, active bool) {
	state, _ := h.enabled(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	stopped, changed := h.stopped[name]
	known = state != notFound
	return known, known && !stopped && (changed || state == "enabled")
}

const (
	unitFolder = "/etc/systemd/system"
	notFound   = "not-found"
)

// unitFile is where the host has a unit that is not one of units.
func unitFile(name string) string {
	if !strings.HasSuffix(name, ".timer") {
		name += ".service"
	}
	return unitFolder + "/" + name
}

// enabled reports whether a unit is started with the host, in systemd's words, with the exit code
// of is-enabled.
func (h *host) enabled(name string) (state string, code int) {
	h.mu.Lock()
	off := h.disabled[name]
	h.mu.Unlock()
	switch wants := h.wants(name); {
	case slices.Contains(units, name) && off:
		return "disabled", 1
	case slices.Contains(units, name):
		return "enabled", 0
	case h.fs.text(unitFile(name)) == "":
		return notFound, 4
	case wants == "":
		return "static", 0
	default:
		if _, err := h.fs.lstat(wants); err != nil {
			return "disabled", 1
		}
		return "enabled", 0
	}
}

// wants is the link that has a unit started with the host; "" where the file of the unit names no
// target.
func (h *host) wants(name string) string {
	for line := range strings.Lines(h.fs.text(unitFile(name))) {
		if target, ok := strings.CutPrefix(strings.TrimSpace(line), "WantedBy="); ok && !strings.Contains(target, "/") {
			return unitFolder + "/" + target + ".wants/" + path.Base(unitFile(name))
		}
	}
	return ""
}

// enable has a unit started with the host, or not.
func (h *host) enable(name string, on bool) error {
	if slices.Contains(units, name) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.disabled == nil {
			h.disabled = make(map[string]bool)
		}
		h.disabled[name] = !on
		return nil
	}
	wants := h.wants(name)
	if wants == "" {
		return nil
	}
	if _, err := h.fs.lstat(wants); !on && err == nil {
		return h.fs.remove(wants, false)
	} else if !on || err == nil {
		return nil
	}
	if err := h.fs.mkdir(path.Dir(wants), true, 0o755, actor{}); err != nil {
		return err
	}
	return h.fs.symlink(unitFile(name), wants, actor{})
}

func (h *host) setService(name string, active bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped == nil {
		h.stopped = make(map[string]bool)
	}
	h.stopped[name] = !active
}

const nginxConfig = "/etc/nginx/nginx.conf"

// nginx tests its configuration: nginx -t.
func nginx(c *call) int {
	if c.flags("tq") == "" {
		return 0 // it runs already
	}
	if problem := c.nginxProblem(); problem != "" {
		fmt.Fprintf(c.err, "nginx: [emerg] %s\nnginx: configuration file %s test failed\n", problem, nginxConfig)
		return 1
	}
	fmt.Fprintf(c.err, "nginx: the configuration file %s syntax is ok\nnginx: configuration file %[1]s test is successful\n", nginxConfig)
	return 0
}

// nginxProblem returns a mistake in the configuration; "" for none.
func (c *call) nginxProblem() string {
	r, err := c.open(nginxConfig)
	if err != nil {
		return fmt.Sprintf("open() %q failed (2: %s)", nginxConfig, reason(err))
	}
	text, err := slurp(r)
	if err != nil {
		return fmt.Sprintf("%s is %v", nginxConfig, err)
	}
	switch opened, closed := strings.Count(text, "{"), strings.Count(text, "}"); {
	case opened > closed:
		return fmt.Sprintf("unexpected end of file, expecting \"}\" in %s:%d", nginxConfig, strings.Count(text, "\n")+1)
	case opened < closed:
		return fmt.Sprintf("unexpected \"}\" in %s:%d", nginxConfig, strings.Count(text[:strings.LastIndex(text, "}")], "\n")+1)
	}
	return ""
}

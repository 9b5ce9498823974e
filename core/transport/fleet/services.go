package fleet

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// units are the services of every host. All run after a boot.
var units = []string{"chrony", "cron", "named", "nginx", "ntp", "postgresql", "rsyslog", "ssh"}

func systemctl(c *call) int {
	if slices.Contains(c.args, "-q") || slices.Contains(c.args, "--quiet") {
		c.out = io.Discard
	}
	if len(c.args) > 0 && c.args[0] == "show" {
		return c.showUnits()
	}
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
		return 0
	case "is-system-running":
		fmt.Fprintln(c.out, "running")
		return 0
	}
	for _, name := range c.args[1:] {
		code = max(code, c.unit(verb, strings.TrimSuffix(name, ".service")))
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
		return c.state(known, "enabled", "not-found", 4)
	}
	if !known {
		fmt.Fprintf(c.err, "Unit %s.service could not be found.\n", name)
		return 4 + status(verb == "status") // else 5
	}
	switch verb {
	case "status":
		fmt.Fprintf(c.out, "● %s.service - %[1]s of a simulated host\n     Active: ", name)
		return c.state(active, "active (running)", "inactive (dead)", 3)
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
	}
	return 0
}

// showUnits is systemctl show -p NAME … UNIT: it ends well for units that do not exist, as
// systemd's does.
func (c *call) showUnits() int {
	var properties []string
	for args := c.args[1:]; len(args) > 0; args = args[1:] {
		switch {
		case args[0] == "-p" && len(args) > 1:
			properties, args = append(properties, args[1]), args[1:]
		case strings.HasPrefix(args[0], "-"):
		default:
			known, active := c.sh.host.service(strings.TrimSuffix(args[0], ".service"))
			values := map[string]string{"LoadState": "not-found", "ActiveState": "inactive", "NeedDaemonReload": "no"}
			if known {
				values["LoadState"] = "loaded"
			}
			if active {
				values["ActiveState"] = "active"
			}
			for _, p := range properties {
				fmt.Fprintf(c.out, "%s=%s\n", p, values[p])
			}
		}
	}
	return 0
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
	h.mu.Lock()
	defer h.mu.Unlock()
	known = slices.Contains(units, name)
	return known, known && !h.stopped[name]
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
	text := slurp(r)
	switch opened, closed := strings.Count(text, "{"), strings.Count(text, "}"); {
	case opened > closed:
		return fmt.Sprintf("unexpected end of file, expecting \"}\" in %s:%d", nginxConfig, strings.Count(text, "\n")+1)
	case opened < closed:
		return fmt.Sprintf("unexpected \"}\" in %s:%d", nginxConfig, strings.Count(text[:strings.LastIndex(text, "}")], "\n")+1)
	}
	return ""
}

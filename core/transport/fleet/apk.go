package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// packages lists what the simulated hosts can install; some are there from the beginning.
var (
	packages  = []string{"bash", "chrony", "curl", "git", "htop", "jq", "nginx", "postgresql", "python3", "rsync", "tcpdump", "vim"}
	installed = []string{"bash", "chrony", "nginx"}
)

// apk is the package manager of the simulated hosts, as far as scripts use it: info -e, add, del
// and update.
func apk(_ context.Context, c *call) int {
	var verb, options string
	var names []string
	for i := 0; i < len(c.args); i++ {
		switch a := c.args[i]; {
		case a == "--wait":
			i++
		case strings.HasPrefix(a, "-"):
			options += a
		case verb == "":
			verb = a
		default:
			names = append(names, a)
		}
	}
	h := c.sh.host
	switch verb {
	case "update":
		return 0
	case "info":
		for _, name := range names {
			if !h.installed(name) {
				return 1
			}
		}
		return 0
	case "add", "del":
	default:
		return c.fail(1, "unknown command %q", verb)
	}
	for _, name := range names {
		if verb == "add" && !slices.Contains(packages, name) {
			fmt.Fprintf(c.err, "ERROR: unable to select packages:\n  %s (no such package)\n", name)
			return 1
		}
	}
	for i, name := range names {
		if h.installed(name) == (verb == "add") {
			continue
		}
		fmt.Fprintf(c.out, "(%d/%d) %s %s\n", i+1, len(names), map[string]string{"add": "Installing", "del": "Purging"}[verb], name)
		if !strings.Contains(options, "s") {
			h.setInstalled(name, verb == "add")
		}
	}
	return 0
}

func (h *host) installed(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now, changed := h.packages[name]; changed {
		return now
	}
	return slices.Contains(installed, name)
}

func (h *host) setInstalled(name string, now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.packages == nil {
		h.packages = make(map[string]bool)
	}
	h.packages[name] = now
}

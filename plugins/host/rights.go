package host

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/turnus/turnus/core"
)

// The texts of a failure. denied matches those of actions that only root may do. Root of the host
// is no help where elsewhere matches: ssh or a database refused a login, or the worker may not use
// its own file or network.
var (
	denied = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)permission denied|operation not permitted|access denied|interactive authentication required|superuser|must be privileged|\b(as|be|only|you) root\b`)
	})
	elsewhere = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)permission denied[^(]{0,20}\((publickey|password|keyboard|gssapi|hostbased)|(artifact "|save \S+: |folder for fetched files|access denied for user|permission denied for |dial |connect: )[^\n]*`)
	})
)

// becomeHint returns the hint of a call that failed because it did not run as root; "" for any
// other. It is here because a job type knows neither its login nor become.
func becomeHint(c *Call, out Outcome, login func(core.Host) string) string {
	missing := denied().MatchString(elsewhere().ReplaceAllString(out.Reason, ""))
	if !out.Failed || out.Unreachable || c.Become.User != "" || !missing || strings.Contains(out.Reason, "become") {
		return ""
	}
	user := login(c.Host)
	if user == "" || user == "root" {
		return ""
	}
	return fmt.Sprintf("\nhint: the step ran as the user %s: to run it as root, write become: true in the playbook, or add --become", user)
}

// login returns the user that the worker logs in as; "" if it is not known.
func (s *Supervisor) login(h core.Host) string {
	if s.cfg.Reach == nil {
		return ""
	}
	return s.cfg.Reach.Login(h)
}

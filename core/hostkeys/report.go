package hostkeys

import (
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

// Bounds of what a worker reports about one host.
const (
	maxReported    = 8        // keys; a scan sees one of each type
	maxReportedKey = 32 << 10 // bytes of a line
)

// Report has the outputs of the job type hostkeys for a host, or why there are none.
type Report struct {
	Outputs map[string]any
	Err     error
}

// Reported judges the reports of workers, by host, as Scan judges what it sees. Only the worker has
// proof that a host has its key. A host without a report has an error; a jump host that nobody
// asked for is left out.
func Reported(pool *transport.Pool, hosts []core.Host, reports map[string]Report) []Result {
	asked := map[string]bool{}
	for _, h := range hosts {
		asked[h.Name] = true
	}
	var list []Result
	for _, h := range Targets(pool, hosts) {
		report, ok := reports[h.Name]
		if !ok && !asked[h.Name] {
			continue
		}
		r := Result{Host: h, Err: report.Err}
		if !ok {
			r.Err = errors.New("the server has no such host for you: its inventory is that of the project's newest commit")
		}
		if r.Err == nil {
			r.HostKeys, r.Shown, r.Err = report.judge(pool, h)
		}
		list = append(list, r)
	}
	return list
}

func (r *Report) judge(pool *transport.Pool, h core.Host) (keys transport.HostKeys, shown []ssh.PublicKey, err error) {
	if shown, err = r.keys(); err != nil {
		return keys, nil, fmt.Errorf("the worker's report: %w", err)
	}
	if keys, err = pool.Compare(h, shown); err != nil {
		return keys, nil, err
	}
	if name, _ := r.Outputs["known_hosts_name"].(string); name != keys.Name {
		return transport.HostKeys{}, nil, fmt.Errorf("the worker scanned %.253q, and this inventory has the host as %q: use the inventory of the server's project", name, keys.Name)
	}
	return keys, shown, nil
}

// keys reads the keys of the report: some, each a public key and nothing else.
func (r *Report) keys() ([]ssh.PublicKey, error) {
	lines, _ := r.Outputs["keys"].([]any)
	if len(lines) == 0 || len(lines) > maxReported {
		return nil, fmt.Errorf("%d keys: expected 1 to %d", len(lines), maxReported)
	}
	var list []ssh.PublicKey
	for _, one := range lines {
		line, _ := one.(string)
		if len(line) > maxReportedKey {
			return nil, fmt.Errorf("a key of %d bytes: expected at most %d", len(line), maxReportedKey)
		}
		key, comment, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || comment != "" || len(options)+len(rest) > 0 {
			return nil, fmt.Errorf("%.60q is not a public key alone", line)
		}
		list = append(list, key)
	}
	return list, nil
}

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

// healthWait bounds the question; an answer takes a server 3 s at most.
const healthWait = 5 * time.Second

// healthFlags say which process is asked, and what.
type healthFlags struct {
	data  string
	files securefile.TLSFiles
	ready bool
}

func (a *app) healthCmd() *cobra.Command {
	var f healthFlags
	c := &cobra.Command{
		Use:   "health [URL]",
		Short: "Ask a server or a worker whether it does its work",
		Long: `Ask a server or a worker whether it does its work (GET /healthz), or, with --ready,
whether it takes any (GET /readyz): for the health check of a container, which has no other
program to ask with. Without a URL, that of TURNUS_HEALTH or the process that holds the
data folder is asked, over the address that it listens on. It exits with 0, with 1 for what
does not answer or says no, and with 5 for wrong usage.`,
		Example: `  turnus admin health --data /var/lib/turnus
  turnus admin health http://127.0.0.1:9470 --ready`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.health(cmd.Context(), &f, cmp.Or(strings.Join(args, ""), os.Getenv("TURNUS_HEALTH")))
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.data, "data", "turnus-data", "data folder of the process that is asked")
	fl.BoolVar(&f.ready, "ready", false, "ask whether it takes work")
	fl.StringVar(&f.files.CA, "ca-file", "", "certificates, in PEM, of the certificate authority that signed the certificate at the URL")
	fl.StringVar(&f.files.Cert, "cert-file", "", "certificate, in PEM, where the process asks for one (--tls-client-ca, --metrics-client-ca)")
	fl.StringVar(&f.files.Key, "key-file", "", "its key, in PEM")
	return c
}

// asked is the address at which a process is asked.
type asked struct {
	url  string
	addr string // to connect to; empty: the URL's
}

func (a *app) health(ctx context.Context, f *healthFlags, rawURL string) error {
	ctx, cancel := context.WithTimeout(ctx, healthWait)
	defer cancel()
	files, err := securefile.OpenTLS(f.files, nil)
	if err != nil {
		return err
	}
	to := asked{url: rawURL}
	if rawURL == "" {
		if to, err = holderOf(f.data); err != nil {
			return err
		}
	}
	u, err := url.Parse(to.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return console.Invalid("health: %q: expected a URL as http://127.0.0.1:9470", to.url)
	}
	path := "/healthz"
	if f.ready {
		path = "/readyz"
	}
	transport := &http.Transport{TLSClientConfig: files.Client("")}
	if to.addr != "" {
		// It is the socket that the data folder names, on this machine: its certificate may be for
		// another name, and nothing is sent.
		transport.TLSClientConfig.InsecureSkipVerify = true
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, to.addr)
		}
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath(path).String(), nil)
	if err != nil {
		return console.Invalid("health: %w", err)
	}
	res, err := (&http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		if why := securefile.ExplainTLS(err, securefile.TLSHints{CA: "--ca-file", Cert: "--cert-file and --key-file name one", Name: "the URL"}); why != "" {
			return fmt.Errorf("health: %w: %w: %s", core.ErrUnavailable, err, why)
		}
		return fmt.Errorf("health: %w: %w", core.ErrUnavailable, err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err != nil {
		return fmt.Errorf("health: %w: %w", core.ErrUnavailable, err)
	}
	said := console.Printable(strings.TrimSpace(string(text)))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("health: %s answers %d to %s: %s", u.Host, res.StatusCode, path, said)
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, map[string]string{"url": to.url, "path": path, "answer": said})
	}
	_, err = fmt.Fprintln(a.Out, said)
	return err
}

// listening matches the line that a process that listens writes into the lock of its data folder.
var listening = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^process \d+ on .*, listening on (\S+) at (\S+)\n$`) })

// holderOf is the process that holds a data folder.
func holderOf(data string) (asked, error) {
	file, err := os.Open(filepath.Join(data, "lock"))
	if err != nil {
		return asked{}, console.Invalid("health: no process has held the data folder: %w\nhint: --data FOLDER, or the URL of a server or of a worker's --metrics", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, 1000))
	if err != nil {
		return asked{}, fmt.Errorf("health: %w", err)
	}
	words := listening().FindStringSubmatch(string(text))
	if words == nil {
		return asked{}, fmt.Errorf("health: it does not listen yet: %s: %w", console.Printable(strings.TrimSpace(string(text))), core.ErrUnavailable)
	}
	return asked{url: words[1], addr: words[2]}, nil
}

package service

import (
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

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

// healthWait bounds the question; an answer takes a server 3 s at most.
const healthWait = 5 * time.Second

// HealthFlags define which process is asked, and what.
type HealthFlags struct {
	Data  string
	Files securefile.TLSFiles
	Ready bool
}

// asked is the address at which a process is asked.
type asked struct {
	url  string
	addr string // to connect to; empty: the URL's
}

// Ask asks the process at a URL, or the one that holds the data folder, and prints its answer.
func (f *HealthFlags) Ask(ctx context.Context, con *console.Console, rawURL string) error {
	ctx, cancel := context.WithTimeout(ctx, healthWait)
	defer cancel()
	files, err := securefile.OpenTLS(f.Files, nil)
	if err != nil {
		return err
	}
	to := asked{url: rawURL}
	if rawURL == "" {
		if to, err = holderOf(f.Data); err != nil {
			return err
		}
	}
	u, err := url.Parse(to.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return console.Invalid("health: %q: expected a URL as http://127.0.0.1:9470", to.url)
	}
	path := "/healthz"
	if f.Ready {
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
	if con.Output == "json" {
		return console.PrintJSON(con.Out, map[string]string{"url": to.url, "path": path, "answer": said})
	}
	_, err = fmt.Fprintln(con.Out, said)
	return err
}

// listening matches the line that a process that listens writes into the lock of its data folder.
var listening = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^process \d+ on .*, listening on (\S+) at (\S+)\n$`) })

// holderOf is the process that holds a data folder.
func holderOf(data string) (asked, error) {
	file, err := os.Open(filepath.Join(data, "lock"))
	if err != nil {
		return asked{}, console.Invalid("health: no process has used the data folder: %w\nhint: --data FOLDER, or the URL of a server or of a worker's --metrics", err)
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

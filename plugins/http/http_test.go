package http_test

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"

	job "github.com/turnus/turnus/plugins/http"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"state":"ok"}`) })
	mux.HandleFunc("/teapot", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+r.Header.Get("X-Token")+" "+r.Host+" "+string(body))
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x ", 3<<19)) // the reader may hang up
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/ok")
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	return mux
}

func TestRequest(t *testing.T) {
	plain := httptest.NewServer(handler())
	defer plain.Close()
	secure := httptest.NewUnstartedServer(handler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	secure.StartTLS()
	defer secure.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	for name, tc := range map[string]struct {
		with            sdk.With
		outcome, reason string
		status          float64
		body            string
	}{
		"good":                {sdk.With{"url": "PLAIN/ok"}, "unchanged", "", 200, `{"state":"ok"}`},
		"a match":             {sdk.With{"url": "PLAIN/ok", "body_match": `"ok"`}, "unchanged", "", 200, `{"state":"ok"}`},
		"no match":            {sdk.With{"url": "PLAIN/ok", "body_match": "^bad$"}, "failed", "does not match ^bad$", 200, `{"state":"ok"}`},
		"another status":      {sdk.With{"url": "PLAIN/teapot?token=secret"}, "failed", "PLAIN/teapot: status 418, expected [200]", 418, ""},
		"an expected one":     {sdk.With{"url": "PLAIN/teapot", "expect": []int{200, 418}}, "unchanged", "", 418, ""},
		"all of a request":    {sdk.With{"url": "PLAIN/echo", "method": "POST", "body": "b", "headers": sdk.With{"X-Token": "t", "host": "h.example"}, "changed": true}, "changed", "", 200, "POST t h.example b"},
		"large, in bounds":    {sdk.With{"url": "PLAIN/big", "body_match": "^[x ]+$"}, "unchanged", "", 200, strings.TrimSuffix(strings.Repeat("x ", 12<<10), " ")},
		"a redirect":          {sdk.With{"url": "PLAIN/moved"}, "failed", "status 302", 302, ""},
		"followed":            {sdk.With{"url": "PLAIN/moved", "follow": true}, "unchanged", "", 200, `{"state":"ok"}`},
		"in circles":          {sdk.With{"url": "PLAIN/loop", "follow": true}, "failed", "more than 10 redirects", 0, ""},
		"without an answer":   {sdk.With{"url": "PLAIN/hang?token=secret", "timeout": "20ms"}, "failed", "GET PLAIN/hang from the worker: context deadline exceeded", 0, ""},
		"nobody listens":      {sdk.With{"url": "http://127.0.0.1:1/?token=secret"}, "failed", "connection refused", 0, ""},
		"an unknown CA":       {sdk.With{"url": "SECURE/ok"}, "failed", "certificate", 0, ""},
		"a trusted CA":        {sdk.With{"url": "SECURE/ok", "ca": ca}, "unchanged", "", 200, `{"state":"ok"}`},
		"any certificate":     {sdk.With{"url": "SECURE/ok", "tls_verify": false}, "unchanged", "", 200, `{"state":"ok"}`},
		"no URL":              {sdk.With{"url": "ftp://x"}, "failed", "does not match", 0, ""},
		"a bad regexp":        {sdk.With{"url": "PLAIN/ok", "body_match": "("}, "failed", "with.body_match", 0, ""},
		"a CA that is none":   {sdk.With{"url": "PLAIN/ok", "ca": "x"}, "failed", "with.ca: expected certificates in PEM", 0, ""},
		"a method that isn't": {sdk.With{"url": "PLAIN/ok", "method": "get it"}, "failed", "with.method", 0, ""},
	} {
		for _, from := range []string{"worker", "host"} {
			t.Run(name+" from the "+from, func(t *testing.T) {
				with := sdk.With{"from": from}
				place := strings.NewReplacer("PLAIN", plain.URL, "SECURE", secure.URL)
				for k, v := range tc.with {
					if text, ok := v.(string); ok {
						v = place.Replace(text)
					}
					with[k] = v
				}
				kit := plugintest.New(t, job.Def(netip.MustParsePrefix("127.0.0.0/8")))
				kit.Host("r1").Local() // dials for real
				got := kit.Run(with)
				reason := strings.ReplaceAll(place.Replace(tc.reason), "from the worker", "from the "+from)
				if got.Outcome != tc.outcome || !strings.Contains(got.Reason, reason) {
					t.Errorf("got %s (%s), want %s (%s)", got.Outcome, got.Reason, tc.outcome, reason)
				}
				if strings.Contains(got.Reason, "secret") {
					t.Errorf("the reason shows the query: %s", got.Reason)
				}
				if tc.status != 0 && (got.Outputs["status"] != tc.status || got.Outputs["body"] != tc.body) {
					t.Errorf("status %v, body %.80q; want %v, %.80q", got.Outputs["status"], got.Outputs["body"], tc.status, tc.body)
				}
			})
		}
	}
}

func TestUnreachableHostIsUnreachable(t *testing.T) {
	kit := plugintest.New(t, job.Def())
	kit.Host("r1").Down(plugintest.Unreachable("r1", true))
	got := kit.Run(sdk.With{"url": "http://127.0.0.1:80/", "from": "host"})
	if got.Outcome != "unreachable" || got.Effects != "none" {
		t.Errorf("got %s (%s), effects %s", got.Outcome, got.Reason, got.Effects)
	}
}

func TestCheckModeOnlyLooks(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer server.Close()
	for name, tc := range map[string]struct {
		with  sdk.With
		asked int
	}{
		"GET":      {sdk.With{"url": server.URL}, 1},
		"POST":     {sdk.With{"url": server.URL, "method": "POST"}, 0},
		"the host": {sdk.With{"url": server.URL, "from": "host"}, 0},
	} {
		asked = 0
		kit := plugintest.New(t, job.Def(netip.MustParsePrefix("127.0.0.0/8")))
		kit.Host("r1").Local()
		if got := kit.Check(tc.with); got.Outcome != "unchanged" || asked != tc.asked {
			t.Errorf("%s: got %s (%s), asked %d times, want %d", name, got.Outcome, got.Reason, asked, tc.asked)
		}
	}
}

// A playbook does not reach the worker's own network: by an address, an address in another form, a
// name or a redirect. Each of the requests arrives where the operator opened the network, and from
// the host.
func TestFaultS11WorkersNetworkIsKept(t *testing.T) {
	asked := 0
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer inside.Close()
	port := inside.URL[strings.LastIndex(inside.URL, ":"):]
	opened := netip.MustParsePrefix("127.0.0.1/32")
	front := httptest.NewUnstartedServer(http.RedirectHandler(inside.URL, http.StatusFound))
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = front.Listener.Close()
	front.Listener = listener
	front.Start()
	defer front.Close()
	outer := netip.MustParsePrefix("127.0.0.2/32")
	for name, url := range map[string]string{
		"an address": inside.URL, "a name": "http://localhost" + port, "IPv4 in IPv6": "http://[::ffff:127.0.0.1]" + port,
		"no address": "http://0.0.0.0" + port, "a redirect": front.URL,
	} {
		t.Run(name, func(t *testing.T) {
			try := func(from string, reach ...netip.Prefix) *plugintest.Result {
				kit := plugintest.New(t, job.Def(reach...))
				kit.Host("r1").Local()
				asked = 0
				return kit.Run(sdk.With{"url": url, "from": from, "follow": true})
			}
			if got := try("worker", outer); asked != 0 || got.Outcome != "failed" || !strings.Contains(got.Reason, "--plugin-allow http=") ||
				strings.Contains(strings.ReplaceAll(got.Reason, url, ""), "127.0.0.1") {
				t.Errorf("got %s (%s), asked %d times", got.Outcome, got.Reason, asked)
			}
			if got := try("worker", outer, opened, netip.MustParsePrefix("0.0.0.0/32")); asked != 1 {
				t.Errorf("opened: got %s (%s), asked %d times", got.Outcome, got.Reason, asked)
			}
			if got := try("host"); asked != 1 {
				t.Errorf("from the host: got %s (%s), asked %d times", got.Outcome, got.Reason, asked)
			}
		})
	}
}

package firmware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/outward"
)

// stager brings an artifact to a device. Both job types do.
type stager struct {
	host *sdk.Host
	*Device
	driver driver
	web    *http.Client
	// artifact reads a file of the worker (see sdk.Run.Artifact).
	artifact func(ctx context.Context, name string, most int64, w io.Writer) (sdk.FileInfo, error)
	progress func(done float64, what string)
}

func (d *Device) folder() string { return path.Join(d.StateDir, "staged") }

var extension = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\.[A-Za-z0-9]{1,10}$`) })

// file is the staged artifact. Its name identifies its content.
func (d *Device) file() string {
	ext := path.Ext(d.Artifact.Path + strings.SplitN(d.Artifact.URL, "?", 2)[0])
	if !extension().MatchString(ext) {
		ext = ""
	}
	return path.Join(d.folder(), d.Artifact.SHA256+ext)
}

func (d *Device) sigFile() string {
	if d.Artifact.Signature == "" {
		return ""
	}
	return path.Join(d.folder(), d.Artifact.SHA256+".signature")
}

// errInner does not name the address: a name of the worker's network may be none of the reader's.
var errInner = errors.New("its address is in the worker's own network, which playbooks may not reach from the worker\n" +
	"hint: give the artifact by path, or start the worker with --plugin-allow http=NETWORK, as 10.1.2.0/24")

// newWeb makes a client that reaches the worker's own network only where it is in one of the
// networks reach: what a server answers goes to a device of the playbook's author. It has no proxy,
// which would reach the rest.
func newWeb(reach []netip.Prefix) *http.Client {
	guard := &outward.Guard{Allow: reach, Refused: errInner}
	return &http.Client{Transport: &http.Transport{DialContext: guard.Dialer().DialContext, DisableKeepAlives: true}}
}

func runStage(ctx context.Context, r *sdk.Run[StageParams, sdk.NoState], web *http.Client) error {
	p := &r.Params
	s := &stager{host: r.Host(), Device: &p.Device, driver: p.of(), web: web, artifact: r.Artifact, progress: r.Progress}
	r.Output("file", p.file())
	f, a, err := inspect(ctx, s.host, s.driver, false, time.Duration(p.ConnectTimeout), s.questions()...)
	if err != nil {
		return fmt.Errorf("inspect the device: %w", err)
	}
	if err := p.fits(f); err != nil {
		return err
	}
	if s.there(a) {
		if !r.Check { // rauc needs files of its own for it
			if err := s.verify(ctx, f); err != nil {
				return err
			}
		}
		r.Explain("it is there")
		return nil
	}
	r.Changed()
	if r.Check {
		r.Explain("would bring it to " + p.file())
		return nil
	}
	begin := time.Now()
	sent, err := s.bring(ctx, a)
	if err != nil {
		return err
	}
	r.Output("size", sent)
	r.Output("seconds", time.Since(begin).Round(time.Millisecond).Seconds())
	return s.verify(ctx, f)
}

// fits refuses an artifact that is for another kind of device.
func (d *Device) fits(f facts) error {
	if want := d.Artifact.Compatible; want != "" && want != f.Compatible {
		return sdk.Refuse("the artifact is for %q, the device is %q", want, f.Compatible)
	}
	return nil
}

// questions returns the questions of staging.
func (s *stager) questions() []question {
	there := "test -f " + sdk.Quote(s.file())
	if sig := s.sigFile(); sig != "" {
		there += " && test -f " + sdk.Quote(sig)
	}
	return []question{
		{"there", there + " && sha256sum " + sdk.Quote(s.file())},
		// Files in the folder will make room: they are counted as free.
		{"free", "d=" + sdk.Quote(s.folder()) + `; u=$(du -sk "$d" 2>/dev/null | cut -f 1); while [ ! -d "$d" ]; do d=${d%/*}; d=${d:-/}; done; ` +
			`df -Pk "$d" | awk -v u="${u:-0}" 'NR == 2 { printf "%.0f", $4 + u }'`},
	}
}

// there reports whether the artifact is on the device, by its hash.
func (s *stager) there(a answers) bool {
	sum, err := a.text("there")
	return err == nil && strings.HasPrefix(sum, s.Artifact.SHA256+" ")
}

// margin is left free beside the artifact.
const margin = 1 << 20

// bring makes room and uploads. The transfer writes a part file, compares its hash on the device,
// and renames it.
func (s *stager) bring(ctx context.Context, a answers) (int64, error) {
	text, err := a.text("free")
	if err != nil {
		return 0, err
	}
	free, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, sdk.Refuse("the device does not report how much space is free below %s: %w", s.StateDir, err)
	}
	src, err := s.open(ctx, free<<10-margin)
	if err != nil {
		return 0, err
	}
	defer src.close()
	folder := sdk.Quote(s.folder())
	clear := "umask 077; mkdir -p -- " + folder + " && find " + folder + " -mindepth 1 -maxdepth 1 -type f -exec rm -f -- {} +"
	if err := s.host.Short(ctx, sdk.Command{Run: clear}).Err(); err != nil {
		return 0, fmt.Errorf("making room: %w", err)
	}
	put := sdk.PutFile{Path: s.file(), Mode: 0o600, SHA256: s.Artifact.SHA256, Size: src.size, Rate: int64(s.Rate)}
	s.progress(0.1, "upload")
	var sent sdk.Written
	if src.body != nil {
		sent, err = s.host.Put(ctx, put, src.body)
	} else {
		sent, err = s.host.PutArtifact(ctx, put, s.Artifact.Path)
	}
	if err != nil {
		return 0, fmt.Errorf("upload: %w", err)
	}
	if sig := s.sigFile(); sig != "" {
		if _, err := s.host.PutArtifact(ctx, sdk.PutFile{Path: sig, Mode: 0o600}, s.Artifact.Signature); err != nil {
			return 0, fmt.Errorf("upload of the signature: %w", err)
		}
	}
	return sent.Size, nil
}

// source is the content to upload: a file of the worker, or the answer of a server.
type source struct {
	size int64
	body io.ReadCloser // nil: a file of the worker
}

func (s *source) close() {
	if s.body != nil {
		_ = s.body.Close()
	}
}

// errSeen ends the reading of a file whose size is all that is wanted.
var errSeen = errors.New("seen")

type once struct{}

func (once) Write([]byte) (int, error) { return 0, errSeen }

// open refuses what has more than most bytes before anything is sent.
func (s *stager) open(ctx context.Context, most int64) (*source, error) {
	a := s.Artifact
	full := func(size string) error {
		return sdk.Refuse("the device has no room: %d bytes are free below %s, the artifact has %s", max(most, 0), s.StateDir, size)
	}
	if a.URL == "" {
		_, err := s.artifact(ctx, a.Path, max(most, 1), once{})
		switch {
		case errors.Is(err, sdk.ErrTooLarge):
			return nil, full("more")
		case err != nil && !errors.Is(err, errSeen):
			return nil, fmt.Errorf("artifact %s: %w", a.Path, err)
		}
		return &source{}, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.web.Do(req)    //nolint:bodyclose // source.close does
	if errors.Is(err, errInner) { // without the address that the dialer puts before it
		return nil, sdk.Refuse("getting the artifact: %w", errInner)
	}
	if err != nil {
		return nil, sdk.Refuse("getting the artifact: %w", err).Retryable()
	}
	src := &source{size: resp.ContentLength, body: resp.Body}
	switch {
	case resp.StatusCode != http.StatusOK:
		err = sdk.Refuse("getting the artifact: %s answers %s", req.URL.Redacted(), resp.Status).Retryable()
	case resp.ContentLength <= 0:
		err = sdk.Refuse("getting the artifact: %s does not report its size", req.URL.Redacted())
	case resp.ContentLength > most:
		err = full(strconv.FormatInt(resp.ContentLength, 10))
	}
	if err != nil {
		src.close()
		return nil, err
	}
	return src, nil
}

// verify has the device verify the staged artifact. An artifact that is not genuine does not stay.
func (s *stager) verify(ctx context.Context, f facts) error {
	s.progress(0.9, "verify")
	result := s.host.Short(ctx, sdk.Command{Run: s.driver.verify(s.file())})
	err := result.Err()
	var exit *sdk.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("verifying: %w", err)
	}
	if err == nil {
		err = s.driver.verified(result.Stdout, f)
	}
	if err == nil {
		return nil
	}
	gone := s.host.Short(ctx, sdk.Command{Run: "rm -f -- " + sdk.Quote(s.file())}).Err()
	return sdk.Refuse("the device refuses the artifact: %w", errors.Join(err, gone))
}

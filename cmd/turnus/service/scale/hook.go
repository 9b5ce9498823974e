package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// Hook makes the call of a hook: an http:// or https:// URL gets a POST, signed with secret where
// there is one; anything else is a command line for /bin/sh, which has the request on its standard
// input. Errors wrap core.ErrInvalid.
func Hook(target string, secret []byte) (func(ctx context.Context, r Request) error, error) {
	if strings.TrimSpace(target) == "" {
		return nil, fmt.Errorf("the hook of scaling is empty: expected a URL or a command: %w", core.ErrInvalid)
	}
	if strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://") {
		if u, err := url.Parse(target); err != nil || u.Host == "" {
			return nil, fmt.Errorf("the hook of scaling is no URL: %w", core.ErrInvalid)
		}
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		return func(ctx context.Context, r Request) error { return post(ctx, client, target, secret, r) }, nil
	}
	if len(secret) > 0 {
		return nil, fmt.Errorf("a secret signs what is posted to a URL, and the hook of scaling is a command: %w", core.ErrInvalid)
	}
	return func(ctx context.Context, r Request) error { return command(ctx, target, r) }, nil
}

func post(ctx context.Context, client *http.Client, target string, secret []byte, r Request) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("call the webhook: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if len(secret) > 0 {
		req.Header.Set(core.WebhookHeader, core.SignWebhook(secret, body))
	}
	resp, err := client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok { // the URL may hold a password
			err = u.Err
		}
		return fmt.Errorf("call the webhook: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("call the webhook: it answered %s", resp.Status)
	}
	return nil
}

// maxSaid is how much of a hook's output is reported.
const maxSaid = 2 << 10

// command runs a hook in a process group of its own, which ends with the time limit.
func command(ctx context.Context, line string, r Request) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line) //nolint:gosec // the operator's own
	said := &core.Head{Most: maxSaid}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(body, '\n')), said, said
	cmd.WaitDelay = 2 * time.Second // what it left behind with its output open is not waited for
	apart(cmd)
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrWaitDelay) { // it succeeded, and what it started continues
			return nil
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: it took over %v", core.ErrTimeout, callTime)
		}
		return fmt.Errorf("run the hook: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

package redisconn

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/turnus/turnus/core"
)

// deaf answers as Redis does, but never the blocking command; unblocked is its answer to CLIENT
// UNBLOCK.
func deaf(conn net.Conn, unblocked string) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		args, err := request(in)
		if err != nil {
			return
		}
		answer := "-ERR unknown command\r\n"
		switch strings.ToLower(strings.Join(args, " ")) {
		case "client id":
			answer = ":7\r\n"
		case "client unblock 7":
			answer = unblocked
		}
		if strings.EqualFold(args[0], "blpop") {
			continue
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// request reads an array of bulk strings.
func request(in *bufio.Reader) (args []string, err error) {
	length := func() int {
		var line string
		if line, err = in.ReadString('\n'); err != nil {
			return 0
		}
		n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		return n
	}
	for range length() {
		text := make([]byte, length()+len("\r\n"))
		if err == nil {
			_, err = io.ReadFull(in, text)
		}
		args = append(args, strings.TrimSpace(string(text)))
	}
	if err == nil && len(args) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return args, err
}

// A command that the server reports as unblocked had no answer, though a busy machine does not read
// that in time. The control: of one that was answered, and whose answer does not come, it is not
// known.
func TestBlockedTakesTheServersWordForAnEndedWait(t *testing.T) {
	for unblocked, want := range map[string]error{":1\r\n": nil, ":0\r\n": core.ErrUnknown} {
		synctest.Test(t, func(t *testing.T) {
			client := goredis.NewClient(&goredis.Options{
				Addr: "127.0.0.1:1", MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
				Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: 4,
				Dialer: func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go deaf(theirs, unblocked) // it ends with the client
					return ours, nil
				},
			})
			c, err := New("test", client)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			answered, err := c.Blocked(t.Context(), "k", time.Second, "blpop", "k", BlockTime{})
			if answered || want == nil && err != nil || want != nil && !errors.Is(err, want) && !errors.Is(err, core.ErrUnavailable) {
				t.Errorf("%q: %v, %v, expected %v", unblocked, answered, err, want)
			}
			if took := time.Since(began); took > time.Second+2*grace {
				t.Errorf("%q: it took %v", unblocked, took)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

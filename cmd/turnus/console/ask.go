package console

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// AskUnseen asks on the terminal without echo; without a terminal it returns an error. A signal in
// between gives the terminal its echo back.
func (c *Console) AskUnseen(question string) ([]byte, error) {
	in, ok := c.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil, errors.New("standard input is not a terminal")
	}
	fd := int(in.Fd())
	state, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	got, end := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(got, os.Interrupt, syscall.SIGTERM)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-got:
			_ = term.Restore(fd, state)
			signal.Stop(got)
			if number, ok := s.(syscall.Signal); ok {
				_ = syscall.Kill(os.Getpid(), number) // now it ends the process, as it would have
			}
		case <-end:
		}
	})
	defer func() { signal.Stop(got); close(end); wg.Wait() }()
	fmt.Fprint(c.Err, question)
	value, err := term.ReadPassword(fd)
	fmt.Fprintln(c.Err)
	return value, err
}

package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Question is one thing that a person is asked for.
type Question struct {
	Name, Expected, Description string
	Default                     any                // nil: none; an empty answer takes it
	Required                    bool               // without a Default, an empty answer is asked again
	Accept                      func(string) error // nil takes every answer
}

// tries is how often a question is asked until its answer is right.
const tries = 3

// Prompt asks the questions on the terminal, and returns the answers that were not empty, by name.
// When the context ends, or without a terminal for a question, it returns an error.
func (c *Console) Prompt(ctx context.Context, questions []Question) (map[string]any, error) {
	if len(questions) == 0 {
		return map[string]any{}, nil
	}
	in, ok := c.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil, Invalid("--ask: standard input is not a terminal\nhint: give values with -e NAME=VALUE")
	}
	type reply struct {
		answers map[string]any
		err     error
	}
	came := make(chan reply, 1)
	go func() { // ends with the process if nobody answers: a read of a terminal cannot be interrupted
		answers, err := ask(bufio.NewReader(in), c.Err, questions)
		came <- reply{answers, err}
	}()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("--ask: no answer: %w", ctx.Err())
	case r := <-came:
		return r.answers, r.err
	}
}

func ask(in *bufio.Reader, out io.Writer, questions []Question) (map[string]any, error) {
	answers := map[string]any{}
	for _, q := range questions {
		for try := 1; ; try++ {
			answer, err := q.ask(in, out)
			if err == nil {
				if answer != "" {
					answers[q.Name] = answer
				}
				break
			}
			if errors.Is(err, io.EOF) || try == tries {
				return nil, Invalid("--ask: %s: no answer: %w", q.Name, err)
			}
			fmt.Fprintln(out, err)
		}
	}
	return answers, nil
}

func (q Question) ask(in *bufio.Reader, out io.Writer) (string, error) {
	about := q.Expected
	if q.Description != "" {
		about = q.Description + ": " + about
	}
	switch {
	case q.Default != nil:
		about += fmt.Sprintf(", %v when empty", q.Default)
	case !q.Required:
		about += ", may be empty"
	}
	fmt.Fprintf(out, "%s (%s): ", q.Name, about)
	line, err := in.ReadString('\n')
	answer := strings.TrimRight(line, "\r\n")
	switch {
	case answer == "" && err != nil:
		return "", io.EOF
	case answer == "" && q.Default == nil && q.Required:
		return "", fmt.Errorf("expected %s", q.Expected)
	case answer == "" || q.Accept == nil:
		return answer, nil
	}
	return answer, q.Accept(answer)
}

package language

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	codeSpan    = regexp.MustCompile("``[^`]+``|`[^`]+`")
	path        = regexp.MustCompile(`[\w.-]+(?:/[\w.-]+)+`)
	flagName    = regexp.MustCompile(`--[a-z][a-z-]*`)
	linkTarget  = regexp.MustCompile(`\]\([^)\s]*\)`)
	sentenceEnd = regexp.MustCompile(`[.!?]["')\]*]*\s+`)
	listItem    = regexp.MustCompile(`^\s*(?:[-*+]|\d+\.)\s+`)
	example     = regexp.MustCompile(`(?m)^(?:  |\t).*$`)
	clauseFirst = regexp.MustCompile(`^(?:How|That|Where|Whether|Which)\b[^?]*$`) // a rule has What and Who
	dated       = regexp.MustCompile(`^\(20\d\d-\d\d-\d\d\)`)
	reference   = regexp.MustCompile(`^\s*\[[^\]]+\]:\s`)
)

// Page returns what is wrong with a page of Markdown: its sentences, and their median.
func Page(text string) []string {
	found := Prose(text)
	var lengths []int
	for _, b := range blocks(text) {
		for _, s := range Sentences(b.text) {
			if n := count(s); !b.cell && n >= 3 {
				lengths = append(lengths, n)
			}
		}
	}
	if m := median(lengths); m > MaxMedianWords {
		found = append(found, fmt.Sprintf("the median sentence has %d words: at most %d", m, MaxMedianWords))
	}
	return found
}

// Guide returns what is wrong with a page that people read to do something: as Page, and words that
// the page of former versions may have.
func Guide(text string) []string { return append(Page(text), guideWords(text)...) }

// Reference returns what is wrong with a generated page: its columns, and the words that a guide
// must not have.
func Reference(text string) []string { return append(Columns(text), guideWords(text)...) }

func guideWords(text string) []string {
	return eachSentence(text, func(s string) []string { return broken(guideList(), s) })
}

// Prose returns what is wrong with the columns and the sentences of Markdown, each finding with its
// line.
func Prose(text string) []string { return append(Columns(text), eachSentence(text, Sentence)...) }

// eachSentence returns what check finds in the sentences of a page, each finding with its line.
func eachSentence(text string, check func(string) []string) (found []string) {
	for _, b := range blocks(text) {
		for _, s := range Sentences(b.text) {
			for _, problem := range check(s) {
				found = append(found, fmt.Sprintf("line %d: %s", b.line, problem))
			}
		}
	}
	return found
}

// Decisions returns what is wrong with a page of decisions: as Guide without the median, its
// headings, and the date and the length of each decision.
func Decisions(text string) []string {
	found := append(Prose(text), guideWords(text)...)
	section, start, lines := "", 0, 0
	for i, line := range append(strings.Split(text, "\n"), "# end") {
		heading, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !is || !strings.HasPrefix(line, "#") {
			if strings.TrimSpace(line) == "" {
				continue
			}
			if lines++; section != "" && lines == 1 && !dated.MatchString(line) {
				found = append(found, fmt.Sprintf("line %d: the decision %q has no date: begin it with (2026-11-23)", i+1, section))
			}
			continue
		}
		if section != "" && lines > MaxDecisionLines {
			found = append(found, fmt.Sprintf("line %d: the decision %q has %d lines: at most %d", start, section, lines, MaxDecisionLines))
		}
		section, start, lines = "", i+1, 0
		if strings.HasPrefix(line, "## ") {
			section = heading
		}
		problems := append(Sentence(plain(heading)), broken(guideList(), plain(heading))...)
		if strings.HasSuffix(heading, ",") || clauseFirst.MatchString(heading) {
			problems = append(problems, fmt.Sprintf("the heading %q: write a whole statement with a noun as the subject", heading))
		}
		for _, problem := range problems {
			found = append(found, fmt.Sprintf("line %d: %s", i+1, problem))
		}
	}
	return found
}

// Sentence returns what is wrong with a sentence: its words and its length.
func Sentence(s string) []string {
	found := Words(s)
	if n := count(s); n > MaxWords {
		found = append(found, fmt.Sprintf("%d words in %q: at most %d in a sentence", n, short(s), MaxWords))
	}
	return found
}

// Text returns what is wrong with the sentences of a text without Markdown: a help text, a message
// or a comment.
func Text(text string) []string {
	var found []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		paragraph = example.ReplaceAllString(paragraph, "")
		for _, s := range Sentences(strings.Join(strings.Fields(plain(paragraph)), " ")) {
			found = append(append(found, Sentence(s)...), broken(shownList(), s)...)
		}
	}
	return found
}

// Columns returns the lines of a page that are too long. A table and a code block may have long
// lines.
func Columns(text string) []string {
	var found []string
	fence := ""
	for i, line := range strings.Split(text, "\n") {
		if mark := fenceOf(line); mark != "" && (fence == "" || mark == fence) {
			fence = toggled(fence, mark)
			continue
		}
		if fence != "" || tableRow(line) {
			continue
		}
		if n := utf8.RuneCountInString(line); n > MaxColumns {
			found = append(found, fmt.Sprintf("line %d: %d columns: at most %d", i+1, n, MaxColumns))
		}
	}
	return found
}

func fenceOf(line string) string {
	if t := strings.TrimSpace(line); strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~") {
		return t[:3]
	}
	return ""
}

func toggled(fence, mark string) string {
	if fence == "" {
		return mark
	}
	return ""
}

func tableRow(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "|") }

// block is a paragraph, a list item or a cell of a table, from its line on, without its markup.
type block struct {
	line int
	text string
	cell bool
}

// blocks cuts a page into its prose. Headings, code blocks and references of links are left out.
func blocks(text string) []block {
	var all []block
	var open []string
	start, fence := 0, ""
	end := func() {
		if len(open) > 0 {
			all = append(all, block{line: start, text: plain(strings.Join(open, " "))})
		}
		open = nil
	}
	for i, line := range strings.Split(text, "\n") {
		if mark := fenceOf(line); mark != "" && (fence == "" || mark == fence) {
			fence = toggled(fence, mark)
			end()
			continue
		}
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			continue
		case trimmed == "", strings.HasPrefix(trimmed, "#"), strings.HasPrefix(trimmed, "<"), strings.HasPrefix(trimmed, "!["), reference.MatchString(line):
			end()
			continue
		case tableRow(line):
			end()
			for cell := range strings.SplitSeq(strings.Trim(trimmed, "|"), " | ") {
				all = append(all, block{line: i + 1, text: plain(cell), cell: true})
			}
			continue
		case listItem.MatchString(line):
			end()
			trimmed = listItem.ReplaceAllString(line, "")
		}
		if len(open) == 0 {
			start = i + 1
		}
		open = append(open, strings.TrimSpace(strings.TrimPrefix(trimmed, ">")))
	}
	end()
	return all
}

// plain is a text without code, flags, paths, targets of links and emphasis.
func plain(text string) string {
	text = flagName.ReplaceAllString(codeSpan.ReplaceAllString(text, "CODE"), "CODE")
	text = path.ReplaceAllString(linkTarget.ReplaceAllString(text, "]"), "PATH")
	return strings.TrimSpace(strings.NewReplacer("**", "", "[", "", "]", "").Replace(text))
}

// Sentences cuts a text at full stops, question and exclamation marks that a capital, a digit or
// code follows.
func Sentences(text string) []string {
	var all []string
	from := 0
	for _, m := range sentenceEnd.FindAllStringIndex(text, -1) {
		next, _ := utf8.DecodeRuneInString(text[m[1]:])
		if !unicode.IsUpper(next) && !unicode.IsDigit(next) && !strings.ContainsRune("`\"'($*", next) || abbreviation(text[from:m[1]]) {
			continue
		}
		all = append(all, strings.TrimSpace(text[from:m[1]]))
		from = m[1]
	}
	if rest := strings.TrimSpace(text[from:]); rest != "" {
		all = append(all, rest)
	}
	return all
}

func abbreviation(text string) bool {
	text = strings.TrimSpace(text)
	return slices.ContainsFunc([]string{"e.g.", "i.e.", "vs.", "No."}, func(a string) bool { return strings.HasSuffix(text, a) })
}

// count returns the words of a sentence: runs of characters that hold a letter or a digit.
func count(sentence string) int {
	n := 0
	for word := range strings.FieldsSeq(sentence) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

func median(lengths []int) int {
	if len(lengths) == 0 {
		return 0
	}
	slices.Sort(lengths)
	return lengths[len(lengths)/2]
}

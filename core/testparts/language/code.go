package language

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	speaks    = regexp.MustCompile(`(?i)(?:errorf?|err|hint|hinted|refused?|invalid|failf?|fatalf|doubtf|unclear|blame|fault|misfit|message|report|warn|note|trouble|translate|because|progress|fprintf|fprintln)$`)
	prose     = regexp.MustCompile(`^(?i:summary|detail|doc|hint|message|expected)$`)
	assigned  = regexp.MustCompile(`^(?:Text|Title|Detail|What|Hint)$`)
	logs      = regexp.MustCompile(`^(?:Debug|Info|Warn|Error)(?:Context)?$`)
	fails     = regexp.MustCompile(`^(?:(?:Error|Fatal|Log|Skip)f?)$`)
	verb      = regexp.MustCompile(`%[-+#0]*(?:\d+|\*)?(?:\.\d+)?(?:\[\d+\])?[a-zA-Z]`)
	directive = regexp.MustCompile(`^//(?:[a-z]+:|nolint|export |line )`)
	addressed = regexp.MustCompile(`https?://\S{40}`)
)

// Messages returns what is wrong with the errors, log messages and reports of a Go file, and with
// its texts in tags and values of fields: docs, summaries, details, messages and hints. Each
// finding has its line.
func Messages(path string, src []byte) ([]string, error) {
	fset, f, err := parse(path, src)
	if err != nil {
		return nil, err
	}
	var found []string
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			for at, text := range messages(n) {
				found = append(found, lines(fset, at, Text(verb.ReplaceAllString(text, "VALUE")))...)
			}
		case *ast.Field:
			if n.Tag == nil {
				break
			}
			for _, key := range []string{"doc", "jsonschema"} {
				found = append(found, lines(fset, n.Tag.Pos(), Text(reflect.StructTag(literal(n.Tag)).Get(key)))...)
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && prose.MatchString(key.Name) {
				found = append(found, lines(fset, n.Value.Pos(), Text(verb.ReplaceAllString(written(n.Value), "VALUE")))...)
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if to, ok := left.(*ast.SelectorExpr); ok && len(n.Rhs) == len(n.Lhs) && assigned.MatchString(to.Sel.Name) {
					found = append(found, lines(fset, n.Rhs[i].Pos(), Text(verb.ReplaceAllString(written(n.Rhs[i]), "VALUE")))...)
				}
			}
		}
		return true
	})
	return found, nil
}

// Failures returns what is wrong with the messages by which tests fail, log and are skipped. Each
// finding has its line.
func Failures(path string, src []byte) ([]string, error) {
	fset, f, err := parse(path, src)
	if err != nil {
		return nil, err
	}
	var found []string
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if fun, ok := call.Fun.(*ast.SelectorExpr); ok && fails.MatchString(fun.Sel.Name) {
			text := verb.ReplaceAllString(literal(call.Args[0]), "VALUE")
			found = append(found, lines(fset, call.Pos(), Text(text))...)
		}
		return true
	})
	return found, nil
}

// Comments returns what is wrong with the columns and the sentences of all comments of a Go file.
// Each finding has its line.
func Comments(path string, src []byte) ([]string, error) {
	fset, f, err := parse(path, src)
	if err != nil {
		return nil, err
	}
	var found []string
	names := documented(f)
	for _, group := range f.Comments {
		for _, paragraph := range paragraphs(group, names[group]) {
			found = append(found, lines(fset, group.Pos(), Text(paragraph))...)
		}
		for _, c := range group.List {
			if n := width(fset, c, src); n > MaxColumns {
				found = append(found, fmt.Sprintf("line %d: %d columns: at most %d in a comment", fset.Position(c.Pos()).Line, n, MaxColumns))
			}
		}
	}
	return found, nil
}

// LineComments returns the comments that are lines of their own and too long, in a file whose
// comments begin with mark. An indented example and a long address may be long.
func LineComments(mark, text string) []string {
	var found []string
	for i, line := range strings.Split(text, "\n") {
		comment, is := strings.CutPrefix(strings.TrimSpace(line), mark)
		if !is || strings.HasPrefix(comment, "   ") || addressed.MatchString(comment) {
			continue
		}
		if n := utf8.RuneCountInString(line); n > MaxColumns {
			found = append(found, fmt.Sprintf("line %d: %d columns: at most %d in a comment", i+1, n, MaxColumns))
		}
	}
	return found
}

// LineProse returns what is wrong with the sentences of such comments. Each finding has the last
// line of its paragraph.
func LineProse(mark, text string) []string {
	var found, open []string
	for i, line := range append(strings.Split(text, "\n"), "") {
		comment, is := strings.CutPrefix(strings.TrimSpace(line), mark+" ")
		if is && comment != "" && !strings.HasPrefix(comment, "  ") {
			open = append(open, comment)
			continue
		}
		for _, problem := range Text(strings.Join(open, " ")) {
			found = append(found, fmt.Sprintf("line %d: %s", i, problem))
		}
		open = nil
	}
	return found
}

// documented are the names of a file that a comment explains, by the comment.
func documented(f *ast.File) map[*ast.CommentGroup][]string {
	names := map[*ast.CommentGroup][]string{f.Doc: {"Package " + f.Name.Name}}
	add := func(of []*ast.Ident, comments ...*ast.CommentGroup) {
		for _, name := range of {
			for _, c := range comments {
				names[c] = append(names[c], name.Name)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add([]*ast.Ident{n.Name}, n.Doc)
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add([]*ast.Ident{s.Name}, n.Doc, s.Doc, s.Comment)
				case *ast.ValueSpec:
					add(s.Names, n.Doc, s.Doc, s.Comment)
				}
			}
		case *ast.Field:
			add(n.Names, n.Doc, n.Comment)
		}
		return true
	})
	return names
}

// paragraphs are the texts of a comment on names, also those of its lists, without headings and
// code. A name at its beginning may be a word of the list.
func paragraphs(group *ast.CommentGroup, names []string) []string {
	text := group.Text()
	for _, name := range names {
		if rest, ok := strings.CutPrefix(text, name+" "); ok {
			text = "CODE " + rest
		}
	}
	return blockTexts(new(comment.Parser).Parse(text).Content)
}

func blockTexts(content []comment.Block) []string {
	var all []string
	for _, b := range content {
		switch b := b.(type) {
		case *comment.Paragraph:
			text := new(comment.Printer).Text(&comment.Doc{Content: []comment.Block{b}})
			all = append(all, strings.Join(strings.Fields(string(text)), " "))
		case *comment.List:
			for _, item := range b.Items {
				all = append(all, blockTexts(item.Content)...)
			}
		}
	}
	return all
}

func lines(fset *token.FileSet, at token.Pos, problems []string) []string {
	var found []string
	for _, p := range problems {
		found = append(found, fmt.Sprintf("line %d: %s", fset.Position(at).Line, p))
	}
	return found
}

func parse(path string, src []byte) (*token.FileSet, *ast.File, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, src, parser.ParseComments)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot check the language of %s: %w", path, err)
	}
	return fset, f, nil
}

// messages are the string literals of a call that makes an error, a log line or a report, by their
// place.
func messages(call *ast.CallExpr) map[token.Pos]string {
	name, of := "", ""
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
		if x, ok := fun.X.(*ast.Ident); ok {
			of = x.Name
		}
	}
	if !speaks.MatchString(name) && !logs.MatchString(name) && (of != "errors" || name != "New") {
		return nil
	}
	texts := map[token.Pos]string{}
	for _, arg := range call.Args {
		if lit := literal(arg); lit != "" {
			texts[arg.Pos()] = lit
		}
		if logs.MatchString(name) && len(texts) > 0 {
			break // keys and values follow the message
		}
	}
	return texts
}

// written returns the text of a value: of a literal, or of the format of a call.
func written(e ast.Expr) string {
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) > 0 {
		return literal(call.Args[0])
	}
	return literal(e)
}

// literal returns the text of a string literal, or of literals that are joined.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			if text, err := strconv.Unquote(e.Value); err == nil {
				return text
			}
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return ""
}

// width is how many columns a comment has that is a line of its own; 0 for one that cannot be
// wrapped: a directive, a long address, indented code, or a comment behind code.
func width(fset *token.FileSet, c *ast.Comment, src []byte) int {
	at := fset.Position(c.Pos())
	indent := string(src[at.Offset-at.Column+1 : at.Offset])
	if strings.TrimSpace(indent) != "" || directive.MatchString(c.Text) || addressed.MatchString(c.Text) || strings.HasPrefix(c.Text, "//\t") || !strings.HasPrefix(c.Text, "//") {
		return 0
	}
	return utf8.RuneCountInString(indent + c.Text)
}

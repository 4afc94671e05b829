package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// Constant is one word of a closed set, with what its declaration says of it.
type Constant struct {
	Name    string // as Go calls it
	Value   string
	Comment string
}

// Constants reads the string constants of one type from a Go file, in order.
func Constants(file, typeName string) ([]Constant, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("read the constants of %s: %w", typeName, err)
	}
	var all []Constant
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, isValue := node.(*ast.ValueSpec)
		if !isValue || len(spec.Values) != 1 {
			return true
		}
		of, named := spec.Type.(*ast.Ident)
		literal, isLiteral := spec.Values[0].(*ast.BasicLit)
		if !named || of.Name != typeName || !isLiteral {
			return true
		}
		if value, err := strconv.Unquote(literal.Value); err == nil {
			all = append(all, Constant{spec.Names[0].Name, value, strings.TrimSpace(spec.Comment.Text())})
		}
		return true
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("%s declares no string constants of the type %s: has the type moved?", file, typeName)
	}
	return all, nil
}

// Texts reads a map literal from constants to strings out of a Go file.
func Texts(file, variable string) (map[string]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", variable, err)
	}
	all := map[string]string{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, isValue := node.(*ast.ValueSpec)
		if !isValue || spec.Names[0].Name != variable {
			return true
		}
		ast.Inspect(spec, func(node ast.Node) bool {
			pair, isPair := node.(*ast.KeyValueExpr)
			if !isPair {
				return true
			}
			key, isName := pair.Key.(*ast.Ident)
			literal, isLiteral := pair.Value.(*ast.BasicLit)
			if !isName || !isLiteral {
				return true
			}
			if value, err := strconv.Unquote(literal.Value); err == nil {
				all[key.Name] = value
			}
			return false
		})
		return false
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("%s declares no map %s: has it moved?", file, variable)
	}
	return all, nil
}

// Field is one key of a JSON object.
type Field struct {
	Key      string
	Type     string
	Optional bool
	Comment  string
}

// Fields reads the JSON keys of a struct from a Go file, in order.
func Fields(file, typeName string) ([]Field, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("read the fields of %s: %w", typeName, err)
	}
	var all []Field
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, isType := node.(*ast.TypeSpec)
		if !isType || spec.Name.Name != typeName {
			return true
		}
		declared, isStruct := spec.Type.(*ast.StructType)
		if !isStruct {
			return false
		}
		for _, field := range declared.Fields.List {
			if field.Tag != nil {
				all = append(all, jsonField(field))
			}
		}
		return false
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("%s declares no struct %s with JSON keys: has it moved?", file, typeName)
	}
	return all, nil
}

func jsonField(field *ast.Field) Field {
	tag, _ := strconv.Unquote(field.Tag.Value)
	key, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	text := field.Doc.Text()
	if text == "" {
		text = field.Comment.Text()
	}
	return Field{Key: key, Type: jsonType(field.Type), Optional: strings.HasPrefix(options, "omit"), Comment: oneLine(text)}
}

// jsonType says what a value is in JSON.
func jsonType(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return jsonType(e.X)
	case *ast.ArrayType:
		return "list"
	case *ast.SelectorExpr:
		if e.Sel.Name == "Time" {
			return "time"
		}
	case *ast.Ident:
		switch e.Name {
		case "string":
			return "text"
		case "bool":
			return "true or false"
		case "int", "int64", "uint64":
			return "number"
		}
	}
	return "object"
}

// oneLine fits a text into a cell of a table.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

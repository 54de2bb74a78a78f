package lint

import (
	"go/ast"
	"go/token"
)

// exposed: no exported declaration of the public packages names a type of a third
// party or of an internal package of ours.
func exposed(t *Tree, report Report) {
	t.files(func(_ *Package, f *File) {
		foreign := map[string]string{}
		for _, i := range f.Imports {
			dir, own := t.own(i.Path)
			if own && !under(dir, "page", "disclosure") || !own && !standard(i.Path) {
				foreign[i.Name] = i.Path
			}
		}
		// look reports what an expression of the surface takes from elsewhere.
		var look func(n ast.Node)
		look = func(n ast.Node) {
			ast.Inspect(n, func(n ast.Node) bool {
				switch x := n.(type) {
				case *ast.SelectorExpr:
					if id, ok := x.X.(*ast.Ident); ok && id.Obj == nil && foreign[id.Name] != "" {
						report(f.Path, t.line(x), "exposes %s.%s of %s", id.Name, x.Sel.Name, foreign[id.Name])
					}
				case *ast.StructType:
					for _, field := range x.Fields.List {
						if len(field.Names) == 0 || exportedAny(field.Names) { // embedded fields promote what they have
							look(field.Type)
						}
					}
					return false
				case *ast.BlockStmt:
					return false // the inside of a function
				}
				return true
			})
		}
		for _, d := range f.AST.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && (d.Recv == nil || receiverExported(d.Recv)) {
					look(d.Type)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() {
							look(s.Type)
							if s.TypeParams != nil {
								look(s.TypeParams)
							}
						}
					case *ast.ValueSpec:
						if d.Tok == token.VAR && exportedAny(s.Names) {
							if s.Type != nil {
								look(s.Type)
							}
							for _, v := range s.Values {
								if s.Type == nil {
									look(v) // its type is that of the value
								}
							}
						}
					}
				}
			}
		}
	}, "page", "disclosure")
}

func exportedAny(names []*ast.Ident) bool {
	for _, n := range names {
		if n.IsExported() {
			return true
		}
	}
	return false
}

// receiverExported reports whether a method belongs to an exported type.
func receiverExported(recv *ast.FieldList) bool {
	ok := false
	ast.Inspect(recv.List[0].Type, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is && !ok {
			ok = id.IsExported()
			return false
		}
		return true
	})
	return ok
}
